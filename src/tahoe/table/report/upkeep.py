"""What OPTIMIZE, VACUUM and the upkeep of the log would do to a table now. Nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import accumulate, repeat
from typing import TypeVar

import numpy as np
import pyarrow as pa

from tahoe.errors import DeltaError
from tahoe.protocol.configuration.features import check_writable
from tahoe.protocol.configuration.properties import CHECKPOINT_INTERVAL, DELETED_FILE_RETENTION
from tahoe.protocol.log.log_files import complete_checkpoints
from tahoe.storage.env import branches
from tahoe.table.cleanup.vacuum import VacuumRequest, vacuum
from tahoe.table.commit.post_commit_hooks import expired_log_files
from tahoe.table.layout.clustering import CubeBin, OrderRequest, order_of, plan_cubes
from tahoe.table.layout.compaction import CompactionSettings, plan_bins, reasons
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.report.figures import Compaction, LogState, Unneeded, Upkeep
from tahoe.table.versions.history import timeline, version_before
from tahoe.table.versions.table_reader import TableReader

T = TypeVar("T")

# To list more files would take longer than all the rest of a report: some seconds on an object store.
LISTED_FILES_MAX = 100_000

# VACUUM reads the commits within the retention.
COMMITS_MAX = 10_000


def upkeep(table: TableReader, snapshot: Snapshot) -> Upkeep:
    """What maintenance would do, as far as that is known soon.

    Args:
        snapshot: the newest version.
    """

    def or_reason(plan: Callable[[], T]) -> T | str:
        """A plan, or why there is none: the table has a feature that tahoe cannot write, or a property with an invalid
        value, ...
        """
        try:
            check_writable(snapshot.protocol, snapshot.metadata, table=snapshot.url)
            return plan()
        except DeltaError as error:
            return str(error)

    return Upkeep(
        compaction=or_reason(lambda: _compaction(snapshot)),
        unneeded=or_reason(lambda: _unneeded(table, snapshot)),
        log=or_reason(lambda: _log(snapshot)),
    )


def _compaction(snapshot: Snapshot) -> Compaction:
    """What OPTIMIZE would do now, planned as OPTIMIZE plans it."""
    settings = CompactionSettings.of_table(snapshot.properties, table=snapshot.url)
    scan, order = snapshot.full_scan, order_of(snapshot, OrderRequest(), ())
    bins = plan_bins(scan, settings) if order is None else plan_cubes(scan, order, settings, repeat("cube"))
    numbers = np.concatenate([np.empty(0, np.uint64), *(np.array(one_bin.numbers, np.uint64) for one_bin in bins)])
    files_to_rewrite = Scan(snapshot, None, pa.array(np.sort(numbers)), scan)
    small, worn = reasons(files_to_rewrite, settings)
    return Compaction(
        files=files_to_rewrite.kept_files,
        size_bytes=files_to_rewrite.size_bytes,
        new_files=sum(one_bin.file_count if isinstance(one_bin, CubeBin) else 1 for one_bin in bins),
        small_files=small,
        worn_files=worn,
        target_bytes=settings.max_file_bytes,
        order=() if order is None else tuple(order.names),
    )


def _log(snapshot: Snapshot) -> LogState:
    """The checkpoint that readers of the newest version begin with, and what has expired."""
    checkpoints = complete_checkpoints(snapshot.log.list_files())
    newest = max((found.version for found in checkpoints if found.version <= snapshot.version), default=None)
    return LogState(
        checkpoint=newest,
        commits_after=snapshot.version - (-1 if newest is None else newest),
        interval=CHECKPOINT_INTERVAL.get(snapshot.properties, table=snapshot.url),
        expired_files=len(expired_log_files(snapshot)),
    )


def _unneeded(table: TableReader, snapshot: Snapshot) -> Unneeded | str:
    """What VACUUM would delete now; or why that was not looked for, because it would take too long."""
    retention = DELETED_FILE_RETENTION.get(snapshot.properties, table=snapshot.url)
    tells = "VACUUM with DRY RUN tells what it would delete."
    listed = snapshot.log.list_files()
    before = version_before(snapshot, table.env.clock_ms() - retention // timedelta(milliseconds=1), listed)
    commits = sum(commit.version > (-1 if before is None else before) for commit in timeline(snapshot, listed).commits)
    if commits > COMMITS_MAX:
        return f"The retention has {commits:,} commits, more than a report reads. {tells}"
    counts = accumulate(len(branch.keys) for branch in branches(table.env.store))
    if len(snapshot.live) > LISTED_FILES_MAX or any(count > LISTED_FILES_MAX for count in counts):
        return f"There are more than {LISTED_FILES_MAX:,} files, more than a report lists. {tells}"
    found = vacuum(table, VacuumRequest(dry_run=True))
    return Unneeded(
        files=len(found.files),
        size_bytes=found.size_bytes,
        retention_hours=retention / timedelta(hours=1),
        held_files=found.held_files,
        held_bytes=found.held_bytes,
    )
