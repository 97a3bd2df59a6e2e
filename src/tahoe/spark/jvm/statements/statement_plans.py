"""Builds plans for statements that Spark's parser does not know: bound parameters, output columns, and EXPLAIN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

from tahoe.spark.jvm.gateway import Gateway, JavaObject, java_error
from tahoe.spark.jvm.plans import analysed, dataset, kind_of

_ANALYSIS = "org.apache.spark.sql.catalyst.analysis."
_PLANS = "org.apache.spark.sql.catalyst.plans.logical."
_PARSER = "org.apache.spark.sql.catalyst.parser."


def substituted(gateway: Gateway, text: str) -> str:
    """The text with each ${...} replaced by the session's setting, as Spark's parser does it."""
    if "${" not in text:
        return text
    return str(gateway.java_class("org.apache.spark.sql.internal.VariableSubstitution")().substitute(text))


def java_parse_exception(error: BaseException) -> JavaObject | None:
    """The Java `ParseException` behind an error; None if there is none."""
    java = java_error(error)
    return java if java is not None and kind_of(java) == "ParseException" else None


def is_alias(expression: JavaObject) -> bool:
    """Whether a parsed expression ends with a name for itself, as `1 AS one`."""
    return str(expression.getClass().getSimpleName()) in ("Alias", "MultiAlias")


def parameters_of(gateway: Gateway, args: Mapping[str, Any] | Sequence[Any] | None) -> JavaObject | None:
    """The arguments of a query as a `ParameterContext` for Spark's parser; None without arguments."""
    if not args:
        return None
    if isinstance(args, Mapping):
        named = dict(zip(args, _literals(gateway, list(args.values())), strict=True))
        return gateway.java_class(_PARSER + "NamedParameterContext")(gateway.scala_map(named))
    return gateway.java_class(_PARSER + "PositionalParameterContext")(gateway.seq(_literals(gateway, args)))


def _literals(gateway: Gateway, values: Sequence[Any]) -> list[JavaObject]:
    rows = gateway.spark.range(0).select([F.lit(value).alias("v") for value in values])
    return [column.child() for column in gateway.items(analysed(rows).projectList().iterator())]


def bound(gateway: Gateway, expressions: Sequence[JavaObject], parameters: JavaObject | None) -> list[JavaObject]:
    """The expressions with the query's parameters bound by Spark's `BindParameters` rule."""
    if parameters is None or not expressions or not parameters.productElement(0).nonEmpty():
        return list(expressions)
    carrier = gateway.java_class(_PLANS + "OneRowRelation")()
    for expression in reversed(expressions):  # a Filter takes any expression
        carrier = gateway.java_class(_PLANS + "Filter")(expression, carrier)
    carrier = gateway.module(_ANALYSIS + "BindParameters").apply(_with_parameters(gateway, carrier, parameters))
    bound_expressions: list[JavaObject] = []
    while len(bound_expressions) < len(expressions):
        bound_expressions.append(carrier.condition())
        carrier = carrier.child()
    return bound_expressions


def _with_parameters(gateway: Gateway, plan: JavaObject, parameters: JavaObject) -> JavaObject:
    """The plan around which Spark binds the parameters, as it does for a query."""
    match kind_of(parameters):
        case "NamedParameterContext":
            values = gateway.dict(parameters.params())
            return gateway.java_class(_ANALYSIS + "NameParameterizedQuery")(
                plan, gateway.seq(values), gateway.seq(values.values())
            )
        case "PositionalParameterContext":
            return gateway.java_class(_ANALYSIS + "PosParameterizedQuery")(plan, parameters.params())
        case _:  # from EXECUTE IMMEDIATE, in which some parameters may be named
            fields = [parameters.productElement(n) for n in range(2)]
            return gateway.java_class(_ANALYSIS + "GeneralParameterizedQuery")(plan, *fields)


def output_of(gateway: Gateway, columns: JavaObject) -> JavaObject:
    """Attributes for the columns of a StructType, as a plan's output."""
    return gateway.module("org.apache.spark.sql.catalyst.types.DataTypeUtils").toAttributes(columns)


def explained(gateway: Gateway, plan: JavaObject, mode: str) -> JavaObject:
    """Spark's EXPLAIN command for a plan.

    Args:
        mode: `simple`, `extended`, `formatted`, ...
    """
    how = gateway.java_class("org.apache.spark.sql.execution.ExplainMode").fromString(mode)
    return gateway.java_class("org.apache.spark.sql.execution.command.ExplainCommand")(plan, how)


def rows_of(gateway: Gateway, frame: DataFrame) -> JavaObject:
    """The rows of a local DataFrame, as a Scala `Seq` of Java `Row`s. A query of Spark's would compile code for
    them.
    """
    plan = dataset(frame).queryExecution().executedPlan()
    to_row = gateway.module("org.apache.spark.sql.catalyst.CatalystTypeConverters").createToScalaConverter(
        plan.schema()
    )
    return gateway.module("scala.collection.immutable.ArraySeq").unsafeWrapArray(plan.executeCollect()).map(to_row)
