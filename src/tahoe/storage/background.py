"""Work that nobody waits for: one thread per process, and an end of the program only when all of it is done."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_lock = threading.Lock()
_worker: ThreadPoolExecutor | None = None


def in_background(work: Callable[[], None]) -> None:
    """Do some work after what was asked for before. At the end of the program, no more is taken, and it is done at once."""
    try:
        _executor().submit(work)
    except RuntimeError as error:
        if "shutdown" in str(error):  # the interpreter is ending
            work()
        # else no thread can be started now: the work waits for the next time


def finish_background() -> None:
    """Wait until everything that was asked for by now is done."""
    _executor().submit(lambda: None).result()


def _executor() -> ThreadPoolExecutor:
    global _worker
    with _lock:
        if _worker is None:
            _worker = ThreadPoolExecutor(1, thread_name_prefix="tahoe-background")
            _finish_before_the_end()
        return _worker


def _finish_before_the_end() -> None:
    """See that the work is done while it may still start threads of its own, which executors refuse once the interpreter is ending.

    What is registered last is called first, and executors registered themselves when they were imported. The function is not public; it
    is how they do it, in every version that is supported.
    """
    threading._register_atexit(_finish_at_end)  # type: ignore[attr-defined]


def _finish_at_end() -> None:
    if _worker is not None:
        finish_background()


def _forget() -> None:
    """A process that was forked has none of its parent's threads, and must not wait for what they held."""
    global _lock, _worker
    _lock, _worker = threading.Lock(), None


os.register_at_fork(after_in_child=_forget)
