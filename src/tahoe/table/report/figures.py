"""What a report says of a table, as plain values. Sizes are in bytes, times in milliseconds since 1970. Knows no table
and no page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tahoe.table.report.histograms import Histogram


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of a version.

    Attributes:
        count: rows that a query sees; None if some files have no number of rows.
        deleted: rows that deletion vectors delete.
        files_with_deleted: files with a deletion vector.
        deleted_shares: how many files have which share of deleted rows, in hundredths of a percent: files without a
            deletion vector are not counted.
    """

    count: int | None
    deleted: int
    files_with_deleted: int
    deleted_shares: Histogram

    @property
    def deleted_share(self) -> float | None:
        """The share of all rows in files that are deleted, from 0 to 1."""
        if self.count is None:
            return None
        return self.deleted / (self.count + self.deleted) if self.count + self.deleted else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSize:
    """A partition.

    Attributes:
        values: as `column=value`, in the order of the partition columns.
        rows: rows in its files without the deleted ones; None if unknown.
    """

    values: tuple[str, ...]
    files: int
    size_bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """The partitions that have files.

    Attributes:
        largest: the largest ones, largest first.
        largest_tenth_share: the share of all bytes that the largest tenth of the partitions has, from 0 to 1.
    """

    columns: tuple[str, ...]
    count: int
    sizes: Histogram
    largest: Sequence[PartitionSize]
    largest_tenth_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSize:
    """The size of the table in one version."""

    version: int
    timestamp_ms: int
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The commits of a time, from `start_ms` up to `end_ms`, by operation."""

    start_ms: int
    end_ms: int
    operations: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """The commits that the log has, up to the version of the report.

    Attributes:
        first_version, last_version: of these commits.
        read: how many of them were read. If fewer than all, the operations are estimates, and each commit read stands
            for its neighbours.
        operations: how many commits there are of each operation, most frequent first.
    """

    first_version: int
    last_version: int
    read: int
    operations: Mapping[str, int]
    periods: Sequence[Period]

    @property
    def count(self) -> int:
        return self.last_version - self.first_version + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSkipping:
    """How well queries skip files by a column.

    Attributes:
        column: its path of logical names.
        type: as SQL names it.
        files_with_bounds: files whose statistics have a minimum and a maximum, or which have a partition value.
        equality_skipped: the share of the files that `column = value` skips, from 0 to 1, on average over values of the
            column.
        range_skipped: the same for a range with 1 % of the rows.
    """

    column: tuple[str, ...]
    type: str
    is_partition: bool
    is_clustering: bool
    files_with_bounds: int
    equality_skipped: float
    range_skipped: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipping:
    """How well queries skip files by each column.

    Attributes:
        files: how many files were looked at: all, or a sample.
        columns: those that have bounds in some file.
        unbounded_columns: how many further ones were looked at, and have none.
        more_columns: how many further ones were not looked at.
    """

    files: int
    columns: Sequence[ColumnSkipping]
    unbounded_columns: int = 0
    more_columns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What OPTIMIZE would do.

    Attributes:
        files, size_bytes: that it would rewrite.
        new_files: at most so many files take their place.
        small_files, worn_files: of these files, how many are small, and how many have too many deleted rows.
        target_bytes: the size of the new files.
        order: the clustering columns by which rows would be laid out.
    """

    files: int
    size_bytes: int
    new_files: int
    small_files: int
    worn_files: int
    target_bytes: int
    order: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unneeded:
    """What VACUUM would delete.

    Attributes:
        retention_hours: after which a file that no version needs is deleted.
        held_files, held_bytes: what it would delete too, if tagged versions did not need it.
    """

    files: int
    size_bytes: int
    retention_hours: float
    held_files: int = 0
    held_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """The state of the log.

    Attributes:
        checkpoint: the version of the newest checkpoint; None without one.
        commits_after: how many commits every reader reads behind it.
        interval: after how many commits writers are to write a checkpoint.
        expired_files: commits and checkpoints past the retention of the log.
    """

    checkpoint: int | None = None
    commits_after: int = 0
    interval: int = 10
    expired_files: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What maintenance would do now. In place of a figure that is missing stands the reason, as a sentence."""

    compaction: Compaction | str
    unneeded: Unneeded | str
    log: LogState | str = LogState()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All figures of a report.

    Attributes:
        table: its url.
        timestamp_ms: when the version was committed.
        made_ms: when the report was made.
        properties: those that a user can set.
        columns: the number of top-level columns.
        keys: the declared keys, as SQL.
        files_without_statistics: files whose number of rows is unknown.
        files_with_wide_bounds: files whose bounds may be wider than their rows, because of deleted rows.
        growth: the sizes of versions, oldest first, or a selection of them; empty if the log does not tell.
        commits: None if the log has no commit.
        upkeep: None in the report of an older version.
    """

    table: str
    name: str | None
    description: str | None
    version: int
    timestamp_ms: int
    made_ms: int
    properties: Mapping[str, str]
    columns: int
    partition_columns: tuple[str, ...]
    clustering_columns: tuple[str, ...]
    keys: tuple[str, ...]
    files: int
    size_bytes: int
    files_without_statistics: int
    files_with_wide_bounds: int
    file_sizes: Histogram
    file_rows: Histogram
    rows: Rows
    partitions: Partitions | None
    growth: Sequence[VersionSize]
    commits: Commits | None
    skipping: Skipping
    upkeep: Upkeep | None
