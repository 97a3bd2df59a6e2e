"""Work that nobody waits for: one thread per process, and an end of the program only when all of it is done."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_lock = threading.Lock()
_worker: tuple[int, ThreadPoolExecutor] | None = None


def in_background(work: Callable[[], None]) -> None:
    """Do some work after what was asked for before. At the end of the program, no more is taken, and it is done at once."""
    try:
        _executor().submit(work)
    except RuntimeError:  # the interpreter is ending
        work()


def finish_background() -> None:
    """Wait until everything that was asked for by now is done."""
    _executor().submit(lambda: None).result()


def _executor() -> ThreadPoolExecutor:
    """A process that was forked has none of its parent's threads."""
    global _worker
    with _lock:
        if _worker is None or _worker[0] != os.getpid():
            _worker = (os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="tahoe-background"))
        return _worker[1]
