"""The rows of Arrow tables as Python values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa

from tahoe.protocol.types.partitions import format_partition_value
from tahoe.protocol.types.schema import DATE, TIMESTAMP, TIMESTAMP_NTZ
from tahoe.protocol.types.value_texts import cell


def first_rows(reader: pa.RecordBatchReader, limit: int) -> list[dict[str, Any]]:
    """The first rows of a stream as Python values."""
    rows: list[dict[str, Any]] = []
    for batch in reader:
        rows += plain_rows(pa.table(batch).slice(0, limit - len(rows)))
        if len(rows) >= limit:
            break
    return rows


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    return [dict(zip(table.column_names, row, strict=True)) for row in row_values(table)]


def row_values(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """The values of each row, in the order of the columns, of which several may have one name."""
    return zip(*[_values(column) for column in table.columns], strict=True)


def _values(column: pa.ChunkedArray) -> list[Any]:
    if not pa.types.is_nested(column.type):
        with suppress(OverflowError, ValueError):  # a date outside of Python's calendar
            values: list[Any] = column.to_pylist()
            return values
    return [_value(scalar) for scalar in column]


def _value(scalar: pa.Scalar) -> Any:
    """A scalar as a Python value. A map becomes a dict with its keys as text; a date outside of Python's calendar
    becomes text.
    """
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
