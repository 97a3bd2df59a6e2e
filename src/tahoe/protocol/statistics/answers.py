"""Which questions about a table's rows its log answers, and which statistics are exact enough for it.

Protocol: "Per-file Statistics". A question is a list of aggregates over the rows that satisfy a condition. The law: the
answer for a file equals what a scan of its rows gives, or there is none. So it needs more than data skipping, which may
keep a file too many:

- A statistic that is missing or contradicts another one is unknown.
- A count of values is exact without a deletion vector and with tight bounds, or if the null count is 0 or `numRecords`.
- A minimum or maximum is exact only for integers and dates, without a deletion vector and with tight bounds. Strings
  may be truncated, timestamps are; some writers round decimals; NaN is in no statistic. Older dates may be of another
  calendar.
- A partition value is exact if the file certainly has a row.

`tahoe.table.reading.answers` gives the answers, for a million files at once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, TypeAlias, cast

from tahoe.protocol.configuration.column_mapping import physical_path
from tahoe.protocol.statistics.skipping import has_collation
from tahoe.protocol.statistics.stat_tests import BoundName
from tahoe.protocol.statistics.stats import EXACT_DIGITS, Path
from tahoe.protocol.types import predicate as p
from tahoe.protocol.types.partitions import INTEGER_BITS
from tahoe.protocol.types.predicate import TRUE, Predicate, untrue
from tahoe.protocol.types.schema import VARIANT, VOID, Array, DataType, Decimal, Field, Map, Primitive, Struct

# The first day of the Gregorian calendar. Files may have earlier dates in the Julian calendar.
FIRST_DAY = date(1582, 10, 15)

# Types of partition columns whose order, and whose equality, is the same in every engine: no NaN, no second zero, no
# collation.
_PLAIN_TYPES = frozenset({*INTEGER_BITS, "string", "boolean", "date", "timestamp", "timestamp_ntz"})


# --- questions


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`function(columns) FILTER (WHERE condition)`.

    Attributes:
        columns: by their logical paths. A count is the number of rows in which none of them is null; COUNT(*) has no
            columns. The other functions have one. The number of different values is known only of partition columns,
            and parts of it cannot be combined.
    """

    function: Literal["count", "min", "max", "count_distinct"]
    columns: tuple[tuple[str, ...], ...] = ()
    condition: Predicate = TRUE


@dataclass(frozen=True, slots=True)
class Question:
    """Aggregates over the rows for which a condition is true, grouped by partition columns."""

    aggregates: tuple[Aggregate, ...]
    keys: tuple[str, ...] = ()
    condition: Predicate = TRUE


# --- what answers them


@dataclass(frozen=True, slots=True)
class CountOf:
    """The number of rows in which no data column of `paths`, and no partition column of `partitions`, is null."""

    paths: tuple[Path, ...]
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BoundOf:
    """The minimum or maximum of a data column, if it is a value between `least` and `greatest`."""

    statistic: BoundName
    path: Path
    type: Primitive
    least: Any
    greatest: Any


@dataclass(frozen=True, slots=True)
class PartitionOf:
    """The value of a partition column, which is its minimum and its maximum, and the only one that a file has."""

    name: str


Measure: TypeAlias = "CountOf | BoundOf | PartitionOf"


def measure_of(
    aggregate: Aggregate, schema: Struct, partition_columns: Collection[str], mode: str = "none"
) -> Measure | None:
    """What gives the value of an aggregate for a file; None if no statistic can.

    Args:
        mode: the column mapping mode, which determines the physical paths of the statistics.
    """
    resolved = [schema.resolve(path) for path in aggregate.columns]
    columns = [fields for fields in resolved if fields is not None]
    if len(columns) < len(resolved):
        return None
    names = {name.lower() for name in partition_columns}
    partitions = [fields for fields in columns if fields[0].name.lower() in names]
    if aggregate.function == "count":
        stored = [fields for fields in columns if fields not in partitions]
        if not all(_has_null_count(fields[-1].type) for fields in stored):
            return None
        return CountOf(
            tuple(_path(schema, fields, mode) for fields in stored), tuple(fields[0].name for fields in partitions)
        )
    (column,) = columns
    if partitions:
        return PartitionOf(column[0].name) if is_plain(column[0]) else None
    return (
        None
        if aggregate.function == "count_distinct"
        else _bound_of(aggregate.function, _path(schema, column, mode), column[-1].type)
    )


def _path(schema: Struct, fields: tuple[Field, ...], mode: str) -> Path:
    path = physical_path(schema, tuple(f.name for f in fields), mode)
    assert path is not None
    return path


def _has_null_count(data_type: DataType) -> bool:
    return not isinstance(data_type, Struct | Array | Map) and data_type not in (VARIANT, VOID)


def _bound_of(statistic: BoundName, path: Path, data_type: DataType) -> BoundOf | None:
    between = exact_bounds(data_type)
    return None if between is None else BoundOf(statistic, path, cast("Primitive", data_type), *between)


def exact_bounds(data_type: DataType) -> tuple[Any, Any] | None:
    """The least and the greatest value of a type that a tight bound has only if a row has it; None if bounds of the
    type are rounded.
    """
    if not isinstance(data_type, Primitive):
        return None
    if data_type.name == "date":
        return FIRST_DAY, date.max
    if data_type.name not in INTEGER_BITS:
        return None
    end = 1 << (INTEGER_BITS[data_type.name] - 1)
    return -end, end - 1


def is_plain(field: Field) -> bool:
    """Whether the values of a partition column are ordered, and are equal, as in every engine."""
    named = isinstance(field.type, Primitive) and field.type.name in _PLAIN_TYPES
    return (named or isinstance(field.type, Decimal)) and not has_collation(field)


# --- files that satisfy a condition wholly


def exception_to(condition: Predicate, schema: Struct) -> Predicate:
    """A predicate that is true for every row for which a condition is not true.

    A file that data skipping excludes by it satisfies the condition wholly. Columns whose statistics writers round, or
    whose values engines compare differently, are unknown.
    """
    return untrue(_without_untrusted(condition, schema))


def _without_untrusted(predicate: Predicate, schema: Struct) -> Predicate:
    """The predicate with unknown in place of the comparisons of columns that are not trusted, so that no file satisfies
    it because of them.
    """
    match predicate:
        case p.And(parts):
            return p.And(tuple(_without_untrusted(part, schema) for part in parts))
        case p.Or(parts):
            return p.Or(tuple(_without_untrusted(part, schema) for part in parts))
        case p.Not(part):
            return p.Not(_without_untrusted(part, schema))
        case p.Comparison(column=column) | p.IsNull(column) | p.In(column) | p.StartsWith(column):
            return predicate if _is_trusted(schema.resolve(column.path)) else p.Unknown(".".join(column.path))
        case _:
            return predicate


def _is_trusted(fields: tuple[Field, ...] | None) -> bool:
    if fields is None or any(has_collation(field) for field in fields):
        return False
    data_type = fields[-1].type
    return not isinstance(data_type, Decimal) or data_type.precision <= EXACT_DIGITS
