"""Evaluates the expressions that a statement has as arguments: numbers, strings, timestamps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import DataType, LongType, StringType

from tahoe.spark.jvm.gateway import Gateway, JavaObject

_SIMPLE = {"int": LongType(), "bigint": LongType(), "smallint": LongType(), "tinyint": LongType(), "string": StringType()}


@dataclass(frozen=True, slots=True)
class Value:
    """The value of an expression, and its type."""

    value: Any
    type: DataType


def values(gateway: Gateway, expressions: Iterable[JavaObject]) -> list[Value]:
    """The values of resolved expressions. Literals are read directly; if there are other expressions, Spark evaluates all of them."""
    given = list(expressions)
    known = [value for e in given if (value := _literal(e)) is not None]
    if len(known) == len(given):
        return known
    one_row = gateway.dataframe_of_plan(gateway.java_class("org.apache.spark.sql.catalyst.plans.logical.OneRowRelation")())
    rows = one_row.select([gateway.column(e).alias(f"v{n}") for n, e in enumerate(given)])
    found = rows.head()
    assert found is not None  # there is one row
    return [Value(value, field.dataType) for value, field in zip(found, rows.schema.fields, strict=True)]


def _literal(expression: JavaObject) -> Value | None:
    if expression.getClass().getSimpleName() != "Literal":
        return None
    kind, value = _SIMPLE.get(expression.dataType().catalogString()), expression.value()
    if kind is None or value is None:
        return None
    return Value(str(value.toString()) if isinstance(kind, StringType) else int(value), kind)
