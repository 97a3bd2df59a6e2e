"""`tahoe.sql`: runs SQL, including Delta's own statements, in sessions whose parser does not know these statements.

In an enabled session with a JVM, `spark.sql` runs all of them. `tahoe.sql` is for Spark Connect sessions, and for Spark
distributions whose parser cannot be replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tahoe.errors import InvalidOptionError, NameOfAnotherKindError, UnsupportedOperationError
from tahoe.protocol.types.names import quoted
from tahoe.spark.api import statements as running
from tahoe.spark.api.connect.session import is_connect, is_served
from tahoe.spark.ddl.catalog import path_of
from tahoe.spark.jvm.gateway import Gateway, author_of
from tahoe.spark.jvm.statements.statement_plans import parameters_of
from tahoe.spark.maintenance.history_detail import DETAIL, HISTORY, detail_row, history_row, result_frame
from tahoe.spark.maintenance.user_command import raising_for_user
from tahoe.sql import statements
from tahoe.sql.grammar import parse, parse_name
from tahoe.sql.statements import Expression, Name, Statement
from tahoe.sql.tokens import tokens_of
from tahoe.table.table import Table

Args = Mapping[str, Any] | Sequence[Any] | None


def sql(spark: SparkSession, sqlQuery: str, args: Args = None) -> DataFrame:  # noqa: N803  PySpark's name
    """Run an SQL statement, Spark's or Delta's own.

    Args:
        sqlQuery: the statement.
        args: its parameters, by name or by position, as for `spark.sql`.

    Returns:
        as `spark.sql`: the rows of a query, or the result of a command that has been run.

    Raises:
        SessionNotEnabledError: `tahoe.enable(spark)` was not called.
        StatementSyntaxError: the text starts like a Delta statement but does not parse.
        UnsupportedOperationError: the statement needs Spark's JVM, and the session is a Spark Connect session.
    """
    if is_served(spark):
        return spark.sql(sqlQuery, args=args)  # type: ignore[arg-type]
    if is_connect(spark):
        return raising_for_user(lambda: _run_over_connect(spark, sqlQuery, args))
    gateway = Gateway(spark)
    raising_for_user(gateway.check_enabled)
    if has_parser(gateway):
        return spark.sql(sqlQuery, args=args)  # type: ignore[arg-type]
    parser = gateway.session.sessionState().sqlParser()
    plan = running.plan_statement(gateway, parser, sqlQuery, parameters_of(gateway, args))
    return spark.sql(sqlQuery, args=args) if plan is None else gateway.dataframe_of_plan(plan)  # type: ignore[arg-type]


def has_parser(gateway: Gateway) -> bool:
    """Whether the session's own parser knows Delta's statements."""
    return bool(gateway.java_class("delta.Parser").installed(gateway.session))


# --- Spark Connect


@dataclass(frozen=True, slots=True)
class _RemoteStatement:
    """A statement with its parameters, in a Spark Connect session. The server computes the values of its
    expressions.
    """

    spark: SparkSession
    text: str
    args: Args

    def value(self, expression: Expression) -> Any:
        """The value of an expression, computed by the server."""
        row = self.spark.sql(f"SELECT {expression.text}", args=self._args_in(expression)).head()  # type: ignore[arg-type]
        assert row is not None  # there is one row
        return row[0]

    def _args_in(self, expression: Expression) -> Args:
        """The parameters of an expression. Unnamed parameters are selected by their position in the statement."""
        if self.args is None or isinstance(self.args, Mapping):
            return self.args
        places = [token.start for token in tokens_of(self.text) if token.is_symbol("?")]
        end = expression.start + len(expression.text)
        return [
            value for place, value in zip(places, self.args, strict=False) if expression.start <= place < end
        ] or None

    def count(self, expression: Expression) -> int:
        """The value of an integer expression that is not negative.

        Raises:
            InvalidOptionError: it is not an integer, or it is negative.
        """
        value = self.value(expression)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            detail = "it must be a non-negative integer"
            raise InvalidOptionError(option="LIMIT", value=expression.text, table="LIMIT", detail=detail)
        return value

    def table(self, name: Name) -> Table:
        """The table that the statement names.

        Raises:
            AnalysisException, NameOfAnotherKindError: there is no such table.
        """
        zone = self.spark.conf.get("spark.sql.session.timeZone") or "UTC"
        if name.expression is not None:
            return self.table(parse_name(str(self.value(name.expression))))
        if name.path is not None:
            return Table(name.path, time_zone=zone)
        path = path_of(name.parts)
        if path is not None:
            return Table(path, time_zone=zone)
        rows = self.spark.sql("DESCRIBE TABLE EXTENDED " + ".".join(quoted(part) for part in name.parts)).collect()
        location = next((row["data_type"] for row in rows if row["col_name"] == "Location"), None)
        if location is None:
            raise NameOfAnotherKindError(table=".".join(name.parts), kind="a view")
        return Table(location, time_zone=zone)


def _run_over_connect(spark: SparkSession, text: str, args: Args) -> DataFrame:
    """Run a statement in a Spark Connect session. Without a JVM, only statements run that need nothing but the log; the
    server computes the values of their expressions.
    """
    parsed = parse(text)
    if parsed is None:
        return spark.sql(text, args=args)  # type: ignore[arg-type]
    remote, statement = _RemoteStatement(spark, text, args), parsed.statement
    match statement:
        case statements.DescribeHistory():
            limit = None if statement.limit is None else remote.count(statement.limit)
            return result_frame(
                spark, [history_row(commit) for commit in remote.table(statement.table).history(limit)], HISTORY
            )
        case statements.DescribeDetail():
            table = remote.table(statement.table)
            return result_frame(spark, [detail_row(table.snapshot(), ".".join(statement.table.parts) or None)], DETAIL)
        case statements.AddFeature():
            with remote.table(statement.table).transaction(**author_of(spark)) as changes:
                changes.upgrade_protocol(features=[statement.feature])
            return spark.createDataFrame([], running.NOTHING)
        case _:
            raise _unsupported_error(statement)


def _unsupported_error(statement: Statement) -> UnsupportedOperationError:
    name = getattr(statement, "table", None) or getattr(statement, "source")  # noqa: B009  every statement has one of the two
    return UnsupportedOperationError(
        operation=running.name_of(statement),
        table=name.path or ".".join(name.parts) or name.expression.text,
        detail="the statement needs a session with its own JVM, and a Spark Connect session has none",
        remedy="Run it in a classic session, SparkSession.builder.master(...).",
    )
