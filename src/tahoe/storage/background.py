"""Background work: one thread per process. The program ends only after all of it is done."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_lock = threading.Lock()
_worker: ThreadPoolExecutor | None = None


def in_background(work: Callable[[], None]) -> None:
    """Run work in the background, after earlier work. At interpreter shutdown it runs in the calling thread instead."""
    try:
        _executor().submit(work)
    except RuntimeError as error:
        if "shutdown" in str(error):  # the interpreter is shutting down
            work()
        # else no thread can be started now: the queued work runs with the next submission


def finish_background() -> None:
    """Wait until all work submitted so far is done."""
    _executor().submit(lambda: None).result()


def _executor() -> ThreadPoolExecutor:
    global _worker
    with _lock:
        if _worker is None:
            _worker = ThreadPoolExecutor(1, thread_name_prefix="tahoe-background")
            _finish_before_the_end()
        return _worker


def _finish_before_the_end() -> None:
    """Finish the work while it can still start threads, which executors refuse after their own shutdown hook has run.

    Hooks run in reverse order of registration, and executors registered theirs on import. The function is private, but executors use it in
    all supported Python versions.
    """
    threading._register_atexit(_finish_at_end)  # type: ignore[attr-defined]


def _finish_at_end() -> None:
    if _worker is not None:
        finish_background()


def _forget() -> None:
    """A forked process has none of its parent's threads, so it must not wait for their locks."""
    global _lock, _worker
    _lock, _worker = threading.Lock(), None


os.register_at_fork(after_in_child=_forget)
