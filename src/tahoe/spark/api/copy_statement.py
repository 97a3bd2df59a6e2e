"""Runs the statement COPY INTO."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tahoe.spark.api.statement_context import StatementContext
from tahoe.spark.ingest.copy_into import COPIED, copy_into, preview
from tahoe.spark.ingest.copy_request import CopyRequest, copy_request
from tahoe.spark.maintenance.history_detail import result_frame
from tahoe.spark.maintenance.user_command import raising_for_user, run_for_user
from tahoe.sql.statements import CopyInto
from tahoe.table.table import Table


def run_copy_into(statement: CopyInto, context: StatementContext) -> DataFrame:
    """Run the statement. Returns one row with the columns of `COPIED`."""
    spark, table = context.gateway.spark, _target(statement, context)
    request = _request(statement, context, table)
    report = run_for_user(spark, lambda: copy_into(spark, table, request))
    return result_frame(spark, [report.row], COPIED)


def validated(statement: CopyInto, context: StatementContext) -> DataFrame:
    """Run the statement with VALIDATE. Returns rows as they would be loaded."""
    spark, table = context.gateway.spark, _target(statement, context)
    request = _request(statement, context, table)
    return raising_for_user(lambda: preview(spark, table, request, statement.validate_rows))


def _target(statement: CopyInto, context: StatementContext) -> Table:
    return context.table(statement.table)._handle.table


def _request(statement: CopyInto, context: StatementContext, table: Table) -> CopyRequest:
    request = CopyRequest(
        source=context.text(statement.source, "FROM"),
        format=statement.format,
        select=statement.select,
        columns=statement.columns,
        by_position=statement.by_position,
        files=statement.files,
        pattern=statement.pattern,
    )
    options = dict(statement.format_options), dict(statement.copy_options)
    return raising_for_user(lambda: copy_request(request, *options, table=table.url))
