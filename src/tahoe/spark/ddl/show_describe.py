"""Answers SHOW and DESCRIBE statements: a table's properties, SHOW TABLE EXTENDED and SHOW CREATE TABLE.

The answers come from the log, and from the catalog only if the log does not have them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from tahoe.protocol.column_metadata import CURRENT_DEFAULT, GENERATION_EXPRESSION
from tahoe.protocol.column_values import identity_columns
from tahoe.protocol.feature_upgrade import MIN_READER_VERSION, MIN_WRITER_VERSION, properties_for
from tahoe.protocol.names import literal, quoted
from tahoe.protocol.schema import Field
from tahoe.spark.ddl.catalog import SESSION_CATALOG
from tahoe.spark.ddl.creation import made_with
from tahoe.spark.jvm.catalog_entries import PROVIDER, identifier, is_delta, is_managed, session_catalog, table_identifier, types_in_sql
from tahoe.spark.jvm.gateway import JVM_ERRORS, Gateway, JavaObject
from tahoe.spark.jvm.table_cache import open_table
from tahoe.spark.jvm.types import visible_schema
from tahoe.table.reading.snapshot import Snapshot

_CLUSTERING_COLUMNS = "clusteringColumns"


def properties(gateway: Gateway, target: JavaObject) -> JavaObject:
    """The properties of a table for Spark's statements, with the protocol's, and the reserved ones, such as the location.

    Args:
        target: a `delta.DefinedTable`.
    """
    snapshot = open_table(gateway.spark, target.url()).snapshot()
    return gateway.java_map({**table_properties(snapshot), **_reserved(target, snapshot)})


def table_properties(snapshot: Snapshot) -> dict[str, str]:
    """The table's own properties, and its protocol in the form of properties."""
    protocol = snapshot.protocol
    listed = (protocol.reader_features or frozenset()) | (protocol.writer_features or frozenset())
    return {
        **snapshot.properties,
        MIN_READER_VERSION: str(protocol.reader_version),
        MIN_WRITER_VERSION: str(protocol.writer_version),
        **properties_for(listed),
    }


def _reserved(target: JavaObject, snapshot: Snapshot) -> dict[str, str]:
    entry = target.v1Table()
    found = {"provider": PROVIDER, "location": snapshot.url}
    if snapshot.metadata.description is not None:
        found["comment"] = snapshot.metadata.description
    if entry.owner():
        found["owner"] = str(entry.owner())
    found["is_managed_location" if is_managed(entry) else "external"] = "true"
    if snapshot.clustering_columns:
        found[_CLUSTERING_COLUMNS] = json.dumps(snapshot.clustering_columns, separators=(",", ":"), ensure_ascii=False)
    return found


def tables_extended(gateway: Gateway, plan: JavaObject) -> list[JavaObject]:
    """The rows of SHOW TABLE EXTENDED: Spark's rows, with those of Delta tables replaced, because the catalog does not have their columns.

    Args:
        plan: Spark's `ShowTablesCommand`.
    """
    catalog = session_catalog(gateway)
    names = gateway.session.sessionState().catalogManager().catalog(SESSION_CATALOG)
    rows = []
    for row in gateway.items(plan.run(gateway.session).iterator()):
        namespace, name, is_temporary = row.getString(0), row.getString(1), row.getBoolean(2)
        table = table_identifier(gateway, name, namespace)
        with suppress(*JVM_ERRORS):  # the table or its folder may be deleted by now, which must not hide the other tables
            if not is_temporary and is_delta(catalog.getTableMetadata(table)):
                found = names.loadTable(identifier(gateway, [namespace], name))
                row = gateway.row(namespace, name, is_temporary, found.v1Table().simpleString() + "\n")
        rows.append(row)
    return rows


# --- SHOW CREATE TABLE


def create_statement(gateway: Gateway, target: JavaObject) -> str:
    """The statement that creates a table like this one, without its rows."""
    snapshot = open_table(gateway.spark, target.url()).snapshot()
    entry = target.v1Table()
    is_named = session_catalog(gateway).tableExists(entry.identifier())
    name = str(entry.identifier().quotedString()) if is_named else f"delta.{quoted(snapshot.url.removeprefix('file://'))}"
    parts = [f"CREATE TABLE {name} (\n  " + ",\n  ".join(_columns(gateway, snapshot)) + ")", "USING delta"]
    if snapshot.partition_columns:
        parts.append(f"PARTITIONED BY ({', '.join(map(quoted, snapshot.partition_columns))})")
    if snapshot.clustering_columns:
        parts.append(f"CLUSTER BY ({', '.join('.'.join(map(quoted, path)) for path in snapshot.clustering_columns)})")
    if is_named and not is_managed(entry):
        parts.append(f"LOCATION {literal(snapshot.url)}")
    if snapshot.metadata.description is not None:
        parts.append(f"COMMENT {literal(snapshot.metadata.description)}")
    kept = sorted(made_with(snapshot).items())
    if kept:
        parts.append("TBLPROPERTIES (\n  " + ",\n  ".join(f"{literal(key)} = {literal(value)}" for key, value in kept) + ")")
    return "\n".join(parts) + "\n"


def _columns(gateway: Gateway, snapshot: Snapshot) -> Iterator[str]:
    types = types_in_sql(gateway, visible_schema(snapshot.schema).to_json())
    identity = dict(identity_columns(snapshot.schema))
    for column, data_type in zip(snapshot.schema, types, strict=True):
        yield " ".join(_column(column, data_type, identity))


def _column(column: Field, data_type: str, identity: Mapping[str, Any]) -> Iterator[str]:
    yield quoted(column.name)
    yield data_type
    if not column.nullable:
        yield "NOT NULL"
    if column.name in identity:
        numbers = identity[column.name]
        yield f"GENERATED {'BY DEFAULT' if numbers.is_explicit_allowed else 'ALWAYS'} AS IDENTITY"
        yield f"(START WITH {numbers.start} INCREMENT BY {numbers.step})"
    elif GENERATION_EXPRESSION in column.metadata:
        yield f"GENERATED ALWAYS AS ({column.metadata[GENERATION_EXPRESSION]})"
    elif CURRENT_DEFAULT in column.metadata:
        yield f"DEFAULT {column.metadata[CURRENT_DEFAULT]}"
    if column.metadata.get("comment"):
        yield f"COMMENT {literal(str(column.metadata['comment']))}"
