"""Reads Spark's plans and expressions (Catalyst nodes) into Python values.

If a decision depends on several facts about a node, they are read at once into a record: `Equality`, `Attribute`,
`Expression`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe.protocol.types.names import quoted
from tahoe.spark.jvm.gateway import Gateway, JavaObject, class_names

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."


def kind_of(node: JavaObject) -> str:
    """The simple class name of a plan, an expression or another Java object."""
    return str(node.getClass().getSimpleName())


def dataset(frame: DataFrame) -> JavaObject:
    """The `Dataset` beneath a DataFrame."""
    return frame._jdf


def frame_of(java_dataset: JavaObject, spark: SparkSession) -> DataFrame:
    """A `Dataset` as a DataFrame of a session."""
    return DataFrame(java_dataset, spark)


def batch_rows(gateway: Gateway, java_dataset: JavaObject) -> DataFrame:
    """The rows of a batch of a streaming query, as a DataFrame of its own. Its plan is part of the query, whose state
    Spark plans.
    """
    rows = gateway.session.internalCreateDataFrame(java_dataset.queryExecution().toRdd(), java_dataset.schema(), False)
    return DataFrame(rows, gateway.spark)


def java_column(column: Column) -> JavaObject:
    """The JVM Column beneath a PySpark Column."""
    return column._jc


def analysed(frame: DataFrame) -> JavaObject:
    """The analysed plan of a query."""
    return frame._jdf.queryExecution().analyzed()


def optimised(frame: DataFrame) -> JavaObject:
    """The optimised plan of a query, for which files were selected already."""
    return frame._jdf.queryExecution().optimizedPlan()


def leaves(gateway: Gateway, plan: JavaObject) -> Iterator[JavaObject]:
    """The leaf nodes of a plan."""
    return gateway.items(plan.collectLeaves().iterator())


def estimated_bytes(frame: DataFrame) -> int:
    """The size of a query's rows in bytes, as Spark's optimiser estimates it."""
    return int(str(optimised(frame).stats().sizeInBytes()))


def planned_again(gateway: Gateway, frame: DataFrame) -> DataFrame:
    """The same query, to be planned again, because an existing plan may read an older version."""
    return gateway.dataframe_of_plan(frame._jdf.logicalPlan())


def pinned(frame: DataFrame) -> DataFrame:
    """The query, in which each Delta table is read at the version that is the newest now, however often the query
    runs.
    """
    return frame_of(Gateway(frame.sparkSession).java_class("delta.Moment").pinned(dataset(frame)), frame.sparkSession)


def forget_rows(spark: SparkSession, frames: Sequence[DataFrame]) -> None:
    """Release rows that `localCheckpoint` keeps. `RDD.unpersist` would log a warning that they cannot be computed
    again.
    """
    context: JavaObject | None = spark.sparkContext._jsc
    if context is None:  # the session was stopped and keeps no rows
        return
    for rows in frames:
        context.sc().unpersistRDD(analysed(rows).rdd().id(), False)


def counted(frame: DataFrame) -> tuple[DataFrame, int]:
    """The same rows, and their number of partitions.

    Spark decides the number while the query runs. So all stages but the last run now, and the returned frame reads the
    rows of that plan.
    """
    gateway = Gateway(frame.sparkSession)
    rows = frame._jdf.queryExecution().toRdd()
    same = gateway.session.internalCreateDataFrame(rows, frame._jdf.schema(), False)
    return gateway.dataframe(same), int(rows.getNumPartitions())


# --- the shape of a query


def top_kinds(frame: DataFrame) -> list[str]:
    """The kinds of a query's top nodes: all leading projections, and the first node that is not a projection."""
    plan = analysed(frame)
    kinds = [kind_of(plan)]
    while kinds[-1] == "Project":
        plan = plan.children().apply(0)
        kinds.append(kind_of(plan))
    return kinds


def condition_of_frame(frame: DataFrame, node: Literal["Filter", "Join"]) -> JavaObject:
    """The condition of a query's topmost filter or join."""
    plan = analysed(frame)
    while kind_of(plan) != node:
        plan = plan.children().apply(0)
    return plan.condition().get() if node == "Join" else plan.condition()


# Nodes that are deterministic if their children are.
_UNCHANGING = frozenset({"LogicalRelation", "Project", "Filter", "Join", "Union", "SubqueryAlias"})


def never_changes(plan: JavaObject) -> bool:
    """Whether a query returns the same rows each time: it reads files that are listed once, and no node selects rows
    arbitrarily.
    """
    if kind_of(plan) not in _UNCHANGING or plan.subqueries().size():
        return False
    if kind_of(plan) == "LogicalRelation":
        return kind_of(plan.relation()) == "HadoopFsRelation"
    return all(never_changes(plan.children().apply(number)) for number in range(plan.children().size()))


# --- columns


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column of a query, unambiguous even if the other side of a join has the same name. `number` is Spark's
    `exprId`.
    """

    number: int
    name: str
    gateway: Gateway = field(repr=False, compare=False)
    plan: JavaObject = field(repr=False, compare=False)
    position: int = field(repr=False, compare=False)

    @property
    def column(self) -> Column:
        """The column for an expression. To select many columns, give `projected` the attributes themselves."""
        return self.gateway.column(self.plan.output().apply(self.position))


Value: TypeAlias = str | Attribute | Column
"""What a column has: the values of the column of this name, of that attribute, or of an expression."""


@dataclass(frozen=True, slots=True)
class Named:
    """A value under a name."""

    name: str
    value: Value


def column_of(value: Value) -> Column:
    match value:
        case str():
            return F.col(quoted(value))
        case Attribute():
            return value.column
        case _:
            return value


def projected(frame: DataFrame, columns: Iterable[Value | Named]) -> DataFrame:
    """Columns of a DataFrame, in one call to the JVM, where PySpark makes about a dozen for each column. A `Column`
    outside of `Named` must have a name of its own.
    """
    gateway, parts, computed = Gateway.of(frame._jdf.sparkSession()), list[str](), list[JavaObject]()
    for column in columns:  # two texts for each, its new name and its source: see `delta.Rows.projected`
        value = column.value if isinstance(column, Named) else column
        parts.append(f"={column.name}" if isinstance(column, Named) else "")
        match value:
            case str():
                parts.append(f".{value}")
            case Attribute():
                parts.append(f"#{value.number}")
            case _:
                parts.append("")
                computed.append(value._jc)
    rows = gateway.java_class("delta.Rows").projected(frame._jdf, "\0".join(parts), gateway.list(computed))
    return DataFrame(rows, gateway.spark)


def expressed(frame: DataFrame, columns: Iterable[str]) -> DataFrame:
    """Columns of a DataFrame as named SQL expressions, in one call."""
    gateway = Gateway.of(frame._jdf.sparkSession())
    return DataFrame(gateway.java_class("delta.Rows").expressed(frame._jdf, "\0".join(columns)), gateway.spark)


def attributes(gateway: Gateway, frame: DataFrame) -> list[Attribute]:
    """The columns of a query."""
    plan = analysed(frame)
    columns = _numbers_and_names(gateway.java_class("delta.Rows").columns(plan))
    return [Attribute(number, name, gateway, plan, position) for position, (number, name) in enumerate(columns)]


def references_above_join(gateway: Gateway, frame: DataFrame) -> set[int]:
    """The numbers of the attributes that the nodes above a query's join reference."""
    return {
        number
        for number, _ in _numbers_and_names(gateway.java_class("delta.Rows").referencesAboveJoin(analysed(frame)))
    }


def _numbers_and_names(text: str) -> Iterator[tuple[int, str]]:
    parts = text.split("\0")
    return zip(map(int, parts[:-1:2]), parts[1::2], strict=True)


# --- conditions


Side = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Operand:
    """One side of an equality.

    Attributes:
        side: the side of the join whose columns the operand references; None if it references both sides, or no
            columns.
        never_fails: whether evaluation is safe for every row: the operand is a column, a struct field, or an upcast of
            one. Any other expression may rely on a guard elsewhere in the condition.
        path: the column or struct field whose values the operand has, possibly cast between integral types; None for
            another expression.
        type: Spark's name of the type.
        type_json: the type as in the JSON of a schema, which omits collations.
    """

    column: Column
    side: Side | None
    never_fails: bool
    path: tuple[str, ...] | None
    type: str
    type_json: str


@dataclass(frozen=True, slots=True)
class Equality:
    """An equality in a condition. `is_null_safe`: null equals null (`<=>`)."""

    first: Operand
    second: Operand
    is_null_safe: bool


def equalities(gateway: Gateway, condition: JavaObject, left: DataFrame, right: DataFrame) -> list[Equality]:
    """The equalities among the conjuncts of a join's analysed condition."""
    sides: dict[Side, JavaObject] = {"left": analysed(left).outputSet(), "right": analysed(right).outputSet()}
    return [
        Equality(
            _operand(gateway, part.left(), sides),
            _operand(gateway, part.right(), sides),
            kind_of(part) == "EqualNullSafe",
        )
        for part in _conjuncts(condition)
        if kind_of(part) in ("EqualTo", "EqualNullSafe")
    ]


def _conjuncts(condition: JavaObject) -> Iterator[JavaObject]:
    if kind_of(condition) == "And":
        yield from _conjuncts(condition.left())
        yield from _conjuncts(condition.right())
    else:
        yield condition


def _operand(gateway: Gateway, expression: JavaObject, sides: Mapping[Side, JavaObject]) -> Operand:
    """One side of an equality. It has a path only if evaluating it never fails: its values may then be looked up in
    files.
    """
    never_fails, data_type = _never_fails(gateway, expression), expression.dataType()
    references = expression.references()
    own = () if references.isEmpty() else (side for side, columns in sides.items() if references.subsetOf(columns))
    return Operand(
        column=gateway.column(expression),
        side=next(iter(own), None),
        never_fails=never_fails,
        path=_path(expression) if never_fails else None,
        type=str(data_type.simpleString()),
        type_json=str(data_type.json()),
    )


_WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})


def _path(expression: JavaObject) -> tuple[str, ...] | None:
    """The column or struct field whose values an expression has; None if a cast changes them. Precondition: it is one
    of those that never fail.
    """
    match kind_of(expression):
        case "Cast":
            is_whole = {
                expression.dataType().simpleString(),
                expression.child().dataType().simpleString(),
            } <= _WHOLE_NUMBERS
            return _path(expression.child()) if is_whole else None
        case "GetStructField":
            parent = _path(expression.child())
            return None if parent is None else (*parent, str(expression.extractFieldName()))
        case _:
            return (str(expression.name()),)


def _never_fails(gateway: Gateway, expression: JavaObject) -> bool:
    match kind_of(expression):
        case "Cast":
            widens = gateway.module(_EXPRESSIONS + "Cast").canUpCast
            return bool(widens(expression.child().dataType(), expression.dataType())) and _never_fails(
                gateway, expression.child()
            )
        case "GetStructField":
            return _never_fails(gateway, expression.child())
        case other:
            return other == "AttributeReference"


# --- expressions


@dataclass(frozen=True, slots=True)
class Expression:
    """A node of an expression.

    Attributes:
        kind: the simple class name.
        classes: the requested classes and interfaces of which the node is an instance.
        sql: the SQL text.
        is_deterministic: whether Spark considers the node deterministic.
    """

    kind: str
    classes: frozenset[str]
    sql: str
    is_deterministic: bool


def expressions(gateway: Gateway, frame: DataFrame, classes: Iterable[str]) -> Iterator[Expression]:
    """All expressions of a query, innermost first, so that a non-deterministic node comes before the nodes that contain
    it.

    Args:
        classes: the classes to test each node for, by name relative to Catalyst's package of expressions.
    """
    java_classes = {name: gateway.load_class(_EXPRESSIONS + name) for name in classes}
    for node in _expressions(gateway, analysed(frame)):
        node_classes = frozenset(name for name, java_class in java_classes.items() if java_class.isInstance(node))
        yield Expression(
            kind=kind_of(node), classes=node_classes, sql=str(node.sql()), is_deterministic=bool(node.deterministic())
        )


def _expressions(gateway: Gateway, node: JavaObject) -> Iterator[JavaObject]:
    is_plan = any(found.endswith("LogicalPlan") for found in class_names(node))
    for child in gateway.items(node.children().iterator()):
        yield from _expressions(gateway, child)
    if not is_plan:
        yield node
        return
    for expression in gateway.items(node.expressions().iterator()):
        yield from _expressions(gateway, expression)


def name_parts(gateway: Gateway, name: str) -> list[str]:
    """The parts of a column name in SQL: `a`, `a.b`, `` `a.b` ``.

    Raises:
        AnalysisException: the name cannot be parsed.
    """
    parser = gateway.java_class("org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute")
    return [str(part) for part in gateway.items(parser.parseAttributeName(name).iterator())]


def type_casts(gateway: Gateway, policy: Literal["ANSI", "LEGACY", "STRICT"]) -> JavaObject:
    """Spark's function that decides whether one JVM type can be cast to another under a store assignment policy."""
    cast = gateway.java_class(_EXPRESSIONS + "Cast")
    return {"ANSI": cast.canAnsiCast, "LEGACY": cast.canCast, "STRICT": cast.canUpCast}[policy]
