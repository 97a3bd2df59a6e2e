"""Creates tables by name or by path: for SQL, `saveAsTable`, and the builder of `DeltaTable`.

The first step creates the table in its folder, in one commit, together with any rows. The second step adds its name to
the session's catalog. Schema, partitioning and properties are only in the log, so that the catalog entry cannot
contradict them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tahoe.errors import (
    DeltaConcurrentModificationException,
    InvalidPropertyError,
    PipelineTableUnknownError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from tahoe.protocol.changes.constraints import PREFIX as CONSTRAINT
from tahoe.protocol.configuration.column_mapping import without_mapping
from tahoe.protocol.configuration.declared_keys import check_new_key, checked_key, with_key
from tahoe.protocol.configuration.feature_drop import without_catalog
from tahoe.protocol.configuration.feature_upgrade import (
    MIN_READER_VERSION,
    MIN_WRITER_VERSION,
    needed_features,
    properties_for,
    split_features,
)
from tahoe.protocol.configuration.features import WRITER_VERSION_FEATURES, supported_features
from tahoe.protocol.configuration.properties import OF_CATALOGS, find_property
from tahoe.protocol.statistics.clustering import FEATURE as CLUSTERING
from tahoe.protocol.types.schema import Struct, map_fields
from tahoe.protocol.types.type_widening import TYPE_CHANGES
from tahoe.spark.ddl.catalog import in_session_catalog, name_parts, path_of
from tahoe.spark.ddl.table_names import TableLocation, TableName, table_name
from tahoe.spark.dml.write import create_as_select
from tahoe.spark.jvm.attached_catalogs import attached_name
from tahoe.spark.jvm.gateway import Gateway, author_of
from tahoe.spark.jvm.hadoop_store import qualified_url
from tahoe.spark.jvm.statements.catalog_entries import (
    SESSION_CATALOG,
    session_catalog,
    table_identifier,
)
from tahoe.spark.jvm.statements.table_changes import AddConstraint
from tahoe.spark.jvm.statements.time_travel import check_names_no_version
from tahoe.spark.jvm.table_cache import open_table, table_finder
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
    """The table that a statement defines.

    Attributes:
        name: None for a table without a name, which has only a path.
        location: the table's folder; None lets the catalog choose it.
        schema: the columns; empty if they come from the rows or from an existing table in the folder.
        options: of the catalog's entry.
        is_of_pipeline: whether a declarative pipeline makes it, which takes a table that it makes for an empty one.
    """

    name: TableName | None = None
    location: str | None = None
    schema: Struct = field(default_factory=Struct)
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[tuple[str, ...], ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    is_of_pipeline: bool = False


def make_table(gateway: Gateway, new: NewTable, *, replaces: bool) -> None:
    """Run CREATE TABLE, REPLACE TABLE or CREATE OR REPLACE TABLE, without rows.

    Args:
        replaces: replace an existing table and keep its history. If False, an existing table in the folder gets the
            name, provided that it agrees with the statement.

    Raises:
        TableExistsError: `replaces` is False, and there is a table at the path and the statement gives no name, or
            another session has created the table since this statement began.
        TableNotFoundError: the statement declares no columns, and the folder has no table that has them.
        DeltaAnalysisError: the columns, partitioning or properties are invalid, or differ from those of the existing
            table.
    """

    def make() -> None:
        place = place_of(gateway, new)
        with given_name(new, place) as (named, given):
            _make_in(gateway, named, given, replaces=replaces)
        _enter_made(new, place, replaces=replaces)

    _again_if_named(make, replaces=replaces)


def _again_if_named(make: Callable[[], None], *, replaces: bool) -> None:
    """Make a table. If it is to replace one, and another session has given the name to a table in another folder since
    this one has looked, do it again: that table is replaced.
    """
    try:
        make()
    except TableExistsError:
        if not replaces:
            raise
        make()


def _make_in(gateway: Gateway, new: NewTable, place: TableLocation, *, replaces: bool) -> None:
    table = open_table(gateway.spark, place.url)
    check_expressions(gateway.spark, new.schema, table=table.url)
    if not replaces and table.exists():
        _check_may_have_the_name(table, new, place)
    elif not new.schema.fields and place.is_external and not replaces:
        raise TableNotFoundError(table=table.url)
    else:
        operation = "CREATE TABLE" if not replaces else "CREATE OR REPLACE TABLE"
        request = _request(gateway, table, new, operation)
        try:
            with no_new_folder_left(table.url):
                create_table(table, replace(request, is_managed=not place.is_external), replace_existing=replaces)
        except DeltaConcurrentModificationException:
            if replaces or not table.exists():
                raise
            _check_may_have_the_name(table, new, place)


def make_table_of(
    gateway: Gateway, new: NewTable, rows: DataFrame, options: Mapping[str, str], *, replaces: bool
) -> None:
    """Create a table with its rows in one commit: CREATE TABLE AS SELECT, its REPLACE forms, and `saveAsTable` of a new
    table or with mode overwrite.

    Args:
        options: of the writer.

    Raises:
        as `make_table`; WriteFailedError: the job failed. No table was created, and an old table is unchanged.
    """

    def make() -> None:
        place = place_of(gateway, new)
        with given_name(new, place) as (named, given):
            create_as_select(
                gateway.spark,
                given.url,
                rows,
                replaces=replaces,
                operation="CREATE OR REPLACE TABLE AS SELECT" if replaces else "CREATE TABLE AS SELECT",
                is_managed=not place.is_external,
                partition_by=named.partition_by,
                cluster_by=named.cluster_by,
                properties=named.properties,
                comment=named.comment,
                options={name: value for name, value in options.items() if name.lower() != "path"},
            )
        _enter_made(new, place, replaces=replaces)

    _again_if_named(make, replaces=replaces)


def declared_schema(
    columns: StructType, sources: Mapping[str, Mapping[str, Any]] | None = None, *, table: str
) -> Struct:
    """The columns that a statement declares.

    Args:
        columns: from `declared_columns`.
        sources: the metadata of generated and identity columns, by name.

    Raises:
        UnsupportedDataTypeError: a type that Delta cannot hold.
    """
    found = sources or {}
    return Struct(
        tuple(replace(f, metadata={**f.metadata, **found.get(f.name, {})}) for f in delta_schema(columns, table=table))
    )


def declared_constraints(constraints: Iterable[AddConstraint], schema: Struct, *, table: str) -> dict[str, str]:
    """The properties of a new table for the constraints that a statement declares.

    Raises:
        InvalidKeyError, ConstraintExistsError: a key does not fit the columns or the other constraints.
        UnsupportedOperationError: one of them is neither a CHECK constraint nor a key that is not enforced.
    """
    properties: dict[str, str] = {}
    for constraint in constraints:
        if constraint.key is not None:
            key = checked_key(constraint.key, schema, table=table)
            check_new_key(key, properties, table=table)
            properties = with_key(properties, key)
        else:
            properties[CONSTRAINT + constraint.name] = condition_of_constraint(constraint, table=table)
    return properties


def condition_of_constraint(constraint: AddConstraint, *, table: str) -> str:
    """The condition of a CHECK constraint.

    Raises:
        UnsupportedOperationError: it is another constraint, such as an enforced key.
    """
    if constraint.condition is None:
        detail = f"Delta tables support CHECK constraints and keys that are not enforced, not {constraint.ddl}"
        remedy = "Declare a key as NOT ENFORCED, or use a CHECK constraint."
        raise UnsupportedOperationError(
            operation=f"CONSTRAINT {constraint.name}", table=table, detail=detail, remedy=remedy
        )
    return constraint.condition


def named_or_path(gateway: Gateway, name: str) -> tuple[TableName | None, str | None]:
    """Resolve a user's name of a table to a name in a catalog, or to the location in delta.`path`; the other value is
    None.

    Raises:
        UnsupportedOperationError: the name is in a catalog that is not tahoe's.
    """
    parts = name_parts(gateway, name)
    path = path_of(parts)
    if path is not None:
        return None, path
    names = in_session_catalog(gateway, parts)
    if names is None:
        attached = attached_name(gateway, parts)
        if attached is not None:
            return table_name(gateway, attached), None
        detail = f"tahoe enters the names of Delta tables only into {SESSION_CATALOG} and into catalogs of its own"
        remedy = f"Give a name of three parts that begins with {SESSION_CATALOG}, or delta.`/path`."
        raise UnsupportedOperationError(
            operation="Making a table in another catalog", table=name, detail=detail, remedy=remedy
        )
    given = table_identifier(gateway, names[-1], names[-2] if len(names) > 1 else None)
    return table_name(gateway, session_catalog(gateway).qualifyIdentifier(given)), None


def make_table_like(gateway: Gateway, source: NewTable, new: NewTable, *, if_not_exists: bool) -> None:
    """Run CREATE TABLE LIKE: create an empty table with the definition of another table.

    Args:
        new: the new table's name or location, and the properties that the statement gives.

    Raises:
        TableExistsError: a table with that name or at that location exists.
    """
    exists = open_table(gateway.spark, place_of(gateway, new).url).exists() if new.name is None else new.name.exists()
    if exists:
        if if_not_exists:
            return
        raise TableExistsError(table=new.location if new.name is None else new.name.text)
    properties = {**source.properties, **new.properties}
    try:
        make_table(
            gateway, replace(source, name=new.name, location=new.location, properties=properties), replaces=False
        )
    except TableExistsError:
        if not if_not_exists:
            raise


def described_by(snapshot: Snapshot) -> NewTable:
    """The definition of a new table that is like a snapshot."""
    schema = map_fields(
        without_mapping(snapshot.schema),
        lambda f: replace(f, metadata={k: v for k, v in f.metadata.items() if k != TYPE_CHANGES}),
    )
    return NewTable(
        schema=schema,
        partition_by=snapshot.partition_columns,
        cluster_by=snapshot.clustering_columns,
        properties=made_with(snapshot),
        comment=snapshot.metadata.description,
    )


def made_with(snapshot: Snapshot) -> dict[str, str]:
    """The properties that a statement needs to create a table like a snapshot, with the same protocol. Properties that
    writers maintain are left out, and so is what a catalog gives to the tables that it manages.
    """
    own = {
        name: value
        for name, value in snapshot.properties.items()
        if ((known := find_property(name)) is None or not known.is_internal) and not name.startswith(OF_CATALOGS)
    }
    protocol = without_catalog(snapshot.protocol)
    if protocol.writer_version < WRITER_VERSION_FEATURES:
        return {
            **own,
            MIN_READER_VERSION: str(protocol.reader_version),
            MIN_WRITER_VERSION: str(protocol.writer_version),
        }
    implied = needed_features(snapshot.schema, own) | (
        {CLUSTERING, "domainMetadata"} if snapshot.clustering_columns else set()
    )
    return {**own, **properties_for(supported_features(protocol) - implied)}


# --- the folder


def place_of(gateway: Gateway, new: NewTable) -> TableLocation:
    """Where a table is or will be: its location in the catalog, else the statement's location, else the catalog's
    default.

    Raises:
        InvalidTimeTravelError: the location names a version of a table, as in `path@v3`.
    """
    if new.location is not None:
        check_names_no_version(table_finder(gateway.spark), new.location)
    if new.name is None:
        assert new.location is not None
        return TableLocation(qualified_url(gateway, new.location), is_external=True, is_known=False)
    return new.name.place(None if new.location is None else qualified_url(gateway, new.location))


@contextmanager
def given_name(new: NewTable, place: TableLocation) -> Iterator[tuple[NewTable, TableLocation]]:
    """The block that commits a version of a table: with the properties that the catalog of its name demands, where it
    gives the name.
    """
    if new.name is None:
        yield new, place
        return
    with new.name.given(place, new.comment) as found:
        yield replace(new, properties={**new.properties, **found.properties}), found.place


def _check_may_have_the_name(table: Table, new: NewTable, place: TableLocation) -> None:
    """Refuse to give an existing table in the folder the name of a statement, unless the table is what the statement
    defines.

    Raises:
        TableExistsError: the statement gives no name, or another session has added the name since the statement began.
        PipelineTableUnknownError: the update of a pipeline before this one has made it.
        DeltaAnalysisError: the table is another one.
    """
    if new.name is None or _has_appeared(new.name, place):
        raise TableExistsError(table=table.url)
    if new.is_of_pipeline:
        raise PipelineTableUnknownError(table=table.url, name=new.name.text)
    _check_same(table, new)


def _check_same(table: Table, new: NewTable) -> None:
    """Refuse a statement that contradicts an existing table. A statement that declares columns must also agree on
    partitioning and clustering.
    """
    snapshot, says_columns = table.snapshot(), bool(new.schema.fields)
    if says_columns and [(f.name, f.type) for f in new.schema] != [(f.name, f.type) for f in snapshot.schema]:
        raise _other_table_error(table, f"the statement declares {new.schema}, but the table has {snapshot.schema}")
    if (says_columns or new.partition_by) and new.partition_by != snapshot.partition_columns:
        stated, actual = (_column_list(columns) for columns in (new.partition_by, snapshot.partition_columns))
        raise _other_table_error(
            table, f"the statement partitions the table by {stated}, but it is partitioned by {actual}"
        )
    if (says_columns or new.cluster_by) and new.cluster_by != snapshot.clustering_columns:
        stated, actual = (_column_list(map(".".join, paths)) for paths in (new.cluster_by, snapshot.clustering_columns))
        raise _other_table_error(
            table, f"the statement clusters the table by {stated}, but it is clustered by {actual}"
        )
    properties = {name.lower(): value for name, value in snapshot.properties.items()}
    for name, value in split_features(new.properties)[0].items():
        if properties.get(name.lower()) != value:
            detail = f"the existing table has {properties.get(name.lower(), 'none')}, which ALTER TABLE can change"
            raise InvalidPropertyError(property=name, table=table.url, value=value, detail=detail)


def _column_list(columns: Iterable[str]) -> str:
    return ", ".join(columns) or "nothing"


def _other_table_error(table: Table, detail: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        table=table.url, detail=detail, remedy="Leave this definition out: the table exists already."
    )


def _request(gateway: Gateway, table: Table, new: NewTable, operation: str) -> WriteRequest:
    """The request that creates a table without rows. The mode `error` does not concern REPLACE: `create_table` is told
    separately whether it replaces.
    """
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
        **author_of(gateway.spark),
    )


# --- the name


def _has_appeared(name: TableName, place: TableLocation) -> bool:
    """Whether another session has added the table's name to the catalog since this statement began."""
    return not place.is_known and name.exists()


def _enter_made(new: NewTable, place: TableLocation, *, replaces: bool) -> None:
    """Add the name of a table that is made or replaced. If another session has given it to the same folder, which it
    has taken for a new table's too, the name is that of this version already.

    Raises:
        TableExistsError: as `enter`, in all other cases.
    """
    try:
        enter(new, place)
    except TableExistsError:
        if not replaces or new.name is None or new.name.place(None).url != place.url:
            raise


def enter(new: NewTable, place: TableLocation) -> None:
    """Add the table's name to its catalog behind the commit.

    Raises:
        TableExistsError: another session has added the name since this statement began.
    """
    if new.name is not None:
        new.name.enter(place, new.options, new.comment)
