"""Conflicts that a server of Spark Connect reports to this client, as the classes of `tahoe.exceptions`.

A program catches them by the same class as in a session with its own JVM.
"""

from __future__ import annotations

from typing import Any

from pyspark.errors.exceptions import connect

from tahoe import exceptions
from tahoe.errors import DeltaError
from tahoe.spark.jvm.failures import CONFLICTS_PACKAGE


class _ServerError(connect.SparkConnectGrpcException):
    """An error that a server reports, with the attributes of a `DeltaError`."""

    def __init__(self, message: str | None = None, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.parameters = self.getMessageParameters() or {}


def know_conflicts() -> None:
    """Make PySpark raise conflicts as our classes, unless delta-spark's client has made it raise its own.
    Idempotent.
    """
    for name in exceptions.__all__:
        connect.EXCEPTION_CLASS_MAPPING.setdefault(
            CONFLICTS_PACKAGE + name, _server_error_class(getattr(exceptions, name))
        )


def _server_error_class(kind: type[DeltaError]) -> type[_ServerError]:
    members = {"__doc__": kind.__doc__, "__module__": kind.__module__}
    return type(kind.__name__, (_ServerError, kind), members)
