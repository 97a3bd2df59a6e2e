"""Work in threads of this process: requests, which wait for a storage most of their time, and Arrow's work, which uses
all cores.

All pools of threads are made here, but for that of background work. Results come in the order of the items. Only a few
items are taken before their results are asked for, so that a million of them need no memory. After an error, and if the
results are not read to their end, no further item begins.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# How many requests a storage gets at a time.
REQUESTS = 16

CORES = os.cpu_count() or 1

# To hand a request over to a thread takes as long as to read a small file of a local disk.
_PIECE_ITEMS_MAX = 64

_thread = threading.local()


def in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int = REQUESTS, ahead: int | None = None
) -> Iterator[Result]:
    """The results of `work` in order.

    Args:
        ahead: how many results are computed before they are asked for; twice as many as there are threads if None.
    """
    source = iter(items)
    first = list(islice(source, 2))
    if len(first) < 2:
        yield from map(work, first)
        return
    most = 2 * threads if ahead is None else ahead
    waiting = deque[Future[Result]]()
    with ThreadPoolExecutor(threads, thread_name_prefix="tahoe", initializer=_enter_pool) as pool:
        try:
            for item in chain(first, source):
                waiting.append(pool.submit(work, item))
                if len(waiting) > most:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def on_all_cores(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The results in order, computed at once: Arrow releases the GIL. In a thread of this module, one after the
    other.
    """
    todo = list(items)
    return list(map(work, todo) if getattr(_thread, "is_ours", False) else in_threads(work, todo, CORES, len(todo)))


def in_pieces(work: Callable[[Sequence[Item]], Result], items: Sequence[Item]) -> Iterator[Result]:
    """The results of `work`, which takes some neighbouring items at a time, in order: for many small requests, such as
    a log's commits.
    """
    size = min(max(len(items) // (4 * REQUESTS), 1), _PIECE_ITEMS_MAX)
    return in_threads(work, (items[start : start + size] for start in range(0, len(items), size)))


def load_all(load: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """The results of many small requests, in order."""
    return chain.from_iterable(in_pieces(lambda piece: [load(item) for item in piece], items))


def _enter_pool() -> None:
    _thread.is_ours = True
