"""Creates and reads the classes of Spark's session catalog: `TableIdentifier`, `CatalogTable`, Hadoop's `Path`.

Callers decide what the catalog is asked for. This module only knows the classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructType

from tahoe.protocol.types.column_metadata import generated, identity
from tahoe.spark.jvm.attached_catalogs import attached
from tahoe.spark.jvm.gateway import JVM_ERRORS, Gateway, JavaObject
from tahoe.spark.jvm.plans import kind_of

PROVIDER = "delta"
SESSION_CATALOG = "spark_catalog"

_CATALOG = "org.apache.spark.sql.catalyst.catalog."
_COMMANDS = "org.apache.spark.sql.execution.command."
_STRINGS = "org.apache.spark.sql.catalyst.util.CharVarcharUtils"

_PARQUET_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"

# Our own table classes in plans.
_OURS = frozenset({"delta.DefinedTable", "delta.WriteTable", "delta.Staged"})

# What Spark has resolved a name in a statement to.
_RESOLVED = frozenset(
    {"ResolvedIdentifier", "ResolvedNamespace", "ResolvedPersistentView", "ResolvedProcedure", "ResolvedTable"}
)


def session_catalog(gateway: Gateway) -> JavaObject:
    """The session's own catalog."""
    return gateway.session.sessionState().catalog()


# --- names


def table_identifier(gateway: Gateway, name: str, database: str | None) -> JavaObject:
    """A `TableIdentifier`."""
    return gateway.java_class("org.apache.spark.sql.catalyst.TableIdentifier")(name, gateway.option(database))


def identifier(gateway: Gateway, namespace: Sequence[str], name: str) -> JavaObject:
    """A V2 catalog's `Identifier`."""
    names = gateway.array(gateway.java_class("java.lang.String"), namespace)
    return gateway.java_class("org.apache.spark.sql.connector.catalog.Identifier").of(names, name)


def qualified_name(gateway: Gateway, given: JavaObject) -> JavaObject:
    """Convert a catalog's `Identifier` to a `TableIdentifier` of the session's catalog, with its database."""
    namespace = list(given.namespace())
    name = table_identifier(gateway, given.name(), namespace[-1] if namespace else None)
    return session_catalog(gateway).qualifyIdentifier(name)


def qualified_parts(gateway: Gateway, parts: Sequence[str]) -> tuple[str, ...]:
    """The parts of a table's name with its catalog and database, so that it means the same in every session. A name
    that begins with a catalog stays as it is, and so does delta.`/path`.
    """
    catalogs = gateway.session.sessionState().catalogManager()
    is_path = len(parts) > 1 and parts[0].lower() == PROVIDER and "/" in parts[1]
    if is_path or (len(parts) > 1 and catalogs.isCatalogRegistered(parts[0])):
        return tuple(parts)
    namespace = [] if len(parts) > 1 else [str(name) for name in catalogs.currentNamespace()]
    return (str(catalogs.currentCatalog().name()), *namespace, *parts)


def table_identifier_in(gateway: Gateway, plan: JavaObject) -> JavaObject | None:
    """The first `TableIdentifier` among a command's fields; None if there is none. The field's name differs from
    command to command.
    """
    return next((part for part in _parts(gateway, plan) if kind_of(part) == "TableIdentifier"), None)


def defined_table(gateway: Gateway, plan: JavaObject) -> JavaObject | None:
    """The `delta.DefinedTable` that a statement is about; None if it is not about a Delta table."""
    table = next((part.table() for part in _parts(gateway, plan) if kind_of(part) == "ResolvedTable"), None)
    return table if table is not None and our_class(table) == "DefinedTable" else None


def _parts(gateway: Gateway, plan: JavaObject) -> Iterator[JavaObject]:
    return (part for part in gateway.items(plan.productIterator()) if hasattr(part, "getClass"))


def catalog_in(gateway: Gateway, plan: JavaObject) -> JavaObject | None:
    """The catalog of the first table, name or schema among a command's fields; None if it has none there."""
    for part in _parts(gateway, plan):
        if kind_of(part) in _RESOLVED:
            return part.catalog()
        if kind_of(part) == "DataSourceV2Relation":
            return part.catalog().get() if part.catalog().isDefined() else None
    return None


def is_of_our_catalog(catalog: JavaObject | None) -> bool:
    """Whether a catalog is the session's, of our class, or an attached one."""
    return catalog is not None and str(catalog.getClass().getName()).startswith("delta.")


def subject_of(gateway: Gateway, plan: JavaObject) -> str | None:
    """The name, or else the folder, that a command is about, for errors; None if none of its fields tells."""
    return next((text for part in _parts(gateway, plan) if (text := _named(gateway, part)) is not None), None)


def _named(gateway: Gateway, part: JavaObject) -> str | None:
    match kind_of(part):
        case "TableIdentifier" | "FunctionIdentifier":
            return str(part.unquotedString())
        case "CatalogTable":
            return str(part.identifier().unquotedString())
        case "ResolvedNamespace":
            return ".".join(map(str, (part.catalog().name(), *gateway.items(part.namespace().iterator()))))
        case "ResolvedProcedure":
            return f"{part.catalog().name()}.{part.ident()}"
        case kind if kind in _RESOLVED:
            return f"{part.catalog().name()}.{part.identifier()}"
        case "SubqueryAlias":
            return _named(gateway, part.child())
        case "LogicalRelation":
            return _named(gateway, part.catalogTable().get()) if part.catalogTable().isDefined() else None
        case "DataSourceV2Relation":
            return str(part.name())
        case "CatalogStorageFormat":
            return str(part.locationUri().get()) if part.locationUri().isDefined() else None
        case "IdentifierImpl" | "Path":
            return str(part)
    return None


def our_class(table: JavaObject) -> str | None:
    """The simple class name of one of our tables in a plan; None for any other table."""
    name = str(table.getClass().getName())
    return name.rpartition(".")[2] if name in _OURS else None


def shows_whole_tables(plan: JavaObject) -> bool:
    """Whether a `ShowTablesCommand` is SHOW TABLE EXTENDED without PARTITION."""
    return bool(plan.isExtended() and not plan.partitionSpec().isDefined())


def table_of_relation(relation: JavaObject) -> JavaObject | None:
    """The V2 table of a relation; None for another relation."""
    if kind_of(relation) == "DataSourceV2ScanRelation":
        relation = relation.relation()
    return relation.table() if kind_of(relation) == "DataSourceV2Relation" else None


# --- entries


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """What the session's catalog knows about a Delta table.

    Attributes:
        name: quoted; None if the catalog does not have the table, which then has only a path.
    """

    name: str | None
    owner: str
    is_managed: bool


def table_entry(gateway: Gateway, target: JavaObject) -> TableEntry:
    """The entry of a `delta.DefinedTable`."""
    entry = target.v1Table()
    catalog = entry.identifier().catalog()
    is_attached = catalog.isDefined() and attached(gateway, str(catalog.get())) is not None
    is_known = is_attached or has_entry(gateway, entry.identifier())
    name = str(entry.identifier().quotedString()) if is_known else None
    return TableEntry(name=name, owner=str(entry.owner()), is_managed=is_managed(entry))


def has_entry(gateway: Gateway, identifier: JavaObject) -> bool:
    """Whether a `TableIdentifier` is of a table in the session's catalog, which itself would ignore that it is in
    another one.
    """
    catalog = identifier.catalog()
    is_in_session = not catalog.isDefined() or str(catalog.get()).partition("@")[0] == SESSION_CATALOG
    return is_in_session and bool(session_catalog(gateway).tableExists(identifier))


def tables_extended(gateway: Gateway, plan: JavaObject) -> list[JavaObject]:
    """The rows of SHOW TABLE EXTENDED: Spark's rows, with those of Delta tables replaced, because the catalog does not
    have their columns.

    Args:
        plan: Spark's `ShowTablesCommand`.
    """
    catalog = session_catalog(gateway)
    names = gateway.session.sessionState().catalogManager().catalog(SESSION_CATALOG)
    rows = []
    for row in gateway.items(plan.run(gateway.session).iterator()):
        namespace, name, is_temporary = row.getString(0), row.getString(1), row.getBoolean(2)
        table = table_identifier(gateway, name, namespace)
        with suppress(
            *JVM_ERRORS
        ):  # the table or its folder may be deleted by now, which must not hide the other tables
            if not is_temporary and is_delta(catalog.getTableMetadata(table)):
                delta_table = names.loadTable(identifier(gateway, [namespace], name))
                row = gateway.row(namespace, name, is_temporary, delta_table.v1Table().simpleString() + "\n")
        rows.append(row)
    return rows


def new_entry(
    gateway: Gateway,
    name: JavaObject,
    url: str,
    provider: str,
    *,
    is_external: bool,
    options: Mapping[str, str],
    comment: str | None,
) -> JavaObject:
    """A new `CatalogTable` without columns, because the log has the columns."""
    kinds = gateway.module(_CATALOG + "CatalogTableType")
    storage = gateway.changed(
        gateway.module(_CATALOG + "CatalogStorageFormat").empty(),
        locationUri=gateway.option(folder(gateway, url).toUri()),
        properties=gateway.scala_map(options),
    )
    columns = gateway.struct_of_json('{"type":"struct","fields":[]}')
    kind = kinds.EXTERNAL() if is_external else kinds.MANAGED()
    entry = gateway.build(_CATALOG + "CatalogTable", name, kind, storage, columns, gateway.option(provider))
    return gateway.changed(entry, comment=gateway.option(comment))


def is_delta(entry: JavaObject) -> bool:
    """Whether a `CatalogTable`, or a plan that defines a table, has Delta's provider."""
    provider = entry.provider()
    return is_delta_provider(provider.get() if provider.isDefined() else None)


def is_delta_provider(provider: str | None) -> bool:
    """Whether a provider, of USING or of a catalog's entry, is Delta. `delta.Names` has the same rule, for questions of
    every query.
    """
    return provider is not None and provider.lower() == PROVIDER


def is_view(entry: JavaObject) -> bool:
    """Whether a `CatalogTable` is a view."""
    return str(entry.tableType().name()) == "VIEW"


def provider_of(entry: JavaObject) -> str:
    """The format of a `CatalogTable` in lower case; of a Hive table, that of its files where Spark's own reader reads
    them.
    """
    provider = str(entry.provider().get()).lower() if entry.provider().isDefined() else "hive"
    serde = entry.storage().serde()
    return "parquet" if provider == "hive" and serde.isDefined() and serde.get() == _PARQUET_SERDE else provider


def properties_of(gateway: Gateway, entry: JavaObject) -> dict[str, str]:
    """The properties of a `CatalogTable`."""
    return gateway.texts(gateway.module("scala.jdk.javaapi.CollectionConverters").asJava(entry.properties()))


def partitions_of(gateway: Gateway, entry: JavaObject) -> list[tuple[dict[str, str], str | None]]:
    """The partitions of a table: their values, and the locations of those that have one, unescaped."""
    partitions = []
    for part in gateway.items(
        session_catalog(gateway).listPartitions(entry.identifier(), gateway.option(None)).iterator()
    ):
        place = part.storage().locationUri()
        partitions.append(
            (gateway.dict(part.spec()), str(folder(gateway, place.get()).toString()) if place.isDefined() else None)
        )
    return partitions


def become_delta(gateway: Gateway, entry: JavaObject) -> None:
    """Change an entry of the session's catalog to that of a Delta table in the same folder. The log has its columns and
    properties.
    """
    catalog, nothing = session_catalog(gateway), gateway.option(None)
    storage = gateway.changed(entry.storage(), inputFormat=nothing, outputFormat=nothing, serde=nothing)
    columns = gateway.struct_of_json('{"type":"struct","fields":[]}')
    delta_entry = gateway.changed(
        entry,
        provider=gateway.option(PROVIDER),
        schema=columns,
        partitionColumnNames=gateway.seq([]),
        bucketSpec=nothing,
        properties=gateway.scala_map({}),
        storage=storage,
    )
    catalog.alterTable(delta_entry)
    catalog.refreshTable(entry.identifier())


def is_managed(entry: JavaObject) -> bool:
    """Whether the table is managed, so that DROP TABLE deletes its folder."""
    return str(entry.tableType().name()) == "MANAGED"


def analyze_table(gateway: Gateway, name: JavaObject, *, no_scan: bool) -> JavaObject:
    """Spark's command that computes statistics of a table."""
    return gateway.java_class(_COMMANDS + "AnalyzeTableCommand")(name, no_scan)


def analyze_columns(gateway: Gateway, name: JavaObject, columns: JavaObject, all_columns: JavaObject) -> JavaObject:
    """Spark's command that computes statistics of columns. `columns` and `all_columns` are the values in Spark's
    plan.
    """
    return gateway.java_class(_COMMANDS + "AnalyzeColumnCommand")(name, columns, all_columns)


# --- columns


def declared_columns(gateway: Gateway, columns: JavaObject) -> StructType:
    """The schema for the StructType that a statement declares. char and varchar become strings with the declared type
    in the metadata.
    """
    return gateway.schema(gateway.module(_STRINGS).replaceCharVarcharWithStringInSchema(columns))


def declared_column(gateway: Gateway, name: str, data_type: JavaObject, *, nullable: bool) -> StructType:
    """A schema with one column of a JVM type, converted as in `declared_columns`."""
    return declared_columns(
        gateway, gateway.java_class("org.apache.spark.sql.types.StructType")().add(name, data_type, nullable)
    )


def value_sources(columns: Iterable[JavaObject]) -> dict[str, dict[str, Any]]:
    """The metadata of generated and identity columns by their names, from Spark's `Column`s."""
    metadata_by_name: dict[str, dict[str, Any]] = {}
    for column in columns:
        expression, numbers = column.generationExpression(), column.identityColumnSpec()
        metadata = {} if expression is None else generated(str(expression))
        if numbers is not None:
            metadata |= identity(
                numbers.getStart(), numbers.getStep(), allow_explicit_insert=numbers.isAllowExplicitInsert()
            )
        metadata_by_name[str(column.name())] = metadata
    return metadata_by_name


def types_in_sql(gateway: Gateway, schema: str) -> list[str]:
    """The SQL types of columns, with char and varchar as they were declared.

    Args:
        schema: JSON of Spark's StructType.
    """
    return [
        str(field.dataType().sql())
        for field in gateway.module(_STRINGS).getRawSchema(gateway.struct_of_json(schema)).fields()
    ]


# --- folders


def folder(gateway: Gateway, place: str | JavaObject) -> JavaObject:
    """A Hadoop `Path` from a string or a URI."""
    return gateway.java_class("org.apache.hadoop.fs.Path")(place)


def nearest_with(gateway: Gateway, place: str, name: str) -> str | None:
    """The nearest folder, from a path upwards, that has a child of a name; None if none has."""
    path = folder(gateway, place)
    system = path.getFileSystem(gateway.session.sessionState().newHadoopConf())
    here = system.makeQualified(path)
    while here is not None:
        if system.exists(gateway.java_class("org.apache.hadoop.fs.Path")(here, name)):
            return str(here.toString())
        here = here.getParent()
    return None


def uri_of_text(gateway: Gateway, text: str) -> JavaObject:
    """The URI of the location in a statement, which may be a path."""
    return gateway.module(_CATALOG + "CatalogUtils").stringToURI(text)
