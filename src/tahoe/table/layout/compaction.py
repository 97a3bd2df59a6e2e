"""Chooses the files that OPTIMIZE rewrites, and packs them into bins. Each bin becomes one file.

Paper §4.3 and §5: small files make listings, planning and reading slow. Nothing is read but the snapshot's columns,
which of a large version are looked at in pieces: planning costs a fraction of a second for 100,000 files, and needs
memory for the files that may be rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.configuration.column_mapping import stored_name
from tahoe.protocol.configuration.properties import TARGET_FILE_SIZE
from tahoe.protocol.types.schema import TIMESTAMP
from tahoe.table.arrow.chunks import one_array, taken
from tahoe.table.reading.scan import Scan, chosen_of, part_of, zoneless_texts

GIB = 1 << 30

# A file joins the first of this many bins that has room for it.
_OPEN_BINS_MAX = 16

# How the names of the columns of `partition_keys` begin.
_KEY = "key "


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


def plan_bins(
    scan: Scan, settings: CompactionSettings, also: Callable[[Scan], npt.NDArray[np.bool_]] | None = None
) -> list[Bin]:
    """The bins to rewrite among the files of a scan. Files that need no rewrite are in none.

    The files of a bin are in the order of their modification times, so that rows that were written together stay
    together. Of a large version what is kept of a file that may be rewritten are some numbers and its path, and of
    others nothing.

    Args:
        also: for each file of a scan whether it is rewritten in any case.
    """
    packed: list[tuple[npt.NDArray[np.int64], int]] = []

    def choose(found: Sequence[pa.Table | None]) -> Iterator[npt.NDArray[np.int64]]:
        there = [piece for piece in found if piece is not None]
        packed[:] = _packed(pa.concat_tables(there), settings) if there else []
        yield from _by_piece(found, _members(packed))

    chosen = chosen_of(scan, lambda piece: _candidates(piece, settings, also), choose)
    numbers, order = np.asarray(chosen.file_numbers), _members(packed)
    return [
        Bin(numbers=tuple(numbers[np.searchsorted(order, members)].tolist()), live_bytes=size)
        for members, size in packed
    ]


def _candidates(
    scan: Scan, settings: CompactionSettings, also: Callable[[Scan], npt.NDArray[np.bool_]] | None
) -> pa.Table | None:
    """The files of a scan that may be rewritten: their positions in it, what decides about them, and the columns of
    `partition_keys`. None if there are none.
    """
    live_bytes, deleted_share = live_sizes(scan)
    is_worn = settings.is_worn(deleted_share) if also is None else settings.is_worn(deleted_share) | also(scan)
    rows = np.flatnonzero((live_bytes < settings.min_file_bytes) | is_worn)
    if not len(rows):
        return None
    candidates = part_of(scan, pa.array(rows))
    times = np.asarray(one_array(candidates.column("modification_time_ms")))
    found = {"row": rows, "live_bytes": live_bytes[rows], "time": times, "is_worn": is_worn[rows]}
    return pa.table({**found, **partition_keys(candidates)})


def _packed(candidates: pa.Table, settings: CompactionSettings) -> list[tuple[npt.NDArray[np.int64], int]]:
    """The bins of candidates, by their positions among these, and the live bytes of each."""
    live_bytes, times, is_worn = (
        one_array(candidates[name]).to_numpy(zero_copy_only=False) for name in ("live_bytes", "time", "is_worn")
    )
    found = []
    for files in groups_of(candidates):
        for members in _pack(files[np.lexsort((files, times[files]))], live_bytes, settings.max_file_bytes):
            if len(members) > 1 or is_worn[members[0]]:
                found.append((members, int(live_bytes[members].sum())))
    return found


def _members(packed: Sequence[tuple[npt.NDArray[np.int64], int]]) -> npt.NDArray[np.int64]:
    """The positions of all candidates that are in a bin, ascending."""
    return np.sort(np.concatenate([np.zeros(0, np.int64), *(members for members, _ in packed)]))


def _by_piece(found: Sequence[pa.Table | None], chosen: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """The rows in each piece of the candidates at some positions among those of all pieces."""
    start = 0
    for piece in found:
        rows = np.zeros(0, np.int64) if piece is None else np.asarray(one_array(piece["row"]))
        yield rows[chosen[slice(*np.searchsorted(chosen, [start, start + len(rows)]))] - start]
        start += len(rows)


def bins_of(scan: Scan, is_chosen: Callable[[Scan], npt.NDArray[np.bool_]]) -> list[Bin]:
    """A bin for each chosen file, so that the rows of each stay apart from others."""
    chosen = chosen_of(scan, lambda piece: np.flatnonzero(is_chosen(piece)), lambda found: found)
    live_bytes, _ = live_sizes(chosen)
    return [
        Bin(numbers=(number,), live_bytes=size)
        for number, size in zip(chosen.file_numbers.to_pylist(), live_bytes.tolist(), strict=True)
    ]


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


def by_partition(scan: Scan) -> Iterator[npt.NDArray[np.int64]]:
    """The positions of a scan's files among these, partition by partition. Different spellings of one value are one
    partition.
    """
    return groups_of(pa.table({"row": np.arange(scan.kept_files), **partition_keys(scan)}))


def partition_keys(scan: Scan) -> dict[str, pa.ChunkedArray]:
    """Columns that are equal for files of one partition, of a scan's files.

    A timestamp without a time zone is another moment for each reader's zone: each spelling of one is a partition of its
    own.
    """
    if not scan.snapshot.partition_columns:
        return {}
    columns = [*scan.partition.flatten(), *_without_zone(scan)]
    told = [column for column in columns if not pa.types.is_null(column.type)]
    return {f"{_KEY}{number}": pc.dictionary_encode(column) for number, column in enumerate(told)}


def groups_of(rows: pa.Table) -> Iterator[npt.NDArray[np.int64]]:
    """The positions of the rows of each partition, by the columns of `partition_keys`, perhaps of several scans."""
    groups = group_codes([rows[name] for name in rows.column_names if name.startswith(_KEY)], len(rows))
    order = np.argsort(groups, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


def group_codes(encoded: Sequence[pa.ChunkedArray], count: int) -> npt.NDArray[np.int64]:
    """A number for each row of encoded columns, equal for equal rows: from 0, without a gap."""
    if not encoded or not count:
        return np.zeros(count, np.int64)
    _, groups = np.unique(np.stack([_codes(column) for column in encoded]), axis=1, return_inverse=True)
    return np.asarray(groups, np.int64).reshape(-1)


def _without_zone(scan: Scan) -> Iterator[pa.ChunkedArray]:
    """The texts of timestamps without a time zone, null for others, for each partition column."""
    snapshot = scan.snapshot
    for field in (snapshot.schema.find(name) for name in snapshot.partition_columns):
        if field is not None and field.type == TIMESTAMP:
            yield zoneless_texts(scan.column("partition_values"), stored_name(field, snapshot.column_mapping_mode))


def _codes(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """A number for each value of an encoded column, equal for equal values."""
    encoded = column.unify_dictionaries()
    return np.concatenate([np.asarray(pc.fill_null(chunk.indices, -1)).astype(np.int64) for chunk in encoded.chunks])


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
