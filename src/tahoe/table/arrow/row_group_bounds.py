"""The bounds of a column in each row group of a Parquet file, as its footer states them, typed.

A bound may be wider than the values, because some writers cut texts. A bound that is missing, or does not fit the
wanted type, is null. So are both if the least is greater than the greatest, and the greatest value of a column of
floating-point numbers: NaN is greater than all others, and no footer tells whether there is one. Knows nothing of
Delta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.table.arrow.parquet import NestedColumns

if TYPE_CHECKING:
    import pyarrow.parquet as pq  # it imports the file systems of Arrow


@dataclass(frozen=True, slots=True)
class LeafBounds:
    """What is known of one leaf column in some row groups.

    Attributes:
        least, greatest: bounds of the values, of the wanted type; null if unknown.
        nulls: how many rows are null, those of a null struct included; -1 if unknown.
    """

    least: pa.Array
    greatest: pa.Array
    nulls: npt.NDArray[np.int64]


def unknown_bounds(groups: int, kind: pa.DataType) -> LeafBounds:
    return LeafBounds(pa.nulls(groups, kind), pa.nulls(groups, kind), np.full(groups, -1))


def joined_bounds(found: Sequence[LeafBounds]) -> LeafBounds:
    least, greatest = (pa.concat_arrays([getattr(bounds, name) for bounds in found]) for name in ("least", "greatest"))
    return LeafBounds(least, greatest, np.concatenate([bounds.nulls for bounds in found]))


def null_counts(columns: NestedColumns, leaf: str) -> npt.NDArray[np.int64]:
    """How many rows of each row group have a null in a leaf column; -1 if unknown."""
    if leaf not in columns.leaves:
        return np.full(len(columns.group_rows), -1)
    return np.array([_null_count(found) for found in _statistics(columns, leaf)], np.int64)


def leaf_bounds(columns: NestedColumns, path: Sequence[str], kind: pa.DataType) -> LeafBounds:
    """The bounds of a leaf column.

    Args:
        kind: the type that is wanted: a signed integer, a number, a decimal, a text, a date or a timestamp.
    """
    leaf, stored_type = ".".join(path), columns.type_of(tuple(path))
    if (
        stored_type is None or leaf not in columns.leaves or any("." in name for name in path)
    ):  # Parquet's dotted paths would be ambiguous
        return unknown_bounds(len(columns.group_rows), kind)
    statistics = _statistics(columns, leaf)
    raw = [(None, None) if s is None or not s.has_min_max else (s.min_raw, s.max_raw) for s in statistics]
    least, greatest = (_cast([_value(pair[end], stored_type) for pair in raw], stored_type, kind) for end in (0, 1))
    if pa.types.is_floating(stored_type):
        greatest = pa.nulls(len(raw), kind)
    impossible = pc.fill_null(pc.greater(least, greatest), False)
    least, greatest = (pc.if_else(impossible, pa.scalar(None, kind), bounds) for bounds in (least, greatest))
    return LeafBounds(least, greatest, np.array([_null_count(s) for s in statistics], np.int64))


def _statistics(columns: NestedColumns, leaf: str) -> list[pq.Statistics | None]:
    footer, position = columns.footer, columns.leaves[leaf]
    return [footer.row_group(group).column(position).statistics for group in columns.groups]


def _null_count(statistics: pq.Statistics | None) -> int:
    return -1 if statistics is None or not statistics.has_null_count else max(-1, int(statistics.null_count))


def _value(raw: Any, found: pa.DataType) -> Any:
    """A bound as Arrow expects it for the type of its column, or for the integer that represents it; None if it is of
    no use.
    """
    if raw is None:
        return None
    if pa.types.is_decimal(found):
        unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
        return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -found.scale))
    if isinstance(raw, bytes):
        return _text(raw)
    return None if raw != raw else raw  # NaN bounds nothing


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _cast(values: list[Any], from_type: pa.DataType, to_type: pa.DataType) -> pa.Array:
    """Values of a column's type, cast to another one; a value that cannot be cast is null. If the cast of all of them
    fails, they are cast one by one.
    """
    try:
        return _as_array(values, from_type).cast(to_type)
    except (pa.ArrowException, OverflowError, TypeError):
        pass
    if len(values) == 1:
        return pa.nulls(1, to_type)
    return pa.concat_arrays([pa.nulls(0, to_type), *(_cast([value], from_type, to_type) for value in values)])


def _as_array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values of a column's type. Footers have dates and timestamps as the integers that stand for them."""
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).view(kind)
    if pa.types.is_decimal(kind) or pa.types.is_floating(kind) or pa.types.is_signed_integer(kind):
        return pa.array(values, kind)
    if any(
        test(kind)
        for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    ):
        return pa.array(values, pa.string())
    raise pa.ArrowInvalid(f"bounds of {kind} are not used")
