"""Rows with every column of their table: what they lack is computed, takes its default, or gets a number; what they bring is checked.

Protocol: "Generated Columns", "Default Columns", "Identity Columns". One function for all writers. Everything is an expression in the plan
that is written, in Spark's own engine: no further pass over the rows, no shuffle, no Python worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

from tahoe.errors import (
    AggregateInGeneratedColumnError,
    FunctionInGeneratedColumnError,
    GeneratedColumnExpressionError,
    GeneratedColumnExpressionTypeError,
    GeneratedColumnReferenceError,
    GeneratedValueMismatchError,
    IdentityOverflowError,
    NonDeterministicGeneratedColumnError,
)
from tahoe.protocol.column_metadata import GENERATION_EXPRESSION
from tahoe.protocol.column_values import ColumnValues, Identity
from tahoe.protocol.names import quoted
from tahoe.protocol.schema import Struct, as_nullable
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.plans import Expression, counted, expressions
from tahoe.spark.jvm.types import delta_schema, spark_schema
from tahoe.spark.writing.partition_columns import as_stored, with_stored_values
from tahoe.spark.writing.store_assignment import Refusals, fit_some
from tahoe.sql.predicates import columns_named

# A row's place among those of a write, while its numbers are made of it.
_POSITION = "__tahoe_position"

# Whether a row brings a column, while the others get theirs.
_GIVEN = "__tahoe_given_"

Given: TypeAlias = Mapping[str, str | None]
"""Which columns rows bring, by lower-cased name: all rows where the value is None, else those for which a column is true."""

# Of Spark's `monotonically_increasing_id`, so many of the lower bits are the row's place in its partition, and those above the partition.
_ROW_BITS = 33


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """Rows with all columns of a table, and the identity columns in which some of them got new numbers."""

    rows: DataFrame
    minted: tuple[str, ...] = ()


def complete(
    frame: DataFrame,
    schema: Struct,
    values: ColumnValues,
    given: Mapping[str, Column | None],
    refusals: Refusals,
    keep: Sequence[str] = (),
    partitioned_by: Set[str] = frozenset(),
) -> Completed:
    """Rows with every column of a table: what they do not bring is made by the column's rule, and null where it has none.

    A generated column that is brought is checked against its expression. Rules see the rows as they will be stored: with all other
    columns, cast to their types. Nothing is refused for being brought; see `check_given` and `check_assigned` of the protocol's rules.

    Args:
        frame: columns of the table under its names and types, and others, which expressions of `given` and `keep` may name.
        schema: the columns that are wanted.
        given: which columns the rows bring, by lower-cased name: all rows where the value is None, else those for which a condition is
            true. A column of the frame that is not named here is made anew; one that is must be in the frame.
        keep: columns of the frame that are none of the table's and stay, behind the others.
        partitioned_by: the columns of which some values are stored as null.

    Returns:
        the rows, with the schema's columns in its order and types. To count partitions, where numbers are made, runs what comes before
        the last stage of the query.
    """
    rows, brought = _with_conditions(frame, given)
    rows = with_stored_values(rows, partitioned_by)
    conditions = [condition for condition in brought.values() if condition is not None]
    made = [column.name for column in schema if brought.get(column.name.lower(), column) is not None]
    rows, minted = _numbered(rows, values, [name for name in values.identity if name in made], brought, refusals)
    others = [name for name in made if name not in values.identity and name not in values.generated]
    rows = _made(rows, {name: values.defaults.get(name, "null") for name in others}, brought)
    rows = with_stored_values(rows, partitioned_by & set(others))
    rows = _made(rows, {name: values.generated[name] for name in made if name in values.generated}, brought)
    if made:
        rows = fit_some(rows, schema, set(made), refusals, keep=[*keep, *conditions])
        rows = with_stored_values(rows, partitioned_by & set(made))
    for name, expression in values.generated.items():
        if name.lower() in brought:
            wanted = F.expr(expression) if name not in partitioned_by else as_stored(F.expr(expression))
            rows = _checked(rows, name, expression, wanted, brought[name.lower()], refusals)
    return Completed(rows=rows.drop(*conditions) if conditions else rows, minted=minted)


def _with_conditions(frame: DataFrame, given: Mapping[str, Column | None]) -> tuple[DataFrame, Given]:
    """The rows with each condition as a column: what is made of a column must not change what was said of it."""
    found = {name: (f"{_GIVEN}{name}", condition) for name, condition in given.items() if condition is not None}
    columns = {column: F.coalesce(condition, F.lit(False)) for column, condition in found.values()}
    names = {name: found[name][0] if name in found else None for name in given}
    return frame.withColumns(columns) if columns else frame, names


def _made(rows: DataFrame, expressions: Mapping[str, str], given: Given) -> DataFrame:
    made = {name: _where_missing(name, given, F.expr(expression)) for name, expression in expressions.items()}
    return rows.withColumns(made) if made else rows


def _where_missing(name: str, given: Given, value: Column) -> Column:
    brought = given.get(name.lower())
    return value if brought is None else F.when(F.col(quoted(brought)), F.col(quoted(name))).otherwise(value)


def _checked(rows: DataFrame, name: str, expression: str, wanted: Column, brought: str | None, refusals: Refusals) -> DataFrame:
    """The rows, refused where a generated column has not the wanted value. As for replaceWhere, the check is a projection."""
    named = {*columns_named(expression), name.lower()}
    shown = [F.col(quoted(column)) for column in rows.columns if column.lower() in named]
    found = F.to_json(F.struct(*shown), {"ignoreNullFields": "false"})
    column = F.col(quoted(name))
    refused = refusals.column(
        f"A row for {refusals.table} has another value in the generated column {name} than {expression}.",
        lambda row: GeneratedValueMismatchError(table=refusals.table, column=name, expression=expression, values=row),
        found,
    )
    is_right = column.eqNullSafe(wanted)
    return rows.withColumn(name, F.when(is_right if brought is None else is_right | ~F.col(quoted(brought)), column).otherwise(refused))


# --- identity columns


def _numbered(
    frame: DataFrame, values: ColumnValues, wanted: Sequence[str], given: Given, refusals: Refusals
) -> tuple[DataFrame, tuple[str, ...]]:
    """The rows with new numbers in the wanted columns: the partitions take turns, so that none can give a number that another gives."""
    if not wanted:
        return frame, ()
    rows, partitions = counted(frame)
    rows, at = rows.withColumn(_POSITION, F.monotonically_increasing_id()), F.col(_POSITION)
    turn = at.bitwiseAND(F.lit((1 << _ROW_BITS) - 1)) * F.lit(partitions).cast("long") + F.shiftright(at, _ROW_BITS)
    numbers = {name: _where_missing(name, given, _number(name, values.identity[name], turn, refusals)) for name in wanted}
    return rows.withColumns(numbers).drop(_POSITION), tuple(wanted)


def _number(name: str, identity: Identity, turn: Column, refusals: Refusals) -> Column:
    """The number of a turn; numbers that no long holds are refused, whatever the session does about overflows."""
    identity.check_room(1, table=refusals.table, column=name)
    number = F.try_add(F.lit(identity.next).cast("long"), F.try_multiply(F.lit(identity.step).cast("long"), turn))
    refused = refusals.column(
        f"The identity column {name} of {refusals.table} has no values left.",
        lambda _: IdentityOverflowError(table=refusals.table, column=name, step=identity.step, high_water_mark=identity.high_water_mark),
    )
    return F.coalesce(number, refused)


# --- generated columns that are declared


def check_expressions(spark: SparkSession, schema: Struct, *, table: str) -> None:
    """Refuse the generated columns of a new table whose expressions cannot be: what Spark does not understand or would not give twice.

    Raises:
        GeneratedColumnReferenceError: it names no column, itself, or another generated column.
        GeneratedColumnExpressionError: it is no expression over one row, or its value may be another one the next time.
        GeneratedColumnExpressionTypeError: its type is not the column's.
    """
    generated = [(f, str(f.metadata[GENERATION_EXPRESSION])) for f in schema if GENERATION_EXPRESSION in f.metadata]
    if not generated:
        return
    others = Struct(tuple(f for f in schema if GENERATION_EXPRESSION not in f.metadata))
    nothing = spark.createDataFrame([], spark_schema(others))
    for column, expression in generated:
        found = _analysed(nothing, column.name, expression, table)
        _check_kind(expressions(Gateway(spark), found, _CLASSES), column.name, expression, table)
        (given,) = delta_schema(found.schema, table=table)
        if as_nullable(given.type) != as_nullable(column.type):
            raise GeneratedColumnExpressionTypeError(
                table=table, column=column.name, expression=expression, type=column.type, found=given.type
            )


def _analysed(nothing: DataFrame, name: str, expression: str, table: str) -> DataFrame:
    try:
        return nothing.select(F.expr(expression).alias(name))  # a star cannot have a name
    except ParseException as error:
        raise GeneratedColumnExpressionError(table=table, column=name, expression=expression, detail=_reason(error)) from error
    except AnalysisException as error:
        if (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
            detail = f"a name in it is no column of the table that is not generated itself ({', '.join(nothing.columns)})"
            raise GeneratedColumnReferenceError(table=table, column=name, expression=expression, detail=detail) from error
        raise GeneratedColumnExpressionError(table=table, column=name, expression=expression, detail=_reason(error)) from error


def _reason(error: AnalysisException) -> str:
    """The first line of Spark's message, without its name and the dot that our sentence has."""
    return str(error.getMessage() or error).strip().splitlines()[0].rpartition("] ")[2].split(" SQLSTATE")[0].rstrip(".")


_KINDS: tuple[tuple[str, type[GeneratedColumnExpressionError], str], ...] = (
    ("aggregate.AggregateFunction", AggregateInGeneratedColumnError, "it is made of many rows"),
    ("WindowExpression", AggregateInGeneratedColumnError, "it is made of many rows"),
    ("UserDefinedExpression", FunctionInGeneratedColumnError, "it calls a user's function, which other writers do not have"),
    ("SubqueryExpression", GeneratedColumnExpressionError, "it has a query in it"),
    ("Generator", GeneratedColumnExpressionError, "it is not one value"),
)
_CLASSES = tuple(kind for kind, *_ in _KINDS)

# What Spark takes for deterministic, because it is the same all through one query.
_OF_THE_MOMENT = frozenset({"Now", "LocalTimestamp", "InputFileName", "InputFileBlockStart", "InputFileBlockLength"})


def _check_kind(found: Iterable[Expression], name: str, text: str, table: str) -> None:
    for expression in found:
        for kind, error, detail in _KINDS:
            if kind in expression.classes:
                raise error(table=table, column=name, expression=text, detail=detail)
        if not expression.is_deterministic or expression.kind in _OF_THE_MOMENT or expression.kind.startswith("Current"):
            raise NonDeterministicGeneratedColumnError(
                table=table, column=name, expression=text, detail=f"{expression.sql} may be another value the next time"
            )
