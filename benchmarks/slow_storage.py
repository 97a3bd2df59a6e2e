"""An S3 server on loopback for a local folder, which waits before each answer and sends slowly, as one far away does.

It answers GET with ranges and conditions, HEAD, and listings: what readers ask. It counts its requests and the bytes of
files that it sends.
"""

from __future__ import annotations

import os
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.sax.saxutils import escape

SECONDS_A_REQUEST = 0.03
BYTES_A_SECOND = 100e6
BUCKET = "lake"

_PIECE_BYTES = 128 << 10
_LIST_PAGE = 1000


class SlowStorage(ThreadingHTTPServer):
    """The server.

    Args:
        folder: what the bucket has.

    Attributes:
        requests: how many requests there were, by method; a GET that found nothing new is counted as `304`.
        sent_bytes: of files.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.folder = folder
        self.requests: Counter[str] = Counter()
        self.sent_bytes = 0
        self._line = threading.Lock()
        self._free_at = 0.0

    @property
    def options(self) -> dict[str, str]:
        """The storage options of a table in the bucket."""
        endpoint = f"http://127.0.0.1:{self.server_port}"
        return {"endpoint": endpoint, "aws_access_key_id": "x", "aws_secret_access_key": "y", "region": "us-east-1"}

    def reset(self) -> None:
        self.requests.clear()
        self.sent_bytes = 0

    def send(self, length: int) -> None:
        """Wait until so many bytes have gone through the line, which all connections share."""
        with self._line:
            now = time.perf_counter()
            self._free_at = max(self._free_at, now) + length / BYTES_A_SECOND
            self.sent_bytes += length
            wait = self._free_at - now
        time.sleep(wait)


@contextmanager
def slow_storage(folder: Path) -> Iterator[SlowStorage]:
    server = SlowStorage(folder)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: SlowStorage

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._begin("HEAD")
        self._file(with_content=False)

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        parameters = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        is_listing = path.strip("/") == BUCKET
        self._begin("LIST" if is_listing else "GET")
        if is_listing:
            self._listing(parameters)
        else:
            self._file(with_content=True)

    def _begin(self, method: str) -> None:
        self.server.requests[method] += 1
        time.sleep(SECONDS_A_REQUEST)

    def _file(self, *, with_content: bool) -> None:
        key = urllib.parse.unquote(self.path.partition("?")[0]).removeprefix(f"/{BUCKET}/")
        path = self.server.folder / key
        if not path.is_file():
            self._answer(404, {})
            return
        status = path.stat()
        etag = f'"{status.st_mtime_ns:x}-{status.st_size:x}"'
        headers = {"ETag": etag, "Last-Modified": formatdate(status.st_mtime, usegmt=True)}
        if self.headers.get("If-None-Match") == etag:
            self.server.requests["304"] += 1
            self._answer(304, headers)
            return
        if self.headers.get("If-Match", etag) != etag:
            self._answer(412, headers)
            return
        start, end = self._range(status.st_size)
        if start >= max(status.st_size, 1):
            self._answer(416, headers)
            return
        is_part = "Range" in self.headers
        if is_part:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{status.st_size}"
        self._answer(206 if is_part else 200, headers, end - start)
        if with_content:
            with open(path, "rb") as file:
                for at in range(start, end, _PIECE_BYTES):
                    length = min(_PIECE_BYTES, end - at)
                    self.server.send(length)
                    self.wfile.flush()
                    os.sendfile(self.connection.fileno(), file.fileno(), at, length)

    def _range(self, size: int) -> tuple[int, int]:
        text = self.headers.get("Range", "").removeprefix("bytes=")
        if not text:
            return 0, size
        start, _, last = text.partition("-")
        if not start:
            return max(size - int(last), 0), size
        return int(start), min(int(last) + 1, size) if last else size

    def _listing(self, parameters: dict[str, str]) -> None:
        prefix, delimiter = parameters.get("prefix", ""), parameters.get("delimiter", "")
        after = parameters.get("continuation-token") or parameters.get("start-after", "")
        files = sorted(self._keys(prefix, delimiter))
        entries = [key for key in files if key > after]
        page, rest = entries[:_LIST_PAGE], entries[_LIST_PAGE:]
        parts = [f"<IsTruncated>{'true' if rest else 'false'}</IsTruncated><KeyCount>{len(page)}</KeyCount>"]
        if rest:
            parts.append(f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>")
        for key in page:
            if key.endswith("/"):
                parts.append(f"<CommonPrefixes><Prefix>{escape(key)}</Prefix></CommonPrefixes>")
                continue
            status = (self.server.folder / key).stat()
            changed = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(status.st_mtime))
            parts.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>{changed}</LastModified>"
                f"<ETag>&quot;{status.st_mtime_ns:x}-{status.st_size:x}&quot;</ETag><Size>{status.st_size}</Size>"
                "<StorageClass>STANDARD</StorageClass></Contents>"
            )
        body = f'<?xml version="1.0"?><ListBucketResult>{"".join(parts)}</ListBucketResult>'.encode()
        self._answer(200, {"Content-Type": "application/xml"}, len(body))
        self.wfile.write(body)

    def _keys(self, prefix: str, delimiter: str) -> Iterator[str]:
        """The keys below a prefix; with a delimiter, those of folders end in it."""
        folder = self.server.folder / prefix.rpartition("/")[0]
        root = str(self.server.folder)
        for inside, folders, files in os.walk(folder):
            above = inside[len(root) + 1 :]
            above = f"{above}/" if above else ""
            yield from (key for name in files if (key := above + name).startswith(prefix))
            if delimiter:
                yield from (key for name in folders if (key := f"{above}{name}/").startswith(prefix))
                return

    def _answer(self, status: int, headers: dict[str, str], length: int = 0) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(length))
        self.end_headers()
