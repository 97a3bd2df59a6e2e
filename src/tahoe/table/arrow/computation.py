"""Computes expressions over the rows of an Arrow table, as Spark computes them in ANSI mode.

Overflow, division by zero and values that cannot be cast raise an error; a branch of CASE, AND, OR or COALESCE is
computed only for the rows that need it. Knows nothing of Delta tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from decimal import Decimal as PyDecimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import ExpressionFailedError
from tahoe.protocol.types.expressions import Call, Expression, Reference, Value, references
from tahoe.protocol.types.partitions import (
    BLANKS,
    DAY_MICROS,
    cast_boolean,
    parse_date,
    parse_timestamp,
    parse_timestamp_ntz,
)
from tahoe.protocol.types.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    Decimal,
)
from tahoe.table.arrow.chunks import one_array
from tahoe.table.arrow.decimals import DOUBLE_DIGITS, decimal_of_scale, rounded_decimal, wide
from tahoe.table.arrow.types import arrow_type

# What a computation raises if a value is not possible: too large, divided by zero, not a number.
IMPOSSIBLE = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, ArithmeticError, ValueError)


class FaultyRowError(ValueError):
    """A function has no value for a row. `condition` is Spark's."""

    def __init__(self, detail: str, condition: str) -> None:
        super().__init__(detail)
        self.condition = condition


_FAILURES: Mapping[str, type[ExpressionFailedError]] = {
    kind.condition: kind for kind in ExpressionFailedError.__subclasses__()
}


def expression_failed(error: Exception, *, table: str, expression: str) -> ExpressionFailedError:
    """One of IMPOSSIBLE as an error that names the expression, with Spark's condition."""
    kind = (
        _FAILURES.get(error.condition, ExpressionFailedError)
        if isinstance(error, FaultyRowError)
        else ExpressionFailedError
    )
    return kind(table=table, expression=expression, detail=str(error))


def compute(expression: Expression, rows: pa.Table) -> pa.Array:
    """The value of an expression for each row, of the Arrow type of its type.

    Raises:
        one of IMPOSSIBLE: a value that Spark refuses too; a `FaultyRowError` where Spark has a condition for it.
    """
    match expression:
        case Reference(path, kind):
            return one_array(column_values(rows, path)).cast(arrow_type(kind))
        case Value(value, kind):
            return pa.repeat(pa.scalar(value, arrow_type(kind)), rows.num_rows)
        case Call("and" | "or" | "case" | "coalesce"):
            return _LAZY[expression.function](expression, rows)
        case Call(name, arguments, kind):
            values = _operands(expression, rows) if name in _STRICT else [compute(each, rows) for each in arguments]
            try:
                found = one_array(_PLAIN[name](*values) if name in _PLAIN else _OTHER[name](expression, *values))
                return found if found.type.equals(arrow_type(kind)) else found.cast(arrow_type(kind))
            except IMPOSSIBLE as error:
                condition = _condition(expression, error)
                if condition is None:
                    raise
                raise FaultyRowError(str(error), condition) from error


_SMALL = (BYTE, SHORT)


def _condition(call: Call, error: Exception) -> str | None:
    """Spark's condition if a function has no value for a row; None if it has none."""
    kinds = (call.type, *(argument.type for argument in call.arguments))
    match call.function:
        case "%":
            return "REMAINDER_BY_ZERO"
        case "/" | "div" if isinstance(error, ZeroDivisionError):
            return "DIVIDE_BY_ZERO"
        case "+" | "-" | "*" if isinstance(kinds[0], Decimal):
            return "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION"
        case "+" | "-" | "*" if kinds[0] in _SMALL:
            return "BINARY_ARITHMETIC_OVERFLOW"
        case "+" | "-" | "*" | "div" | "negative" | "abs":
            return "ARITHMETIC_OVERFLOW"
        case "cast" if isinstance(kinds[0], Decimal) and (kinds[1] != STRING or isinstance(error, OverflowError)):
            return "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION"
        case "cast":
            return "CAST_INVALID_INPUT" if kinds[1] == STRING else "CAST_OVERFLOW"
    return None


# Functions that are null if one of two operands is. Spark computes the second one only for the rows in which the first
# is not null.
_STRICT = frozenset(
    {
        "+",
        "-",
        "*",
        "/",
        "div",
        "%",
        "=",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        "startswith",
        "endswith",
        "contains",
        "date_add",
        "datediff",
    }
)
_DIVISIONS = frozenset({"/", "div", "%"})  # the other way round: Spark looks at the divisor first


def _operands(call: Call, rows: pa.Table) -> list[pa.Array]:
    """The two operands; if the second one fails, only for the rows for which it counts."""
    is_turned = call.function in _DIVISIONS
    first, second = reversed(call.arguments) if is_turned else call.arguments
    known = compute(first, rows)
    try:
        other = compute(second, rows)
    except IMPOSSIBLE:
        counts = known.is_valid()
        _, values = _where(second, rows, counts)
        other = _placed(pa.nulls(rows.num_rows, arrow_type(second.type)), counts, values)
    return [other, known] if is_turned else [known, other]


def column_values(rows: pa.Table, path: Sequence[str]) -> pa.ChunkedArray:
    """A column, or a field inside of structs, null where one of these is null. Names match in any case."""
    names = {name.lower(): name for name in rows.column_names}
    values = rows.column(names[path[0].lower()])
    for name in path[1:]:
        fields = {f.name.lower(): i for i, f in enumerate(values.type)}
        values = values.flatten()[fields[name.lower()]]
    return values


# --- computed only for the rows that need it


def _where(expression: Expression, rows: pa.Table, mask: pa.Array) -> tuple[pa.Array, pa.Array]:
    """An expression for the rows of a mask without nulls: their positions, and the values."""
    positions = pc.indices_nonzero(mask)
    names = {reference.path[0].lower() for reference in references(expression)}
    used = rows.select([name for name in rows.column_names if name.lower() in names])
    if not used.num_columns:
        used = pa.table({"": pa.nulls(rows.num_rows)})
    return positions, compute(expression, used if len(positions) == rows.num_rows else used.take(positions))


def _placed(found: pa.Array, mask: pa.Array, values: pa.Array) -> pa.Array:
    """An array with other values where a mask is true."""
    if len(values) == len(found):
        return values
    places = np.cumsum(np.asarray(mask)) - 1
    spread = values.take(pa.array(np.where(np.asarray(mask), places, 0))) if len(values) else found
    return pc.if_else(mask, spread, found)


def _logic(expression: Call, rows: pa.Table) -> pa.Array:
    left, right = expression.arguments
    first = compute(left, rows)
    is_and = expression.function == "and"
    open_ = pc.fill_null(first if is_and else pc.invert(first), True)
    _, second = _where(right, rows, open_)
    beside = _placed(pa.nulls(rows.num_rows, pa.bool_()), open_, second)
    return (pc.and_kleene if is_and else pc.or_kleene)(first, beside)


def _case(expression: Call, rows: pa.Table) -> pa.Array:
    *pairs, default = expression.arguments
    result = pa.nulls(rows.num_rows, arrow_type(expression.type))
    is_open = pa.repeat(pa.scalar(True), rows.num_rows)
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        _, holds = _where(condition, rows, is_open)
        is_chosen = pc.fill_null(_placed(pa.repeat(pa.scalar(False), rows.num_rows), is_open, holds), False)
        result = _placed(result, is_chosen, _where(value, rows, is_chosen)[1])
        is_open = pc.and_(is_open, pc.invert(is_chosen))
    return _placed(result, is_open, _where(default, rows, is_open)[1])


def _coalesce(expression: Call, rows: pa.Table) -> pa.Array:
    found = compute(expression.arguments[0], rows)
    for other in expression.arguments[1:]:
        missing = pc.is_null(found)
        found = _placed(found, missing, _where(other, rows, missing)[1])
    return found


_LAZY: Mapping[str, Callable[[Call, pa.Table], pa.Array]] = {
    "and": _logic,
    "or": _logic,
    "case": _case,
    "coalesce": _coalesce,
}


# --- comparisons: NaN equals NaN, and is greater than all other numbers


def equal(left: pa.Array, right: pa.Array) -> pa.Array:
    found = pc.equal(left, right)
    return pc.or_(found, pc.and_(pc.is_nan(left), pc.is_nan(right))) if pa.types.is_floating(left.type) else found


def less(left: pa.Array, right: pa.Array) -> pa.Array:
    found = pc.less(left, right)
    return (
        pc.or_(found, pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))
        if pa.types.is_floating(left.type)
        else found
    )


def _same(left: pa.Array, right: pa.Array) -> pa.Array:
    either = pc.or_(pc.is_null(left), pc.is_null(right))
    return pc.if_else(either, pc.and_(pc.is_null(left), pc.is_null(right)), equal(left, right))


def _extreme(is_better: Callable[[pa.Array, pa.Array], pa.Array]) -> Callable[..., pa.Array]:
    def best(one: pa.Array, other: pa.Array) -> pa.Array:
        takes_other = pc.or_(pc.is_null(one), pc.fill_null(is_better(other, one), False))
        return pc.if_else(takes_other, pc.coalesce(other, one), one)

    return lambda *values: reduce(best, values)


# --- arithmetic


def _divided(left: pa.Array, right: pa.Array, quotient: Callable[..., Any]) -> pa.Array:
    """A quotient or a remainder, with the sign of the dividend."""
    is_known = pc.and_(left.is_valid(), right.is_valid())
    if pc.any(pc.and_(is_known, pc.equal(right, pa.scalar(0, right.type)))).as_py():
        raise ZeroDivisionError("division by zero")
    values = quotient(np.asarray(pc.fill_null(left, 0)), np.asarray(pc.fill_null(right, 1)))
    return pa.array(values, left.type, mask=~np.asarray(is_known))


def _whole_quotient(left: Any, right: Any) -> Any:
    if bool(np.any((left == np.iinfo(left.dtype).min) & (right == -1))):
        raise OverflowError("long overflow")
    return (left - np.fmod(left, right)) // right


def _as_long(values: pa.Array) -> pa.Array:
    """Whole doubles as longs, as FLOOR and CEIL of Spark have them: NaN is 0, and what is too large or too small is the
    nearest long.
    """
    numbers = np.asarray(pc.fill_null(values, 0.0))
    is_long = np.abs(numbers) < 2.0**63  # false for NaN
    longs = np.where(is_long, numbers, 0.0).astype(np.int64)
    longs[numbers >= 2.0**63] = np.iinfo(np.int64).max
    longs[numbers <= -(2.0**63)] = np.iinfo(np.int64).min
    return pa.array(longs, mask=np.asarray(values.is_null()))


def _rounded(call: Call, values: pa.Array) -> pa.Array:
    """ROUND of doubles: half up, of the number as it is written."""
    digits = max(-DOUBLE_DIGITS, min(call.options[0], DOUBLE_DIGITS))

    def of(value: float) -> float:
        return value if value - value != 0 else float(decimal_of_scale(value, digits))

    return pa.array([None if value is None else of(value) for value in values.to_pylist()], values.type)


# --- texts


def _like(call: Call, values: pa.Array) -> pa.Array:
    return pc.match_substring_regex(values, _regex_of(*call.options))


def _regex_of(pattern: str, escape: str) -> str:
    """The regular expression of a LIKE pattern."""
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == escape and (escaped := next(characters, None)) is not None:
            parts.append(re.escape(escaped))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return rf"(?s)\A{''.join(parts)}\z"


# Java's regular expressions, as far as those of RE2 differ: each end of a line is one, and blanks have a vertical tab.
_LINE_END = r"\n\r\x{85}\x{2028}\x{2029}"
_END = rf"(?:(?:\r\n|[{_LINE_END}])?\z)"
_OF_JAVA = {"$": _END, r"\Z": _END, ".": f"[^{_LINE_END}]", r"\s": r"[\t-\r ]", r"\S": r"[^\t-\r ]"}
_TOKENS = re.compile(r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[$.]", re.DOTALL)
_NESTED = re.compile(r"(?<!\\)\[\^?\]?(?:\\.|[^\]\\])*?(?:\[|&&)", re.DOTALL)
_FLAGS = re.compile(r"\(\?[a-zA-Z-]*[msdx]")


def _regex_of_java(pattern: str) -> str:
    """The regular expression of an RLIKE pattern. Without flags, `$` is before the last end of a line, too."""
    if _NESTED.search(pattern):
        raise ValueError(f"{pattern} has a class of characters inside of another, which only Spark knows")

    def changed(token: re.Match[str]) -> str:
        text = token[0]
        return text.replace(r"\s", r"\t-\r ") if text.startswith("[") else _OF_JAVA.get(text, text)

    return pattern if _FLAGS.search(pattern) else _TOKENS.sub(changed, pattern)


def _substring(call: Call, values: pa.Array) -> pa.Array:
    """Positions count from 1, or from the end if they are negative."""
    start, length = call.options
    if start >= 0:
        first = max(start - 1, 0)
        return pc.utf8_slice_codeunits(values, first, None if length is None else first + max(length, 0))
    sizes = np.asarray(pc.fill_null(pc.utf8_length(values), 0)).astype(np.int64) + start
    ends = None if length is None else sizes + length
    texts = values.to_pylist()
    cut = [
        None if text is None else text[max(at, 0) : None if ends is None else max(ends[i], 0)]
        for i, (text, at) in enumerate(zip(texts, sizes.tolist(), strict=True))
    ]
    return pa.array(cut, pa.string())


def _in_case(of_ascii: Callable[[pa.Array], pa.Array], of: Callable[[str], str]) -> Callable[[pa.Array], pa.Array]:
    """UPPER or LOWER. Arrow changes character by character, but the upper case of the German sharp s, for one, is
    SS.
    """

    def changed(values: pa.Array) -> pa.Array:
        if pc.all(pc.string_is_ascii(values)).as_py() is not False:
            return of_ascii(values)
        encoded = values.dictionary_encode()
        return pa.array([of(text) for text in encoded.dictionary.to_pylist()], values.type).take(encoded.indices)

    return changed


def _pairwise(name: str) -> Callable[..., pa.Array]:
    """A test of two texts, of which the second is usually the same for all rows."""
    by_value: Mapping[str, Callable[[str, str], bool]] = {
        "startswith": str.startswith,
        "endswith": str.endswith,
        "contains": str.__contains__,
    }
    kernels = {"startswith": pc.starts_with, "endswith": pc.ends_with, "contains": pc.match_substring}

    def test(values: pa.Array, wanted: pa.Array) -> pa.Array:
        distinct = wanted.unique()
        if len(distinct) == 1 and distinct[0].is_valid:
            return kernels[name](values, distinct[0].as_py())
        pairs = zip(values.to_pylist(), wanted.to_pylist(), strict=True)
        return pa.array([None if a is None or b is None else by_value[name](a, b) for a, b in pairs], pa.bool_())

    return test


# --- casts


def cast(values: pa.Array, kind: DataType, zone: tzinfo) -> pa.Array:
    """Values as those of another type, as Spark casts them.

    Raises:
        one of IMPOSSIBLE: a value that Spark refuses too.
    """
    wanted, given = arrow_type(kind), values.type
    if pa.types.is_null(given):
        return pa.nulls(len(values), wanted)
    if pa.types.is_string(given) and kind in _PARSERS:
        encoded = values.dictionary_encode()
        parsed = [_PARSERS[kind](text, zone) for text in encoded.dictionary.to_pylist()]
        return pa.array(parsed, wanted).take(encoded.indices)
    if isinstance(kind, Decimal) and not pa.types.is_temporal(given):
        return rounded_decimal(values, wanted)
    if kind == BOOLEAN and pa.types.is_decimal(given):
        return pc.not_equal(values, pa.scalar(PyDecimal(0), given))
    if pa.types.is_string(given) and kind != BINARY:
        return _number_of(values).cast(wanted)
    if pa.types.is_timestamp(given) or pa.types.is_date(given):
        return moment(values, kind, zone)
    if pa.types.is_integer(wanted) and (pa.types.is_floating(given) or pa.types.is_decimal(given)):
        return pc.trunc(values if pa.types.is_floating(given) else wide(values)).cast(wanted)
    return values.cast(wanted, safe=kind not in (FLOAT, DOUBLE))


def _number_of(texts: pa.Array) -> pa.Array:
    """Texts that Arrow reads as Spark reads them: Arrow knows no plus sign before an integer, but hexadecimal
    numbers.
    """
    trimmed = pc.utf8_trim(texts, BLANKS)
    if pc.any(pc.match_substring_regex(trimmed, "^[+-]?0[xX]")).as_py():
        raise pa.ArrowInvalid("a hexadecimal number in a text is no number")
    return pc.replace_substring_regex(trimmed, r"^\+([0-9.])", r"\1")


_PARSERS: Mapping[DataType, Callable[[str, tzinfo], Any]] = {
    BOOLEAN: lambda text, _: cast_boolean(text),
    DATE: lambda text, _: parse_date(text),
    TIMESTAMP: parse_timestamp,
    TIMESTAMP_NTZ: lambda text, _: parse_timestamp_ntz(text),
}


def moment(values: pa.Array, kind: DataType, zone: tzinfo) -> pa.Array:
    """Dates and timestamps as each other, or as texts: local times are those of the zone."""
    name, given = zone_name(zone), values.type
    if kind == STRING:
        return values.cast(pa.string())
    is_instant = pa.types.is_timestamp(given) and given.tz is not None
    local = pc.local_timestamp(values.cast(pa.timestamp("us", name))) if is_instant else values.cast(pa.timestamp("us"))
    if kind == TIMESTAMP and name == "UTC":
        return local.cast(pa.timestamp("us", name))  # every time is there, and once
    if kind == TIMESTAMP:
        before = pc.assume_timezone(local, name, ambiguous="earliest", nonexistent="earliest")
        # a time that clocks leave out is as long after the change as it is after the last time before it
        return pc.add(before, pc.subtract(local, pc.local_timestamp(before)))
    if kind == DATE:
        days = pc.fill_null(local.cast(pa.int64()), 0).to_numpy(zero_copy_only=False) // DAY_MICROS
        return pa.array(days.astype(np.int32), mask=np.asarray(local.is_null())).cast(pa.date32())
    return local


def zone_name(zone: tzinfo) -> str:
    """The name of a time zone for Arrow."""
    return str(zone).removeprefix("UTC") or "UTC"


# --- dates


def _part(part: Callable[[pa.Array], pa.Array]) -> Callable[..., pa.Array]:
    def of(call: Call, values: pa.Array) -> pa.Array:
        return part(
            values.cast(pa.timestamp("us", zone_name(call.options[0])))
            if pa.types.is_timestamp(values.type)
            else values
        )

    return of


def _days(values: pa.Array) -> pa.Array:
    return values.cast(pa.int32())


def _struct(call: Call, *values: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays(list(values), fields=list(arrow_type(call.type)))


# --- the functions, by the names of `Call`: of the values alone, and of the call as well

_PLAIN: Mapping[str, Callable[..., pa.Array]] = {
    "=": equal,
    "<>": lambda left, right: pc.invert(equal(left, right)),
    "<": less,
    "<=": lambda left, right: pc.invert(less(right, left)),
    ">": lambda left, right: less(right, left),
    ">=": lambda left, right: pc.invert(less(left, right)),
    "<=>": _same,
    "not": pc.invert,
    "is null": pc.is_null,
    "isnan": lambda values: pc.fill_null(pc.is_nan(values), False),
    "greatest": _extreme(lambda one, other: less(other, one)),
    "least": _extreme(less),
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": lambda left, right: _divided(left, right, np.divide),
    "div": lambda left, right: _divided(left, right, _whole_quotient),
    "%": lambda left, right: _divided(left, right, np.fmod),
    "negative": pc.negate_checked,
    "abs": pc.abs_checked,
    "floor": lambda values: _as_long(pc.floor(values)),
    "ceil": lambda values: _as_long(pc.ceil(values)),
    "sqrt": pc.sqrt,
    "length": pc.utf8_length,
    "lower": _in_case(pc.ascii_lower, str.lower),
    "upper": _in_case(pc.ascii_upper, str.upper),
    "trim": lambda values: pc.utf8_trim(values, " "),
    "ltrim": lambda values: pc.utf8_ltrim(values, " "),
    "rtrim": lambda values: pc.utf8_rtrim(values, " "),
    "concat": lambda *values: pc.binary_join_element_wise(*values, ""),
    "startswith": _pairwise("startswith"),
    "endswith": _pairwise("endswith"),
    "contains": _pairwise("contains"),
    "date_add": lambda values, days: pc.add_checked(_days(values), days).cast(pa.date32()),
    "datediff": lambda end, start: pc.subtract_checked(_days(end), _days(start)),
}
_OTHER: Mapping[str, Callable[..., pa.Array]] = {
    "round": _rounded,
    "substring": _substring,
    "like": _like,
    "rlike": lambda call, values: pc.match_substring_regex(values, _regex_of_java(*call.options)),
    "year": _part(pc.year),
    "quarter": _part(pc.quarter),
    "month": _part(pc.month),
    "day": _part(pc.day),
    "hour": _part(pc.hour),
    "minute": _part(pc.minute),
    "second": _part(pc.second),
    "struct": _struct,
    "cast": lambda call, values: cast(values, call.type, call.options[0]),
}
