"""What to do about a table, from its figures alone: what is wrong, with numbers, and the statement that fixes it.
Pure.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rich.filesize import decimal as size_text

from tahoe.protocol.types.names import counted, dotted, literal, quoted, sql_path
from tahoe.table.report.figures import ColumnSkipping, Compaction, Figures, LogState, Unneeded

# OPTIMIZE is worth a run if it leaves at most this share of the files that it rewrites, and if these are more than a
# few.
_LEFT_SHARE_MAX = 0.5
_REWRITTEN_MIN = 10

# After so many times the table's interval, its writers do not write checkpoints.
_INTERVALS_MAX = 2

# Fewer expired files of a log are not worth a run.
_EXPIRED_MIN = 100

# Less than this share of the table is not worth a VACUUM.
_UNNEEDED_SHARE_MIN = 0.01

# Smaller partitions have small files whatever OPTIMIZE does.
_PARTITION_BYTES_MIN = 128 << 20
_PARTITIONS_MIN = 20

# With fewer files in a partition, there is little to skip.
_FILES_TO_SKIP_MIN = 10

# A range of 1 % that reads a larger share of the files reads much in vain.
_READ_SHARE_MAX = 0.5

# As in the reference, a table is clustered by at most so many columns.
_CLUSTERING_COLUMNS_MAX = 4

# More names make an advice hard to read; the page has them all.
_NAMED_MAX = 5


AdviceKind = Literal["optimize", "vacuum", "checkpoint", "cleanup", "statistics", "cluster", "partitions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Something to do.

    Attributes:
        kind: what is to be done, for programs.
        title: what, in a few words.
        reason: why, with numbers, and what follows from it.
        sql: statements in Spark; None if it has none.
        command: the same on the command line; None if it has no command.
    """

    kind: AdviceKind
    title: str
    reason: str
    sql: str | None
    command: str | None = None


def advice(figures: Figures) -> list[Advice]:
    """What is worth doing, the most useful first; nothing for an older version."""
    if figures.upkeep is None:
        return []
    rules = (_optimize, _vacuum, _log, _statistics, _cluster, _partitions)
    return [found for rule in rules for found in rule(figures, _Names(figures.table))]


@dataclass(frozen=True, slots=True)
class _Names:
    """The table as statements and commands name it."""

    url: str

    @property
    def location(self) -> str:
        return self.url.removeprefix("file://")

    @property
    def sql(self) -> str:
        return f"delta.{quoted(self.location)}"

    def command(self, name: str, *options: str) -> str:
        return shlex.join(["tahoe", name, self.location, *options])


def _optimize(figures: Figures, table: _Names) -> Iterator[Advice]:
    """Small files, files with many deleted rows, or both: one statement."""
    assert figures.upkeep is not None
    compaction = figures.upkeep.compaction
    if not isinstance(compaction, Compaction):
        return
    is_small = compaction.files >= _REWRITTEN_MIN and compaction.new_files <= compaction.files * _LEFT_SHARE_MAX
    if not is_small and not compaction.worn_files:
        return
    files_after = figures.files - compaction.files + compaction.new_files
    order = f" Their rows are ordered by {', '.join(compaction.order)}." if compaction.order else ""
    reason = (
        f"OPTIMIZE would rewrite {counted(compaction.files, 'file')} ({size_text(compaction.size_bytes)}) as about "
        f"{counted(compaction.new_files, 'file')} of up to {size_text(compaction.target_bytes)}, which leaves "
        f"{counted(files_after, 'file')} instead of {figures.files:,}.{order} Queries then open fewer "
        f"files.{_purge_text(figures, compaction)} No row changes. The new files take storage in addition until a "
        "VACUUM after the retention deletes the old ones."
    )
    title = "Combine small files" if is_small else "Remove deleted rows from files"
    yield Advice(
        kind="optimize", title=title, reason=reason, sql=f"OPTIMIZE {table.sql}", command=table.command("optimize")
    )


def _purge_text(figures: Figures, found: Compaction) -> str:
    if not found.worn_files:
        return ""
    rows, share = figures.rows, figures.rows.deleted_share
    shown = "" if share is None else f", {percent(share)} of the rows in files"
    return (
        f" Deletion vectors mark {counted(rows.deleted, 'row')} in "
        f"{counted(rows.files_with_deleted, 'file')}{shown}: queries read and drop them. The rewritten files, "
        f"{found.worn_files:,} of them with more than 5\u00a0% deleted rows, have none. To erase the rows from "
        "all files, use REORG TABLE … APPLY (PURGE)."
    )


def _vacuum(figures: Figures, table: _Names) -> Iterator[Advice]:
    """Advice to delete unneeded files, if they take a notable share of the table's size."""
    assert figures.upkeep is not None
    found = figures.upkeep.unneeded
    if not isinstance(found, Unneeded) or found.size_bytes <= figures.size_bytes * _UNNEEDED_SHARE_MIN:
        return
    compared = f", {percent(found.size_bytes / figures.size_bytes)} of the table's size" if figures.size_bytes else ""
    yield Advice(
        kind="vacuum",
        title="Delete files that nothing needs",
        reason=(
            f"VACUUM would delete {counted(found.files, 'file')} and free {size_text(found.size_bytes)}{compared}. No "
            f"version of the last {_hours(found.retention_hours)} and no tagged one needs them. Other older versions, "
            "and shallow clones of them, can no longer be read afterwards."
        ),
        sql=f"VACUUM {table.sql}",
        command=table.command("vacuum"),
    )


def unplanned_vacuum(figures: Figures, retained_bytes: int) -> Advice:
    """Advice to delete unneeded files of a table of which a report does not tell them."""
    table = _Names(figures.table)
    return Advice(
        kind="vacuum",
        title="Delete files that nothing needs",
        reason=(
            f"The folder has {size_text(retained_bytes)} besides the newest version. VACUUM deletes what no version "
            "within the retention and no tagged one needs; how much that is was not looked for."
        ),
        sql=f"VACUUM {table.sql}",
        command=table.command("vacuum"),
    )


def _log(figures: Figures, table: _Names) -> Iterator[Advice]:
    """Advice to write a checkpoint, if the writers have not for long; and to delete what has expired in the log."""
    assert figures.upkeep is not None
    found = figures.upkeep.log
    if not isinstance(found, LogState):
        return
    if found.commits_after >= found.interval * _INTERVALS_MAX:
        last = "has no checkpoint" if found.checkpoint is None else f"has its last checkpoint at {found.checkpoint:,}"
        yield Advice(
            kind="checkpoint",
            title="Write a checkpoint",
            reason=(
                f"The log {last}: whoever opens the table reads {counted(found.commits_after, 'commit')} one by one. "
                f"Writers are to write a checkpoint every {counted(found.interval, 'commit')}."
            ),
            sql=None,
            command=table.command("maintain"),
        )
    if found.expired_files >= _EXPIRED_MIN:
        yield Advice(
            kind="cleanup",
            title="Clean up the log",
            reason=(
                f"{counted(found.expired_files, 'file')} of the log are past its retention. Every listing of the log "
                "has them. Versions within the retention and tagged ones stay readable."
            ),
            sql=None,
            command=table.command("maintain"),
        )


def _statistics(figures: Figures, table: _Names) -> Iterator[Advice]:
    """Advice to compute statistics, if any file has none: every query reads such a file."""
    missing = figures.files_without_statistics
    if not missing:
        return
    yield Advice(
        kind="statistics",
        title="Compute missing statistics",
        reason=(
            f"{missing:,} of {counted(figures.files, 'file')} {'has' if missing == 1 else 'have'} no statistics, "
            "so that queries cannot skip by them. They are computed from the footers of the files where these "
            "are enough, and otherwise from the rows. No data file is written."
        ),
        sql=f"ANALYZE TABLE {table.sql} COMPUTE DELTA STATISTICS",
        command=table.command("analyze"),
    )


def _cluster(figures: Figures, table: _Names) -> Iterator[Advice]:
    """Advice to order rows, if queries by some column read most files, and would still do so after OPTIMIZE has
    combined small files: of few files nothing can be skipped.
    """
    assert figures.upkeep is not None
    files = figures.skipping.files
    poor = [c for c in figures.skipping.columns if not c.is_partition and 1 - c.range_skipped > _READ_SHARE_MAX]
    compaction = figures.upkeep.compaction
    files_after = (
        figures.files
        if not isinstance(compaction, Compaction)
        else figures.files - compaction.files + compaction.new_files
    )
    partitions = 1 if figures.partitions is None else figures.partitions.count
    if (
        not poor
        or figures.clustering_columns
        or files < _FILES_TO_SKIP_MIN
        or files_after < _FILES_TO_SKIP_MIN * partitions
    ):
        return
    poor.sort(key=lambda column: column.range_skipped)
    example, *other_columns = poor
    names = ", ".join(dotted(column.column) for column in other_columns[:_NAMED_MAX])
    more = ", ..." if len(other_columns) > _NAMED_MAX else ""
    others_text = f" Other columns by which queries skip little: {names}{more}." if other_columns else ""
    best = max(math.ceil(files_after / 100) + 1, partitions)
    yield Advice(
        kind="cluster",
        title="Order rows by the columns that queries filter by",
        reason=(
            f"A query for 1\u00a0% of the rows by {dotted(example.column)} reads "
            f"{percent(1 - example.range_skipped)} of the files. If rows were ordered by that column, and it has "
            f"many different values, the query would read about {best:,} of "
            f"{files_after:,}.{others_text} The log does "
            f"not tell which columns queries filter by: name those in place of {dotted(example.column)}, at most "
            f"{_CLUSTERING_COLUMNS_MAX}. The more columns, the less each of them skips.{_how(figures)}"
        ),
        sql=_ordering(figures, table, example),
        command=table.command("optimize", "--zorder-by", sql_path(example.column))
        if figures.partition_columns
        else None,
    )


def _how(figures: Figures) -> str:
    if figures.partition_columns:
        return " Rows are ordered within each partition, and all files are rewritten."
    return (
        f" All files ({size_text(figures.size_bytes)}) are rewritten once, which also combines small ones; "
        "afterwards OPTIMIZE orders what was added. Clustering needs the table features clustering and "
        "domainMetadata, which other writers must support."
    )


def _ordering(figures: Figures, table: _Names, column: ColumnSkipping) -> str:
    name = sql_path(column.column)
    if figures.partition_columns:
        return f"OPTIMIZE {table.sql} ZORDER BY ({name})"
    return f"ALTER TABLE {table.sql} CLUSTER BY ({name});\nOPTIMIZE {table.sql} FULL"


def _partitions(figures: Figures, table: _Names) -> Iterator[Advice]:
    """Advice to cluster instead of partitioning, if there are many partitions and they are too small for files of a
    good size.
    """
    found = figures.partitions
    if found is None:
        return
    mean = figures.size_bytes // max(found.count, 1)
    columns = [column.column for column in figures.skipping.columns if column.is_partition][:_CLUSTERING_COLUMNS_MAX]
    if found.count >= _PARTITIONS_MIN and mean < _PARTITION_BYTES_MIN and columns:
        yield Advice(
            kind="partitions",
            title="Use fewer partitions",
            reason=(
                f"The table has {counted(found.count, 'partition')} with {size_text(mean)} on average. A file "
                "belongs to one partition, so OPTIMIZE cannot make larger files than that. Cluster the table by "
                f"{', '.join(map(dotted, columns))} instead: queries skip files as well, and files are as large "
                "as wanted. The statement writes all rows again, as a new version. It does not keep "
                "constraints, NOT NULL, comments, and the rules of generated, default and identity columns: "
                "SHOW CREATE TABLE prints them. Programs that name partitions must be changed."
            ),
            sql=f"REPLACE TABLE {table.sql} USING delta CLUSTER BY "
            f"({', '.join(map(sql_path, columns))}){_properties(figures)} AS SELECT * FROM {table.sql}",
        )


def _properties(figures: Figures) -> str:
    assigned = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in sorted(figures.properties.items()))
    return f" TBLPROPERTIES ({assigned})" if assigned else ""


def percent(share: float) -> str:
    """A share as a percentage; small and large ones are not rounded to nothing or all."""
    if 0 < share < 0.001:
        return "< 0.1\u00a0%"
    if 0.999 < share < 1:
        return "> 99.9\u00a0%"
    return f"{100 * share:.1f}".removesuffix(".0") + "\u00a0%"


def _hours(hours: float) -> str:
    days = hours / 24
    return counted(round(days), "day") if days >= 2 and days == round(days) else f"{hours:g} hours"
