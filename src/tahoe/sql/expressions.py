"""Parses SQL expressions over a row into `tahoe.protocol.types.expressions`, without Spark.

Types, and the casts between them, are those of Spark 4 in ANSI mode. What cannot be computed exactly as Spark computes
it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from decimal import Decimal as PyDecimal
from functools import reduce
from typing import Any

from sqlglot import exp

from tahoe.protocol.changes.column_type_changes import blank_padded
from tahoe.protocol.types.expressions import Call, Expression, Reference, Value, references
from tahoe.protocol.types.partitions import single_precision
from tahoe.protocol.types.schema import (
    BOOLEAN,
    DATE,
    DECIMAL_PRECISION_MAX,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    VARIANT,
    VOID,
    Array,
    DataType,
    Decimal,
    Field,
    Geospatial,
    Map,
    Primitive,
    Struct,
)
from tahoe.sql.coercion import (
    DIGITS,
    INTEGERS,
    common_type,
    decimal_type,
    folded_comparison,
    is_cast_here,
    is_number,
    literal_of,
    number_of,
)
from tahoe.sql.nodes import Node, NodeReader, cast_target, sql_of

# Functions with fixed types: the name, the types of the arguments, and that of the result.
_FUNCTIONS: Mapping[type[Any], tuple[str, tuple[DataType, ...], DataType]] = {
    exp.Length: ("length", (STRING,), INTEGER),
    exp.Lower: ("lower", (STRING,), STRING),
    exp.Upper: ("upper", (STRING,), STRING),
    exp.StartsWith: ("startswith", (STRING, STRING), BOOLEAN),
    exp.EndsWith: ("endswith", (STRING, STRING), BOOLEAN),
    exp.Contains: ("contains", (STRING, STRING), BOOLEAN),
    exp.IsNan: ("isnan", (DOUBLE,), BOOLEAN),
    exp.Sqrt: ("sqrt", (DOUBLE,), DOUBLE),
    exp.Year: ("year", (DATE,), INTEGER),
    exp.Quarter: ("quarter", (DATE,), INTEGER),
    exp.Month: ("month", (DATE,), INTEGER),
    exp.Day: ("day", (DATE,), INTEGER),
    exp.DayOfMonth: ("day", (DATE,), INTEGER),
    exp.Hour: ("hour", (TIMESTAMP,), INTEGER),
    exp.Minute: ("minute", (TIMESTAMP,), INTEGER),
    exp.Second: ("second", (TIMESTAMP,), INTEGER),
    exp.DateDiff: ("datediff", (DATE, DATE), INTEGER),
    exp.Not: ("not", (BOOLEAN,), BOOLEAN),
    exp.And: ("and", (BOOLEAN, BOOLEAN), BOOLEAN),
    exp.Or: ("or", (BOOLEAN, BOOLEAN), BOOLEAN),
}
_COMPARISONS: Mapping[type[Any], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.NullSafeEQ: "<=>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_ARITHMETIC: Mapping[type[Any], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Mod: "%",
    exp.Div: "/",
    exp.IntDiv: "div",
}
_TRIMS: Mapping[str, str] = {"": "trim", "LEADING": "ltrim", "TRAILING": "rtrim", "BOTH": "trim"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpressionReader(NodeReader):
    """Converts one parsed text to an expression."""

    def expression(self, node: Node) -> Expression:
        if node.args.get("negate"):
            plain = node.copy()
            plain.set("negate", None)
            return Call("not", (self.condition(plain),), BOOLEAN)
        kind = type(node)
        if kind in _READERS:
            return _READERS[kind](self, node)
        if kind in _COMPARISONS:
            return self.ordered(_COMPARISONS[kind], node.this, node.expression, node)
        if kind in _ARITHMETIC:
            return self.arithmetic(_ARITHMETIC[kind], node)
        if kind in _FUNCTIONS:
            name, types, result = _FUNCTIONS[kind]
            given = [child for child in (node.this, node.args.get("expression")) if child is not None]
            if len(given) == len(types):
                arguments = tuple(self.of_type(child, wanted) for child, wanted in zip(given, types, strict=True))
                return Call(name, arguments, result, (self.zone,))
        raise self.need_spark(node)

    def condition(self, node: Node) -> Expression:
        """
        Raises:
            InvalidPredicateError: the expression is not of type BOOLEAN.
        """
        found = self.expression(node)
        if found.type not in (BOOLEAN, VOID):
            raise self.refuse(f"{sql_of(node)} has type {found.type}, but a condition is expected")
        return self.cast_to(found, BOOLEAN, node)

    # --- columns and constants

    def column_reference(self, node: Node) -> Expression:
        column, data_type = self.column(node)
        return Reference(column.path, data_type)

    def paren(self, node: Node) -> Expression:
        return self.expression(node.this)

    def constant(self, node: Node) -> Expression:
        literal = self.literal(node)
        assert literal is not None
        match literal.kind:
            case "null":
                return Value(None, VOID)
            case "number":
                return number_of(self.within_doubles(literal.value), str(node.this))
            case kind:
                return Value(literal.value, _TYPES[kind])

    def minus(self, node: Node) -> Expression:
        inner = self.expression(node.this)
        if isinstance(inner, Value) and isinstance(inner.value, int | PyDecimal) and isinstance(node.this, exp.Literal):
            return number_of(
                PyDecimal(inner.value).copy_negate(), str(node.this.this)
            )  # as in Spark, -2147483648 is an INT
        if isinstance(inner, Value) and inner.value is not None and is_number(inner.type):
            negated = inner.value.copy_negate() if isinstance(inner.value, PyDecimal) else -inner.value
            return replace(inner, value=negated)
        value = self.numeric(inner, node)
        return Call("negative", (value,), value.type)

    # --- types

    def of_type(self, node: Node, wanted: DataType) -> Expression:
        return self.cast_to(self.expression(node), wanted, node)

    def cast_to(self, given: Expression, wanted: DataType, node: Node) -> Expression:
        """An expression as a value of another type; constants are converted at once."""
        if given.type == wanted:
            return given
        if isinstance(given, Value):
            found = self.converted(given, wanted)
            if found is not None:
                return found
        if isinstance(given.type, Struct | Array | Map) or isinstance(wanted, Struct | Array | Map):
            raise self.refuse(f"{sql_of(node)} has type {given.type}, and a value of type {wanted} is expected")
        if not is_cast_here(given.type, wanted):
            raise self.need_spark(node, f"has type {given.type}, which only Spark casts to {wanted}, if at all")
        return Call("cast", (given,), wanted, (self.zone,))

    def converted(self, given: Value, wanted: DataType) -> Value | None:
        """A constant as an exact value of another type; None if it has none."""
        if given.value is None:
            return Value(None, wanted)
        literal = literal_of(given)
        if literal is None or wanted == STRING:
            return None
        placed = self.placed(literal, wanted)
        if placed is None or not placed.is_value:
            return None
        return Value(single_precision(placed.at) if wanted == FLOAT else placed.at, wanted)

    def conversion(self, node: Node) -> Expression:
        given, target = node.this, node.args["to"]
        if target.this.name == "BIGDECIMAL":
            number = PyDecimal(str(given.this))
            return Value(number, decimal_type(number))
        inner = self.expression(given)
        if isinstance(inner, Value) and inner.value is None:
            return Value(None, cast_target(target) or VOID)
        wanted = cast_target(target)
        if wanted is None or node.args.get("safe"):
            raise self.need_spark(node)
        return self.cast_to(inner, wanted, node)

    def to_date(self, node: Node) -> Expression:
        return self.of_type(node.this, DATE)

    def common(self, types: Sequence[DataType], node: Node) -> DataType:
        """The type to which Spark casts values of several types.

        Raises:
            InvalidPredicateError: there is none.
        """
        result_type: DataType = VOID
        for kind in types:
            common = common_type(result_type, kind)
            if common is None:
                raise self.refuse(f"{sql_of(node)} combines {' and '.join(dict.fromkeys(map(str, types)))}")
            result_type = common
        return result_type

    def alike(self, nodes: Sequence[Node], node: Node) -> tuple[tuple[Expression, ...], DataType]:
        """Expressions cast to their common type."""
        found = [self.expression(child) for child in nodes]
        kind = self.common([each.type for each in found], node)
        return tuple(self.cast_to(each, kind, child) for each, child in zip(found, nodes, strict=True)), kind

    # --- operators

    def ordered(self, symbol: str, left: Node, right: Node, node: Node) -> Expression:
        one, other = self.expression(left), self.expression(right)
        folded = folded_comparison(symbol, one, other) if is_number_literal(left) or is_number_literal(right) else None
        return self.compared(symbol, one, other, node) if folded is None else Value(folded, BOOLEAN)

    def compared(
        self, symbol: str, left: Expression, right: Expression, node: Node, *, pads: bool = True
    ) -> Expression:
        kind = self.common(
            [left.type, right.type, BOOLEAN] if left.type == right.type == VOID else [left.type, right.type], node
        )
        self._check_comparable(kind, node)
        if kind == STRING and pads:
            left, right = _padded(left, right, self.schema), _padded(right, left, self.schema)
        return Call(symbol, (self.cast_to(left, kind, node), self.cast_to(right, kind, node)), BOOLEAN)

    def _check_comparable(self, kind: DataType, node: Node) -> None:
        if isinstance(kind, Struct | Array | Map):
            raise self.need_spark(node, f"compares values of type {kind}, which only Spark does")
        if kind == VARIANT or isinstance(kind, Geospatial):
            raise self.refuse(f"{sql_of(node)} compares values of type {kind}, which have no order")

    def numeric(self, given: Expression, node: Node) -> Expression:
        if not is_number(given.type) and given.type != VOID:
            raise self.refuse(f"{sql_of(node)} needs numbers, found {given.type}")
        return self.cast_to(given, INTEGER, node) if given.type == VOID else given

    def arithmetic(self, symbol: str, node: Node) -> Expression:
        left, right = self.expression(node.this), self.expression(node.expression)
        if left.type == DATE and right.type in INTEGERS and symbol in ("+", "-"):
            days = self.cast_to(right, INTEGER, node)
            return Call("date_add", (left, days if symbol == "+" else Call("negative", (days,), INTEGER)), DATE)
        left, right = self.numeric(left, node), self.numeric(right, node)
        kind = self.common([left.type, right.type], node)
        if symbol in ("/", "div"):
            kind = DOUBLE if symbol == "/" else LONG
        if isinstance(self.common([left.type, right.type], node), Decimal):
            return self.decimal(symbol, left, right, node)
        return Call(symbol, (self.cast_to(left, kind, node), self.cast_to(right, kind, node)), kind)

    def decimal(self, symbol: str, left: Expression, right: Expression, node: Node) -> Expression:
        """Arithmetic of decimals, whose result has enough digits."""
        arguments = tuple(self.as_decimal(each, node) for each in (left, right))
        digits = _digits(symbol, *(kind for _, kind in arguments))
        if digits is None:
            raise self.need_spark(node, "divides decimals; cast them to DOUBLE")
        if sum(digits) > DECIMAL_PRECISION_MAX:
            raise self.need_spark(node, f"has more than {DECIMAL_PRECISION_MAX} digits; cast its operands to DOUBLE")
        return Call(symbol, tuple(each for each, _ in arguments), Decimal(sum(digits), digits[1]))

    def as_decimal(self, given: Expression, node: Node) -> tuple[Expression, Decimal]:
        if isinstance(given.type, Decimal):
            return given, given.type
        kind = decimal_type(PyDecimal(given.value)) if isinstance(given, Value) and given.value is not None else None
        wanted = kind or Decimal(DIGITS[given.type], 0)
        return self.cast_to(given, wanted, node), wanted

    # --- conditions

    def is_test(self, node: Node) -> Expression:
        if isinstance(node.expression, exp.Null):
            return Call("is null", (self.expression(node.this),), BOOLEAN)
        return self.compared("<=>", self.condition(node.this), self.condition(node.expression), node)

    def between(self, node: Node) -> Expression:
        bounds = ((">=", node.args["low"]), ("<=", node.args["high"]))
        return Call("and", tuple(self.ordered(symbol, node.this, bound, node) for symbol, bound in bounds), BOOLEAN)

    def in_list(self, node: Node) -> Expression:
        if not node.expressions or any(node.args.get(key) for key in ("query", "unnest", "field")):
            raise self.refuse(f"after IN, expected a list of values, found {sql_of(node)}")
        (value, *among), _ = self.alike([node.this, *node.expressions], node)
        # Of IN, Spark pads only the values for a column of type CHAR, and only if none of them refers to a column.
        pads = isinstance(value, Reference) and not any(True for each in among for _ in references(each))
        tests = (self.compared("=", value, each, node, pads=pads) for each in among)
        return reduce(lambda found, each: Call("or", (found, each), BOOLEAN), tests)

    def like(self, node: Node, escape: str = "\\") -> Expression:
        pattern = self.literal(node.expression)
        if pattern is None or pattern.kind != "text":
            raise self.refuse(f"the pattern of LIKE must be a string literal, found {sql_of(node.expression)}")
        self.check_escapes(pattern.value, escape)
        value, text = self.of_type(node.this, STRING), pattern.value
        if isinstance(node, exp.ILike):  # Spark compares what both are in lower case
            value, text = Call("lower", (value,), STRING), text.lower()
        return Call("like", (value,), BOOLEAN, (text, escape))

    def escaped_like(self, node: Node) -> Expression:
        escape = self.literal(node.expression)
        if (
            not isinstance(node.this, exp.Like | exp.ILike)
            or escape is None
            or escape.kind != "text"
            or len(escape.value) != 1
        ):
            raise self.need_spark(node)
        found = self.like(node.this, escape.value)
        return Call("not", (found,), BOOLEAN) if node.this.args.get("negate") else found

    def rlike(self, node: Node) -> Expression:
        pattern = self.literal(node.expression)
        if pattern is None or pattern.kind != "text":
            raise self.refuse(f"the pattern of RLIKE must be a string literal, found {sql_of(node.expression)}")
        return Call("rlike", (self.of_type(node.this, STRING),), BOOLEAN, (pattern.value,))

    # --- functions

    def case(self, node: Node) -> Expression:
        """CASE, and IF, as conditions and values in turn, and the value of ELSE."""
        ifs = node.args["ifs"] if isinstance(node, exp.Case) else [node]
        tests = [
            each.this if node is each or node.this is None else exp.EQ(this=node.this, expression=each.this)
            for each in ifs
        ]
        default = node.args.get("default") if isinstance(node, exp.Case) else node.args.get("false")
        values, kind = self.alike([*(each.args["true"] for each in ifs), default or exp.Null()], node)
        pairs = [part for test, value in zip(tests, values, strict=False) for part in (self.condition(test), value)]
        return Call("case", (*pairs, values[-1]), kind)

    def nullif(self, node: Node) -> Expression:
        value = self.expression(node.this)
        test = self.compared("=", value, self.expression(node.expression), node)
        return Call("case", (test, Value(None, value.type), value), value.type)

    def chosen(self, node: Node) -> Expression:
        """COALESCE, GREATEST and LEAST. Spark compares a text only with texts."""
        arguments, kind = self.alike([node.this, *node.expressions], node)
        if not isinstance(node, exp.Coalesce):
            self._check_comparable(kind, node)
            if _mixes_texts(self.expression(each).type for each in (node.this, *node.expressions)):
                raise self.refuse(f"{sql_of(node)} compares texts with other values; cast them to one type")
        return Call(type(node).__name__.lower(), arguments, kind)

    def concat(self, node: Node) -> Expression:
        parts = node.expressions if isinstance(node, exp.Concat) else [node.this, node.expression]
        return Call("concat", tuple(self.of_type(part, STRING) for part in parts), STRING)

    def trim(self, node: Node) -> Expression:
        if node.args.get("expression") is not None:
            raise self.need_spark(node)
        return Call(_TRIMS[str(node.args.get("position") or "")], (self.of_type(node.this, STRING),), STRING)

    def substring(self, node: Node) -> Expression:
        numbers = (
            node.args.get("start") or exp.Literal.number(1),
            node.args.get("length") or node.args.get("expression"),
        )
        start, length = (None if each is None else self.whole(each) for each in numbers)
        return Call("substring", (self.of_type(node.this, STRING),), STRING, (start, length))

    def whole(self, node: Node) -> int:
        found = self.expression(node)
        if not isinstance(found, Value) or not isinstance(found.value, int):
            raise self.refuse(f"expected an integer, found {sql_of(node)}")
        return int(found.value)

    def absolute(self, node: Node) -> Expression:
        value = self.numeric(self.expression(node.this), node)
        return Call("abs", (value,), value.type)

    def rounded(self, node: Node) -> Expression:
        """FLOOR, CEIL and ROUND."""
        value, name = self.numeric(self.expression(node.this), node), type(node).__name__.lower()
        digits = 0 if node.args.get("decimals") is None else self.whole(node.args["decimals"])
        if isinstance(value.type, Decimal) or (name != "round" and digits) or (value.type in INTEGERS and digits < 0):
            raise self.need_spark(node, "cannot be computed without Spark; cast it to DOUBLE")
        if value.type in INTEGERS:
            return value if name == "round" else self.cast_to(value, LONG, node)
        return Call(name, (self.cast_to(value, DOUBLE, node),), DOUBLE if name == "round" else LONG, (digits,))

    def date_add(self, node: Node) -> Expression:
        if str(node.args.get("unit") or "DAY").upper() != "DAY":
            raise self.need_spark(node)
        return Call("date_add", (self.of_type(node.this, DATE), self.of_type(node.expression, INTEGER)), DATE)

    def struct(self, node: Node) -> Expression:
        parts = [
            (each.name, self.expression(each.expression))
            for each in node.expressions
            if isinstance(each, exp.PropertyEQ)
        ]
        if len(parts) != len(node.expressions):
            raise self.refuse(f"{sql_of(node)} needs names: named_struct('a', 1)")
        kind = Struct(tuple(Field(name=name, type=value.type) for name, value in parts))
        return Call("struct", tuple(value for _, value in parts), kind)

    def other(self, node: Node) -> Expression:
        """A function for which sqlglot has no node."""
        name, arguments = node.name.lower(), node.expressions
        if name in ("isnull", "isnotnull") and len(arguments) == 1:
            found = Call("is null", (self.expression(arguments[0]),), BOOLEAN)
            return found if name == "isnull" else Call("not", (found,), BOOLEAN)
        if name in _CASTS and len(arguments) == 1:
            return self.of_type(arguments[0], _CASTS[name])
        raise self.need_spark(node)


def _digits(symbol: str, one: Decimal, other: Decimal) -> tuple[int, int] | None:
    """How many digits the result of an operator has before and after the point; None if that depends on more than the
    types.
    """
    whole, other_whole = (kind.precision - kind.scale for kind in (one, other))
    if symbol in ("+", "-"):
        return max(whole, other_whole) + 1, max(one.scale, other.scale)
    return (whole + other_whole + 1, one.scale + other.scale) if symbol == "*" else None


def _mixes_texts(types: Iterable[DataType]) -> bool:
    kinds = {*types} - {VOID}
    return STRING in kinds and len(kinds) > 1


def is_number_literal(node: Node) -> bool:
    """Whether a number stands there as such, also below zero, and not as the result of a cast. For sqlglot, 1BD is a
    text that is cast.
    """
    given = node.this if isinstance(node, exp.Neg) else node
    is_decimal = isinstance(given, exp.Cast) and given.args["to"].this.name in ("BIGDECIMAL", "DECIMAL")
    return isinstance(given, exp.Literal) or (
        is_decimal and isinstance(given.this, exp.Literal) and bool(given.this.is_string)
    )


def _padded(given: Expression, other: Expression, schema: Struct) -> Expression:
    """A text as it is compared with a CHAR column: with blanks."""
    if not isinstance(given, Value) or given.type != STRING or given.value is None or not isinstance(other, Reference):
        return given
    fields = schema.resolve(other.path)
    text = None if fields is None else blank_padded(fields[-1], given.value)
    return given if text is None else replace(given, value=text)


_CASTS: Mapping[str, DataType] = {
    "bigint": LONG,
    "int": INTEGER,
    "double": DOUBLE,
    "string": STRING,
    "timestamp": TIMESTAMP,
}
_TYPES: Mapping[str, DataType] = {"text": STRING, "boolean": BOOLEAN, "binary": Primitive("binary")}

_READERS: Mapping[type[Any], Callable[[ExpressionReader, Node], Expression]] = {
    exp.Paren: ExpressionReader.paren,
    exp.Column: ExpressionReader.column_reference,
    exp.Dot: ExpressionReader.column_reference,
    exp.Literal: ExpressionReader.constant,
    exp.RawString: ExpressionReader.constant,
    exp.HexString: ExpressionReader.constant,
    exp.Boolean: ExpressionReader.constant,
    exp.Null: ExpressionReader.constant,
    exp.Neg: ExpressionReader.minus,
    exp.Cast: ExpressionReader.conversion,
    exp.TryCast: ExpressionReader.conversion,
    exp.TsOrDsToDate: ExpressionReader.to_date,
    exp.Is: ExpressionReader.is_test,
    exp.Between: ExpressionReader.between,
    exp.In: ExpressionReader.in_list,
    exp.Like: ExpressionReader.like,
    exp.ILike: ExpressionReader.like,
    exp.Escape: ExpressionReader.escaped_like,
    exp.RegexpLike: ExpressionReader.rlike,
    exp.Case: ExpressionReader.case,
    exp.If: ExpressionReader.case,
    exp.Coalesce: ExpressionReader.chosen,
    exp.Nullif: ExpressionReader.nullif,
    exp.Greatest: ExpressionReader.chosen,
    exp.Least: ExpressionReader.chosen,
    exp.Concat: ExpressionReader.concat,
    exp.DPipe: ExpressionReader.concat,
    exp.Trim: ExpressionReader.trim,
    exp.Substring: ExpressionReader.substring,
    exp.Left: ExpressionReader.substring,
    exp.Abs: ExpressionReader.absolute,
    exp.Floor: ExpressionReader.rounded,
    exp.Ceil: ExpressionReader.rounded,
    exp.Round: ExpressionReader.rounded,
    exp.TsOrDsAdd: ExpressionReader.date_add,
    exp.Struct: ExpressionReader.struct,
    exp.Anonymous: ExpressionReader.other,
}


def parse_expression(
    text: str,
    schema: Struct,
    *,
    wanted: DataType | None = None,
    implied: tuple[str, ...] = (),
    zone: tzinfo,
    table: str,
) -> Expression:
    """Parse an expression over a row.

    Args:
        schema: the names that the text may use.
        wanted: the type to which the value is cast.
        implied: structs of the schema whose names the text may leave out.

    Raises:
        InvalidPredicateError: the text is not an expression, or only Spark can compute it.
        ColumnNotFoundError: there is no such column.
    """
    reader = ExpressionReader(text=text, schema=schema, table=table, zone=zone, implied=implied)
    node = reader.parse()
    return reader.expression(node) if wanted is None else reader.of_type(node, wanted)
