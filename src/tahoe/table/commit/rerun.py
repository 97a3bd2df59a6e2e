"""Runs a command again if another writer has made a conflicting commit meanwhile, or deleted what it reads.

The command then reads the newest version, as if it had been executed later. It is not run again behind a change of the
table that refuses it (`conflict_rules`), if the outcome of its commit is unknown, or if it has read more than its
table's rows: see `may_rerun`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tahoe.errors import DataFileMissingError, DeltaConcurrentModificationException, DeltaError
from tahoe.events.listeners import told_retry
from tahoe.storage.env import Env

Result = TypeVar("Result")

# Before a command is run again it waits for up to this long, twice as long each time, so that rivals do not meet again
# at once.
_PAUSE_SECONDS = 0.1


def run_again(
    env: Env,
    command: Callable[[int], Result],
    *,
    read_retries_max: Callable[[], int],
    read_newest_version: Callable[[], int],
) -> Result:
    """Run a command, and run it again after a conflict.

    Args:
        command: takes how often it was run before.
        read_retries_max: how often it may be run again; called after a conflict.
        read_newest_version: the newest version of the table by now; called if a file is missing.

    Raises:
        DeltaConcurrentModificationException: it was run as often as allowed, or must not be run again.
        DataFileMissingError: the newest version lacks a file.
    """
    retries = 0
    while True:
        try:
            return command(retries)
        except (DeltaConcurrentModificationException, DataFileMissingError) as error:
            if not _may_rerun(env, error, read_newest_version) or retries >= read_retries_max():
                if retries:
                    times = f"The command was run {retries + 1} times"
                    error.add_note(f"{times}, and each time another commit was in conflict with it.")
                raise
            pause_seconds = env.random() * _PAUSE_SECONDS * 2**retries
            env.sleep(pause_seconds)
            retries += 1
            told_retry("command", env.store.url, retries, pause_seconds, error)


def _may_rerun(env: Env, error: DeltaError, read_newest_version: Callable[[], int]) -> bool:
    """Whether the error is a conflict that another run avoids, or names a file of a version that was replaced since."""
    if isinstance(error, DeltaConcurrentModificationException):
        return error.may_rerun
    is_of_a_source = error.parameters["table"] != env.store.url
    return not is_of_a_source and int(error.parameters["version"]) < read_newest_version()
