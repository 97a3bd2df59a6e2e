"""A store that reads through the local cache.

Each time a file is read or opened, the storage is asked once whether it still is the one in the cache, with the
caller's own credentials. So nothing stale is read, nor what the storage would refuse, and writes need not tell the
cache anything. A block is found by the storage that is asked, the file's url and the block's number, and holds for the
size and ETag in its own header.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import BinaryIO, cast

from tahoe.storage.cache.block_cache import BlockCache
from tahoe.storage.cache.block_file import BLOCK_BYTES, FORMAT, block_length
from tahoe.storage.delegating import DelegatingStore
from tahoe.storage.env import Fetched, FileInfo, FileReplacedError, RemoteStore
from tahoe.storage.locations import join
from tahoe.storage.ranges import RangeFile


@dataclass(frozen=True, slots=True)
class CachedStore(DelegatingStore):
    """A `Store` over a remote one.

    Args:
        inner: the remote store.
        realm: names the endpoint and the credentials: with others, the same url may be another file.
        blocks: the cache.
    """

    inner: RemoteStore
    realm: str
    blocks: BlockCache

    def get(self, key: str) -> bytes:
        fetched = self._fetch(key, 0, None)
        if isinstance(fetched, FileInfo):
            try:
                return self._content(fetched, 0, fetched.size_bytes)
            except FileReplacedError:
                return self._kept(self.inner.fetch(key), 0).data
        return fetched.data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if not length:
            return self.inner.get_range(key, start, length)
        first = start - start % BLOCK_BYTES
        fetched = self._fetch(key, first, -(-(start + length) // BLOCK_BYTES) * BLOCK_BYTES - first)
        if isinstance(fetched, FileInfo):
            try:
                return self._content(fetched, start, min(length, max(fetched.size_bytes - start, 0)))
            except FileReplacedError:
                return self.inner.get_range(key, start, length)
        return fetched.data[start - first : start - first + length]

    def open(self, key: str, known: FileInfo | None = None) -> BinaryIO:
        info = known or self.inner.head(key)
        if info is None:
            return self.inner.open(key)  # raises the error
        return cast(BinaryIO, RangeFile(info.size_bytes, partial(self._content, _with_key(info, key))))

    # --- the steps

    def _fetch(self, key: str, start: int, length: int | None) -> Fetched | FileInfo:
        """What the storage answers, which is kept; the file, if the cache has its first block and it has not changed.

        Args:
            start: where a block begins.
        """
        cached = self.blocks.read(self._name(key, start // BLOCK_BYTES))
        if cached is None:
            return self._kept(self.inner.fetch(key, start, length), start)
        fetched = self.inner.fetch(key, start, length, unless=cached.info)
        if fetched is not None:
            return self._kept(fetched, start)
        self.blocks.count(unchanged=1)
        return _with_key(cached.info, key)

    def _content(self, info: FileInfo, start: int, length: int) -> bytes:
        """A range of a file, from the cache where it is there.

        Raises:
            FileReplacedError: the file is another one now, and a part of it is not in the cache.
        """
        if not length:
            return b""
        first, end = start // BLOCK_BYTES, -(-(start + length) // BLOCK_BYTES)
        blocks: dict[int, bytes | memoryview] = {}
        for number in range(first, end):
            block = self.blocks.read(self._name(info.key, number), info.identity)
            if block is not None and len(block.content) == block_length(info.size_bytes, number):
                blocks[number] = block.content
        self.blocks.count(hits=len(blocks), cached_bytes=sum(map(len, blocks.values())))
        missing = {number: self._name(info.key, number) for number in range(first, end) if number not in blocks}
        if missing:
            blocks.update(
                self.blocks.fetch_once(missing, info.identity, lambda numbers: self._fetch_blocks(info, numbers))
            )
        return _cut([blocks[number] for number in range(first, end)], start - first * BLOCK_BYTES, length)

    def _fetch_blocks(self, info: FileInfo, numbers: Sequence[int]) -> Iterator[tuple[int, memoryview]]:
        """Blocks of a file, which are kept. Neighbours are fetched by one request."""
        for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
            run_numbers = [number for _, number in run]
            start = run_numbers[0] * BLOCK_BYTES
            length = min(len(run_numbers) * BLOCK_BYTES, info.size_bytes - start)
            fetched = self.inner.fetch(info.key, start, length)
            if fetched is None or fetched.info.identity != info.identity or len(fetched.data) != length:
                raise FileReplacedError(errno.ESTALE, "the file was replaced", join(self.url, info.key))
            self._kept(fetched, start)
            yield from _blocks(fetched.data, start)

    def _kept(self, fetched: Fetched | None, start: int) -> Fetched:
        """Keep what was fetched from the start of a block on, as far as it is whole blocks.

        Without an ETag nothing is kept: a file that is replaced within one second has the same modification time.
        """
        assert fetched is not None, "only a request with a condition has no answer"
        info, data = fetched
        blocks = [*_blocks(data, start)]
        self.blocks.count(misses=len(blocks), fetched_bytes=len(data))
        for number, content in blocks:
            if info.etag and len(content) == block_length(info.size_bytes, number):
                self.blocks.write(self._name(info.key, number), info, content)
        return fetched

    def _name(self, key: str, number: int) -> str:
        """The name of a block."""
        text = f"{self.realm}\0{join(self.url, key)}\0{FORMAT}\0{number}"
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:40]


def _with_key(info: FileInfo, key: str) -> FileInfo:
    return FileInfo(key, info.size_bytes, info.modified_ms, info.etag)


def _blocks(data: bytes, start: int) -> Iterator[tuple[int, memoryview]]:
    """The blocks in a part of a file that starts where a block begins, by their numbers. An empty file has one."""
    view = memoryview(data)
    for offset in range(0, max(len(data), 1), BLOCK_BYTES):
        yield (start + offset) // BLOCK_BYTES, view[offset : offset + BLOCK_BYTES]


def _cut(blocks: Sequence[bytes | memoryview], start: int, length: int) -> bytes:
    """The bytes from `start` on of blocks that follow each other."""
    if len(blocks) == 1:
        return bytes(blocks[0][start : start + length])
    last = length + start - sum(map(len, blocks[:-1]))
    return b"".join([blocks[0][start:], *blocks[1:-1], blocks[-1][:last]])
