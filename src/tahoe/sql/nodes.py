"""What sqlglot makes of SQL text: its tree, the columns that a text names, and the literals in it.

Uses sqlglot's Spark dialect and the table's schema. Literals are read as Spark reads them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal as PyDecimal
from decimal import InvalidOperation
from numbers import Integral, Real
from typing import Any, ClassVar, TypeAlias

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from tahoe.errors import ColumnNotFoundError, InvalidPredicateError, NeedsSparkError
from tahoe.protocol.types.partitions import from_micros, single_precision, to_micros
from tahoe.protocol.types.predicate import Column
from tahoe.protocol.types.schema import (
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
from tahoe.sql.literals import Placed, Value, place, value_of

Node: TypeAlias = Any
"""An expression of sqlglot, whose base class has different names in different versions."""


class Dialect(Spark):
    """Spark 4's SQL, where two quotes inside a string literal are an escaped quote.

    Number literals ending in BD have a type of their own here, because a cast to DECIMAL would drop the fractional
    digits.
    """

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'"]
        NUMERIC_LITERALS: ClassVar[dict[str, str]] = {**Spark.Tokenizer.NUMERIC_LITERALS, "BD": "BIGDECIMAL"}


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
class NodeReader:
    """Reads columns and literals of one text.

    Attributes:
        schema: the names that the text may use, case-insensitively.
        zone: of timestamps without a time zone.
        implied: structs of the schema whose names a text may leave out: the sides of a MERGE.
    """

    text: str
    schema: Struct
    table: str
    zone: tzinfo
    implied: tuple[str, ...] = ()

    def refuse(self, detail: str) -> InvalidPredicateError:
        return InvalidPredicateError(predicate=self.text, table=self.table, detail=detail)

    def need_spark(self, node: Node, detail: str = "cannot be computed without Spark") -> NeedsSparkError:
        """Refuse a part of the text that Spark may know."""
        return NeedsSparkError(predicate=self.text, table=self.table, detail=f"{sql_of(node)} {detail}")

    def parse(self) -> Node:
        try:
            statements = Dialect().parse_into(exp.Condition, self.encodable(self.text))
        except SqlglotError as error:
            raise self.refuse(_syntax_detail(error)) from error
        if len(statements) != 1 or statements[0] is None:
            found = sum(s is not None for s in statements)
            raise self.refuse(f"expected one expression, found {found or 'none'}")
        node: Node = statements[0]
        return node

    # --- columns and literals

    def column(self, node: Node) -> tuple[Column, DataType]:
        path = column_path(node)
        if path is None:
            raise self.refuse(f"expected a column, found {sql_of(node)}")
        return self.at(path)

    def at(self, path: tuple[str, ...]) -> tuple[Column, DataType]:
        """The column at a path, spelled as in the schema, and its type."""
        is_whole = len(path) > 1 or not self.implied  # the name of a side alone is no column
        places = [path] if is_whole and self.schema.resolve(path) else []
        places = places or [(side, *path) for side in self.implied if self.schema.resolve((side, *path))]
        if len(places) > 1:
            raise self.refuse(
                f"{'.'.join(path)} is ambiguous: write {' or '.join('.'.join(place) for place in places)}"
            )
        fields = self.schema.resolve(places[0]) if places else None
        if fields is None:
            raise ColumnNotFoundError(table=self.table, column=".".join(path), columns=", ".join(self.names))
        return Column(tuple(f.name for f in fields)), fields[-1].type

    @property
    def names(self) -> list[str]:
        """The columns that the text may name."""
        if not self.implied:
            return list(self.schema.names)
        return [
            f"{side.name}.{name}" for side in self.schema if isinstance(side.type, Struct) for name in side.type.names
        ]

    def python_literal(self, value: object) -> Value:
        """The literal for a Python value. Numbers of NumPy are numbers; NaT of pandas, a datetime that differs from
        itself, is null.
        """
        match value:
            case None:
                return Value("null", None)
            case bool():
                return Value("boolean", value)
            case Integral():
                return Value("number", PyDecimal(int(value)))
            case Real():
                number = float(value)
                return Value("number", PyDecimal(repr(number)) if number - number == 0 else number)
            case PyDecimal():
                return Value("number", value)
            case str():
                return Value("text", self.encodable(value))
            case bytes():
                return Value("binary", value)
            case datetime() if value != value:
                return Value("null", None)
            case datetime():
                return Value("timestamp_ntz", value) if value.tzinfo is None else Value("timestamp", _in_utc(value))
            case date():
                return Value("date", value)
        raise self.refuse(
            f"expected a number, a text, a date or a timestamp, found a value of type {type(value).__name__}"
        )

    def encodable(self, text: str) -> str:
        """A text that files can have. A half of a surrogate pair, which Python's texts can have, has no bytes in
        UTF-8.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise self.refuse(f"{text[error.start]!r} is no character: UTF-8 does not have it") from error
        return text

    def required_literal(self, node: Node) -> Value:
        literal = self.literal(node)
        if literal is None:
            raise self.refuse(f"expected a literal, found {sql_of(node)}")
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

    def check_escapes(self, pattern: str, escape: str) -> None:
        """Refuse a pattern of LIKE in which the escape character is before another than %, _ and itself, as Spark
        does.
        """
        characters = iter(pattern)
        for character in characters:
            if character == escape and next(characters, "") not in ("%", "_", escape):
                raise self.refuse(
                    f"in the pattern {pattern!r}, the escape character {escape} must be before %, _ or {escape}"
                )

    def number(self, text: str) -> PyDecimal:
        try:
            return PyDecimal(text)
        except InvalidOperation as error:
            raise self.refuse(f"expected a number, found {text}") from error

    def within_doubles(self, number: PyDecimal) -> PyDecimal:
        """A number to compute with: none is larger than every DOUBLE, as in Spark."""
        if math.isinf(float(number)):
            raise self.refuse(f"{number} is larger than every DOUBLE")
        return number

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
        target = cast_target(node.args["to"])
        if target is None:
            raise self.refuse(f"{sql_of(node)} casts to a type that is not supported here")
        if target == STRING:
            return self.cast_to_text(inner, node)
        placed = self.placed(inner, target, sql_of(node))
        if placed is None or not placed.is_value:
            raise self.refuse(f"{sql_of(node)} is not exactly representable; write the value itself")
        return value_of(single_precision(placed.at) if target == FLOAT else placed.at, target)

    def cast_to_text(self, literal: Value, node: Node) -> Value:
        if literal.kind == "text":
            return literal
        if literal.kind == "number" and isinstance(literal.value, PyDecimal):
            return Value("text", f"{literal.value:f}")
        raise self.refuse(f"{sql_of(node)} is not supported; write the string itself")

    def placed(self, literal: Value, data_type: DataType, what: str | None = None) -> Placed | None:
        """The position of a literal among the values of a type, which is that of a column or an expression; None for
        NULL.
        """
        if literal.kind == "null":
            return None
        the_type_of = "" if what is None else f", the type of {what}"
        try:
            found = place(literal, data_type, self.zone)
        except (ValueError, InvalidOperation, OverflowError) as error:
            raise self.refuse(f"{_shown(literal.value)} is not a valid {data_type}{the_type_of}") from error
        if found is None:
            refused = f"the {literal.kind} {_shown(literal.value)}"
            if what is None:
                raise self.refuse(f"{refused} cannot be a value of type {data_type}")
            raise self.refuse(f"{what} has type {data_type} and cannot be compared with {refused}")
        return found


def _in_utc(moment: datetime) -> datetime | int:
    """The same moment in UTC, where it may be outside of Python's calendar."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return from_micros(to_micros(moment), UTC)


def _shown(value: Any) -> str:
    """A constant in a message: numbers as they are, texts in quotes."""
    return str(value) if isinstance(value, PyDecimal) else repr(value)


def sql_of(node: Node) -> str:
    return str(node.sql(dialect=Dialect))


_HEX_DIGITS = re.compile("[0-9A-Fa-f]*")
_TERMINAL_CODES = re.compile(r"\x1b\[\d*m")


def _syntax_detail(error: SqlglotError) -> str:
    """sqlglot's message with its position, on one line."""
    errors = getattr(error, "errors", None) or []
    if errors and errors[0].get("line") is not None:
        first = errors[0]
        missing = first["description"].startswith("Required keyword")
        said = "an operand is missing" if missing else first["description"]
        return (
            f"it cannot be parsed at line {first['line']}, column {first['col']}, near {first['highlight']!r}: {said}"
        )
    # The tokenizer's error quotes only a snippet; its cause says what is wrong, and where.
    return "it cannot be parsed: " + " ".join(_TERMINAL_CODES.sub("", str(error.__cause__ or error)).split())


def column_path(node: Node) -> tuple[str, ...] | None:
    match node:
        case exp.Paren():
            return column_path(node.this)
        case exp.Column():
            return tuple(part.name for part in node.parts)
        case exp.Dot():
            head = column_path(node.this)
            return (
                None
                if head is None or not isinstance(node.expression, exp.Identifier)
                else (*head, node.expression.name)
            )
        case _:
            return None


def cast_target(node: Node) -> DataType | None:
    name = node.this.name
    if name == "DECIMAL":
        if not all(parameter.name.isdecimal() for parameter in node.expressions):
            return None
        numbers = [int(parameter.name) for parameter in node.expressions]
        precision, scale = (*numbers, 0)[:2] if numbers else (10, 0)
        return Decimal(precision, scale)
    return _CAST_TYPES.get(name)
