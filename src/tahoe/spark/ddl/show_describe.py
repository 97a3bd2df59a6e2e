"""Answers SHOW and DESCRIBE statements: a table's properties, and SHOW CREATE TABLE.

The answers come from the log, and from the catalog only if the log does not have them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tahoe.protocol.changes.column_values import identity_columns
from tahoe.protocol.changes.constraints import checks_of
from tahoe.protocol.configuration.declared_keys import is_key, keys_of
from tahoe.protocol.configuration.feature_upgrade import MIN_READER_VERSION, MIN_WRITER_VERSION, properties_for
from tahoe.protocol.types.column_metadata import CURRENT_DEFAULT, GENERATION_EXPRESSION
from tahoe.protocol.types.names import literal, quoted
from tahoe.protocol.types.schema import Field
from tahoe.spark.ddl.creation import made_with
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.statements.catalog_entries import PROVIDER, TableEntry, table_entry, types_in_sql
from tahoe.spark.jvm.statements.constraints import check_constraint, constraint_array, constraint_of_key
from tahoe.spark.jvm.table_cache import open_table
from tahoe.spark.jvm.types import visible_schema
from tahoe.table.commit.other_formats import converted_versions
from tahoe.table.reading.snapshot import Snapshot

_CLUSTERING_COLUMNS = "clusteringColumns"


def properties(gateway: Gateway, target: JavaObject) -> JavaObject:
    """The properties of a table for Spark's statements, with the protocol's, and the reserved ones, such as the
    location.

    Args:
        target: a `delta.DefinedTable`.
    """
    snapshot = open_table(gateway.spark, target.url()).snapshot()
    return gateway.text_map(
        {
            **table_properties(snapshot),
            **converted_versions(snapshot),
            **reserved_properties(table_entry(gateway, target), snapshot),
        }
    )


def constraints(gateway: Gateway, target: JavaObject) -> JavaObject:
    """The declared keys and the CHECK constraints of a table, as an array of Spark's `Constraint`s.

    Args:
        target: a `delta.DefinedTable`.
    """
    snapshot = open_table(gateway.spark, target.url()).snapshot()
    checks = checks_of(snapshot.properties)
    found = [constraint_of_key(gateway, key) for key in keys_of(snapshot.properties, table=snapshot.url)]
    return constraint_array(
        gateway, [*found, *(check_constraint(gateway, each.name, each.expression) for each in checks)]
    )


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


def reserved_properties(entry: TableEntry, snapshot: Snapshot) -> dict[str, str]:
    reserved = {"provider": PROVIDER, "location": snapshot.url}
    if snapshot.metadata.description is not None:
        reserved["comment"] = snapshot.metadata.description
    if entry.owner:
        reserved["owner"] = entry.owner
    reserved["is_managed_location" if entry.is_managed else "external"] = "true"
    if snapshot.clustering_columns:
        reserved[_CLUSTERING_COLUMNS] = json.dumps(
            snapshot.clustering_columns, separators=(",", ":"), ensure_ascii=False
        )
    return reserved


# --- SHOW CREATE TABLE


def create_statement(gateway: Gateway, target: JavaObject) -> str:
    """The statement that creates a table like this one, without its rows."""
    snapshot = open_table(gateway.spark, target.url()).snapshot()
    types = types_in_sql(gateway, visible_schema(snapshot.schema).to_json())
    return statement_that_creates(table_entry(gateway, target), snapshot, types)


def statement_that_creates(entry: TableEntry, snapshot: Snapshot, types: Sequence[str]) -> str:
    """CREATE TABLE with the columns of a snapshot, whose types in SQL are given."""
    name = entry.name or f"delta.{quoted(snapshot.url.removeprefix('file://'))}"
    keys = (key.ddl for key in keys_of(snapshot.properties, table=snapshot.url))
    parts = [f"CREATE TABLE {name} (\n  " + ",\n  ".join([*_columns(snapshot, types), *keys]) + ")", "USING delta"]
    if snapshot.partition_columns:
        parts.append(f"PARTITIONED BY ({', '.join(map(quoted, snapshot.partition_columns))})")
    if snapshot.clustering_columns:
        parts.append(f"CLUSTER BY ({', '.join('.'.join(map(quoted, path)) for path in snapshot.clustering_columns)})")
    if entry.name is not None and not entry.is_managed:
        parts.append(f"LOCATION {literal(snapshot.url)}")
    if snapshot.metadata.description is not None:
        parts.append(f"COMMENT {literal(snapshot.metadata.description)}")
    kept = sorted(item for item in made_with(snapshot).items() if not is_key(item[0]))
    if kept:
        parts.append(
            "TBLPROPERTIES (\n  " + ",\n  ".join(f"{literal(key)} = {literal(value)}" for key, value in kept) + ")"
        )
    return "\n".join(parts) + "\n"


def _columns(snapshot: Snapshot, types: Sequence[str]) -> Iterator[str]:
    identity = dict(identity_columns(snapshot.schema))
    for column, data_type in zip(snapshot.schema, types, strict=True):
        yield " ".join(_column(column, data_type, identity))


def _column(column: Field, data_type: str, identity: Mapping[str, Any]) -> Iterator[str]:
    """The parts of a column's definition in CREATE TABLE."""
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
