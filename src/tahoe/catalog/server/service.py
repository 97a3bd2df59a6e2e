"""What all calls of a server share: the catalog, its database, and the server's configuration."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import sqlalchemy as sa

from tahoe.catalog.catalog import Catalog
from tahoe.catalog.database import transaction
from tahoe.catalog.ratification import DatabaseRatifier
from tahoe.catalog.server.roles import check_installed
from tahoe.catalog.tables_of_database import IDENTITY
from tahoe.storage import system_env
from tahoe.storage.locations import normalise
from tahoe.table.reading.snapshot import Snapshot

# So many tables are known without reading their logs again.
_KNOWN_MAX = 1000


@dataclass(frozen=True, slots=True)
class Known:
    """The definition of a table at a version, without files, and its in-commit timestamp."""

    snapshot: Snapshot
    timestamp_ms: int


class Service:
    """A catalog as it is served.

    Args:
        name: of the catalog; a database has one.
        root: the folder in which new managed tables get theirs.
        credentials: what is handed out for storages, see `credentials`.
        needs_token: whether callers must present a token.
        calls_per_second: how many each token may make; None does not limit them.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        root: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        credentials: Mapping[str, Mapping[str, str]] | None = None,
        needs_token: bool = True,
        calls_per_second: float | None = None,
    ) -> None:
        self.catalog = Catalog(url, root=root, storage_options=storage_options)
        self.ratifier = DatabaseRatifier(self.begin)
        self.name, self.needs_token, self.calls_per_second = name, needs_token, calls_per_second
        self.root = None if root is None else normalise(root)
        self.credentials = {normalise(prefix): dict(given) for prefix, given in (credentials or {}).items()}
        check_installed(self.credentials)
        with self.begin() as connection:
            self.id = str(connection.execute(sa.select(IDENTITY.c.id)).scalar_one())
        self.env_at = partial(system_env, storage_options=storage_options)
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self) -> AbstractContextManager[sa.Connection]:
        """A transaction of the database."""
        return transaction(self.catalog.engine)

    def known(self, table_id: str, url: str, version: int) -> Known:
        """A version of a managed table, the newest one.

        Raises:
            DeltaError: its log cannot be read.
        """
        with self._lock:
            found = self._known.get(table_id)
        if found is None or found.snapshot.version != version:
            snapshot = self.catalog.open(table_id, url).snapshot(version)
            found = Known(snapshot.without_files(), snapshot.timestamp_ms)
            self.learn(table_id, found)
        return found

    def learn(self, table_id: str, known: Known) -> None:
        with self._lock:
            self._known[table_id] = known
            self._known.move_to_end(table_id)
            if len(self._known) > _KNOWN_MAX:
                self._known.popitem(last=False)
