"""Making tables, by name or by path: in SQL, with `saveAsTable`, and with the builder of `DeltaTable`.

The table is made in its folder first, in one commit, with its rows if there are any; then its name is entered in the session's catalog.
Schema, partitioning and properties are in the log only, so that the entry cannot disagree with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame

from tahoe.errors import (
    InvalidOptionError,
    InvalidPropertyError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from tahoe.protocol.clustering import FEATURE as CLUSTERING
from tahoe.protocol.column_mapping import without_mapping
from tahoe.protocol.feature_upgrade import MIN_READER_VERSION, MIN_WRITER_VERSION, needed_features, split_features
from tahoe.protocol.features import WRITER_VERSION_FEATURES, supported_features
from tahoe.protocol.properties import find_property
from tahoe.protocol.schema import Struct, map_fields
from tahoe.protocol.type_widening import TYPE_CHANGES
from tahoe.spark.ddl.catalog import PROVIDER, SESSION_CATALOG, is_delta, name_parts, path_of
from tahoe.spark.dml.write import create_as_select
from tahoe.spark.jvm.catalog_entries import declared_columns, new_entry, session_catalog, table_identifier
from tahoe.spark.jvm.gateway import Gateway, JavaObject, engine_of
from tahoe.spark.jvm.hadoop_store import qualified, url_of_uri
from tahoe.spark.jvm.table_cache import open_table
from tahoe.spark.jvm.types import delta_schema
from tahoe.spark.writing.column_rules import check_expressions
from tahoe.spark.writing.write_options import parse_options
from tahoe.storage.local import no_new_folder_left
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.table import Table
from tahoe.table.writing.planning import create_table
from tahoe.table.writing.write_request import WriteRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """What a statement says of a table.

    Attributes:
        name: a `TableIdentifier` of the session's catalog; None for a table that is only a path.
        location: where its folder is; None leaves that to the catalog.
        schema: the columns; empty where the rows or the folder say what they are.
        options: of the catalog's entry.
    """

    name: JavaObject | None = None
    location: str | None = None
    schema: Struct = field(default_factory=Struct)
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[tuple[str, ...], ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


def make_table(gateway: Gateway, new: NewTable, *, replaces: bool) -> None:
    """CREATE TABLE, REPLACE TABLE, CREATE OR REPLACE TABLE, without rows.

    Args:
        replaces: a table that is there is made anew, keeping its history. Without it, one that is in the folder gets the name, if what is
            said of it is so.

    Raises:
        TableNotFoundError: nothing is said of the columns, and there is no table in the folder to tell them.
        DeltaAnalysisError: the columns, the partitioning or the properties are none that a table can have, or not those of the one there.
    """
    place = place_of(gateway, new)
    table = open_table(gateway.spark, place.url)
    check_expressions(gateway.spark, new.schema, table=table.url)
    if not replaces and table.exists():
        if new.name is None:
            raise TableExistsError(table=table.url)
        _check_same(table, new)
    elif not new.schema.fields and place.is_external and not replaces:
        raise TableNotFoundError(table=table.url)
    else:
        operation = "CREATE TABLE" if not replaces else "CREATE OR REPLACE TABLE"
        request = _request(gateway, table, new, operation)
        with no_new_folder_left(table.url):
            create_table(table, replace(request, is_managed=not place.is_external), replace_existing=replaces)
    _enter(gateway, new, place)


def make_table_of(gateway: Gateway, new: NewTable, rows: DataFrame, options: Mapping[str, str], *, replaces: bool) -> None:
    """CREATE TABLE AS SELECT, its REPLACE forms, `saveAsTable` of a new table or with mode overwrite: table and rows in one commit.

    Args:
        options: of the writer.

    Raises:
        as `make_table`; WriteFailedError: the job failed, and there is no table, or the old one as it was.
    """
    place = place_of(gateway, new)
    create_as_select(
        gateway.spark,
        place.url,
        rows,
        replaces=replaces,
        operation="CREATE OR REPLACE TABLE AS SELECT" if replaces else "CREATE TABLE AS SELECT",
        is_managed=not place.is_external,
        partition_by=new.partition_by,
        cluster_by=new.cluster_by,
        properties=new.properties,
        comment=new.comment,
        options={name: value for name, value in options.items() if name.lower() != "path"},
    )
    _enter(gateway, new, place)


def declared_schema(gateway: Gateway, columns: JavaObject, *, table: str) -> Struct:
    """Columns as a statement declares them, Spark's StructType; char and varchar are strings that remember their length.

    Raises:
        UnsupportedDataTypeError: a type that Delta cannot hold.
    """
    return delta_schema(declared_columns(gateway, columns), table=table)


def named_or_path(gateway: Gateway, name: str) -> tuple[JavaObject | None, str | None]:
    """What a user calls a table: a `TableIdentifier` of the session's catalog, or the location in delta.`path`; the other one is None."""
    parts = name_parts(gateway, name)
    path = path_of(parts)
    if path is not None:
        return None, path
    names = parts[1:] if len(parts) == 3 and parts[0].lower() == SESSION_CATALOG else parts
    given = table_identifier(gateway, names[-1], names[-2] if len(names) > 1 else None)
    return session_catalog(gateway).qualifyIdentifier(given), None


def make_table_like(gateway: Gateway, source: NewTable, new: NewTable, *, if_not_exists: bool) -> None:
    """CREATE TABLE LIKE: a table without rows that is what another one is.

    Args:
        new: its name or place, and the properties that the statement gives.

    Raises:
        TableExistsError: there is one of that name, or at that place.
    """
    exists = (
        open_table(gateway.spark, place_of(gateway, new).url).exists()
        if new.name is None
        else session_catalog(gateway).tableExists(new.name)
    )
    if exists:
        if if_not_exists:
            return
        raise TableExistsError(table=new.location if new.name is None else new.name.unquotedString())
    properties = {**source.properties, **new.properties}
    make_table(gateway, replace(source, name=new.name, location=new.location, properties=properties), replaces=False)


def described_by(snapshot: Snapshot) -> NewTable:
    """What a statement would say that makes a table like a version of one."""
    schema = map_fields(
        without_mapping(snapshot.schema), lambda f: replace(f, metadata={k: v for k, v in f.metadata.items() if k != TYPE_CHANGES})
    )
    return NewTable(
        schema=schema,
        partition_by=snapshot.partition_columns,
        cluster_by=snapshot.clustering_columns,
        properties=made_with(snapshot),
        comment=snapshot.metadata.description,
    )


def made_with(snapshot: Snapshot) -> dict[str, str]:
    """The properties that a statement needs for a table to come out as this one is; writers keep the others."""
    own = {n: v for n, v in snapshot.properties.items() if (known := find_property(n)) is None or not known.is_internal}
    protocol = snapshot.protocol
    if protocol.writer_version < WRITER_VERSION_FEATURES:
        return {**own, MIN_READER_VERSION: str(protocol.reader_version), MIN_WRITER_VERSION: str(protocol.writer_version)}
    implied = needed_features(snapshot.schema, own) | ({CLUSTERING, "domainMetadata"} if snapshot.clustering_columns else set())
    return {**own, **{f"delta.feature.{name}": "supported" for name in sorted(supported_features(protocol) - implied)}}


def qualified_name(gateway: Gateway, identifier: JavaObject) -> JavaObject:
    """What a catalog's `Identifier` names, as a `TableIdentifier` of the session's catalog, with its database."""
    namespace = list(identifier.namespace())
    name = table_identifier(gateway, identifier.name(), namespace[-1] if namespace else None)
    return session_catalog(gateway).qualifyIdentifier(name)


# --- the folder


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is or will be; `is_known` where the catalog has it."""

    url: str
    is_external: bool
    is_known: bool


def place_of(gateway: Gateway, new: NewTable) -> Place:
    """Where a table is, or will be: where the catalog has it, where the statement says, or where the catalog puts new tables."""
    if new.name is None:
        assert new.location is not None
        return Place(qualified(gateway, new.location), is_external=True, is_known=False)
    catalog = session_catalog(gateway)
    given = None if new.location is None else qualified(gateway, new.location)
    if catalog.tableExists(new.name):
        known = catalog.getTableMetadata(new.name)
        url = url_of_uri(gateway, known.location())
        _check_replaceable(known, url, given)
        return Place(url, is_external=given is not None, is_known=True)
    if given is not None:
        return Place(given, is_external=True, is_known=False)
    return Place(url_of_uri(gateway, catalog.defaultTablePath(new.name)), is_external=False, is_known=False)


def _check_replaceable(known: JavaObject, url: str, given: str | None) -> None:
    name = known.identifier().unquotedString()
    if not is_delta(known):
        detail = f"{name} is there and is no Delta table"
        raise UnsupportedOperationError(operation="Replacing it", table=name, detail=detail, remedy="Drop it first, or use another name.")
    if given is not None and given != url:
        raise InvalidOptionError(option="LOCATION", value=given, table=name, detail=f"the table is at {url}")


def _check_same(table: Table, new: NewTable) -> None:
    """What a statement says of a table that is there already must be so; with the columns it says how they are laid out, too."""
    snapshot, says_columns = table.snapshot(), bool(new.schema.fields)
    if says_columns and [(f.name, f.type) for f in new.schema] != [(f.name, f.type) for f in snapshot.schema]:
        raise _is_other(table, f"the statement says {new.schema}, and the table has {snapshot.schema}")
    if (says_columns or new.partition_by) and new.partition_by != snapshot.partition_columns:
        given, found = (_listed(columns) for columns in (new.partition_by, snapshot.partition_columns))
        raise _is_other(table, f"the statement says that it is partitioned by {given}, and it is by {found}")
    if (says_columns or new.cluster_by) and new.cluster_by != snapshot.clustering_columns:
        given, found = (_listed(map(".".join, paths)) for paths in (new.cluster_by, snapshot.clustering_columns))
        raise _is_other(table, f"the statement says that it is clustered by {given}, and it is by {found}")
    known = {name.lower(): value for name, value in snapshot.properties.items()}
    for name, value in split_features(new.properties)[0].items():
        if known.get(name.lower()) != value:
            detail = f"the table that is there has {known.get(name.lower(), 'none')}, which ALTER TABLE can change"
            raise InvalidPropertyError(property=name, table=table.url, value=value, detail=detail)


def _listed(columns: Iterable[str]) -> str:
    return ", ".join(columns) or "nothing"


def _is_other(table: Table, detail: str) -> SchemaMismatchError:
    return SchemaMismatchError(table=table.url, detail=detail, remedy="Leave the columns out: the table tells them.")


def _request(gateway: Gateway, table: Table, new: NewTable, operation: str) -> WriteRequest:
    session = parse_options({}, gateway.settings(), table=table.url)
    return WriteRequest(
        mode="error",
        schema=new.schema,
        partition_by=new.partition_by or None,
        cluster_by=new.cluster_by or None,
        properties=new.properties,
        default_properties=session.default_properties,
        comment=new.comment,
        keep_nullability=True,
        operation=operation,
        engine=engine_of(gateway.spark),
    )


# --- the name


def _enter(gateway: Gateway, new: NewTable, place: Place) -> None:
    """Enter the table's name in the catalog, where it has one and is not there yet."""
    if new.name is None:
        return
    catalog = session_catalog(gateway)
    if place.is_known:
        catalog.refreshTable(new.name)
        return
    entry = new_entry(gateway, new.name, place.url, PROVIDER, is_external=place.is_external, options=new.options, comment=new.comment)
    catalog.createTable(entry, False, False)
