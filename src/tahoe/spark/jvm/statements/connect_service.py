"""Spark's Connect service in this driver, and its planner, which turns a client's messages into Spark's plans and
expressions.

This module knows no message of Delta's.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import DataFrame

from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.plans import dataset

JAVA_SOURCES = Path(__file__).parents[2] / "java_connect"

RELATIONS = "delta.connect.Relations"
COMMANDS = "delta.connect.Commands"
ENTRANCE = "delta.connect.Entrance"
COLUMNS = "delta.connect.ClientColumns"

# The settings by which Spark finds the classes above. It reads them when the service starts, or a client first needs
# one.
CLASSES = {
    "spark.connect.extensions.relation.classes": RELATIONS,
    "spark.connect.extensions.command.classes": COMMANDS,
    "spark.connect.grpc.interceptor.classes": ENTRANCE,
}

_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService"
_MESSAGES = "org.apache.spark.connect.proto."

# Messages may be nested this deep; as Spark's own default, `spark.connect.grpc.marshallerRecursionLimit`.
_DEPTH_MAX = 1024

_RUNNING = ("Pending", "Started", "Analyzed", "ReadyForExecution")


class ConnectService:
    """The Connect service of this driver's Spark."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._service = gateway.module(_SERVICE)

    def start(self) -> None:
        """Accept clients, at the address and port in Spark's settings."""
        self._gateway.compile(JAVA_SOURCES, provides=RELATIONS)
        self._service.start(self._gateway.spark.sparkContext._jsc.sc())

    @property
    def port(self) -> int:
        return int(self._service.localPort())

    def refuse_work(self, reason: str) -> None:
        """From now on, calls of clients that bring work fail. Running queries go on, and clients can fetch their
        results.
        """
        self._gateway.java_class(ENTRANCE).close(reason)

    def running(self) -> int:
        """How many queries run, or have results that an attached client is fetching."""
        found = self._service.listActiveExecutions()
        if found.isLeft():
            return 0
        return sum(self._is_running(execution) for execution in self._gateway.items(found.value().iterator()))

    def _is_running(self, execution: JavaObject) -> bool:
        is_attached = execution.lastAttachedRpcTimeNs().isEmpty()
        return bool(is_attached) or str(execution.status().toString()) in _RUNNING

    def stop(self, seconds: int) -> None:
        """End the service: its streams, the queries that still run, and its sessions. Answers under way have some
        seconds left.
        """
        unit = self._gateway.java_class("java.util.concurrent.TimeUnit").NANOSECONDS
        # py4j makes a small number an Integer, but Spark casts it to a Long; nanoseconds are large
        self._service.stop(self._gateway.option(seconds * 10**9), self._gateway.option(unit))


def plan_of(gateway: Gateway, planner: JavaObject, relation: bytes) -> JavaObject:
    """The logical plan of a client's `spark.connect.Relation`."""
    return planner.transformRelation(_parse_message(gateway, "Relation", relation))


def expression_of(gateway: Gateway, planner: JavaObject, expression: bytes) -> JavaObject:
    """The Catalyst expression of a client's `spark.connect.Expression`; names in it are not resolved."""
    return planner.transformExpression(_parse_message(gateway, "Expression", expression))


def resolved_columns(
    gateway: Gateway, expression: JavaObject, own: Iterable[int], qualifier: str | None, source: DataFrame | None
) -> JavaObject:
    """Replace columns of a client's DataFrames, which no plan of a command would resolve.

    Args:
        own: the ids of plans whose columns become names, with or without a qualifier.
        source: the DataFrame of which the columns of other plans are.
    """
    parts = gateway.list([] if qualifier is None else [qualifier])
    of_source = None if source is None else dataset(source)
    return gateway.java_class(COLUMNS).resolved(expression, gateway.list(map(str, own)), parts, of_source)


def _parse_message(gateway: Gateway, kind: str, message: bytes) -> JavaObject:
    """Parse a message of Spark's. Its own default allows a depth of 100, which a condition of some dozen parts
    exceeds.
    """
    stream = gateway.java_class("org.sparkproject.connect.protobuf.CodedInputStream").newInstance(message)
    stream.setRecursionLimit(_DEPTH_MAX)
    return gateway.java_class(_MESSAGES + kind).parseFrom(stream)
