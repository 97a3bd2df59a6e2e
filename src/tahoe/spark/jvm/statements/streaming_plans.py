"""Reads Spark's plans of streaming queries into Python values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.plans import kind_of, leaves

START = "WriteToStreamStatement"
"""The plan that starts a query, by the simple name of its class."""

_DELTA = "delta"


def trigger_of(plan: JavaObject) -> str:
    """The simple class name of the trigger with which a plan starts a query."""
    return kind_of(plan.trigger())


def plan_of(gateway: Gateway, query: str) -> JavaObject:
    """The analysed plan of a query that runs, by its id."""
    uuid = gateway.java_class("java.util.UUID").fromString(query)
    return gateway.session.sharedState().activeStreamingQueries().get(uuid).analyzedPlan()


def tables_of(gateway: Gateway, plan: JavaObject) -> list[str]:
    """The paths of the Delta tables that a query reads and writes as streams, as its options have them."""
    read = [options["path"] for options in sources_of(gateway, plan)]
    written = [str(plan.sink().path())] if kind_of(plan.sink()) == "StreamSink" else []
    return [*read, *written]


def sources_of(gateway: Gateway, plan: JavaObject) -> list[dict[str, str]]:
    """The options of the streams over Delta tables in a query, by lower-case name."""
    return [options for leaf in leaves(gateway, plan) if (options := _options(gateway, leaf)) is not None]


def _options(gateway: Gateway, leaf: JavaObject) -> dict[str, str] | None:
    """The options of a stream over a Delta table, by lower-case name; None for other leaves of a plan."""
    if kind_of(leaf) != "StreamingRelation" or str(leaf.dataSource().className()).lower() != _DELTA:
        return None
    return {str(name).lower(): str(value) for name, value in gateway.dict(leaf.dataSource().options()).items()}


# --- watermarks


@dataclass(frozen=True, slots=True)
class Watermark:
    """A watermark over the rows of a stream.

    Attributes:
        name: of the event time, as the query has it.
        column: the path of the column of the stream that it is; None if it is computed.
        streams: how many streams the rows come from.
    """

    name: str
    column: tuple[str, ...] | None
    streams: int


def watermarks_of(gateway: Gateway, plan: JavaObject, options: Mapping[str, str]) -> list[Watermark]:
    """The watermarks of a query over the stream of a Delta table that has these options, by lower-case name."""
    watermarks = []
    for node in _nodes(gateway, plan):
        if kind_of(node) != "EventTimeWatermark":
            continue
        streams = [leaf for leaf in leaves(gateway, node) if leaf.isStreaming()]
        columns = [_Columns(gateway, node, leaf) for leaf in streams if _options(gateway, leaf) == options]
        event_time = node.eventTime()
        if columns:
            paths = [path for below in columns if (path := below.path(event_time)) is not None]
            watermarks.append(Watermark(str(event_time.name()), next(iter(paths), None), len(streams)))
    return watermarks


class _Columns:
    """What the expressions of a plan are in terms of the columns of one of its leaves."""

    def __init__(self, gateway: Gateway, plan: JavaObject, leaf: JavaObject) -> None:
        self._leaf_columns = {_id(column): str(column.name()) for column in gateway.items(leaf.output().iterator())}
        expressions = (e for node in _nodes(gateway, plan) for e in gateway.items(node.expressions().iterator()))
        self._alias_values = {
            _id(expression): expression.child() for expression in expressions if kind_of(expression) == "Alias"
        }

    def path(self, expression: JavaObject) -> tuple[str, ...] | None:
        """The path of the column that an expression is; None if it is computed, or comes from another leaf."""
        match kind_of(expression):
            case "AttributeReference":
                number = _id(expression)
                if number in self._leaf_columns:
                    return (self._leaf_columns[number],)
                return self.path(self._alias_values[number]) if number in self._alias_values else None
            case "GetStructField":
                parent = self.path(expression.child())
                return None if parent is None else (*parent, str(expression.extractFieldName()))
            case _:
                return None


def _id(expression: JavaObject) -> int:
    return int(expression.exprId().id())


def _nodes(gateway: Gateway, plan: JavaObject) -> Iterator[JavaObject]:
    """A plan and all plans in it."""
    yield plan
    for child in gateway.items(plan.children().iterator()):
        yield from _nodes(gateway, child)
