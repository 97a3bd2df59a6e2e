"""Credentials for tables' folders that a catalog's server hands out, and that are renewed before they expire."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO

from tahoe.catalog.server_calls import ServerCalls
from tahoe.errors import CatalogRefusedError, CatalogUnavailableError
from tahoe.storage import env_of, open_store
from tahoe.storage.delegating import DelegatingStore
from tahoe.storage.env import Env, FileInfo, Store
from tahoe.storage.locations import scheme_of
from tahoe.storage.schemes import LOCAL_SCHEME

# Credentials are renewed so long before they expire, but not in the first half of their time: a request that has begun
# is then finished with them.
_EARLY_MS = 300_000

# A server that has given no credentials for a folder is asked again after this.
_NONE_MS = 600_000

# Parts of options that are credentials: who gives such has their own.
_OWN = ("key", "secret", "token", "sas", "password", "profile", "skip_signature", "credential")

# The options of each kind of credentials.
_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "aws_temp_credentials": {
        "access_key_id": "aws_access_key_id",
        "secret_access_key": "aws_secret_access_key",
        "session_token": "aws_session_token",
    },
    "azure_user_delegation_sas": {"sas_token": "azure_storage_sas_key"},
}


@dataclass(frozen=True, slots=True)
class Handed:
    """What a server has handed out for a folder.

    Attributes:
        options: the credentials, by the names of storage options; none if it has given none.
        renew_ms, expires_ms: when to ask for new ones, and when these expire.
    """

    options: Mapping[str, str] = field(repr=False)
    renew_ms: float
    expires_ms: float


@dataclass(slots=True)
class _Folder:
    """A folder, whose credentials one thread at a time asks for."""

    lock: Any = field(default_factory=threading.Lock)
    handed: Handed | None = None


@dataclass(slots=True)
class ServerCredentials:
    """Opens folders: with the options of the user, if they have credentials or the server has none, and otherwise with
    the server's.
    """

    calls: ServerCalls
    options: Mapping[str, str] = field(repr=False)
    _folders: dict[str, _Folder] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return ServerCredentials, (self.calls, self.options)

    def env_at(self, url: str) -> Env:
        return env_of(url, self.store_at)

    def store_at(self, url: str) -> Store:
        has_own = any(part in name.lower() for name in self.options for part in _OWN)
        if has_own or scheme_of(url) == LOCAL_SCHEME:
            return open_store(url, self.options)
        return RenewedStore(url, partial(self.handed, url), partial(self._opened, url))

    def _opened(self, url: str, handed: Handed) -> Store:
        return open_store(url, {**self.options, **handed.options})

    def handed(self, url: str) -> Handed:
        """The credentials for a folder, as the catalog spells it, which have not expired. The server is asked if there
        are none yet, or if they are to be renewed.

        Raises:
            CatalogUnavailableError: it did not answer, and those that are known have expired.
            CatalogRefusedError: it does not know the token any more.
        """
        folder = self._folders.setdefault(url, _Folder())
        with folder.lock:
            now_ms, known = time.time_ns() / 1_000_000, folder.handed
            if known is None or now_ms >= known.renew_ms:
                try:
                    known = folder.handed = self._asked(url, now_ms)
                except CatalogUnavailableError:
                    if known is None or now_ms >= known.expires_ms:
                        raise
            return known

    def _asked(self, url: str, now_ms: float) -> Handed:
        told = self._told(url)
        given = {
            option: told[kind][name]
            for kind, names in _OPTIONS.items()
            for name, option in names.items()
            if name in told.get(kind, {})
        }
        expires_ms = float(told["expiration_time"])
        early_ms = min(_EARLY_MS, (expires_ms - now_ms) / 2)
        return Handed(given, expires_ms - early_ms, expires_ms)

    def _told(self, url: str) -> Mapping[str, Any]:
        """Credentials to write, or, if that was not granted, to read. If the server gives none, there may be others in
        the environment, and what these may do the storage knows.
        """
        for operation in ("PATH_READ_WRITE", "PATH_READ"):
            try:
                return self.calls.call("POST", "/temporary-path-credentials", {"url": url, "operation": operation})
            except CatalogRefusedError as error:
                if error.parameters["code"] == "UNAUTHENTICATED":
                    raise
        return {"expiration_time": time.time_ns() / 1_000_000 + _NONE_MS}


@dataclass(frozen=True, slots=True)
class RenewedStore(DelegatingStore):
    """A store whose credentials are renewed.

    Attributes:
        handed: tells the credentials that have not expired.
        opens: opens the store with such.
    """

    place: str
    handed: Callable[[], Handed] = field(compare=False, repr=False)
    opens: Callable[[Handed], Store] = field(compare=False, repr=False)
    _opened: list[tuple[Handed, Store]] = field(default_factory=list, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return RenewedStore, (self.place, self.handed, self.opens)

    @property
    def url(self) -> str:
        return self.place

    @property
    def inner(self) -> Store:  # type: ignore[override]  # it changes
        handed, opened = self.handed(), self._opened
        if not opened or opened[-1][0] is not handed:  # another thread may have opened one: either is as good
            opened[:] = [(handed, self.opens(handed))]
        return opened[-1][1]

    def get(self, key: str) -> bytes:
        return self.inner.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.inner.get_range(key, start, length)

    def open(self, key: str, known: FileInfo | None = None) -> BinaryIO:
        return self.inner.open(key, known)
