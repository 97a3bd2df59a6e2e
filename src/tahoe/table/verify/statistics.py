"""Contradictions between the statistics of the log and a file.

Protocol: "Per-file Statistics". A footer is compared where its bounds are certainly exact; only statistics that exclude
values of the file are contradictions. The statistics of rows are exact: there, any wrong null count or bound is an
error if it changes the result of a query: an answer from the log (`tahoe.protocol.statistics.answers`) or first rows
(`tahoe.protocol.statistics.limits`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow.parquet as pq

from tahoe.protocol.statistics.limits import has_its_row
from tahoe.protocol.statistics.skipping import has_collation
from tahoe.protocol.statistics.stat_tests import BoundName
from tahoe.protocol.statistics.stats import Statistics, has_bounds, parse_bound, stored_value
from tahoe.protocol.statistics.variants import VariantBounds, variant_bounds_of
from tahoe.protocol.types.json_text import load_json
from tahoe.protocol.types.partitions import INTEGER_BITS
from tahoe.protocol.types.schema import (
    BOOLEAN,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    DataType,
    Field,
    Primitive,
    Struct,
)
from tahoe.table.arrow.types import arrow_type

Path: TypeAlias = tuple[str, ...]

# Some writers truncate texts in a footer to 64 bytes: a shorter text is exact.
_TEXT_EXACT_BYTES = 64

# The log has timestamps in milliseconds.
_MILLISECOND = timedelta(milliseconds=1)


def impossible_statistics(text: str, claimed: Statistics, physical: Struct) -> Iterator[str]:
    """Statistics that no file can have, whatever its rows are. Readers take the values for unknown; others may not.

    Args:
        claimed: what is legal in the text.
    """
    body = load_json(text, parse_float=Decimal)
    if (count := body.get("numRecords")) is not None and claimed.num_records is None:
        yield f"the log says that it has {count} rows"
    for path, column in physical.leaves():
        name = ".".join(path)
        nulls, rows = stored_value(body.get("nullCount"), path), claimed.num_records
        if nulls is not None and path not in claimed.null_count:
            yield f"the log says that it has {nulls} nulls in {name}"
        elif nulls is not None and rows is not None and nulls > rows:
            yield f"the log says that it has {nulls} nulls in {name}, but only {rows} rows"
        for end in ("minValues", "maxValues"):
            value = stored_value(body.get(end), path)
            if value is not None and not _may_be(value, column.type):
                yield f"{value} in {end} is not a value of {name}, whose type is {column.type}"
        low, high = claimed.min_values.get(path), claimed.max_values.get(path)
        if column.type != VARIANT and not has_collation(column) and _is_above(low, high, None):
            yield f"the log says that {name} is at least {low} and at most {high}"


def _may_be(value: Any, data_type: DataType) -> bool:
    """Whether a bound may be of a type. Texts of times and of floats that are no numbers have many spellings."""
    if data_type == VARIANT:
        return isinstance(value, str) and variant_bounds_of(value) is not None
    if not has_bounds(data_type):
        return True
    if not isinstance(data_type, Primitive) or data_type.name in INTEGER_BITS:
        found = parse_bound(value, data_type)
        bits = INTEGER_BITS.get(data_type.name, 64) if isinstance(data_type, Primitive) else None
        return found is not None and (bits is None or -(1 << (bits - 1)) <= found < 1 << (bits - 1))
    if data_type.name in ("float", "double"):
        return not isinstance(value, bool | list | dict)
    return isinstance(value, str)


def comparable_columns(footer: pq.FileMetaData, physical: Struct) -> dict[Path, DataType]:
    """The top-level columns that the file has in exactly the table's type, so that bounds are comparable."""
    schema = footer.schema.to_arrow_schema()
    columns: dict[Path, DataType] = {}
    for field in physical:
        position = schema.get_field_index(field.name)
        if isinstance(field.type, Struct) or position < 0 or schema.field(position).type != arrow_type(field.type):
            continue
        if not any("collation" in key.lower() for key in field.metadata):  # its order differs from the file's
            columns[(field.name,)] = field.type
    return columns


def footer_contradictions(claimed: Statistics, footer: Statistics, columns: Mapping[Path, DataType]) -> Iterator[str]:
    """Statistics of the log that exclude values in the footer, so that queries could skip matching rows."""
    for path, data_type in columns.items():
        yield from _wrong_nulls(claimed, footer, path, footer.num_records)
        ends = (_exact(bounds.get(path), data_type) for bounds in (footer.min_values, footer.max_values))
        yield from _excluding(claimed, path, data_type, *ends)


def variant_contradictions(claimed: Statistics, footer: Statistics) -> Iterator[str]:
    """Bounds of values inside variants that exclude values in the footer, or are of another type."""
    for path, (least, greatest) in _variants(footer).items():
        texts = claimed.min_values.get(path), claimed.max_values.get(path)
        low, high = ({} if text is None else variant_bounds_of(text) or {} for text in texts)
        for inside in sorted(least.keys() & (low.keys() | high.keys())):
            data_type, value = least[inside]
            name = f"{'.'.join(path)} at {inside}"
            for found in (low.get(inside), high.get(inside)):
                if found is not None and found[0] != data_type:
                    yield f"the log says that {name} is of the type {found[0]}, but in the file it is {data_type}"
            said_low, said_high = (bounds[inside][1] if inside in bounds else None for bounds in (low, high))
            exact = (_exact(end, data_type) for end in (value, greatest[inside][1]))
            yield from _beyond(name, (said_low, said_high), tuple(exact), data_type)


def _variants(footer: Statistics) -> Mapping[Path, tuple[VariantBounds, VariantBounds]]:
    return {path: (low, footer.max_values[path]) for path, low in footer.min_values.items() if isinstance(low, Mapping)}


def row_contradictions(
    claimed: Statistics, rows: Statistics, columns: Mapping[Path, Field], *, live_rows: int | None, has_vector: bool
) -> Iterator[str]:
    """Statistics of the log that exclude values of the rows, or because of which a query would have a wrong result.

    Args:
        rows: of the live rows.
        live_rows: how many they are.
    """
    answers = claimed.tight_bounds and not has_vector
    for path, column in columns.items():
        said, nulls = claimed.null_count.get(path), rows.null_count.get(path)
        if not answers:
            yield from _wrong_nulls(claimed, rows, path, live_rows)
        elif None not in (said, nulls) and said != nulls:
            yield f"the log says {said} nulls in {'.'.join(path)}, but the file has {nulls}"
        found = list(_excluding(claimed, path, column.type, rows.min_values.get(path), rows.max_values.get(path)))
        yield from found or (_not_its_ends(claimed, rows, path, column) if answers else ())


def _wrong_nulls(claimed: Statistics, actual: Statistics, path: Path, rows: int | None) -> Iterator[str]:
    said, nulls = claimed.null_count.get(path), actual.null_count.get(path)
    if nulls is None:
        return
    if (said == 0 and nulls > 0) or (rows and said == actual.num_records and nulls < rows):
        yield f"the log says {said} nulls in {'.'.join(path)}, but the file has {nulls}"


def _excluding(claimed: Statistics, path: Path, data_type: DataType, low: Any, high: Any) -> Iterator[str]:
    said = claimed.min_values.get(path), claimed.max_values.get(path)
    yield from _beyond(".".join(path), said, (low, high), data_type)


def _beyond(name: str, said: tuple[Any, Any], found: tuple[Any, ...], data_type: DataType) -> Iterator[str]:
    if None in found:
        return
    (said_low, said_high), (low, high) = said, found
    slack = _MILLISECOND if data_type in (TIMESTAMP, TIMESTAMP_NTZ) else None
    if _is_above(said_low, low, slack):
        yield f"the log says that {name} is at least {said_low}, but the file contains {low}"
    if _is_above(high, said_high, slack):
        yield f"the log says that {name} is at most {said_high}, but the file contains {high}"


def _not_its_ends(claimed: Statistics, rows: Statistics, path: Path, column: Field) -> Iterator[str]:
    """Bounds that no row has, though answers from the log and limits rely on it."""
    ends: Sequence[tuple[str, BoundName, Any, Any]] = (
        ("least", "min", claimed.min_values.get(path), rows.min_values.get(path)),
        ("greatest", "max", claimed.max_values.get(path), rows.max_values.get(path)),
    )
    for end, name, said, found in ends:
        if (
            said is not None
            and found is not None
            and type(said) is type(found)
            and not has_its_row(name, said, found, column)
        ):
            yield f"the log says that the {end} {'.'.join(path)} is {said}, but in the file it is {found}"


def _exact(value: Any, data_type: DataType) -> Any:
    """A bound of the footer if it is certainly exact; otherwise None. Floats are never exact: zeros have signs, and NaN
    is left out.
    """
    if data_type == STRING:
        return value if value is not None and len(value.encode()) < _TEXT_EXACT_BYTES else None
    return (
        None
        if data_type == BOOLEAN
        or (isinstance(data_type, Primitive) and data_type.name in ("float", "double", "binary"))
        else value
    )


def _is_above(left: Any, right: Any, slack: timedelta | None) -> bool:
    if left is None or right is None or type(left) is not type(right):
        return False
    above: bool = left - right >= slack if slack is not None and not isinstance(left, int) else left > right
    return above
