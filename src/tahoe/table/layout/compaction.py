"""Chooses the files that OPTIMIZE rewrites, and packs them into bins. Each bin becomes one file.

Paper §4.3 and §5: small files make listings, planning and reading slow. Nothing is read but the snapshot's columns, so
that planning costs a fraction of a second for 100,000 files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.configuration.column_mapping import stored_name
from tahoe.protocol.configuration.properties import TARGET_FILE_SIZE
from tahoe.protocol.types.schema import TIMESTAMP
from tahoe.table.arrow.chunks import one_array, taken
from tahoe.table.reading.scan import Scan, zoneless_texts

GIB = 1 << 30

# A file joins the first of this many bins that has room for it.
_OPEN_BINS_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """Which files are rewritten, and into how large ones.

    Attributes:
        max_file_bytes: the size of a bin, by live bytes: the size of its files without deleted rows.
        min_file_bytes: files with fewer live bytes are rewritten together with others.
        max_deleted_share: a file with a larger share of deleted rows, from 0 to 1, is rewritten even if it is large or
            alone. So is a file with a deletion vector and an unknown number of rows.
        batch_bytes: commit after bins of this many live bytes; None commits all bins at once.
    """

    max_file_bytes: int = GIB
    min_file_bytes: int = GIB
    max_deleted_share: float = 0.05
    batch_bytes: int | None = None

    @classmethod
    def of_table(
        cls,
        properties: Mapping[str, str],
        *,
        table: str,
        max_file_bytes: int | None = None,
        min_file_bytes: int | None = None,
    ) -> CompactionSettings:
        """The settings for a table; sizes that are None follow from its properties."""
        target = (TARGET_FILE_SIZE.get(properties, table=table) if max_file_bytes is None else max_file_bytes) or GIB
        return cls(max_file_bytes=target, min_file_bytes=min_file_bytes or target)

    def is_worn(self, deleted_share: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Whether files have too many deleted rows. True for NaN: the share is unknown."""
        return ~(deleted_share <= self.max_deleted_share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Files of one partition that become one file.

    Attributes:
        numbers: the numbers of the files in the snapshot, in the order in which their rows are written.
        live_bytes: the size of the files without deleted rows, estimated.
    """

    numbers: tuple[int, ...]
    live_bytes: int


def plan_bins(scan: Scan, settings: CompactionSettings, also: npt.NDArray[np.bool_] | None = None) -> list[Bin]:
    """The bins to rewrite among the files of a scan. Files that need no rewrite are in none.

    The files of a bin are in the order of their modification times, so that rows that were written together stay
    together.

    Args:
        also: for each file of the scan whether it is rewritten in any case.
    """
    live_bytes, deleted_share = live_sizes(scan)
    is_worn = settings.is_worn(deleted_share) if also is None else settings.is_worn(deleted_share) | also
    candidates = np.flatnonzero((live_bytes < settings.min_file_bytes) | is_worn)
    file_numbers = np.asarray(scan.file_numbers)
    times = np.asarray(one_array(scan.column("modification_time_ms")))
    found: list[Bin] = []
    for files in by_partition(scan, candidates):
        ordered = files[np.lexsort((file_numbers[files], times[files]))]
        for members in _pack(ordered, live_bytes, settings.max_file_bytes):
            if len(members) > 1 or is_worn[members[0]]:
                found.append(
                    Bin(numbers=tuple(file_numbers[members].tolist()), live_bytes=int(live_bytes[members].sum()))
                )
    return found


def bins_of(scan: Scan, chosen: npt.NDArray[np.bool_]) -> list[Bin]:
    """A bin for each chosen file, so that the rows of each stay apart from others."""
    live_bytes, _ = live_sizes(scan)
    file_numbers, indexes = np.asarray(scan.file_numbers), np.flatnonzero(chosen)
    return [Bin(numbers=(int(file_numbers[index]),), live_bytes=int(live_bytes[index])) for index in indexes]


def reasons(scan: Scan, settings: CompactionSettings) -> tuple[int, int]:
    """How many files of a scan are small, and how many have too many deleted rows."""
    live_bytes, deleted_share = live_sizes(scan)
    is_small, is_worn = live_bytes < settings.min_file_bytes, settings.is_worn(deleted_share)
    return int(np.count_nonzero(is_small)), int(np.count_nonzero(is_worn))


def live_sizes(scan: Scan) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The live bytes of each file, and the share of its rows that are deleted: 0 without a vector, NaN if unknown."""
    sizes = np.asarray(one_array(scan.column("size_bytes"))).astype(np.int64)
    share = np.zeros(len(sizes))
    vectors = scan.column("deletion_vector")
    if vectors.null_count < len(vectors):
        marked = np.flatnonzero(np.asarray(one_array(pc.is_valid(vectors))))
        records = taken(scan.num_records, marked)
        deleted = one_array(pc.struct_field(taken(vectors, marked), "cardinality")).to_numpy(zero_copy_only=False)
        total = one_array(records).cast(pa.float64()).to_numpy(zero_copy_only=False)
        share[marked] = np.divide(deleted, total, out=np.ones(len(marked)), where=total != 0)
    return np.rint(sizes * (1 - np.nan_to_num(np.minimum(share, 1.0)))).astype(np.int64), share


def by_partition(scan: Scan, candidates: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """The candidates of each partition. Different spellings of one value are one partition.

    A timestamp without a time zone is another moment for each reader's zone: each spelling of one is a partition of its
    own.
    """
    if not scan.snapshot.partition_columns or not len(candidates):
        yield candidates
        return
    codes = [_codes(column)[candidates] for column in (*scan.partition.flatten(), *_without_zone(scan))]
    _, groups = np.unique(np.stack(codes), axis=1, return_inverse=True)
    order = np.argsort(groups, kind="stable")
    yield from np.split(candidates[order], np.flatnonzero(np.diff(groups[order])) + 1)


def _without_zone(scan: Scan) -> Iterator[pa.ChunkedArray]:
    """The texts of timestamps without a time zone, null for others, for each partition column."""
    snapshot = scan.snapshot
    for field in (snapshot.schema.find(name) for name in snapshot.partition_columns):
        if field is not None and field.type == TIMESTAMP:
            yield zoneless_texts(scan.column("partition_values"), stored_name(field, snapshot.column_mapping_mode))


def _codes(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """A number for each value of a column, equal for equal values."""
    encoded = pc.dictionary_encode(column, null_encoding="encode")  # one dictionary for all chunks
    return np.concatenate([np.asarray(chunk.indices) for chunk in encoded.chunks])


def _pack(files: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], capacity: int) -> list[npt.NDArray[np.int64]]:
    """Pack files, in order, into bins of a capacity. A larger file has a bin of its own."""
    closed: list[list[int]] = []
    open_bins: list[tuple[list[int], int]] = []
    for file, size in zip(files.tolist(), sizes[files].tolist(), strict=True):
        place = next((at for at, (_, used) in enumerate(open_bins) if used + size <= capacity), None)
        if place is None:
            open_bins.append(([file], size))
            if len(open_bins) > _OPEN_BINS_MAX:
                closed.append(open_bins.pop(_fullest(open_bins))[0])
        else:
            members, used = open_bins[place]
            members.append(file)
            open_bins[place] = (members, used + size)
    return [np.array(members) for members in [*closed, *(members for members, _ in open_bins)]]


def _fullest(bins: Sequence[tuple[list[int], int]]) -> int:
    return max(range(len(bins)), key=lambda at: bins[at][1])
