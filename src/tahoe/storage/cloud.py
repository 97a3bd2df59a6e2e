"""Stores in S3, Google Cloud Storage and Azure, through obstore.

Files are created with conditional puts, which all three decide on the server: one writer wins, without a lock table.
S3-compatible storages outside AWS are probed before the first create, because they may ignore the condition.

This module is imported only when such a url is opened, because obstore's runtime does not survive a fork: the first
request of a process forked from one that used it would hang, so it raises an error instead. Only the url and the
options are pickled, so workers open their own connections.
"""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any, BinaryIO, TypeVar, cast

import obstore.store
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotModifiedError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from tahoe.errors import (
    AtomicCreateUnsupportedError,
    CredentialsMissingError,
    DeltaStorageError,
    ForkedProcessError,
    InvalidOptionError,
    StorageRefusedError,
    StorageUnavailableError,
)
from tahoe.errors.root import cause_text
from tahoe.events.listeners import told_retry
from tahoe.storage.cloud_options import client_environment, cloud_config, credentials_missing, foreign_endpoint
from tahoe.storage.env import (
    Fetched,
    FileInfo,
    FileReplacedError,
    Store,
    Tree,
    branches_of,
    byte_order,
    copy_through,
    is_temporary,
    tree_of,
)
from tahoe.storage.locations import join, split_url
from tahoe.storage.probe import check_creates_once
from tahoe.storage.ranges import RangeFile
from tahoe.storage.threads import in_threads

_Answer = TypeVar("_Answer")

# Hadoop's schemes and obstore's names for them.
_OBSTORE_SCHEMES: Mapping[str, str] = {"s3a": "s3", "s3n": "s3"}

# Requests are retried for this long; obstore's default is three minutes.
RETRY_SECONDS_MAX = 60

# With obstore's ten attempts, a storage that is away is given up after two seconds. The time is to decide: so many
# pauses are longer.
RETRIES_MAX = 1000
_FIRST_PAUSE, _PAUSE_MAX = timedelta(milliseconds=100), timedelta(seconds=5)

# obstore does not repeat a conditional put or a listing whose connection broke, as when the server is restarted.
_ATTEMPTS_MAX = 5

# Answers of "404 Not Found" that say nothing of the file. versitygw answers so for an unknown access key.
_MISSING_ELSE = re.compile(r"<Code>\w*(?:Bucket|Container|Account|User|AccessKey)\w*</Code>")

# S3's error for an upload in parts that is complete already, or was removed. obstore asks again to complete it if the
# answer is lost.
_NO_UPLOAD = "NoSuchUpload"

# obstore puts larger files in parts. versitygw that was killed while it completed such an upload acknowledges the next
# request to complete it, but never has the file; so outside AWS it is looked for, and put again.
_PART_BYTES = 5 << 20
_UPLOADS_MAX = 3

# The maximum number of files per listing request in all three storages.
_LIST_PAGE = 1000

# The maximum number of files per delete request of S3.
_DELETE_BATCH = 1000

# If so many single deletes in a row get no answer, the storage is down.
_UNANSWERED_MAX = 3

# The number of cached clients, one per bucket and credentials.
_CLIENTS_MAX = 64

_DETAIL_CHARACTERS_MAX = 400

# The largest object that S3 copies by one request.
_COPY_BYTES_MAX = 5 << 30

# Errors after which the request has no effect, now or later.
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

# The buckets and credentials that this process has probed. One probe per bucket is enough.
_probed: set[tuple[str, str, tuple[tuple[str, str], ...]]] = set()
_probing = threading.Lock()


@dataclass(frozen=True, slots=True)
class CloudStore:
    """A `Store` over a folder of a bucket or container.

    Args:
        url: from `normalise`.
        options: see `tahoe.storage.cloud_options`; they may contain secrets and are not printed.
        skips_probe: whether to skip the probe, because a commit service decides who commits, or because this store
            runs the probe.
    """

    url: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    skips_probe: bool = False

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        """With `start_after`, the storage lists only from there on, which skips the old part of a log.

        That listing includes subfolders, which are small in the folders that tahoe lists. Without `start_after`, only
        direct children are listed.
        """
        after = byte_order(start_after)
        found = _repeated(lambda: self._list(prefix, start_after) if start_after else self._list_children(prefix))
        start = len(prefix) + 1 if prefix else 0
        return (f for f in found if "/" not in f.key[start:] and byte_order(f.key) > after and not is_temporary(f.key))

    def walk(self, prefix: str = "") -> Iterator[FileInfo]:
        return iter(_repeated(lambda: self._list(prefix)))

    def tree(self) -> Tree:
        return tree_of(self.walk())

    def branches(self) -> Iterator[Tree]:
        """In pieces as the storage lists them; see `storage.env.branches`."""
        return branches_of(_without_markers(info for page in self._pages() for info in page))

    def get(self, key: str) -> bytes:
        return self._fetch(key, {}).data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._fetch_part(key, start, length, {}).data

    def fetch(
        self, key: str, start: int = 0, length: int | None = None, unless: FileInfo | None = None
    ) -> Fetched | None:
        condition = {} if unless is None else {"if_none_match": f'"{unless.etag}"'}
        try:
            fetched = self._fetch(key, condition) if length is None else self._fetch_part(key, start, length, condition)
        except NotModifiedError:
            return None
        # A storage may ignore the condition.
        return None if unless is not None and fetched.info.identity == unless.identity else fetched

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
        """A range of a file, which must not have been replaced since `known` was read."""
        condition = {"if_match": f'"{known.etag}"'} if known.etag else {}
        try:
            fetched = self._fetch_part(known.key, start, length, condition)
        except PreconditionError as error:
            raise self._replaced_error(known.key) from error
        if fetched.info.identity != known.identity:  # a storage that ignores the condition
            raise self._replaced_error(known.key)
        return fetched.data

    def _fetch(self, key: str, options: Mapping[str, Any]) -> Fetched:
        """The result of a request, and the file as the storage has it then.

        Raises:
            NotModifiedError, PreconditionError: a condition in the options does not hold.
        """
        is_conditional = not options.keys().isdisjoint(("if_match", "if_none_match"))
        with self._translated("read", key, missing_passes=True, conditions_pass=is_conditional):
            found = self._bucket().get(self._path(key), options=cast(Any, options))
            return Fetched(_info(key, found.meta), bytes(found.bytes()))

    def _fetch_part(self, key: str, start: int, length: int, condition: Mapping[str, str]) -> Fetched:
        """At most `length` bytes from `start`, by one request."""
        try:
            if length:
                return self._fetch(key, {"range": (start, start + length), **condition})
        except StorageRefusedError:
            raise
        except StorageUnavailableError:  # storages refuse ranges that start after the end of the file
            info = self.head(key)
            if info is None or start < info.size_bytes:
                raise
            return Fetched(info, b"")
        info = self.head(key)
        if info is None:
            raise self._missing(key)
        return Fetched(info, b"")

    def _replaced_error(self, key: str) -> FileReplacedError:
        return FileReplacedError(errno.ESTALE, "the file was replaced", join(self.url, key))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Repeats the request if its connection breaks. False may then be the answer to an attempt of ours that
        succeeded.
        """
        self._probe_creates(key.rpartition("/")[0])
        return _repeated(lambda: self._create(key, data), writes=True)

    def put(self, key: str, data: bytes | BinaryIO) -> None:
        """A file that is put in parts is put again if the storage has lost the upload."""
        start, size_bytes = _extent(data)
        if size_bytes <= _PART_BYTES:
            self._put(key, data)
            return
        lost: StorageUnavailableError | None = None
        for _ in range(_UPLOADS_MAX):
            if not isinstance(data, bytes):
                data.seek(start)
            try:
                self._put(key, data)
            except StorageRefusedError as error:
                if _NO_UPLOAD not in str(error.__cause__):
                    raise (lost or error) from error  # what became of the first upload is not known
                lost = StorageUnavailableError(table=self.url, operation=f"write {key}", detail=cause_text(error))
                continue
            if not self._is_foreign():
                return
            info = self.head(key)
            if info is not None and info.size_bytes == size_bytes:
                return
        detail = f"the storage acknowledged an upload of {size_bytes} bytes in parts, but does not have the file"
        raise StorageUnavailableError(table=self.url, operation=f"write {key}", detail=detail)

    def copy_from(self, source: Store, key: str, to: str) -> None:
        known = source.head(key) if isinstance(source, CloudStore) and self._is_in_bucket_of(source) else None
        if known is None or known.size_bytes > _COPY_BYTES_MAX:
            copy_through(source, key, self, to)
            return
        with self._translated("copy", key, missing_passes=True):
            self._bucket().copy(_path_in_bucket(source.url, key), self._path(to))

    def _is_in_bucket_of(self, other: CloudStore) -> bool:
        (scheme, authority, _), (other_scheme, other_authority, _) = split_url(self.url), split_url(other.url)
        schemes = {_OBSTORE_SCHEMES.get(name, name) for name in (scheme, other_scheme)}
        return len(schemes) == 1 and authority == other_authority and self.options == other.options

    def delete(self, key: str) -> None:
        with self._translated("delete", key):
            try:
                self._bucket().delete(self._path(key))
            except FileNotFoundError:
                return

    def delete_many(self, keys: Sequence[str]) -> dict[str, DeltaStorageError]:
        batches = [keys[start : start + _DELETE_BATCH] for start in range(0, len(keys), _DELETE_BATCH)]
        return {key: error for failed in in_threads(self._delete_batch, batches) for key, error in failed.items()}

    def remove_folders(self, keys: Iterable[str]) -> list[str]:  # noqa: ARG002  there are none
        return []

    # --- the steps

    def _list(self, prefix: str, start_after: str = "") -> list[FileInfo]:
        """All files below a folder, or those after a key."""
        offset = self._path(start_after) if start_after else None
        with self._translated("list", prefix):
            pages = self._bucket().list(self._path(prefix) or None, offset=offset, chunk_size=_LIST_PAGE)
            return self._files(prefix, (meta for page in pages for meta in page))

    def _pages(self) -> Iterator[list[FileInfo]]:
        """The files below the store's folder, page by page. A listing that breaks goes on behind its last file, unless
        the storage lists in another order than that of the names.
        """
        pages: Iterator[Any] | None = None
        last, is_ordered, broken = "", True, None

        def next_page() -> list[FileInfo] | None:
            nonlocal pages, broken
            if broken is not None and not is_ordered:
                raise broken
            try:
                with self._translated("list", ""):
                    if pages is None:
                        offset = self._path(last) if last else None
                        pages = iter(self._bucket().list(self._path("") or None, offset=offset, chunk_size=_LIST_PAGE))
                    page = next(pages, None)
                    return None if page is None else self._keyed("", page)
            except StorageUnavailableError as error:
                pages, broken = None, error
                raise

        while (page := _repeated(next_page)) is not None:
            for info in page:
                is_ordered = is_ordered and byte_order(last) <= byte_order(info.key)
                last = info.key
            yield page

    def _list_children(self, prefix: str) -> list[FileInfo]:
        with self._translated("list", prefix):
            return self._files(prefix, self._bucket().list_with_delimiter(self._path(prefix) or None)["objects"])

    def _put(self, key: str, data: bytes | BinaryIO) -> None:
        with self._translated("write", key):
            self._bucket().put(self._path(key), data)

    def _create(self, key: str, data: bytes) -> bool:
        with self._translated("create", key):
            try:
                self._bucket().put(self._path(key), data, mode="create")
            except (NotImplementedError, NotSupportedError) as error:
                raise AtomicCreateUnsupportedError(
                    table=self.url, operation=f"create {key}", detail=_detail(error)
                ) from error
            except (AlreadyExistsError, PreconditionError) as error:
                # S3 also returns this error (409) while two writers compete and neither has won yet: only the key
                # itself is proof.
                detail = "it first returned that the file exists already, and then that it does not"
                try:
                    if self.head(key) is not None:
                        return False
                except StorageRefusedError as refusal:
                    detail = f"it returned that the file exists, which may not be looked at: {cause_text(refusal)}"
                raise StorageUnavailableError(table=self.url, operation=f"create {key}", detail=detail) from error
        return True

    def _delete_batch(self, keys: Sequence[str]) -> dict[str, DeltaStorageError]:
        try:
            with self._translated("delete", f"{len(keys)} files"):
                self._bucket().delete([self._path(key) for key in keys])
        except DeltaStorageError:
            return self._delete_singly(keys)
        return {}

    def _delete_singly(self, keys: Sequence[str]) -> dict[str, DeltaStorageError]:
        """Find out which files of a batch cannot be deleted: a storage returns the error of one file, or refuses
        missing files.
        """
        failed: dict[str, DeltaStorageError] = {}
        unanswered = 0
        for at, key in enumerate(keys):
            try:
                self.delete(key)
                unanswered = 0
            except DeltaStorageError as error:
                failed[key] = error
                unanswered = 0 if isinstance(error, StorageRefusedError) else unanswered + 1
            if unanswered == _UNANSWERED_MAX:
                return failed | dict.fromkeys(keys[at + 1 :], failed[key])
        return failed

    def _probe_creates(self, folder: str) -> None:
        """Probe that creates are exclusive, in a writable folder. A failed probe is repeated before each create."""
        if self.skips_probe or not self._is_foreign():
            return
        scheme, authority, _ = split_url(self.url)
        _claim_process(self.url)  # before the lock, because a fork may have copied it while it was held
        identity = (scheme, authority, tuple(sorted(self.options.items())))
        with _probing:
            if identity not in _probed:
                try:
                    check_creates_once(replace(self, skips_probe=True), folder)
                except StorageRefusedError:
                    raise
                except StorageUnavailableError as error:  # the requested write was not sent
                    detail = f"the probe for atomic creates failed ({error})"
                    raise StorageRefusedError(table=self.url, operation=f"write to {folder}", detail=detail) from error
                _probed.add(identity)

    def _is_foreign(self) -> bool:
        """Whether this is an S3-compatible storage outside AWS."""
        scheme, authority, _ = split_url(self.url)
        return foreign_endpoint(self.options, os.environ, scheme, authority) is not None

    def _bucket(self) -> Any:
        scheme, authority, _ = split_url(self.url)
        _claim_process(self.url)
        try:
            return _open_bucket(scheme, authority, tuple(sorted(self.options.items())))
        except (BaseError, ValueError) as error:
            raise InvalidOptionError(
                option="storage_options", value=sorted(self.options), table=self.url, detail=_detail(error)
            ) from error

    def _path(self, key: str) -> str:
        """The path of a key in the bucket."""
        return _path_in_bucket(self.url, key)

    def _files(self, prefix: str, metas: Iterable[Mapping[str, Any]]) -> list[FileInfo]:
        """The files in a listing of a folder, sorted, because not all kinds of buckets guarantee an order."""
        return sorted(_without_folders(self._keyed(prefix, metas)), key=lambda f: byte_order(f.key))

    def _keyed(self, prefix: str, metas: Iterable[Mapping[str, Any]]) -> list[FileInfo]:
        home, below = (f"{path}/" if path else "" for path in (self._path(""), self._path(prefix)))
        return [_info(meta["path"][len(home) :], meta) for meta in metas if meta["path"].startswith(below)]

    def _missing(self, key: str) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), join(self.url, key))

    @contextmanager
    def _translated(
        self, operation: str, key: str, *, missing_passes: bool = False, conditions_pass: bool = False
    ) -> Iterator[None]:
        """Translate obstore's errors. With `missing_passes`, a missing file raises FileNotFoundError; with
        `conditions_pass`, a condition that does not hold is obstore's error.

        In other calls "not found" refers to the bucket, and in all calls it may refer to the user. A ValueError means a
        key that object stores do not allow.
        """
        try:
            yield
        except FileNotFoundError as error:
            if missing_passes and not _MISSING_ELSE.search(str(error)):
                raise self._missing(key) from error
            raise StorageRefusedError(table=self.url, operation=f"{operation} {key}", detail=_detail(error)) from error
        except (BaseError, PermissionError, ValueError, NotImplementedError) as error:
            if conditions_pass and isinstance(error, NotModifiedError | PreconditionError):
                raise
            if (where := credentials_missing(str(error), split_url(self.url)[0])) is not None:
                raise CredentialsMissingError(
                    table=self.url, operation=f"{operation} {key or 'the folder'}", detail=_detail(error), where=where
                ) from error
            kind = StorageRefusedError if isinstance(error, _REFUSALS) else StorageUnavailableError
            raise kind(table=self.url, operation=f"{operation} {key or 'the folder'}", detail=_detail(error)) from error


def _repeated(ask: Callable[[], _Answer], *, writes: bool = False) -> _Answer:
    """The answer to a request, which is repeated if there is none.

    Args:
        writes: an attempt without an answer may have succeeded, or may yet: a later refusal says nothing of it.
    """
    deadline, unanswered = time.monotonic() + RETRY_SECONDS_MAX, None
    for attempt in range(_ATTEMPTS_MAX):
        try:
            return ask()
        except StorageRefusedError as refusal:
            if unanswered is None or not writes:
                raise
            raise unanswered from refusal
        except StorageUnavailableError as error:
            if attempt == _ATTEMPTS_MAX - 1 or time.monotonic() >= deadline:
                raise
            unanswered = error
        pause_seconds = _FIRST_PAUSE.total_seconds() * 2**attempt
        time.sleep(pause_seconds)
        told_retry("storage", str(unanswered.parameters["table"]), attempt + 1, pause_seconds, unanswered)
    raise AssertionError("the last attempt returns or raises")


def _extent(data: bytes | BinaryIO) -> tuple[int, int]:
    """Where the data begins in its file, and its size."""
    if isinstance(data, bytes):
        return 0, len(data)
    start = data.tell()
    size_bytes = data.seek(0, os.SEEK_END) - start
    data.seek(start)
    return start, size_bytes


def _path_in_bucket(url: str, key: str) -> str:
    return "/".join(part for part in (split_url(url)[2], key) if part)


def _claim_process(url: str) -> None:
    """Raise an error in a forked process, where obstore would hang."""
    global _started_in
    if _started_in is None:
        _started_in = os.getpid()
    if _started_in != os.getpid():
        raise ForkedProcessError(table=url, operation="reach the storage", detail=f"process {_started_in}")


@lru_cache(_CLIENTS_MAX)
def _open_bucket(scheme: str, authority: str, options: tuple[tuple[str, str], ...]) -> Any:
    """obstore's client of a bucket or container, which keeps its connections; so there is one for all its tables."""
    config = cloud_config(dict(options), scheme, authority)
    client = {**client_environment(os.environ, scheme), **config.client}
    return obstore.store.from_url(
        f"{_OBSTORE_SCHEMES.get(scheme, scheme)}://{authority}",
        config=cast(Any, config.storage),
        client_options=cast(Any, client) if client else None,
        retry_config={
            "max_retries": RETRIES_MAX,
            "retry_timeout": timedelta(seconds=RETRY_SECONDS_MAX),
            "backoff": {"init_backoff": _FIRST_PAUSE, "max_backoff": _PAUSE_MAX, "base": 2},
        },
    )


def _info(key: str, meta: Mapping[str, Any]) -> FileInfo:
    """Without an ETag, the modification time identifies the file, in seconds because only listings include
    milliseconds.
    """
    etag = (meta.get("e_tag") or "").strip('"')
    modified = meta["last_modified"].timestamp()
    return FileInfo(key, meta["size"], int(modified * 1000) if etag else int(modified) * 1000, etag)


def _without_folders(files: list[FileInfo]) -> list[FileInfo]:
    """The files without empty folder markers of other tools, from whose names obstore removes the trailing slash."""
    if all(f.size_bytes for f in files):
        return files
    folders = {f.key[:end] for f in files for end, character in enumerate(f.key) if character == "/"}
    return [f for f in files if f.size_bytes or f.key not in folders]


def _without_markers(files: Iterable[FileInfo]) -> Iterator[FileInfo]:
    """The same of files that the storage lists one by one, in order. Between a marker and what is below it are names
    that go on with a character before the slash, as `p=1.5` behind `p=1`.
    """
    held: list[FileInfo] = []
    for info in files:
        waiting = [one for one in held if not info.key.startswith(f"{one.key}/")]
        held = [one for one in waiting if byte_order(info.key) <= byte_order(f"{one.key}/")]
        yield from (one for one in waiting if one not in held)
        if info.size_bytes:
            yield info
        else:
            held.append(info)
    yield from held


def _detail(error: Exception) -> str:
    """The message without the debug output that obstore appends, and without a full stop."""
    return " ".join(str(error).split("Debug source:")[0].split()).rstrip(".")[:_DETAIL_CHARACTERS_MAX]
