"""Decides which data types may be stored in which column: one rule for all writers, with and without Spark, as in
the reference's INSERT, UPDATE and MERGE.

A type may be stored if Spark casts it under the session's policy (`spark.sql.storeAssignmentPolicy`). Pure: this module
compares types and does not use Spark. Columns and fields are matched by name, case-insensitively, at every depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal as Number
from decimal import InvalidOperation
from typing import Literal, TypeAlias

from tahoe.errors import (
    AssignedOverflowError,
    CastOverflowError,
    InvalidInputError,
    InvalidNumberError,
    InvalidTimeError,
    MissingNotNullColumnError,
    NoCastButFunctionError,
    NoCastButSettingError,
    NoCastError,
    NoSafeCastError,
    SchemaMismatchError,
    UnfitValueError,
    VariantCastError,
)
from tahoe.protocol.types.schema import (
    BINARY,
    BOOLEAN,
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
    VARIANT,
    VOID,
    Array,
    DataType,
    Decimal,
    Field,
    Geospatial,
    Map,
    Struct,
)

Policy: TypeAlias = Literal["ANSI", "STRICT", "LEGACY"]
"""How values of another type than the column's are stored.

- ANSI: the casts of Spark's ANSI mode, whatever mode the session is in; a value that does not fit is refused.
- STRICT: only lossless casts; all others are refused before any row is processed.
- LEGACY: a value that does not fit is stored as null or truncated, as Spark did before it had ANSI mode.
"""

# Each type can represent, at least approximately, all values of the types before it, so a cast to a later type never
# fails.
_WIDENING: tuple[DataType, ...] = (BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE)
_INTEGERS = _WIDENING[:4]
_TIMES = frozenset({DATE, TIMESTAMP, TIMESTAMP_NTZ})

_Kind: TypeAlias = Literal[
    "string",
    "integer",
    "fraction",
    "boolean",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
    "variant",
    "array",
    "map",
    "struct",
    "geospatial",
    "void",
]

_NUMBERS: frozenset[_Kind] = frozenset({"integer", "fraction"})
_CALENDAR: frozenset[_Kind] = frozenset({"date", "timestamp", "timestamp_ntz"})
_ATOMS: frozenset[_Kind] = _NUMBERS | _CALENDAR | {"string", "boolean", "binary", "variant"}

# The casts of Spark's ANSI mode, by the kind of the source type.
_CASTS: Mapping[_Kind, frozenset[_Kind]] = {
    "string": _ATOMS,
    "integer": _NUMBERS | {"string", "boolean", "timestamp", "variant"},
    "fraction": _NUMBERS | {"string", "boolean", "timestamp", "variant"},
    "boolean": _NUMBERS | {"string", "boolean", "variant"},
    "binary": frozenset({"string", "binary", "variant"}),
    "date": _CALENDAR | {"string", "variant"},
    "timestamp": _CALENDAR | _NUMBERS | {"string", "variant"},
    "timestamp_ntz": _CALENDAR | {"string", "variant"},
    "variant": _ATOMS | {"array", "map", "struct"},
    "array": frozenset({"string", "variant"}),
    "map": frozenset({"string"}),
    "struct": frozenset({"string"}),
    "geospatial": frozenset(),
    "void": _ATOMS | {"array", "map", "struct", "geospatial"},
}

# The additional casts of Spark's legacy mode.
_LEGACY_CASTS: Mapping[_Kind, frozenset[_Kind]] = {
    "integer": frozenset({"binary"}),
    "boolean": frozenset({"timestamp"}),
    "date": _NUMBERS | {"boolean"},
    "timestamp": frozenset({"boolean"}),
}

# The precision of the decimal type that Spark uses for each integral type.
_DIGITS: Mapping[DataType, int] = {BYTE: 3, SHORT: 5, INTEGER: 10, LONG: 20}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """Why data cannot be stored in a column, and what the user can do about it.

    Attributes:
        error: has the condition that Spark or the reference has for it.
    """

    error: type[SchemaMismatchError]
    detail: str
    remedy: str


def check_assignable(given: Struct, wanted: Struct, *, table: str, policy: Policy = "ANSI") -> None:
    """Refuse data whose types do not fit a table's columns.

    Raises:
        SchemaMismatchError: names every column that does not fit, with both types, and a remedy. Its class is that of
            the first of them.
    """
    found = list(mismatches(given, wanted, policy))
    if found:
        raise found[0].error(table=table, detail="; ".join(m.detail for m in found), remedy=found[0].remedy)


def check_present(given: Struct, wanted: Struct, *, table: str) -> None:
    """Refuse data that lack a column, or a field of a struct, that is NOT NULL.

    Raises:
        MissingNotNullColumnError: names every such column.
    """
    found = [each for each in mismatches(given, wanted, "ANSI") if each.error is MissingNotNullColumnError]
    if found:
        raise MissingNotNullColumnError(table=table, detail="; ".join(m.detail for m in found), remedy=found[0].remedy)


def mismatches(given: Struct, wanted: Struct, policy: Policy, prefix: tuple[str, ...] = ()) -> Iterator[Mismatch]:
    """The reasons why a struct cannot be stored as another. Columns that are not in `wanted` are ignored."""
    for column in wanted:
        path = (*prefix, column.name)
        source = given.find(column.name)
        if source is not None:
            yield from _inside(source.type, column.type, policy, path)
        elif not column.nullable:
            yield Mismatch(
                error=MissingNotNullColumnError,
                detail=f"column {'.'.join(path)} is NOT NULL, but the data does not have it",
                remedy="Add the column to the data.",
            )


def _inside(
    given: DataType, wanted: DataType, policy: Policy, path: tuple[str, ...], *, is_item: bool = False
) -> Iterator[Mismatch]:
    """`is_item`: of an array or a map."""
    match given, wanted:
        case Struct(), Struct():
            yield from mismatches(given, wanted, policy, path)
        case Array(), Array():
            yield from _inside(given.element, wanted.element, policy, (*path, "element"), is_item=True)
        case Map(), Map():
            yield from _inside(given.key, wanted.key, policy, (*path, "key"), is_item=True)
            yield from _inside(given.value, wanted.value, policy, (*path, "value"), is_item=True)
        case _ if not storable(given, wanted, policy):
            yield _mismatch(given, wanted, policy, path, is_item=is_item)


# The functions that Spark suggests instead of a cast, by kinds.
_FUNCTIONS: Mapping[tuple[_Kind, _Kind], str] = {
    **dict.fromkeys((("integer", "date"), ("fraction", "date")), "date_from_unix_date(days)"),
    **dict.fromkeys((("date", "integer"), ("date", "fraction")), "unix_date(date)"),
}


def _mismatch(given: DataType, wanted: DataType, policy: Policy, path: tuple[str, ...], *, is_item: bool) -> Mismatch:
    """As Spark tells why it does not cast: with a function, or with a setting, that would. A function does not take an
    array or a map.
    """
    detail = f"column {'.'.join(path)} is {wanted}, but {given} in the data"
    if policy == "STRICT" and storable(given, wanted, "ANSI"):
        return Mismatch(
            error=NoSafeCastError,
            detail=(
                f"{detail}; spark.sql.storeAssignmentPolicy=STRICT does not allow this cast, because a value may not "
                f"fit"
            ),
            remedy="Cast the column in the data, or set spark.sql.storeAssignmentPolicy=ANSI.",
        )
    remedy = (
        "Cast the column in the data, or give the table the data's schema with mode overwrite and option "
        "overwriteSchema=true."
    )
    function = None if is_item else _FUNCTIONS.get((_kind(given), _kind(wanted)))
    if policy == "STRICT":
        return Mismatch(error=NoSafeCastError, detail=detail, remedy=remedy)
    if function is not None:
        return Mismatch(
            error=NoCastButFunctionError, detail=detail, remedy=f"Convert the column in the data with {function}."
        )
    if storable(given, wanted, "LEGACY"):
        remedy = "Cast the column in the data; spark.sql.storeAssignmentPolicy=LEGACY would cast it as Spark 2 did."
        return Mismatch(error=NoCastButSettingError, detail=detail, remedy=remedy)
    return Mismatch(error=NoCastError, detail=detail, remedy=remedy)


def error_of_cast(given: DataType, wanted: DataType, value: str, *, are_assigned: bool) -> type[UnfitValueError]:
    """The error for a value that a cast which `storable` allows refuses: with the condition, and of the class, that
    Spark has for it.

    Args:
        value: its text.
        are_assigned: whether UPDATE or MERGE assigns the value.
    """
    if given == VARIANT:
        return VariantCastError
    kind = _kind(wanted)
    if kind in _CALENDAR:
        return InvalidTimeError
    if kind not in _NUMBERS:
        return InvalidInputError
    is_exact = isinstance(wanted, Decimal) and _is_number(value)
    if given == STRING and not is_exact:
        return InvalidNumberError
    return AssignedOverflowError if are_assigned else CastOverflowError


def _is_number(text: str) -> bool:
    try:
        return Number(text.strip()).is_finite()
    except InvalidOperation:
        return False


def storable(given: DataType, wanted: DataType, policy: Policy) -> bool:
    """Whether values of one type may be stored as another, with a cast that may fail for single values.

    Not for two structs, two arrays or two maps; their parts are compared instead.
    """
    if given == wanted:
        return True
    if policy == "STRICT":
        return _loses_nothing(given, wanted)
    if isinstance(given, Array) and wanted == VARIANT:
        return storable(given.element, VARIANT, policy)
    wanted_kind, kind = _kind(wanted), _kind(given)
    return wanted_kind in _CASTS[kind] or (policy == "LEGACY" and wanted_kind in _LEGACY_CASTS.get(kind, ()))


def _kind(data_type: DataType) -> _Kind:
    """The kind of a type, by which the tables of casts tell what may be stored as what."""
    match data_type:
        case Struct():
            return "struct"
        case Array():
            return "array"
        case Map():
            return "map"
        case Decimal():
            return "fraction"
        case Geospatial():
            return "geospatial"
        case _ if data_type in _INTEGERS:
            return "integer"
        case _:
            return _KINDS[data_type]


_KINDS: Mapping[DataType, _Kind] = {
    STRING: "string",
    FLOAT: "fraction",
    DOUBLE: "fraction",
    BOOLEAN: "boolean",
    BINARY: "binary",
    DATE: "date",
    TIMESTAMP: "timestamp",
    TIMESTAMP_NTZ: "timestamp_ntz",
    VARIANT: "variant",
    VOID: "void",
}


def _loses_nothing(given: DataType, wanted: DataType) -> bool:
    """Whether Spark considers a cast safe for every value (`canUpCast`)."""
    match given, wanted:
        case _ if given == VOID:
            return True
        case _ if wanted == STRING:
            return given != VARIANT and _kind(given) in _ATOMS
        case Decimal(), Decimal():
            return given.scale <= wanted.scale and given.precision - given.scale <= wanted.precision - wanted.scale
        case _, Decimal():
            return given in _DIGITS and _DIGITS[given] <= wanted.precision - wanted.scale
        case Decimal(), _:
            return wanted in _DIGITS and given.scale == 0 and given.precision < _DIGITS[wanted]
        case _ if given in _WIDENING and wanted in _WIDENING:
            return _WIDENING.index(given) <= _WIDENING.index(wanted)
        case _ if {given, wanted} == {LONG, TIMESTAMP}:
            return True
        case _:
            return given in _TIMES and wanted in (TIMESTAMP, TIMESTAMP_NTZ)


def always_fits(given: DataType, wanted: DataType) -> bool:
    """Whether a cast that `storable` allows succeeds for every value, with the same result in ANSI and legacy mode."""
    if given == VOID:
        return True
    if wanted == STRING:
        return given != VARIANT
    return given in _WIDENING and wanted in _WIDENING and _WIDENING.index(given) <= _WIDENING.index(wanted)


def conforms(given: Field, wanted: Field) -> bool:
    """Whether values can be stored unchanged: same types, same names in order and spelling, and no nulls where none are
    allowed.
    """
    return (
        given.name == wanted.name
        and (wanted.nullable or not given.nullable)
        and conforms_inside(given.type, wanted.type)
    )


def conforms_inside(given: DataType, wanted: DataType) -> bool:
    match given, wanted:
        case Struct(), Struct():
            return len(given) == len(wanted) and all(conforms(g, w) for g, w in zip(given, wanted, strict=True))
        case Array(), Array():
            return (wanted.contains_null or not given.contains_null) and conforms_inside(given.element, wanted.element)
        case Map(), Map():
            nulls = wanted.value_contains_null or not given.value_contains_null
            return nulls and conforms_inside(given.key, wanted.key) and conforms_inside(given.value, wanted.value)
        case _:
            return given == wanted
