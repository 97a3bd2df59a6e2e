"""A server for Spark Connect whose clients have all of Delta, though they need not have tahoe.

The driver's session is enabled first; then Spark's service accepts clients, whose sessions are made from it. Clients
find the setting `spark.tahoe.version`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from tahoe._version import VERSION
from tahoe.errors import ConnectServerError
from tahoe.spark.api.connect.session import SERVER_VERSION
from tahoe.spark.api.session import enable
from tahoe.spark.jvm.failures import tell_clients
from tahoe.spark.jvm.gateway import JVM_ERRORS, Gateway, java_error
from tahoe.spark.jvm.statements.connect_service import CLASSES, ConnectService
from tahoe.storage.background import finish_background

TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"

_HOST = "spark.connect.grpc.binding.address"
_PORT = "spark.connect.grpc.binding.port"

# Settings that would let clients in before the session is enabled, or past what `serve` checks, and what to use
# instead.
_OWN_SETTINGS = {
    _HOST: "--host",
    _PORT: "--port",
    "spark.connect.authenticate.token": "--token, or the environment variable " + TOKEN_VARIABLE,
    "spark.remote": "none: the server has a session of its own",
    "spark.api.mode": "none: the server has a session of its own",
}
_PLUGINS = "spark.plugins"

# Spark's web pages ask nobody for a name, and its progress bars fill a server's log: both are off unless they are asked
# for.
_DEFAULTS = {
    "spark.app.name": "tahoe connect-server",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

_LOOPBACK = ("localhost", "::1", "[::1]")

_POLL_SECONDS = 0.05
# How long answers that are under way may take once no query runs.
_LAST_ANSWERS_SECONDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What a server is asked to be.

    Attributes:
        host: the address to listen at. Any other than the loopback's needs a token.
        port: 0 for any free port.
        token: what clients must present; None for no check.
        settings: of Spark.

    Raises:
        ConnectServerError: the parts do not fit together.
    """

    host: str = "localhost"
    port: int = 15002
    token: str | None = None
    settings: Mapping[str, str]

    def __post_init__(self) -> None:
        for name, instead in _OWN_SETTINGS.items():
            if name in self.settings:
                raise ConnectServerError(detail=f"the setting {name} is the server's own", remedy=f"Use {instead}.")
        if "SparkConnectPlugin" in self.settings.get(_PLUGINS, ""):
            detail = f"SparkConnectPlugin in {_PLUGINS} would accept clients before tahoe is enabled"
            raise ConnectServerError(detail=detail, remedy="Leave it out: the server starts the service itself.")
        if self.token == "":
            raise ConnectServerError(detail="the token is empty", remedy="Give one that nobody can guess.")
        if self.token is None and not is_loopback(self.host):
            raise ConnectServerError(
                detail=(
                    f"at {self.host} everybody who reaches the address could read and write all tables, and run "
                    f"programs"
                ),
                remedy=f"Set a token (--token, or {TOKEN_VARIABLE}), or listen at localhost only.",
            )

    def spark_settings(self) -> dict[str, str]:
        """The settings of the server's session."""
        settings = {**_DEFAULTS, **self.settings}
        classes = {name: ",".join(filter(None, (settings.get(name), added))) for name, added in CLASSES.items()}
        return {**settings, **classes, _HOST: self.host, _PORT: str(self.port)}


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine reach an address."""
    return host.lower() in _LOOPBACK or host.startswith("127.")


class ConnectServer:
    """A server that accepts clients."""

    def __init__(self, serving: Serving, spark: SparkSession, service: ConnectService) -> None:
        self._serving, self._spark, self._service = serving, spark, service

    @property
    def url(self) -> str:
        """Where clients connect. A token goes into it as `;token=...`."""
        host = self._serving.host
        return f"sc://{'localhost' if is_loopback(host) else host}:{self._service.port}"

    @property
    def spark_version(self) -> str:
        return self._spark.version

    def stop(self, drain_seconds: float) -> int:
        """Refuse new work, let queries that run finish, finish the work after commits, and end Spark.

        Args:
            drain_seconds: queries that take longer are cancelled.

        Returns:
            how many queries were cancelled.
        """
        self._service.refuse_work("The server is shutting down and accepts no new work. Connect again when it is back.")
        end = time.monotonic() + drain_seconds
        while (running := self._service.running()) and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        self._service.stop(_LAST_ANSWERS_SECONDS)
        finish_background()
        self._spark.stop()
        return running


def serve(serving: Serving) -> ConnectServer:
    """Make a session, enable it, and accept clients.

    Raises:
        ConnectServerError: PySpark's extra for Connect or Java is missing, the process has a session already, or Spark
            cannot listen.
    """
    _check_process()
    os.environ.setdefault(
        "PYSPARK_PYTHON", sys.executable
    )  # the workers of UDFs and foreachBatch need what this interpreter has
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):  # of a client that starts the server
        os.environ.pop(name, None)
    if serving.token is not None:
        os.environ[TOKEN_VARIABLE] = (
            serving.token
        )  # not a setting, which clients can read; workers that are clients inherit it
    builder = SparkSession.builder
    for name, value in serving.spark_settings().items():
        builder = builder.config(name, value)
    spark = enable(_start_session(builder))
    gateway = Gateway(spark)
    tell_clients()
    gateway.session.sharedState().conf().set(SERVER_VERSION, VERSION)
    service = ConnectService(gateway)
    try:
        service.start()
    except JVM_ERRORS as error:
        spark.stop()
        raise ConnectServerError(
            detail=_reason(error, serving), remedy="Choose another --host or --port; 0 takes a free port."
        ) from error
    return ConnectServer(serving, spark, service)


def _start_session(builder: SparkSession.Builder) -> SparkSession:
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        remedy = "Spark needs Java 17 or newer, on the path or in JAVA_HOME; what it printed says more."
        raise ConnectServerError(detail="Spark's Java process does not start", remedy=remedy) from error


def _check_process() -> None:
    if any(find_spec(name) is None for name in ("grpc", "google.protobuf", "pandas")):
        remedy = "Run pip install 'pyspark[connect]>=4.1,<4.4' protobuf."
        raise ConnectServerError(detail="PySpark's parts for Spark Connect are not installed", remedy=remedy)
    if SparkSession._instantiatedSession is not None:
        raise ConnectServerError(
            detail="this process has a Spark session already", remedy="Start the server in a process of its own."
        )


def _reason(error: BaseException, serving: Serving) -> str:
    cause = java_error(error)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    message = str(error).splitlines()[0] if cause is None else str(cause.getMessage())
    return f"Spark cannot listen at {serving.host}, port {serving.port}: {message}"
