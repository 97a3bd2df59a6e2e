"""Runs the server until SIGINT or SIGTERM. Then running calls may finish, and what is ratified is published."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn

from tahoe.catalog.server.app import application
from tahoe.catalog.server.callers import is_loopback
from tahoe.catalog.server.service import Service
from tahoe.errors import CatalogServerError
from tahoe.storage.background import finish_background

# More callers at a time are told to come back.
_CALLS_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen.

    Attributes:
        port: 0 takes a free one.
        certificate, key: files for TLS; without them it is plain HTTP.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    certificate: str | None = None
    key: str | None = None


def check_address(address: Address, *, needs_token: bool) -> None:
    """Refuse to serve others than this machine without tokens.

    Raises:
        CatalogServerError: it would.
    """
    if not needs_token and not is_loopback(address.host):
        raise CatalogServerError(
            detail=f"without tokens, everyone who reaches {address.host} could change all tables",
            remedy="Listen on 127.0.0.1, or make tokens with `tahoe catalog token`.",
        )


def run(service: Service, address: Address, *, drain_seconds: float, when_ready: Callable[[str], None]) -> None:
    """Serve until a signal.

    Args:
        drain_seconds: how long running calls may take after it.
        when_ready: gets the url, once the server listens.

    Raises:
        CatalogServerError: the address cannot be used.
    """
    check_address(address, needs_token=service.needs_token)
    try:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        listening = socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        raise CatalogServerError(
            detail=f"it cannot listen at {address.host}:{address.port}: {error.strerror}",
            remedy="Choose another --port, or an address of this machine.",
        ) from error
    config = uvicorn.Config(
        application(service),
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=_CALLS_MAX,
        timeout_graceful_shutdown=int(drain_seconds),
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # uvicorn repeats a signal when it has ended, and that must not kill us
    host = f"[{address.host}]" if ":" in address.host else address.host
    when_ready(f"{'http' if address.certificate is None else 'https'}://{host}:{listening.getsockname()[1]}")
    uvicorn.Server(config).run(sockets=[listening])
    finish_background()
