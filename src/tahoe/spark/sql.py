"""`tahoe.sql`: what `spark.sql` runs, and Delta's own statements, in sessions whose parser knows nothing of them.

In an enabled session with a JVM, `spark.sql` knows them all. It is for the others: a Spark Connect session, and a Spark whose internals
have moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

from tahoe.errors import TableNotFoundError, UnsupportedOperationError
from tahoe.spark import statements as running
from tahoe.spark.catalog import PROVIDER
from tahoe.spark.failures import for_user
from tahoe.spark.fitting import quoted
from tahoe.spark.gateway import Gateway, JavaObject
from tahoe.spark.merge_builder import raising_for_user
from tahoe.spark.session import is_connect
from tahoe.spark.tables import DETAIL, HISTORY, described, detail_row, history_row
from tahoe.sql import statements
from tahoe.sql.statements import Expression, Name, Statement
from tahoe.table.table import Table

Args = Mapping[str, Any] | Sequence[Any] | None

_PARAMETERS = "org.apache.spark.sql.catalyst.parser."


def sql(spark: SparkSession, sqlQuery: str, args: Args = None) -> DataFrame:  # noqa: N803  PySpark's name
    """Run a statement of SQL, Spark's or Delta's own.

    Args:
        sqlQuery: the statement.
        args: its parameters, by name or by position, as `spark.sql` takes them.

    Returns:
        as `spark.sql`: the rows of a query, or the result of a command that has been run.

    Raises:
        StatementSyntaxError: it begins as a statement of Delta's, and is none.
        UnsupportedOperationError: in a Spark Connect session, a statement that needs Spark's JVM.
    """
    if is_connect(spark):
        return _over_connect(spark, sqlQuery, args)
    gateway = Gateway(spark)
    if has_parser(gateway):
        return spark.sql(sqlQuery, args=args)  # type: ignore[arg-type]
    parser = gateway.session.sessionState().sqlParser()
    plan = running.plan(gateway, parser, sqlQuery, _parameters(gateway, args))
    return spark.sql(sqlQuery, args=args) if plan is None else gateway.dataframe_of_plan(plan)  # type: ignore[arg-type]


def has_parser(gateway: Gateway) -> bool:
    """Whether the session's own parser knows Delta's statements."""
    return bool(gateway.java_class("delta.Parser").installed(gateway.session))


def _parameters(gateway: Gateway, args: Args) -> JavaObject | None:
    """Arguments as Spark's parser takes them."""
    if not args:
        return None
    if isinstance(args, Mapping):
        named = dict(zip(args, _literals(gateway, list(args.values())), strict=True))
        return gateway.java_class(_PARAMETERS + "NamedParameterContext")(gateway.scala_map(named))
    return gateway.java_class(_PARAMETERS + "PositionalParameterContext")(gateway.seq(_literals(gateway, args)))


def _literals(gateway: Gateway, values: Sequence[Any]) -> list[JavaObject]:
    """Values as Spark's literals."""
    rows = gateway.spark.range(0).select([F.lit(value).alias("v") for value in values])
    return [column.child() for column in gateway.items(rows._jdf.queryExecution().analyzed().projectList().iterator())]


# --- Spark Connect


def _over_connect(spark: SparkSession, text: str, args: Args) -> DataFrame:
    parsed = raising_for_user(lambda: statements.parse(text))
    if parsed is None:
        return spark.sql(text, args=args)  # type: ignore[arg-type]
    statement = parsed.statement
    match statement:
        case statements.DescribeHistory():
            limit = None if statement.limit is None else int(_value(spark, statement.limit, args))
            table = _table(spark, statement.table, args)
            return described(spark, [history_row(commit) for commit in raising_for_user(lambda: table.history(limit))], HISTORY)
        case statements.DescribeDetail():
            snapshot = raising_for_user(_table(spark, statement.table, args).snapshot)
            return described(spark, [detail_row(snapshot, ".".join(statement.table.parts) or None)], DETAIL)
        case statements.AddFeature():
            table, feature = _table(spark, statement.table, args), statement.feature

            def add() -> None:
                with table.transaction(engine=f"Apache-Spark/{spark.version}") as changes:
                    changes.upgrade_protocol(features=[feature])

            raising_for_user(add)
            return spark.createDataFrame([], running.NOTHING)
        case _:
            raise for_user(_unsupported(statement))


def _unsupported(statement: Statement) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        operation=running.name_of(statement),
        table=(getattr(statement, "table", None) or getattr(statement, "source")).path or "of the statement",  # noqa: B009
        detail="a Spark Connect session has no JVM at hand, and this statement needs it",
        remedy="Run it in a classic session, SparkSession.builder.master(...).",
    )


def _value(spark: SparkSession, expression: Expression, args: Args) -> Any:
    """What an expression is, as the server computes it."""
    row = spark.sql(f"SELECT {expression.text}", args=args).head()  # type: ignore[arg-type]  # the user's own text
    assert row is not None  # there is one row
    return row[0]


def _table(spark: SparkSession, name: Name, args: Args) -> Table:
    """The table that a statement names.

    Raises:
        TableNotFoundError: there is none.
    """
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    if name.expression is not None:
        text = str(_value(spark, name.expression, args))
        return _table(spark, raising_for_user(lambda: statements.parse_name(text)), None)
    if name.path is not None:
        return Table(name.path, time_zone=zone)
    if len(name.parts) == 2 and name.parts[0].lower() == PROVIDER and "/" in name.parts[1]:
        return Table(name.parts[1], time_zone=zone)
    described = spark.sql("DESCRIBE TABLE EXTENDED " + ".".join(quoted(part) for part in name.parts)).collect()
    location = next((row["data_type"] for row in described if row["col_name"] == "Location"), None)
    if location is None:
        raise for_user(TableNotFoundError(table=".".join(name.parts)))
    return Table(location, time_zone=zone)
