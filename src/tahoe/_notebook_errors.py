"""Shows errors in notebooks with the user's own frames: those inside tahoe and Spark, often more than fifty, say
nothing to a user.

IPython lets a program show exceptions of some classes itself. Spark's own error where `enable` was forgotten is shown
as ours, which says what to call. Errors of other classes, and what another package shows itself, stay as they are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import TracebackType
from typing import Any

from tahoe.errors import DeltaError, SessionNotEnabledError

# The environment variable that leaves IPython as it is.
SWITCH = "TAHOE_FULL_TRACEBACKS"

HINT = "The frames inside tahoe and Spark are left out; %tb shows them."

# The packages whose frames are left out, and those of the standard library, which they call.
_PACKAGES = {"tahoe", "pyspark", "py4j", "IPython", "ipykernel", *sys.stdlib_module_names} - {"__main__"}

# What Spark says of `format("delta")` in a session without tahoe.
_UNKNOWN_FORMAT = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta."

# What Spark Connect puts between a message and the frames of the server.
_SERVER_FRAMES = "\n\nJVM stacktrace:"


def shorten_errors(*classes: type[BaseException]) -> None:
    """Show errors of tahoe without the frames inside it, if this is a notebook or IPython's shell. Another call changes
    nothing.

    Args:
        classes: classes of Spark's, some of whose errors are tahoe's: those whose condition begins with `DELTA_`.
    """
    shell = notebook_shell()
    if shell is None or os.environ.get(SWITCH):
        return
    wanted = {DeltaError, *_py4j_error(), *classes}
    if wanted <= getattr(shell.CustomTB, "shortened_by_tahoe", set()):
        return
    others, show_others = shell.custom_exceptions, shell.CustomTB

    def show(
        shell: Any, kind: type[BaseException], error: BaseException, frames: Any, tb_offset: int | None = None
    ) -> Any:
        ours = _ours(error)
        if ours is not None and not shell.call_pdb and (own := _own_frames(frames)) is not None:
            return _show_short(shell, ours, frames, own)
        if isinstance(error, others):
            return show_others(kind, error, frames, tb_offset)
        return shell.showtraceback((kind, error, frames), tb_offset=tb_offset, running_compiled_code=True)

    shell.set_custom_exc(tuple({*others, *wanted}), show)
    shell.CustomTB.__func__.shortened_by_tahoe = wanted


def notebook_shell() -> Any:
    """IPython's shell, if this program runs in one that lets programs decide how errors and values are shown."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell if hasattr(shell, "set_custom_exc") else None


def _py4j_error() -> Iterator[type[BaseException]]:
    """The error that PySpark lets through where `enable` was forgotten; none without PySpark."""
    if find_spec("py4j") is not None:
        yield import_module("py4j.protocol").Py4JJavaError


def _ours(error: BaseException) -> BaseException | None:
    """What is shown of an error: itself if it is tahoe's, and instead of Spark's for a session without tahoe ours; None
    for others.
    """
    if type(error).__name__ == "Py4JJavaError":
        text = str(getattr(error, "java_exception", ""))
        return SessionNotEnabledError().with_traceback(error.__traceback__) if _UNKNOWN_FORMAT in text else None
    if isinstance(error, DeltaError):
        return error
    condition = getattr(error, "getCondition", lambda: None)()
    return error if isinstance(condition, str) and condition.startswith("DELTA_") else None


def _own_frames(frames: TracebackType | None) -> TracebackType | None:
    """The frames of a traceback that belong to the user's code; None if none does."""
    found = []
    while frames is not None:
        if str(frames.tb_frame.f_globals.get("__name__")).partition(".")[0] not in _PACKAGES:
            found.append(frames)
        frames = frames.tb_next
    own: TracebackType | None = None
    for entry in reversed(found):
        own = TracebackType(own, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return own


def _show_short(shell: Any, error: BaseException, frames: TracebackType, own: TracebackType) -> list[str]:
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, frames  # for %tb and %debug
    cause = error.__cause__
    with _without_cause(error):
        lines = shell.InteractiveTB.structured_traceback(type(error), error, own, tb_offset=0)
    shown = [line.partition(_SERVER_FRAMES)[0] for line in lines]
    if cause is not None:
        shown.append(f"Caused by {type(cause).__name__}: {cause}".partition("\n")[0])
    shown.append(HINT)
    shell._showtraceback(type(error), error, shown)
    return shown


@contextmanager
def _without_cause(error: BaseException) -> Iterator[None]:
    """Hides why an error was raised, which IPython would show with all of its frames."""
    cause, is_hidden = error.__cause__, error.__suppress_context__
    error.__cause__ = None  # and the error during whose handling it was raised
    try:
        yield
    finally:
        error.__cause__, error.__suppress_context__ = cause, is_hidden
