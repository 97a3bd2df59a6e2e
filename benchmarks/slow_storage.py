"""An S3 server on loopback for a local folder, which waits before each answer and sends slowly, as one far away does.

It answers what readers and writers of tables ask: GET with ranges and conditions, HEAD, listings, PUT if there is no
such file, copies and deletions. An empty folder is Hadoop's marker of a directory. It counts its requests and the bytes
of files that it sends.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
import urllib.parse
import xml.etree.ElementTree as ET
from bisect import bisect_right
from collections import Counter, OrderedDict
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
_LISTINGS_MAX = 64


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
        self._listings: OrderedDict[tuple[str, str], list[str]] = OrderedDict()
        self.changes = threading.Lock()

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

    def listing(self, prefix: str, delimiter: str, after: str, *, is_continued: bool) -> list[str]:
        """The next entries behind one, and one more if there are more. Later pages are those of the first one."""
        entries = self._listings.get((prefix, delimiter)) if is_continued else None
        if entries is None:
            entries = sorted(_keys(self.folder, prefix, delimiter))
            self._listings[(prefix, delimiter)] = entries
            while len(self._listings) > _LISTINGS_MAX:
                self._listings.popitem(last=False)
        start = bisect_right(entries, after)
        return entries[start : start + _LIST_PAGE + 1]


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

    def do_PUT(self) -> None:
        self._begin("PUT")
        path = self._path()
        content = self._content()
        if self.path.partition("?")[0].endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
            self._answer(200, {"ETag": '"0"'})
            return
        source = self.headers.get("x-amz-copy-source")
        with self.server.changes:
            if self.headers.get("If-None-Match") == "*" and path.exists():
                self._answer(412, {})
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".put-", delete=False) as file:
                if source is None:
                    file.write(content)
                else:
                    shutil.copyfile(self._path("/" + urllib.parse.unquote(source).lstrip("/")), file.name)
            os.replace(file.name, path)
        etag = _etag(path.stat())
        copied = f'<?xml version="1.0"?><CopyObjectResult><ETag>{escape(etag)}</ETag></CopyObjectResult>'.encode()
        body = b"" if source is None else copied
        self._answer(200, {"ETag": etag, "Content-Type": "application/xml"}, len(body))
        self.wfile.write(body)

    def do_DELETE(self) -> None:
        self._begin("DELETE")
        self._delete(self._path())
        self._answer(204, {})

    def do_POST(self) -> None:
        """Delete several files. Uploads in parts are not answered."""
        self._begin("POST")
        content = self._content()
        if "delete" not in self.path.partition("?")[2]:
            self._answer(501, {})
            return
        for key in ET.fromstring(content).iter():
            if key.tag.rpartition("}")[2] == "Key":
                self._delete(self.server.folder / (key.text or ""))
        body = b'<?xml version="1.0"?><DeleteResult></DeleteResult>'
        self._answer(200, {"Content-Type": "application/xml"}, len(body))
        self.wfile.write(body)

    def _delete(self, path: Path) -> None:
        """A file, and the folders that are empty without it."""
        with self.server.changes:
            if path.is_file():
                path.unlink()
            for folder in (path, *path.parents):
                if folder == self.server.folder:
                    break
                if folder.is_dir() and not folder.is_symlink():
                    try:
                        folder.rmdir()
                    except OSError:  # it has other files
                        break

    def _content(self) -> bytes:
        """The body of a request, without the signatures of its pieces."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "aws-chunked" not in self.headers.get("Content-Encoding", "") and not self.headers.get(
            "x-amz-content-sha256", ""
        ).startswith("STREAMING-"):
            return body
        pieces, at = [], 0
        while True:
            end = body.index(b"\r\n", at)
            length = int(body[at:end].partition(b";")[0], 16)
            if not length:
                return b"".join(pieces)
            pieces.append(body[end + 2 : end + 2 + length])
            at = end + 2 + length + 2

    def _path(self, key: str = "") -> Path:
        key = key or urllib.parse.unquote(self.path.partition("?")[0])
        return self.server.folder / key.removeprefix(f"/{BUCKET}/")

    def _begin(self, method: str) -> None:
        self.server.requests[method] += 1
        time.sleep(SECONDS_A_REQUEST)

    def _file(self, *, with_content: bool) -> None:
        path = self._path()
        if not path.is_file() or self.path.partition("?")[0].endswith("/"):
            self._answer(404, {})
            return
        status = path.stat()
        etag = _etag(status)
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
        entries = self.server.listing(prefix, delimiter, after, is_continued="continuation-token" in parameters)
        page, rest = entries[:_LIST_PAGE], entries[_LIST_PAGE:]
        parts = [f"<IsTruncated>{'true' if rest else 'false'}</IsTruncated><KeyCount>{len(page)}</KeyCount>"]
        if rest:
            parts.append(f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>")
        for key in page:
            if key.endswith("/") and key != prefix:
                parts.append(f"<CommonPrefixes><Prefix>{escape(key)}</Prefix></CommonPrefixes>")
                continue
            status = (self.server.folder / key).stat()
            changed = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(status.st_mtime))
            parts.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>{changed}</LastModified>"
                f"<ETag>{escape(_etag(status))}</ETag><Size>{0 if key.endswith('/') else status.st_size}</Size>"
                "<StorageClass>STANDARD</StorageClass></Contents>"
            )
        body = f'<?xml version="1.0"?><ListBucketResult>{"".join(parts)}</ListBucketResult>'.encode()
        self._answer(200, {"Content-Type": "application/xml"}, len(body))
        self.wfile.write(body)

    def _answer(self, status: int, headers: dict[str, str], length: int = 0) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(length))
        self.end_headers()


def _etag(status: os.stat_result) -> str:
    return f'"{status.st_mtime_ns:x}-{status.st_size:x}"'


def _keys(root: Path, prefix: str, delimiter: str) -> Iterator[str]:
    """The keys below a prefix; with a delimiter, those of folders end in it, as those of empty folders do."""
    start, above_root = root / prefix.rpartition("/")[0], len(str(root)) + 1
    for inside, folders, files in os.walk(start):
        above = inside[above_root:]
        above = f"{above}/" if above else ""
        names = [name for name in files if not name.startswith(".put-")]
        if not names and not folders and above and above.startswith(prefix):
            yield above
        yield from (key for name in names if (key := above + name).startswith(prefix))
        if delimiter:
            yield from (key for name in folders if (key := f"{above}{name}/").startswith(prefix))
            return
