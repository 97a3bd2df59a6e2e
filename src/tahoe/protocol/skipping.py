"""From a predicate to a test on what the log says of a file: can it hold a row for which the predicate is true?

Protocol: "Per-file Statistics" (and paper §4). The law: a file with a matching row is always kept. So a test answers False only where
that is proven, and everything that is not known keeps the file.

A test is a tree of few kinds, so that it is easily evaluated here for one file and by `tahoe.table` for a million at once:

- `Bound`: the file's minimum or maximum of a column compares so with a value.
- `OneOf`: it is one of these values.
- `HasNulls`, `HasValues`: the file may have a null, or something else, in a column.
- `IsVaried`: not every value of a column is this one.
- `OnPartition`: a predicate over partition columns alone, whose values are known exactly: keep where it is true.
- `Both`, `Either`: all, or one, of the parts keep the file. `KEEP` and `DROP` always and never do.

**A leaf whose statistic is missing keeps the file.** Columns of statistics are named by physical paths. What statistics leave open
is put into the tree when it is built, and evaluators need not know of it:
- Texts may be cut off: a maximum may stand for any text that starts with it.
- Timestamps are cut down to milliseconds: a maximum may stand for a time up to 999 microseconds later.
- NaN is above all numbers, and writers leave it out of the maximum.
- A null count other than 0 and `numRecords` may be wrong where bounds are wide; only these two are ever used.
- A collation other than UTF8_BINARY orders differently: only nulls are looked at.
- A float column that became double has bounds that were rounded for a float.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal as PyDecimal
from typing import Any, Literal, TypeAlias

from tahoe.protocol import predicate as p
from tahoe.protocol.column_mapping import physical_path
from tahoe.protocol.partitions import INTEGER_BITS
from tahoe.protocol.predicate import Predicate, columns_of, has_unknown, is_nan
from tahoe.protocol.schema import VARIANT, Array, DataType, Field, Map, Primitive, Struct
from tahoe.protocol.stats import Path, Statistics, has_bounds
from tahoe.protocol.type_widening import changes_of

BoundName: TypeAlias = Literal["min", "max"]
Order: TypeAlias = Literal["<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Bound:
    """`statistic operator value`, as `min <= 5`. Values are of the column's type, numbers of another width included."""

    statistic: BoundName
    path: Path
    operator: Order
    value: Any


@dataclass(frozen=True, slots=True)
class OneOf:
    statistic: BoundName
    path: Path
    values: frozenset[Any]


@dataclass(frozen=True, slots=True)
class HasNulls:
    """`null_count != 0`."""

    path: Path


@dataclass(frozen=True, slots=True)
class HasValues:
    """`null_count != num_records`."""

    path: Path


@dataclass(frozen=True, slots=True)
class IsVaried:
    """`not (min = value and max = value)`."""

    path: Path
    value: Any


@dataclass(frozen=True, slots=True)
class OnPartition:
    """A predicate by logical names; keep where `predicate.evaluate` of the typed partition values is true, not false or null."""

    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Both:
    parts: tuple[StatTest, ...]


@dataclass(frozen=True, slots=True)
class Either:
    parts: tuple[StatTest, ...]


@dataclass(frozen=True, slots=True)
class Always:
    keep: bool


StatTest: TypeAlias = "Bound | OneOf | HasNulls | HasValues | IsVaried | OnPartition | Both | Either | Always"

KEEP, DROP = Always(True), Always(False)

# Maxima of texts at least this long may have been cut off. The reference cuts at 32 characters, other writers at 16.
CUT_LENGTH_MIN = 16

# More values than these are tested by their smallest and largest alone.
IN_VALUES_MAX = 100

_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1

_MILLISECOND_REST = timedelta(microseconds=999)

_BINARY_COLLATION = "UTF8_BINARY"


# --- building


def skipping_test(predicate: Predicate, schema: Struct, partition_columns: Iterable[str] = (), mode: str = "none") -> StatTest:
    """The test for a predicate.

    Args:
        schema: the table's, with logical names, which the predicate uses.
        mode: of column mapping; gives the statistics' physical paths.
    """
    builder = _Builder(schema=schema, partitions=frozenset(name.lower() for name in partition_columns), mode=mode)
    return builder.build(push_down(p.rename(predicate, builder.spelled)))


def push_down(predicate: Predicate) -> Predicate:
    """The same with NOT only directly before `=`, `<=>`, IS NULL, IN, LIKE and what is not understood."""
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
    """Builds the test of one predicate whose negations are pushed down.

    `numbers` are the columns that some condition beside the present one holds to be a number and not NaN.
    """

    schema: Struct
    partitions: frozenset[str]
    mode: str
    numbers: frozenset[tuple[str, ...]] = field(default=frozenset())

    def spelled(self, column: p.Column) -> p.Column:
        """The column with the schema's spelling of its names."""
        fields = self.schema.resolve(column.path)
        return column if fields is None else p.Column(tuple(f.name for f in fields))

    def build(self, predicate: Predicate) -> StatTest:
        if self.is_on_partitions(predicate):
            return OnPartition(predicate)
        match predicate:
            case p.And(parts):
                inner = replace(self, numbers=self.numbers | {path for part in parts for path in _held_to_numbers(part)})
                return _both(inner.build(part) for part in parts)
            case p.Or(parts):
                return _either(self.build(part) for part in parts)
            case p.Constant(value):
                return Always(value is True)
            case p.Unknown() | p.Not(p.Unknown()):
                return KEEP
            case p.Not(part):
                return self.column_test(part, _UNEQUAL)
            case _:
                return self.column_test(predicate, _EQUAL)

    def is_on_partitions(self, predicate: Predicate) -> bool:
        columns = {column.path for column in columns_of(predicate)}
        return bool(columns) and not has_unknown(predicate) and all(path[0].lower() in self.partitions for path in columns)

    def column_test(self, predicate: Any, tests: Mapping[type[Any], Callable[[_Column, Any], StatTest]]) -> StatTest:
        column = self.column(predicate.column.path)
        return KEEP if column is None else tests[type(predicate)](column, predicate)

    def column(self, logical: tuple[str, ...]) -> _Column | None:
        """What statistics say of a column; None for what has none: partition columns, structs, arrays, maps, unknown names."""
        fields, path = self.schema.resolve(logical), physical_path(self.schema, logical, self.mode)
        if fields is None or path is None or logical[0].lower() in self.partitions:
            return None
        data_type = fields[-1].type
        if isinstance(data_type, Struct | Array | Map) or data_type == VARIANT:
            return None
        has_order = has_bounds(data_type) and not _is_inexact(fields)
        return _Column(path=path, type=data_type, has_order=has_order, is_number=logical in self.numbers)


def _held_to_numbers(predicate: Predicate) -> Iterator[tuple[str, ...]]:
    """Columns that are not NaN where this is true."""
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


def _is_inexact(fields: tuple[Field, ...]) -> bool:
    """Whether bounds of the column may be in another order, or rounded for another type."""
    return any(_has_collation(f) for f in fields) or _was_float(fields[-1])


def _has_collation(column: Field) -> bool:
    collations = column.metadata.get("__COLLATIONS") or {}
    return any(str(name).rsplit(".", 1)[-1].upper() != _BINARY_COLLATION for name in collations.values())


def _was_float(column: Field) -> bool:
    return any(change.get("fromType") == "float" for change in changes_of(column))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A column in statistics."""

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
    def values(self) -> StatTest:
        """What any comparison needs to be true: a value that is not null."""
        return HasValues(self.path)

    def at_most(self, value: Any, operator: Literal["<", "<="] = "<=") -> StatTest:
        """The file may have a value that is at most this one."""
        return Bound("min", self.path, operator, value)

    def at_least(self, value: Any, operator: Literal[">", ">="] = ">=") -> StatTest:
        """The file may have a value that is at least this one; NaN is left aside."""
        if self.name in ("timestamp", "timestamp_ntz"):
            return self._at_least_moment(value, operator)
        found = Bound("max", self.path, operator, value)
        if self.name == "string" and len(value) >= CUT_LENGTH_MIN:
            prefixes = frozenset(value[:end] for end in range(CUT_LENGTH_MIN, len(value) + 1))
            return Either((found, OneOf("max", self.path, prefixes)))
        return found

    def _at_least_moment(self, value: datetime, operator: Literal[">", ">="]) -> StatTest:
        try:
            return Bound("max", self.path, operator, value - _MILLISECOND_REST)
        except OverflowError:
            return KEEP

    def at(self, value: Any) -> StatTest:
        """The file may have this value, which is not NaN."""
        return _both((self.at_most(value), self.at_least(value)))

    def accepts(self, value: Any) -> bool:
        """Whether a literal is of a kind that is compared with this column's bounds exactly."""
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


def _has_right_zone(value: Any, name: str) -> bool:
    """A date is no timestamp and the other way round; a timestamp has a zone, a timestamp_ntz none."""
    if isinstance(value, datetime):
        return name == ("timestamp_ntz" if value.tzinfo is None else "timestamp")
    return not isinstance(value, date) or name == "date"


# --- one condition on one column


def _comparison(column: _Column, condition: p.Comparison) -> StatTest:
    symbol, value = condition.operator, condition.literal.value
    if value is None:
        return HasNulls(column.path) if symbol == "<=>" else DROP
    if not column.accepts(value):
        return column.values
    if is_nan(value):
        return _beside_nan(column, symbol)
    match symbol:
        case "=" | "<=>":
            found = column.at(value)
        case "<" | "<=":
            found = column.at_most(value, symbol)
        case ">" | ">=":
            found = KEEP if column.may_be_nan else column.at_least(value, symbol)
    return _both((column.values, found))


def _beside_nan(column: _Column, symbol: p.Operator) -> StatTest:
    """A comparison with NaN, which is above all numbers; statistics do not show it."""
    if symbol == ">" or (not column.may_be_nan and symbol in ("=", "<=>", ">=")):
        return DROP
    return column.values


def _null_test(column: _Column, _: p.IsNull) -> StatTest:
    return HasNulls(column.path)


def _membership(column: _Column, condition: p.In) -> StatTest:
    values = [value for value in condition.values if value is not None]
    if not values:
        return DROP
    if not all(column.accepts(value) for value in values) or any(is_nan(value) for value in values):
        return column.values
    if len(values) > IN_VALUES_MAX:
        return _both((column.values, column.at_most(max(values)), column.at_least(min(values))))
    return _both((column.values, _either(column.at(value) for value in dict.fromkeys(values))))


def _prefix_test(column: _Column, condition: p.StartsWith) -> StatTest:
    if not column.accepts(condition.prefix):
        return column.values
    after = _text_after(condition.prefix)
    below = KEEP if after is None else column.at_most(after, "<")
    return _both((column.values, below, column.at_least(condition.prefix)))


def _text_after(prefix: str) -> str | None:
    """The smallest text above all that start with the prefix; None where there is none."""
    for end in range(len(prefix), 0, -1):
        following = ord(prefix[end - 1]) + 1
        if following <= 0x10FFFF:
            return prefix[: end - 1] + chr(0xE000 if 0xD800 <= following <= 0xDFFF else following)
    return None


# --- the same, negated


def _not_equal(column: _Column, condition: p.Comparison) -> StatTest:
    """`NOT =` and `NOT <=>`; the other comparisons have been turned round."""
    value = condition.literal.value
    if value is None:
        return column.values if condition.operator == "<=>" else DROP
    varied = IsVaried(column.path, value) if _shows_single_value(column, value) else KEEP
    found = _both((column.values, varied))
    return _either((found, HasNulls(column.path))) if condition.operator == "<=>" else found


def _shows_single_value(column: _Column, value: Any) -> bool:
    """Whether equal bounds mean that all values are equal to them: bounds that are cut off do not, nor where there may be NaN."""
    if not column.accepts(value) or column.name in ("float", "double", "timestamp", "timestamp_ntz"):
        return False
    return not isinstance(value, str) or len(value) < CUT_LENGTH_MIN


def _not_null(column: _Column, _: p.IsNull) -> StatTest:
    return column.values


def _not_member(column: _Column, condition: p.In) -> StatTest:
    if not condition.values:  # NOT IN an empty list is true, for null as well
        return KEEP
    if any(value is None for value in condition.values):
        return DROP
    if len(condition.values) > IN_VALUES_MAX:
        return column.values
    shown = [value for value in condition.values if _shows_single_value(column, value)]
    return _both((column.values, *(IsVaried(column.path, value) for value in shown)))


def _not_prefix(column: _Column, _: p.StartsWith) -> StatTest:
    return column.values


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
    return _joined(parts, Both, absorbing=DROP, neutral=KEEP)


def _either(parts: Iterable[StatTest]) -> StatTest:
    return _joined(parts, Either, absorbing=KEEP, neutral=DROP)


def _joined(parts: Iterable[StatTest], kind: type[Both] | type[Either], *, absorbing: Always, neutral: Always) -> StatTest:
    flat: dict[StatTest, None] = {}
    for part in parts:
        if part == absorbing:
            return absorbing
        if part != neutral:
            flat.update(dict.fromkeys(part.parts if isinstance(part, kind) else (part,)))
    if not flat:
        return neutral
    return next(iter(flat)) if len(flat) == 1 else kind(tuple(flat))


# --- reading a test


def paths_in(test: StatTest) -> frozenset[Path]:
    """The physical paths of the columns whose statistics a test looks at."""
    match test:
        case Both(parts) | Either(parts):
            return frozenset(path for part in parts for path in paths_in(part))
        case Bound() | OneOf() | HasNulls() | HasValues() | IsVaried():
            return frozenset({test.path})
        case _:
            return frozenset()


def may_match(test: StatTest, statistics: Statistics | None, partition: Mapping[str, Any] | None = None) -> bool:
    """Whether a file may hold a row for which the predicate is true.

    Args:
        partition: the file's typed partition values by logical name.
    """
    match test:
        case Always(keep):
            return keep
        case Both(parts):
            return all(may_match(part, statistics, partition) for part in parts)
        case Either(parts):
            return any(may_match(part, statistics, partition) for part in parts)
        case OnPartition(predicate):
            return _holds_for(predicate, partition or {})
        case _:
            return statistics is None or _leaf(test, statistics)


def _holds_for(predicate: Predicate, partition: Mapping[str, Any]) -> bool:
    try:
        return p.evaluate(predicate, partition) is True
    except TypeError:  # a value beyond Python's calendar
        return True


def _leaf(test: Bound | OneOf | HasNulls | HasValues | IsVaried, statistics: Statistics) -> bool:
    match test:
        case HasNulls(path):
            return statistics.null_count.get(path) != 0
        case HasValues(path):
            count = statistics.null_count.get(path)
            return count is None or count != statistics.num_records
        case IsVaried(path, value):
            bounds = statistics.min_values.get(path), statistics.max_values.get(path)
            return any(bound is None or not _compares("=", bound, value) for bound in bounds)
        case OneOf(name, path, values):
            bound = _bound(statistics, name, path)
            return bound is None or bound in values
        case Bound(name, path, operator, value):
            bound = _bound(statistics, name, path)
            return bound is None or _compares(operator, bound, value)


def _bound(statistics: Statistics, name: BoundName, path: Path) -> Any:
    return (statistics.min_values if name == "min" else statistics.max_values).get(path)


def _compares(operator: p.Operator, bound: Any, value: Any) -> bool:
    try:
        return p.compare(operator, bound, value) is True
    except TypeError:  # a bound beyond Python's calendar: it proves nothing
        return operator != "="
