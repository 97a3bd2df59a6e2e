"""The folder of the cache: its blocks, how much they occupy, and what is done when it fails.

    small/ main/     the blocks, in the two queues of `eviction`
    unfinished/      blocks that are being written
    ghosts           names of deleted blocks
    lock             held by the process that evicts, and never while it waits for a storage
    usage            its size tells how much the blocks occupy: one byte for 16 KiB, to which each writer appends

Blocks are renamed into their queue, so that none is there in part. They are not synced to disk: after a power failure
their checksums tell which are damaged. Nothing here raises an error: what the cache cannot do, the storage does, and
one warning says why.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tahoe.storage.cache.block_file import Block, decode, encode
from tahoe.storage.cache.eviction import (
    MAIN,
    QUEUES,
    READ,
    SMALL,
    UNREAD,
    block_path,
    entries,
    evict,
    evicting,
    ghost,
    ghosts,
    occupied,
)
from tahoe.storage.env import FileInfo, Identity

_logger = logging.getLogger("tahoe")

# This share of the disk is left free, but not more than so many bytes.
_FREE_SHARE, _FREE_BYTES_MAX = 0.05, 10 << 30

_USAGE_UNIT = 16 << 10

# After an error, nothing is written for so long: a disk that is full refuses every block.
_PAUSE_SECONDS = 30

# What deleting a folder, and having no permission to a file, mean to a reader: the block is not there.
_ABSENT = (errno.ENOENT, errno.ENOTDIR)


@dataclass(slots=True)
class CacheMetrics:
    """What this process has read through the cache since it started.

    Attributes:
        hits, misses: blocks that were in the cache, and blocks that were not.
        cached_bytes, fetched_bytes: what came from the cache, and what from the storage.
        unchanged: how often the storage said that a file is still the one in the cache.
        written_blocks, evicted_blocks, damaged_blocks: what this process did to the folder.
    """

    hits: int = 0
    misses: int = 0
    cached_bytes: int = 0
    fetched_bytes: int = 0
    unchanged: int = 0
    written_blocks: int = 0
    evicted_blocks: int = 0
    damaged_blocks: int = 0


@dataclass(frozen=True, slots=True)
class CacheUsage:
    """What is in the folder of a cache.

    Attributes:
        blocks, bytes: the number of blocks, and what they occupy on the disk.
        bytes_often_read: what those of them occupy that an eviction found to have been read again.
        bytes_max: how much all may occupy.
    """

    blocks: int
    bytes: int
    bytes_often_read: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class CacheVerification:
    """The result of reading every block: how many are whole, and how many were damaged and are deleted now."""

    whole: int
    damaged: int


class BlockCache:
    """A folder with parts of remote files, which the processes of a machine share. Thread-safe.

    Attributes:
        folder: made when the first block is written.
        bytes_max: how much the blocks may occupy. It is less while the disk has little space left.
        compresses: whether new blocks are compressed.
    """

    def __init__(self, folder: str, bytes_max: int, compresses: bool = False) -> None:
        self.folder = Path(folder)
        self.bytes_max = bytes_max
        self.compresses = compresses
        self._metrics = CacheMetrics()
        self._counting = threading.Lock()
        self._warned: set[str] = set()
        self._paused_until = 0.0
        self._ghosts: tuple[int, frozenset[bytes]] = (0, frozenset())
        self._fetches: dict[tuple[str, Identity], Future[memoryview]] = {}
        self._claiming = threading.Lock()

    def __repr__(self) -> str:
        return f"BlockCache({str(self.folder)!r}, {self.bytes_max})"

    def __reduce__(self) -> Any:
        return block_cache, (str(self.folder), self.bytes_max, self.compresses)

    # --- for users

    def metrics(self) -> CacheMetrics:
        """What this process has read through the cache so far."""
        with self._counting:
            return CacheMetrics(**asdict(self._metrics))

    def usage(self) -> CacheUsage:
        """What is in the folder now. It takes seconds for a million blocks."""
        found = {queue: [entry.size_bytes for entry in entries(self.folder, queue)] for queue in QUEUES}
        return CacheUsage(
            blocks=sum(map(len, found.values())),
            bytes=sum(map(sum, found.values())),
            bytes_often_read=sum(found[MAIN]),
            bytes_max=self.bytes_max,
        )

    def clear(self) -> None:
        """Delete all blocks. Other processes may go on; they fill it anew.

        Raises:
            OSError: a file cannot be deleted.
        """
        for queue in QUEUES:
            for entry in entries(self.folder, queue):
                Path(block_path(self.folder, queue, entry.name)).unlink(missing_ok=True)
        for name in ("ghosts", "usage"):
            (self.folder / name).unlink(missing_ok=True)

    def verify(self) -> CacheVerification:
        """Read every block, and delete those that are damaged."""
        whole = damaged = 0
        for queue in QUEUES:
            for entry in entries(self.folder, queue):
                path = block_path(self.folder, queue, entry.name)
                data = self._load(path, marked=False)
                if data is not None and decode(data) is None:
                    self._delete_damaged(path)
                    damaged += 1
                elif data is not None:
                    whole += 1
        return CacheVerification(whole, damaged)

    # --- for stores

    def count(self, **counts: int) -> None:
        """Add to the metrics."""
        with self._counting:
            for name, count in counts.items():
                setattr(self._metrics, name, getattr(self._metrics, name) + count)

    def read(self, name: str, identity: Identity | None = None) -> Block | None:
        """The block of a name; None if it is not here.

        Args:
            identity: of the file whose content it must be; None for whichever it is.
        """
        for queue in QUEUES:
            path = block_path(self.folder, queue, name)
            data = self._load(path, marked=identity is not None)
            block = None if data is None else decode(data)
            if data is not None and block is None:
                self._delete_damaged(path)
            elif block is not None and identity in (None, block.info.identity):
                return block
        return None

    def write(self, name: str, info: FileInfo, content: bytes | memoryview) -> None:
        """Keep a block, in the place of another one of its name, if there is room for it."""
        if time.monotonic() < self._paused_until:
            return
        try:
            pieces = encode(info, content, compresses=self.compresses)
            if self._has_room(occupied(sum(map(len, pieces)))):
                self._write(name, pieces)
                self.count(written_blocks=1)
        except OSError as error:
            self._fail(f"cannot write to it: {error}", error.errno)
            self._paused_until = time.monotonic() + _PAUSE_SECONDS

    def fetch_once(
        self,
        names: Mapping[int, str],
        identity: Identity,
        fetch: Callable[[list[int]], Iterator[tuple[int, memoryview]]],
    ) -> dict[int, memoryview]:
        """Blocks that are not here, by their numbers. Of all threads that ask for a block at the same time, one fetches
        it.

        Args:
            names: the names of the blocks, by their numbers.
            fetch: yields the blocks of some numbers, all of them, or raises an error.
        """
        with self._claiming:
            pending = {number: self._fetches.get((name, identity)) for number, name in names.items()}
            ours = {number: Future[memoryview]() for number, other in pending.items() if other is None}
            self._fetches.update({(names[number], identity): future for number, future in ours.items()})
        try:
            for number, content in fetch(list(ours)) if ours else ():
                ours[number].set_result(content)
        except BaseException as error:
            for future in ours.values():
                if not future.done():
                    future.set_exception(error)
            raise
        finally:
            with self._claiming:
                for number in ours:
                    del self._fetches[names[number], identity]
        found = {number: future.result() for number, future in ours.items()}
        others = {number: other for number, other in pending.items() if other is not None}
        wait(others.values())
        found |= {number: other.result() for number, other in others.items() if other.exception() is None}
        # What went wrong in another thread, such as a cancellation, need not go wrong here.
        failed = [number for number in others if number not in found]
        return found | dict(fetch(failed)) if failed else found

    # --- the steps

    def _load(self, path: str, *, marked: bool) -> bytes | None:
        """The content of a file, which is marked as read again."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                status = os.fstat(descriptor)
                data = os.read(descriptor, status.st_size)
                if marked and status.st_mode & READ == UNREAD:
                    with suppress(OSError):  # a folder that can only be read
                        os.fchmod(descriptor, READ)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno not in _ABSENT:
                self._fail(f"cannot read it: {error}", error.errno)
            return None
        return data

    def _write(self, name: str, pieces: tuple[bytes, bytes | memoryview]) -> None:
        unfinished = self.folder / "unfinished" / uuid.uuid4().hex
        descriptor = self._create(unfinished)
        try:
            try:
                length = sum(map(len, pieces))
                if os.writev(descriptor, pieces) != length:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(unfinished))
            finally:
                os.close(descriptor)
            path = block_path(self.folder, self._queue_of(name), name)
            try:
                os.rename(unfinished, path)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.rename(unfinished, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished)
            raise
        self._add_usage(occupied(length))

    def _create(self, path: Path) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(path, flags, UNREAD)
        except FileNotFoundError:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(exist_ok=True)
            return os.open(path, flags, UNREAD)

    def _queue_of(self, name: str) -> str:
        """The queue that a new block enters. One that is in `main` already is replaced there."""
        return (
            MAIN
            if ghost(name) in self._known_ghosts() or os.path.exists(block_path(self.folder, MAIN, name))
            else SMALL
        )

    def _known_ghosts(self) -> frozenset[bytes]:
        try:
            changed = os.stat(self.folder / "ghosts").st_mtime_ns
            if changed != self._ghosts[0]:
                self._ghosts = changed, ghosts(self.folder)
        except FileNotFoundError:
            return frozenset()
        return self._ghosts[1]

    def _has_room(self, size_bytes: int) -> bool:
        """Whether a block fits, after an eviction if it must be. False if another process is evicting.

        Raises:
            OSError: there is no space that eviction could free.
        """
        used = self._used_bytes()
        if used is None or used + size_bytes > self._limit_bytes(used):
            if not self._evict(self._limit_bytes(used or 0)):
                return False
            used = self._used_bytes() or 0
            if used + size_bytes > self._limit_bytes(used):
                raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}, beside what is to stay free")
        return True

    def _limit_bytes(self, used: int) -> int:
        """How much the blocks may occupy, which leaves some space on the disk free."""
        disk = os.statvfs(next(folder for folder in (self.folder, *self.folder.parents) if folder.exists()))
        free = disk.f_bavail * disk.f_frsize
        reserve = min(int(disk.f_blocks * disk.f_frsize * _FREE_SHARE), _FREE_BYTES_MAX)
        return min(self.bytes_max, max(used + free - reserve, 0))

    def _evict(self, limit_bytes: int) -> bool:
        """Make room; False if another process is doing it."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with evicting(self.folder) as is_ours:
            if is_ours:
                evicted = evict(self.folder, limit_bytes)
                self.count(evicted_blocks=evicted.blocks)
                self._set_usage(evicted.used_bytes)
            return is_ours

    def _used_bytes(self) -> int | None:
        """How much the blocks occupy; None if nobody has counted them yet."""
        try:
            return os.stat(self.folder / "usage").st_size * _USAGE_UNIT
        except FileNotFoundError:
            return None

    def _set_usage(self, used_bytes: int) -> None:
        temporary = self.folder / f"usage.{os.getpid()}"
        with open(temporary, "wb") as file:
            file.truncate(-(-used_bytes // _USAGE_UNIT))
        os.replace(temporary, self.folder / "usage")

    def _add_usage(self, size_bytes: int) -> None:
        with open(self.folder / "usage", "ab", buffering=0) as file:
            file.write(b"\0" * -(-size_bytes // _USAGE_UNIT))

    def _delete_damaged(self, path: str) -> None:
        self.count(damaged_blocks=1)
        self._fail(f"the block {path} was damaged, and is read from the storage again", None)
        with suppress(OSError):
            os.unlink(path)

    def _fail(self, detail: str, number: int | None) -> None:
        """Say once what happened; errors of the same kind follow silently."""
        kind = "damaged" if number is None else str(number)
        if kind not in self._warned:
            self._warned.add(kind)
            _logger.warning(
                "the local cache in %s: %s. Reading goes on from the storage; this is said once.", self.folder, detail
            )


@lru_cache
def block_cache(folder: str, bytes_max: int, compresses: bool) -> BlockCache:
    """The cache in a folder: one object in a process, so that its threads share what they fetch."""
    return BlockCache(folder, bytes_max, compresses)
