"""Evaluates the expressions that a statement has as arguments: numbers, strings, timestamps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code
from pyspark.sql.types import DataType, DateType, LongType, StringType, TimestampNTZType, TimestampType

from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.plans import kind_of

_TIMES: dict[str, DataType] = {"timestamp": TimestampType(), "timestamp_ntz": TimestampNTZType(), "date": DateType()}
_SIMPLE = {
    "int": LongType(),
    "bigint": LongType(),
    "smallint": LongType(),
    "tinyint": LongType(),
    "string": StringType(),
}


@dataclass(frozen=True, slots=True)
class Value:
    """The value of an expression, and its type.

    A timestamp is a number of microseconds since the epoch, and a date or a timestamp without time zone is a text:
    Spark has years that Python's calendar does not have.
    """

    value: Any
    type: DataType


def values(gateway: Gateway, expressions: Iterable[JavaObject]) -> list[Value]:
    """The values of resolved expressions. Literals are read directly; if there are other expressions, Spark evaluates
    all of them.
    """
    listed = list(expressions)
    literals = [value for e in listed if (value := _literal(e)) is not None]
    if len(literals) == len(listed):
        return literals
    one_row = gateway.dataframe_of_plan(
        gateway.java_class("org.apache.spark.sql.catalyst.plans.logical.OneRowRelation")()
    )
    times = [_TIMES.get(str(e.dataType().catalogString())) for e in listed]
    columns = [_plain(gateway.column(e), time) for e, time in zip(listed, times, strict=True)]
    rows = one_row.select([column.alias(f"v{n}") for n, column in enumerate(columns)])
    row = rows.head()
    assert row is not None  # there is one row
    return [Value(v, time or field.dataType) for v, time, field in zip(row, times, rows.schema.fields, strict=True)]


def depends_on_rows(gateway: Gateway, expression: JavaObject) -> bool:
    """Whether an argument of a table function has other values for other rows, of a table in its query or of one
    outside of it.
    """
    is_outer = gateway.java_class("org.apache.spark.sql.catalyst.expressions.SubExprUtils").containsOuter(expression)
    return bool(
        is_outer
        or not expression.references().isEmpty()
        or kind_of(expression) == "FunctionTableSubqueryArgumentExpression"
    )


def _plain(column: Column, time: DataType | None) -> Column:
    if isinstance(time, TimestampType):
        return F.unix_micros(column)
    return column if time is None else column.cast("string")


def _literal(expression: JavaObject) -> Value | None:
    if expression.getClass().getSimpleName() != "Literal":
        return None
    kind, value = _SIMPLE.get(expression.dataType().catalogString()), expression.value()
    if kind is None or value is None:
        return None
    return Value(str(value.toString()) if isinstance(kind, StringType) else int(value), kind)
