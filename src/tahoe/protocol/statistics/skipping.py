"""Data skipping: the test on a file's statistics that follows from a predicate.

Protocol: "Per-file Statistics" (and paper §4). The law: a file that contains a matching row is always kept. A test
drops a file only if the statistics prove that no row matches. `stat_tests` defines and evaluates the tests. Inexact
statistics are accounted for here, when the test is built, so that evaluators need not know about them:

- String bounds may be truncated: a maximum may stand for any string that starts with it.
- Decimals of more than 15 digits may be rounded to a double: delta-rs and others write them so.
- Timestamp bounds are truncated to milliseconds: the true maximum may be up to 999 microseconds later.
- NaN is greater than every number, and writers leave it out of the maximum.
- With wide bounds, a null count is exact only if it is 0 or equal to `numRecords`: tests compare it with nothing else.
- A collation other than UTF8_BINARY orders strings differently: only null counts are used.
- A float column that was widened to double has bounds rounded to float precision.
- A value inside a variant is compared after a cast, and its bounds are of another type in every file
  (`variant_casts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal as PyDecimal
from typing import Any, Literal

from tahoe.protocol.configuration.column_mapping import physical_path
from tahoe.protocol.statistics.stat_tests import (
    DROP,
    KEEP,
    Always,
    Both,
    Bound,
    Either,
    HasNulls,
    HasValues,
    IsVaried,
    MayHoldInside,
    OneOf,
    OnPartition,
    Overlaps,
    StatTest,
)
from tahoe.protocol.statistics.stats import CUT_LENGTH_MIN, EXACT_DIGITS, Path, has_bounds
from tahoe.protocol.statistics.variants import normalized_path
from tahoe.protocol.types import predicate as p
from tahoe.protocol.types.column_metadata import collations_of
from tahoe.protocol.types.partitions import INTEGER_BITS
from tahoe.protocol.types.predicate import Predicate, columns_of, has_computed, has_unknown, is_nan
from tahoe.protocol.types.schema import VARIANT, Array, DataType, Decimal, Field, Map, Primitive, Struct
from tahoe.protocol.types.type_widening import changes_of

# Of longer texts, not every prefix is looked for among the maxima: there are as many as characters.
CUT_LENGTH_MAX = 256

# A longer IN list is not tested value by value, but looked up by the file's bounds.
IN_VALUES_MAX = 100

_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1

MILLISECOND_REST = timedelta(microseconds=999)


# --- building


def skipping_test(
    predicate: Predicate, schema: Struct, partition_columns: Iterable[str] = (), mode: str = "none"
) -> StatTest:
    """The test for a predicate.

    Args:
        schema: the table's schema; the predicate uses its logical names.
        mode: the column mapping mode, which determines the physical paths of the statistics.
    """
    builder = _Builder(schema=schema, partitions=frozenset(name.lower() for name in partition_columns), mode=mode)
    return builder.build(push_down(p.rename(predicate, builder.spelled)))


def push_down(predicate: Predicate) -> Predicate:
    """An equivalent predicate in which NOT stands only directly before `=`, `<=>`, IS NULL, IN, LIKE and unknown
    expressions.
    """
    match predicate:
        case p.And(parts):
            return p.And(tuple(push_down(part) for part in parts))
        case p.Or(parts):
            return p.Or(tuple(push_down(part) for part in parts))
        case p.Not(part):
            return _negated(part)
        case _:
            return predicate


_OPPOSITE: Mapping[p.Operator, p.Operator] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def _negated(predicate: Predicate) -> Predicate:
    """NOT of a predicate, pushed down. It may replace `<` by `>=` because both are null for the same rows."""
    match predicate:
        case p.Not(part):
            return push_down(part)
        case p.And(parts):
            return p.Or(tuple(_negated(part) for part in parts))
        case p.Or(parts):
            return p.And(tuple(_negated(part) for part in parts))
        case p.Constant(value):
            return p.Constant(None if value is None else not value)
        case p.Comparison(symbol) if symbol in _OPPOSITE:
            return replace(predicate, operator=_OPPOSITE[symbol])
        case _:
            return p.Not(predicate)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Builder:
    """Builds the test for one predicate whose negations are pushed down.

    `numbers` are the columns that another part of the same conjunction restricts to values other than NaN.
    """

    schema: Struct
    partitions: frozenset[str]
    mode: str
    numbers: frozenset[tuple[str, ...]] = field(default=frozenset())

    def spelled(self, column: p.Column) -> p.Column:
        """The column with its names spelled as in the schema."""
        fields = self.schema.resolve(column.path)
        return column if fields is None else p.Column(tuple(f.name for f in fields))

    def build(self, predicate: Predicate) -> StatTest:
        if self.is_on_partitions(predicate):
            return OnPartition(predicate)
        match predicate:
            case p.And(parts):
                inner = replace(
                    self, numbers=self.numbers | {path for part in parts for path in _held_to_numbers(part)}
                )
                return _both(inner.build(part) for part in parts)
            case p.Or(parts):
                return _either(self.build(part) for part in parts)
            case p.Constant(value):
                return Always(value is True)
            case p.InVariant():
                return self.variant_test(predicate)
            case p.Unknown() | p.Computed() | p.Not(p.Unknown() | p.Computed()):
                return KEEP
            case p.Not(part):
                return self.column_test(part, _UNEQUAL)
            case _:
                return self.column_test(predicate, _EQUAL)

    def is_on_partitions(self, predicate: Predicate) -> bool:
        columns = {column.path for column in columns_of(predicate)}
        if not columns or has_unknown(predicate) or has_computed(predicate):
            return False
        return all(path[0].lower() in self.partitions and not is_collated(self.schema, path) for path in columns)

    def column_test(self, predicate: Any, tests: Mapping[type[Any], Callable[[_Column, Any], StatTest]]) -> StatTest:
        column = self.column(predicate.column.path)
        return KEEP if column is None else tests[type(predicate)](column, predicate)

    def column(self, logical: tuple[str, ...]) -> _Column | None:
        """A column that may have statistics; None for partition columns, structs, arrays, maps, variants and unknown
        names.
        """
        found = self.stored(logical)
        if found is None or isinstance(found[0][-1].type, Struct | Array | Map) or found[0][-1].type == VARIANT:
            return None
        fields, path = found
        is_number = logical in self.numbers
        return _Column(path=path, type=fields[-1].type, has_order=has_exact_order(fields), is_number=is_number)

    def stored(self, logical: tuple[str, ...]) -> tuple[tuple[Field, ...], Path] | None:
        """A column of data files with the structs that it is in, and its physical path; None for other names."""
        fields, path = self.schema.resolve(logical), physical_path(self.schema, logical, self.mode)
        if fields is None or path is None or logical[0].lower() in self.partitions:
            return None
        return fields, path

    def variant_test(self, predicate: p.InVariant) -> StatTest:
        """A condition on a value inside a variant, which is not true for nulls."""
        found = self.stored(predicate.column.path)
        if found is None or found[0][-1].type != VARIANT:
            return KEEP
        path, condition = found[1], predicate.condition
        if isinstance(condition, p.Comparison) and condition.literal.value is None:
            return KEEP  # a missing value is null, whatever the bounds are
        of_numbers, of_any = (
            _EQUAL[type(condition)](
                _Column(path=(), type=predicate.type, has_order=has_bounds(predicate.type), is_number=is_number),
                condition,
            )
            for is_number in (True, False)
        )
        test = MayHoldInside(path, normalized_path(predicate.keys), predicate.type, of_any, of_numbers)
        return _both((HasValues(path), KEEP if test.of_numbers == HasValues(()) else test))


def _held_to_numbers(predicate: Predicate) -> Iterator[tuple[str, ...]]:
    """The columns that cannot be NaN in a row for which the predicate is true."""
    match predicate:
        case p.And(parts):
            for part in parts:
                yield from _held_to_numbers(part)
        case p.Comparison(symbol, column, literal):
            is_below = symbol in ("<", "<=", "=", "<=>") and literal.value is not None
            if is_below and (symbol == "<" or not is_nan(literal.value)):
                yield column.path
        case p.In(column, values):
            if not any(is_nan(value) for value in values):
                yield column.path
        case _:
            return


def has_exact_order(fields: tuple[Field, ...]) -> bool:
    """Whether a column has bounds, in the order of its values, that were not rounded for another type.

    Args:
        fields: the column, and the structs that it is in.
    """
    return has_bounds(fields[-1].type) and not any(has_collation(f) for f in fields) and not _was_float(fields[-1])


def has_collation(column: Field) -> bool:
    """Whether strings in a column are compared by another collation than UTF8_BINARY."""
    return bool(collations_of(column.metadata))


def is_collated(schema: Struct, path: tuple[str, ...]) -> bool:
    """Whether a column, by its path through structs, has such a collation."""
    return any(map(has_collation, schema.resolve(path) or ()))


def _was_float(column: Field) -> bool:
    return any(change.get("fromType") == "float" for change in changes_of(column))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A column that may have statistics."""

    path: Path
    type: DataType
    has_order: bool
    is_number: bool

    @property
    def name(self) -> str:
        return self.type.name if isinstance(self.type, Primitive) else "decimal"

    @property
    def may_be_nan(self) -> bool:
        return self.name in ("float", "double") and not self.is_number

    @property
    def may_be_rounded(self) -> bool:
        """Whether bounds may be those of a writer that passes decimals through doubles. Rounding keeps the order of
        values.
        """
        return isinstance(self.type, Decimal) and self.type.precision > EXACT_DIGITS

    @property
    def has_values(self) -> StatTest:
        """The file may have a value that is not null, which every comparison requires."""
        return HasValues(self.path)

    def at_most(self, value: Any, operator: Literal["<", "<="] = "<=") -> StatTest:
        """The file may have a value that is at most this one."""
        if self.may_be_rounded:
            return Bound("min", self.path, "<=", max(_rounded(value)))
        return Bound("min", self.path, operator, value)

    def at_least(self, value: Any, operator: Literal[">", ">="] = ">=") -> StatTest:
        """The file may have a value that is at least this one; NaN is not considered."""
        if self.name in ("timestamp", "timestamp_ntz"):
            return self._at_least_moment(value, operator)
        if self.may_be_rounded:
            return Bound("max", self.path, ">=", min(_rounded(value)))
        found = Bound("max", self.path, operator, value)
        if self.name == "string" and len(value) >= CUT_LENGTH_MIN:
            prefixes = frozenset(value[:end] for end in range(CUT_LENGTH_MIN, min(len(value) + 1, CUT_LENGTH_MAX)))
            is_long = len(value) >= CUT_LENGTH_MAX  # a maximum that is a longer prefix is not less than this one
            longer = Bound("max", self.path, ">=", value[:CUT_LENGTH_MAX]) if is_long else found
            return Either((longer, OneOf("max", self.path, prefixes)))
        return found

    def _at_least_moment(self, value: datetime, operator: Literal[">", ">="]) -> StatTest:
        try:
            return Bound("max", self.path, operator, value - MILLISECOND_REST)
        except OverflowError:
            return KEEP

    def at(self, value: Any) -> StatTest:
        """The file may have this value, which is not NaN."""
        return _both((self.at_most(value), self.at_least(value)))

    def at_one_of(self, values: Iterable[Any]) -> StatTest:
        """The file may have one of these values, none of which is NaN."""
        found = tuple(sorted({*values}))
        greatest = tuple(max(_rounded(value)) for value in found) if self.may_be_rounded else found
        try:
            return Overlaps(self.path, self._least_maxima(found), greatest)
        except OverflowError:
            return KEEP

    def _least_maxima(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """For each value, the maximum below which none stands for it."""
        match self.name:
            case "timestamp" | "timestamp_ntz":
                return tuple(value - MILLISECOND_REST for value in values)
            case "string":
                return tuple(value[:CUT_LENGTH_MIN] for value in values)
            case "decimal" if self.may_be_rounded:
                return tuple(min(_rounded(value)) for value in values)
        return values

    def accepts(self, value: Any) -> bool:
        """Whether a literal can be compared exactly with this column's bounds."""
        if not self.has_order or isinstance(value, bool):
            return False
        if self.name in INTEGER_BITS:
            return isinstance(value, int) and _LONG_MIN <= value <= _LONG_MAX
        if self.name == "decimal":
            return isinstance(value, int | PyDecimal)
        return isinstance(value, _LITERALS[self.name]) and _has_right_zone(value, self.name)


_LITERALS: Mapping[str, type[Any]] = {
    "float": float,
    "double": float,
    "string": str,
    "date": date,
    "timestamp": datetime,
    "timestamp_ntz": datetime,
}


def _rounded(value: int | PyDecimal) -> tuple[PyDecimal, PyDecimal]:
    """A decimal, and what statistics have of it if their writer passes it through a double."""
    exact = PyDecimal(value)
    rounded = PyDecimal(repr(float(exact)))
    return exact, PyDecimal(f"{rounded:f}") if rounded.is_finite() else exact


def _has_right_zone(value: Any, name: str) -> bool:
    """Whether a date or timestamp literal fits the type: a timestamp has a time zone; a timestamp_ntz and a date have
    none.
    """
    if isinstance(value, datetime):
        return name == ("timestamp_ntz" if value.tzinfo is None else "timestamp")
    return not isinstance(value, date) or name == "date"


# --- one condition on one column


def _comparison(column: _Column, condition: p.Comparison) -> StatTest:
    """The test of a column against a literal. A comparison with null is never true, but `<=> NULL` is IS NULL. NaN is
    above all numbers and in no bounds, so no bound rules out `>` on a column that may have it.
    """
    symbol, value = condition.operator, condition.literal.value
    if value is None:
        return HasNulls(column.path) if symbol == "<=>" else DROP
    if not column.accepts(value):
        return column.has_values
    if is_nan(value):
        return _beside_nan(column, symbol)
    match symbol:
        case "=" | "<=>":
            found = column.at(value)
        case "<" | "<=":
            found = column.at_most(value, symbol)
        case ">" | ">=":
            found = KEEP if column.may_be_nan else column.at_least(value, symbol)
    return _both((column.has_values, found))


def _beside_nan(column: _Column, symbol: p.Operator) -> StatTest:
    """A comparison with NaN, which is greater than every number and never appears in statistics."""
    if symbol == ">" or (not column.may_be_nan and symbol in ("=", "<=>", ">=")):
        return DROP
    return column.has_values


def _null_test(column: _Column, _: p.IsNull) -> StatTest:
    return HasNulls(column.path)


def _membership(column: _Column, condition: p.In) -> StatTest:
    values = [value for value in condition.values if value is not None]
    if not values:
        return DROP
    if not all(column.accepts(value) for value in values) or any(is_nan(value) for value in values):
        return column.has_values
    if len(values) > IN_VALUES_MAX:
        return _both(
            (column.has_values, column.at_most(max(values)), column.at_least(min(values)), column.at_one_of(values))
        )
    return _both((column.has_values, _either(column.at(value) for value in dict.fromkeys(values))))


def _prefix_test(column: _Column, condition: p.StartsWith) -> StatTest:
    if not column.accepts(condition.prefix):
        return column.has_values
    after = text_after(condition.prefix)
    below = KEEP if after is None else column.at_most(after, "<")
    return _both((column.has_values, below, column.at_least(condition.prefix)))


def text_after(prefix: str) -> str | None:
    """The smallest string greater than all strings with the prefix; None if there is none."""
    for end in range(len(prefix), 0, -1):
        following = ord(prefix[end - 1]) + 1
        if following <= 0x10FFFF:
            return prefix[: end - 1] + chr(0xE000 if 0xD800 <= following <= 0xDFFF else following)
    return None


# --- one negated condition on one column


def _not_equal(column: _Column, condition: p.Comparison) -> StatTest:
    """`NOT =` and `NOT <=>`; `push_down` has inverted the other comparisons."""
    value = condition.literal.value
    if value is None:
        return column.has_values if condition.operator == "<=>" else DROP
    varied = IsVaried(column.path, value) if _shows_single_value(column, value) else KEEP
    found = _both((column.has_values, varied))
    return _either((found, HasNulls(column.path))) if condition.operator == "<=>" else found


def _shows_single_value(column: _Column, value: Any) -> bool:
    """Whether equal bounds prove that all values are equal. Truncated bounds do not, nor do those of types with NaN."""
    if (
        not column.accepts(value)
        or column.may_be_rounded
        or column.name in ("float", "double", "timestamp", "timestamp_ntz")
    ):
        return False
    return not isinstance(value, str) or len(value) < CUT_LENGTH_MIN


def _not_null(column: _Column, _: p.IsNull) -> StatTest:
    return column.has_values


def _not_member(column: _Column, condition: p.In) -> StatTest:
    if not condition.values:  # NOT IN an empty list is true, even for null
        return KEEP
    if any(value is None for value in condition.values):
        return DROP
    if len(condition.values) > IN_VALUES_MAX:
        return column.has_values
    provable = [value for value in condition.values if _shows_single_value(column, value)]
    # Drops a file whose every value is one and the same of the list.
    return _both((column.has_values, *(IsVaried(column.path, value) for value in provable)))


def _not_prefix(column: _Column, _: p.StartsWith) -> StatTest:
    return column.has_values


_EQUAL: Mapping[type[Any], Callable[[_Column, Any], StatTest]] = {
    p.Comparison: _comparison,
    p.IsNull: _null_test,
    p.In: _membership,
    p.StartsWith: _prefix_test,
}
_UNEQUAL: Mapping[type[Any], Callable[[_Column, Any], StatTest]] = {
    p.Comparison: _not_equal,
    p.IsNull: _not_null,
    p.In: _not_member,
    p.StartsWith: _not_prefix,
}


def _both(parts: Iterable[StatTest]) -> StatTest:
    return _join_tests(parts, Both, absorbing=DROP, neutral=KEEP)


def _either(parts: Iterable[StatTest]) -> StatTest:
    return _join_tests(parts, Either, absorbing=KEEP, neutral=DROP)


def _join_tests(
    parts: Iterable[StatTest], kind: type[Both] | type[Either], *, absorbing: Always, neutral: Always
) -> StatTest:
    """One test of several: nested tests of the kind become one, repeated and neutral ones are left out, and an
    absorbing one decides alone.
    """
    flat: dict[StatTest, None] = {}
    for part in parts:
        if part == absorbing:
            return absorbing
        if part != neutral:
            flat.update(dict.fromkeys(part.parts if isinstance(part, kind) else (part,)))
    if not flat:
        return neutral
    return next(iter(flat)) if len(flat) == 1 else kind(tuple(flat))
