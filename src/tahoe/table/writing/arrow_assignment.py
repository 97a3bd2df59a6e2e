"""Casts Arrow data to the columns of a table, matched by name at every depth, and checks it before anything is written.

Protocol: "Schema Serialization Format" (the meaning of `nullable`, `containsNull` and `valueContainsNull`). Names are
compared case-insensitively; missing columns are null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import (
    FieldsNotMergedError,
    NotNullViolationError,
    TextTooLongError,
    UnfitValueError,
    UnsupportedOperationError,
)
from tahoe.errors.statements import WITH_SPARKS_ENGINE
from tahoe.protocol.changes.column_type_changes import TEXT_TYPE
from tahoe.protocol.types.assignment_rules import check_assignable, check_present, error_of_cast
from tahoe.protocol.types.partitions import may_be_stored_as_null
from tahoe.protocol.types.schema import (
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Struct,
    types_in,
)
from tahoe.sql.coercion import is_cast_here
from tahoe.table.arrow.computation import IMPOSSIBLE, cast, moment
from tahoe.table.arrow.decimals import exact_decimal
from tahoe.table.arrow.types import arrow_schema, arrow_type, delta_schema, delta_type
from tahoe.table.writing.parquet_files import check_writes

# The declared type of a string column.
_LIMITED = re.compile(r"(char|varchar)\((\d+)\)")

# How much of a refused value an error shows.
_SHOWN_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class _Into:
    """The table that gets the values, the zone of its times without a zone, and whether each value must be kept as it
    is; other values are cast as those of UPDATE and MERGE are in Spark.
    """

    table: str
    zone: tzinfo
    keeps: bool


def assign_arrow(
    data: pa.Table,
    schema: Struct,
    *,
    zone: tzinfo,
    table: str,
    partition_columns: Sequence[str] = (),
    keeps: bool = False,
) -> pa.Table:
    """The rows with the table's columns, in its order and types, as they will be stored.

    Args:
        data: in canonical form.
        zone: of timestamps without a time zone: as in Spark, they and dates become instants, and instants become them,
            in this zone.
        partition_columns: their values are stored as text, and an empty text is null.
        keeps: a value that its column's type would change is refused, not only one that does not fit: digits of a
            double, times of a day. Otherwise values are cast as Spark casts those that UPDATE and MERGE assign.

    Raises:
        MissingNotNullColumnError: the data lacks a column or field that is NOT NULL.
        FieldsNotMergedError: a value is not kept.
        SchemaMismatchError: a type that cannot be cast to the column's type.
        UnfitValueError: a value that cannot be cast, or a text that is too long.
        NotNullViolationError: a null in a column or field that is NOT NULL, at any depth.
        UnsupportedOperationError: only Spark makes the cast, or writes such files; char or varchar inside a nested
            column.
    """
    check_writes(schema, table=table)
    _check_variants(data, schema, table)
    (check_present if keeps else check_assignable)(delta_schema(data.schema, table=table), schema, table=table)
    positions = {name.lower(): position for position, name in enumerate(data.column_names)}
    texts = {field.name for field in schema if field.name in partition_columns and may_be_stored_as_null(field.type)}
    into = _Into(table, zone, keeps)
    columns = [
        _column(data, positions.get(field.name.lower()), field, into, is_text=field.name in texts) for field in schema
    ]
    nullable = pa.schema([f.with_nullable(True) for f in arrow_schema(schema)])
    return pa.table(columns, schema=nullable)


def _check_variants(data: pa.Table, schema: Struct, table: str) -> None:
    """Refuse values of variants, which have a type of their own in the table alone. Nulls are written."""
    given = {name.lower() for name in data.column_names if data.column(name).null_count < data.num_rows}
    if variants := [f.name for f in schema if f.name.lower() in given and VARIANT in types_in(f.type)]:
        raise UnsupportedOperationError(
            operation="Writing variants without Spark's engine",
            table=table,
            detail=f"the rows have values of {', '.join(variants)}",
            remedy=WITH_SPARKS_ENGINE,
        )


def _column(data: pa.Table, position: int | None, field: Field, into: _Into, *, is_text: bool) -> pa.ChunkedArray:
    """A column of the table from the data, or nulls if the data does not have it. Empty texts in partition columns
    become null, as partition values are stored.
    """
    wanted = arrow_type(field.type)
    if position is None:
        column = pa.chunked_array([pa.nulls(data.num_rows, wanted)])
    else:
        given = data.column(position)
        try:
            chunks = [
                _limited(_assign(chunk, field.type, (field.name,), into), field, into.table) for chunk in given.chunks
            ]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise FieldsNotMergedError(
                table=into.table,
                detail=f"column {field.name} is {given.type}, but {field.type} in the table ({error})",
                remedy=(
                    "Cast the column before the write; overwrite(..., overwrite_schema=True) replaces the columns of "
                    "the table."
                ),
            ) from error
        column = pa.chunked_array([_as_stored(chunk) for chunk in chunks] if is_text else chunks, type=wanted)
    if not field.nullable and column.null_count:
        raise NotNullViolationError(table=into.table, column=field.name)
    return column


def _as_stored(values: pa.Array) -> pa.Array:
    """String or binary values of a partition column as readers will see them: empty values are null."""
    # `if_else` with a null makes an illegal array of a slice, before pyarrow 24 at least
    return pc.replace_with_mask(values, pc.equal(pc.binary_length(values), 0), pa.scalar(None, values.type))


def _assign(values: pa.Array, wanted: DataType, path: Sequence[str], into: _Into) -> pa.Array:
    """Values as values of a column's type, at any depth. With `into.keeps`, those that the type would change are
    refused; otherwise they are cast as Spark casts assigned values.
    """
    given = values.type
    match wanted:
        case Struct(fields) if pa.types.is_struct(given):
            return _assign_struct(values, fields, path, into)
        case Map() if pa.types.is_map(given):
            values = _compact(values)
            key = _assign_part(values.keys, Field(name="key", type=wanted.key, nullable=False), path, into)
            item = _assign_part(
                values.items, Field(name="value", type=wanted.value, nullable=wanted.value_contains_null), path, into
            )
            return pa.MapArray.from_arrays(values.offsets, key, item, type=arrow_type(wanted), mask=values.is_null())
        case Array() if pa.types.is_list(given):
            lists = _compact(values)
            element = _assign_part(
                lists.values, Field(name="element", type=wanted.element, nullable=wanted.contains_null), path, into
            )
            return pa.ListArray.from_arrays(lists.offsets, element, type=arrow_type(wanted), mask=lists.is_null())
        case _ if not into.keeps:
            return _as_assigned(values, wanted, path, into)
        case _ if wanted == VARIANT:
            raise pa.ArrowInvalid("the writer without Spark does not write variants")
        case _ if _needs_zone(given, wanted):
            local = TIMESTAMP_NTZ if wanted == DATE else wanted  # a date keeps only midnights
            return _cast(moment(values, local, into.zone), arrow_type(wanted))
        case Decimal() if pa.types.is_decimal(given) or pa.types.is_integer(given):
            return exact_decimal(values, arrow_type(wanted))
        case _:
            return _cast(values, arrow_type(wanted))


def _as_assigned(values: pa.Array, wanted: DataType, path: Sequence[str], into: _Into) -> pa.Array:
    """Values as UPDATE and MERGE assign them."""
    given = delta_type(values.type, path, table=into.table)
    if not is_cast_here(given, wanted):
        raise UnsupportedOperationError(
            operation="Writing without Spark's engine",
            table=into.table,
            detail=f"column {'.'.join(path)} is {wanted}, but {given} in the data, which only Spark casts",
            remedy=WITH_SPARKS_ENGINE,
        )
    try:
        return values.cast(arrow_type(wanted)) if given == wanted else cast(values, wanted, into.zone)
    except IMPOSSIBLE as error:
        raise unfit_value(values, wanted, path, zone=into.zone, table=into.table) from error


def unfit_value(
    values: pa.Array, wanted: DataType, path: Sequence[str], *, zone: tzinfo, table: str
) -> UnfitValueError:
    """The error for values that UPDATE or MERGE assigns to a column, and of which one cannot be cast."""

    def fits(part: pa.Array) -> bool:
        try:
            cast(part, wanted, zone)
        except IMPOSSIBLE:
            return False
        return True

    value = _shown(_first(values, lambda part: not fits(part)))[:_SHOWN_CHARACTERS]
    kind = error_of_cast(delta_type(values.type, path, table=table), wanted, value, are_assigned=True)
    return kind(value=value, column=".".join(path), table=table, type=str(wanted))


def _first(values: pa.Array, has: Callable[[pa.Array], bool]) -> pa.Scalar:
    """The first value of a kind, of which there is one, by a test whether an array has such a value."""
    while len(values) > 1:
        half = len(values) // 2
        values = values.slice(0, half) if has(values.slice(0, half)) else values.slice(half)
    return values[0]


def _cast(values: pa.Array, target_type: pa.DataType) -> pa.Array:
    """Cast values without a change.

    Raises:
        pa.ArrowInvalid: a value does not fit, or would be changed; or Arrow would take a time for a number.
    """
    source_type = values.type
    both_ways = ((source_type, target_type), (target_type, source_type))
    if any(pa.types.is_temporal(one) and pa.types.is_integer(other) for one, other in both_ways):
        raise pa.ArrowInvalid("times are not numbers")
    result = values.cast(target_type)
    if _may_change(source_type, target_type):
        back = result.cast(source_type)
        is_changed = pc.not_equal(values, back)
        if pa.types.is_floating(source_type):
            is_changed = pc.and_not(is_changed, pc.is_nan(values))
        changed = values.filter(is_changed)
        if len(changed):
            raise pa.ArrowInvalid(f"{_shown(changed[0])} would become {_shown(changed[:1].cast(target_type)[0])}")
    return result


def _shown(value: pa.Scalar) -> str:
    """A value in a message: the number of its units since 1970, if Python's calendar does not include it."""
    try:
        return str(value)
    except (OverflowError, ValueError):
        return str(value.value)


def _may_change(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Arrow's cast changes values without an error: of digits, or times of a day."""
    if pa.types.is_floating(given):
        return bool(pa.types.is_floating(wanted)) and wanted.bit_width < given.bit_width
    return bool(pa.types.is_timestamp(given) and pa.types.is_date(wanted))


def _needs_zone(given: pa.DataType, wanted: DataType) -> bool:
    """Whether dates or times without a zone become instants, or instants become such."""
    is_instant = pa.types.is_timestamp(given) and given.tz is not None
    if wanted == TIMESTAMP:
        return bool(pa.types.is_timestamp(given) or pa.types.is_date(given)) and not is_instant
    return wanted in (DATE, TIMESTAMP_NTZ) and is_instant


def _assign_struct(values: pa.StructArray, fields: Sequence[Field], path: Sequence[str], into: _Into) -> pa.Array:
    """A struct with the wanted fields, matched by name; those that are missing are null. A null in a NOT NULL field is
    refused, unless the struct itself is null.
    """
    children = {child.name.lower(): flat for child, flat in zip(values.type, values.flatten(), strict=True)}
    assigned = []
    for field in fields:
        child = children.get(field.name.lower())
        missing = pa.nulls(len(values), arrow_type(field.type))
        inner = missing if child is None else _assign(child, field.type, (*path, field.name), into)
        if not field.nullable and pc.any(pc.and_(inner.is_null(), values.is_valid())).as_py():
            raise NotNullViolationError(table=into.table, column=".".join((*path, field.name)))
        assigned.append(inner)
    wanted = arrow_type(Struct(tuple(fields)))
    return pa.StructArray.from_arrays(assigned, fields=list(wanted), mask=values.is_null())


def _assign_part(values: pa.Array, field: Field, path: Sequence[str], into: _Into) -> pa.Array:
    """The elements of an array, or the keys or values of a map."""
    inner = _assign(values, field.type, (*path, field.name), into)
    if not field.nullable and inner.null_count:
        raise NotNullViolationError(table=into.table, column=".".join((*path, field.name)))
    return inner


def _compact(values: pa.Array) -> pa.Array:
    """The same arrays or maps, without unused child values behind nulls or outside a slice."""
    return values.take(pa.array(range(len(values)), pa.int64()))


def _limited(values: pa.Array, field: Field, table: str) -> pa.Array:
    """Apply the limit of char(n) or varchar(n): trailing blanks beyond it are cut off, longer strings are refused, and
    char is padded.
    """
    declared = field.metadata.get(TEXT_TYPE)
    if declared is None:
        return values
    found = _LIMITED.fullmatch(str(declared).strip().lower())
    if found is None:
        remedy = "Append the data with Spark."
        raise UnsupportedOperationError(
            operation="Appending Arrow data",
            table=table,
            detail=f"column {field.name} contains {declared}, whose length cannot be checked without Spark",
            remedy=remedy,
        )
    limit = int(found[2])
    is_long = pc.greater(pc.utf8_length(values), limit)
    cut = pc.if_else(is_long, pc.utf8_slice_codeunits(values, 0, limit), values)
    is_refused = pc.and_(is_long, pc.greater(pc.utf8_length(pc.utf8_rtrim(values, " ")), limit))
    if pc.any(is_refused).as_py():
        refused = values.filter(is_refused)[0].as_py()[:_SHOWN_CHARACTERS]
        raise TextTooLongError(value=refused, column=field.name, table=table, type=found[0])
    return pc.utf8_rpad(cut, limit) if found[1] == "char" else cut
