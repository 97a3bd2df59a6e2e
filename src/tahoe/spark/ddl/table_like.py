"""CREATE TABLE LIKE for Delta tables.

Spark would copy only the catalog's entry, which has no schema of a Delta table, and would create no table.
"""

from __future__ import annotations

from tahoe.errors import UnsupportedOperationError
from tahoe.spark.ddl.catalog import path_of
from tahoe.spark.ddl.creation import NewTable, declared_schema, described_by, make_table_like
from tahoe.spark.ddl.table_names import TableName, table_name
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.statements.catalog_entries import is_delta_provider
from tahoe.spark.jvm.statements.table_like_plans import SourceTable, TableLike, source_table, table_like
from tahoe.spark.jvm.table_cache import open_table


def is_ours(gateway: Gateway, plan: JavaObject) -> bool:
    """Whether CREATE TABLE LIKE creates a Delta table: USING names Delta, or there is no USING and the source is a
    Delta table.

    Raises:
        UnsupportedOperationError: USING names another format, and the source is a Delta table, whose columns Spark
            would not find.
    """
    statement = table_like(gateway, plan)
    if is_delta_provider(statement.provider):
        return True
    url = _source_of(gateway, statement)[0]
    if url is not None and statement.provider is not None:
        detail = f"Spark cannot read the columns of a Delta table to create a table of the format {statement.provider}"
        remedy = "Use CREATE TABLE ... AS SELECT * FROM ... LIMIT 0."
        raise UnsupportedOperationError(operation="CREATE TABLE LIKE", table=url, detail=detail, remedy=remedy)
    return url is not None


def _source_of(gateway: Gateway, statement: TableLike) -> tuple[str | None, SourceTable | None]:
    """The source: the folder of a Delta table, or else another table of the session's catalog."""
    url = statement.source_url or path_of(statement.source)
    if url is not None:
        return url, None
    source = source_table(gateway, statement.source)
    return (None, source) if source is None else (source.url, source)


def create(gateway: Gateway, plan: JavaObject) -> None:
    statement = table_like(gateway, plan)
    url, source = _source_of(gateway, statement)
    definition = definition_of(source) if url is None else described_by(open_table(gateway.spark, url).snapshot())
    make_table_like(
        gateway,
        definition,
        target(statement, table_name(gateway, statement.name)),
        if_not_exists=statement.if_not_exists,
    )


def definition_of(source: SourceTable | None) -> NewTable:
    """The definition of a Delta table like a table of another format, or like a view.

    Raises:
        UnsupportedOperationError: the source is in another catalog.
    """
    if source is None:
        detail = "the source table is not in the session catalog"
        remedy = "Use CREATE TABLE ... USING delta AS SELECT * FROM ... LIMIT 0."
        raise UnsupportedOperationError(operation="CREATE TABLE LIKE", table="missing", detail=detail, remedy=remedy)
    return NewTable(
        schema=declared_schema(source.columns, table=source.name),
        partition_by=source.partition_columns,
        properties={n: v for n, v in source.properties.items() if "." not in n or n.startswith("delta.")},
        comment=source.comment,
    )


def target(statement: TableLike, name: TableName | None) -> NewTable:
    """The name or location, and the properties, that the statement gives to the new table."""
    path = path_of(statement.target)
    if path is not None:
        return NewTable(location=path, properties=statement.properties)
    return NewTable(name=name, location=statement.location, properties=statement.properties)
