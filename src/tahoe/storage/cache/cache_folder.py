"""The folder of the cache on its disk: its blocks, and how much they occupy.

    tahoe-cache      marks the folder as ours, and tells how many bytes the blocks may occupy
    small/ main/     the blocks, in the two queues of `eviction`
    unfinished/      files that are being written
    ghosts           names of deleted blocks
    lock             held by the process that evicts, and never while it waits for a storage
    usage            its size tells how much the blocks occupy: one byte for 4 KiB, to which each writer appends

Blocks are renamed into their queue, so that none is there in part. They are not synced to disk: after a power failure
their checksums tell which are damaged.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import suppress
from pathlib import Path

from tahoe.storage.cache.block_file import FILE_BYTES_MAX
from tahoe.storage.cache.eviction import (
    GHOSTS,
    LOCK,
    MAIN,
    QUEUES,
    READ,
    SMALL,
    UNFINISHED,
    UNFINISHED_SECONDS_MAX,
    UNREAD,
    Evicted,
    block_path,
    delete_unfinished,
    entries,
    evict,
    evicting,
    ghost,
    ghosts,
    occupied,
    unfinished_path,
)

MARKER, USAGE = "tahoe-cache", "usage"
_OWN_NAMES = frozenset({MARKER, USAGE, GHOSTS, LOCK, UNFINISHED, *QUEUES})

# This share of the disk is left free, but not more than so many bytes.
_FREE_SHARE, _FREE_BYTES_MAX = 0.05, 10 << 30

_USAGE_UNIT = 4096

# A block that is read again within so many seconds is read by the same scan, which tells nothing.
CORRELATED_SECONDS = 5


class CacheFolder:
    """A folder of blocks, which many processes use at once.

    Every method may raise an OSError. Unless the folder is ours (see `prepare`), nothing in it is changed.

    Args:
        path: may not exist yet.
        bytes_max: what the blocks may occupy. Of processes with different bounds, the largest counts.
    """

    def __init__(self, path: Path, bytes_max: int) -> None:
        self.path = path
        self.bytes_max = bytes_max
        self._is_prepared = False
        self._ghosts: tuple[int, frozenset[bytes]] = (0, frozenset())

    def is_ours(self) -> bool:
        return (self.path / MARKER).is_file()

    def foreign_names(self) -> list[str]:
        """What is in the folder that is not of a cache, unless the folder is marked as ours."""
        try:
            return [] if self.is_ours() else sorted(set(os.listdir(self.path)) - _OWN_NAMES)
        except FileNotFoundError:
            return []

    def bound(self) -> int:
        """What the blocks may occupy."""
        try:
            return int((self.path / MARKER).read_text())
        except (OSError, ValueError):
            return self.bytes_max

    def load(self, queue: str, name: str, *, marks: bool) -> bytes | None:
        """The file of a block; None if it is not there.

        Args:
            marks: whether it counts as read again.

        Raises:
            OSError: also if others may write to the folder.
        """
        try:
            self._check_private()
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
            descriptor = os.open(block_path(self.path, queue, name), flags)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > FILE_BYTES_MAX:
                return b""
            data = os.read(descriptor, status.st_size)
            if marks and status.st_mode & READ == UNREAD and time.time() - status.st_mtime > CORRELATED_SECONDS:
                with suppress(OSError):  # a folder that can only be read
                    os.fchmod(descriptor, READ)
        finally:
            os.close(descriptor)
        return data

    def write(self, name: str, pieces: tuple[bytes, bytes | memoryview]) -> Evicted | None:
        """Write the file of a block, in the place of another one of its name.

        Returns:
            what was evicted for it; None if it was not written, because another process is evicting.

        Raises:
            OSError: also if the disk is full, or the folder is not ours.
        """
        if not (self._is_prepared and self.is_ours()):  # somebody may have deleted the folder
            self.prepare()
        length = sum(map(len, pieces))
        evicted = self._make_room(occupied(length))
        if evicted is not None:
            self._write(name, pieces, length)
        return evicted

    def shrink(self) -> Evicted | None:
        """Evict a tenth of all, for a disk that is fuller than it says. None if another process is evicting."""
        return self.evict(int(self._occupied_bytes() * 0.9))

    def evict(self, limit_bytes: int) -> Evicted | None:
        """Evict until the blocks occupy no more than a limit. None if another process is evicting."""
        with evicting(self.path) as is_ours:
            if not is_ours:
                return None
            evicted = evict(self.path, limit_bytes)
            self._set_usage(evicted.used_bytes)
            return evicted

    def clear(self) -> int:
        """Delete all blocks; returns how many. Other processes may go on; they fill it anew."""
        if foreign := self.foreign_names():
            raise OSError(errno.ENOTEMPTY, f"{self.path} is not the folder of a cache: it has {foreign[0]}")
        if not self.is_ours():
            return 0
        deleted = 0
        for queue in QUEUES:
            for entry in entries(self.path, queue):
                Path(block_path(self.path, queue, entry.name)).unlink(missing_ok=True)
                deleted += 1
        delete_unfinished(self.path, UNFINISHED_SECONDS_MAX)
        for name in (GHOSTS, USAGE, MARKER):
            (self.path / name).unlink(missing_ok=True)
        self._is_prepared = False
        return deleted

    def prepare(self) -> None:
        """Make the folder, and mark it as ours. Leftovers of writers that were killed are deleted.

        Raises:
            OSError: it has files that are not ours, or others may write to it.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if foreign := self.foreign_names():
            raise OSError(errno.ENOTEMPTY, f"it has files that are not of a cache, such as {foreign[0]}")
        if not self.is_ours():
            self.path.chmod(0o700)
        self._check_private()
        for name in (UNFINISHED, *QUEUES):
            (self.path / name).mkdir(mode=0o700, exist_ok=True)
        if not self.is_ours() or self.bound() < self.bytes_max:
            temporary = unfinished_path(self.path)
            temporary.write_text(f"{self.bytes_max}\n")
            os.replace(temporary, self.path / MARKER)
        delete_unfinished(self.path, UNFINISHED_SECONDS_MAX)
        self._is_prepared = True

    # --- the steps

    def _check_private(self) -> None:
        """
        Raises:
            OSError: others may write to the folder, or it is not there.
        """
        status = os.stat(self.path)
        if status.st_mode & 0o022 or status.st_uid != os.geteuid():
            raise OSError(errno.EPERM, "other users may write to it")

    def _write(self, name: str, pieces: tuple[bytes, bytes | memoryview], length: int) -> None:
        temporary = unfinished_path(self.path)
        descriptor = self._create(temporary)
        try:
            try:
                if os.writev(descriptor, pieces) != length:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(descriptor)
            self._add_usage(occupied(length))  # before the block is there: too much is corrected by the next eviction
            path = block_path(self.path, self._queue_of(name), name)
            try:
                os.rename(temporary, path)
            except FileNotFoundError:
                for folder in (os.path.dirname(os.path.dirname(path)), os.path.dirname(path)):
                    with suppress(FileExistsError):
                        os.mkdir(folder, 0o700)
                os.rename(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise

    def _create(self, path: Path) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(path, flags, UNREAD)
        except FileNotFoundError:
            self.prepare()
            return os.open(path, flags, UNREAD)

    def _queue_of(self, name: str) -> str:
        """The queue that a new block enters. One that is in `main` already is replaced there."""
        is_known = ghost(name) in self._known_ghosts() or os.path.exists(block_path(self.path, MAIN, name))
        return MAIN if is_known else SMALL

    def _known_ghosts(self) -> frozenset[bytes]:
        with suppress(OSError):  # they are only advice
            changed = os.stat(self.path / GHOSTS).st_mtime_ns
            if changed != self._ghosts[0]:
                self._ghosts = changed, ghosts(self.path)
            return self._ghosts[1]
        return frozenset()

    def _make_room(self, size_bytes: int) -> Evicted | None:
        """Evict if a block does not fit; None if another process is evicting.

        Raises:
            OSError: there is no space that eviction could free.
        """
        used = self._used_bytes()
        if used is None:
            used = self._occupied_bytes()
            self._set_usage(used)
        if used + size_bytes <= self._limit_bytes(used):
            return Evicted()
        evicted = self.evict(self._limit_bytes(used) - size_bytes)
        if evicted is None:
            return None
        if evicted.used_bytes + size_bytes > self._limit_bytes(evicted.used_bytes):
            raise OSError(errno.ENOSPC, "there is no space beside what is to stay free")
        return evicted

    def _limit_bytes(self, used: int) -> int:
        """How much the blocks may occupy, which leaves some space on the disk free."""
        disk = os.statvfs(self.path)
        free = disk.f_bavail * disk.f_frsize
        reserve = min(int(disk.f_blocks * disk.f_frsize * _FREE_SHARE), _FREE_BYTES_MAX)
        return min(self.bound(), max(used + free - reserve, 0))

    def _occupied_bytes(self) -> int:
        """How much the blocks occupy, counted."""
        return sum(entry.size_bytes for queue in QUEUES for entry in entries(self.path, queue))

    def _used_bytes(self) -> int | None:
        """How much the blocks occupy; None if nobody has counted them yet."""
        try:
            return os.stat(self.path / USAGE).st_size * _USAGE_UNIT
        except FileNotFoundError:
            return None

    def _set_usage(self, used_bytes: int) -> None:
        temporary = unfinished_path(self.path)
        with open(temporary, "wb") as file:
            file.truncate(-(-used_bytes // _USAGE_UNIT))
        os.replace(temporary, self.path / USAGE)

    def _add_usage(self, size_bytes: int) -> None:
        with open(self.path / USAGE, "ab", buffering=0) as file:
            file.write(b"\0" * -(-size_bytes // _USAGE_UNIT))
