"""Checks a table and streams the findings. Used by `tahoe check`, and by tests after they change a table.

The check repairs nothing and does not stop at the first finding. Each finding says what was expected, what was found,
and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator

from tahoe.errors import InvalidPropertyError
from tahoe.protocol.statistics.listed_columns import unusable_columns
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tahoe.table.verify.files import Depth, check_files
from tahoe.table.verify.findings import UNREADABLE, Finding, Kind, Severity, finding, finding_of_error
from tahoe.table.verify.log import check_log

__all__ = ["Finding", "Kind", "Severity", "check_table", "check_version"]


def check_version(snapshot: Snapshot, *, statistics: bool = False) -> Iterator[Finding]:
    """Check a version of a table: the log up to it, its files, and leftover temporary files.

    It reads every commit and checkpoint, lists the table's folder, and reads every data file's footer and every
    deletion vector.

    Args:
        statistics: compare all statistics with the rows; files whose footers confirm them are not read.
    """
    yield from check_table(snapshot.log, snapshot.version, statistics=statistics)


def check_table(log: Log, version: int | None = None, *, statistics: bool = False) -> Iterator[Finding]:
    """Check a table that may be unreadable. If it is, the last finding says so, after the findings that explain it.

    Args:
        statistics: compare all statistics with the rows; files whose footers confirm them are not read.

    Raises:
        TableNotFoundError, NotADeltaTableError, VersionNotFoundError: there is nothing to check.
        StorageUnavailableError: the storage does not answer.
    """
    try:
        snapshot = load_snapshot(log, version, by_checksum=False)
    except UNREADABLE as error:
        yield from check_log(log, version)
        yield finding_of_error(Kind.UNREADABLE_TABLE, None, version, error)
        return
    yield from check_log(log, snapshot.version)
    yield from _check_listed(snapshot)
    yield from check_files(snapshot, Depth.ROWS if statistics else Depth.CONTENTS)


def _check_listed(snapshot: Snapshot) -> Iterator[Finding]:
    """The columns that `delta.dataSkippingStatsColumns` lists, and that another writer has taken away."""
    try:
        details = unusable_columns(snapshot.properties, snapshot.schema, snapshot.partition_columns, table=snapshot.url)
    except InvalidPropertyError as error:
        details = [str(error.parameters["detail"])]
    for detail in details:
        yield finding(
            Kind.WRONG_STATISTICS_COLUMNS,
            file=None,
            version=snapshot.version,
            detail=f"delta.dataSkippingStatsColumns: {detail}",
        )
