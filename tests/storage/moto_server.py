"""moto's server, one request at a time: python moto_server.py -p PORT.

moto looks at an item or an object and then puts it, without a lock. Of two conditional puts at the same moment both
would succeed, which neither S3 nor DynamoDB does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

from moto import server

_lock = Lock()


class _OneAtATime(server.DomainDispatcherApplication):
    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with _lock:
            found: Iterable[bytes] = super().__call__(environ, start_response)
            return found


if __name__ == "__main__":
    server.DomainDispatcherApplication = _OneAtATime  # type: ignore[misc]
    server.main()
