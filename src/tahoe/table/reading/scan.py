"""Decides which files of a snapshot a query must read.

Paper §4 and protocol "Per-file Statistics": partition values and statistics exclude files that cannot contain a row for
which the predicate is true. All processing is columnar; the result is an Arrow table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe._cached import cached_property
from tahoe.errors import ColumnNotFoundError, CorruptCheckpointError, InvalidActionError
from tahoe.events.kinds import QueryPlanned
from tahoe.events.listeners import emit, now
from tahoe.protocol.configuration.column_mapping import physical_schema, stored_name
from tahoe.protocol.log.actions import Add
from tahoe.protocol.log.file_paths import resolve_path
from tahoe.protocol.statistics.stat_tests import StatTest
from tahoe.protocol.types.partitions import has_zone, parse_partition_value
from tahoe.protocol.types.predicate import Predicate
from tahoe.protocol.types.schema import DataType, Field
from tahoe.table.arguments import COUNT, FILE_COLUMN, NAMES, POSITIONS, takes
from tahoe.table.arrow.chunks import replaced, taken, taken_table
from tahoe.table.arrow.statistics import StatisticsRequest
from tahoe.table.arrow.types import arrow_type
from tahoe.table.calls import of_objects
from tahoe.table.log.file_entries import to_adds
from tahoe.table.log.file_parts import AMBIGUOUS, COLUMNS, GONE, Part
from tahoe.table.log.grouped_part import NARROW_SHARE_MAX
from tahoe.table.log.live_files import FileSubset, LiveFiles, RowGroupSubset
from tahoe.table.reading.group_skipping import groups_to_read
from tahoe.table.reading.output import batch_reader, count_rows, pandas_frame, polars_frame
from tahoe.table.reading.rows import read_rows
from tahoe.table.reading.skipping import file_mask, test_of
from tahoe.table.reading.snapshot_state import SnapshotState

if TYPE_CHECKING:  # optional packages
    import pandas as pd
    import polars as pl

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class PrunedFiles:
    """Some files of a version that were chosen without listing all of them.

    Attributes:
        among: files that were listed, such as those of some row groups.
        rows: the positions of the chosen files among these.
    """

    among: FileSubset
    rows: npt.NDArray[np.int64]

    @cached_property
    def files(self) -> LiveFiles:
        return self.among.some(self.rows)

    @cached_property
    def positions(self) -> pa.Array:
        """The positions of the files in the version. This lists all files if there are commits after the checkpoint."""
        return pa.array(self.among.positions(self.rows), pa.uint64())


@of_objects("table.scan()")
@dataclass(frozen=True)
class Scan:
    """The files of a snapshot that may contain rows for which a predicate is true.

    Attributes:
        chosen: the positions of the files in the snapshot, or the files themselves; None for all of them.
        pruned_from: the scan of all files from which these were selected; its results are cached.
    """

    snapshot: SnapshotState
    predicate: Predicate | None
    chosen: pa.Array | PrunedFiles | None
    pruned_from: Scan | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        which = "all rows" if self.predicate is None else f"rows with {self.predicate}"
        return f"Scan({self.url!r}, version={self.snapshot.version}, {which if len(which) < 100 else which[:99] + '…'})"

    @property
    def url(self) -> str:
        return self.snapshot.url

    @property
    def file_positions(self) -> pa.Array | None:
        """The positions of the files in the snapshot; None for all of them."""
        return self.chosen.positions if isinstance(self.chosen, PrunedFiles) else self.chosen

    @property
    def full_scan(self) -> Scan:
        """The scan of all files of the snapshot."""
        return self.pruned_from or Scan(self.snapshot, None, None)

    @property
    def total_files(self) -> int:
        return self.snapshot.live.totals.files

    @property
    def kept_files(self) -> int:
        match self.chosen:
            case None:
                return len(self.snapshot.live)
            case PrunedFiles():
                return len(self.chosen.rows)
            case _:
                return len(self.chosen)

    @takes(numbers=POSITIONS)
    def within(self, numbers: Sequence[int]) -> Scan:
        """The files of this scan that have one of these numbers."""
        wanted = pa.array(sorted(numbers), pa.uint64())
        if self.file_positions is None:
            return replace(self, chosen=wanted)
        return replace(
            self, chosen=self.file_positions.filter(pc.is_in(self.file_positions.cast(pa.uint64()), value_set=wanted))
        )

    @cached_property
    def materialized(self) -> LiveFiles | None:
        """The selected files, if they are apart from all others."""
        live = self.snapshot.live
        if isinstance(self.chosen, PrunedFiles):
            return self.chosen.files
        return None if self.chosen is None or live.is_listed else live.subset(np.asarray(self.chosen).astype(np.int64))

    @takes(name=FILE_COLUMN)
    def column(self, name: str) -> pa.ChunkedArray:
        """A column of `tahoe.table.log.file_parts.COLUMNS` for the selected files."""
        return self._selected(lambda live: live.column(name))

    @property
    def num_records(self) -> pa.ChunkedArray:
        """How many rows each selected file has, deleted ones included; null if its statistics do not tell."""
        return self._selected(lambda live: live.num_records)

    def adds(self) -> Iterator[Add]:
        """The selected files as actions, for callers that need few of them."""
        columns = {name: self.column(name) for name in COLUMNS}
        if columns["stats"].null_count:
            columns["stats"] = self._texts
        return to_adds(pa.table(columns))

    @property
    def _texts(self) -> pa.ChunkedArray:
        """The statistics of the selected files as texts, also those that a checkpoint has only in typed columns."""
        live = self.snapshot.live if self.materialized is None else self.materialized
        if self.materialized is None and self.file_positions is not None:
            live = live.subset(np.asarray(self.file_positions).astype(np.int64))
        return live.texts(physical_schema(self.snapshot.schema, self.snapshot.column_mapping_mode))

    @cached_property
    def size_bytes(self) -> int:
        return (
            self.snapshot.live.size_bytes
            if self.chosen is None
            else int(pc.sum(self.column("size_bytes")).as_py() or 0)
        )

    @cached_property
    def urls(self) -> pa.ChunkedArray:
        """Absolute urls, unescaped."""
        paths = self.column("path")
        odd = self.snapshot.live.ambiguous if self.chosen is None else pc.match_substring_regex(paths, AMBIGUOUS)
        return resolve_urls(paths, odd, self.snapshot.url)

    @cached_property
    def file_numbers(self) -> pa.Array:
        """The numbers of the selected files in the snapshot, int64."""
        return (
            pa.array(np.arange(self.kept_files))
            if self.file_positions is None
            else self.file_positions.cast(pa.int64())
        )

    @cached_property
    def files(self) -> pa.Table:
        """The selected files, one row each.

        Columns: `url`, absolute and unescaped; `size_bytes`; `modification_time_ms`; `partition`, a struct of typed
        values by logical name; `deletion_vector`, the descriptor or null; `base_row_id`; `default_row_commit_version`.
        """
        return pa.table(
            {
                "url": self.urls,
                "size_bytes": self.column("size_bytes"),
                "modification_time_ms": self.column("modification_time_ms"),
                "partition": self.partition,
                "deletion_vector": self.column("deletion_vector"),
                "base_row_id": self.column("base_row_id"),
                "default_row_commit_version": self.column("default_row_commit_version"),
            }
        )

    @cached_property
    def partition(self) -> pa.ChunkedArray:
        """Typed partition values of the selected files, a struct with logical names."""
        fields = [partition_field(self.snapshot, name) for name in self.snapshot.partition_columns]
        if not fields:
            return pa.chunked_array([pa.array([{}] * self.kept_files, pa.struct([]))], pa.struct([]))
        texts = self.column("partition_values")
        mode, zone = self.snapshot.column_mapping_mode, self.snapshot.log.zone
        columns = [typed_partition_values(texts, stored_name(f, mode), f.type, zone) for f in fields]
        kind = pa.struct([pa.field(f.name, arrow_type(f.type)) for f in fields])
        rows = zip(
            *(column.chunks for column in columns), strict=True
        )  # one chunk of every column, for each chunk of the texts
        return pa.chunked_array(
            [pa.StructArray.from_arrays(list(chunks), fields=list(kind)) for chunks in rows], type=kind
        )

    @takes(columns=NAMES)
    def listing(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The selected files as a table for users.

        Columns: `path` as in the log, `url`, `size_bytes`, `modification_time`, `partition_values` (a struct, typed),
        `num_records` (rows in the file, from its statistics), `deleted_records` (rows that its deletion vector
        deletes), `base_row_id` and `default_row_commit_version` (null without row tracking), and only if asked for
        `stats` (JSON text).

        Args:
            columns: names, in the wanted order; all but `stats` if None.

        Raises:
            ColumnNotFoundError: there is no such column.
        """
        wanted = [name for name in _LISTED if name != "stats"] if columns is None else columns
        for name in wanted:
            if name not in _LISTED:
                raise ColumnNotFoundError(table=self.url, column=name, columns=", ".join(_LISTED))
        return pa.table({name: _LISTED[name](self) for name in wanted})

    # --- the rows

    @takes(columns=NAMES)
    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows for which the predicate is true; see `Snapshot.to_arrow`."""
        return read_rows(self, columns)

    @takes(columns=NAMES, limit=COUNT)
    def to_batches(self, columns: Sequence[str] | None = None, *, limit: int | None = None) -> pa.RecordBatchReader:
        """The rows of `to_arrow`, read as they are asked for; see `Snapshot.to_batches`."""
        return batch_reader(self, columns, limit=limit)

    @takes(columns=NAMES)
    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """The rows of `to_arrow` as a `pandas.DataFrame`."""
        return pandas_frame(self.to_arrow(columns), table=self.url)

    @takes(columns=NAMES)
    def to_polars(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The rows of `to_arrow` as a `polars.DataFrame`."""
        return polars_frame(self.to_arrow(columns), table=self.url)

    def count(self) -> int:
        """The number of rows for which the predicate is true: without a predicate from the log, if it has the counts of
        all files.
        """
        return count_rows(self)

    @takes(rows=COUNT, columns=NAMES)
    def head(self, rows: int = 5, columns: Sequence[str] | None = None) -> pa.Table:
        """The first rows, in the order of the files; no further file is read."""
        return self.to_batches(columns, limit=rows).read_all()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows for any library that takes Arrow data: `polars.DataFrame(scan)`, `duckdb.sql("from scan")`."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def _selected(self, column: Callable[[LiveFiles], pa.ChunkedArray]) -> pa.ChunkedArray:
        """A column of the selected files."""
        if self.materialized is not None:
            return column(self.materialized)
        every = column(self.snapshot.live)
        return every if self.file_positions is None else taken(every, self.file_positions)

    @cached_property
    def deleted_records(self) -> pa.ChunkedArray:
        """How many rows of each selected file its deletion vector marks; 0 without a vector."""
        vectors = self.column("deletion_vector")
        return pc.fill_null(
            pa.chunked_array([pc.struct_field(chunk, "cardinality") for chunk in vectors.chunks], pa.int64()), 0
        )


_LISTED: Mapping[str, Callable[[Scan], pa.ChunkedArray]] = {
    "path": lambda scan: scan.column("path"),
    "url": lambda scan: scan.urls,
    "size_bytes": lambda scan: scan.column("size_bytes"),
    "modification_time": lambda scan: scan.column("modification_time_ms").cast(pa.timestamp("ms", "UTC")),
    "partition_values": lambda scan: scan.partition,
    "num_records": lambda scan: scan.num_records,
    "deleted_records": lambda scan: scan.deleted_records,
    "base_row_id": lambda scan: scan.column("base_row_id"),
    "default_row_commit_version": lambda scan: scan.column("default_row_commit_version"),
    "stats": lambda scan: scan.column("stats"),
}


def partition_field(snapshot: SnapshotState, name: str) -> Field:
    """The field of a partition column, which must be spelled as in the schema: by another name files have no values.

    Raises:
        InvalidActionError: the schema has no such column, or it is listed twice.
    """
    field = next((f for f in snapshot.schema if f.name == name), None)
    if field is None:
        detail = f"the table is partitioned by {name}, but its schema has no such column"
        raise InvalidActionError(table=snapshot.url, action="metaData", detail=detail)
    if snapshot.partition_columns.count(name) > 1:
        detail = f"the table is partitioned by {name} more than once"
        raise InvalidActionError(table=snapshot.url, action="metaData", detail=detail)
    return field


def plan_scan(predicate: Predicate, full_scan: Scan) -> Scan:
    """Select the files of a snapshot that may contain a row for which the predicate is true."""
    snapshot = full_scan.snapshot
    test = test_of(snapshot, predicate)
    if test is None:
        return Scan(snapshot, predicate, None, full_scan)
    among = _narrow_by_row_groups(snapshot, test)
    if among is None:
        return Scan(
            snapshot,
            predicate,
            pc.indices_nonzero(file_mask(snapshot, test, read_partition=lambda: full_scan.partition)),
            full_scan,
        )
    part = replace(snapshot, live=among.files)
    found = pc.indices_nonzero(file_mask(part, test, read_partition=lambda: Scan(part, None, None).partition))
    return Scan(snapshot, predicate, PrunedFiles(among, np.asarray(found).astype(np.int64)), full_scan)


def told_plan(
    version: int, scans: Sequence[Scan], begun: float, *, engine: str = "arrow", purpose: str = "rows"
) -> None:
    """Tell which files of a table a query reads; see `QueryPlanned`.

    Args:
        scans: of the table, or of the parts of its change data feed.
        begun: when planning began, by `now`.
    """

    def event() -> QueryPlanned:
        files, size_bytes = sum(scan.kept_files for scan in scans), sum(scan.size_bytes for scan in scans)
        totals = [scan.snapshot.live.totals for scan in scans]
        return QueryPlanned(
            table=scans[0].url,
            duration_seconds=now() - begun,
            version=version,
            engine=engine,
            purpose=purpose,
            files_read=files,
            files_skipped=sum(each.files for each in totals) - files,
            bytes_read=size_bytes,
            bytes_skipped=sum(each.size_bytes for each in totals) - size_bytes,
        )

    emit(QueryPlanned, event)


def _narrow_by_row_groups(snapshot: SnapshotState, test: StatTest) -> RowGroupSubset | None:
    """The files of the row groups that a test needs; None if it should be evaluated on all files."""
    live = snapshot.live
    if live.is_listed:
        return None
    parts = LiveFiles(
        live.parts, live.origin
    )  # another thread may load the version again meanwhile, with other row groups
    try:
        groups = groups_to_read(replace(snapshot, live=parts), test)
        if parts.group_files[groups].sum() > NARROW_SHARE_MAX * parts.group_files.sum():
            return None
        return live.narrowed(parts, groups)
    except (*GONE, CorruptCheckpointError) as error:
        live.renew(error, parts.parts)
        return _narrow_by_row_groups(snapshot, test)


def chosen_of(
    scan: Scan,
    look: Callable[[Scan], Answer],
    choose: Callable[[Sequence[Answer]], Iterable[npt.NDArray[np.int64]]],
) -> Scan:
    """Some of a scan's files, chosen by what is told of them. All files of a version are looked at in pieces, of which
    nothing else is kept; see `LiveFiles.chosen`.
    """
    if scan.chosen is not None:
        (rows,) = choose([look(scan)])
        return part_of(scan, pa.array(rows))
    snapshot = scan.snapshot

    def look_at(part: Part) -> Answer:
        return look(Scan(replace(snapshot, live=LiveFiles([part])), None, None))

    among = snapshot.live.chosen(look_at, choose)
    return replace(scan, chosen=PrunedFiles(among, np.arange(len(among.files))), pruned_from=scan)


def in_few_groups(snapshot: SnapshotState) -> Iterator[RowGroupSubset]:
    """The files of newer commits, then also those of ever more row groups of a large checkpoint, while this is less
    than to list all.
    """
    live = snapshot.live
    parts = LiveFiles(live.parts, live.origin)
    files_up_to = np.cumsum(parts.group_files)
    groups, groups_max = 0, int(np.searchsorted(files_up_to, NARROW_SHARE_MAX * parts.group_files.sum(), side="right"))
    while not live.is_listed and groups <= groups_max:
        try:
            yield live.narrowed(parts, np.arange(len(parts.group_files)) < groups)
        except (*GONE, CorruptCheckpointError) as error:
            live.renew(error, parts.parts)
            return
        groups = max(1, 2 * groups)


def statistics_of(scan: Scan, request: StatisticsRequest) -> pa.Table:
    """Typed statistics of a scan's files, null if a file has none."""
    if scan.materialized is not None:
        return scan.materialized.statistics(request)
    every = scan.snapshot.live.statistics(request)
    return every if scan.file_positions is None else taken_table(every, scan.file_positions)


def may_match(scan: Scan, predicate: Predicate) -> pa.Array | None:
    """Which of a scan's files may have a row for which another predicate is true; None for all of them."""
    test = test_of(scan.snapshot, predicate)
    if test is None:
        return None
    if scan.materialized is not None:
        return file_mask(replace(scan.snapshot, live=scan.materialized), test, read_partition=lambda: scan.partition)
    mask = file_mask(scan.snapshot, test, read_partition=lambda: scan.full_scan.partition)
    return mask if scan.file_positions is None else mask.take(scan.file_positions)


def part_of(scan: Scan, positions: pa.Array) -> Scan:
    """Some of a scan's files, by their ascending positions among these."""
    if isinstance(scan.chosen, PrunedFiles):
        smaller: pa.Array | PrunedFiles = replace(scan.chosen, rows=scan.chosen.rows[np.asarray(positions)])
    else:
        smaller = positions.cast(pa.uint64()) if scan.file_positions is None else scan.file_positions.take(positions)
    return replace(scan, chosen=smaller, pruned_from=scan.full_scan)


def resolve_urls(paths: pa.ChunkedArray, odd: pa.ChunkedArray, table_url: str) -> pa.ChunkedArray:
    """Absolute, unescaped urls for paths as they are in the log. Paths marked in `odd` are resolved one by one, all
    others at once.
    """
    return replaced(
        paths,
        odd,
        lambda path: resolve_path(path, table_url),
        others=lambda piece: pc.binary_replace_slice(piece.view(pa.binary()), 0, 0, f"{table_url}/").view(pa.string()),
    )


def typed_partition_values(values: pa.ChunkedArray, name: str, data_type: DataType, zone: tzinfo) -> pa.ChunkedArray:
    """The typed values of one partition column. Each distinct text is parsed once; plain ones are parsed together."""
    parse, kind = partial(parse_partition_value, data_type=data_type, zone=zone), arrow_type(data_type)
    return _decode_values(values, name, parse, kind, _PLAIN_TEXTS.get(kind))


def zoneless_texts(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """The texts of one partition column of timestamps that have no time zone; null for others."""
    return _decode_values(values, name, lambda text: None if not text or has_zone(text) else text, pa.string())


# Texts of a type that Arrow casts to what `parse_partition_value` makes of them, or refuses.
_PLAIN_TEXTS: Mapping[pa.DataType, str] = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), r"^-?[0-9]{1,18}$"),
    pa.date32(): r"^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}$",
}


def _decode_values(
    values: pa.ChunkedArray,
    name: str,
    parse: Callable[[str | None], Any],
    kind: pa.DataType,
    plain: str | None = None,
) -> pa.ChunkedArray:
    """
    Args:
        plain: a pattern of texts that Arrow's cast parses alike; None if there is no such pattern.
    """
    chunks = [_decode_texts(_lookup(chunk, name), parse, kind, plain) for chunk in values.chunks]
    return pa.chunked_array(chunks, type=kind)


def _lookup(chunk: pa.MapArray, name: str) -> pa.Array:
    return pc.map_lookup(chunk, pa.scalar(name), "last")


def _decode_texts(
    texts: pa.Array, parse: Callable[[str | None], Any], kind: pa.DataType, plain: str | None
) -> pa.Array:
    encoded = texts.dictionary_encode()
    distinct = None if plain is None else _cast(encoded.dictionary, kind, plain)
    if distinct is None:
        distinct = pa.array([parse(text) for text in encoded.dictionary.to_pylist()], kind)
    return distinct.take(encoded.indices)


def _cast(texts: pa.Array, kind: pa.DataType, plain: str) -> pa.Array | None:
    """The values of texts, with null for empty ones; None if a text is not plain, or is no value of the type."""
    texts = pc.if_else(pc.equal(texts, ""), None, texts)
    if not pc.all(pc.match_substring_regex(texts, plain), min_count=0).as_py():
        return None
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        return None
