"""Where the name of a new table is: in the session's catalog, or in an attached one.

The session's catalog gets a name behind the commit that creates the table: until then nobody finds it. An attached
catalog gets it before, because it decides who owns that commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from pyspark.errors import AnalysisException

from tahoe.errors import (
    CatalogNameTakenError,
    CatalogTableNotFoundError,
    InvalidOptionError,
    OperationNotAllowedError,
    TableExistsError,
    UnsupportedOperationError,
)
from tahoe.spark.jvm.attached_catalogs import AttachedName, attached_catalog, block_of, note, table_url
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.hadoop_store import url_of_uri
from tahoe.spark.jvm.statements.catalog_entries import PROVIDER, is_delta, new_entry, session_catalog
from tahoe.spark.jvm.table_cache import session_env

if TYPE_CHECKING:
    from tahoe.catalog.catalog import Catalog


@dataclass(frozen=True, slots=True)
class TableLocation:
    """Where a table is or will be. `is_known`: the catalog has the table.

    Attributes:
        url: empty if the catalog chooses it when it gives the name (`TableName.given`).
    """

    url: str
    is_external: bool
    is_known: bool


@dataclass(frozen=True, slots=True)
class Given:
    """Where a table gets its name, and the properties that the catalog demands of it."""

    place: TableLocation
    properties: Mapping[str, str]


class TableName(Protocol):
    """The name of a table in a catalog."""

    @property
    def text(self) -> str:
        """For errors."""

    def exists(self) -> bool:
        """Whether the catalog has the name now."""

    def place(self, location: str | None) -> TableLocation:
        """Where the table is or will be: where the catalog has it, else the statement's location, else where the
        catalog puts new tables.
        """

    def given(self, place: TableLocation, comment: str | None) -> AbstractContextManager[Given]:
        """The block that commits a version of the table. If it fails, the name is as before."""

    def enter(self, place: TableLocation, options: Mapping[str, str], comment: str | None) -> None:
        """Add the name behind the commit, if the catalog does not have it yet; otherwise refresh what it knows.

        Raises:
            TableExistsError: another session has added the name since the statement began.
        """


@dataclass(frozen=True, slots=True)
class SessionName:
    """A name in the session's catalog.

    Attributes:
        identifier: a qualified `TableIdentifier`.
    """

    gateway: Gateway
    identifier: JavaObject

    @property
    def text(self) -> str:
        return str(self.identifier.unquotedString())

    def exists(self) -> bool:
        return bool(session_catalog(self.gateway).tableExists(self.identifier))

    def place(self, location: str | None) -> TableLocation:
        catalog = session_catalog(self.gateway)
        if self.exists():
            url = self._location_to_replace(catalog.getTableMetadata(self.identifier), location)
            return TableLocation(url, is_external=location is not None, is_known=True)
        if location is not None:
            return TableLocation(location, is_external=True, is_known=False)
        uri = catalog.defaultTablePath(self.identifier)
        return TableLocation(url_of_uri(self.gateway, uri), is_external=False, is_known=False)

    def _location_to_replace(self, entry: JavaObject, location: str | None) -> str:
        """The location of a table in the catalog."""
        if not is_delta(entry):  # a view has no location
            raise UnsupportedOperationError(
                operation="REPLACE TABLE",
                table=self.text,
                detail=f"{self.text} exists and is not a Delta table",
                remedy="Drop it first, or use another name.",
            )
        return _same(url_of_uri(self.gateway, entry.location()), location, self.text)

    @contextmanager
    def given(self, place: TableLocation, comment: str | None) -> Iterator[Given]:  # noqa: ARG002
        if not place.is_known:
            check_outside_of_block(self.gateway, "CREATE TABLE", self.text)
        yield Given(place, {})

    def enter(self, place: TableLocation, options: Mapping[str, str], comment: str | None) -> None:
        catalog = session_catalog(self.gateway)
        if place.is_known:
            catalog.refreshTable(self.identifier)
            return
        entry = new_entry(
            self.gateway,
            self.identifier,
            place.url,
            PROVIDER,
            is_external=place.is_external,
            options=options,
            comment=comment,
        )
        try:
            catalog.createTable(entry, False, False)
        except AnalysisException as error:
            if not self.exists():
                raise
            raise TableExistsError(table=self.text) from error


@dataclass(frozen=True, slots=True)
class ManagedName:
    """A name in an attached catalog, which manages the table."""

    gateway: Gateway
    name: AttachedName

    @property
    def text(self) -> str:
        return self.name.text

    def _catalog(self) -> Catalog:
        return attached_catalog(self.gateway, self.name.catalog)

    def _url(self) -> str | None:
        return table_url(self.gateway, self.name)

    def exists(self) -> bool:
        return self._url() is not None

    def place(self, location: str | None) -> TableLocation:
        found = self._url()
        if found is not None:
            return TableLocation(_same(found, location, self.text), is_external=False, is_known=True)
        return TableLocation(location or "", is_external=False, is_known=False)

    @contextmanager
    def given(self, place: TableLocation, comment: str | None) -> Iterator[Given]:
        from tahoe.catalog.registration import managed_properties  # noqa: PLC0415 - needs SQLAlchemy

        known, within = self._catalog(), self.name.within
        if place.is_known:
            table_id, _ = known.folder_of(within)
            yield Given(place, {} if table_id is None else managed_properties(table_id))
            return
        check_outside_of_block(self.gateway, "CREATE TABLE", self.text)
        catalog = known.opening_by(partial(session_env, self.gateway.spark))
        with ExitStack() as stack:
            try:
                made, url = stack.enter_context(catalog.new_table(within, location=place.url or None, comment=comment))
            except CatalogNameTakenError as error:
                raise TableExistsError(table=self.text) from error
            yield Given(replace(place, url=note(self.gateway, known, made, url)), managed_properties(made))

    def enter(self, place: TableLocation, options: Mapping[str, str], comment: str | None) -> None:
        """The block has entered it."""


def _same(found: str, location: str | None, name: str) -> str:
    """The location of a table that is replaced.

    Raises:
        InvalidOptionError: the statement gives another one.
    """
    if location is not None and location != found:
        raise InvalidOptionError(option="LOCATION", value=location, table=name, detail=f"the table is at {found}")
    return found


def table_name(gateway: Gateway, name: JavaObject | AttachedName | None) -> TableName | None:
    """The name of a statement: a qualified `TableIdentifier` of the session's catalog, or one of an attached catalog;
    None for a table that has only a path.
    """
    if name is None:
        return None
    return ManagedName(gateway, name) if isinstance(name, AttachedName) else SessionName(gateway, name)


# --- names of attached catalogs that change


def check_outside_of_block(gateway: Gateway, operation: str, name: str) -> None:
    """Refuse what a block of changes cannot undo.

    Raises:
        OperationNotAllowedError: the session is in a block.
    """
    if block_of(gateway) is not None:
        detail = "the session is in a transaction, which cannot undo it"
        raise OperationNotAllowedError(
            operation=operation, table=name, detail=detail, remedy="Do it before the transaction, or after it."
        )


def create_schema(gateway: Gateway, catalog: str, schema: str, comment: str | None) -> None:
    check_outside_of_block(gateway, "CREATE SCHEMA", f"{catalog}.{schema}")
    attached_catalog(gateway, catalog).create_schema(schema, comment=comment)


def drop_schema(gateway: Gateway, catalog: str, schema: str, *, cascade: bool) -> None:
    check_outside_of_block(gateway, "DROP SCHEMA", f"{catalog}.{schema}")
    attached_catalog(gateway, catalog).drop_schema(schema, cascade=cascade)


def drop_table(gateway: Gateway, name: AttachedName) -> None:
    """Remove a table's name. Nothing happens if another session has dropped it meanwhile."""
    check_outside_of_block(gateway, "DROP TABLE", name.text)
    with suppress(CatalogTableNotFoundError):
        attached_catalog(gateway, name.catalog).drop_table(name.within)


def rename_table(gateway: Gateway, name: AttachedName, new: AttachedName) -> None:
    check_outside_of_block(gateway, "ALTER TABLE ... RENAME", name.text)
    attached_catalog(gateway, name.catalog).rename_table(name.within, new.within)
