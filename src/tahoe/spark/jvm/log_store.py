"""A store whose log is read and written by a class of the user: `io.delta.storage.LogStore`, the reference's interface.

The reference lets such a class decide who commits (`spark.delta.logStore.class`, `spark.delta.logStore.<scheme>.impl`),
so whoever writes the same table must ask it too. It handles what the reference gives to it: the text files of the log,
which are commits, compacted commits, JSON checkpoints, version checksums and hints; the listing of the log; symlink
manifests, and what they call the table's folder. Everything else (data, Parquet checkpoints, sidecars, vectors, and
deleting) goes to the table's ordinary store.

The interface knows lines, not bytes: each line of a file that is read ends with a line feed, whatever was written.
Only the process that has started the JVM can use the class; in others, such as Spark's Python workers, the ordinary
store goes on to work.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from typing import Any, BinaryIO

from tahoe.errors import (
    NoGatewayError,
    SessionNotEnabledError,
    StorageRefusedError,
    StorageUnavailableError,
    UnknownLogStoreError,
)
from tahoe.protocol.log.log_files import LOG_FOLDER
from tahoe.spark.jvm.gateway import JVM_ERRORS, JavaObject, has_gateway, is_wrong_call, running_class
from tahoe.spark.jvm.hadoop_store import detail_of, files_of, is_any, settings_text
from tahoe.storage.coordinated import create
from tahoe.storage.delegating import DelegatingStore
from tahoe.storage.env import FileInfo, FileReplacedError, Store, byte_order, is_temporary
from tahoe.storage.locations import join, spelled
from tahoe.storage.service_options import log_store_class, own_log_stores
from tahoe.table.commit.symlink_manifests import is_manifest

# Settings of Spark's engine, which change between statements, and names of classes, which are those of the context.
_NOT_GIVEN = ("spark.sql.", "spark.databricks.", "spark.delta.logStore.", "delta.logStore.")

# No name in a log comes before it.
_FIRST_NAME = "0"

# What a Java array can hold.
_WHOLE = 2**31 - 1

_MISSING = frozenset({"java.io.FileNotFoundException", "java.nio.file.NoSuchFileException"})

_UNSUPPORTED = frozenset({"java.lang.UnsupportedOperationException"})

_OF_THE_REFERENCE = "org.apache.spark.sql.delta.storage"


def log_store_settings(
    context_settings: Mapping[str, str], session_settings: Callable[[], Mapping[str, str]]
) -> dict[str, str]:
    """What the stores of a session need for classes of the user. Empty if no setting of the context names one.

    Args:
        context_settings: of the Spark context, from which the reference takes the names of classes.
        session_settings: asks for the settings of the session, which the reference gives to a class.
    """
    named = own_log_stores(context_settings)
    if not named:
        return {}
    given = {name: value for name, value in session_settings().items() if not name.startswith(_NOT_GIVEN)}
    return {**given, **named}


def with_log_store(store: Store, log_settings: Mapping[str, str], storage_settings: Mapping[str, str]) -> Store:
    """The store with the class that the settings name for its scheme; the store itself if there is none.

    Args:
        log_settings: from `log_store_settings`.
        storage_settings: of the session and of a reader or writer; they take precedence.

    Raises:
        UnknownLogStoreError: the class cannot be called.
        SessionNotEnabledError: the session does not have our classes.
    """
    chosen = log_store_class(store.url, log_settings)
    if chosen is None:
        return store
    setting, name = chosen
    adapter = LogStoreAdapter(store, setting, name, {**log_settings, **storage_settings})
    if has_gateway():
        adapter.check()
    return adapter


@dataclass(frozen=True)
class LogStoreAdapter(DelegatingStore):
    """A `Store` over another one, with a class for the log.

    Args:
        inner: the store of all other files.
        setting: the setting that names the class.
        class_name: the class.
        settings: its settings, which take precedence over the Hadoop configuration; they may contain secrets and are
            not printed.
    """

    inner: Store
    setting: str
    class_name: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> Any:
        return LogStoreAdapter, (self.inner, self.setting, self.class_name, self.settings)

    def check(self) -> None:
        """Create the object of the class.

        Raises:
            UnknownLogStoreError: the class cannot be called.
            SessionNotEnabledError: the session does not have our classes.
        """
        try:
            self._java  # noqa: B018  the property loads the class
        except JVM_ERRORS as error:
            if is_wrong_call(error):
                raise SessionNotEnabledError() from error
            raise UnknownLogStoreError(
                table=self.url, setting=self.setting, value=self.class_name, detail=_why_not(error)
            ) from error

    def physical_url(self) -> str:
        with self._storage_errors("resolve", "the folder"):
            return spelled(str(self._java.resolve(self.url)))

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        if prefix != LOG_FOLDER:
            return self.inner.list_from(prefix, start_after)
        after = byte_order(start_after)
        with self._storage_errors("list", prefix):
            listing = self._java.list(self._path(start_after or f"{prefix}/{_FIRST_NAME}"))
        # A class may list a file twice, as the reference allows.
        listed = {info.key: info for info in files_of(f"{prefix}/", listing)}
        return (info for info in listed.values() if byte_order(info.key) > after and not is_temporary(info.key))

    def get(self, key: str) -> bytes:
        return self._read(key, _WHOLE) if _is_text(key) else self.inner.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if _is_text(key):
            return self._read(key, min(start + length, _WHOLE))[start : start + length]
        return self.inner.get_range(key, start, length)

    def head(self, key: str) -> FileInfo | None:
        """As the class lists it, also for a Parquet file of the log, so that it agrees with the listing."""
        if not _is_listed(key):
            return self.inner.head(key)
        with self._storage_errors("look at", key):
            found = files_of(f"{LOG_FOLDER}/", self._java.status(self._path(key)))
        return found[0] if found else None

    def open(self, key: str, known: FileInfo | None = None) -> BinaryIO:
        if _is_text(key):
            return BytesIO(self.get(key))
        if known is not None and _is_listed(key):  # the class gave it no tag, by which the store knows it again
            found = self.inner.head(key)
            if found is None or found.size_bytes != known.size_bytes:
                raise FileReplacedError(errno.ESTALE, "the file was replaced", join(self.url, key))
            known = found
        return self.inner.open(key, known)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        return self._write(key, data, overwrite=False) if _is_text(key) else create(self.inner, key, data)

    def put(self, key: str, data: bytes | BinaryIO) -> None:
        if _is_text(key) or is_manifest(key):
            self._write(key, data if isinstance(data, bytes) else data.read(), overwrite=True)
        else:
            self.inner.put(key, data)

    def copy_from(self, source: Store, key: str, to: str) -> None:
        if _is_text(key) or _is_text(to):
            self.put(to, source.get(key))
        else:
            super().copy_from(source, key, to)

    # --- calling the class

    @cached_property
    def _java(self) -> JavaObject:
        return running_class("delta.LogStoreAdapter").of(self.class_name, settings_text(self.settings))

    def _path(self, key: str) -> str:
        return join(self.url, key)

    def _read(self, key: str, at_least: int) -> bytes:
        with self._storage_errors("read", key, missing_passes=True):
            return bytes(self._java.read(self._path(key), at_least))

    def _write(self, key: str, data: bytes, *, overwrite: bool) -> bool:
        with self._storage_errors("write", key):
            return bool(self._java.write(self._path(key), data, overwrite))

    @contextmanager
    def _storage_errors(self, operation: str, key: str, *, missing_passes: bool = False) -> Iterator[None]:
        """Translate Java exceptions into our errors. None of a write is a refusal: the class may have done a part of
        its work before, which somebody else finishes. With `missing_passes` a missing file becomes a FileNotFoundError.
        """
        request = f"{operation} {key}"
        try:
            yield
        except NoGatewayError as error:
            detail = f"only the process that started Spark's JVM can call {self.class_name}"
            raise StorageRefusedError(table=self.url, operation=request, detail=detail) from error
        except JVM_ERRORS as error:
            if missing_passes and is_any(error, _MISSING):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._path(key)) from error
            detail = f"{self.class_name}: {detail_of(error)}"
            if operation == "resolve" and is_any(error, _UNSUPPORTED):
                raise StorageRefusedError(table=self.url, operation=request, detail=detail) from error
            raise StorageUnavailableError(table=self.url, operation=request, detail=detail) from error


def _is_listed(key: str) -> bool:
    """Whether a file is directly in the log."""
    return key.rpartition("/")[0] == LOG_FOLDER


def _is_text(key: str) -> bool:
    """Whether the reference reads and writes a file by its LogStore."""
    return _is_listed(key) and not key.endswith(".parquet")


# What the JVM says of a class that cannot be called, and what that means.
_REASONS = {
    "java.lang.ClassNotFoundException": "it is not on the class path of Spark's driver",
    "java.lang.NoSuchMethodException": "it has no public constructor that takes a Hadoop Configuration",
    "java.lang.IllegalAccessException": "it has no public constructor that takes a Hadoop Configuration",
    "java.lang.InstantiationException": "it is abstract",
}


def _why_not(error: BaseException) -> str:
    detail = detail_of(error)
    if is_any(error, {"java.lang.ClassCastException", "java.lang.NoClassDefFoundError"}):
        if _OF_THE_REFERENCE in detail.replace("/", "."):
            return f"it implements {_OF_THE_REFERENCE}.LogStore, which only the reference can call"
        if is_any(error, {"java.lang.ClassCastException"}):
            return "it does not extend io.delta.storage.LogStore"
        return f"a class that it needs is missing ({detail})"
    return next((reason for name, reason in _REASONS.items() if is_any(error, {name})), f"it failed with {detail}")
