"""Parses an SQL condition over a table's columns into a predicate, without Spark.

The text comes from `filter=` of `tahoe.Table`, `replaceWhere` or the command line. Conditions are exact or refused,
never approximated: comparisons of a column with a literal, which statistics can decide, become predicates of their own;
others are computed for each row (`tahoe.sql.expressions`). Literals are compared as in Spark: a string compared with a
date, number or timestamp is cast to the column's type; numbers are compared by their exact values; timestamps without a
time zone are in `zone`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tahoe.protocol.changes.column_type_changes import blank_padded
from tahoe.protocol.types.expressions import Call, Reference, references
from tahoe.protocol.types.expressions import Value as Operand
from tahoe.protocol.types.predicate import (
    And,
    Column,
    Comparison,
    Computed,
    Constant,
    In,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
    compare,
)
from tahoe.protocol.types.predicate import Literal as PredicateLiteral
from tahoe.protocol.types.schema import BOOLEAN, STRING, TIMESTAMP, TIMESTAMP_NTZ, DataType, Struct
from tahoe.sql.coercion import folded_comparison, is_beyond_long
from tahoe.sql.expressions import ExpressionReader, is_number_literal
from tahoe.sql.literals import Value, compared_at, false_unless_null
from tahoe.sql.nodes import Dialect, Node, NodeReader, column_path, sql_of


def parse_predicate(text: str, schema: Struct, *, zone: tzinfo, table: str = "the table") -> Predicate:
    """Parse a condition.

    Args:
        schema: the table's schema with logical names, which are matched case-insensitively.
        zone: the time zone of timestamps without one: the table's (`Log.zone`), which in Spark is the session's. It has
            no default, so that reads, deletes, data skipping and checks all interpret a text the same way.

    Raises:
        InvalidPredicateError: the text is not a condition, or has no exact predicate; the error gives the position and
            what was expected.
        ColumnNotFoundError: the table does not have a referenced column.
    """
    reader = _Reader(text=text, schema=schema, table=table, zone=zone)
    return reader.predicate(reader.parse())


def compared_with(
    name: str, operator: str, value: object, schema: Struct, *, zone: tzinfo, table: str = "the table"
) -> Predicate:
    """The condition `name operator value` of a column and a Python value, which is compared as a literal of SQL.

    Args:
        name: of a column, or `column.field` of a field in a struct.
        operator: one of `=`, `==`, `!=`, `<>`, `<`, `<=`, `>`, `>=`, `in` and `not in`; the last two take an iterable
            of values.

    Raises:
        InvalidPredicateError: there is no such operator, or the value cannot be compared with the column.
        ColumnNotFoundError: there is no such column.
    """
    reader = _Reader(text=f"({name!r}, {operator!r}, {value!r})", schema=schema, table=table, zone=zone)
    path = (name,) if schema.find(name) is not None else tuple(name.split("."))
    column, data_type = reader.at(path)
    match operator.lower():
        case ("in" | "not in") as word:
            if isinstance(value, str | bytes) or not isinstance(value, Iterable):
                raise reader.refuse(f"after {word}, expected a list of values")
            found = reader.among(column, data_type, [reader.python_literal(each) for each in value])
            return found if word == "in" else Not(found)
        case "!=" | "<>":
            return Not(reader.against("=", column, data_type, reader.python_literal(value)))
        case "=" | "==":
            return reader.against("=", column, data_type, reader.python_literal(value))
        case ("<" | "<=" | ">" | ">=") as symbol:
            return reader.against(symbol, column, data_type, reader.python_literal(value))
    raise reader.refuse(f"expected =, !=, <, <=, >, >=, in or not in, found {operator!r}")


def columns_named(text: str) -> frozenset[str]:
    """The lower-cased first names of the column references in a condition; none if the text cannot be parsed here."""
    try:
        found = sqlglot.parse_one(text, dialect=Dialect)
    except SqlglotError:
        return frozenset()
    return frozenset(column.parts[0].name.lower() for column in found.find_all(exp.Column))


def paths_named(text: str) -> frozenset[tuple[str, ...]]:
    """The lower-cased paths of the columns that an expression may reference: all words in it if it cannot be parsed
    here.
    """
    try:
        found = sqlglot.parse_one(text, dialect=Dialect)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader(NodeReader):
    """Converts one parsed text to a predicate."""

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
            return self.comparison(_OPERATORS[type(node)], node.this, node.expression, node)
        return self.computed(node)

    @property
    def expressions(self) -> ExpressionReader:
        return ExpressionReader(text=self.text, schema=self.schema, table=self.table, zone=self.zone)

    def computed(self, node: Node) -> Predicate:
        """A condition that statistics do not decide."""
        rule = self.expressions.condition(node)
        columns = dict.fromkeys(Column(each.path) for each in references(rule))
        return Computed(rule, tuple(columns), sql_of(node))

    def is_plain(self, column: Node, *literals: Node) -> bool:
        """Whether a condition is about a column and literals, so that statistics may decide it."""
        return column_path(column) is not None and all(self.literal(each) is not None for each in literals)

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
            raise self.refuse(f"{sql_of(node)} has type {data_type}, but a condition is expected")
        return Comparison("=", column, PredicateLiteral(True))

    def is_test(self, node: Node) -> Predicate:
        if isinstance(node.expression, exp.Null):
            return self.null_test(node.this, node)
        if isinstance(node.expression, exp.Boolean):
            return self.comparison("<=>", node.this, node.expression, node)
        raise self.refuse(f"after IS, expected NULL, TRUE or FALSE, found {sql_of(node.expression)}")

    def null_test(self, tested: Node, node: Node) -> Predicate:
        literal = self.literal(tested)
        if literal is None and column_path(tested) is None:
            return self.computed(node)
        return IsNull(self.column(tested)[0]) if literal is None else Constant(literal.kind == "null")

    def function(self, node: Node) -> Predicate:
        arguments = node.expressions
        if node.name.lower() in ("isnull", "isnotnull") and len(arguments) == 1:
            test = self.null_test(arguments[0], node)
            return test if node.name.lower() == "isnull" or isinstance(test, Computed) else Not(test)
        return self.computed(node)

    def between(self, node: Node) -> Predicate:
        low, high = node.args["low"], node.args["high"]
        if not self.is_plain(node.this, low, high):
            return self.computed(node)
        return And((self.comparison(">=", node.this, low, node), self.comparison("<=", node.this, high, node)))

    def in_list(self, node: Node) -> Predicate:
        if not node.expressions or not self.is_plain(node.this, *node.expressions):
            return self.computed(node)
        column, data_type = self.column(node.this)
        return self.among(column, data_type, [self.required_literal(item) for item in node.expressions])

    def among(self, column: Column, data_type: DataType, literals: Sequence[Value]) -> Predicate:
        """`column IN (literals)`. A literal that no value of the column's type equals is left out. NULL stays: it makes
        a row without a match NULL.
        """
        if any(self.is_cast_to_instants(data_type, each) for each in literals):
            return Or(tuple(self.against("=", column, data_type, each) for each in literals))
        values: list[Any] = []
        for literal in (each for given in literals for each in self.as_compared(column, given)):
            placed = self.placed(literal, data_type, ".".join(column.path))
            if placed is None:
                values.append(None)
            elif placed.is_value:
                values.append(placed.at)
        return In(column, tuple(values)) if values else false_unless_null(column)

    def like(self, node: Node) -> Predicate:
        return self.begins(node, node, "\\")

    def escaped_like(self, node: Node) -> Predicate:
        escape = self.literal(node.expression)
        if not isinstance(node.this, exp.Like) or escape is None or escape.kind != "text" or len(escape.value) != 1:
            return self.computed(node)
        found = self.begins(node.this, node, escape.value)
        return Not(found) if node.this.args.get("negate") and not isinstance(found, Computed) else found

    def begins(self, like: Node, node: Node, escape: str) -> Predicate:
        """A LIKE, which is a comparison if it has no wildcard, and a prefix if it only ends with some."""
        if not self.is_plain(like.this, like.expression):
            return self.computed(node)
        column, data_type = self.column(like.this)
        pattern = self.required_literal(like.expression)
        if data_type != STRING or pattern.kind != "text":
            raise self.refuse(f"LIKE needs a string column and a string literal, found {sql_of(node)}")
        self.check_escapes(pattern.value, escape)
        prefix, rest = _like_prefix(pattern.value, escape)
        if rest == "":
            return Comparison("=", column, PredicateLiteral(prefix))
        if rest.strip("%") == "":
            return StartsWith(column, prefix)
        found = self.computed(node)
        return And((StartsWith(column, prefix), found)) if prefix and like is node else found

    def starts_with(self, node: Node) -> Predicate:
        if not self.is_plain(node.this, node.expression):
            return self.computed(node)
        column, data_type = self.column(node.this)
        prefix = self.required_literal(node.expression)
        if data_type != STRING or prefix.kind != "text":
            raise self.refuse(f"startswith needs a string column and a string literal, found {sql_of(node)}")
        return StartsWith(column, prefix.value)

    # --- comparisons

    def comparison(self, symbol: Operator, left: Node, right: Node, node: Node) -> Predicate:
        left_value, right_value = self.literal(left), self.literal(right)
        if left_value is not None and right_value is not None:
            return self.literal_comparison(symbol, left_value, right_value, f"{sql_of(left)} {symbol} {sql_of(right)}")
        if (left_value is None or column_path(right) is None) and (right_value is None or column_path(left) is None):
            return self.computed(node)
        literal = right_value if left_value is None else left_value
        assert literal is not None
        is_bare = is_number_literal(left if left_value is not None else right)
        if literal.kind == "number" and is_bare and is_beyond_long(literal.value):
            folded = folded_comparison(symbol, self.expressions.expression(left), self.expressions.expression(right))
            if folded is not None:
                return Constant(folded)
        if left_value is not None:
            return self.with_literal(_TURNED[symbol], right, left_value)
        return self.with_literal(symbol, left, literal)

    def literal_comparison(self, symbol: Operator, left: Value, right: Value, text: str) -> Predicate:
        if left.kind != right.kind and "null" not in (left.kind, right.kind):
            raise self.refuse(f"{text} compares a {left.kind} with a {right.kind}")
        return Constant(compare(symbol, left.value, right.value))

    def with_literal(self, symbol: Operator, node: Node, literal: Value) -> Predicate:
        column, data_type = self.column(node)
        return self.against(symbol, column, data_type, literal)

    def as_compared(self, column: Column, literal: Value) -> tuple[Value, ...]:
        """The texts that a literal equals in a CHAR column: padded, or as other writers have stored it; elsewhere the
        literal itself.
        """
        fields = self.schema.resolve(column.path) if literal.kind == "text" else None
        padded = None if fields is None else blank_padded(fields[-1], literal.value)
        return (
            (literal,)
            if padded is None
            else tuple(Value("text", text) for text in dict.fromkeys((padded, padded.rstrip(" "))))
        )

    def is_cast_to_instants(self, data_type: DataType, literal: Value) -> bool:
        """Whether the column is cast to instants, as in Spark, where clocks that change leave no order between these
        and local times.
        """
        return data_type == TIMESTAMP_NTZ and literal.kind == "timestamp" and self.zone.utcoffset(None) is None

    def against(self, symbol: Operator, column: Column, data_type: DataType, literal: Value) -> Predicate:
        if self.is_cast_to_instants(data_type, literal):
            instant = Call("cast", (Reference(column.path, data_type),), TIMESTAMP, (self.zone,))
            rule = Call(symbol, (instant, Operand(literal.value, TIMESTAMP)), BOOLEAN)
            return Computed(rule, (column,), f"{'.'.join(column.path)} {symbol} {literal.value!r}")
        padded, *others = self.as_compared(column, literal)
        if others and symbol in ("=", "<=>"):
            return Or(tuple(Comparison(symbol, column, PredicateLiteral(each.value)) for each in (padded, *others)))
        placed = self.placed(padded, data_type, ".".join(column.path))
        if placed is None:
            return Comparison(symbol, column, PredicateLiteral(None))
        return compared_at(symbol, column, placed)


_READERS: tuple[tuple[type[Any], Callable[[_Reader, Node], Predicate]], ...] = (
    (exp.Paren, _Reader.paren),
    (exp.And, _Reader.conjunction),
    (exp.Or, _Reader.disjunction),
    (exp.Not, _Reader.negation),
    (exp.Boolean, _Reader.constant),
    (exp.Null, _Reader.constant),
    (exp.Is, _Reader.is_test),
    (exp.Between, _Reader.between),
    (exp.In, _Reader.in_list),
    (exp.Like, _Reader.like),
    (exp.Escape, _Reader.escaped_like),
    (exp.StartsWith, _Reader.starts_with),
    (exp.Column, _Reader.boolean_column),
    (exp.Dot, _Reader.boolean_column),
    (exp.Anonymous, _Reader.function),
)


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
