"""CREATE TABLE LIKE for Delta tables: translates Spark's plan into a new table.

Spark would copy only the catalog's entry, which has no schema of a Delta table, and would create no table.
"""

from __future__ import annotations

from tahoe.errors import UnsupportedOperationError
from tahoe.spark.ddl.catalog import path_of
from tahoe.spark.ddl.creation import NewTable, declared_schema, described_by, make_table_like
from tahoe.spark.jvm.catalog_entries import (
    declared_columns,
    is_delta,
    our_class,
    qualified_name,
    session_catalog,
    table_identifier,
)
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.hadoop_store import url_of_uri
from tahoe.spark.jvm.plans import kind_of
from tahoe.spark.jvm.table_cache import open_table

# Spark plans the second one if it has no V2 command, or if the source is a table of its own session catalog.
PLANS = frozenset({"CreateTableLike", "CreateTableLikeCommand"})


def is_ours(gateway: Gateway, plan: JavaObject) -> bool:
    """Whether CREATE TABLE LIKE creates a Delta table: USING names Delta, or there is no USING and the source is a Delta table.

    Raises:
        UnsupportedOperationError: USING names another format, and the source is a Delta table, whose columns Spark would not find.
    """
    provider = plan.provider()
    if is_delta(plan):
        return True
    source = _source_of(gateway, plan)[0]
    if source is not None and provider.isDefined():
        detail = f"Spark cannot read the columns of a Delta table to create a table of the format {provider.get()}"
        remedy = "Use CREATE TABLE ... AS SELECT * FROM ... LIMIT 0."
        raise UnsupportedOperationError(operation="CREATE TABLE LIKE", table=source, detail=detail, remedy=remedy)
    return source is not None


def _source_of(gateway: Gateway, plan: JavaObject) -> tuple[str | None, JavaObject | None]:
    """The source table: the url of a Delta table, or else the `CatalogTable` of another table."""
    if kind_of(plan) == "CreateTableLike":
        source = plan.source()
        if kind_of(source) != "ResolvedTable":
            return None, _named(gateway, source.identifier())
        table = source.table()
        if our_class(table) == "DefinedTable":
            return str(table.url()), None
        return None, _named(gateway, source.identifier())
    name = plan.sourceTable()
    path = _path_of(name)
    if path is not None:
        return path, None
    entry = session_catalog(gateway).getTempViewOrPermanentTableMetadata(name)
    return (url_of_uri(gateway, entry.location()), None) if is_delta(entry) else (None, entry)


def _path_of(name: JavaObject) -> str | None:
    """The path of a `TableIdentifier` like delta.`path`; None for any other."""
    return path_of([str(name.database().get()), str(name.table())]) if name.database().isDefined() else None


def _named(gateway: Gateway, identifier: JavaObject) -> JavaObject | None:
    """The `CatalogTable` of a table or view of the session's catalog; None for a name in another catalog."""
    namespace = list(identifier.namespace())
    if len(namespace) > 1:
        return None
    name = table_identifier(gateway, identifier.name(), namespace[-1] if namespace else None)
    catalog = session_catalog(gateway)
    return catalog.getTempViewOrPermanentTableMetadata(name) if catalog.isTempView(name) or catalog.tableExists(name) else None


def create(gateway: Gateway, plan: JavaObject) -> None:
    url, entry = _source_of(gateway, plan)
    if url is not None:
        source = described_by(open_table(gateway.spark, url).snapshot())
    elif entry is None:
        detail = "the source table is not in the session catalog"
        remedy = "Use CREATE TABLE ... USING delta AS SELECT * FROM ... LIMIT 0."
        raise UnsupportedOperationError(operation="CREATE TABLE LIKE", table="missing", detail=detail, remedy=remedy)
    else:
        name = entry.identifier().unquotedString()
        source = NewTable(
            schema=declared_schema(declared_columns(gateway, entry.schema()), table=name),
            partition_by=tuple(str(column) for column in gateway.items(entry.partitionColumnNames().iterator())),
            properties={n: v for n, v in gateway.dict(entry.properties()).items() if "." not in n or n.startswith("delta.")},
            comment=entry.comment().get() if entry.comment().isDefined() else None,
        )
    make_table_like(gateway, source, _like(gateway, plan), if_not_exists=plan.ifNotExists())


def _like(gateway: Gateway, plan: JavaObject) -> NewTable:
    """The name, location and properties that CREATE TABLE LIKE gives to the new table."""
    properties = gateway.dict(plan.properties())
    if kind_of(plan) == "CreateTableLikeCommand":
        target, uri = plan.targetTable(), plan.fileFormat().locationUri()
        location = url_of_uri(gateway, uri.get()) if uri.isDefined() else None
        path = _path_of(target)
        if path is not None:
            return NewTable(location=path, properties=properties)
        name = session_catalog(gateway).qualifyIdentifier(target)
        return NewTable(name=name, location=location, properties=properties)
    identifier = plan.name().identifier()
    path = path_of([str(plan.name().catalog().name()), *map(str, identifier.namespace()), str(identifier.name())])
    if path is not None:
        return NewTable(location=path, properties=properties)
    location = plan.location().get() if plan.location().isDefined() else None
    return NewTable(name=qualified_name(gateway, identifier), location=location, properties=properties)
