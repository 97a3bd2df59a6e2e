"""Many small requests to the storage, such as the commits of a long log, by several threads and in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Commits and deletion vectors are small, so most of the time is spent waiting for the storage.
LOADERS = 16

# To hand a request over to a thread takes as long as to read a small file of a local disk.
_PIECE_ITEMS_MAX = 64


def load_pieces(load: Callable[[Sequence[Item]], Result], items: Sequence[Item]) -> Iterator[Result]:
    """The results of `load`, which takes some neighbouring items at a time, in order."""
    size = min(max(len(items) // (4 * LOADERS), 1), _PIECE_ITEMS_MAX)
    pieces = [items[start : start + size] for start in range(0, len(items), size)]
    if len(pieces) < 2:
        yield from map(load, pieces)
        return
    with ThreadPoolExecutor(LOADERS) as loaders:
        yield from loaders.map(load, pieces)


def load_all(load: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """The results of `load` in order."""
    for results in load_pieces(lambda piece: [load(item) for item in piece], items):
        yield from results
