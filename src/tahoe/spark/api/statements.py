"""Parses and runs Delta's own statements, which Spark's parser does not know.

A parsed statement becomes a `delta.Statement`: a command of Spark's that holds the text and, as Spark expressions, the
values and the condition. Spark resolves the expressions with the plan and runs the command once. Running it parses the
text again. No state is kept in between, so a statement that is only explained leaves nothing behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql.types import StructType

from tahoe.errors import (
    CloneUnsupportedSourceError,
    InvalidOptionError,
    NameOfAnotherKindError,
    NotADeltaTableError,
    StatementSyntaxError,
    TableNotFoundError,
)
from tahoe.protocol.types.names import quoted
from tahoe.spark.api import transactions
from tahoe.spark.api.copy_statement import run_copy_into, validated
from tahoe.spark.api.delta_table import DeltaTable
from tahoe.spark.api.optimize_builder import run_optimize, run_reorg, run_upgrade_uniform, with_filters
from tahoe.spark.api.statement_context import StatementContext
from tahoe.spark.ddl.catalog import path_of
from tahoe.spark.ddl.clone_sources import foreign_source
from tahoe.spark.ingest.copy_into import COPIED
from tahoe.spark.jvm.failures import for_user
from tahoe.spark.jvm.gateway import JVM_ERRORS, Gateway, JavaObject
from tahoe.spark.jvm.plans import analysed, java_column
from tahoe.spark.jvm.statements.statement_plans import (
    bound,
    explained,
    is_alias,
    java_parse_exception,
    output_of,
    rows_of,
    substituted,
)
from tahoe.spark.jvm.table_cache import open_table
from tahoe.spark.jvm.values import values
from tahoe.spark.layout.optimize import Optimize
from tahoe.spark.layout.optimize import explain as explain_optimize
from tahoe.spark.layout.optimize_metrics import LAYOUT
from tahoe.spark.layout.statistics import analyze
from tahoe.spark.maintenance.bloom_filters import run_create_filters, run_drop_filters
from tahoe.spark.maintenance.cache_select import run_cache_select
from tahoe.spark.maintenance.clone import CLONED, CloneCommand, run_clone
from tahoe.spark.maintenance.convert import run_convert
from tahoe.spark.maintenance.history_detail import DETAIL, HISTORY
from tahoe.spark.maintenance.repair import REPAIRS, run_repair, run_sync_metadata
from tahoe.spark.maintenance.restore import RESTORED, run_restore
from tahoe.spark.maintenance.tags import TAGS, run_create_tag, run_drop_tag, shown_tags
from tahoe.spark.maintenance.user_command import raising_for_user, run_for_user
from tahoe.spark.maintenance.vacuum import PATH, paths_frame, run_vacuum
from tahoe.sql import statements
from tahoe.sql.grammar import changes_clause, parse, statement_in_script
from tahoe.sql.statements import Expression, Name, Parsed, Statement
from tahoe.table.adoption.foreign_sources import ForeignSource
from tahoe.table.cleanup.vacuum import check_not_partition
from tahoe.table.maintenance.tags import TagRequest
from tahoe.table.table import Table
from tahoe.table.verify.repair import RepairRequest

NOTHING = StructType()


# --- parsing


def plan_statement(
    gateway: Gateway, parser_beneath: JavaObject, text: str, parameters: JavaObject | None
) -> JavaObject | None:
    """Parse a Delta statement into a plan.

    Args:
        parser_beneath: Spark's parser, for all other SQL.
        parameters: the query's parameters, a `ParameterContext`.

    Returns:
        None for any other SQL. For text that starts like a Delta statement, and that only `parser_beneath` can parse:
        the plan that it makes.

    Raises:
        StatementSyntaxError: the text starts like a Delta statement, and neither parser can parse it.
    """
    written = substituted(gateway, text)
    try:
        parsed = parse(written)
    except StatementSyntaxError as error:
        try:
            if parameters is None:
                return parser_beneath.parsePlan(text)
            return parser_beneath.parsePlanWithParameters(text, parameters)
        except JVM_ERRORS:
            raise for_user(error) from None
    if parsed is None:
        _refuse_in_script(written)
        _refuse_changes(written)
        return None
    node = _node(gateway, parser_beneath, written, parsed, parameters)
    return node if parsed.explain is None else explained(gateway, node, parsed.explain)


def _refuse_in_script(text: str) -> None:
    """Refuse a script that contains a Delta statement, with an error that explains why Spark cannot parse it."""
    statement = statement_in_script(text)
    if statement is not None:
        words = statement.text.split()
        expected = (
            f"EXECUTE IMMEDIATE with the statement as a string: a script (BEGIN ... END) cannot contain "
            f"{' '.join(words[:2])}"
        )
        raise for_user(StatementSyntaxError.at(text, statement.start, words[0], expected))


def _refuse_changes(text: str) -> None:
    """Refuse a CHANGES clause that Spark's parser does not know yet, with what does the same."""
    clause = None if hasattr(DataFrameReader, "changes") else changes_clause(text)
    if clause is not None:
        expected = "table_changes('table', start, end), or the option readChangeFeed: CHANGES is new in Spark 4.2"
        raise for_user(StatementSyntaxError.at(text, clause.start, clause.text, expected))


def _node(
    gateway: Gateway, parser_beneath: JavaObject, text: str, parsed: Parsed, parameters: JavaObject | None
) -> JavaObject:
    """The plan of a parsed statement: a `delta.Statement`. Parameters are bound in values and condition together,
    because those without a name are numbered over the whole statement.
    """
    arguments = list(statements.values_of(parsed.statement))
    condition = statements.condition_of_statement(parsed.statement)
    parsed_expressions = [
        _expression(parser_beneath, text, e) for e in (arguments if condition is None else [*arguments, condition])
    ]
    expressions = bound(gateway, parsed_expressions, parameters)
    if isinstance(parsed.statement, statements.CopyInto) and parsed.statement.validate:
        context = StatementContext(gateway, dict(zip(arguments, values(gateway, expressions), strict=True)))
        return analysed(validated(parsed.statement, context))
    how = _HOW[type(parsed.statement)]
    return gateway.java_class("delta.Statement")(
        f"Delta {how.name}",
        text,
        gateway.seq(expressions[: len(arguments)]),
        None if condition is None else java_column(gateway.column(expressions[-1])),
        output_of(gateway, gateway.struct(how.columns)),
        parsed.explain is not None and how.explain is not None,
    )


def _expression(parser_beneath: JavaObject, text: str, expression: Expression) -> JavaObject:
    """Parse an expression with Spark. The preceding text is replaced by blanks, so that Spark's errors have positions
    in the statement.
    """
    blanks = re.sub(r"[^\n]", " ", text[: expression.start])
    try:
        parsed = parser_beneath.parseExpression(blanks + expression.text)
    except JVM_ERRORS as error:
        java = java_parse_exception(error)
        if java is None:
            raise
        raise for_user(StatementSyntaxError.at(text, *_place(java, expression), "an expression")) from None
    if is_alias(parsed):  # Spark takes a word behind an expression for its alias, which would pass unnoticed
        word = expression.text.split()[-1]
        place = expression.start + expression.text.rindex(word)
        raise for_user(StatementSyntaxError.at(text, place, word, "the end of the expression, which has no alias here"))
    return parsed


def _place(error: JavaObject, expression: Expression) -> tuple[int, str]:
    """The position at which Spark cannot parse an expression, as precisely as Spark reports it, and the text at that
    position.
    """
    near = str(error.getMessageParameters().get("error") or "").strip("'")
    inside = expression.text.find(near) if near and near != "end of input" else -1
    return (expression.start + inside, near) if inside >= 0 else (expression.start + len(expression.text), "")


# --- running


def perform(gateway: Gateway, text: str, resolved: JavaObject, condition: JavaObject | None) -> JavaObject:
    """Run a statement.

    Args:
        text, resolved, condition: of a `delta.Statement`.

    Returns:
        its rows, as a Scala `Seq`.
    """
    rows = run_statement(*_statement_in_context(gateway, text, resolved, condition))
    return gateway.seq([]) if rows is None else rows_of(gateway, rows)


def explain(gateway: Gateway, text: str, resolved: JavaObject, condition: JavaObject | None) -> str:
    """What a statement would do, for EXPLAIN. The arguments are those of `perform`."""
    statement, context = _statement_in_context(gateway, text, resolved, condition)
    explanation = _HOW[type(statement)].explain
    assert explanation is not None
    return explanation(statement, context)


def _statement_in_context(
    gateway: Gateway, text: str, resolved: JavaObject, condition: JavaObject | None
) -> tuple[Statement, StatementContext]:
    parsed = parse(text)
    assert parsed is not None  # it was parsed before
    evaluated = values(gateway, gateway.items(resolved.iterator()))
    value_of = dict(zip(statements.values_of(parsed.statement), evaluated, strict=True))
    return parsed.statement, StatementContext(
        gateway, value_of, None if condition is None else gateway.column_of(condition)
    )


def run_statement(statement: Statement, context: StatementContext) -> DataFrame | None:
    """Run a statement. Returns its rows; None if it has no result columns.

    Raises:
        DeltaAnalysisError: the table does not allow the statement.
    """
    return _HOW[type(statement)].run(statement, context)


def _history(statement: statements.DescribeHistory, context: StatementContext) -> DataFrame:
    limit = None if statement.limit is None else context.count(statement.limit, "LIMIT")
    return context.table(statement.table).history(limit)


def _detail(statement: statements.DescribeDetail, context: StatementContext) -> DataFrame:
    return context.table(statement.table).detail()


def _purge(statement: statements.ReorgPurge, context: StatementContext) -> DataFrame:
    return run_reorg(context.table(statement.table)._handle.target(), context.condition)


def _add_filters(statement: statements.ReorgBloomFilters, context: StatementContext) -> DataFrame:
    return with_filters(context.table(statement.table)._handle.target(), context.condition)


def _create_filters(statement: statements.CreateBloomFilters, context: StatementContext) -> None:
    run_create_filters(context.gateway.spark, context.table(statement.table)._handle.table, statement)


def _drop_filters(statement: statements.DropBloomFilters, context: StatementContext) -> None:
    run_drop_filters(context.gateway.spark, context.table(statement.table)._handle.table, statement.columns)


def _optimize(statement: statements.Optimize, context: StatementContext) -> DataFrame:
    conditions = [] if context.condition is None else [context.condition]
    return run_optimize(
        context.table(statement.table)._handle.target(), conditions, zorder_by=statement.zorder_by, full=statement.full
    )


def _optimize_explained(statement: statements.Optimize, context: StatementContext) -> str:
    conditions = () if context.condition is None else (context.condition,)
    target = context.table(statement.table)._handle.target()
    return explain_optimize(
        Optimize(target=target, conditions=conditions, zorder_by=statement.zorder_by, full=statement.full)
    )


def _cache_select(statement: statements.CacheSelect, context: StatementContext) -> None:
    table = context.table(statement.table)
    run_cache_select(table._handle.table, table.toDF(), statement.columns, context.condition)


def _compute_statistics(statement: statements.ComputeStatistics, context: StatementContext) -> None:
    target = context.table(statement.table)._handle.target()
    run_for_user(target.spark, lambda: analyze(target))


def _fsck(statement: statements.Fsck, context: StatementContext) -> DataFrame:
    target = context.table(statement.table)._handle.target()
    request = RepairRequest(
        dry_run=statement.dry_run, metadata_only=statement.metadata_only, verify_all_files=statement.verify_all_files
    )
    return run_repair(target, request)


def _drop_feature(statement: statements.DropFeature, context: StatementContext) -> None:
    context.table(statement.table).dropFeatureSupport(statement.feature, statement.truncate_history)


def _add_feature(statement: statements.AddFeature, context: StatementContext) -> None:
    context.table(statement.table).addFeatureSupport(statement.feature)


def _sync_identity(statement: statements.SyncIdentity, context: StatementContext) -> None:
    context.table(statement.table).syncIdentity(".".join(statement.column))


def _vacuum(statement: statements.Vacuum, context: StatementContext) -> DataFrame:
    """The table's path, or with DRY RUN the paths that would be deleted."""
    if statement.mode == "LITE" and (statement.inventory or statement.inventory_query):
        detail = "VACUUM LITE works from the log; leave out LITE or USING INVENTORY"
        raise for_user(
            InvalidOptionError(option="USING INVENTORY", value="given", table="the statement", detail=detail)
        )
    table = _vacuumed_table(statement.table, context)
    report = run_vacuum(
        context.gateway.spark,
        table._handle.table,
        retention_hours=None if statement.retain_hours is None else context.number(statement.retain_hours, "RETAIN"),
        lite=None if statement.mode is None else statement.mode == "LITE",
        dry_run=statement.dry_run,
        inventory=_inventory(statement, context),
    )
    return paths_frame(context.gateway.spark, report.paths if statement.dry_run else [report.table])


def _vacuumed_table(name: Name, context: StatementContext) -> DeltaTable:
    """The table of a VACUUM. A path may be that of a partition, which is refused with the table's path."""
    try:
        return context.table(name)
    except (NotADeltaTableError, TableNotFoundError):
        path = name.path or path_of(name.parts)
        if path is not None:
            raising_for_user(lambda: check_not_partition(open_table(context.gateway.spark, path)))
        raise


def _inventory(statement: statements.Vacuum, context: StatementContext) -> DataFrame | None:
    """The rows of VACUUM's USING INVENTORY: of a query, or of a Delta table by path, or of any table by name; None
    without the clause.
    """
    spark = context.gateway.spark
    if statement.inventory_query is not None:
        return spark.sql(statement.inventory_query.text)
    name = statement.inventory
    if name is None:
        return None
    if name.path is not None:
        return spark.read.format("delta").load(name.path)
    return spark.table(
        context.text(name.expression, "IDENTIFIER")
        if name.expression is not None
        else ".".join(map(quoted, name.parts))
    )


def _restore(statement: statements.Restore, context: StatementContext) -> DataFrame:
    table = context.table(statement.table)._handle.table
    return run_restore(context.gateway.spark, table, *context.as_of(statement.as_of, table.url))


def _clone(statement: statements.Clone, context: StatementContext) -> DataFrame:
    """Run CREATE or REPLACE TABLE ... CLONE, and return the row that it answers with."""
    source, name = _cloned_table(statement.source, context)
    version, timestamp = context.as_of(statement.as_of, source.url)
    command = CloneCommand(
        source=source,
        source_name=name,
        target=context.name(statement.target),
        location=statement.location,
        is_shallow=statement.is_shallow,
        mode="replace" if not statement.creates else "create or replace" if statement.replaces else "create",
        if_not_exists=statement.if_not_exists,
        version=version,
        timestamp=timestamp,
        properties=dict(statement.properties),
    )
    return run_clone(context.gateway.spark, command)


def _cloned_table(name: Name, context: StatementContext) -> tuple[Table | ForeignSource, str | None]:
    """The source of a clone, and its name if it has one."""
    foreign = (
        None
        if name.path is not None
        else raising_for_user(lambda: foreign_source(context.gateway, context.parts(name)))
    )
    if foreign is not None:
        return foreign, foreign.name
    try:
        handle = context.table(name)._handle
        return handle.table, handle.full_name()
    except NameOfAnotherKindError as error:
        raise for_user(CloneUnsupportedSourceError(table=context.name(name), format=error.parameters["kind"])) from None


def _create_tag(statement: statements.CreateTag, context: StatementContext) -> None:
    table = context.table(statement.table)._handle.table
    version, timestamp = context.as_of(statement.as_of, table.url)
    expires = None if statement.expires is None else context.moment(statement.expires, table.url)
    request = TagRequest(
        name=statement.tag, version=version, timestamp=timestamp, expires=expires, replace=statement.replaces
    )
    run_create_tag(context.gateway.spark, table, request)


def _drop_tag(statement: statements.DropTag, context: StatementContext) -> None:
    table = context.table(statement.table)._handle.table
    run_drop_tag(context.gateway.spark, table, statement.tag, if_exists=statement.if_exists)


def _show_tags(statement: statements.ShowTags, context: StatementContext) -> DataFrame:
    return shown_tags(context.gateway.spark, context.table(statement.table)._handle.table)


def _generate(statement: statements.Generate, context: StatementContext) -> None:
    context.table(statement.table).generate(statement.mode)


def _convert(statement: statements.ConvertToDelta, context: StatementContext) -> None:
    columns = ", ".join(f"{quoted(column.name)} {column.type}" for column in statement.partition_by)
    run_convert(context.gateway.spark, context.parts(statement.table), columns or None, statement.statistics)


def _begin(statement: statements.BeginTransaction, context: StatementContext) -> None:
    transactions.begin(context.gateway.spark, is_serializable=statement.is_serializable)


def _end(statement: statements.EndTransaction, context: StatementContext) -> None:
    transactions.end(context.gateway.spark, commits=statement.commits)


def _upgrade_uniform(statement: statements.ReorgUpgradeUniform, context: StatementContext) -> None:
    version = int(context.number(statement.iceberg_compat_version, "ICEBERG_COMPAT_VERSION"))
    run_upgrade_uniform(context.table(statement.table)._handle.target(), version)


def _sync_metadata(statement: statements.SyncMetadata, context: StatementContext) -> None:
    run_sync_metadata(context.gateway.spark, context.table(statement.table)._handle.table)


@dataclass(frozen=True, slots=True)
class _How:
    """The name of a statement, the columns of its result, and the functions that run it and tell EXPLAIN what it would
    do.
    """

    name: str
    columns: StructType
    run: Callable[[Any, StatementContext], DataFrame | None]
    explain: Callable[[Any, StatementContext], str] | None = None


_HOW: Mapping[type[Any], _How] = {
    statements.DescribeHistory: _How("DESCRIBE HISTORY", HISTORY, _history),
    statements.DescribeDetail: _How("DESCRIBE DETAIL", DETAIL, _detail),
    statements.ReorgPurge: _How("REORG", LAYOUT, _purge),
    statements.ReorgBloomFilters: _How("REORG", LAYOUT, _add_filters),
    statements.CreateBloomFilters: _How("CREATE BLOOMFILTER INDEX", NOTHING, _create_filters),
    statements.DropBloomFilters: _How("DROP BLOOMFILTER INDEX", NOTHING, _drop_filters),
    statements.DropFeature: _How("DROP FEATURE", NOTHING, _drop_feature),
    statements.AddFeature: _How("ADD FEATURE", NOTHING, _add_feature),
    statements.SyncIdentity: _How("SYNC IDENTITY", NOTHING, _sync_identity),
    statements.Vacuum: _How("VACUUM", PATH, _vacuum),
    statements.Optimize: _How("OPTIMIZE", LAYOUT, _optimize, _optimize_explained),
    statements.CacheSelect: _How("CACHE SELECT", NOTHING, _cache_select),
    statements.CopyInto: _How("COPY INTO", COPIED, run_copy_into),
    statements.ComputeStatistics: _How("ANALYZE", NOTHING, _compute_statistics),
    statements.Fsck: _How("FSCK REPAIR TABLE", REPAIRS, _fsck),
    statements.Generate: _How("GENERATE", NOTHING, _generate),
    statements.ConvertToDelta: _How("CONVERT TO DELTA", NOTHING, _convert),
    statements.Restore: _How("RESTORE", RESTORED, _restore),
    statements.Clone: _How("CLONE", CLONED, _clone),
    statements.CreateTag: _How("CREATE TAG", NOTHING, _create_tag),
    statements.DropTag: _How("DROP TAG", NOTHING, _drop_tag),
    statements.ShowTags: _How("SHOW TAGS", TAGS, _show_tags),
    statements.ReorgUpgradeUniform: _How("REORG UPGRADE UNIFORM", NOTHING, _upgrade_uniform),
    statements.SyncMetadata: _How("MSCK REPAIR TABLE SYNC METADATA", NOTHING, _sync_metadata),
    statements.BeginTransaction: _How("BEGIN TRANSACTION", NOTHING, _begin),
    statements.EndTransaction: _How("COMMIT or ROLLBACK", NOTHING, _end),
}


def name_of(statement: Statement) -> str:
    """The name of a statement, such as DESCRIBE HISTORY."""
    return _HOW[type(statement)].name
