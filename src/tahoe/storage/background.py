"""Background work: one job at a time, in the order of submission. The program ends only after all of it is done.

A caller that adds jobs faster than they are done does some of them itself, so that memory and the end of the program
stay bounded.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

# More jobs do not wait: what follows the commits of a table with many files may take longer than the commits.
_WAITING_MAX = 100


class _Queue:
    """Jobs that wait, and the thread that runs them."""

    def __init__(self) -> None:
        self._jobs: deque[Callable[[], None]] = deque()
        self._running = threading.Lock()
        self._runner: int | None = None
        self._starting = threading.Lock()
        self._worker: ThreadPoolExecutor | None = None

    def add(self, job: Callable[[], None]) -> None:
        self._jobs.append(job)
        try:
            self._executor().submit(self._run_all)
        except RuntimeError as error:
            if "shutdown" in str(error):  # the interpreter is shutting down
                self._run_all()
            # else no thread can be started now: the job runs with the next submission
        while len(self._jobs) > _WAITING_MAX and self._run_next():
            pass

    def finish(self) -> None:
        """Wait until all jobs added so far are done. A job does not wait, since it would wait for itself."""
        if self._runner == threading.get_ident():
            return
        self._executor().submit(self._run_all).result()

    def finish_at_end(self) -> None:
        if self._worker is not None:
            self.finish()

    def _run_all(self) -> None:
        """Run the waiting jobs, after the one that another thread is running."""
        while self._run_next():
            pass

    def _run_next(self) -> bool:
        """Run the next job, after the one that another thread is running; False if none waits, or if a job calls
        this.
        """
        if self._runner == threading.get_ident():
            return False  # the loop that runs this job runs what it has added
        with self._running:
            if not self._jobs:
                return False
            self._runner = threading.get_ident()
            try:
                with suppress(Exception):
                    self._jobs.popleft()()
            finally:
                self._runner = None
            return True

    def _executor(self) -> ThreadPoolExecutor:
        with self._starting:
            if self._worker is None:
                self._worker = ThreadPoolExecutor(1, thread_name_prefix="tahoe-background")
                _finish_before_the_end()
            return self._worker


_queue = _Queue()


def in_background(work: Callable[[], None]) -> None:
    """Run work in the background, after earlier work. At interpreter shutdown the calling thread runs it, also after
    earlier work.
    """
    _queue.add(work)


def finish_background() -> None:
    """Wait until all work submitted so far is done."""
    _queue.finish()


def _finish_before_the_end() -> None:
    """Finish the work while it can still start threads, which executors refuse after their own shutdown hook has run.

    Hooks run in reverse order of registration, and executors registered theirs on import. The function is private, but
    executors use it in all supported Python versions.
    """
    threading._register_atexit(_finish_at_end)  # type: ignore[attr-defined]


def _finish_at_end() -> None:
    _queue.finish_at_end()


def _forget() -> None:
    """A forked process has none of its parent's threads, so it must not wait for their locks."""
    global _queue
    _queue = _Queue()


os.register_at_fork(after_in_child=_forget)
