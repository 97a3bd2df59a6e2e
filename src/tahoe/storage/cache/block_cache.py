"""The cache of a process: what threads fetch together, the metrics, and what is done when its folder fails.

What stores ask here raises no error: what the cache cannot do, the storage does, and one warning says why.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakSet

from tahoe.storage.cache.block_file import Block, decode, encode
from tahoe.storage.cache.cache_folder import CacheFolder
from tahoe.storage.cache.eviction import MAIN, QUEUES, block_path, entries
from tahoe.storage.env import FileInfo, Identity

_logger = logging.getLogger("tahoe")

# After an error, nothing is written for so long: a disk that is full refuses every block.
_PAUSE_SECONDS = 30


@dataclass(slots=True)
class CacheMetrics:
    """What this process has read through the cache since it started. In a driver of Spark, hits, misses and bytes are
    also those of tasks that have ended.

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
        bytes_max: how much the blocks may occupy. It is less while the disk has little space left, and more if another
            process allows more.
        compresses: whether new blocks are compressed.
    """

    def __init__(self, folder: str, bytes_max: int, compresses: bool = False) -> None:
        self.folder = Path(folder)
        self.bytes_max = bytes_max
        self.compresses = compresses
        self._files = CacheFolder(self.folder, bytes_max)
        self._metrics = CacheMetrics()
        self._included: list[Callable[[BlockCache], CacheMetrics]] = []
        self._warned: set[str] = set()
        self._paused_until = 0.0
        self.forget_threads()
        _caches.add(self)

    def __repr__(self) -> str:
        return f"BlockCache({str(self.folder)!r}, {self.bytes_max})"

    def __reduce__(self) -> Any:
        return block_cache, (str(self.folder), self.bytes_max, self.compresses)

    def forget_threads(self) -> None:
        """Begin without the threads that were at work: a forked process has none of them, but copies of their locks."""
        self._counting = threading.Lock()
        self._claiming = threading.Lock()
        self._fetches: dict[tuple[str, Identity], Future[memoryview]] = {}

    # --- for users

    def metrics(self) -> CacheMetrics:
        """What this process has read through the cache so far, and Spark's tasks for it."""
        with self._counting:
            metrics = CacheMetrics(**asdict(self._metrics))
        for other in (of_others(self) for of_others in self._included):
            metrics = CacheMetrics(**{name: getattr(metrics, name) + count for name, count in asdict(other).items()})
        return metrics

    def usage(self) -> CacheUsage:
        """What is in the folder now. It takes seconds for a million blocks."""
        found = {queue: [entry.size_bytes for entry in entries(self.folder, queue)] for queue in QUEUES}
        return CacheUsage(
            blocks=sum(map(len, found.values())),
            bytes=sum(map(sum, found.values())),
            bytes_often_read=sum(found[MAIN]),
            bytes_max=self._files.bound(),
        )

    def foreign_names(self) -> list[str]:
        """What is in the folder if it is not that of a cache.

        Raises:
            OSError: it is not a folder.
        """
        return self._files.foreign_names()

    def clear(self) -> int:
        """Delete all blocks, and nothing else. Other processes may go on; they fill it anew.

        Returns:
            how many blocks were deleted.

        Raises:
            OSError: a file cannot be deleted, or the folder is not that of a cache.
        """
        return self._files.clear()

    def verify(self) -> CacheVerification:
        """Read every block, and delete those that are damaged.

        Raises:
            OSError: a block cannot be read, or the folder is not that of a cache.
        """
        if foreign := self.foreign_names():
            raise OSError(errno.ENOTEMPTY, f"{self.folder} is not the folder of a cache: it has {foreign[0]}")
        whole = damaged = 0
        for queue in QUEUES:
            for entry in entries(self.folder, queue):
                data = self._files.load(queue, entry.name, marks=False)
                if data is not None and decode(entry.name, data) is None:
                    self._delete_damaged(queue, entry.name)
                    damaged += 1
                elif data is not None:
                    whole += 1
        return CacheVerification(whole, damaged)

    # --- for readers of other kinds

    def include(self, metrics: Callable[[BlockCache], CacheMetrics]) -> None:
        """Add to `metrics` what others have read for this process, through caches in folders of this path; once."""
        if metrics not in self._included:
            self._included.append(metrics)

    # --- for stores

    def count(self, **counts: int) -> None:
        """Add to the metrics."""
        with self._counting:
            for name, count in counts.items():
                setattr(self._metrics, name, getattr(self._metrics, name) + count)

    def read(self, name: str, identity: Identity | None = None) -> Block | None:
        """The block of a name; None if it is not here.

        Args:
            identity: of the file whose content it must be; None for whichever it is, which does not count as reading.
        """
        try:
            for queue in QUEUES:
                data = self._files.load(queue, name, marks=identity is not None)
                block = None if data is None else decode(name, data)
                if data is not None and block is None:
                    self._delete_damaged(queue, name)
                elif block is not None and identity in (None, block.info.identity):
                    return block
        except Exception as error:
            self._fail("cannot be read", error)
        return None

    def write(self, name: str, info: FileInfo, content: bytes | memoryview) -> None:
        """Keep a block, in the place of another one of its name, if there is room for it."""
        if time.monotonic() < self._paused_until:
            return
        try:
            evicted = self._files.write(name, encode(name, info, content, compresses=self.compresses))
            if evicted is not None:
                self.count(written_blocks=1, evicted_blocks=evicted.blocks)
        except ValueError:  # a file whose ETag cannot be written is not kept
            return
        except Exception as error:
            self._paused_until = time.monotonic() + _PAUSE_SECONDS
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                with suppress(OSError):  # it may be out of files, or over a quota
                    self._files.shrink()
            self._fail("cannot be written to", error)

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
        ours: dict[int, Future[memoryview]] = {}
        try:
            with self._claiming:
                pending = {number: self._fetches.get((name, identity)) for number, name in names.items()}
                ours.update({number: Future() for number, other in pending.items() if other is None})
                self._fetches.update({(names[number], identity): future for number, future in ours.items()})
            for number, content in fetch(list(ours)) if ours else ():
                ours[number].set_result(content)
        finally:
            with self._claiming:
                for number, future in ours.items():
                    self._fetches.pop((names[number], identity), None)
                    if not future.done():  # by an error or an interrupt; who waits fetches it
                        future.set_exception(OSError("it was not fetched"))
        found = {number: future.result() for number, future in ours.items()}
        others = {number: other for number, other in pending.items() if other is not None}
        wait(others.values())
        found |= {number: other.result() for number, other in others.items() if other.exception() is None}
        # What went wrong in another thread, such as a cancellation, need not go wrong here.
        failed = [number for number in others if number not in found]
        return found | dict(fetch(failed)) if failed else found

    # --- the steps

    def _delete_damaged(self, queue: str, name: str) -> None:
        path = block_path(self.folder, queue, name)
        self.count(damaged_blocks=1)
        self._warn("damaged", f"the block {path} was damaged, and is read from the storage again")
        with suppress(OSError):
            os.unlink(path)

    def _fail(self, what: str, error: Exception) -> None:
        kind = str(error.errno) if isinstance(error, OSError) else type(error).__name__
        self._warn(kind, f"it {what}: {error}")

    def _warn(self, kind: str, detail: str) -> None:
        """Say once what happened; what is of the same kind follows silently."""
        if kind not in self._warned:
            self._warned.add(kind)
            _logger.warning(
                "the local cache in %s: %s. Reading goes on from the storage; this is said once.", self.folder, detail
            )


# All caches of this process.
_caches: WeakSet[BlockCache] = WeakSet()


def _forget_threads() -> None:
    for cache in list(_caches):
        cache.forget_threads()


os.register_at_fork(after_in_child=_forget_threads)


@lru_cache
def block_cache(folder: str, bytes_max: int, compresses: bool) -> BlockCache:
    """The cache in a folder: one object in a process, so that its threads share what they fetch."""
    return BlockCache(folder, bytes_max, compresses)
