"""Completes rows with generated, default and identity columns, and checks supplied values of generated columns.

Protocol: "Generated Columns", "Default Columns", "Identity Columns". All writers use `complete`. Its rules are
expressions in the plan that is written, in Spark's own engine: no additional pass over the rows, no shuffle, no Python
worker.
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
from tahoe.protocol.changes.column_values import ColumnValues, Identity
from tahoe.protocol.types.column_metadata import GENERATION_EXPRESSION
from tahoe.protocol.types.names import quoted
from tahoe.protocol.types.schema import Struct, as_nullable
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.plans import Expression, counted, expressions
from tahoe.spark.jvm.types import delta_schema, spark_schema
from tahoe.spark.writing.partition_columns import as_stored, with_stored_values
from tahoe.spark.writing.store_assignment import Refusals, assign_some
from tahoe.sql.predicates import columns_named

# A temporary column with a row's `monotonically_increasing_id`, from which its identity values are computed.
_POSITION = "__tahoe_position"

# Prefix of temporary columns that tell whether a row supplies a column.
_GIVEN = "__tahoe_given_"

Given: TypeAlias = Mapping[str, str | None]
"""The columns that rows supply, by lower-cased name. None: every row supplies it; else the boolean column that tells
which rows do.
"""

# In Spark's `monotonically_increasing_id` this many lower bits are the row's number in its partition; the upper bits
# are the partition.
_ROW_BITS = 33


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """Rows with all columns of a table. `minted`: the identity columns for which new values were generated."""

    frame: DataFrame
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
    """Rows with every column of a table. Values that rows do not supply come from the column's rule, or are null
    without a rule.

    Supplied values of a generated column are checked against its expression. Rules see the rows as they will be stored:
    with all other columns, cast to their types. No column is refused for being supplied; see `check_given` and
    `check_assigned` in the protocol ring.

    Args:
        frame: columns of the table under its names and types, and other columns that `given` and `keep` may refer to.
        schema: the columns of the result.
        given: the columns that rows supply, by lower-cased name. None: every row supplies it; else the condition for
            the rows that do. Every column named here must be in the frame. A column of the frame that is not named here
            is computed again.
        keep: columns of the frame that are not in the table and are kept, after the others.
        partitioned_by: the partition columns in which some values are stored as null.

    Returns:
        the rows, with the schema's columns in its order and types. If identity values are generated, all stages of the
        query but the last run now, to count its partitions.
    """
    rows, flags = _with_conditions(frame, given)
    rows = with_stored_values(rows, partitioned_by)
    flag_columns = [condition for condition in flags.values() if condition is not None]
    computed_names = [column.name for column in schema if flags.get(column.name.lower(), column) is not None]
    rows, minted = _with_identity_values(
        rows, values, [name for name in values.identity if name in computed_names], flags, refusals
    )
    default_names = [name for name in computed_names if name not in values.identity and name not in values.generated]
    rows = _with_computed_values(rows, {name: values.defaults.get(name, "null") for name in default_names}, flags)
    rows = with_stored_values(rows, partitioned_by & set(default_names))
    rows = _with_computed_values(
        rows, {name: values.generated[name] for name in computed_names if name in values.generated}, flags
    )
    if computed_names:
        rows = assign_some(rows, schema, set(computed_names), refusals, keep=[*keep, *flag_columns])
        rows = with_stored_values(rows, partitioned_by & set(computed_names))
    for name, expression in values.generated.items():
        if name.lower() in flags:
            expected = F.expr(expression) if name not in partitioned_by else as_stored(F.expr(expression))
            rows = _with_generated_check(rows, name, expression, expected, flags[name.lower()], refusals)
    return Completed(frame=rows.drop(*flag_columns) if flag_columns else rows, minted=minted)


def _with_conditions(frame: DataFrame, given: Mapping[str, Column | None]) -> tuple[DataFrame, Given]:
    """The rows with each condition as a column, evaluated before any column that the condition refers to is changed."""
    found = {name: (f"{_GIVEN}{name}", condition) for name, condition in given.items() if condition is not None}
    columns = {column: F.coalesce(condition, F.lit(False)) for column, condition in found.values()}
    names = {name: found[name][0] if name in found else None for name in given}
    return frame.withColumns(columns) if columns else frame, names


def _with_computed_values(rows: DataFrame, expressions: Mapping[str, str], given: Given) -> DataFrame:
    """The rows with computed values in some columns, where they do not supply them."""
    values = {name: _where_missing(name, given, F.expr(expression)) for name, expression in expressions.items()}
    return rows.withColumns(values) if values else rows


def _where_missing(name: str, given: Given, value: Column) -> Column:
    supplied = given.get(name.lower())
    return value if supplied is None else F.when(F.col(quoted(supplied)), F.col(quoted(name))).otherwise(value)


def _with_generated_check(
    rows: DataFrame, name: str, expression: str, expected: Column, flag: str | None, refusals: Refusals
) -> DataFrame:
    """The rows, with a check that refuses supplied values of a generated column that differ from its expression.

    As in `store_assignment.require`, the check is a projection.

    Args:
        expected: the value of the expression, as it is stored.
        flag: the column that tells which rows supply a value; None: all do.
    """
    row_names = {*columns_named(expression), name.lower()}
    row_columns = [F.col(quoted(column)) for column in rows.columns if column.lower() in row_names]
    row_json = F.to_json(F.struct(*row_columns), {"ignoreNullFields": "false"})
    column = F.col(quoted(name))
    refusal = refusals.column(
        f"A row for {refusals.table} has another value in the generated column {name} than {expression}.",
        make_error=lambda row: GeneratedValueMismatchError(
            table=refusals.table, column=name, expression=expression, values=row
        ),
        found=row_json,
    )
    is_right = column.eqNullSafe(expected)
    return rows.withColumn(
        name, F.when(is_right if flag is None else is_right | ~F.col(quoted(flag)), column).otherwise(refusal)
    )


# --- identity columns


def _with_identity_values(
    frame: DataFrame, values: ColumnValues, names: Sequence[str], given: Given, refusals: Refusals
) -> tuple[DataFrame, tuple[str, ...]]:
    """The rows with new identity values in the wanted columns. Partitions use interleaved values, so that no value
    occurs twice.
    """
    if not names:
        return frame, ()
    rows, partitions = counted(frame)
    rows, at = rows.withColumn(_POSITION, F.monotonically_increasing_id()), F.col(_POSITION)
    turn = at.bitwiseAND(F.lit((1 << _ROW_BITS) - 1)) * F.lit(partitions).cast("long") + F.shiftright(at, _ROW_BITS)
    numbers = {
        name: _where_missing(name, given, _number(name, values.identity[name], turn, refusals)) for name in names
    }
    return rows.withColumns(numbers).drop(_POSITION), tuple(names)


def _number(name: str, identity: Identity, turn: Column, refusals: Refusals) -> Column:
    """The identity value for a turn (0, 1, ...). An overflow of BIGINT is refused, independent of the session's ANSI
    mode.
    """
    identity.check_room(1, table=refusals.table, column=name)
    number = F.try_add(F.lit(identity.next).cast("long"), F.try_multiply(F.lit(identity.step).cast("long"), turn))
    refused = refusals.column(
        f"The identity column {name} of {refusals.table} has no values left.",
        make_error=lambda _: IdentityOverflowError(
            table=refusals.table, column=name, step=identity.step, high_water_mark=identity.high_water_mark
        ),
    )
    return F.coalesce(number, refused)


# --- declarations of generated columns


def check_expressions(spark: SparkSession, schema: Struct, *, table: str) -> None:
    """Refuse invalid expressions of generated columns: expressions that Spark cannot analyse, or that are not
    deterministic.

    Raises:
        GeneratedColumnReferenceError: the expression refers to an unknown column, to itself, or to another generated
            column.
        GeneratedColumnExpressionError: the expression is not valid over a single row, or is not deterministic.
        GeneratedColumnExpressionTypeError: the expression's type is not the column's.
    """
    generated = [(f, str(f.metadata[GENERATION_EXPRESSION])) for f in schema if GENERATION_EXPRESSION in f.metadata]
    if not generated:
        return
    others = Struct(tuple(f for f in schema if GENERATION_EXPRESSION not in f.metadata))
    nothing = spark.createDataFrame([], spark_schema(others))
    for column, expression in generated:
        query = _expression_query(nothing, column.name, expression, table)
        _check_kind(expressions(Gateway(spark), query, _CLASSES), column.name, expression, table)
        (expression_field,) = delta_schema(query.schema, table=table)
        if as_nullable(expression_field.type) != as_nullable(column.type):
            raise GeneratedColumnExpressionTypeError(
                table=table, column=column.name, expression=expression, type=column.type, found=expression_field.type
            )


def _expression_query(nothing: DataFrame, name: str, expression: str, table: str) -> DataFrame:
    """The expression of a generated column as a query over no rows. Spark's errors become errors of the declaration."""
    try:
        return nothing.select(F.expr(expression).alias(name))  # the alias makes Spark refuse `*`
    except ParseException as error:
        raise GeneratedColumnExpressionError(
            table=table, column=name, expression=expression, detail=_reason(error)
        ) from error
    except AnalysisException as error:
        if (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
            detail = f"it may reference only the columns {', '.join(nothing.columns)}"
            raise GeneratedColumnReferenceError(
                table=table, column=name, expression=expression, detail=detail
            ) from error
        raise GeneratedColumnExpressionError(
            table=table, column=name, expression=expression, detail=_reason(error)
        ) from error


def _reason(error: AnalysisException) -> str:
    """The first line of Spark's message, without the condition, the SQLSTATE and the final period."""
    return (
        str(error.getMessage() or error).strip().splitlines()[0].rpartition("] ")[2].split(" SQLSTATE")[0].rstrip(".")
    )


_KINDS: tuple[tuple[str, type[GeneratedColumnExpressionError], str], ...] = (
    ("aggregate.AggregateFunction", AggregateInGeneratedColumnError, "it is computed from several rows"),
    ("WindowExpression", AggregateInGeneratedColumnError, "it is computed from several rows"),
    (
        "UserDefinedExpression",
        FunctionInGeneratedColumnError,
        "it calls a user-defined function, which other writers do not have",
    ),
    ("SubqueryExpression", GeneratedColumnExpressionError, "it contains a subquery"),
    ("Generator", GeneratedColumnExpressionError, "it returns several values"),
)
_CLASSES = tuple(kind for kind, *_ in _KINDS)

# Expressions that Spark considers deterministic because they are constant within one query.
_OF_THE_MOMENT = frozenset({"Now", "LocalTimestamp", "InputFileName", "InputFileBlockStart", "InputFileBlockLength"})


def _check_kind(parts: Iterable[Expression], name: str, text: str, table: str) -> None:
    """Refuse an expression whose value is not a function of its row alone: a generated column is checked by computing
    it again.
    """
    for expression in parts:
        for kind, error, detail in _KINDS:
            if kind in expression.classes:
                raise error(table=table, column=name, expression=text, detail=detail)
        if (
            not expression.is_deterministic
            or expression.kind in _OF_THE_MOMENT
            or expression.kind.startswith("Current")
        ):
            raise NonDeterministicGeneratedColumnError(
                table=table, column=name, expression=text, detail=f"{expression.sql} is not deterministic"
            )
