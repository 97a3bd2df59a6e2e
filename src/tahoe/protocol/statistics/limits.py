"""Which statistics tell where the first rows of a table are, for queries with LIMIT.

Protocol: "Per-file Statistics". The law: the files that are read have a correct answer, the one of all files up to the
order of equal rows. So a bound that limits what is read must hold for rows that are there for certain, whatever writers
round:

- Strings of `CUT_LENGTH_MIN` characters or more may be cut: all strings that begin like them are below `text_after`.
- Timestamps are cut to milliseconds.
- NaN is greater than every number and in no bound, so the greatest bound of a floating point column limits nothing.
- Decimals of many digits went through doubles in some writers. Old dates and timestamps may be of another calendar.

`tahoe.table.reading.limits` chooses the files, among a million at once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tahoe.protocol.configuration.column_mapping import physical_path
from tahoe.protocol.statistics.answers import FIRST_DAY, is_plain
from tahoe.protocol.statistics.skipping import MILLISECOND_REST, has_exact_order, text_after
from tahoe.protocol.statistics.stat_tests import BoundName
from tahoe.protocol.statistics.stats import CUT_LENGTH_MIN, EXACT_DIGITS, Path
from tahoe.protocol.types.predicate import TRUE, Column, Comparison, IsNull, Literal, Or, Predicate, evaluate
from tahoe.protocol.types.schema import DataType, Decimal, Field, Primitive, Struct

# Files may have earlier timestamps by other rules of time zones and in another calendar.
FIRST_MOMENT = datetime(1901, 1, 1)

_FLOATS = frozenset({"float", "double"})
_MOMENTS = frozenset({"timestamp", "timestamp_ntz"})


@dataclass(frozen=True, slots=True)
class Order:
    """The first column of an ORDER BY, by its logical path."""

    column: tuple[str, ...]
    is_descending: bool
    has_nulls_first: bool


@dataclass(frozen=True, slots=True)
class RowLimit:
    """So many of the rows for which a condition is true: the first ones in an order, or any rows."""

    rows: int
    order: Order | None = None
    condition: Predicate = TRUE


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """A partition column that orders rows."""

    name: str


@dataclass(frozen=True, slots=True)
class ColumnKey:
    """A data column that orders rows.

    Attributes:
        near: the bound which the file's first row has, in the order; None if such a row is not certain.
        far: the bound that no row of the file is behind, in the order; None if there is none.
        least: smaller bounds prove nothing; None if all bounds do.
        is_text: whether bounds become upper ones by `text_end`.
    """

    path: Path
    type: DataType
    near: BoundName | None
    far: BoundName | None
    least: Any
    is_text: bool


def key_of(
    order: Order, schema: Struct, partition_columns: Collection[str], mode: str = "none"
) -> PartitionKey | ColumnKey | None:
    """What tells where the first rows in an order are; None if nothing does.

    Args:
        mode: the column mapping mode, which determines the physical paths of the statistics.
    """
    fields = schema.resolve(order.column)
    if fields is None:
        return None
    if fields[0].name.lower() in {name.lower() for name in partition_columns}:
        return PartitionKey(fields[0].name) if is_plain(fields[0]) else None
    path, kind = physical_path(schema, tuple(field.name for field in fields), mode), fields[-1].type
    if path is None or not has_exact_order(fields) or (isinstance(kind, Decimal) and kind.precision > EXACT_DIGITS):
        return None
    name = kind.name if isinstance(kind, Primitive) else "decimal"
    if name in _FLOATS and order.is_descending:
        return None
    first: BoundName = "max" if order.is_descending else "min"
    last: BoundName = "min" if order.is_descending else "max"
    return ColumnKey(
        path=path,
        type=kind,
        near=None if name == "string" and order.is_descending else first,
        far=None if name in _FLOATS else last,
        least=_LEAST.get(name),
        is_text=name == "string" and not order.is_descending,
    )


_LEAST = {"date": FIRST_DAY, "timestamp": FIRST_MOMENT.replace(tzinfo=UTC), "timestamp_ntz": FIRST_MOMENT}


def text_end(bound: str) -> str | None:
    """A string that is not less than any string for which a bound may stand; None if there is none."""
    return bound if len(bound) < CUT_LENGTH_MIN else text_after(bound)


def rows_up_to(order: Order, bound: Any, schema: Struct) -> Predicate | None:
    """What is true for all first rows in an order; None if that cannot be told.

    Args:
        bound: enough rows have no bound behind this one, or are null where nulls come first.
    """
    column, fields = Column(order.column), schema.resolve(order.column)
    is_moment = fields is not None and isinstance(fields[-1].type, Primitive) and fields[-1].type.name in _MOMENTS
    try:
        value = bound + MILLISECOND_REST if is_moment and not order.is_descending else bound
    except (OverflowError, TypeError):  # beyond Python's calendar
        return None
    values = Comparison(">=" if order.is_descending else "<=", column, Literal(value))
    return Or((IsNull(column), values)) if order.has_nulls_first else values


def has_its_row(name: BoundName, bound: Any, end: Any, column: Field) -> bool:
    """Whether a row of a file is where `key_of` expects one because of a tight bound, so that a limit may rely on it.

    Args:
        end: the least value of the file for a minimum, the greatest one for a maximum; of the bound's type.
    """
    schema, order = Struct((column,)), Order((column.name,), name == "max", has_nulls_first=False)
    key = key_of(order, schema, ())
    if not isinstance(key, ColumnKey) or key.near is None or (key.least is not None and bound < key.least):
        return True
    reached = text_end(bound) if key.is_text else bound
    first_rows = None if reached is None else rows_up_to(order, reached, schema)
    return first_rows is None or evaluate(first_rows, {column.name: end}) is True
