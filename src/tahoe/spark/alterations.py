"""Statements of Spark's own that change a table without bringing rows, run by the log's rules: properties, comments, TRUNCATE; and ANALYZE,
whose statistics stay in Spark's catalog and count for the version that they were made of.

Spark has two classes for most of them: one for names of the session's catalog, and one for the tables of other catalogs, such as
delta.`path`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tahoe.protocol.definition import COMMENT
from tahoe.spark.catalog import ANALYZED_VERSION, catalog_entry, is_delta
from tahoe.spark.gateway import Gateway, JavaObject
from tahoe.spark.hadoop_store import url_of_uri
from tahoe.spark.opened import open_table
from tahoe.table import alter
from tahoe.table.table import Table


def altered(gateway: Gateway, name: str, plan: JavaObject) -> JavaObject | None:
    """The `CatalogTable` of the Delta table that a plan changes; None where it is no such statement, or another table's.

    Args:
        name: the simple name of the plan's class.
    """
    if name not in _STATEMENTS:
        return None
    table = _catalog_table(gateway, plan)
    return table if table is not None and is_delta(table) else None


def _catalog_table(gateway: Gateway, plan: JavaObject) -> JavaObject | None:
    parts = [part for part in gateway.items(plan.productIterator()) if hasattr(part, "getClass")]
    for part in parts:
        match part.getClass().getSimpleName():
            case "TableIdentifier":
                return catalog_entry(gateway, part)
            case "ResolvedTable" if part.table().getClass().getSimpleName() == "V1Table":
                return part.table().v1Table()
    return None


def run(gateway: Gateway, name: str, plan: JavaObject) -> str:
    """Run a statement that `altered` has found; the answer is the table's url."""
    entry = altered(gateway, name, plan)
    table = open_table(gateway.spark, url_of_uri(gateway, entry.location()))  # type: ignore[union-attr]
    _STATEMENTS[name](gateway, table, plan)
    return table.url


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


def _truncate_command(gateway: Gateway, table: Table, plan: JavaObject) -> None:
    spec = plan.partitionSpec()
    where = _where(gateway.dict(spec.get())) if spec.isDefined() else None
    alter.truncate(table, where, engine=_engine(gateway))


def _where(partition: Mapping[str, str | None]) -> str:
    """A partition as a statement names it, as SQL text."""
    return " and ".join(f"`{column.replace('`', '``')}` <=> {_literal(value)}" for column, value in partition.items())


def _literal(value: str | None) -> str:
    return "null" if value is None else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


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


_STATEMENTS: Mapping[str, Callable[[Gateway, Table, JavaObject], None]] = {
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
