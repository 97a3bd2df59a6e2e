"""Statements of Spark's own about a table that bring no rows, run by the log's rules: properties, comments, TRUNCATE, constraints, SHOW
CREATE TABLE; and ANALYZE, whose statistics stay in Spark's catalog and count for the version that they were made of.

Our catalogs answer such statements with a `delta.DefinedTable`, for which Spark has one class of each. The commands for tables of its own
session catalog come where a program makes them itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tahoe.errors import NotPartitionedError, UnsupportedOperationError
from tahoe.protocol.definition import COMMENT
from tahoe.spark import shown, table_changes
from tahoe.spark.catalog import ANALYZED_VERSION, catalog_entry, is_delta
from tahoe.spark.gateway import Gateway, JavaObject
from tahoe.spark.hadoop_store import url_of_uri
from tahoe.spark.opened import open_table
from tahoe.table import alter
from tahoe.table.table import Table


def altered(gateway: Gateway, name: str, plan: JavaObject) -> str | None:
    """The url of the Delta table that a plan is about; None where it is no such statement, or another table's.

    Args:
        name: the simple name of the plan's class.
    """
    if name not in _STATEMENTS:
        return None
    defined = _defined(gateway, plan)
    if defined is not None:
        return str(defined.url())
    entry = _catalog_table(gateway, plan)
    return url_of_uri(gateway, entry.location()) if entry is not None and is_delta(entry) else None


def _defined(gateway: Gateway, plan: JavaObject) -> JavaObject | None:
    """The `delta.DefinedTable` that a plan of Spark's for any catalog names."""
    for part in gateway.items(plan.productIterator()):
        if hasattr(part, "getClass") and part.getClass().getSimpleName() == "ResolvedTable":
            return part.table() if part.table().getClass().getName() == "delta.DefinedTable" else None
    return None


def _catalog_table(gateway: Gateway, plan: JavaObject) -> JavaObject | None:
    """The entry that a plan of Spark's for the session's catalog names."""
    for part in gateway.items(plan.productIterator()):
        if hasattr(part, "getClass") and part.getClass().getSimpleName() == "TableIdentifier":
            return catalog_entry(gateway, part)
    return None


def run(gateway: Gateway, name: str, plan: JavaObject) -> tuple[str, JavaObject]:
    """Run a statement that `altered` has found; the answer is the table's url, and the rows of the result."""
    url = altered(gateway, name, plan)
    assert url is not None
    table = open_table(gateway.spark, url)
    rows = _STATEMENTS[name](gateway, table, plan)
    return table.url, gateway.seq(rows or [])


def _engine(gateway: Gateway) -> str:
    return f"Apache-Spark/{gateway.spark.version}"


def _set_properties(gateway: Gateway, table: Table, plan: JavaObject) -> None:
    alter.set_properties(table, gateway.dict(plan.properties()), engine=_engine(gateway))


def _unset_properties_command(gateway: Gateway, table: Table, plan: JavaObject) -> None:
    _unset(gateway, table, plan, plan.propKeys())


def _unset_properties(gateway: Gateway, table: Table, plan: JavaObject) -> None:
    _unset(gateway, table, plan, plan.propertyKeys())


def _unset(gateway: Gateway, table: Table, plan: JavaObject, keys: JavaObject) -> None:
    names = [str(name) for name in gateway.items(keys.iterator())]
    alter.unset_properties(table, names, if_exists=plan.ifExists(), engine=_engine(gateway))


def _comment(gateway: Gateway, table: Table, plan: JavaObject) -> None:
    alter.set_properties(table, {COMMENT: plan.comment()}, engine=_engine(gateway))


def _truncate(gateway: Gateway, table: Table, _: JavaObject) -> None:
    alter.truncate(table, engine=_engine(gateway))


def _truncate_partition(gateway: Gateway, table: Table, plan: JavaObject) -> None:
    spec = plan.partitionSpec()
    where = gateway.java_class("delta.Literals").same(spec.names(), spec.ident(), _defined(gateway, plan).partitionSchema())  # type: ignore[union-attr]
    alter.truncate(table, str(where), engine=_engine(gateway))


def _truncate_command(gateway: Gateway, table: Table, plan: JavaObject) -> None:
    spec = plan.partitionSpec()
    where = _where(gateway.dict(spec.get())) if spec.isDefined() else None
    alter.truncate(table, where, engine=_engine(gateway))


def _where(partition: Mapping[str, str | None]) -> str:
    """A partition as a statement names it, as SQL text."""
    return " and ".join(f"`{column.replace('`', '``')}` <=> {_literal(value)}" for column, value in partition.items())


def _literal(value: str | None) -> str:
    return "null" if value is None else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


_COMMANDS = "org.apache.spark.sql.execution.command."


def _analyze_table(gateway: Gateway, table: Table, plan: JavaObject) -> None:
    name = _name_of(gateway, plan, "ANALYZE TABLE")
    if len(gateway.dict(plan.partitionSpec())):
        detail = "its statistics are in the log, for each file"
        raise UnsupportedOperationError(
            operation="ANALYZE TABLE ... PARTITION", table=table.url, detail=detail, remedy="Leave PARTITION out."
        )
    _analyze(gateway, table, gateway.java_class(_COMMANDS + "AnalyzeTableCommand")(name, plan.noScan()))


def _analyze_column(gateway: Gateway, table: Table, plan: JavaObject) -> None:
    name = _name_of(gateway, plan, "ANALYZE TABLE")
    command = gateway.java_class(_COMMANDS + "AnalyzeColumnCommand")(name, plan.columnNames(), plan.allColumns())
    _analyze(gateway, table, command)


def _name_of(gateway: Gateway, plan: JavaObject, operation: str) -> JavaObject:
    defined = _defined(gateway, plan)
    assert defined is not None
    name = defined.read().v1Table().identifier()
    if not gateway.session.sessionState().catalog().tableExists(name):
        detail = "Spark keeps what it finds with a name of its catalog, and this table is a path"
        raise UnsupportedOperationError(operation=operation, table=defined.url(), detail=detail, remedy="Make a name for it: CREATE TABLE.")
    return name


def _analyze(gateway: Gateway, table: Table, plan: JavaObject) -> None:
    """Spark computes; the size is that of the files that the version has, where Spark counts all that are in the folder."""
    snapshot = table.snapshot()
    plan.run(gateway.session)
    catalog = gateway.session.sessionState().catalog()
    entry = catalog.getTableMetadata(plan.tableIdent())
    properties = {**gateway.dict(entry.properties()), ANALYZED_VERSION: str(snapshot.version)}
    catalog.alterTable(gateway.changed(entry, properties=gateway.scala_map(properties)))
    if entry.stats().isDefined():
        statistics = gateway.changed(entry.stats().get(), sizeInBytes=snapshot.live.size_bytes)
        catalog.alterTableStats(plan.tableIdent(), gateway.option(statistics))


def _alter_columns(gateway: Gateway, _: Table, plan: JavaObject) -> None:
    table_changes.alter(gateway, _defined(gateway, plan), gateway.items(plan.changes().iterator()))


def _show_partitions(gateway: Gateway, table: Table, plan: JavaObject) -> list[JavaObject]:
    if not table.snapshot().partition_columns:
        raise NotPartitionedError(table=table.url)
    defined = _defined(gateway, plan)
    assert defined is not None
    spec = plan.pattern()
    names = list(gateway.items(spec.get().names().iterator())) if spec.isDefined() else []
    given = gateway.array(gateway.jvm.java.lang.String, names)
    return list(gateway.items(defined.partitions(given, spec.get().ident() if spec.isDefined() else None).iterator()))


def _show_create(gateway: Gateway, _: Table, plan: JavaObject) -> list[JavaObject]:
    statement = shown.create_statement(gateway, _defined(gateway, plan))
    return [gateway.row(statement)]


_STATEMENTS: Mapping[str, Callable[[Gateway, Table, JavaObject], list[JavaObject] | None]] = {
    "AlterColumns": _alter_columns,
    "ShowPartitions": _show_partitions,
    "ShowCreateTable": _show_create,
    "TruncatePartition": _truncate_partition,
    "AnalyzeTable": _analyze_table,
    "AnalyzeColumn": _analyze_column,
    "AlterTableSetPropertiesCommand": _set_properties,
    "SetTableProperties": _set_properties,
    "AlterTableUnsetPropertiesCommand": _unset_properties_command,
    "UnsetTableProperties": _unset_properties,
    "CommentOnTable": _comment,
    "TruncateTableCommand": _truncate_command,
    "TruncateTable": _truncate,
    "AnalyzeTableCommand": _analyze,
    "AnalyzeColumnCommand": _analyze,
}
