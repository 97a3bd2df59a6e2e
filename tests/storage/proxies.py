"""Proxies between a store and its server."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.storage.servers import Server

Answer = Callable[[BaseHTTPRequestHandler, Callable[[], None]], None]


@contextmanager
def proxied(server: Server, put: Answer, seen: list[str] | None = None) -> Iterator[Server]:
    """The server behind a proxy that lets `put` answer PUT requests; what it is given passes the request on.

    Args:
        seen: where other requests are written down, by method and path.
    """
    target = urlsplit(server.endpoint)

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def forward(self, *, answer: bool = True) -> None:
            if seen is not None and answer:
                seen.append(f"{self.command} {self.path}")
            connection = http.client.HTTPConnection(target.hostname or "", target.port)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection.request(self.command, self.path, body, dict(self.headers))
            response = connection.getresponse()
            data = response.read()
            if answer:
                self.send_response(response.status)
                for name, value in response.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection"):
                        self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

        do_GET = do_HEAD = do_POST = do_DELETE = forward  # noqa: N815 - the names are the base class's

        def do_PUT(self) -> None:
            put(self, lambda: self.forward(answer=False))

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        endpoint = f"http://127.0.0.1:{proxy.server_port}{target.path}"
        yield Server(server.url, {**server.options, "endpoint": endpoint}, endpoint)
    finally:
        proxy.shutdown()
        proxy.server_close()
