"""Runs Spark's own statements on Delta tables that write no rows: properties, comments, TRUNCATE, constraints, SHOW
CREATE TABLE, ANALYZE.

ANALYZE stores its statistics in Spark's catalog, together with the version for which they hold.

Our catalogs answer such statements with a `delta.DefinedTable`, for which Spark plans one class of command per
statement. Spark's legacy (V1) commands arrive only if a program builds them itself, and are refused (`guard`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tahoe.errors import NotPartitionedError, UnsupportedOperationError
from tahoe.protocol.changes.table_configuration import COMMENT
from tahoe.spark.ddl import alter_table, show_describe
from tahoe.spark.ddl.catalog import ANALYZED_VERSION
from tahoe.spark.jvm.gateway import Gateway, JavaObject, author_of
from tahoe.spark.jvm.statements.catalog_entries import (
    analyze_columns,
    analyze_table,
    defined_table,
    has_entry,
    session_catalog,
)
from tahoe.spark.jvm.statements.time_travel import check_newest
from tahoe.spark.jvm.table_cache import open_table
from tahoe.spark.reading.scan import message_of
from tahoe.table.reading.facts import partitions_of
from tahoe.table.table import Table
from tahoe.table.transactions import alter


def altered_table(gateway: Gateway, name: str, plan: JavaObject) -> JavaObject | None:
    """The `delta.DefinedTable` that a plan is about; None for other statements and for tables that are not Delta
    tables.

    Args:
        name: the simple name of the plan's class.
    """
    return defined_table(gateway, plan) if name in _STATEMENTS else None


def run_table_command(gateway: Gateway, name: str, plan: JavaObject) -> tuple[str, JavaObject]:
    """Run a statement for which `altered_table` returns a table. Returns the table's url and the result rows."""
    target = altered_table(gateway, name, plan)
    assert target is not None
    if name in _CHANGES:
        check_newest(gateway, target)
    table = open_table(gateway.spark, target.url())
    rows = _STATEMENTS[name](gateway, target, table, plan)
    return table.url, gateway.seq([]) if rows is None else rows


def _set_properties(gateway: Gateway, _: JavaObject, table: Table, plan: JavaObject) -> None:
    alter.set_properties(table, gateway.dict(plan.properties()), **author_of(gateway.spark))


def _unset_properties(gateway: Gateway, _: JavaObject, table: Table, plan: JavaObject) -> None:
    names = [str(name) for name in gateway.items(plan.propertyKeys().iterator())]
    alter.unset_properties(table, names, if_exists=plan.ifExists(), **author_of(gateway.spark))


def _comment(gateway: Gateway, _: JavaObject, table: Table, plan: JavaObject) -> None:
    alter.set_properties(table, {COMMENT: plan.comment()}, **author_of(gateway.spark))


def _truncate(gateway: Gateway, _: JavaObject, table: Table, __: JavaObject) -> None:
    alter.truncate(table, **author_of(gateway.spark))


def _truncate_partition(gateway: Gateway, target: JavaObject, table: Table, plan: JavaObject) -> None:
    spec = plan.partitionSpec()
    where = gateway.java_class("delta.Literals").same(spec.names(), spec.ident(), target.partitionSchema())
    alter.truncate(table, str(where), **author_of(gateway.spark))


def _refresh(gateway: Gateway, target: JavaObject, _: Table, __: JavaObject) -> None:
    """Refresh the catalog's entry. The caller refreshes Spark's cache, as after every statement here."""
    catalog, name = session_catalog(gateway), target.v1Table().identifier()
    if has_entry(gateway, name):
        catalog.refreshTable(name)


def _analyze_table(gateway: Gateway, target: JavaObject, table: Table, plan: JavaObject) -> None:
    name = _name_of(gateway, target)
    if len(gateway.dict(plan.partitionSpec())):
        detail = "the log already has statistics of each file"
        raise UnsupportedOperationError(
            operation="ANALYZE TABLE ... PARTITION", table=table.url, detail=detail, remedy="Leave PARTITION out."
        )
    _analyze(gateway, table, analyze_table(gateway, name, no_scan=plan.noScan()))


def _analyze_column(gateway: Gateway, target: JavaObject, table: Table, plan: JavaObject) -> None:
    name = _name_of(gateway, target)
    _analyze(gateway, table, analyze_columns(gateway, name, plan.columnNames(), plan.allColumns()))


def _name_of(gateway: Gateway, target: JavaObject) -> JavaObject:
    name = target.v1Table().identifier()
    if not has_entry(gateway, name):
        detail = "Spark stores the result under the table's name in its own catalog, which does not have this table"
        remedy = "Create a name for it: CREATE TABLE ... USING delta LOCATION ..."
        raise UnsupportedOperationError(operation="ANALYZE TABLE", table=target.url(), detail=detail, remedy=remedy)
    return name


def _analyze(gateway: Gateway, table: Table, plan: JavaObject) -> None:
    """Let Spark compute the statistics, then set the size to that of the version's live files; Spark counts all files
    in the folder.
    """
    snapshot = table.snapshot()
    plan.run(gateway.session)
    catalog = session_catalog(gateway)
    entry = catalog.getTableMetadata(plan.tableIdent())
    properties = {**gateway.dict(entry.properties()), ANALYZED_VERSION: str(snapshot.version)}
    catalog.alterTable(gateway.changed(entry, properties=gateway.scala_map(properties)))
    if entry.stats().isDefined():
        statistics = gateway.changed(entry.stats().get(), sizeInBytes=snapshot.live.size_bytes)
        catalog.alterTableStats(plan.tableIdent(), gateway.option(statistics))


def _alter_columns(gateway: Gateway, target: JavaObject, _: Table, plan: JavaObject) -> None:
    alter_table.alter(gateway, target, gateway.items(plan.changes().iterator()))


def _show_partitions(gateway: Gateway, target: JavaObject, table: Table, plan: JavaObject) -> JavaObject:
    snapshot = table.snapshot()
    if not snapshot.partition_columns:
        raise NotPartitionedError(table=table.url)
    spec = plan.pattern()
    names = list(gateway.items(spec.get().names().iterator())) if spec.isDefined() else []
    given = gateway.array(gateway.java_class("java.lang.String"), names)
    # There may be a million rows: they cross the gateway in one message.
    return target.partitions(
        given, spec.get().ident() if spec.isDefined() else None, message_of(partitions_of(snapshot.full_scan))
    )


def _show_create(gateway: Gateway, target: JavaObject, _: Table, __: JavaObject) -> JavaObject:
    return gateway.seq([gateway.row(show_describe.create_statement(gateway, target))])


_STATEMENTS: Mapping[str, Callable[[Gateway, JavaObject, Table, JavaObject], JavaObject | None]] = {
    "AlterColumns": _alter_columns,
    "RefreshTable": _refresh,
    "ShowPartitions": _show_partitions,
    "ShowCreateTable": _show_create,
    "TruncatePartition": _truncate_partition,
    "AnalyzeTable": _analyze_table,
    "AnalyzeColumn": _analyze_column,
    "SetTableProperties": _set_properties,
    "UnsetTableProperties": _unset_properties,
    "CommentOnTable": _comment,
    "TruncateTable": _truncate,
}

_CHANGES = frozenset(
    {"TruncatePartition", "SetTableProperties", "UnsetTableProperties", "CommentOnTable", "TruncateTable"}
)
"""The statements that change the table, but for changes of columns, which `alter_table.alter` checks."""
