"""Parses an SQL condition over a table's columns into a predicate, without Spark.

Uses sqlglot's Spark dialect and the table's schema. The text comes from `filter=` of `tahoe.Table`, `replaceWhere` or the command line.
Conditions without an exact predicate are refused, never approximated. Literals are compared as in Spark: a string compared with a date,
number or timestamp is cast to the column's type; numbers are compared by their exact values; timestamps without a time zone are in `zone`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal as PyDecimal
from decimal import InvalidOperation
from typing import Any, ClassVar, TypeAlias

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from tahoe.errors import ColumnNotFoundError, InvalidPredicateError
from tahoe.protocol.partitions import single_precision
from tahoe.protocol.predicate import And, Column, Comparison, Constant, In, IsNull, Not, Operator, Or, Predicate, StartsWith, compare
from tahoe.protocol.predicate import Literal as PredicateLiteral
from tahoe.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    FLOAT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    Decimal,
    Primitive,
    Struct,
)
from tahoe.sql.literals import Placed, Value, between_values, false_unless_null, place, value_of

Node: TypeAlias = Any
"""An expression of sqlglot, whose base class has different names in different versions."""


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
        return In(column, tuple(values)) if values else false_unless_null(column)

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

    def of_literals(self, symbol: Operator, left: Value, right: Value, text: str) -> Predicate:
        if left.kind != right.kind and "null" not in (left.kind, right.kind):
            raise self.refuse(f"{text} compares a {left.kind} with a {right.kind}")
        return Constant(compare(symbol, left.value, right.value))

    def with_literal(self, symbol: Operator, node: Node, literal: Value) -> Predicate:
        column, data_type = self.column(node)
        placed = self.placed(literal, data_type, _sql(node))
        if placed is None:
            return Comparison(symbol, column, PredicateLiteral(None))
        if placed.exact and not placed.beyond:
            return Comparison(symbol, column, PredicateLiteral(placed.at))
        return between_values(symbol, column, placed)

    # --- columns and literals

    def column(self, node: Node) -> tuple[Column, DataType]:
        path = _column_path(node)
        if path is None:
            raise self.refuse(f"expected a column, found {_sql(node)}")
        fields = self.schema.resolve(path)
        if fields is None:
            raise ColumnNotFoundError(table=self.table, column=".".join(path), columns=", ".join(self.schema.names))
        return Column(tuple(f.name for f in fields)), fields[-1].type

    def required_literal(self, node: Node) -> Value:
        literal = self.literal(node)
        if literal is None:
            raise self.refuse(f"expected a literal, found {_sql(node)}")
        return literal

    def literal(self, node: Node) -> Value | None:
        """The literal that an expression denotes; None if it is not a literal."""
        match node:
            case exp.Paren():
                return self.literal(node.this)
            case exp.Null():
                return Value("null", None)
            case exp.Boolean():
                return Value("boolean", bool(node.this))
            case exp.RawString():
                return Value("text", str(node.this))
            case exp.HexString():
                return Value("binary", self.bytes_of(str(node.this)))
            case exp.Literal():
                return Value("text", str(node.this)) if node.is_string else Value("number", self.number(str(node.this)))
            case exp.Concat():
                return self.joined_text(node)
            case exp.Neg():
                return self.negative(node)
            case exp.Cast():  # including sqlglot's TryCast
                return self.cast(node)
            case _:
                return None

    def bytes_of(self, digits: str) -> bytes:
        """The bytes of a binary literal. Spark puts a zero before an odd number of digits."""
        if not _HEX_DIGITS.fullmatch(digits):
            raise self.refuse(f"in a binary literal, expected hexadecimal digits, found X'{digits}'")
        return bytes.fromhex("0" * (len(digits) % 2) + digits)

    def number(self, text: str) -> PyDecimal:
        try:
            return PyDecimal(text)
        except InvalidOperation as error:
            raise self.refuse(f"expected a number, found {text}") from error

    def joined_text(self, node: Node) -> Value | None:
        """Adjacent string literals are concatenated."""
        parts = [self.literal(part) for part in node.expressions]
        texts = [part.value for part in parts if part is not None and part.kind == "text"]
        return Value("text", "".join(texts)) if len(texts) == len(parts) else None

    def negative(self, node: Node) -> Value | None:
        inner = self.literal(node.this)
        if inner is None or inner.kind not in ("number", "null"):
            return None
        exact = isinstance(inner.value, PyDecimal)  # unary minus would round a Decimal
        return inner if inner.value is None else Value(inner.kind, inner.value.copy_negate() if exact else -inner.value)

    def cast(self, node: Node) -> Value | None:
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
        return value_of(single_precision(placed.at) if target == FLOAT else placed.at, target)

    def cast_to_text(self, literal: Value, node: Node) -> Value:
        if literal.kind == "text":
            return literal
        if literal.kind == "number" and isinstance(literal.value, PyDecimal):
            return Value("text", f"{literal.value:f}")
        raise self.refuse(f"{_sql(node)} is not supported; write the string itself")

    def placed(self, literal: Value, data_type: DataType, what: str) -> Placed | None:
        """The position of a literal among the values of a type; None for NULL."""
        if literal.kind == "null":
            return None
        try:
            found = place(literal, data_type, self.zone)
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


_HEX_DIGITS = re.compile("[0-9A-Fa-f]*")
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
        if not all(parameter.name.isdecimal() for parameter in node.expressions):
            return None
        numbers = [int(parameter.name) for parameter in node.expressions]
        precision, scale = (*numbers, 0)[:2] if numbers else (10, 0)
        return Decimal(precision, scale)
    return _CAST_TYPES.get(name)


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
