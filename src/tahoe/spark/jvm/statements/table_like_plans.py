"""Reads Spark's two plans for CREATE TABLE LIKE into a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructType

from tahoe.spark.jvm.attached_catalogs import AttachedName, attached_name
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.hadoop_store import url_of_uri
from tahoe.spark.jvm.plans import kind_of
from tahoe.spark.jvm.statements.catalog_entries import (
    declared_columns,
    is_delta,
    our_class,
    qualified_name,
    session_catalog,
    table_identifier,
)

# Spark plans the second one if it has no V2 command, or if the source is a table of its own session catalog.
PLANS = frozenset({"CreateTableLike", "CreateTableLikeCommand"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """A table or view of the session's catalog.

    Attributes:
        url: the folder of a Delta table, which has its definition in the log; None for another table or a view.
    """

    name: str
    url: str | None
    columns: StructType
    partition_columns: tuple[str, ...]
    properties: Mapping[str, str]
    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLike:
    """CREATE TABLE `target` LIKE `source`.

    Attributes:
        target: the parts of the new name, the first of which may be a catalog.
        name: the new name as a `TableIdentifier`, qualified, or in an attached catalog.
        source: the parts of the source's name in the statement; empty if Spark has resolved it to a Delta table.
        source_url: the folder of the Delta table to which Spark has resolved the source; None if it has not.
    """

    target: tuple[str, ...]
    name: JavaObject | AttachedName
    location: str | None
    provider: str | None
    properties: Mapping[str, str]
    if_not_exists: bool
    source: tuple[str, ...]
    source_url: str | None = None


def table_like(gateway: Gateway, plan: JavaObject) -> TableLike:
    """The statement of a plan in `PLANS`."""
    return _v2_table_like(gateway, plan) if kind_of(plan) == "CreateTableLike" else _v1_table_like(gateway, plan)


def _v2_table_like(gateway: Gateway, plan: JavaObject) -> TableLike:
    """The statement as Spark's plan for catalogs has it. The source may be resolved there: then its table tells the
    folder.
    """
    new, source = plan.name().identifier(), plan.source()
    table = source.table() if kind_of(source) == "ResolvedTable" else None
    return TableLike(
        target=(str(plan.name().catalog().name()), *_parts(new)),
        name=_name_in(gateway, str(plan.name().catalog().name()), new),
        location=plan.location().get() if plan.location().isDefined() else None,
        provider=_provider(plan),
        properties=gateway.dict(plan.properties()),
        if_not_exists=plan.ifNotExists(),
        source=_parts(source.identifier()),
        source_url=str(table.url()) if table is not None and our_class(table) == "DefinedTable" else None,
    )


def _name_in(gateway: Gateway, catalog: str, identifier: JavaObject) -> JavaObject | AttachedName:
    return attached_name(gateway, [catalog, *_parts(identifier)]) or qualified_name(gateway, identifier)


def _parts(identifier: JavaObject) -> tuple[str, ...]:
    return (*map(str, identifier.namespace()), str(identifier.name()))


def _v1_table_like(gateway: Gateway, plan: JavaObject) -> TableLike:
    new, uri = plan.targetTable(), plan.fileFormat().locationUri()
    return TableLike(
        target=_parts_of_v1(new),
        name=session_catalog(gateway).qualifyIdentifier(new),
        location=url_of_uri(gateway, uri.get()) if uri.isDefined() else None,
        provider=_provider(plan),
        properties=gateway.dict(plan.properties()),
        if_not_exists=plan.ifNotExists(),
        source=_parts_of_v1(plan.sourceTable()),
    )


def _parts_of_v1(identifier: JavaObject) -> tuple[str, ...]:
    name = str(identifier.table())
    return (str(identifier.database().get()), name) if identifier.database().isDefined() else (name,)


def _provider(plan: JavaObject) -> str | None:
    return str(plan.provider().get()) if plan.provider().isDefined() else None


def source_table(gateway: Gateway, parts: tuple[str, ...]) -> SourceTable | None:
    """The table or view of the session's catalog with a name; None for a name in another catalog."""
    if len(parts) > 2:
        return None
    catalog, name = session_catalog(gateway), table_identifier(gateway, parts[-1], parts[0] if len(parts) > 1 else None)
    if not catalog.isTempView(name) and not catalog.tableExists(name):
        return None
    entry = catalog.getTempViewOrPermanentTableMetadata(name)
    return SourceTable(
        name=str(entry.identifier().unquotedString()),
        url=url_of_uri(gateway, entry.location()) if is_delta(entry) else None,
        columns=declared_columns(gateway, entry.schema()),
        partition_columns=tuple(str(column) for column in gateway.items(entry.partitionColumnNames().iterator())),
        properties=gateway.dict(entry.properties()),
        comment=str(entry.comment().get()) if entry.comment().isDefined() else None,
    )
