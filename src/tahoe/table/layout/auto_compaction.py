"""Auto compaction: after a write, compacts the partitions in which it added files, if many small files are in them, and
rewrites the files of which it deleted most rows by vectors.

Which files are compacted is decided from the sizes in the snapshot, so it does not matter which process wrote them. The
write is committed before: a compaction that fails is only logged, and one that meets a concurrent commit leaves the
files that the commit changed as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import DeltaConcurrentModificationException
from tahoe.protocol.configuration.properties import AUTO_COMPACT, AUTO_OPTIMIZE
from tahoe.table.arrow.chunks import one_array
from tahoe.table.commit.draft import Author
from tahoe.table.commit.new_files import NewFiles, noted
from tahoe.table.layout.compaction import CompactionSettings, by_partition, live_sizes
from tahoe.table.layout.optimize import OptimizeReport, OptimizeRequest, Rewriter, optimize
from tahoe.table.reading.scan import Scan
from tahoe.table.versions.table_reader import TableReader

_logger = logging.getLogger("tahoe")


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoCompaction:
    """When auto compaction runs, and on which files. The names and defaults are those of the reference.

    Attributes:
        is_on: None if the table's properties decide.
        min_files: a partition is compacted if it has at least this many small files.
        max_file_bytes: the size of the new files, approximately.
        min_file_bytes: smaller files are small; half of `max_file_bytes` by default.
        only_modified: whether only partitions in which the write has added files are compacted.
        max_partitions: how many partitions are compacted after one write: those with the most small files.
        max_deleted_share: a file of which the write deleted rows is rewritten if a larger share of its rows is deleted
            by now.
        skips_blind_appends: whether a write that only adds files compacts nothing; only together with `only_modified`,
            as in the reference.
    """

    is_on: bool | None = None
    min_files: int = 50
    max_file_bytes: int = 128 << 20
    min_file_bytes: int | None = None
    only_modified: bool = True
    max_partitions: int = 128
    max_deleted_share: float = 0.5
    skips_blind_appends: bool = False

    @property
    def small_bytes(self) -> int:
        return self.max_file_bytes // 2 if self.min_file_bytes is None else self.min_file_bytes

    def follows(self, new: NewFiles) -> bool:
        """Whether auto compaction follows a commit."""
        is_on = compacts_itself(new.properties, table=new.log.url) if self.is_on is None else self.is_on
        return is_on and not (self.skips_blind_appends and self.only_modified and new.is_blind_append)


def compacts_itself(properties: Mapping[str, str], *, table: str) -> bool:
    """Whether a table's properties enable auto compaction."""
    return AUTO_OPTIMIZE.get(properties, table=table) or AUTO_COMPACT.get(properties, table=table) != "false"


def files_to_compact(scan: Scan, new: NewFiles, settings: AutoCompaction) -> Scan:
    """The files that auto compaction rewrites after a write.

    Args:
        scan: of all files.
    """
    small = small_files(scan, new.paths, settings)
    assert small.file_positions is not None
    return scan.within(
        [*small.file_positions.to_pylist(), *files_over_deleted_ratio(scan, new.marked, settings.max_deleted_share)]
    )


def files_over_deleted_ratio(scan: Scan, marked: Set[str], max_share: float) -> list[int]:
    """The positions of those files in `marked` whose share of deleted rows exceeds `max_share`."""
    if not marked:
        return []
    paths = pa.array(sorted(marked), pa.string())
    numbers = np.flatnonzero(np.asarray(one_array(pc.is_in(scan.column("path"), value_set=paths))))
    _, deleted_share = live_sizes(scan.within(numbers.tolist()))
    found: list[int] = numbers[deleted_share > max_share].tolist()
    return found


def small_files(scan: Scan, added: Set[str], settings: AutoCompaction) -> Scan:
    """The small files of partitions that have many of them.

    Args:
        scan: of all files.
        added: the paths of the files that the write has added.
    """
    # files of a clustered table that were laid out together stay together
    is_small = np.asarray(one_array(scan.column("size_bytes"))) < settings.small_bytes
    is_small &= np.asarray(one_array(pc.is_null(scan.column("clustering_provider"))))
    if np.count_nonzero(is_small) < max(settings.min_files, 2):
        return scan.within([])
    paths = pa.array(sorted(added), pa.string())
    is_added = np.asarray(one_array(pc.is_in(scan.column("path"), value_set=paths)))
    numbers = np.flatnonzero(is_small | is_added)
    chosen = []
    for group in by_partition(scan.within(numbers.tolist())):
        files = numbers[group]
        small = files[is_small[files]]
        if len(small) >= settings.min_files and (is_added[files].any() or not settings.only_modified):
            chosen.append(small)
    most = sorted(chosen, key=len, reverse=True)[: settings.max_partitions]
    return scan.within(np.concatenate(most).tolist() if most else [])


@contextmanager
def auto_compacted(table: TableReader) -> Iterator[None]:
    """Run auto compaction after the writes of the block, if the table's properties enable it."""
    with noted() as found:
        yield
    for new in found:
        compact_after(table, new, AutoCompaction())


def compact_after(
    table: TableReader,
    new: NewFiles,
    settings: AutoCompaction,
    *,
    rewriter: Rewriter | None = None,
    **author: Unpack[Author],
) -> OptimizeReport | None:
    """Run auto compaction after a commit. It never raises, except for an interruption.

    Args:
        rewriter: rewrites the bins; threads of this process by default.

    Returns:
        what was done; None if nothing was done.
    """
    try:
        if not settings.follows(new) or not files_to_compact(table.snapshot().full_scan, new, settings).kept_files:
            return None
        request = OptimizeRequest(
            select=lambda scan: files_to_compact(scan, new, settings),
            settings=CompactionSettings(max_file_bytes=settings.max_file_bytes, min_file_bytes=settings.small_bytes),
            is_auto=True,
            **author,
        )
        return optimize(table, request, rewriter=rewriter)
    except DeltaConcurrentModificationException as error:  # others changed the files, or compacted them themselves
        _logger.debug(
            "%s: auto compaction after version %s left its files as they were: %s", table.url, new.version, error
        )
    except Exception as error:
        _logger.warning(
            "%s: version %s is committed, but auto compaction failed after it: %s", table.url, new.version, error
        )
    return None
