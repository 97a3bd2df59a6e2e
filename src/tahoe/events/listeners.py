"""Who is told of events: the listeners of a program, and the loggers `tahoe.events.<name>`.

If nobody wants to know of a kind of event, it is not made. Nothing that a listener or a handler does breaks the work
that it is told of.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal, TypeAlias, TypeVar, overload

from tahoe.errors import InvalidArgumentError
from tahoe.events.kinds import (
    KINDS,
    BackgroundJob,
    Checkpoint,
    Commit,
    CommitFailed,
    Conflict,
    Event,
    QueryPlanned,
    Retry,
    StreamBatch,
    cause_of,
)

Kind = TypeVar("Kind", bound=Event)
_Result = TypeVar("_Result")

_logger = logging.getLogger("tahoe")
_loggers: Mapping[type[Event], logging.Logger] = {
    kind: logging.getLogger(f"tahoe.events.{kind.name}") for kind in KINDS
}
_named: Mapping[str, type[Event]] = {kind.name: kind for kind in KINDS}

# The monotonic clock of durations.
now = time.perf_counter

_Name: TypeAlias = Literal[
    "query_planned", "commit", "conflict", "commit_failed", "retry", "checkpoint", "background_job", "stream_batch"
]


class Subscription:
    """A listener that is told of events until it is removed, or until the end of a `with` block."""

    def __init__(self, kinds: tuple[type[Event], ...], listener: Callable[[Any], object]) -> None:
        self._kinds, self._listener = kinds, listener
        self._has_failed = False

    @property
    def is_active(self) -> bool:
        """Whether the listener is told of events."""
        return _listeners.has(self)

    def remove(self) -> None:
        """Tell the listener of no further event. It may be told of one that another thread has begun to tell."""
        _listeners.remove(self)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()

    def _wants(self, kind: type[Event]) -> bool:
        return kind in self._kinds

    def _tell(self, event: Event) -> None:
        try:
            self._listener(event)
        except Exception:
            if not self._has_failed:
                self._has_failed = True
                _logger.warning(
                    "a listener of %s events has failed; further failures of it are not logged: %r",
                    event.name,
                    self._listener,
                    exc_info=True,
                )


class _Listeners:
    """The subscriptions of a process, by kinds of events. Reading takes no lock: `of` is replaced, never changed."""

    def __init__(self) -> None:
        self.of: Mapping[type[Event], tuple[Subscription, ...]] = {}
        self.telling = threading.local()
        self._lock = threading.Lock()
        self._all: tuple[Subscription, ...] = ()

    def forget_threads(self) -> None:
        """A forked process has none of its parent's threads, one of which may have held the lock."""
        self._lock = threading.Lock()

    def add(self, subscription: Subscription) -> None:
        with self._lock:
            self._replace((*self._all, subscription))

    def remove(self, subscription: Subscription) -> None:
        with self._lock:
            self._replace(tuple(one for one in self._all if one is not subscription))

    def has(self, subscription: Subscription) -> bool:
        return any(one is subscription for one in self._all)

    def _replace(self, subscriptions: tuple[Subscription, ...]) -> None:
        self._all = subscriptions
        by_kind = ((kind, tuple(one for one in subscriptions if one._wants(kind))) for kind in KINDS)
        self.of = {kind: found for kind, found in by_kind if found}


_listeners = _Listeners()
os.register_at_fork(after_in_child=_listeners.forget_threads)


@overload
def on(event: type[Kind], listener: Callable[[Kind], object]) -> Subscription: ...
@overload
def on(event: Literal["query_planned"], listener: Callable[[QueryPlanned], object]) -> Subscription: ...
@overload
def on(event: Literal["commit"], listener: Callable[[Commit], object]) -> Subscription: ...
@overload
def on(event: Literal["conflict"], listener: Callable[[Conflict], object]) -> Subscription: ...
@overload
def on(event: Literal["commit_failed"], listener: Callable[[CommitFailed], object]) -> Subscription: ...
@overload
def on(event: Literal["retry"], listener: Callable[[Retry], object]) -> Subscription: ...
@overload
def on(event: Literal["checkpoint"], listener: Callable[[Checkpoint], object]) -> Subscription: ...
@overload
def on(event: Literal["background_job"], listener: Callable[[BackgroundJob], object]) -> Subscription: ...
@overload
def on(event: Literal["stream_batch"], listener: Callable[[StreamBatch], object]) -> Subscription: ...
def on(event: type[Event] | _Name, listener: Callable[[Any], object]) -> Subscription:
    """Call a function for each event of a kind, in this process.

    It is called in the thread in which the event happens, which waits for it: keep it short, and hand over to a thread
    or a queue what takes longer. If it raises an error, this is logged once, and nothing else is affected. What tahoe
    does inside of it is not told in turn.

    Args:
        event: the name of a kind, such as `"commit"`; its class; or `tahoe.events.Event` for all kinds.
        listener: takes the event.

    Returns:
        what ends it: `remove()`, or the end of a `with` block.

    Raises:
        InvalidArgumentError: there is no such kind of event, or the listener cannot be called.

    >>> with tahoe.on("commit", lambda commit: print(commit.version, commit.operation)):
    ...     table.append(rows)
    """
    kinds: tuple[type[Event], ...] = (_named[event],) if isinstance(event, str) and event in _named else ()
    if isinstance(event, type) and issubclass(event, Event):
        kinds = tuple(kind for kind in KINDS if issubclass(kind, event))
    if not kinds:
        expected = f"one of {', '.join(_named)}, or a class of tahoe.events"
        raise InvalidArgumentError(
            argument="event", table="tahoe.on", found=repr(event), expected=expected, remedy="Name one of these."
        )
    if not callable(listener):
        raise InvalidArgumentError(
            argument="listener",
            table="tahoe.on",
            found=repr(listener),
            expected="a function that takes the event",
            remedy="Pass a function.",
        )
    subscription = Subscription(kinds, listener)
    _listeners.add(subscription)
    return subscription


def is_wanted(kind: type[Event]) -> bool:
    """Whether anybody wants to know of a kind of event."""
    return kind in _listeners.of or _loggers[kind].isEnabledFor(kind.level)


def emit(kind: type[Kind], make: Callable[[], Kind]) -> None:
    """Tell of an event. It is made only if anybody wants to know of it. This raises no error."""
    if not is_wanted(kind) or getattr(_listeners.telling, "is_active", False):
        return
    _listeners.telling.is_active = True
    try:
        _tell(make())
    except Exception:
        _logger.warning("a %s event could not be told of", kind.name, exc_info=True)
    finally:
        _listeners.telling.is_active = False


def _tell(event: Event) -> None:
    for subscription in _listeners.of.get(type(event), ()):
        subscription._tell(event)
    logger = _loggers[type(event)]
    if logger.isEnabledFor(event.level):
        logger.handle(_record(logger, event))


def _record(logger: logging.Logger, event: Event) -> logging.LogRecord:
    """The record of an event. Its text is made when a handler asks for it, and the stack is not searched for the line
    that logs: that is this one for every event.
    """
    return logger.makeRecord(
        logger.name, event.level, __file__, 0, "%s", (event,), None, func=emit.__name__, extra=event.to_dict()
    )


def told_retry(
    what: str, table: str, attempt: int, pause_seconds: float, cause: BaseException | str, version: int | None = None
) -> None:
    """Tell that something is tried again now, after a pause; see `Retry`."""
    emit(
        Retry,
        lambda: Retry(
            table=table,
            duration_seconds=pause_seconds,
            what=what,
            attempt=attempt,
            cause=cause if isinstance(cause, str) else cause_of(cause),
            version=version,
        ),
    )


def background_job(job: str, table: str, version: int | None, work: Callable[[], _Result]) -> Callable[[], _Result]:
    """Work that tells of its end, see `BackgroundJob`. It waits from now on."""
    submitted = now()

    def told() -> _Result:
        begun, cause = now(), None
        try:
            return work()
        except BaseException as error:
            cause = cause_of(error)
            raise
        finally:
            emit(
                BackgroundJob,
                lambda: BackgroundJob(
                    table=table,
                    duration_seconds=now() - begun,
                    job=job,
                    version=version,
                    waited_seconds=begun - submitted,
                    cause=cause,
                ),
            )

    return told
