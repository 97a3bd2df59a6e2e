"""ZORDER BY and clustered tables: by which columns rows are laid out, and which files are laid out together as a cube.

Protocol: "Clustered Table". Nothing is read but the snapshot's columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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
    cube_leaves,
    cube_tags,
    files_to_cluster,
    is_ordered,
    zorder_tags,
)
from tahoe.protocol.statistics.clustering import FEATURE
from tahoe.protocol.statistics.stats import has_bounds, statistics_columns
from tahoe.protocol.types.names import dotted, quoted
from tahoe.protocol.types.schema import BINARY, BOOLEAN
from tahoe.table.arrow.chunks import one_array
from tahoe.table.layout.compaction import Bin, CompactionSettings, by_partition, live_sizes
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import Snapshot

# Of a file without statistics, about: compressed rows of some ten columns.
_ROW_BYTES = 50


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

    Args:
        cubes: the ids of new cubes.
    """
    live_bytes, deleted_share = live_sizes(scan)
    worn = settings.is_worn(deleted_share)
    file_numbers = np.asarray(scan.file_numbers)
    rows, adds = _rows(scan), list(scan.adds())
    choose = _files_to_cluster if order.is_clustered else _files_to_order
    cube_bins: list[Bin] = []
    for partition_indexes in by_partition(scan, np.arange(len(file_numbers))):
        indexes = choose(adds, partition_indexes, worn, order, settings)
        if not len(indexes):
            continue
        size, target = int(live_bytes[indexes].sum()), settings.max_file_bytes
        file_count = max(round(size / target), 1)
        if order.is_clustered and not order.request.is_full:
            # A cube gets files for the size to which the table will grow; FULL makes files of the target size.
            file_count = cube_leaves(size, int(live_bytes.sum()), target)
        cube_bins.append(
            CubeBin(
                numbers=tuple(file_numbers[indexes].tolist()),
                live_bytes=size,
                order=order,
                rows=int(rows[indexes].sum()),
                file_count=file_count,
                cube=next(cubes),
                target_bytes=target,
            )
        )
    return cube_bins


def _rows(scan: Scan) -> npt.NDArray[np.float64]:
    """The number of rows in each file, estimated where there are no statistics."""
    known = one_array(scan.num_records).cast(pa.float64()).to_numpy(zero_copy_only=False)
    return np.where(np.isnan(known), np.asarray(one_array(scan.column("size_bytes"))) / _ROW_BYTES, known)


def _files_to_order(
    adds: Sequence[Add],
    indexes: npt.NDArray[np.int64],
    worn: npt.NDArray[np.bool_],
    order: Order,
    settings: CompactionSettings,
) -> npt.NDArray[np.int64]:
    """All files of a partition; none if ZORDER BY has just written them."""
    done = is_ordered((adds[n] for n in indexes), order.names, settings.max_file_bytes) and not worn[indexes].any()
    return indexes[:0] if done else indexes


def _files_to_cluster(
    adds: Sequence[Add],
    indexes: npt.NDArray[np.int64],
    worn: npt.NDArray[np.bool_],
    order: Order,
    _: CompactionSettings,
) -> npt.NDArray[np.int64]:
    """The files that become a new cube. Files with many deleted rows leave their cubes."""
    candidates = [adds[n].replace(tags=None, clustering_provider=None) if worn[n] else adds[n] for n in indexes]
    places = {id(add): n for add, n in zip(candidates, indexes.tolist(), strict=True)}
    asked = order.request
    chosen = files_to_cluster(candidates, order.names, full=asked.is_full, closed_bytes=asked.closed_bytes)
    return np.array([places[id(add)] for add in chosen], np.int64)


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
