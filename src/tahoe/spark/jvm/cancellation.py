"""Commands that somebody wants to stop: by cancelling Spark's jobs, by interrupting a thread, or with Ctrl-C.

A cancelled command commits nothing. Spark cancels the jobs that run at the moment; a command also looks just before it puts a commit, and
a job that it begins later is cancelled as well (`delta.Running`). From the put on nothing stops it any more: the commit is there or it is
not, and that is what its caller learns.

Ctrl-C reaches Python's main thread, which mostly waits for the JVM then. To leave a call into the JVM would break the connection and let
the command go on unseen. So while tahoe works in that thread, the jobs of its command are cancelled from another one, the call ends, and
KeyboardInterrupt is raised in its place.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any

import py4j

from tahoe.errors import CommandCancelledError, CommitOutcomeUnknownError
from tahoe.spark.jvm.gateway import JVM_ERRORS, Gateway, JavaObject
from tahoe.storage.env import Watch

_PY4J = str(Path(py4j.__file__).parent)

# Where PySpark's own handler of Ctrl-C is, which cancels all jobs and raises KeyboardInterrupt.
_PYSPARK_HANDLERS = "pyspark.core.context"

BY_KEYBOARD = "it was interrupted from the keyboard"


class Command:
    """A command at work in this thread.

    Attributes:
        has_put: whether it has begun to put a commit: from then on nothing interrupts it.
        commits: the tables and versions that it has made.
    """

    def __init__(self, running: JavaObject) -> None:
        self._running = running
        self.has_put = False
        self.commits: list[tuple[str, int]] = []

    @property
    def reason(self) -> str | None:
        """Why it is to stop; None while it is not."""
        if _keyboard.is_pressed and threading.current_thread() is threading.main_thread():
            return BY_KEYBOARD
        with suppress(*JVM_ERRORS):  # where the JVM is gone, nobody has cancelled anything
            reason = self._running.reason()
            return None if reason is None else str(reason)
        return None

    def cancel(self) -> None:
        """Stop it; called in another thread."""
        with suppress(*JVM_ERRORS):
            self._running.cancel(BY_KEYBOARD)

    def end(self) -> None:
        with suppress(*JVM_ERRORS):  # what it has done stays done
            self._running.end()


class _Here(threading.local):
    command: Command | None = None


_here = _Here()


@contextmanager
def cancellable(gateway: Gateway) -> Iterator[None]:
    """A command at work, which may commit. Within another one it is a part of that.

    Raises:
        CommandCancelledError: it was cancelled; nothing was committed.
        KeyboardInterrupt: likewise with Ctrl-C. Where the put had begun, the notes tell what came of it.
    """
    if _here.command is not None:
        yield
        return
    with interruptible():
        command = _here.command = Command(gateway.java_class("delta.Running").begin(gateway.session))
        try:
            yield
        except Exception as error:
            if command.has_put or isinstance(error, CommandCancelledError):
                raise  # from the put on, an error tells what came of the commit
            reason = command.reason
            if reason is None:
                raise
            raise CommandCancelledError(reason=reason) from error
        finally:
            _here.command = None
            _keyboard.commits += command.commits
            command.end()


def check() -> None:
    """Go on only if this thread's command, if it is in one, was not cancelled: before work that Spark would begin before it cancels it.

    Raises:
        CommandCancelledError: it was.
    """
    reason = None if _here.command is None else _here.command.reason
    if reason is not None:
        raise CommandCancelledError(reason=reason)


def is_surely_not_put() -> bool:
    """Whether this thread is in a command that has not begun to put a commit, whatever ends it."""
    return _here.command is not None and not _here.command.has_put


class CommandWatch(Watch):
    """Lets a commit go ahead unless the command that makes it in this thread was cancelled."""

    def before_put(self) -> None:
        if _here.command is not None:
            _here.command.has_put = True  # first, so that Ctrl-C comes before the question or not at all
            check()

    def committed(self, url: str, version: int) -> None:
        if _here.command is not None:
            _here.command.commits.append((url, version))


# --- Ctrl-C


class _Keyboard:
    """What Ctrl-C has done to Python's main thread while tahoe works in it."""

    def __init__(self) -> None:
        self.is_pressed = False
        self.commits: list[tuple[str, int]] = []
        self._to_cancel: SimpleQueue[Command] = SimpleQueue()  # safe to use where a signal is handled, as locks are not
        self._canceller: threading.Thread | None = None

    def begin(self) -> None:
        self.is_pressed, self.commits = False, []
        if self._canceller is None:
            self._canceller = threading.Thread(target=self._cancel, name="tahoe-cancel", daemon=True)
            self._canceller.start()

    def press(self, _signal: int, frame: FrameType | None) -> None:
        """Handle SIGINT: stop the command, and what Python does at this moment if that may be left anywhere."""
        self.is_pressed = True
        command = _here.command
        if command is not None:
            self._to_cancel.put(command)
        if (command is None or not command.has_put) and not _calls_java(frame):
            raise KeyboardInterrupt

    def _cancel(self) -> None:
        while True:
            self._to_cancel.get().cancel()

    def interruption(self, error: BaseException | None) -> KeyboardInterrupt:
        """What is raised in the end."""
        interrupt = error if isinstance(error, KeyboardInterrupt) else KeyboardInterrupt()
        for url, version in self.commits:
            interrupt.add_note(f"It came too late for version {version} of {url}, which was committed.")
        if isinstance(error, CommitOutcomeUnknownError):
            interrupt.add_note(str(error))
        return interrupt


_keyboard = _Keyboard()


@contextmanager
def interruptible() -> Iterator[None]:
    """Work of tahoe's in this thread, which Ctrl-C stops with KeyboardInterrupt and nothing else, and without breaking a connection.

    A program that handles SIGINT in a way of its own keeps that.
    """
    previous = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if _keyboard_is_ours(previous) or not _interrupts(previous):
        yield
        return
    _keyboard.begin()
    signal.signal(signal.SIGINT, _keyboard.press)
    try:
        yield
    except BaseException as error:
        if _keyboard.is_pressed:
            raise _keyboard.interruption(error) from None
        raise
    else:
        if _keyboard.is_pressed:
            raise _keyboard.interruption(None)
    finally:
        signal.signal(signal.SIGINT, previous)
        _keyboard.is_pressed = False


def _keyboard_is_ours(handler: Any) -> bool:
    return getattr(handler, "__self__", None) is _keyboard


def _interrupts(handler: Any) -> bool:
    """Whether a handler raises KeyboardInterrupt: Python's own, which notebooks use too, or PySpark's."""
    return handler is signal.default_int_handler or getattr(handler, "__module__", None) == _PYSPARK_HANDLERS


def _calls_java(frame: FrameType | None) -> bool:
    """Whether code of py4j's is at work, or waits for the JVM; not where the JVM waits for Python in turn."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PY4J):
            return frame.f_code.co_name != "_call_proxy"
        frame = frame.f_back
    return False
