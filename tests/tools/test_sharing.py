"""Delta Sharing's reader reads the files of a table of ours, in both of its formats, from a server on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import delta_sharing
import pyarrow as pa
import pytest

import tahoe


class Server(BaseHTTPRequestHandler):
    """Answers as the protocol of Delta Sharing says, for one table whose log is one commit after another, without
    checkpoints.
    """

    protocol_version = "HTTP/1.1"
    folder: Path

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        """A data file, whole or a range of it."""
        data = (self.folder / unquote(self.path.removeprefix("/files/"))).read_bytes()
        begin, end = 0, len(data)
        if asked := self.headers.get("Range"):
            first, _, last = asked.removeprefix("bytes=").partition("-")
            begin, end = (int(first), int(last) + 1 if last else end) if first else (end - int(last), end)
        self.send_response(206 if asked else 200)
        self.send_header("Content-Range", f"bytes {begin}-{min(end, len(data)) - 1}/{len(data)}")
        self.send_header("Accept-Ranges", "bytes")
        self.answer(data[begin:end])

    def do_POST(self) -> None:
        """The files of the table, as actions of Delta or in the format of Delta Sharing."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        in_delta = "responseformat=delta" in self.headers.get("delta-sharing-capabilities", "")
        lines = list(self.actions() if in_delta else self.files())
        self.send_response(200)
        self.send_header("delta-table-version", str(tahoe.Table(str(self.folder)).version))
        self.send_header("delta-sharing-capabilities", f"responseformat={'delta' if in_delta else 'parquet'}")
        self.answer("\n".join(map(json.dumps, lines)).encode())

    def answer(self, body: bytes) -> None:
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def url(self, path: str) -> str:
        host, port = self.server.server_address[:2]
        return f"http://{host}:{port}/files/{quote(path)}"

    def newest(self) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
        """The protocol, the metadata and the live files, straight from the JSON of the log."""
        found: dict[str, Any] = {}
        live: dict[str, dict[str, Any]] = {}
        for commit in sorted((self.folder / "_delta_log").glob("*.json")):
            for action in map(json.loads, commit.read_text().splitlines()):
                found |= {kind: value for kind, value in action.items() if kind in ("protocol", "metaData")}
                if "remove" in action:
                    live.pop(action["remove"]["path"], None)
                if "add" in action:
                    live[action["add"]["path"]] = action["add"]
        return found["protocol"], found["metaData"], list(live.values())

    def actions(self) -> Iterator[dict[str, Any]]:
        protocol, metadata, adds = self.newest()
        yield {"protocol": {"deltaProtocol": protocol}}
        yield {"metaData": {"deltaMetadata": metadata}}
        for add in adds:  # the reader's kernel fetches only signed https urls itself; it opens others as files
            shared = add | {"path": (self.folder / unquote(add["path"])).as_uri()}
            yield {"file": {"id": add["path"], "size": add["size"], "deltaSingleAction": {"add": shared}}}

    def files(self) -> Iterator[dict[str, Any]]:
        _, metadata, adds = self.newest()
        yield {"protocol": {"minReaderVersion": 1}}
        kept = {name: metadata[name] for name in ("id", "format", "schemaString", "partitionColumns")}
        yield {"metaData": kept}
        for add in adds:
            url = self.url(unquote(add["path"]))
            yield {
                "file": {"url": url, "id": add["path"], "partitionValues": add["partitionValues"], "size": add["size"]}
            }


@contextmanager
def shared(folder: Path) -> Iterator[str]:
    """The url of a table for the reader."""
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Of", (Server,), {"folder": folder})) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        profile = folder.with_name("profile.share")
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        profile.write_text(json.dumps({"shareCredentialsVersion": 1, "endpoint": endpoint, "bearerToken": "none"}))
        try:
            yield f"{profile}#share.schema.table"
        finally:
            server.shutdown()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = pa.table({"id": list(range(20)), "part": ["a b", "c"] * 10, "amount": pa.array([None, 1.5] * 10)})
    made = tahoe.Table(str(tmp_path / "t"))
    made.append(rows.slice(0, 12), partition_by=["part"])
    made.append(rows.slice(12))
    with made.transaction() as transaction:
        transaction.delete("part = 'c' and id > 15")
    return tmp_path / "t"


@pytest.mark.parametrize("use_delta_format", [False, True])
def test_the_reader_of_delta_sharing(table: Path, use_delta_format: bool) -> None:
    with shared(table) as url:
        found = delta_sharing.load_as_pandas(url, use_delta_format=use_delta_format).sort_values("id")
    expected = tahoe.Table(str(table)).to_arrow().to_pandas().sort_values("id")
    assert len(expected) == 18
    assert found["id"].tolist() == expected["id"].tolist()
    assert found["part"].tolist() == expected["part"].tolist()
    assert found["amount"].dropna().tolist() == expected["amount"].dropna().tolist()
