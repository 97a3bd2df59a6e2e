"""Reads Spark's plans of streaming queries into Python values."""

from __future__ import annotations

from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.plans import kind_of, leaves

START = "WriteToStreamStatement"
"""The plan that starts a query, by the simple name of its class."""

_DELTA = "delta"


def trigger_of(plan: JavaObject) -> str:
    """The simple class name of the trigger with which a plan starts a query."""
    return kind_of(plan.trigger())


def tables_of(gateway: Gateway, plan: JavaObject) -> list[str]:
    """The paths of the Delta tables that a query reads and writes as streams, as its options have them."""
    found = [leaf.dataSource() for leaf in leaves(gateway, plan) if kind_of(leaf) == "StreamingRelation"]
    read = [str(source.options().apply("path")) for source in found if str(source.className()).lower() == _DELTA]
    written = [str(plan.sink().path())] if kind_of(plan.sink()) == "StreamSink" else []
    return [*read, *written]
