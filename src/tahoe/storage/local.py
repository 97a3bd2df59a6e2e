"""Folders of the local file system. Knows the operating system, and nothing of what the files mean.

A file is written under a temporary name in its own folder, forced to the disk, and then given its name in one step, after which the folder
is forced to the disk too. `link` creates a name only where there is none, as the protocol's "Creation of New Log Entries" asks for.

Where a file system has no hard links (FAT, many network and FUSE mounts), creating is refused. Opening the final name with O_EXCL would let
only one writer in, but a reader could see half of the content, and a crash would leave half a commit for ever. A lock file would keep out
only writers that look for it. Reading, and replacing with `put`, work there.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO

from tahoe.errors import AtomicCreateUnsupportedError, StorageRefusedError, StorageUnavailableError
from tahoe.storage.env import TEMPORARY_SUFFIX, FileInfo, FileReplacedError, byte_order, is_temporary
from tahoe.storage.locations import LOCAL_SCHEME, local_path, split_url

# What `link` answers where the file system cannot do it. EPERM is also what a mount without the right to link says.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
_NO_FOLDER_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})

# Answers after which nothing will come of the request any more. Others (EIO, ESTALE, ETIMEDOUT, ...) may be a network file system's.
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


@dataclass(frozen=True, slots=True)
class LocalStore:
    """A `Store` over a local folder, which need not exist yet: writing makes it."""

    url: str

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        after = byte_order(start_after)
        with self._translated("list", prefix):
            entries = {key: entry for key, entry in self._entries(prefix) if byte_order(key) > after and not is_temporary(key)}
            found = [_info(key, entries[key]) for key in sorted(entries, key=byte_order)]
        return (info for info in found if info is not None)

    def walk(self, prefix: str = "") -> Iterator[FileInfo]:
        """Links to folders are not followed, so that a loop of them has an end."""
        with self._translated("list", prefix):
            entries = list(self._entries(prefix))
        # A folder sorts as its files do, with the slash behind its name: what comes out needs no sorting.
        named = [(byte_order(f"{key}/" if entry.is_dir(follow_symlinks=False) else key), key, entry) for key, entry in entries]
        for order, key, entry in sorted(named, key=lambda item: item[0]):
            if order.endswith(b"/"):
                yield from self.walk(key)
            elif info := self._info(key, entry):
                yield info

    def get(self, key: str) -> bytes:
        with self._translated("read", key, missing_passes=True), self._opened(key) as file:
            return file.read()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with self._translated("read", key, missing_passes=True), self._opened(key) as file:
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
        """Whoever has a file open reads that file, whatever has its name by now."""
        with self._translated("read", key, missing_passes=True):
            file = self._opened(key)
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

    def delete(self, key: str) -> None:
        with self._translated("delete", key):
            path = self._path(key)
            try:
                os.unlink(path)
            except (FileNotFoundError, NotADirectoryError):
                return
            _sync_folder(os.path.dirname(path))

    # --- the steps

    def _path(self, key: str) -> str:
        return os.path.join(local_path(self.url), key)

    def _entries(self, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """What is directly in a folder, by key, in no order."""
        try:
            with os.scandir(self._path(prefix)) as entries:
                for entry in entries:
                    yield (f"{prefix}/{entry.name}" if prefix else entry.name), entry
        except (FileNotFoundError, NotADirectoryError):
            return

    def _info(self, key: str, entry: os.DirEntry[str]) -> FileInfo | None:
        with self._translated("look at", key):
            return _info(key, entry)

    def _opened(self, key: str) -> BinaryIO:
        try:
            return open(self._path(key), "rb")
        except (NotADirectoryError, IsADirectoryError) as error:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._path(key)) from error

    @contextmanager
    def _temporary(self, key: str, data: bytes | BinaryIO) -> Iterator[str]:
        """A file with the content, safe on the disk, next to where the key will be; gone afterwards if it still has that name."""
        folder = os.path.dirname(self._path(key))
        _make_folder(folder)
        path = os.path.join(folder, f".{uuid.uuid4().hex}{TEMPORARY_SUFFIX}")
        try:
            with open(path, "xb") as file:
                if isinstance(data, bytes):
                    file.write(data)
                else:
                    shutil.copyfileobj(data, file, _COPY_BYTES)
                file.flush()
                os.fsync(file.fileno())
            yield path
        finally:
            with suppress(FileNotFoundError):
                os.unlink(path)

    def _link(self, temporary: str, key: str) -> bool:
        path = self._path(key)
        try:
            os.link(temporary, path)
        except FileExistsError:
            # A network file system may send our request twice and answer the second: then the name is ours all the same.
            if not _same_file(temporary, path):
                return False
        except OSError as error:
            if error.errno in _NO_LINKS:
                detail = f"the file system has no hard links ({error})"
                raise AtomicCreateUnsupportedError(table=self.url, operation=f"create {key}", detail=detail) from error
            raise
        _sync_folder(os.path.dirname(path))
        return True

    @contextmanager
    def _translated(self, operation: str, key: str, *, missing_passes: bool = False) -> Iterator[None]:
        """What the operating system refuses, as an error of ours; for a reader, a missing file stays what it is."""
        try:
            yield
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            if missing_passes and isinstance(error, FileNotFoundError | FileReplacedError):
                raise
            kind = StorageRefusedError if isinstance(error, ValueError) or error.errno in _REFUSALS else StorageUnavailableError
            raise kind(table=self.url, operation=f"{operation} {key or 'the folder'}", detail=str(error)) from error


def _info(key: str, entry: os.DirEntry[str]) -> FileInfo | None:
    """None for what is no file, and for one that was deleted since the folder was read."""
    try:
        return _from_status(key, entry.stat()) if entry.is_file() else None
    except FileNotFoundError:
        return None


def _from_status(key: str, status: os.stat_result) -> FileInfo:
    return FileInfo(key, status.st_size, status.st_mtime_ns // 1_000_000, f"{status.st_ino:x}-{status.st_mtime_ns:x}")


def _is_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode)


def _same_file(temporary: str, path: str) -> bool:
    try:
        return os.path.samefile(temporary, path)
    except FileNotFoundError:
        return False


def _make_folder(path: str) -> None:
    """Like makedirs, but each new folder's name is on the disk before anything is put into it."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    _make_folder(parent)
    with suppress(FileExistsError):
        os.mkdir(path)
    _sync_folder(parent)


def _sync_folder(path: str) -> None:
    """Force the names in a folder to the disk, where the file system can do that: some write names at once and refuse to be asked."""
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
    """Where what is done fails, a folder that was not there before goes, with the empty ones in it. Files stay, and so do the folders that
    they are in: another writer may have made its table there meanwhile, and what it has put there is never touched. A folder in another
    storage than a local disk is left alone: object stores have none.
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
        with suppress(OSError):  # removes a folder only while it is empty, in one step
            os.rmdir(inside)
