"""Runs a command again if another writer has made a conflicting commit meanwhile.

The command then reads the newest version, as if it had been executed later. It is not run again if its columns have
changed, because it was analysed for those; if the outcome of its commit is unknown; or if its source or a subquery
reads the table too: these may be cached rows of the old version. A write that only loses the race to make its table
goes into the table that the other writer has made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from tahoe.errors import DeltaConcurrentModificationException
from tahoe.protocol.configuration.properties import CONFLICT_RETRIES
from tahoe.spark.configuration import setting_names
from tahoe.spark.dml.row_changes import DmlTarget
from tahoe.spark.jvm.gateway import Gateway
from tahoe.table.commit.rerun import run_again

Result = TypeVar("Result")


def with_retries(target: DmlTarget, command: Callable[[DmlTarget], Result]) -> Result:
    """Run a command on a table, and run it again after a conflict.

    Args:
        command: runs the command on a target, which says how often it was run before.

    Raises:
        InvalidOptionError: the number of retries is invalid.
        DeltaConcurrentModificationException: it was run as often as allowed, or must not be run again.
    """

    def run(retries: int) -> Result:
        try:
            return command(replace(target, retries=retries))
        except DeltaConcurrentModificationException as error:
            error.may_rerun &= not error.is_of_columns
            raise

    return run_again(
        target.table.env,
        run,
        read_retries_max=lambda: _retries_max(target),
        read_newest_version=lambda: target.table.snapshot().version,
    )


def retry_after_create_race(write: Callable[[], Result]) -> Result:
    """Run a write; and once more if it was about to make its table, and another writer was faster. It then writes into
    that table.

    Raises:
        DeltaError: see `write`. The table that the other writer has made may not fit.
    """
    try:
        return write()
    except DeltaConcurrentModificationException as error:
        if not error.makes_table:
            raise
    return write()


def _retries_max(target: DmlTarget) -> int:
    """How often a command may be run again: the session's setting takes precedence over the table's property."""
    table = target.table
    by_session = setting_names.CONFLICT_RETRIES.of(Gateway(target.spark).settings(), table=table.url)
    return CONFLICT_RETRIES.get(table.snapshot().properties, table=table.url) if by_session is None else by_session
