"""Parses an SQL condition over a table's columns into a predicate, without Spark.

Uses sqlglot's Spark dialect and the table's schema. The text comes from `filter=` of `tahoe.Table`, `replaceWhere` or the command line.
Conditions without an exact predicate are refused, never approximated. Literals are compared as in Spark: a string compared with a date,
number or timestamp is cast to the column's type; numbers are compared by their exact values; timestamps without a time zone are in `zone`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, tzinfo
from decimal import Context, InvalidOperation
from decimal import Decimal as PyDecimal
from typing import Any, ClassVar, Literal, TypeAlias

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from tahoe.errors import ColumnNotFoundError, InvalidPredicateError
from tahoe.protocol.partitions import INTEGER_BITS, parse_boolean, parse_date, parse_timestamp, parse_timestamp_ntz, single_precision
from tahoe.protocol.predicate import And, Column, Comparison, Constant, In, IsNull, Not, Operator, Or, Predicate, StartsWith, compare
from tahoe.protocol.predicate import Literal as PredicateLiteral
from tahoe.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL_PRECISION_MAX,
    FLOAT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    Decimal,
    Primitive,
    Struct,
)

Node: TypeAlias = Any
"""An expression of sqlglot, whose base class has different names in different versions."""

Kind: TypeAlias = Literal["null", "number", "text", "boolean", "date", "timestamp", "timestamp_ntz", "binary"]


class _Dialect(Spark):
    """Spark 4's SQL, where two quotes inside a string literal are an escaped quote.

    Number literals ending in BD have a type of their own here, because a cast to DECIMAL would drop the fractional digits.
    """

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'"]
        NUMERIC_LITERALS: ClassVar[dict[str, str]] = {**Spark.Tokenizer.NUMERIC_LITERALS, "BD": "BIGDECIMAL"}


def parse_predicate(text: str, schema: Struct, *, zone: tzinfo, table: str = "the table") -> Predicate:
    """Parse a condition.

    Args:
        schema: the table's schema with logical names, which are matched case-insensitively.
        zone: the time zone of timestamps without one: the table's (`Log.zone`), which in Spark is the session's. It has no default, so that
            reads, deletes, data skipping and checks all interpret a text the same way.

    Raises:
        InvalidPredicateError: the text is not a condition, or has no exact predicate; the error gives the position and what was expected.
        ColumnNotFoundError: the table does not have a referenced column.
    """
    reader = _Reader(text=text, schema=schema, table=table, zone=zone)
    return reader.predicate(reader.parse())


def columns_named(text: str) -> frozenset[str]:
    """The lower-cased first names of the column references in a condition; none if the text cannot be parsed here."""
    try:
        found = sqlglot.parse_one(text, dialect=_Dialect)
    except SqlglotError:
        return frozenset()
    return frozenset(column.parts[0].name.lower() for column in found.find_all(exp.Column))


def paths_named(text: str) -> frozenset[tuple[str, ...]]:
    """The lower-cased paths of the columns that an expression may reference: all words in it if it cannot be parsed here."""
    try:
        found = sqlglot.parse_one(text, dialect=_Dialect)
    except SqlglotError:
        return frozenset((word.lower(),) for word in _WORD.findall(text))
    return frozenset(tuple(part.name.lower() for part in column.parts) for column in found.find_all(exp.Column))


_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class _Value:
    """A literal: its kind as written, and its value. Numbers are Decimals; NaN and infinities are floats."""

    kind: Kind
    value: Any


@dataclass(frozen=True, slots=True)
class _Placed:
    """The position of a literal among the values of a column's type.

    If `exact`, it equals the value `at`; else it lies between `at` and the next larger value. `beyond` is -1 or 1 for a literal that is
    smaller or larger than all values of the type.
    """

    at: Any
    exact: bool = True
    beyond: Literal[-1, 0, 1] = 0


_OPERATORS: Mapping[type[Any], Operator] = {
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_TURNED: Mapping[Operator, Operator] = {"=": "=", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED: Mapping[type[Any], type[Any]] = {exp.NEQ: exp.EQ, exp.NullSafeNEQ: exp.NullSafeEQ}

# Enough digits to rescale any number exactly.
_WIDE = Context(prec=200)

_CAST_TYPES: Mapping[str, DataType] = {
    "BIGINT": Primitive("long"),
    "INT": Primitive("integer"),
    "SMALLINT": Primitive("short"),
    "TINYINT": Primitive("byte"),
    "FLOAT": FLOAT,
    "DOUBLE": Primitive("double"),
    "BOOLEAN": BOOLEAN,
    "BINARY": BINARY,
    "VARBINARY": BINARY,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMP,
    "TIMESTAMPLTZ": TIMESTAMP,
    "TIMESTAMPNTZ": TIMESTAMP_NTZ,
    "TEXT": STRING,
    "VARCHAR": STRING,
    "CHAR": STRING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Converts one parsed text to a predicate."""

    text: str
    schema: Struct
    table: str
    zone: tzinfo

    def refuse(self, detail: str) -> InvalidPredicateError:
        return InvalidPredicateError(predicate=self.text, table=self.table, detail=detail)

    def parse(self) -> Node:
        try:
            statements = _Dialect().parse_into(exp.Condition, self.text)
        except SqlglotError as error:
            raise self.refuse(_syntax_detail(error)) from error
        if len(statements) != 1 or statements[0] is None:
            raise self.refuse(f"expected one expression, found {sum(s is not None for s in statements)}")
        found: Node = statements[0]
        return found

    # --- expressions

    def predicate(self, node: Node) -> Predicate:
        if node.args.get("negate"):
            plain = node.copy()
            plain.set("negate", None)
            return Not(self.predicate(plain))
        for kind, read in _READERS:
            if isinstance(node, kind):
                return read(self, node)
        if type(node) in _NEGATED:
            return Not(self.predicate(_NEGATED[type(node)](this=node.this, expression=node.expression)))
        if type(node) in _OPERATORS:
            return self.comparison(_OPERATORS[type(node)], node.this, node.expression)
        raise self.refuse(f"{_sql(node)} is not supported")

    def paren(self, node: Node) -> Predicate:
        return self.predicate(node.this)

    def conjunction(self, node: Node) -> Predicate:
        return And(tuple(self.predicate(part) for part in node.flatten()))

    def disjunction(self, node: Node) -> Predicate:
        return Or(tuple(self.predicate(part) for part in node.flatten()))

    def negation(self, node: Node) -> Predicate:
        return Not(self.predicate(node.this))

    def constant(self, node: Node) -> Predicate:
        return Constant(None if isinstance(node, exp.Null) else bool(node.this))

    def boolean_column(self, node: Node) -> Predicate:
        column, data_type = self.column(node)
        if data_type != BOOLEAN:
            raise self.refuse(f"{_sql(node)} has type {data_type}, but a condition is expected")
        return Comparison("=", column, PredicateLiteral(True))

    def is_test(self, node: Node) -> Predicate:
        if isinstance(node.expression, exp.Null):
            return self.null_test(node.this)
        if isinstance(node.expression, exp.Boolean):
            return self.comparison("<=>", node.this, node.expression)
        raise self.refuse(f"after IS, expected NULL, TRUE or FALSE, found {_sql(node.expression)}")

    def null_test(self, node: Node) -> Predicate:
        literal = self.literal(node)
        return IsNull(self.column(node)[0]) if literal is None else Constant(literal.kind == "null")

    def function(self, node: Node) -> Predicate:
        arguments = node.expressions
        if node.name.lower() in ("isnull", "isnotnull") and len(arguments) == 1:
            test = self.null_test(arguments[0])
            return test if node.name.lower() == "isnull" else Not(test)
        raise self.refuse(f"the function {node.name} is not supported")

    def between(self, node: Node) -> Predicate:
        return And((self.comparison(">=", node.this, node.args["low"]), self.comparison("<=", node.this, node.args["high"])))

    def membership(self, node: Node) -> Predicate:
        if not node.expressions or any(node.args.get(key) for key in ("query", "unnest", "field")):
            raise self.refuse(f"after IN, expected a list of literals, found {_sql(node)}")
        column, data_type = self.column(node.this)
        values: list[Any] = []
        for item in node.expressions:
            placed = self.placed(self.required_literal(item), data_type, _sql(node.this))
            if placed is None:
                values.append(None)
            elif placed.exact and not placed.beyond:
                values.append(placed.at)
        return In(column, tuple(values)) if values else _false_unless_null(column)

    def like(self, node: Node, escape: str = "\\") -> Predicate:
        column, data_type = self.column(node.this)
        pattern = self.required_literal(node.expression)
        if data_type != STRING or pattern.kind != "text":
            raise self.refuse(f"LIKE needs a string column and a string literal, found {_sql(node)}")
        prefix, rest = _like_prefix(pattern.value, escape)
        if rest == "":
            return Comparison("=", column, PredicateLiteral(prefix))
        if rest.strip("%") == "":
            return StartsWith(column, prefix)
        raise self.refuse(f"the only supported LIKE pattern is 'prefix%', found {_sql(node.expression)}")

    def escaped_like(self, node: Node) -> Predicate:
        escape = self.required_literal(node.expression)
        if not isinstance(node.this, exp.Like) or escape.kind != "text" or len(escape.value) != 1:
            raise self.refuse(f"{_sql(node)} is not supported")
        inner = node.this
        found = self.like(inner, escape.value)
        return Not(found) if inner.args.get("negate") else found

    def starts_with(self, node: Node) -> Predicate:
        column, data_type = self.column(node.this)
        prefix = self.required_literal(node.expression)
        if data_type != STRING or prefix.kind != "text":
            raise self.refuse(f"startswith needs a string column and a string literal, found {_sql(node)}")
        return StartsWith(column, prefix.value)

    # --- comparisons

    def comparison(self, symbol: Operator, left: Node, right: Node) -> Predicate:
        left_value, right_value = self.literal(left), self.literal(right)
        if left_value is not None and right_value is not None:
            return self.of_literals(symbol, left_value, right_value, f"{_sql(left)} {symbol} {_sql(right)}")
        if left_value is not None:
            return self.with_literal(_TURNED[symbol], right, left_value)
        if right_value is not None:
            return self.with_literal(symbol, left, right_value)
        for side in (left, right):
            self.column(side)
        raise self.refuse(f"{_sql(left)} {symbol} {_sql(right)} compares two columns; one side must be a literal")

    def of_literals(self, symbol: Operator, left: _Value, right: _Value, text: str) -> Predicate:
        if left.kind != right.kind and "null" not in (left.kind, right.kind):
            raise self.refuse(f"{text} compares a {left.kind} with a {right.kind}")
        return Constant(compare(symbol, left.value, right.value))

    def with_literal(self, symbol: Operator, node: Node, literal: _Value) -> Predicate:
        column, data_type = self.column(node)
        placed = self.placed(literal, data_type, _sql(node))
        if placed is None:
            return Comparison(symbol, column, PredicateLiteral(None))
        if placed.exact and not placed.beyond:
            return Comparison(symbol, column, PredicateLiteral(placed.at))
        return _between_values(symbol, column, placed)

    # --- columns and literals

    def column(self, node: Node) -> tuple[Column, DataType]:
        path = _column_path(node)
        if path is None:
            raise self.refuse(f"expected a column, found {_sql(node)}")
        fields = self.schema.resolve(path)
        if fields is None:
            raise ColumnNotFoundError(table=self.table, column=".".join(path), columns=", ".join(self.schema.names))
        return Column(tuple(f.name for f in fields)), fields[-1].type

    def required_literal(self, node: Node) -> _Value:
        literal = self.literal(node)
        if literal is None:
            raise self.refuse(f"expected a literal, found {_sql(node)}")
        return literal

    def literal(self, node: Node) -> _Value | None:
        """The literal that an expression denotes; None if it is not a literal."""
        match node:
            case exp.Paren():
                return self.literal(node.this)
            case exp.Null():
                return _Value("null", None)
            case exp.Boolean():
                return _Value("boolean", bool(node.this))
            case exp.RawString():
                return _Value("text", str(node.this))
            case exp.HexString():
                return _Value("binary", bytes.fromhex(str(node.this)))
            case exp.Literal():
                return _Value("text", str(node.this)) if node.is_string else _Value("number", PyDecimal(str(node.this)))
            case exp.Concat():
                return self.joined_text(node)
            case exp.Neg():
                return self.negative(node)
            case exp.Cast():  # including sqlglot's TryCast
                return self.cast(node)
            case _:
                return None

    def joined_text(self, node: Node) -> _Value | None:
        """Adjacent string literals are concatenated."""
        parts = [self.literal(part) for part in node.expressions]
        texts = [part.value for part in parts if part is not None and part.kind == "text"]
        return _Value("text", "".join(texts)) if len(texts) == len(parts) else None

    def negative(self, node: Node) -> _Value | None:
        inner = self.literal(node.this)
        if inner is None or inner.kind not in ("number", "null"):
            return None
        exact = isinstance(inner.value, PyDecimal)  # unary minus would round a Decimal
        return inner if inner.value is None else _Value(inner.kind, inner.value.copy_negate() if exact else -inner.value)

    def cast(self, node: Node) -> _Value | None:
        inner = self.literal(node.this)
        if inner is None or inner.kind == "null":
            return inner
        if node.args["to"].this.name == "BIGDECIMAL":
            return inner
        target = _cast_target(node.args["to"])
        if target is None:
            raise self.refuse(f"{_sql(node)} casts to a type that is not supported here")
        if target == STRING:
            return self.cast_to_text(inner, node)
        placed = self.placed(inner, target, _sql(node))
        if placed is None or placed.beyond or not placed.exact:
            raise self.refuse(f"{_sql(node)} is not exactly representable; write the value itself")
        return _value_of(single_precision(placed.at) if target == FLOAT else placed.at, target)

    def cast_to_text(self, literal: _Value, node: Node) -> _Value:
        if literal.kind == "text":
            return literal
        if literal.kind == "number" and isinstance(literal.value, PyDecimal):
            return _Value("text", f"{literal.value:f}")
        raise self.refuse(f"{_sql(node)} is not supported; write the string itself")

    def placed(self, literal: _Value, data_type: DataType, what: str) -> _Placed | None:
        """The position of a literal among the values of a type; None for NULL."""
        if literal.kind == "null":
            return None
        try:
            found = _place(literal, data_type, self.zone)
        except (ValueError, InvalidOperation, OverflowError) as error:
            raise self.refuse(f"{literal.value!r} is not a valid {data_type}, the type of {what}") from error
        if found is None:
            raise self.refuse(f"{what} has type {data_type} and cannot be compared with the {literal.kind} {literal.value!r}")
        return found


_READERS: tuple[tuple[type[Any], Callable[[_Reader, Node], Predicate]], ...] = (
    (exp.Paren, _Reader.paren),
    (exp.And, _Reader.conjunction),
    (exp.Or, _Reader.disjunction),
    (exp.Not, _Reader.negation),
    (exp.Boolean, _Reader.constant),
    (exp.Null, _Reader.constant),
    (exp.Is, _Reader.is_test),
    (exp.Between, _Reader.between),
    (exp.In, _Reader.membership),
    (exp.Like, _Reader.like),
    (exp.Escape, _Reader.escaped_like),
    (exp.StartsWith, _Reader.starts_with),
    (exp.Column, _Reader.boolean_column),
    (exp.Dot, _Reader.boolean_column),
    (exp.Anonymous, _Reader.function),
)


def _sql(node: Node) -> str:
    return str(node.sql(dialect=_Dialect))


_TERMINAL_CODES = re.compile(r"\x1b\[\d*m")


def _syntax_detail(error: SqlglotError) -> str:
    """sqlglot's message with its position, on one line."""
    errors = getattr(error, "errors", None) or []
    if errors and errors[0].get("line") is not None:
        first = errors[0]
        missing = first["description"].startswith("Required keyword")
        said = "an operand is missing" if missing else first["description"]
        return f"it cannot be parsed at line {first['line']}, column {first['col']}, near {first['highlight']!r}: {said}"
    return "it cannot be parsed: " + " ".join(_TERMINAL_CODES.sub("", str(error.__cause__ or error)).split())


def _column_path(node: Node) -> tuple[str, ...] | None:
    match node:
        case exp.Paren():
            return _column_path(node.this)
        case exp.Column():
            return tuple(part.name for part in node.parts)
        case exp.Dot():
            head = _column_path(node.this)
            return None if head is None or not isinstance(node.expression, exp.Identifier) else (*head, node.expression.name)
        case _:
            return None


def _cast_target(node: Node) -> DataType | None:
    name = node.this.name
    if name == "DECIMAL":
        numbers = [int(parameter.name) for parameter in node.expressions]
        precision, scale = (*numbers, 0)[:2] if numbers else (10, 0)
        return Decimal(precision, scale)
    return _CAST_TYPES.get(name)


def _value_of(value: Any, data_type: DataType) -> _Value:
    """The literal for a value of a type."""
    if isinstance(value, float) and math.isfinite(value):
        return _Value("number", PyDecimal(repr(value)))
    if isinstance(value, PyDecimal | float):
        return _Value("number", value)
    if isinstance(value, int) and not isinstance(value, bool) and isinstance(data_type, Primitive) and data_type.name in INTEGER_BITS:
        return _Value("number", PyDecimal(value))
    kinds: Mapping[DataType, Kind] = {
        BOOLEAN: "boolean",
        DATE: "date",
        TIMESTAMP: "timestamp",
        TIMESTAMP_NTZ: "timestamp_ntz",
        BINARY: "binary",
        STRING: "text",
    }
    return _Value(kinds[data_type], value)


def _like_prefix(pattern: str, escape: str) -> tuple[str, str]:
    """The unescaped part of a pattern before its first wildcard, and the rest."""
    prefix = ""
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == escape and position + 1 < len(pattern):
            prefix += pattern[position + 1]
            position += 2
        elif character in "%_":
            break
        else:
            prefix += character
            position += 1
    return prefix, pattern[position:]


# --- the position of a literal among the values of a type


def _place(literal: _Value, data_type: DataType, zone: tzinfo) -> _Placed | None:
    """The position of a literal; None if Spark would cast the column instead of the literal, or would refuse."""
    name = data_type.name if isinstance(data_type, Primitive) else ""
    if isinstance(data_type, Decimal) or name in INTEGER_BITS:
        number = _number(literal)
        if number is None or (outside := _beyond(number)) is not None:
            return None if number is None else outside
        assert isinstance(number, PyDecimal)
        return _place_decimal(number, data_type) if isinstance(data_type, Decimal) else _place_integer(number, INTEGER_BITS[name])
    if name in ("float", "double"):
        number = _number(literal)
        return None if number is None else _Placed(float(number))
    return _place_other(literal, name, zone)


def _place_other(literal: _Value, name: str, zone: tzinfo) -> _Placed | None:
    value = literal.value
    match name, literal.kind:
        case ("string", "text") | ("boolean", "boolean") | ("binary", "binary") | ("date", "date") | ("timestamp", "timestamp"):
            return _Placed(value)
        case "boolean", "text":
            return _Placed(parse_boolean(value))
        case "binary", "text":
            return _Placed(value.encode())
        case "date", "text":
            return _Placed(_in_calendar(parse_date(value)))
        case "date", "timestamp" | "timestamp_ntz":
            return _place_in_day(_local(value, zone))
        case "timestamp", "text":
            return _Placed(_in_calendar(parse_timestamp(value, zone)))
        case "timestamp", "timestamp_ntz" | "date":
            return _Placed(_local(value, zone).replace(tzinfo=zone).astimezone(UTC))
        case "timestamp_ntz", "text":
            return _Placed(_in_calendar(parse_timestamp_ntz(value)))
        case "timestamp_ntz", "timestamp_ntz" | "timestamp" | "date":
            return _Placed(_local(value, zone))
        case _:
            return None


def _number(literal: _Value) -> PyDecimal | float | None:
    """The number that a literal denotes, also as a string; NaN and infinities are floats."""
    match literal.kind:
        case "number":
            found: PyDecimal | float = literal.value
            return found
        case "text":
            number = PyDecimal(literal.value.strip())
            return number if number.is_finite() else float(number)
        case _:
            return None


def _beyond(number: PyDecimal | float) -> _Placed | None:
    """The position of a number outside every exact type: NaN (above all numbers), infinities, and numbers with too many digits."""
    if isinstance(number, float):
        return _Placed(None, beyond=-1 if number == -math.inf else 1)
    if number.adjusted() > DECIMAL_PRECISION_MAX:
        return _Placed(None, beyond=-1 if number < 0 else 1)
    return None


def _place_integer(number: PyDecimal, bits: int) -> _Placed:
    below = math.floor(number)
    limit = 1 << (bits - 1)
    if not -limit <= below < limit:
        return _Placed(None, beyond=-1 if below < 0 else 1)
    return _Placed(below, exact=below == number)


def _place_decimal(number: PyDecimal, data_type: Decimal) -> _Placed:
    scaled = math.floor(number.scaleb(data_type.scale, _WIDE))
    if abs(scaled) >= 10**data_type.precision:
        return _Placed(None, beyond=-1 if scaled < 0 else 1)
    below = PyDecimal(scaled).scaleb(-data_type.scale, _WIDE)
    return _Placed(below, exact=below == number)


def _in_calendar(value: Any) -> Any:
    """The value if Python's calendar, which ends with the year 9999, can represent it."""
    if isinstance(value, date):
        return value
    raise ValueError(value)


def _place_in_day(moment: datetime) -> _Placed:
    return _Placed(moment.date(), exact=moment.time() == time())


def _local(value: Any, zone: tzinfo) -> datetime:
    """A date or a timestamp as local time in the zone."""
    if isinstance(value, datetime):
        return value if value.tzinfo is None else value.astimezone(zone).replace(tzinfo=None)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    raise ValueError(value)


def _between_values(symbol: Operator, column: Column, placed: _Placed) -> Predicate:
    """A comparison with a literal that is not a value of the column's type, by its position among them."""
    if symbol == "<=>":
        return Constant(False)
    if symbol == "=":
        return _false_unless_null(column)
    is_less = symbol in ("<", "<=")
    if placed.beyond:
        return _true_unless_null(column) if is_less == (placed.beyond > 0) else _false_unless_null(column)
    return Comparison("<=" if is_less else ">", column, PredicateLiteral(placed.at))


def _false_unless_null(column: Column) -> Predicate:
    return And((IsNull(column), Constant(None)))


def _true_unless_null(column: Column) -> Predicate:
    return Or((Not(IsNull(column)), Constant(None)))
