"""Arrow values as Python values that JSON can represent, or as text for people."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tahoe.protocol.partitions import format_partition_value
from tahoe.protocol.schema import DATE, TIMESTAMP, TIMESTAMP_NTZ

_INTEGER = re.compile(r"-?(0|[1-9]\d*)")


def cell(value: Any) -> str:
    """A value as text for people."""
    if isinstance(value, datetime):
        return moment(value)
    plain = json_value(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def moment(value: datetime) -> str:
    """A timestamp with milliseconds, as in the log; with microseconds if it has any."""
    timespec = "microseconds" if value.microsecond % 1000 else "milliseconds"
    return value.isoformat(sep=" ", timespec=timespec).replace("+00:00", "Z")


def second(value: datetime) -> str:
    """A timestamp in seconds, for lists whose rows are lines."""
    return value.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")


def with_numbers(metrics: Mapping[str, str] | None) -> dict[str, int | str] | None:
    """Metrics of a commit, which the log keeps as text, with their numbers."""
    return None if metrics is None else {name: int(text) if _INTEGER.fullmatch(text) else text for name, text in metrics.items()}


def flat(value: Any) -> str:
    return " ".join(f"{name}={text}" for name, text in value.items()) if isinstance(value, dict) else "" if value is None else str(value)


def json_value(value: Any) -> Any:
    """A value that JSON can represent; other values become text."""
    match value:
        case dict():
            return {str(name): json_value(item) for name, item in value.items()}
        case list():
            return [json_value(item) for item in value]
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Decimal() if value.as_tuple().exponent == 0:
            return int(value)
        case date():
            return value.isoformat()
        case bytes():
            return value.hex()
        case _:
            return str(value)


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    columns = [_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    if not pa.types.is_nested(column.type):
        with suppress(OverflowError, ValueError):  # a date outside of Python's calendar
            values: list[Any] = column.to_pylist()
            return values
    return [_value(scalar) for scalar in column]


def _value(scalar: pa.Scalar) -> Any:
    """A scalar as a Python value. A map becomes a dict with its keys as text; a date outside of Python's calendar becomes text."""
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_map(kind):
        return {cell(_value(entry["key"])): _value(entry["value"]) for entry in scalar.values}
    if pa.types.is_struct(kind):
        return {name: _value(item) for name, item in scalar.items()}
    if pa.types.is_list(kind):
        return [_value(item) for item in scalar.values]
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        if pa.types.is_date(kind):
            return format_partition_value(scalar.value, DATE)
        return format_partition_value(scalar.value, TIMESTAMP if kind.tz else TIMESTAMP_NTZ)
