"""A thread that does one thing at a time, when it is told to: how the explorer and the simulator hold the code that
they run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Killed(BaseException):
    """The process that the thread stands for is gone."""


class Gated(threading.Thread):
    """Some work that stands still at each `wait` until `step` lets it go on.

    Attributes:
        done: it has come to its end, or was killed.
        failure: what it raised, if it did.
    """

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        super().__init__(name=name, daemon=True)
        self.done = self.killed = False
        self.failure: BaseException | None = None
        self._work = work
        self._go, self._stands = threading.Semaphore(0), threading.Semaphore(0)

    def run(self) -> None:
        try:
            self._work()
        except Killed:
            pass
        except BaseException as error:
            self.failure = error
        self.done = True
        self._stands.release()

    def wait(self) -> None:
        """Stand still until `step`. What was killed does nothing more, in none of its threads."""
        if self.killed:
            raise Killed
        self._stands.release()
        self._go.acquire()
        if self.killed:
            self._go.release()
            raise Killed

    def begin(self) -> None:
        """Start, up to the first `wait`."""
        self.start()
        self._stands.acquire()

    def step(self) -> None:
        """Go on to the next `wait`, or to the end."""
        self._go.release()
        self._stands.acquire()

    def kill(self) -> None:
        """End where it stands."""
        self.killed = True
        while not self.done:
            self.step()
