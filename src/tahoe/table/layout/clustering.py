"""ZORDER BY and clustered tables: by which columns rows are laid out, and which files are laid out together as a cube.

Protocol: "Clustered Table". Nothing is read but the snapshot's columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import (
    ClusteringWithPredicateError,
    ClusteringWithZOrderError,
    OptimizeFullNotSupportedError,
    ZOrderColumnNotFoundError,
    ZOrderPartitionColumnError,
    ZOrderStatisticsError,
)
from tahoe.protocol.configuration.features import supports
from tahoe.protocol.log.actions import Add
from tahoe.protocol.log.cubes import (
    CLOSED_BYTES,
    CUBE_COLUMNS,
    CUBE_ID,
    PROVIDER,
    TARGET_SIZE,
    cube_leaves,
    cube_of,
    cube_tags,
    cubes_to_lay_out,
    ordered_cube,
    zorder_tags,
)
from tahoe.protocol.statistics.clustering import FEATURE
from tahoe.protocol.statistics.stats import has_bounds, statistics_columns
from tahoe.protocol.types.names import dotted, quoted
from tahoe.protocol.types.schema import BINARY, BOOLEAN
from tahoe.table.arrow.chunks import one_array, taken
from tahoe.table.layout.compaction import (
    Bin,
    CompactionSettings,
    group_codes,
    groups_of,
    live_sizes,
    partition_keys,
)
from tahoe.table.reading.scan import Scan, chosen_of
from tahoe.table.reading.snapshot import Snapshot

# Of a file without statistics, about: compressed rows of some ten columns.
_ROW_BYTES = 50

# The tags that tell a file's cube.
_TAGS = (CUBE_ID, CUBE_COLUMNS, TARGET_SIZE)

# The column of the cubes in the sums of groups.
_CUBE = "cube"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRequest:
    """How OPTIMIZE is asked to lay out rows.

    Attributes:
        zorder_by: the columns of ZORDER BY; empty without it.
        is_full: whether all rows of a clustered table are laid out again.
        checks_statistics: whether columns without statistics are refused.
        check: the caller's name of the switch for that, which the error tells; None if there is none.
        max_file_rows: the largest number of rows in a file.
        closed_bytes: cubes of a clustered table that are at least so large are not laid out again.
    """

    zorder_by: tuple[tuple[str, ...], ...] = ()
    is_full: bool = False
    checks_statistics: bool = True
    check: str | None = None
    max_file_rows: int | None = None
    closed_bytes: int = CLOSED_BYTES

    def __post_init__(self) -> None:
        assert self.max_file_rows is None or self.max_file_rows > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The columns by which OPTIMIZE lays out rows, as paths in the spelling of the schema.

    Attributes:
        is_clustered: whether they are the clustering columns of the table, and not those of ZORDER BY.
    """

    columns: tuple[tuple[str, ...], ...]
    is_clustered: bool
    request: OrderRequest

    @property
    def names(self) -> list[str]:
        """The columns as the reference writes them in tags and in the history."""
        if self.is_clustered:
            return [dotted(path) for path in self.columns]
        return [".".join(quoted(name) if "." in name else name for name in path) for path in self.columns]


@dataclass(frozen=True, slots=True, kw_only=True)
class CubeBin(Bin):
    """Files of one partition whose rows are laid out together, as several files.

    Attributes:
        rows: about how many rows there are.
        file_count: how many files they are to fill.
        cube: the id of the cube that they become.
        target_bytes: the size of a file that was asked for.
    """

    order: Order
    rows: int
    file_count: int
    cube: str
    target_bytes: int

    def tagged(self, add: Add) -> Add:
        """A new file of the cube, with the tags by which the next OPTIMIZE knows it."""
        names = self.order.names
        if self.order.is_clustered:
            return add.replace(tags=cube_tags(self.cube, names), clustering_provider=PROVIDER)
        return add.replace(tags=zorder_tags(self.cube, names, self.target_bytes))


def order_of(snapshot: Snapshot, request: OrderRequest, predicates: Sequence[str]) -> Order | None:
    """The order in which OPTIMIZE of a table lays out rows; None if it only compacts files.

    Args:
        predicates: the conditions that choose files.

    Raises:
        ClusteringWithPredicateError, ClusteringWithZOrderError: the table is clustered.
        OptimizeFullNotSupportedError: it has no clustering columns.
        ZOrderPartitionColumnError, ZOrderColumnNotFoundError, ZOrderStatisticsError: a column of ZORDER BY does not
            fit.
    """
    table, clustered = snapshot.url, snapshot.clustering_columns
    asked = ", ".join(".".join(path) for path in request.zorder_by)
    if supports(snapshot.protocol, FEATURE):
        if predicates:
            raise ClusteringWithPredicateError(table=table, predicates=" AND ".join(predicates))
        if asked:
            raise ClusteringWithZOrderError(table=table, zOrderBy=asked)
    if request.is_full and not clustered:
        raise OptimizeFullNotSupportedError(table=table)
    if clustered:
        return Order(columns=clustered, is_clustered=True, request=request)
    if not asked:
        return None
    return Order(columns=_checked_columns(snapshot, request), is_clustered=False, request=request)


def _checked_columns(snapshot: Snapshot, request: OrderRequest) -> tuple[tuple[str, ...], ...]:
    """The columns of ZORDER BY, spelled as in the schema, each once."""
    partitions = {name.lower() for name in snapshot.partition_columns}
    found = []
    for path in request.zorder_by:
        name = ".".join(path)
        if name.lower() in partitions:
            raise ZOrderPartitionColumnError(table=snapshot.url, colName=name)
        fields = snapshot.schema.resolve(path)
        if fields is None:
            raise ZOrderColumnNotFoundError(
                table=snapshot.url, columnName=name, columns=", ".join(snapshot.schema.names)
            )
        found.append((tuple(field.name for field in fields), fields[-1].type))
    unsorted = [
        f"{'.'.join(path)} ({kind})" for path, kind in found if not has_bounds(kind) and kind not in (BOOLEAN, BINARY)
    ]
    if unsorted:
        detail = f"{', '.join(unsorted)} is of a type without an order"
        remedy = "Order by columns, or fields of structs, that are numbers, dates, timestamps, strings or booleans."
        raise ZOrderStatisticsError(table=snapshot.url, cols=", ".join(unsorted), detail=detail, remedy=remedy)
    _check_statistics(snapshot, request, [path for path, _ in found])
    return tuple(dict.fromkeys(path for path, _ in found))


def _check_statistics(snapshot: Snapshot, request: OrderRequest, columns: Sequence[tuple[str, ...]]) -> None:
    """Refuse columns of ZORDER BY of which no statistics are collected, if the request checks that."""
    kept = {
        path
        for path, _ in statistics_columns(
            snapshot.schema, snapshot.partition_columns, snapshot.properties, table=snapshot.url
        )
    }
    missing = ", ".join(".".join(path) for path in columns if path not in kept)
    if missing and request.checks_statistics:
        detail = f"no statistics are collected for {missing}, so that queries cannot skip files by them"
        remedy = (
            "Add the columns to the table property delta.dataSkippingStatsColumns, or raise "
            "delta.dataSkippingNumIndexedCols."
            + (f" To order by them nevertheless, set {request.check} = false." if request.check else "")
        )
        raise ZOrderStatisticsError(table=snapshot.url, cols=missing, detail=detail, remedy=remedy)


# --- which files


def plan_cubes(scan: Scan, order: Order, settings: CompactionSettings, cubes: Iterator[str]) -> list[Bin]:
    """The cubes to make of the files of a scan. Files that need no rewrite are in none.

    Of a large version what is kept of a file are two bytes, and of one that is laid out again its number and its path.

    Args:
        cubes: the ids of new cubes.
    """
    pieces: list[_Groups] = []

    def choose(found: Sequence[_Groups]) -> Iterator[npt.NDArray[np.int64]]:
        pieces[:] = found
        yield from (np.flatnonzero(bins >= 0) for bins in _bins_of_files(found, order))

    chosen = chosen_of(scan, lambda piece: _looked_at(piece, order, settings), choose)
    if not pieces:
        return []
    groups = _joined(pieces)
    live_bytes, rows = (np.asarray(groups[name]) for name in ("live_bytes", "rows"))
    bins = np.concatenate([found[found >= 0] for found in _bins_of_files(pieces, order)])
    files_of_bins = _by_bin(bins, np.asarray(chosen.file_numbers))
    groups_of_bins = _by_bin(_bins_of_groups(groups, order), np.arange(len(groups)))
    cube_bins: list[Bin] = []
    for files, members in zip(files_of_bins, groups_of_bins, strict=True):
        size, target = int(live_bytes[members].sum()), settings.max_file_bytes
        file_count = max(round(size / target), 1)
        if order.is_clustered and not order.request.is_full:
            # A cube gets files for the size to which the table will grow; FULL makes files of the target size.
            file_count = cube_leaves(size, int(live_bytes.sum()), target)
        cube_bins.append(
            CubeBin(
                numbers=tuple(files.tolist()),
                live_bytes=size,
                order=order,
                rows=int(rows[members].sum()),
                file_count=file_count,
                cube=next(cubes),
                target_bytes=target,
            )
        )
    return cube_bins


@dataclass(frozen=True, slots=True)
class _Groups:
    """The files of a scan by partition and cube.

    Attributes:
        of_files: the group of each file, in as few bytes as possible.
        sums: of the files in each group: `cube`, `size_bytes`, `live_bytes`, `rows`, and the columns of
            `partition_keys`.
    """

    of_files: npt.NDArray[np.integer[Any]]
    sums: pa.Table


def _looked_at(scan: Scan, order: Order, settings: CompactionSettings) -> _Groups:
    live_bytes, deleted_share = live_sizes(scan)
    keys = {_CUBE: _cubes(scan, order, settings), **partition_keys(scan)}
    # Files with many deleted rows leave their cubes.
    keys[_CUBE] = pc.dictionary_encode(pc.if_else(pa.array(settings.is_worn(deleted_share)), "", keys[_CUBE]))
    groups = group_codes(list(keys.values()), scan.kept_files)
    _, first = np.unique(groups, return_index=True)
    sums = {"size_bytes": one_array(scan.column("size_bytes")), "live_bytes": live_bytes, "rows": _rows(scan)}
    return _Groups(
        groups.astype(np.min_scalar_type(len(first))),
        pa.table(
            {
                **{name: taken(column, first) for name, column in keys.items()},
                **{name: _added_up(np.asarray(values), groups, len(first)) for name, values in sums.items()},
            }
        ),
    )


def _added_up(values: npt.NDArray[Any], groups: npt.NDArray[np.int64], count: int) -> npt.NDArray[Any]:
    sums = np.zeros(count, values.dtype)
    np.add.at(sums, groups, values)
    return sums


def _cubes(scan: Scan, order: Order, settings: CompactionSettings) -> pa.ChunkedArray:
    """The cube of each file, as `cube_of` or `ordered_cube` tells it."""
    tags = scan.column("tags")
    told = [pa.chunked_array([pc.map_lookup(c, name, "last") for c in tags.chunks], pa.string()) for name in _TAGS]
    told.append(scan.column("clustering_provider"))
    codes = group_codes([pc.dictionary_encode(column) for column in told], scan.kept_files)
    _, first = np.unique(codes, return_index=True)
    cubes = [
        cube_of(dict(zip(_TAGS, values, strict=True)), provider, order.names)
        if order.is_clustered
        else ordered_cube(dict(zip(_TAGS, values, strict=True)), order.names, settings.max_file_bytes)
        for *values, provider in zip(*(taken(column, first).to_pylist() for column in told), strict=True)
    ]
    return pa.chunked_array([pa.array(cubes, pa.string()).take(pa.array(codes))])


def _by_bin(bins: npt.NDArray[np.int64], values: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """The values of each bin, in their order; values without a bin are left out.

    Args:
        bins: of each value, from 0, without a gap; -1 for none.
    """
    in_order = np.argsort(bins, kind="stable")
    ends = np.searchsorted(bins[in_order], np.arange(bins.max(initial=-1) + 2))
    return np.split(values[in_order], ends)[1:-1]


def _bins_of_files(pieces: Sequence[_Groups], order: Order) -> Iterator[npt.NDArray[np.int64]]:
    """For each file of each piece the cube that it becomes a part of; -1 if it stays as it is."""
    if not pieces:
        return
    bins, start = _bins_of_groups(_joined(pieces), order), 0
    for piece in pieces:
        yield bins[start : start + len(piece.sums)][piece.of_files]
        start += len(piece.sums)


def _joined(pieces: Sequence[_Groups]) -> pa.Table:
    return pa.concat_tables([piece.sums for piece in pieces])


def _bins_of_groups(groups: pa.Table, order: Order) -> npt.NDArray[np.int64]:
    """The same for groups."""
    cubes, sizes = groups[_CUBE].to_pylist(), groups["size_bytes"].to_pylist()
    bins, number = np.full(len(groups), -1), 0
    for members in groups_of(groups):
        by_cube = Counter[str | None]()
        for group in members:
            by_cube[cubes[group]] += sizes[group]
        asked = order.request
        wanted = cubes_to_lay_out(
            by_cube, full=asked.is_full or not order.is_clustered, closed_bytes=asked.closed_bytes
        )
        chosen = [group for group in members if cubes[group] in wanted]
        bins[chosen] = number
        number += bool(chosen)
    return bins


def _rows(scan: Scan) -> npt.NDArray[np.float64]:
    """The number of rows in each file, estimated where there are no statistics."""
    known = one_array(scan.num_records).cast(pa.float64()).to_numpy(zero_copy_only=False)
    return np.where(np.isnan(known), np.asarray(one_array(scan.column("size_bytes"))) / _ROW_BYTES, known)


def in_cubes_of(order: Order, removed: Sequence[Add]) -> list[Add]:
    """The removed files that were in cubes of a clustered table: of its columns, or with FULL of any."""
    if not order.is_clustered:
        return []
    tagged = [add for add in removed if (add.tags or {}).get(CUBE_ID) and (add.tags or {}).get(CUBE_COLUMNS)]
    wanted = cube_tags("", order.names)[CUBE_COLUMNS]
    return [add for add in tagged if order.request.is_full or (add.tags or {}).get(CUBE_COLUMNS) == wanted]


def keys_of(rows: pa.Table, columns: Sequence[tuple[str, ...]]) -> pa.Table:
    """The columns of an order as columns of their own, named by their numbers."""
    return pa.table([_key(rows, path) for path in columns], names=[str(number) for number in range(len(columns))])


def _key(rows: pa.Table, path: tuple[str, ...]) -> pa.ChunkedArray:
    name, *inner = path
    column = rows.column(name)
    for field in inner:
        chunks = [
            chunk.flatten()[chunk.type.get_field_index(field)] for chunk in column.chunks
        ]  # null where the struct is
        column = pa.chunked_array(chunks, column.type.field(column.type.get_field_index(field)).type)
    return column
