"""Stores in the local file system.

A file is written under a temporary name in its folder, synced to disk, and then linked or renamed to its name; then the
folder is synced too. Only version checksums are not synced. `link` fails if the name exists, as the protocol's
"Creation of New Log Entries" requires.

On file systems without hard links (FAT, many network and FUSE mounts), `put_if_absent` is refused. Opening the final
name with O_EXCL would admit only one writer, but readers could see partial content, and a crash would leave a partial
commit. A lock file would stop only writers that check for it. Reading and replacing files with `put` work there.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import BinaryIO

from tahoe.errors import AtomicCreateUnsupportedError, DeltaStorageError, StorageRefusedError, StorageUnavailableError
from tahoe.storage.env import (
    TEMPORARY_SUFFIX,
    FileInfo,
    FileReplacedError,
    Store,
    Tree,
    byte_order,
    copy_through,
    deepest_first,
    is_temporary,
)
from tahoe.storage.locations import local_path, split_url
from tahoe.storage.schemes import LOCAL_SCHEME
from tahoe.storage.threads import in_pieces, in_threads

# The errors of `link` on file systems without hard links. EPERM may also mean that links are not permitted.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
_NO_FOLDER_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})

# Files of this suffix, version checksums, are not synced, because every commit would wait for the disk once more. After
# a power failure one may be missing or empty; its readers ignore it, as the reference's do.
_NOT_SYNCED = ".crc"

# Errors after which the request has no effect. Others (EIO, ESTALE, ETIMEDOUT, ...) may come from a network file
# system.
_REFUSALS = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.ELOOP,
        errno.EINVAL,
        errno.EMFILE,
    }
)


_COPY_BYTES = 1 << 20

# How often a folder is made again that somebody removes while it is still empty.
_FOLDER_ATTEMPTS_MAX = 1000


@dataclass(frozen=True, slots=True)
class LocalStore:
    """A `Store` over a local folder, which is created by the first write."""

    url: str

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        after = byte_order(start_after)
        with self._translated("list", prefix):
            keyed = ((byte_order(key), key, entry) for key, entry in self._entries(prefix) if not is_temporary(key))
            entries = sorted((item for item in keyed if item[0] > after), key=itemgetter(0))
            found = [_info(key, entry) for _, key, entry in entries]
        return filter(None, found)

    def walk(self, prefix: str = "") -> Iterator[FileInfo]:
        """Does not follow symbolic links to folders, which could form a cycle."""
        with self._translated("list", prefix):
            entries = list(self._entries(prefix))
        # A folder sorts like its files if a slash is appended to its name, so the result is in order.
        named = [
            (byte_order(f"{key}/" if entry.is_dir(follow_symlinks=False) else key), key, entry)
            for key, entry in entries
        ]
        for order, key, entry in sorted(named, key=lambda item: item[0]):
            if order.endswith(b"/"):
                yield from self.walk(key)
            elif info := self._info(key, entry):
                yield info

    def tree(self) -> Tree:
        found = Tree()
        for branch in self.branches():
            found.extend(branch)
        return found

    def branches(self) -> Iterator[Tree]:
        """The folders one by one; see `storage.env.branches`. Does not follow symbolic links to folders."""
        level = [""]
        with self._translated("list", ""):
            while level:
                below: list[str] = []
                for branch in in_threads(self._branch, level):
                    below.extend(branch.folders)
                    yield branch
                level = below

    def get(self, key: str) -> bytes:
        with self._translated("read", key, missing_passes=True), self._open_for_reading(key) as file:
            return file.read()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with self._translated("read", key, missing_passes=True), self._open_for_reading(key) as file:
            file.seek(start)
            return file.read(length)

    def head(self, key: str) -> FileInfo | None:
        with self._translated("look at", key):
            try:
                status = os.stat(self._path(key))
            except (FileNotFoundError, NotADirectoryError):
                return None
            return _from_status(key, status) if _is_file(status) else None

    def open(self, key: str, known: FileInfo | None = None) -> BinaryIO:
        """An open file keeps its content even if another file takes its name."""
        with self._translated("read", key, missing_passes=True):
            file = self._open_for_reading(key)
            if known is not None and _from_status(key, os.fstat(file.fileno())).identity != known.identity:
                file.close()
                raise FileReplacedError(errno.ESTALE, "the file was replaced", self._path(key))
            return file

    def put_if_absent(self, key: str, data: bytes) -> bool:
        with self._translated("create", key), self._temporary(key, data) as temporary:
            return self._link(temporary, key)

    def put(self, key: str, data: bytes | BinaryIO) -> None:
        with self._translated("write", key), self._temporary(key, data) as temporary:
            os.replace(temporary, self._path(key))
            _sync_folder(os.path.dirname(temporary))

    def copy_from(self, source: Store, key: str, to: str) -> None:
        copy_through(source, key, self, to)

    def delete(self, key: str) -> None:
        with self._translated("delete", key):
            path = self._path(key)
            with suppress(FileNotFoundError, NotADirectoryError):  # the file, or its folder after it was emptied
                os.unlink(path)
                _sync_folder(os.path.dirname(path))

    def delete_many(self, keys: Sequence[str]) -> dict[str, DeltaStorageError]:
        return {key: error for failed in in_pieces(self._unlink, keys) for key, error in failed.items()}

    def remove_folders(self, keys: Iterable[str]) -> list[str]:
        return [key for key in deepest_first(keys) if _remove_if_empty(self._path(key))]

    # --- the steps

    def _path(self, key: str) -> str:
        return os.path.join(local_path(self.url), key)

    def _entries(self, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """The direct entries of a folder by key, unordered."""
        try:
            with os.scandir(self._path(prefix)) as entries:
                for entry in entries:
                    yield (f"{prefix}/{entry.name}" if prefix else entry.name), entry
        except (FileNotFoundError, NotADirectoryError):
            return

    def _branch(self, folder: str) -> Tree:
        """What is directly in a folder. An entry that is deleted meanwhile is left out."""
        found = Tree()
        for key, entry in self._entries(folder):
            with suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    found.add_folder(key, entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000)
                elif entry.is_file():
                    status = entry.stat()
                    found.add(key, status.st_size, status.st_mtime_ns // 1_000_000)
        return found

    def _unlink(self, keys: Sequence[str]) -> dict[str, DeltaStorageError]:
        failed: dict[str, DeltaStorageError] = {}
        folder = local_path(self.url)
        for key in keys:
            try:
                os.unlink(os.path.join(folder, key))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, ValueError) as error:
                failed[key] = self._failure("delete", key, error)
        return failed

    def _info(self, key: str, entry: os.DirEntry[str]) -> FileInfo | None:
        with self._translated("look at", key):
            return _info(key, entry)

    def _open_for_reading(self, key: str) -> BinaryIO:
        try:
            return open(self._path(key), "rb")
        except (NotADirectoryError, IsADirectoryError) as error:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._path(key)) from error

    @contextmanager
    def _temporary(self, key: str, data: bytes | BinaryIO) -> Iterator[str]:
        """A temporary file with the content, synced to disk, in the key's folder. It is deleted afterwards if it still
        exists.
        """
        path = os.path.join(os.path.dirname(self._path(key)), f".{uuid.uuid4().hex}{TEMPORARY_SUFFIX}")
        try:
            with _create(path) as file:
                if isinstance(data, bytes):
                    file.write(data)
                else:
                    shutil.copyfileobj(data, file, _COPY_BYTES)
                file.flush()
                if not key.endswith(_NOT_SYNCED):
                    os.fsync(file.fileno())
            yield path
        finally:
            with suppress(FileNotFoundError):
                os.unlink(path)

    def _link(self, temporary: str, key: str) -> bool:
        """Create a file as a link to a temporary one, which fails if the name exists, in contrast to a renaming.
        Returns whether it was created.
        """
        path = self._path(key)
        try:
            os.link(temporary, path)
        except FileExistsError:
            # A network file system may retry the request and return the error of the retry, although the first attempt
            # succeeded.
            if not _same_file(temporary, path):
                return False
        except OSError as error:
            if error.errno in _NO_LINKS:
                detail = f"the file system has no hard links ({error})"
                raise AtomicCreateUnsupportedError(table=self.url, operation=f"create {key}", detail=detail) from error
            raise
        try:
            if not key.endswith(_NOT_SYNCED):
                _sync_folder(os.path.dirname(path))
        except OSError as error:  # the file is there, so the operation is not refused, whatever the error says
            raise StorageUnavailableError(table=self.url, operation=f"create {key}", detail=str(error)) from error
        return True

    @contextmanager
    def _translated(self, operation: str, key: str, *, missing_passes: bool = False) -> Iterator[None]:
        """Translate the operating system's errors. With `missing_passes`, a missing file raises FileNotFoundError."""
        try:
            yield
        except (OSError, ValueError) as error:  # ValueError: an invalid file name
            if missing_passes and isinstance(error, FileNotFoundError | FileReplacedError):
                raise
            raise self._failure(operation, key, error) from error

    def _failure(self, operation: str, key: str, error: OSError | ValueError) -> DeltaStorageError:
        kind = (
            StorageRefusedError
            if isinstance(error, ValueError) or error.errno in _REFUSALS
            else StorageUnavailableError
        )
        return kind(table=self.url, operation=f"{operation} {key or 'the folder'}", detail=str(error))


def _info(key: str, entry: os.DirEntry[str]) -> FileInfo | None:
    """None for entries that are not files, and for files deleted since the folder was read."""
    try:
        return _from_status(key, entry.stat()) if entry.is_file() else None
    except FileNotFoundError:
        return None


def _from_status(key: str, status: os.stat_result) -> FileInfo:
    changed_ns = status.st_mtime_ns
    return FileInfo(key, status.st_size, changed_ns // 1_000_000, f"{status.st_ino:x}-{changed_ns:x}")


def _is_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode)


def _same_file(temporary: str, path: str) -> bool:
    try:
        return os.path.samefile(temporary, path)
    except FileNotFoundError:
        return False


def _create(path: str) -> BinaryIO:
    """Create a file and its folders. Another process may remove a folder as long as it is empty; then it is made
    again.
    """
    for _ in range(_FOLDER_ATTEMPTS_MAX):
        with suppress(FileNotFoundError):
            _make_folder(os.path.dirname(path))
            return open(path, "xb")
    return open(path, "xb")


def _make_folder(path: str) -> None:
    """Like makedirs, but syncs each new folder's name to disk before anything is written to it."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    _make_folder(parent)
    with suppress(FileExistsError):
        os.mkdir(path)
    _sync_folder(parent)


def _sync_folder(path: str) -> None:
    """Sync the names in a folder to disk. Some file systems always write names at once and refuse the request."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


@contextmanager
def no_new_folder_left(url: str) -> Iterator[None]:
    """If the block fails, remove a folder that did not exist before, with its empty subfolders.

    Folders with files are kept, because another writer may have created its table there meanwhile. Applies only to
    local disks: object stores have no folders.
    """
    path = local_path(url) if split_url(url)[0] == LOCAL_SCHEME else None
    is_new = path is not None and not os.path.lexists(path)
    try:
        yield
    except BaseException:
        if path is not None and is_new:
            _remove_empty(path)
        raise


def _remove_empty(folder: str) -> None:
    for inside, _, _ in os.walk(folder, topdown=False):
        _remove_if_empty(inside)


def _remove_if_empty(folder: str) -> bool:
    try:
        os.rmdir(folder)  # atomically removes only empty folders
    except (OSError, ValueError):
        return False
    return True
