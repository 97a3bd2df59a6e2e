"""Folders of S3, Google Cloud Storage and Azure, through obstore. Knows nothing of what the files mean.

Creating is a conditional put, which all three decide on their side: one writer wins, without a lock table. What speaks S3's language
elsewhere than at AWS is tried out before the first file is created, because it may ignore the condition.

This module is imported only when such a url is opened, because obstore's runtime does not survive a fork: a process that was forked from
one that has used it would hang at its first request, and gets an error here instead. What is pickled is the url and the options, so that
workers open their own.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any, BinaryIO, cast

import obstore.store
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    GenericError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from tahoe.errors import (
    AtomicCreateUnsupportedError,
    ForkedProcessError,
    InvalidOptionError,
    StorageRefusedError,
    StorageUnavailableError,
)
from tahoe.storage.cloud_options import client_environment, cloud_config, foreign_endpoint
from tahoe.storage.env import FileInfo, FileReplacedError, byte_order, is_temporary
from tahoe.storage.locations import join, split_url
from tahoe.storage.probe import check_creates_once
from tahoe.storage.ranges import RangeFile

# How obstore calls what Hadoop calls otherwise.
_OBSTORE_SCHEMES: Mapping[str, str] = {"s3a": "s3", "s3n": "s3"}

# A storage that does not answer is given up after this long; obstore's own patience is three minutes.
RETRY_SECONDS_MAX = 60

# What one request for a listing returns at most, in all three storages.
_LIST_PAGE = 1000

# Connections are kept for this many pairs of bucket and credentials.
_CLIENTS_MAX = 64

_DETAIL_CHARACTERS_MAX = 400

# Answers after which nothing will come of the request any more.
_REFUSALS = (
    PermissionDeniedError,
    PermissionError,
    UnauthenticatedError,
    InvalidPathError,
    NotSupportedError,
    ValueError,
    NotImplementedError,
)

# The process in which obstore's runtime runs.
_started_in: int | None = None

# The pairs of bucket and credentials by which creating was tried out in this process. One is enough: the storage is the same for all keys.
_proven: set[tuple[str, str, tuple[tuple[str, str], ...]]] = set()
_proving = threading.Lock()


@dataclass(frozen=True, slots=True)
class CloudStore:
    """A `Store` over a folder of a bucket or container.

    Args:
        url: as `normalise` makes it.
        options: see `tahoe.storage.cloud_options`; they may hold secrets and are not printed.
        is_tried_out: whether creating needs no trial, because something else decides who commits, or because this is the trial.
    """

    url: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_tried_out: bool = False

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        """Where there is a start, the storage is asked from there on, so that the long past of a log is not listed again and again.

        That lists folders below as well, which are few in what tahoe lists; without a start, only direct children are asked for.
        """
        path, after = self._path(prefix), byte_order(start_after)
        with self._translated("list", prefix):
            if start_after:
                pages = self._bucket().list(path or None, offset=self._path(start_after), chunk_size=_LIST_PAGE)
                found = self._files(prefix, (meta for page in pages for meta in page))
            else:
                found = self._files(prefix, self._bucket().list_with_delimiter(path or None)["objects"])
        start = len(prefix) + 1 if prefix else 0
        return (f for f in found if "/" not in f.key[start:] and byte_order(f.key) > after and not is_temporary(f.key))

    def walk(self, prefix: str = "") -> Iterator[FileInfo]:
        with self._translated("list", prefix):
            pages = self._bucket().list(self._path(prefix) or None, chunk_size=_LIST_PAGE)
            return iter(self._files(prefix, (meta for page in pages for meta in page)))

    def get(self, key: str) -> bytes:
        with self._translated("read", key, missing_passes=True):
            return bytes(self._bucket().get(self._path(key)).bytes())

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with self._translated("read", key, missing_passes=True):
            try:
                return bytes(self._bucket().get_range(self._path(key), start=start, length=length)) if length else self._nothing(key)
            except GenericError:
                # A range that begins behind the end is refused: that may be why.
                found = self.head(key)
                if found is not None and start >= found.size_bytes:
                    return b""
                raise

    def head(self, key: str) -> FileInfo | None:
        with self._translated("look at", key):
            try:
                return _info(key, self._bucket().head(self._path(key)))
            except FileNotFoundError:
                return None

    def open(self, key: str, known: FileInfo | None = None) -> BinaryIO:
        found = known or self.head(key)
        if found is None:
            raise self._missing(key)
        return cast(BinaryIO, RangeFile(found.size_bytes, partial(self._part, found)))

    def _part(self, known: FileInfo, start: int, length: int) -> bytes:
        """Bytes of a file that must still be the one that is known."""
        options: Any = {"range": (start, start + length), **({"if_match": f'"{known.etag}"'} if known.etag else {})}
        with self._translated("read", known.key, missing_passes=True):
            try:
                found = self._bucket().get(self._path(known.key), options=options)
            except PreconditionError as error:
                raise self._replaced(known.key) from error
            except GenericError as error:  # the part may lie behind the end of the file that is there now
                there = self.head(known.key)
                if there is None or there.identity != known.identity:
                    raise self._replaced(known.key) from error
                raise
            if _info(known.key, found.meta).identity != known.identity:  # a storage that does not know the condition
                raise self._replaced(known.key)
            return bytes(found.bytes())

    def _replaced(self, key: str) -> FileReplacedError:
        return FileReplacedError(errno.ESTALE, "the file was replaced", join(self.url, key))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self._try_out(key.rpartition("/")[0])
        with self._translated("create", key):
            try:
                self._bucket().put(self._path(key), data, mode="create")
            except (NotImplementedError, NotSupportedError) as error:
                raise AtomicCreateUnsupportedError(table=self.url, operation=f"create {key}", detail=_detail(error)) from error
            except (AlreadyExistsError, PreconditionError) as error:
                # S3 answers the same (409) when two writers meet and neither has won yet: only the key itself is proof.
                if self.head(key) is not None:
                    return False
                detail = "it answered that the file exists already, and then that it does not"
                raise StorageUnavailableError(table=self.url, operation=f"create {key}", detail=detail) from error
        return True

    def put(self, key: str, data: bytes | BinaryIO) -> None:
        with self._translated("write", key):
            self._bucket().put(self._path(key), data)

    def delete(self, key: str) -> None:
        with self._translated("delete", key):
            try:
                self._bucket().delete(self._path(key))
            except FileNotFoundError:
                return

    # --- the steps

    def _try_out(self, folder: str) -> None:
        """See that creating is exclusive, in a folder where we may write. A storage that has failed is asked again each time."""
        scheme, authority, _ = split_url(self.url)
        if self.is_tried_out or foreign_endpoint(self.options, os.environ, scheme, authority) is None:
            return
        _claim_process(self.url)  # before the lock, which a fork may have copied while it was held
        identity = (scheme, authority, tuple(sorted(self.options.items())))
        with _proving:
            if identity not in _proven:
                try:
                    check_creates_once(replace(self, is_tried_out=True), folder)
                except StorageRefusedError:
                    raise
                except StorageUnavailableError as error:  # nothing of what was asked for was sent
                    detail = f"it could not be tried out whether it creates a file only once ({error})"
                    raise StorageRefusedError(table=self.url, operation=f"write to {folder}", detail=detail) from error
                _proven.add(identity)

    def _bucket(self) -> Any:
        scheme, authority, _ = split_url(self.url)
        _claim_process(self.url)
        try:
            return _open_bucket(scheme, authority, tuple(sorted(self.options.items())))
        except (BaseError, ValueError) as error:
            raise InvalidOptionError(option="storage_options", value=sorted(self.options), table=self.url, detail=_detail(error)) from error

    def _path(self, key: str) -> str:
        """The key in the bucket."""
        return "/".join(part for part in (split_url(self.url)[2], key) if part)

    def _files(self, prefix: str, metas: Iterable[Mapping[str, Any]]) -> list[FileInfo]:
        """What a listing of a folder holds, sorted, because no storage promises an order for every kind of bucket."""
        home, below = (f"{path}/" if path else "" for path in (self._path(""), self._path(prefix)))
        found = [_info(meta["path"][len(home) :], meta) for meta in metas if meta["path"].startswith(below)]
        return sorted(_without_folders(found), key=lambda f: byte_order(f.key))

    def _nothing(self, key: str) -> bytes:
        if self.head(key) is None:
            raise self._missing(key)
        return b""

    def _missing(self, key: str) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), join(self.url, key))

    @contextmanager
    def _translated(self, operation: str, key: str, *, missing_passes: bool = False) -> Iterator[None]:
        """What obstore raises, as an error of ours; for a reader, a missing file stays what it is.

        In other calls "not found" speaks of the bucket. A ValueError is a key that object stores cannot have.
        """
        try:
            yield
        except FileNotFoundError as error:
            if missing_passes:
                raise self._missing(key) from error
            raise StorageRefusedError(table=self.url, operation=f"{operation} {key}", detail=_detail(error)) from error
        except (BaseError, PermissionError, ValueError, NotImplementedError) as error:
            kind = StorageRefusedError if isinstance(error, _REFUSALS) else StorageUnavailableError
            raise kind(table=self.url, operation=f"{operation} {key or 'the folder'}", detail=_detail(error)) from error


def _claim_process(url: str) -> None:
    """Refuse to go on in a process in which obstore would hang."""
    global _started_in
    if _started_in is None:
        _started_in = os.getpid()
    if _started_in != os.getpid():
        raise ForkedProcessError(table=url, operation="reach the storage", detail=f"process {_started_in}")


@lru_cache(_CLIENTS_MAX)
def _open_bucket(scheme: str, authority: str, options: tuple[tuple[str, str], ...]) -> Any:
    config = cloud_config(dict(options), scheme, authority)
    client = {**client_environment(os.environ, scheme), **config.client}
    return obstore.store.from_url(
        f"{_OBSTORE_SCHEMES.get(scheme, scheme)}://{authority}",
        config=cast(Any, config.storage),
        client_options=cast(Any, client) if client else None,
        retry_config={"retry_timeout": timedelta(seconds=RETRY_SECONDS_MAX)},
    )


def _info(key: str, meta: Mapping[str, Any]) -> FileInfo:
    """Where there is no tag, a file is known again by its time, of which listings have the milliseconds and other answers have not."""
    etag = (meta.get("e_tag") or "").strip('"')
    modified = meta["last_modified"].timestamp()
    return FileInfo(key, meta["size"], int(modified * 1000) if etag else int(modified) * 1000, etag)


def _without_folders(files: list[FileInfo]) -> list[FileInfo]:
    """Without the empty objects named like a folder, which other tools leave to mark one: obstore drops the slash that they end with."""
    if all(f.size_bytes for f in files):
        return files
    folders = {f.key[:end] for f in files for end, character in enumerate(f.key) if character == "/"}
    return [f for f in files if f.size_bytes or f.key not in folders]


def _detail(error: Exception) -> str:
    """What happened, without the debugging output that obstore puts behind it."""
    return " ".join(str(error).split("Debug source:")[0].split())[:_DETAIL_CHARACTERS_MAX]
