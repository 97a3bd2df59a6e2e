"""Which blocks of the cache are deleted when it is full: S3-FIFO (Yang et al., SOSP 2023), with files as its queues.

New blocks enter the queue `small`, which has a tenth of the space. What is read again there moves to `main`; what is
not is deleted. So a scan of a large table passes through `small`, and `main` keeps what is read often. A block that
returns soon after it was deleted, whose name is still among the ghosts, enters `main` at once.

The order of a queue is that of modification times, and a file that is executable was read since it entered its queue.
So any process can evict, knows nothing but the folder, and may stop between any two steps. One at a time does; a JVM of
Spark's, whose lock is another one, may do so at the same time, and deletes the same blocks first. Only files that have
the name of a block, in the folder of that name, are touched.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

SMALL, MAIN = "small", "main"
QUEUES = (MAIN, SMALL)
UNREAD, READ = 0o600, 0o700
GHOSTS, LOCK, UNFINISHED = "ghosts", "lock", "unfinished"

_SMALL_SHARE = 0.1

# Evicting goes on below the limit, so that it is not done for each block.
_FULL_SHARE = 0.95

_GHOST_BYTES = 8
_BLOCK_NAME = re.compile(r"[0-9a-f]{40}")
_UNFINISHED_NAME = re.compile(r"[0-9a-f]{32}")

# A file that is not yet a block is one of a process that stopped, when it is so old.
UNFINISHED_SECONDS_MAX = 60

_DISK_BYTES = 4096


@dataclass(slots=True)
class BlockEntry:
    """The file of a block, as it is found in its queue.

    Attributes:
        entered_ns: when it entered its queue.
    """

    name: str
    entered_ns: int
    size_bytes: int
    was_read: bool


@dataclass(slots=True)
class Evicted:
    """What an eviction did.

    Attributes:
        used_bytes: what the blocks occupy that are left.
    """

    used_bytes: int = 0
    blocks: int = 0
    ghosts: list[str] = field(default_factory=list)


def block_path(folder: Path, queue: str, name: str) -> str:
    return f"{folder}/{queue}/{name[:2]}/{name}"


def occupied(size_bytes: int) -> int:
    """What a file occupies on a disk."""
    return -(-size_bytes // _DISK_BYTES) * _DISK_BYTES


def unfinished_path(folder: Path) -> Path:
    """Where a file is written before it gets its name."""
    return folder / UNFINISHED / uuid.uuid4().hex


@contextmanager
def evicting(folder: Path) -> Iterator[bool]:
    """Whether this process is the one that evicts. It never waits for another."""
    with open(folder / LOCK, "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            try:
                yield True
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)  # a forked process has the open file too


def evict(folder: Path, limit_bytes: int) -> Evicted:
    """Delete blocks until the rest fits, with some room for the next. Precondition: `evicting` said so.

    What cannot be deleted stays, and counts.
    """
    delete_unfinished(folder, UNFINISHED_SECONDS_MAX)
    queues = {queue: deque(sorted(entries(folder, queue), key=lambda entry: entry.entered_ns)) for queue in QUEUES}
    used = {queue: sum(entry.size_bytes for entry in queues[queue]) for queue in QUEUES}
    evicted, target, stuck = Evicted(), limit_bytes * _FULL_SHARE, 0
    while sum(used.values()) + stuck > target and any(queues.values()):
        is_small = bool(queues[SMALL]) and (used[SMALL] > target * _SMALL_SHARE or not queues[MAIN])
        queue = SMALL if is_small else MAIN
        entry = queues[queue].popleft()
        used[queue] -= entry.size_bytes
        try:
            if entry.was_read:
                _enter_main(folder, queue, entry)
                queues[MAIN].append(entry)
                used[MAIN] += entry.size_bytes
                continue
            os.unlink(block_path(folder, queue, entry.name))
        except FileNotFoundError:
            continue
        except OSError:
            stuck += entry.size_bytes
            continue
        evicted.blocks += 1
        if is_small:
            evicted.ghosts.append(entry.name)
    evicted.used_bytes = sum(used.values()) + stuck
    if evicted.ghosts:
        with suppress(OSError):  # they are only advice
            _remember(folder, evicted.ghosts, most=max(len(queues[MAIN]), len(queues[SMALL])))
    return evicted


def entries(folder: Path, queue: str) -> Iterator[BlockEntry]:
    """The blocks of a queue, in no order."""
    for part in _scanned(folder / queue):
        for file in _scanned(part.path):
            if _BLOCK_NAME.fullmatch(file.name) and file.name[:2] == part.name:
                with suppress(OSError):
                    if file.is_file(follow_symlinks=False):
                        status = file.stat(follow_symlinks=False)
                        was_read = bool(status.st_mode & READ & ~UNREAD)
                        yield BlockEntry(file.name, status.st_mtime_ns, occupied(status.st_size), was_read)


def delete_unfinished(folder: Path, age_seconds: float) -> None:
    """Delete what writers that were stopped have left."""
    for file in _scanned(folder / UNFINISHED):
        with suppress(OSError):
            age = abs(time.time() - file.stat(follow_symlinks=False).st_mtime)
            if _UNFINISHED_NAME.fullmatch(file.name) and age >= age_seconds:
                os.unlink(file.path)


def ghosts(folder: Path) -> frozenset[bytes]:
    """The blocks that were deleted lately without having been read again, by `ghost`."""
    data = (folder / GHOSTS).read_bytes()
    return frozenset(data[at : at + _GHOST_BYTES] for at in range(0, len(data), _GHOST_BYTES))


def ghost(name: str) -> bytes:
    return bytes.fromhex(name[: 2 * _GHOST_BYTES])


def _enter_main(folder: Path, queue: str, entry: BlockEntry) -> None:
    """Move a block to the end of `main`, as one that was not read there."""
    path, now = block_path(folder, queue, entry.name), time.time_ns()
    os.chmod(path, UNREAD)
    os.utime(path, ns=(now, now))
    if queue != MAIN:
        to = block_path(folder, MAIN, entry.name)
        with suppress(FileExistsError):
            os.mkdir(os.path.dirname(to), 0o700)
        os.rename(path, to)
    entry.entered_ns, entry.was_read = now, False


def _remember(folder: Path, names: list[str], most: int) -> None:
    """Add ghosts, and forget the oldest."""
    known = b""
    with suppress(FileNotFoundError):
        known = (folder / GHOSTS).read_bytes()
    data = (known + b"".join(map(ghost, names)))[-most * _GHOST_BYTES :] if most else b""
    temporary = unfinished_path(folder)
    temporary.write_bytes(data)
    os.replace(temporary, folder / GHOSTS)


def _scanned(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:  # not there, not a folder, or not ours
        return []
