"""What Spark's plans and expressions say, as values of Python's: the nodes of Catalyst that other rooms hold are asked here.

Where a decision hangs on several facts, they are read at once into a record: `Equality`, `Attribute`, `Expression`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession

from tahoe.spark.jvm.gateway import Gateway, JavaObject, class_names

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."


def kind_of(node: JavaObject) -> str:
    """The simple name of the class of a plan, an expression, or what else Spark hands over."""
    return str(node.getClass().getSimpleName())


def dataset(frame: DataFrame) -> JavaObject:
    """The `Dataset` beneath a DataFrame."""
    return frame._jdf


def frame_of(java_dataset: JavaObject, spark: SparkSession) -> DataFrame:
    """A `Dataset` as a DataFrame of a session."""
    return DataFrame(java_dataset, spark)


def java_column(column: Column) -> JavaObject:
    """Spark's own Column beneath PySpark's."""
    return column._jc


def analysed(frame: DataFrame) -> JavaObject:
    """The plan of a query in which all names are resolved."""
    return frame._jdf.queryExecution().analyzed()


def optimised(frame: DataFrame) -> JavaObject:
    """The plan of a query as Spark's optimiser leaves it: files were chosen for it."""
    return frame._jdf.queryExecution().optimizedPlan()


def leaves(gateway: Gateway, plan: JavaObject) -> Iterator[JavaObject]:
    """What a plan reads from."""
    return gateway.items(plan.collectLeaves().iterator())


def estimated_bytes(frame: DataFrame) -> int:
    """How large Spark expects the rows of a query to be."""
    return int(str(optimised(frame).stats().sizeInBytes()))


def planned_again(gateway: Gateway, frame: DataFrame) -> DataFrame:
    """The same query, not planned yet: what was planned before may be about an older version."""
    return gateway.dataframe_of_plan(frame._jdf.logicalPlan())


def forget_rows(spark: SparkSession, frames: Sequence[DataFrame]) -> None:
    """Let go of rows that `localCheckpoint` keeps. `RDD.unpersist` would warn the user that these cannot be computed again."""
    context: JavaObject | None = spark.sparkContext._jsc
    if context is None:  # the session has stopped, and keeps nothing
        return
    for rows in frames:
        context.sc().unpersistRDD(analysed(rows).rdd().id(), False)


def counted(frame: DataFrame) -> tuple[DataFrame, int]:
    """The same rows, and in how many partitions they come.

    Spark decides that while the query runs. So all of it runs that comes before its last stage, whose rows are then taken as they are.
    """
    gateway = Gateway(frame.sparkSession)
    rows = frame._jdf.queryExecution().toRdd()
    same = gateway.session.internalCreateDataFrame(rows, frame._jdf.schema(), False)
    return gateway.dataframe(same), int(rows.getNumPartitions())


# --- the shape of a query


def top_kinds(frame: DataFrame) -> list[str]:
    """The nodes of a query from its top, as far as they are projections, and the one beneath."""
    plan = analysed(frame)
    kinds = [kind_of(plan)]
    while kinds[-1] == "Project":
        plan = plan.children().apply(0)
        kinds.append(kind_of(plan))
    return kinds


def condition_of(frame: DataFrame, node: Literal["Filter", "Join"]) -> JavaObject:
    """The condition of the filter or the join that a query ends with."""
    plan = analysed(frame)
    while kind_of(plan) != node:
        plan = plan.children().apply(0)
    return plan.condition().get() if node == "Join" else plan.condition()


# Nodes that give the same rows each time, if what is beneath them does.
_UNCHANGING = frozenset({"LogicalRelation", "Project", "Filter", "Join", "Union", "SubqueryAlias"})


def never_changes(plan: JavaObject) -> bool:
    """Whether a query gives the same rows each time: of files that are listed once, and without anything that chooses among rows."""
    if kind_of(plan) not in _UNCHANGING or plan.subqueries().size():
        return False
    if kind_of(plan) == "LogicalRelation":
        return kind_of(plan.relation()) == "HadoopFsRelation"
    return all(never_changes(plan.children().apply(number)) for number in range(plan.children().size()))


# --- columns


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column of one side, whatever names the other side has. `number` is Spark's identity of it."""

    number: int
    name: str
    column: Column


def attributes(gateway: Gateway, frame: DataFrame) -> list[Attribute]:
    """The columns of a query."""
    output = gateway.items(analysed(frame).output().iterator())
    return [Attribute(int(a.exprId().id()), str(a.name()), gateway.column(a)) for a in output]


def references_above_join(gateway: Gateway, frame: DataFrame) -> set[int]:
    """The columns of a join, by their numbers, that a query above it names."""
    found: set[int] = set()
    plan = analysed(frame)
    while kind_of(plan) != "Join":
        found |= {int(a.exprId().id()) for a in gateway.items(plan.references().iterator())}
        plan = plan.children().apply(0)
    return found


# --- conditions


Side = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Operand:
    """One side of an equality.

    Attributes:
        side: the query of the join whose columns alone it names; None where it names those of both, or none.
        never_fails: it is a column, a field of one, or a cast of these that has a value for each: another part of the condition may guard
            any other.
        path: the column, or the field of one, whose values it has; whole numbers may be wider in it. None for another expression.
        type: Spark's name of its type; `type_json` as schemas have it, which does not tell a collation.
    """

    column: Column
    side: Side | None
    never_fails: bool
    path: tuple[str, ...] | None
    type: str
    type_json: str


@dataclass(frozen=True, slots=True)
class Equality:
    """A part of a condition that asks two values to be equal. `is_null_safe`: null equals null."""

    first: Operand
    second: Operand
    is_null_safe: bool


def equalities(gateway: Gateway, condition: JavaObject, left: DataFrame, right: DataFrame) -> list[Equality]:
    """The equalities that must all hold for the analysed condition of a join to be true."""
    sides: dict[Side, JavaObject] = {"left": analysed(left).outputSet(), "right": analysed(right).outputSet()}
    return [
        Equality(_operand(gateway, part.left(), sides), _operand(gateway, part.right(), sides), kind_of(part) == "EqualNullSafe")
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
    never_fails, data_type = _never_fails(gateway, expression), expression.dataType()
    named = expression.references()
    own = () if named.isEmpty() else (side for side, columns in sides.items() if named.subsetOf(columns))
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
    match kind_of(expression):
        case "Cast":
            is_whole = {expression.dataType().simpleString(), expression.child().dataType().simpleString()} <= _WHOLE_NUMBERS
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
            return bool(widens(expression.child().dataType(), expression.dataType())) and _never_fails(gateway, expression.child())
        case "GetStructField":
            return _never_fails(gateway, expression.child())
        case other:
            return other == "AttributeReference"


# --- expressions


@dataclass(frozen=True, slots=True)
class Expression:
    """A node of an expression.

    Attributes:
        kind: the simple name of its class.
        classes: of the classes and interfaces that were asked for, those that it is one of.
        sql: as SQL.
        is_deterministic: it has the same value each time, as far as Spark knows.
    """

    kind: str
    classes: frozenset[str]
    sql: str
    is_deterministic: bool


def expressions(gateway: Gateway, frame: DataFrame, classes: Iterable[str]) -> Iterator[Expression]:
    """All expressions of a query, innermost first: what holds a part that is not deterministic is not either.

    Args:
        classes: what is asked of each, by names in Catalyst's package of expressions.
    """
    asked = {name: gateway.load_class(_EXPRESSIONS + name) for name in classes}
    for node in _expressions(gateway, analysed(frame)):
        found = frozenset(name for name, java_class in asked.items() if java_class.isInstance(node))
        yield Expression(kind=kind_of(node), classes=found, sql=str(node.sql()), is_deterministic=bool(node.deterministic()))


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
    """A column's name as in SQL, in parts: `a`, `a.b`, `` `a.b` ``.

    Raises:
        AnalysisException: the name cannot be parsed.
    """
    parser = gateway.java_class("org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute")
    return [str(part) for part in gateway.items(parser.parseAttributeName(name).iterator())]


def type_casts(gateway: Gateway, policy: Literal["ANSI", "LEGACY", "STRICT"]) -> JavaObject:
    """Spark's question whether it casts one type to another under a policy of store assignment; both as Spark's own types."""
    cast = gateway.java_class(_EXPRESSIONS + "Cast")
    return {"ANSI": cast.canAnsiCast, "LEGACY": cast.canCast, "STRICT": cast.canUpCast}[policy]
