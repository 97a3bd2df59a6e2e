"""Shows how far long work without Spark is: a bar in a terminal or a notebook, once the work has taken a second.

Whoever works says how much is done; only this module knows how that looks, and whether somebody watches. Nobody watches
a program whose output goes to a pipe or a file, and a script shows nothing unless it is asked to.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Protocol, TypeAlias

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how much is done, and how much there is to do; 0 if nobody knows."""

# The environment variable that decides for itself whether there is a bar: `off`, or `on` for scripts too.
SWITCH = "TAHOE_PROGRESS"

# Shorter work shows nothing.
WAIT_S = 1.0

# The time between two pictures of a bar in a notebook.
_PICTURE_S = 0.25

# There is one bar at a time: work inside of other work shows none. Nor does work of other threads, such as what is done
# after a commit.
_shown = threading.Lock()
_command_line = threading.Event()


class _Picture(Protocol):
    """A bar that is visible."""

    def move(self, done: int, total: int) -> None: ...

    def remove(self) -> None: ...


def watch_command_line() -> None:
    """From now on this process is the command `tahoe`, which somebody watches if it prints to a terminal."""
    _command_line.set()


@contextmanager
def showing(
    work: str, unit: str = "files", *, user_function: Progress | None = None, is_ours: bool = True
) -> Iterator[Progress]:
    """Show how far work is, until the block ends.

    Args:
        work: its name, such as `OPTIMIZE`.
        unit: what is counted.
        user_function: the user's own function; it is called, and nothing is shown.
        is_ours: whether this process works; Spark shows a bar of its own.
    """
    draw = (
        _place()
        if is_ours and user_function is None and threading.current_thread() is threading.main_thread()
        else None
    )
    if draw is None:
        yield user_function or _nobody
        return
    bar = _Bar(lambda: draw(work, unit))
    try:
        yield bar
    finally:
        bar.close()


def _nobody(done: int, total: int) -> None:
    """Nobody watches."""


class _Bar:
    """A bar that appears when the work has taken long enough."""

    def __init__(self, draw: Callable[[], _Picture]) -> None:
        self._draw, self._began = draw, time.monotonic()
        self._picture: _Picture | None = None

    def __call__(self, done: int, total: int) -> None:
        if self._picture is None and time.monotonic() - self._began >= WAIT_S and _shown.acquire(blocking=False):
            self._picture = self._draw()
        if self._picture is not None:
            self._picture.move(done, total)

    def close(self) -> None:
        if self._picture is not None:
            self._picture.remove()
            self._picture = None
            _shown.release()


def _place() -> Callable[[str, str], _Picture] | None:
    """What draws a bar where somebody watches; None if nobody does."""
    wish = os.environ.get(SWITCH, "").lower()
    ipython = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    if wish in ("off", "0", "false"):
        return None
    if shell is not None and hasattr(shell, "kernel"):
        return _InNotebook
    is_watched = shell is not None or hasattr(sys, "ps1") or _command_line.is_set() or wish in ("on", "1", "true")
    return _InTerminal if is_watched and sys.stderr is not None and sys.stderr.isatty() else None


class _InTerminal:
    """A line of standard error, which is removed at the end."""

    def __init__(self, work: str, unit: str) -> None:
        from rich.console import Console  # noqa: PLC0415 - most programs never show a bar
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415
        from rich.progress import Progress as RichProgress  # noqa: PLC0415

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeRemainingColumn(),
        )
        console = Console(file=sys.stderr)
        self._rich = RichProgress(
            *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._unit = unit
        self._rich.start()
        self._task = self._rich.add_task(work, total=None, counts="")

    def move(self, done: int, total: int) -> None:
        self._rich.update(self._task, completed=done, total=total or None, counts=_counts(done, total, self._unit))

    def remove(self) -> None:
        self._rich.stop()


class _InNotebook:
    """An element below the cell, which is emptied at the end."""

    def __init__(self, work: str, unit: str) -> None:
        self._work, self._unit, self._drawn = work, unit, 0.0
        self._handle = import_module("IPython.display").display(_as_html(""), display_id=True, raw=True)

    def move(self, done: int, total: int) -> None:
        if time.monotonic() - self._drawn >= _PICTURE_S:
            from html import escape  # noqa: PLC0415 - it brings a table of all entities, which only notebooks need

            self._drawn = time.monotonic()
            ends = f' value="{done}" max="{total}"' if total else ""
            text = f"{self._work} {_counts(done, total, self._unit)}"
            self._handle.update(_as_html(f"<progress{ends}></progress> {escape(text)}", text), raw=True)

    def remove(self) -> None:
        self._handle.update(_as_html(""), raw=True)


def _as_html(html: str, text: str = "") -> dict[str, str]:
    return {"text/html": html, "text/plain": text}


def _counts(done: int, total: int, unit: str) -> str:
    return f"{done:,} of {total:,} {unit}" if total else f"{done:,} {unit}"
