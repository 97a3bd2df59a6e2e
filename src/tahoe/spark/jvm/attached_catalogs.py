"""The catalogs that a session has attached by settings, their tables by names and by folders, and the blocks in which
sessions change several of them at once.

    spark.sql.catalog.lake       delta.AttachedCatalog
    spark.sql.catalog.lake.url   sqlite:////data/lake.db
    spark.sql.catalog.lake.root  /data/lake

A server's catalog has a token instead of a root. The settings of Unity Catalog's own connector say the same.

Spark's plans refer to a table by its folder. So `table_cache` asks here who opens a folder: the catalog that manages
the table in it, and within a block that block.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from tahoe._cached import Recent
from tahoe.errors import (
    CatalogNameError,
    CatalogNotChosenError,
    CatalogTableNotFoundError,
    CatalogUnavailableError,
    CatalogUrlError,
    ConcurrentTransactionException,
    DeltaConcurrentModificationException,
    InvalidOptionError,
    OperationNotAllowedError,
    SchemaNotFoundError,
    TransactionConflictError,
    TransactionStateError,
)
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.hadoop_store import qualified_url
from tahoe.storage.env import Env, Watch

if TYPE_CHECKING:  # a catalog needs SQLAlchemy, which sessions without one do not
    from tahoe.catalog.catalog import Catalog
    from tahoe.catalog.remote_credentials import Handed
    from tahoe.catalog.transaction import CatalogTransaction
    from tahoe.table.table import Table

CLASS = "delta.AttachedCatalog"
OF_UNITY = "io.unitycatalog.spark.UCSingleCatalog"
SETTING = "spark.sql.catalog."

# The storage option of tables that are read in a block, with the block's id.
BLOCK = "fs.tahoe.block"

# So many folders are known to be managed without asking a catalog.
FOLDERS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class AttachedName:
    """The name of a table in an attached catalog."""

    catalog: str
    schema: str
    table: str

    @property
    def text(self) -> str:
        return f"{self.catalog}.{self.within}"

    @property
    def within(self) -> str:
        """The name within the catalog."""
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class ManagedTable:
    """A table by its catalog, which opens it.

    Attributes:
        url: its folder, as the catalog spells it.
    """

    catalog: Catalog
    id: str
    url: str

    def opened(self, env: Env) -> Table:
        """The table, in a folder that is opened already."""
        return self.catalog.opening_by(lambda _: env).open(self.id, self.url)


# Tells the credentials that a server has handed out, and asks for new ones before they expire.
Handing: TypeAlias = "Callable[[], Handed]"

# By the settings url, root and token.
_catalogs: dict[tuple[str, str | None, str | None], Catalog] = {}
_managed: Recent[str, ManagedTable] = Recent(FOLDERS_MAX)
# By the folder, as plans and the catalog spell it: which servers hand out credentials for it.
_handing: Recent[str, dict[int, tuple[Catalog, Handing]]] = Recent(2 * FOLDERS_MAX)


# --- catalogs


def attach(gateway: Gateway, name: str, place: Mapping[str, str]) -> None:
    """Attach a catalog to the session, and to sessions created from it.

    Args:
        place: its `url`, and its `root` or `token`.

    Raises:
        InvalidOptionError: the place has something else.
        CatalogUrlError, CatalogUnavailableError, NewerCatalogError: it cannot be opened.
    """
    unknown = sorted(place.keys() - {"url", "root", "token"})
    if unknown or "url" not in place:
        option, value = (unknown[0], place[unknown[0]]) if unknown else ("url", "missing")
        raise InvalidOptionError(option=option, value=value, table=name, detail="a catalog has url, root and token")
    _opened(place["url"], place.get("root"), place.get("token"))
    _set(gateway, name, place)


def _set(gateway: Gateway, name: str, place: Mapping[str, str]) -> None:
    settings = {SETTING + name: CLASS, **{f"{SETTING}{name}.{of}": value for of, value in place.items()}}
    shared = gateway.session.sharedState().conf()
    for setting, value in settings.items():
        gateway.spark.conf.set(setting, value)
        shared.set(setting, value)


def take_over(gateway: Gateway) -> None:
    """Attach the catalogs for which the session has settings of Unity Catalog's connector. Each is opened when it is
    first used.
    """
    settings = gateway.settings()
    for setting, value in settings.items():
        if value == OF_UNITY and setting != f"{SETTING}spark_catalog":
            place = {"url": settings.get(f"{setting}.uri", ""), "token": settings.get(f"{setting}.token")}
            _set(gateway, setting.removeprefix(SETTING), {of: text for of, text in place.items() if text})


def attached(gateway: Gateway, name: str) -> Catalog | None:
    """The catalog that the session has attached under a name; None if Spark has it from elsewhere, or not at all."""
    settings = gateway.spark.conf
    if settings.get(SETTING + name, None) != CLASS:
        return None
    url, root, token = (settings.get(f"{SETTING}{name}.{of}", None) for of in ("url", "root", "token"))
    if url is None:
        raise CatalogUrlError(url=name, detail=f"the setting {SETTING}{name}.url is missing")
    return _opened(url, root, token)


def _opened(url: str, root: str | None, token: str | None) -> Catalog:
    key = url, root, token
    if key not in _catalogs:
        from tahoe.catalog import Catalog  # noqa: PLC0415 - needs SQLAlchemy

        _catalogs[key] = Catalog(url, root=root, token=token)
    return _catalogs[key]


def attached_name(gateway: Gateway, parts: Sequence[str]) -> AttachedName | None:
    """The parts of a name in an attached catalog, by Spark's rules; None if it is not one."""
    if len(parts) == 3:
        return None if attached(gateway, parts[0]) is None else AttachedName(*parts)
    manager = gateway.session.sessionState().catalogManager()
    current = str(manager.currentCatalog().name())
    if len(parts) > 3 or attached(gateway, current) is None:
        return None
    namespace = [*map(str, manager.currentNamespace())] if len(parts) == 1 else []
    whole = [current, *namespace, *parts]
    return AttachedName(*whole) if len(whole) == 3 else None


def schemas(gateway: Gateway, name: str) -> list[str]:
    """The schemas of an attached catalog."""
    return attached_catalog(gateway, name).schemas()


def tables(gateway: Gateway, name: str, schema: str) -> list[str]:
    """The names of the tables in a schema of an attached catalog."""
    return [entry.name.partition(".")[2] for entry in attached_catalog(gateway, name).tables(schema)]


def attached_catalog(gateway: Gateway, name: str) -> Catalog:
    """An attached catalog.

    Raises:
        CatalogUrlError: it is not attached.
    """
    found = attached(gateway, name)
    if found is None:
        raise CatalogUrlError(url=name, detail=f"the setting {SETTING}{name} is not {CLASS} any more")
    return found


# --- tables


def table_url(gateway: Gateway, name: AttachedName) -> str | None:
    """The folder of a table of an attached catalog; None if there is none."""
    catalog, block, within = attached_catalog(gateway, name.catalog), block_of(gateway), name.within
    is_in_block = block is not None and block.catalog is catalog
    try:
        table_id, url = block.changes.folder_of(within) if block and is_in_block else catalog.folder_of(within)
    except (CatalogTableNotFoundError, SchemaNotFoundError, CatalogNameError):
        return None
    return note(gateway, catalog, table_id, url)


def note(gateway: Gateway, catalog: Catalog, table_id: str | None, url: str) -> str:
    """Note that a folder has a table of a catalog. Returns the folder as plans have it.

    Args:
        table_id: None if the catalog does not manage it.
    """
    folder = qualified_url(gateway, url)
    if table_id is not None:
        _managed.put(folder, ManagedTable(catalog, table_id, url))
    if catalog.credentials is not None:
        handing = catalog, partial(catalog.credentials.handed, url)
        for spelled in (folder, url):
            known = _handing.get(spelled) or _handing.put(spelled, {})
            known.setdefault(id(catalog), handing)
    return folder


def handing_at(gateway: Gateway, url: str) -> Handing | None:
    """Tells the credentials for a table's folder that a server hands out to the session; None if the session has no
    catalog of it, or no name of this catalog has led to the folder.
    """
    known = _handing.get(url)
    if not known:
        return None
    found = (known.get(id(attached(gateway, name))) for name in _names(gateway))
    return next((handing for _, handing in filter(None, found)), None)


def managed_at(url: str, *, asks: bool) -> ManagedTable | None:
    """The table in a folder, if a catalog that this process has opened manages it.

    Args:
        asks: whether to ask catalogs about a folder that no name has led to. One that does not answer is passed over:
            the log of a table that it manages tells so.
    """
    found = _managed.get(url)
    if found is None and asks:
        for catalog in list(_catalogs.values()):
            with suppress(CatalogUnavailableError):
                table_id = catalog.table_at(url)
                if table_id is not None:
                    return _managed.put(url, ManagedTable(catalog, table_id, url))
    return found


# --- blocks


@dataclass(frozen=True, slots=True)
class Block:
    """A transaction over several tables of one catalog, in which all statements of a session are.

    Attributes:
        id: of this process, for keys of tables.
        name: the catalog's name in the session.
        releases: release what its commits may need again until its end.
        opened: the tables that its statements have used, by their folders.
        as_written: while it ends, the tables that it has written, by their ids, as its statements have read them.
    """

    id: str
    name: str
    catalog: Catalog
    changes: CatalogTransaction
    manager: AbstractContextManager[CatalogTransaction]
    releases: list[Callable[[], None]] = field(default_factory=list)
    opened: dict[str, Table] = field(default_factory=dict)
    as_written: dict[str, Table] = field(default_factory=dict)

    def table(self, managed: ManagedTable | None) -> Table | None:
        """A table as the block sees it; None if it is not a table of the block's catalog, or was made after its
        begin.
        """
        if managed is None or managed.catalog is not self.catalog:
            return None
        table = self.as_written.get(managed.id) or self.changes.table_with(managed.id)
        if table is not None:
            self.opened[table.url] = table
        return table

    def written(self, gateway: Gateway) -> list[str]:
        """The folders of the tables that the block has committed to."""
        return [qualified_url(gateway, entry.url) for entry, _ in self.changes.written]


@dataclass(frozen=True, slots=True)
class OutsideOfBlock(Watch):
    """Refuses to change a table in a block that it is no part of.

    Attributes:
        catalog: of the block, by its name in the session.
    """

    catalog: str

    def begin(self, url: str) -> None:
        detail = (
            f"the session is in a transaction over tables of the catalog {self.catalog}, which is not undone for others"
        )
        remedy = "End the transaction first, or use a table of its catalog that was there when it began."
        raise OperationNotAllowedError(operation="A change", table=url, detail=detail, remedy=remedy)


_numbers = itertools.count(1)
# By their ids, and the ids by sessions.
_blocks: dict[str, Block] = {}
_of_sessions: dict[str, str] = {}


def begin(gateway: Gateway, name: str | None, env_at: Callable[[str], Env], *, is_serializable: bool) -> Block:
    """Begin a block in a session.

    Args:
        name: of the attached catalog; None for the current one, else for the only one.
        env_at: opens folders.

    Raises:
        TransactionStateError: the session has a block.
        CatalogNotChosenError: there is no such catalog, or none is named and there are several.
    """
    if block_of(gateway) is not None:
        raise TransactionStateError(detail="the session is in a transaction already, and there are none within others")
    chosen = name or _default(gateway)
    catalog = attached(gateway, chosen)
    if catalog is None:
        raise CatalogNotChosenError(name=chosen, known=", ".join(_names(gateway)) or "none")
    manager = catalog.opening_by(env_at).transaction(serializable=is_serializable)
    block = Block(str(next(_numbers)), chosen, catalog, manager.__enter__(), manager)
    _blocks[block.id] = block
    _of_sessions[_session(gateway)] = block.id
    return block


def _default(gateway: Gateway) -> str:
    current = str(gateway.session.sessionState().catalogManager().currentCatalog().name())
    names = _names(gateway)
    if current in names or len(names) == 1:
        return current if current in names else names[0]
    raise CatalogNotChosenError(name="no catalog", known=", ".join(names) or "none")


def _names(gateway: Gateway) -> list[str]:
    """The names of the attached catalogs."""
    settings = gateway.settings()
    return sorted(setting.removeprefix(SETTING) for setting, value in settings.items() if value == CLASS)


def name_of(gateway: Gateway, catalog: Catalog) -> str | None:
    """The name under which the session has attached a catalog; None if it has not."""
    return next((name for name in _names(gateway) if attached(gateway, name) is catalog), None)


def end(gateway: Gateway, *, commits: bool) -> None:
    """End the session's block.

    Raises:
        TransactionStateError: there is none.
        DeltaConcurrentModificationException: another writer's commit conflicts; nothing is visible.
    """
    block = block_of(gateway)
    if block is None:
        raise TransactionStateError(detail="the session is in no transaction")
    del _of_sessions[_session(gateway)]
    written = [entry for entry, _ in block.changes.written]
    tables = ((entry.id, block.changes.table_with(entry.id)) for entry in written)
    block.as_written.update({table_id: table for table_id, table in tables if table is not None})
    folders = zip(written, block.written(gateway), strict=True)
    names = {text: f"{block.name}.{entry.name}" for entry, url in folders for text in (url, entry.name)}
    try:
        if not commits:
            block.changes.roll_back()
        block.manager.__exit__(None, None, None)
    except DeltaConcurrentModificationException as error:
        raise _told(error, names) from error.__cause__
    finally:  # until then, conditions that are evaluated again read what they have read in the block
        del _blocks[block.id]
        for release in block.releases:
            release()


def _told(
    error: DeltaConcurrentModificationException, names: Mapping[str, str]
) -> DeltaConcurrentModificationException:
    """The conflict of a block's commit, with the table's name, and what to do with the block.

    Args:
        names: of the tables that the block has written, by their folders and by their names within the catalog.
    """
    table = error.parameters["table"]
    error.parameters["table"] = names.get(table, table)
    error.may_rerun |= isinstance(error, TransactionConflictError)
    can_help = error.may_rerun or error.is_of_columns or isinstance(error, ConcurrentTransactionException)
    again = "run the block again" if can_help else "run the block again only if it fits the table as it is now"
    return error.restate(f"Nothing of the transaction is visible, in none of its tables: {again}.")


def block_of(gateway: Gateway) -> Block | None:
    """The session's block, if it is in one."""
    return _blocks.get(_of_sessions.get(_session(gateway), "")) if _blocks else None


def at_end_of_block(gateway: Gateway, release: Callable[[], None]) -> None:
    """Release what a commit may need to be made again: with the end of the session's block, or now if it has none."""
    block = block_of(gateway)
    if block is None:
        release()
    else:
        block.releases.append(release)


def block_with(block_id: str) -> Block | None:
    """A block by its id; None if it has ended."""
    return _blocks.get(block_id)


def _session(gateway: Gateway) -> str:
    return str(gateway.session.sessionUUID())
