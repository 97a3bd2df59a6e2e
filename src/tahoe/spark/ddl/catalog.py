"""Resolves delta.`path` and the names of Delta tables for Spark's catalogs.

A catalog has a table's name and location. Schema and partitioning come from the log, at the requested version.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from contextlib import suppress

from pyspark.sql import SparkSession

from tahoe.errors import NameOfAnotherKindError, TableNameNotFoundError
from tahoe.protocol.types.names import quoted
from tahoe.spark.ddl import views
from tahoe.spark.jvm.attached_catalogs import AttachedName, attached_name, table_url, tables
from tahoe.spark.jvm.gateway import JVM_ERRORS, Gateway, JavaObject
from tahoe.spark.jvm.hadoop_store import url_of_uri
from tahoe.spark.jvm.statements.catalog_entries import (
    SESSION_CATALOG,
    is_delta,
    is_delta_provider,
    session_catalog,
    table_identifier,
)
from tahoe.spark.jvm.statements.time_travel import session_moment, target_of_catalog, target_of_path
from tahoe.spark.jvm.table_cache import metadata_identity, open_table, remember, table_finder
from tahoe.spark.jvm.types import visible_schema

# A property of the catalog's entry, not of the table: the version for which the catalog's statistics were computed.
ANALYZED_VERSION = "tahoe.analyzedVersion"


def entry(gateway: Gateway, location: str, at: str) -> JavaObject:
    """Build the `delta.Entry` of a path or of an entry of the session's catalog, from the log at the requested or
    newest version.

    Raises:
        TableNotFoundError, NotADeltaTableError: there is not a Delta table. If this returned nothing instead, Spark
            would look for files.
    """
    target = target_of_catalog(session_moment(gateway), table_finder(gateway.spark), location, at)
    snapshot = remember(target.snapshot(open_table(gateway.spark, target.location)))
    return gateway.java_class("delta.Entry")(
        snapshot.url,
        visible_schema(snapshot.schema).to_json(),
        "\0".join(snapshot.partition_columns),
        snapshot.version,
        metadata_identity(snapshot),
        "" if not target.is_pinned else target.version if isinstance(target.version, str) else str(snapshot.version),
        ANALYZED_VERSION,
    )


def path_exists(gateway: Gateway, path: str) -> bool:
    """Whether there is a Delta table at the path of delta.`path`."""
    has_table = table_finder(gateway.spark)
    return has_table(target_of_path(session_moment(gateway), has_table, path).location)


# An error shows at most this many names.
_SHOWN_NAMES_MAX = 5


def location_of(spark: SparkSession, name: str) -> str:
    """The location of a Delta table, from a name in the session's catalog or delta.`path`.

    Raises:
        TableNameNotFoundError: the catalog does not have the name.
        NameOfAnotherKindError: the name is of a view, or of a table that is not a Delta table.
    """
    gateway = Gateway(spark)
    parts = name_parts(gateway, name)
    path = path_of(parts)
    if path is not None:
        return path
    attached = attached_name(gateway, parts)
    if attached is not None:
        return _attached_location(gateway, attached)
    table = catalog_table(gateway, parts)
    if session_catalog(gateway).isTempView(gateway.seq(parts)):
        raise NameOfAnotherKindError(table=name, kind="a temporary view")
    if table is None:
        raise name_not_found(gateway, name)
    if not is_delta(table):
        provider = table.provider()
        kind = f"a table of the format {provider.get()}" if provider.isDefined() else "a view"
        raise NameOfAnotherKindError(table=name, kind=kind)
    return url_of_uri(gateway, table.location())


def _attached_location(gateway: Gateway, name: AttachedName) -> str:
    found = table_url(gateway, name)
    if found is None and views.exists(gateway, name):
        raise NameOfAnotherKindError(table=name.text, kind="a view")
    if found is None:
        known = tables(gateway, name.catalog, name.schema)
        near = difflib.get_close_matches(name.table.lower(), known, n=_SHOWN_NAMES_MAX, cutoff=0.6)
        raise TableNameNotFoundError(table=name.text, near=f"; it has {', '.join(near)}" if near else "")
    return found


def name_not_found(gateway: Gateway, name: str) -> TableNameNotFoundError:
    """The error for a name that the catalog does not have, with the nearest names of its database."""
    catalog = session_catalog(gateway)
    parts, near = name_parts(gateway, name), list[str]()
    inside = in_session_catalog(gateway, parts)
    names, having = inside or parts, SESSION_CATALOG if inside is None else "it"
    database = names[-2] if len(names) == 2 else catalog.getCurrentDatabase()
    with suppress(
        *JVM_ERRORS
    ):  # there may be no such database, or it does not list its tables: that must not hide the error
        known = [str(found.table()) for found in gateway.items(catalog.listTables(database).iterator())]
        near = difflib.get_close_matches(names[-1].lower(), known, n=_SHOWN_NAMES_MAX, cutoff=0.6)
    return TableNameNotFoundError(table=name, near=f"; {having} has {', '.join(near)}" if near else "")


def name_parts(gateway: Gateway, name: str) -> list[str]:
    """The parts of a name, as the session's parser reads it."""
    return [
        str(part)
        for part in gateway.items(gateway.session.sessionState().sqlParser().parseMultipartIdentifier(name).iterator())
    ]


def name_within(gateway: Gateway, name: str, within: Sequence[str]) -> str:
    """A name as a view understands it, by the rules of Spark.

    Args:
        within: the catalog and database in which the view was made; empty outside of a view.
    """
    parts = name_parts(gateway, name)
    if not within or path_of(parts) is not None:
        return name
    if len(parts) == 1:
        parts = [*within, *parts]
    elif not gateway.session.sessionState().catalogManager().isCatalogRegistered(parts[0]):
        parts = [within[0], *parts]
    return ".".join(map(quoted, parts))


def qualified_name(spark: SparkSession, name: str) -> list[str]:
    """The catalog, the database and the name of a table; empty for delta.`path`."""
    gateway = Gateway(spark)
    parts = name_parts(gateway, name)
    if path_of(parts) is not None:
        return []
    attached = attached_name(gateway, parts)
    if attached is not None:
        return [attached.catalog, attached.schema, attached.table]
    database = [spark.catalog.currentDatabase()] if len(parts) == 1 else []
    return [*([SESSION_CATALOG] if len(parts) < 3 else []), *database, *parts]


def catalog_table(gateway: Gateway, parts: list[str]) -> JavaObject | None:
    """The `CatalogTable` of a table or view in the session's catalog; None if the catalog does not have the name."""
    catalog = session_catalog(gateway)
    names = in_session_catalog(gateway, parts)
    if names is None:
        return None
    name = table_identifier(gateway, names[-1], names[-2] if len(names) > 1 else None)
    return catalog.getTableMetadata(name) if catalog.tableExists(name) else None


def in_session_catalog(gateway: Gateway, parts: list[str]) -> list[str] | None:
    """The parts of a name without the session catalog; None if the name is in another catalog."""
    if len(parts) == 3 and parts[0].lower() == SESSION_CATALOG:
        return parts[1:]
    current = str(gateway.session.sessionState().catalogManager().currentCatalog().name())
    return parts if len(parts) <= 2 and current == SESSION_CATALOG else None


def names_delta_table(gateway: Gateway, parts: list[str]) -> bool:
    """Whether a name in a statement is delta.`path`, or of a Delta table in the session's catalog."""
    if path_of(parts) is not None:
        return True
    with suppress(*JVM_ERRORS):  # the table may be dropped meanwhile, or its database does not exist: Spark says so
        attached = attached_name(gateway, parts)
        if attached is not None:
            return table_url(gateway, attached) is not None
        table = catalog_table(gateway, parts)
        return table is not None and not session_catalog(gateway).isTempView(gateway.seq(parts)) and is_delta(table)
    return False


_PATH = re.compile(r"delta\.`((?:[^`]|``)+)`", re.IGNORECASE)


def path_of(parts: Sequence[str]) -> str | None:
    """The path of ``delta.`path` ``, given as the parts of a name; None for any other name."""
    return parts[1] if len(parts) == 2 and is_delta_provider(parts[0]) and "/" in parts[1] else None


def path_in(identifier: str) -> str | None:
    """The path of ``delta.`path` ``, given as text; None for any other identifier."""
    found = _PATH.fullmatch(identifier.strip())
    return found[1].replace("``", "`") if found else None
