"""Tables by name: what Spark's catalogs answer for delta.`path` and for the names of Delta tables in the session's catalog.

A catalog holds a table's name and location; schema and partitioning come from the log, of the version that is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from tahoe.errors import NotADeltaTableError, TableNotFoundError
from tahoe.spark.gateway import Gateway, JavaObject
from tahoe.spark.opened import metadata_identity, open_table, remember
from tahoe.spark.time_travel import Target, session_moment, target_of_catalog, target_of_path
from tahoe.spark.types import visible_schema
from tahoe.storage.locations import normalise
from tahoe.table.snapshot import Snapshot

PROVIDER = "delta"

# The version of which the catalog's statistics of a table were made. It is a property of the catalog's entry, not of the table.
ANALYZED_VERSION = "tahoe.analyzedVersion"
SESSION_CATALOG = "spark_catalog"

_CATALOG = "org.apache.spark.sql.catalyst.catalog."


# --- paths


def path_table(gateway: Gateway, path: str, at: str) -> JavaObject:
    """A `CatalogTable` for delta.`path`.

    Raises:
        TableNotFoundError, NotADeltaTableError: raised rather than answered, because Spark would look for files next.
    """
    target = target_of_catalog(session_moment(gateway), path, at)
    snapshot = remember(target.snapshot(open_table(gateway.spark, target.location)))
    identifier = gateway.java_class("org.apache.spark.sql.catalyst.TableIdentifier")
    name = identifier(path, gateway.option(PROVIDER), gateway.option(_catalog_name(target, snapshot, at)))
    storage = gateway.module(_CATALOG + "CatalogStorageFormat").empty()
    table = gateway.build(
        _CATALOG + "CatalogTable",
        name,
        gateway.module(_CATALOG + "CatalogTableType").EXTERNAL(),
        gateway.changed(
            storage, locationUri=gateway.option(_uri(gateway, snapshot.url)), properties=_properties(gateway, snapshot, target)
        ),
        gateway.struct_of_json(visible_schema(snapshot.schema).to_json()),
        gateway.option(PROVIDER),
        gateway.seq(snapshot.partition_columns),
    )
    _forget_older(gateway, name, snapshot)
    return table


def path_exists(gateway: Gateway, path: str) -> bool:
    """Whether delta.`path` is a table."""
    return open_table(gateway.spark, target_of_path(session_moment(gateway), path).location).exists()


def _uri(gateway: Gateway, url: str) -> JavaObject:
    return gateway.java_class("org.apache.hadoop.fs.Path")(url).toUri()


def _properties(gateway: Gateway, snapshot: Snapshot, target: Target) -> JavaObject:
    """The options that the relation is made with. A moment has become the version it stands for."""
    return gateway.scala_map({"versionAsOf": str(snapshot.version)} if target.is_pinned else {})


def _catalog_name(target: Target, snapshot: Snapshot, at: str) -> str:
    """Spark keeps a relation by the table's full name, so that the name of a version must be its own; only its first part is not seen."""
    return f"{SESSION_CATALOG}@v{snapshot.version}" if at and target.is_pinned else SESSION_CATALOG


# --- names


def named_table(gateway: Gateway, table: JavaObject, at: str) -> JavaObject:
    """A Delta table of the session's catalog as its log has it, at a version if one is asked for.

    Raises:
        TableNotFoundError: the catalog's entry is there, and the table is not.
    """
    location = table.location().toString()
    target = target_of_catalog(session_moment(gateway), location, at)
    snapshot = remember(target.snapshot(open_table(gateway.spark, target.location)))
    storage = table.storage()
    fields = {
        "schema": gateway.struct_of_json(visible_schema(snapshot.schema).to_json()),
        "partitionColumnNames": gateway.seq(snapshot.partition_columns),
        "tracksPartitionsInCatalog": False,
    }
    if target.is_pinned:
        options = {**gateway.dict(storage.properties()), "versionAsOf": str(snapshot.version)}
        fields["storage"] = gateway.changed(storage, properties=gateway.scala_map(options))
        fields["identifier"] = gateway.changed(table.identifier(), catalog=gateway.option(_catalog_name(target, snapshot, at)))
    if table.stats().isDefined() and not table.properties().get(ANALYZED_VERSION).contains(str(snapshot.version)):
        fields["stats"] = gateway.option(None)  # of another version
    _forget_older(gateway, table.identifier(), snapshot)
    return gateway.changed(table, **fields)


def _forget_older(gateway: Gateway, name: JavaObject, snapshot: Snapshot) -> None:
    """Spark keeps the relation of a name; one of an older version may have another schema, and must not be found any more."""
    catalog = gateway.session.sessionState().catalog()
    qualified = catalog.qualifyIdentifier(name)
    key = gateway.java_class("org.apache.spark.sql.catalyst.QualifiedTableName")(
        qualified.catalog().get(), qualified.database().get(), qualified.table()
    )
    kept = catalog.getCachedTable(key)
    if kept is None:
        return
    files = kept.relation().location() if hasattr(kept, "relation") else None
    if files is None or files.version() != snapshot.version or files.metadata() != metadata_identity(snapshot):
        catalog.invalidateCachedTable(key)


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A Delta table's place: its name, if it has one, and its location."""

    name: str | None
    location: str


def location_of(spark: SparkSession, name: str) -> str:
    """The location of a Delta table by what a user calls it: a name of the session's catalog, or delta.`path`.

    Raises:
        TableNotFoundError: there is no such name.
        NotADeltaTableError: the name is another kind of table's, or a view's.
    """
    gateway = Gateway(spark)
    parts = list(gateway.items(gateway.session.sessionState().sqlParser().parseMultipartIdentifier(name).iterator()))
    if len(parts) == 2 and parts[0].lower() == PROVIDER and "/" in parts[1]:
        return str(parts[1])
    table = catalog_table(gateway, parts)
    if table is None:
        raise TableNotFoundError(table=name)
    if not is_delta(table):
        raise NotADeltaTableError(table=name)
    return normalise(table.location().toString())


def catalog_table(gateway: Gateway, parts: list[str]) -> JavaObject | None:
    """A table or view of the session's catalog, as the catalog describes it; None where there is none of that name."""
    catalog = gateway.session.sessionState().catalog()
    names = parts[1:] if len(parts) == 3 and parts[0].lower() == SESSION_CATALOG else parts
    identifier = gateway.java_class("org.apache.spark.sql.catalyst.TableIdentifier")
    name = identifier(names[-1], gateway.option(names[-2] if len(names) > 1 else None))
    return catalog.getTableMetadata(name) if catalog.tableExists(name) else None


def catalog_entry(gateway: Gateway, identifier: JavaObject) -> JavaObject | None:
    """The `CatalogTable` of a `TableIdentifier`; None where it names a temporary view, or nothing."""
    catalog = gateway.session.sessionState().catalog()
    if catalog.isTempView(identifier) or not catalog.tableExists(identifier):
        return None
    return catalog.getTableMetadata(identifier)


def is_delta(table: JavaObject) -> bool:
    """Whether a `CatalogTable` is ours."""
    provider = table.provider()
    return bool(provider.isDefined() and provider.get().lower() == PROVIDER)
