"""The bounds of the values inside shredded variants, from the footer of a data file.

Protocol: "Statistics for Variant Columns", "Shredded Variant data in Parquet". A path is a column `typed_value`. It has
bounds only if the column `value` beside it, which has the values of all other types, is null in every row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow.parquet as pq

from tahoe.protocol.statistics.variants import VariantBounds, normalized_path
from tahoe.protocol.types.schema import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    Decimal,
)

Path: TypeAlias = tuple[str, ...]

# The number of rows of each row group, and the statistics of one column there.
Chunks: TypeAlias = Sequence[tuple[int, Any]]

_TYPED, _OTHERS = "typed_value", "value"

_INTEGERS: Mapping[int, DataType] = {8: BYTE, 16: SHORT, 32: INTEGER, 64: LONG}
_PLAIN: Mapping[str, DataType] = {"INT32": INTEGER, "INT64": LONG, "FLOAT": FLOAT, "DOUBLE": DOUBLE}
_DECIMALS = ("INT32", "INT64", "FIXED_LEN_BYTE_ARRAY")


def variant_bounds(
    footer: pq.FileMetaData,
    variant: Path,
    positions: Mapping[Path, int],
    bounds: Callable[[Chunks, DataType], tuple[Any, Any] | None],
) -> tuple[VariantBounds, VariantBounds]:
    """The least and the greatest values at the paths inside a variant column, as far as the footer has them.

    Args:
        positions: of the file's columns that are not inside arrays and maps.
        bounds: those of one column.
    """
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]

    def chunks(position: int) -> Chunks:
        return [(group.num_rows, group.column(position).statistics) for group in groups]

    low, high = {}, {}
    for keys, position, others in _typed_values(variant, positions):
        data_type = _type_of(footer.schema.column(position))
        if data_type is None or not all(_are_nulls(*chunk) for chunk in chunks(others)):
            continue
        found = bounds(chunks(position), data_type)
        if found is not None:
            path = normalized_path(keys)
            low[path], high[path] = ((data_type, end) for end in found)
    return low, high


def _typed_values(variant: Path, positions: Mapping[Path, int]) -> Iterator[tuple[Path, int, int]]:
    """The typed values inside a variant: the keys of each, its column, and that of the values of other types."""
    depth = len(variant)
    for path, position in positions.items():
        inside = path[depth:]
        if path[:depth] != variant or len(inside) % 2 == 0 or any(name != _TYPED for name in inside[::2]):
            continue
        others = positions.get((*path[:-1], _OTHERS))
        if others is not None:
            yield inside[1::2], position, others


def _are_nulls(rows: int, statistics: Any) -> bool:
    return statistics is not None and statistics.has_null_count and statistics.null_count == rows


def _type_of(column: Any) -> DataType | None:
    """The type of a column whose values have bounds; None for the others."""
    physical, logical = column.physical_type, json.loads(column.logical_type.to_json())
    match column.logical_type.type:
        case "NONE":
            return _PLAIN.get(physical)
        case "STRING":
            return STRING
        case "DATE":
            return DATE
        case "INT" if logical["isSigned"]:
            return _INTEGERS.get(logical["bitWidth"])
        case "DECIMAL" if physical in _DECIMALS:
            return Decimal(logical["precision"], logical["scale"])
        case "TIMESTAMP" if logical["timeUnit"] == "microseconds":
            return TIMESTAMP if logical["isAdjustedToUTC"] else TIMESTAMP_NTZ
    return None
