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
class _Opened:
    """A store with credentials, when to renew them, and when they expire."""

    store: Store
    renew_ms: float
    expires_ms: float


@dataclass(slots=True)
class ServerCredentials:
    """Opens folders: with the options of the user, if they have credentials or the server has none, and otherwise with
    the server's.
    """

    calls: ServerCalls
    options: Mapping[str, str] = field(repr=False)
    _lock: Any = field(default_factory=threading.Lock, repr=False)
    _known: dict[str, _Opened] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return ServerCredentials, (self.calls, self.options)

    def env_at(self, url: str) -> Env:
        return env_of(url, self.store_at)

    def store_at(self, url: str) -> Store:
        has_own = any(part in name.lower() for name in self.options for part in _OWN)
        if has_own or scheme_of(url) == LOCAL_SCHEME:
            return open_store(url, self.options)
        return RenewedStore(url, partial(self._current, url))

    def _current(self, url: str) -> Store:
        with self._lock:
            now_ms = time.time_ns() / 1_000_000
            known = self._known.get(url)
            if known is None or now_ms >= known.renew_ms:
                try:
                    known = self._known[url] = self._opened(url, now_ms)
                except CatalogUnavailableError:
                    if known is None or now_ms >= known.expires_ms:
                        raise
            return known.store

    def _opened(self, url: str, now_ms: float) -> _Opened:
        told = self._told(url)
        given = {
            option: told[kind][name]
            for kind, names in _OPTIONS.items()
            for name, option in names.items()
            if name in told.get(kind, {})
        }
        expires_ms = float(told["expiration_time"])
        early_ms = min(_EARLY_MS, (expires_ms - now_ms) / 2)
        return _Opened(open_store(url, {**self.options, **given}), expires_ms - early_ms, expires_ms)

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
        current: the store with credentials that have not expired.
    """

    place: str
    current: Callable[[], Store] = field(compare=False, repr=False)

    @property
    def url(self) -> str:
        return self.place

    @property
    def inner(self) -> Store:  # type: ignore[override]  # it changes
        return self.current()

    def get(self, key: str) -> bytes:
        return self.inner.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.inner.get_range(key, start, length)

    def open(self, key: str, known: FileInfo | None = None) -> BinaryIO:
        return self.inner.open(key, known)
