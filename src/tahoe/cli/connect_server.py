"""`tahoe connect-server`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tahoe.cli.app import errors_as_messages, key_value

if TYPE_CHECKING:
    from tahoe.spark.api.connect.server import ConnectServer

Host = Annotated[
    str, typer.Option("--host", metavar="ADDRESS", help="The address to listen at. Any but localhost needs a token.")
]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one and prints it.")]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="SPARK_CONNECT_AUTHENTICATE_TOKEN",
        help="What clients must present. Other users of this machine see an option, but not the environment variable.",
    ),
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
]
Drain = Annotated[
    float,
    typer.Option(
        "--drain", metavar="SECONDS", min=0, help="How long queries that run may take once the server shuts down."
    ),
]

# Exit codes above this say which signal ended a program.
_SIGNALLED = 128


def connect_server(
    host: Host = "localhost", port: Port = 15002, token: Token = None, conf: Conf = None, drain: Drain = 60.0
) -> None:
    """Serve Delta tables to clients of Spark Connect, who need no tahoe, until SIGINT or SIGTERM.

    Then new work is refused, queries that run may finish, and the exit code is 0. A second signal ends the server at
    once.
    """
    stopping = _Stopping()
    with errors_as_messages():
        from tahoe.spark.api.connect.server import Serving, serve  # noqa: PLC0415 - the other commands need no PySpark

        serving = Serving(
            host=host, port=port, token=token, settings=dict(key_value(text, "--conf") for text in conf or ())
        )
        server = serve(serving)
        stopping.becomes_orderly()
        _say_ready(server, has_token=token is not None)
    stopping.wait()
    print("tahoe connect-server: shutting down; running queries may finish", file=sys.stderr, flush=True)
    cancelled = server.stop(drain)
    if cancelled:
        print(
            f"tahoe connect-server: cancelled {cancelled} queries after {drain:g} seconds", file=sys.stderr, flush=True
        )
    sys.stdout.flush()
    # all is done; an end of Python would put back the default handlers, by which a late signal changes the exit code
    os._exit(0)


def _say_ready(server: ConnectServer, *, has_token: bool) -> None:
    connect = f'SparkSession.builder.remote("{server.url}{"/;token=..." if has_token else ""}").getOrCreate()'
    print(f"ready: {server.url} (Spark {server.spark_version}). Connect with {connect}", flush=True)


class _Stopping:
    """What SIGINT and SIGTERM do: before the server is ready they end it at once; then the first asks it to stop, and
    the second ends it.

    The handlers are ours from the beginning: the first process of a container receives only signals for which it has a
    handler.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._is_orderly = False
        self._install()

    def becomes_orderly(self) -> None:
        """From now on the first signal asks. PySpark has replaced a handler meanwhile."""
        self._is_orderly = True
        self._install()

    def wait(self) -> None:
        self._asked.wait()

    def _install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _: Any) -> None:
        if not self._is_orderly or self._asked.is_set():
            os._exit(_SIGNALLED + number)  # Spark's JVM ends with this process
        self._asked.set()
