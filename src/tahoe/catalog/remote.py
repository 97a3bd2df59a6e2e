"""`Catalog` over a server: `tahoe.Catalog("http://host:8080", token=...)`.

The server decides who commits to a table; files are read and written by the client itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, NoReturn

from tahoe._cached import Recent
from tahoe.catalog.catalog import KNOWN_MAX, Catalog, empty
from tahoe.catalog.entries import ListedMoment, TableEntry
from tahoe.catalog.names import parts_of
from tahoe.catalog.ratification import TableChange
from tahoe.catalog.remote_credentials import ServerCredentials
from tahoe.catalog.server_calls import ServerCalls
from tahoe.catalog.views import View, check_view
from tahoe.errors import (
    CatalogRefusedError,
    CatalogTableNotFoundError,
    CatalogUnavailableError,
    CatalogUrlError,
    CatalogViewNotFoundError,
    StorageRefusedError,
    StorageUnavailableError,
    TableNotManagedError,
)
from tahoe.errors.root import cause_text
from tahoe.storage.local import no_new_folder_left
from tahoe.storage.ratified import Ratified, RatifiedCommit
from tahoe.table.table import Table

_COMMITS = "/delta/preview/commits"

# What Unity Catalog's interface does not have.
_OWN = "/api/tahoe"

_CONFLICT = "COMMIT_VERSION_CONFLICT"

# A kind of what the server lists among its tables.
_VIEW = "VIEW"

# The table was dropped, or given back to its path.
_GONE = ("TABLE_NOT_FOUND", "TABLE_NOT_MANAGED")


@dataclass(slots=True)
class RemoteCommits:
    """The `TableCommits` of a table, which a server ratifies.

    Attributes:
        first: what is known here of a new table, before the server knows it; None afterwards.
    """

    calls: ServerCalls
    table_id: str
    table: str
    first: Ratified | None = None

    def ratified(self) -> Ratified:
        if self.first is not None:
            return self.first
        return _ratified_in(self._call("read the ratified commits", "GET", start_version=0))

    def ratify(self, commit: RatifiedCommit) -> bool:
        if self.first is not None:
            is_first = self.first.latest < 0 and commit.version == 0
            self.first = Ratified(0, (commit,)) if is_first else self.first
            return is_first
        told = self._call(f"ratify version {commit.version}", "POST", commit_info=_info(commit))
        return "error_code" not in told

    def may_describe(self, version: int) -> bool:  # noqa: ARG002
        return True

    def published(self, version: int) -> None:
        if self.first is not None:
            self.first = Ratified(self.first.latest)
        else:
            self._call(f"forget commits up to version {version}", "POST", latest_backfilled_version=version)

    def _call(self, operation: str, method: str, **given: Any) -> Mapping[str, Any]:
        body = {"table_id": self.table_id, "table_uri": self.table, **given}
        try:
            return self.calls.call(method, _COMMITS, body, outcomes=(_CONFLICT,))
        except CatalogUnavailableError as error:
            raise StorageUnavailableError(table=self.table, operation=operation, detail=cause_text(error)) from error
        except CatalogRefusedError as error:
            if error.parameters["code"] in _GONE:
                raise TableNotManagedError(table=self.table) from error
            raise StorageRefusedError(table=self.table, operation=operation, detail=cause_text(error)) from error


def _info(commit: RatifiedCommit) -> dict[str, Any]:
    """A commit as the server is told of it."""
    return {
        "version": commit.version,
        "file_name": commit.file,
        "file_size": commit.size_bytes,
        "file_modification_timestamp": commit.modified_ms,
    }


def _ratified_in(told: Mapping[str, Any]) -> Ratified:
    """What a server tells of a table's commits."""
    commits = (
        RatifiedCommit(
            version=info["version"],
            file=info["file_name"],
            size_bytes=info["file_size"],
            modified_ms=info["file_modification_timestamp"],
        )
        for info in told["commits"]
    )
    return Ratified(told["latest_table_version"], tuple(sorted(commits, key=lambda commit: commit.version)))


@dataclass(frozen=True, slots=True)
class RemoteRatifier:
    """The `Ratifier` of a server.

    Attributes:
        unity, own: the two interfaces of the server: that of Unity Catalog, and what this does not have.
    """

    unity: ServerCalls
    own: ServerCalls

    def moment(self) -> ListedMoment:
        try:
            told = self.own.call("GET", "/tables")
        except CatalogRefusedError as error:
            if error.parameters["code"] in ("404", "NOT_FOUND"):
                detail = "it is no server of tahoe, or an older one, and ratifies the commits of one table at a time"
                raise _not_served(self.own.url, "change or read several tables at once", detail) from error
            raise
        return ListedMoment(
            TableEntry(
                id=found["id"],
                name=found["name"],
                url=found["url"],
                kind=found["kind"],
                comment=found["comment"],
                latest_version=found["latest_version"],
                unpublished=0,
            )
            for found in told["tables"]
        )

    def ratified(self, entry: TableEntry) -> Ratified:
        return self._ratified(entry.id, entry.url)

    def ratify(self, changes: Sequence[TableChange]) -> str | None:
        tables = [
            {
                "table_id": change.table_id,
                "table_uri": change.url,
                "version": change.base,
                "commits": [_info(commit) for commit in change.commits],
            }
            for change in changes
        ]
        try:
            told = self.own.call("POST", "/transactions", {"tables": tables}, outcomes=(_CONFLICT,))
        except CatalogRefusedError as error:
            if error.parameters["code"] in _GONE and (gone := self._gone(changes)) is not None:
                return gone
            raise
        return str(told["details"][0]["table_id"]) if "error_code" in told else None

    def _gone(self, changes: Sequence[TableChange]) -> str | None:
        for change in changes:
            try:
                self._ratified(change.table_id, change.url)
            except FileNotFoundError:
                return change.table_id
        return None

    def _ratified(self, table_id: str, url: str) -> Ratified:
        body = {"table_id": table_id, "table_uri": url, "start_version": 0}
        try:
            return _ratified_in(self.unity.call("GET", _COMMITS, body))
        except CatalogRefusedError as error:
            if error.parameters["code"] in _GONE:
                raise TableNotManagedError(table=url) from error
            raise


def _not_served(url: str, operation: str, detail: str) -> CatalogRefusedError:
    return CatalogRefusedError(url=url, code="UNIMPLEMENTED", detail=f"it cannot {operation}: {detail}")


class RemoteCatalog(Catalog):
    """A catalog of a server, with the calls of `Catalog` that its interface has."""

    def __init__(
        self,
        url: str,
        *,
        root: str | None = None,  # noqa: ARG002 - the server has one
        storage_options: Mapping[str, str] | None = None,
        token: str | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._calls = ServerCalls(self.url, token)
        self._own = replace(self._calls, prefix=_OWN)
        self._ratifier = RemoteRatifier(self._calls, self._own)
        self.credentials = ServerCredentials(self._calls, dict(storage_options or {}))
        self._env_at = self.credentials.env_at
        self._making: dict[str, RemoteCommits] = {}
        self._known = Recent(KNOWN_MAX)
        catalogs = self._calls.call("GET", "/catalogs")["catalogs"]
        if not catalogs:
            raise self._not_served("be read", "nothing of it was granted to the owner of this token")
        self.name = str(catalogs[0]["name"])

    @property
    def engine(self) -> NoReturn:  # type: ignore[override]  # there is none
        raise CatalogUrlError(url=self.url, detail="it is a server, and this needs its database")

    # --- schemas

    def create_schema(self, name: str, *, comment: str | None = None, if_not_exists: bool = False) -> None:
        if not (if_not_exists and name.lower() in self.schemas()):
            body = {"catalog_name": self.name, "name": name, "comment": comment}
            self._calls.named(f"a schema {name}", "POST", "/schemas", body)

    def schemas(self) -> list[str]:
        return [found["name"] for found in self._calls.pages("/schemas", "schemas", catalog_name=self.name)]

    def drop_schema(self, name: str, *, cascade: bool = False) -> None:
        for view in self.views(name) if cascade else ():
            self.drop_view(view)
        for entry in self.tables(name) if cascade else ():
            self.drop_table(entry.name)
        self._calls.named(name, "DELETE", f"/schemas/{self.name}.{name}")

    # --- tables

    @contextmanager
    def new_table(
        self, name: str, *, location: str | None = None, comment: str | None = None
    ) -> Iterator[tuple[str, str]]:
        if location is not None:
            raise self._not_served(f"make {name} in a folder of your choice", "it gives each table a folder")
        schema, table = parts_of(name)
        names = {"catalog_name": self.name, "schema_name": schema, "name": table}
        staging = self._calls.named(f"a table {name}", "POST", "/staging-tables", names)
        table_id, url = staging["id"], staging["staging_location"]
        self._making[table_id] = commits = RemoteCommits(self._calls, table_id, url, Ratified())
        try:
            with no_new_folder_left(url):
                try:
                    yield table_id, url
                except BaseException:  # the server does not know the table yet
                    empty(self._env_at(url))
                    raise
            self._store(table_id, url).publish()
            entry = {**names, "table_type": "MANAGED", "storage_location": url, "comment": comment}
            self._calls.named(f"a table {name}", "POST", "/tables", entry)
        finally:
            del self._making[table_id]
        commits.first = None

    def register_table(self, name: str, location: str) -> Table:
        raise self._not_served(f"register the table in {location} as {name}", "it makes its tables itself")

    def release_table(self, name: str) -> Table:
        raise self._not_served(f"give {name} back to its path", "its interface ends the management of no table")

    def folder_of(self, name: str) -> tuple[str | None, str]:
        found = self._calls.named(name, "GET", f"/tables/{self._full(name)}")
        if found["table_type"] == _VIEW:
            raise CatalogTableNotFoundError(url=self.url, name=name)
        return found["table_id"] if found["table_type"] == "MANAGED" else None, found["storage_location"]

    def table_at(self, url: str) -> str | None:  # noqa: ARG002
        """None: the interface of a server finds tables by their names alone."""
        return None

    def tables(self, schema: str | None = None) -> list[TableEntry]:
        """The tables of a schema, or all tables, by their names. Of unpublished commits the server does not tell."""
        return [
            TableEntry(
                id=found["table_id"],
                name=f"{found['schema_name']}.{found['name']}",
                url=found["storage_location"],
                kind=found["table_type"].lower(),
                comment=found.get("comment"),
                latest_version=found.get("latest_table_version", -1),
                unpublished=0,
            )
            for found in self._listed(schema)
            if found["table_type"] != _VIEW
        ]

    def _listed(self, schema: str | None) -> Iterator[Mapping[str, Any]]:
        """Tables and views."""
        for each in self.schemas() if schema is None else [schema]:
            yield from self._calls.pages("/tables", "tables", catalog_name=self.name, schema_name=each)

    def _full(self, name: str) -> str:
        return ".".join((self.name, *parts_of(name)))

    def drop_table(self, name: str) -> None:
        self._calls.named(name, "DELETE", f"/tables/{self._full(name)}")

    def rename_table(self, name: str, new_name: str) -> None:  # noqa: ARG002
        raise self._not_served(f"rename {name}", "its interface has no renames")

    # --- views

    def create_view(self, name: str, view: View, *, replace: bool = False) -> None:
        check_view(view, name)
        schema, short = parts_of(name)
        names = {"catalog_name": self.name, "schema_name": schema, "name": short}
        body = {**names, "view": asdict(view), "replace": replace}
        self._own.named(f"a table or a view {name}", "POST", "/views", body)

    def view(self, name: str) -> View:
        """A view of the server. A name that it does not have costs no call of tahoe's own interface."""
        with self._view_found(name):
            if self._calls.named(name, "GET", f"/tables/{self._full(name)}")["table_type"] != _VIEW:
                raise CatalogViewNotFoundError(url=self.url, name=name)
            return View.from_json(json.dumps(self._own.named(name, "GET", f"/views/{self._full(name)}")["view"]))

    def views(self, schema: str | None = None) -> list[str]:
        return [
            f"{found['schema_name']}.{found['name']}" for found in self._listed(schema) if found["table_type"] == _VIEW
        ]

    def drop_view(self, name: str) -> None:
        with self._view_found(name):
            self._own.named(name, "DELETE", f"/views/{self._full(name)}")

    @contextmanager
    def _view_found(self, name: str) -> Iterator[None]:
        try:
            yield
        except CatalogTableNotFoundError as error:
            raise CatalogViewNotFoundError(url=self.url, name=name) from error

    def _not_served(self, operation: str, detail: str) -> CatalogRefusedError:
        return _not_served(self.url, operation, detail)

    def _commits(self, table_id: str, url: str) -> RemoteCommits:
        return self._making.get(table_id) or RemoteCommits(self._calls, table_id, url)
