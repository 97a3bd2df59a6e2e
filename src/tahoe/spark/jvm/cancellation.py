"""Cancellation of commands: by cancelling Spark's jobs, by interrupting a thread, or with Ctrl-C.

A cancelled command commits nothing. Spark cancels the running jobs; jobs that the command starts later are cancelled
too (`delta.Running`), and the command checks for cancellation just before it puts a commit. From the put on nothing
stops the command: its result tells whether the commit exists.

Ctrl-C reaches Python's main thread, which usually waits for the JVM. Leaving a call into the JVM would break the
connection, and the command would continue unnoticed. So while tahoe works in that thread, the command's jobs are
cancelled from another thread, the call returns, and KeyboardInterrupt is raised.
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

# The module of PySpark's own SIGINT handler, which cancels all jobs and raises KeyboardInterrupt.
_PYSPARK_HANDLERS = "pyspark.core.context"

BY_KEYBOARD = "it was interrupted from the keyboard"


class Command:
    """A command that runs in this thread.

    Attributes:
        has_put: whether the put of a commit has started; from then on nothing interrupts the command.
        commits: the urls and versions that the command has committed.
    """

    def __init__(self, running: JavaObject) -> None:
        self._running = running
        self.has_put = False
        self.commits: list[tuple[str, int]] = []

    @property
    def reason(self) -> str | None:
        """The reason for cancellation; None if the command is not cancelled."""
        if _keyboard.is_pressed and threading.current_thread() is threading.main_thread():
            return BY_KEYBOARD
        with suppress(*JVM_ERRORS):  # if the JVM is gone, the command was not cancelled
            reason = self._running.reason()
            return None if reason is None else str(reason)
        return None

    def cancel(self) -> None:
        """Cancel the command; called from another thread."""
        with suppress(*JVM_ERRORS):
            self._running.cancel(BY_KEYBOARD)

    def end(self) -> None:
        with suppress(*JVM_ERRORS):  # an error here does not change the command's result
            self._running.end()


class _Here(threading.local):
    command: Command | None = None


_here = _Here()


@contextmanager
def cancellable(gateway: Gateway) -> Iterator[None]:
    """Run the block as a command that can be cancelled. A nested command is part of the outer one.

    Raises:
        CommandCancelledError: the command was cancelled; nothing was committed.
        KeyboardInterrupt: the command was cancelled with Ctrl-C. If the put had started, the notes tell its outcome.
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
                raise  # from the put on, the error tells the outcome of the commit
            reason = command.reason
            if reason is None:
                raise
            raise CommandCancelledError(reason=reason) from error
        finally:
            _here.command = None
            _keyboard.commits += command.commits
            command.end()


def check_cancelled() -> None:
    """Raise if this thread's command was cancelled. Call it before work that Spark would start before cancelling its
    jobs.

    Raises:
        CommandCancelledError: the command was cancelled.
    """
    reason = None if _here.command is None else _here.command.reason
    if reason is not None:
        raise CommandCancelledError(reason=reason)


class CommandWatch(Watch):
    """Prevents a put if this thread's command was cancelled, and records commits."""

    def before_put(self) -> None:
        if _here.command is not None:
            _here.command.has_put = (
                True  # set before the check: a Ctrl-C is either seen by the check or does not interrupt
            )
            check_cancelled()

    def committed(self, url: str, version: int) -> None:
        if _here.command is not None:
            _here.command.commits.append((url, version))


# --- Ctrl-C


class _Keyboard:
    """Handles Ctrl-C in Python's main thread while tahoe works in it."""

    def __init__(self) -> None:
        self.is_pressed = False
        self.commits: list[tuple[str, int]] = []
        self._to_cancel: SimpleQueue[Command] = (
            SimpleQueue()
        )  # reentrant, so it is safe in a signal handler; a lock is not
        self._canceller: threading.Thread | None = None

    def begin(self) -> None:
        self.is_pressed, self.commits = False, []
        if self._canceller is None:
            self._canceller = threading.Thread(target=self._cancel, name="tahoe-cancel", daemon=True)
            self._canceller.start()

    def press(self, _signal: int, frame: FrameType | None) -> None:
        """Handle SIGINT: cancel the command, and raise KeyboardInterrupt unless a call into Java or a put is
        running.
        """
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
        """The KeyboardInterrupt to raise when the work has ended, with notes about commits that were made anyway."""
        interrupt = error if isinstance(error, KeyboardInterrupt) else KeyboardInterrupt()
        for url, version in self.commits:
            interrupt.add_note(f"The interrupt came too late: version {version} of {url} was committed.")
        if isinstance(error, CommitOutcomeUnknownError):
            interrupt.add_note(str(error))
        return interrupt


_keyboard = _Keyboard()


@contextmanager
def interruptible() -> Iterator[None]:
    """Run the block so that Ctrl-C ends it with KeyboardInterrupt, without breaking the connection to the JVM.

    A program's own SIGINT handler is left in place.
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
    """Whether py4j code is running in the frame, usually waiting for the JVM; False inside a callback from the JVM to
    Python.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PY4J):
            return frame.f_code.co_name != "_call_proxy"
        frame = frame.f_back
    return False
