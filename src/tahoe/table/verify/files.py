"""Checks that the files of a version exist, and are what the log says.

Protocol: "Add File and Remove File", "Per-file Statistics", "Deletion Vectors", "Partition Value Serialization". The
table's folder is listed once and merged with the live files in the same order, so that memory does not grow with the
folder. Then every footer and every vector is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tahoe.errors import (
    DeletionVectorError,
    DeltaError,
    InvalidActionError,
    InvalidPartitionValueError,
    InvalidPathError,
    InvalidPropertyError,
    PathOutsideTableError,
    UnsupportedOperationError,
    UnsupportedStorageError,
)
from tahoe.protocol.configuration.column_mapping import physical_schema, stored_name
from tahoe.protocol.configuration.features import supports
from tahoe.protocol.configuration.row_tracking import DOMAIN, FEATURE, enabled_row_tracking, high_water_mark
from tahoe.protocol.log.actions import DeletionVectorDescriptor, decode_deletion_vector
from tahoe.protocol.log.deletion_vector import vector_location
from tahoe.protocol.log.file_paths import resolve_path
from tahoe.protocol.statistics.skipping import has_collation
from tahoe.protocol.statistics.stats import Statistics, claimed_statistics
from tahoe.protocol.types.schema import VARIANT
from tahoe.storage.env import FileInfo, byte_order, is_temporary
from tahoe.storage.threads import REQUESTS, in_threads
from tahoe.table.arrow.canonical import canonical_schema
from tahoe.table.arrow.chunks import one_array, sorted_table
from tahoe.table.arrow.file_columns import FileColumns
from tahoe.table.arrow.parquet import open_parquet
from tahoe.table.layout.file_statistics import has_statistics, measure_footer, measure_rows
from tahoe.table.log.deletion_vectors import load_deletion_vector
from tahoe.table.log.file_keys import canonical_paths
from tahoe.table.reading.rows import DataFile, ShreddedVariantError, conform, matcher
from tahoe.table.reading.scan import resolve_urls, typed_partition_values
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.verify.bloom_filters import broken_filters
from tahoe.table.verify.findings import Finding, Kind, finding, finding_of_error
from tahoe.table.verify.statistics import (
    comparable_columns,
    footer_contradictions,
    impossible_statistics,
    row_contradictions,
    variant_contradictions,
)
from tahoe.table.writing.footers import IndexedColumn, columns_in_files, footer_statistics

# A younger temporary file may belong to a writer that is still running.
TEMPORARY_AGE_MS = 3_600_000

# Files that are examined or wait for the caller, per thread.
_AHEAD = 4

# Each thread holds rows of a file.
_THREADS_FOR_ROWS = 4

_BATCH_ROWS = 1000

Item = TypeVar("Item")
Result = TypeVar("Result")


class Depth(IntEnum):
    """How much of the files is read; each depth includes those before it.

    PRESENCE: whether they exist, and their sizes. CONTENTS: every footer and every deletion vector. ROWS: the rows of
    every file that has statistics or Bloom filters.
    """

    PRESENCE = 1
    CONTENTS = 2
    ROWS = 3


def check_files(snapshot: Snapshot, depth: Depth = Depth.CONTENTS) -> Iterator[Finding]:
    """Check the files of a snapshot, and find temporary files that writers left behind."""
    yield from _check_partition_values(snapshot)
    yield from _check_duplicates(snapshot)
    with suppress(InvalidActionError, InvalidPropertyError):  # the check of the commits reports it
        yield from _check_row_ids(snapshot)
    if depth >= Depth.CONTENTS:
        yield from _check_counts(snapshot)
    threads = REQUESTS if depth < Depth.ROWS else _THREADS_FOR_ROWS
    for findings in _in_order(_EXAMINERS[depth](snapshot), _found_files(snapshot), threads):
        yield from findings


@dataclass(frozen=True, slots=True)
class _File:
    """A live file with its location according to the log, and what the storage has there; None if nothing."""

    path: str
    url: str
    size_bytes: int
    stats: str | None
    vector: DeletionVectorDescriptor | None
    info: FileInfo | None


def _in_order(
    work: Callable[[_File], list[Finding]], items: Iterable[_File | Finding], threads: int
) -> Iterator[list[Finding]]:
    """The results of `work` in the order of the items, with a few items in progress at a time. A finding is its own
    result.
    """
    return in_threads(
        lambda item: [item] if isinstance(item, Finding) else work(item), items, threads, _AHEAD * threads
    )


# --- checks of the log alone


def _check_partition_values(snapshot: Snapshot) -> Iterator[Finding]:
    """Partition columns that the schema lacks or spells otherwise, and values that are missing or not of their column's
    type.
    """
    values = snapshot.live.column("partition_values")
    for name in snapshot.partition_columns:
        field = snapshot.schema.find(name)
        if field is None or field.name != name:
            detail = f"the table is partitioned by {name}, but its schema has no such column"
            yield finding(Kind.WRONG_PARTITION_VALUE, file=None, version=snapshot.version, detail=detail)
            continue
        try:
            typed_partition_values(
                values, stored_name(field, snapshot.column_mapping_mode), field.type, snapshot.log.zone
            )
        except InvalidPartitionValueError as error:
            detail = f"{error.parameters['value']!r} is not a valid value of {name}, whose type is {field.type}"
            yield finding(Kind.WRONG_PARTITION_VALUE, file=None, version=snapshot.version, detail=detail)
        yield from _without_value(snapshot, name, stored_name(field, snapshot.column_mapping_mode))


def _without_value(snapshot: Snapshot, name: str, stored: str) -> Iterator[Finding]:
    """Protocol, "Consistency Between Table Metadata and Data Files": every file has a value, which may be null."""
    values = snapshot.live.column("partition_values")
    is_null = pa.chunked_array(
        [pc.is_null(pc.map_lookup(chunk, pa.scalar(stored), "last")) for chunk in values.chunks], pa.bool_()
    )
    candidates = pa.table({"path": snapshot.live.column("path"), "values": values}).filter(is_null)
    paths = [row["path"] for row in _rows(candidates) if stored not in dict(row["values"] or ())]
    if paths:
        more = "" if len(paths) == 1 else f", and so have {len(paths) - 1} other files"
        detail = f"it has no value for the partition column {name}{more}; such rows are read with NULL"
        yield finding(Kind.WRONG_PARTITION_VALUE, file=paths[0], version=snapshot.version, detail=detail)


def _check_counts(snapshot: Snapshot) -> Iterator[Finding]:
    """Protocol, "Writer Requirement for Deletion Vectors": the number of rows of a file with a vector is known."""
    if not snapshot.has_deletion_vectors:
        return
    has_vector = pc.is_valid(pc.struct_field(snapshot.live.column("deletion_vector"), "storageType"))
    uncounted = pc.and_(has_vector, pc.is_null(snapshot.live.num_records))
    for path in snapshot.live.column("path").filter(uncounted).to_pylist():
        detail = "it has a deletion vector, but its statistics do not tell its number of rows (numRecords)"
        yield finding(Kind.WRONG_STATISTICS, file=path, version=snapshot.version, detail=detail)


def _check_duplicates(snapshot: Snapshot) -> Iterator[Finding]:
    """Protocol, "Action Reconciliation": a path is live at most once, whatever vectors it has."""
    counts = pc.value_counts(canonical_paths(snapshot.live.column("path"), snapshot.log))
    for row in counts.filter(pc.greater(counts.field("counts"), 1)).to_pylist():
        detail = f"it is in the table {row['counts']} times, with different deletion vectors"
        yield finding(Kind.DUPLICATE_FILE, file=row["values"], version=snapshot.version, detail=detail)


def _check_row_ids(snapshot: Snapshot) -> Iterator[Finding]:
    """Protocol, "Row Tracking": if it is enabled, every file has row ids. They do not overlap and do not exceed the
    high-water mark.
    """
    if not supports(snapshot.protocol, FEATURE):
        return
    first, rows = snapshot.live.column("base_row_id"), snapshot.live.num_records
    is_enabled = enabled_row_tracking(snapshot.protocol, snapshot.properties) is not None
    for path in snapshot.live.column("path").filter(pc.is_null(first)).to_pylist() if is_enabled else ():
        yield finding(
            Kind.WRONG_ROW_IDS,
            file=path,
            version=snapshot.version,
            detail="it has no base row id, but the table has row tracking",
        )
    columns = {"path": snapshot.live.column("path"), "first": first, "after": pc.add(first, rows)}
    ranges = sorted_table(pa.table(columns).drop_null(), ["first"])
    if not ranges.num_rows:
        return
    given = high_water_mark(snapshot.domains.get(DOMAIN)) + 1
    ends = one_array(ranges.column("after"))
    overlaps = pc.fill_null(
        pc.greater(ends, pa.concat_arrays([one_array(ranges.column("first"))[1:], pa.array([given])])), False
    )
    for row in ranges.filter(overlaps).to_pylist():
        detail = (
            f"its row ids, which end before {row['after']}, overlap those of another file or exceed the table's "
            f"high-water mark"
        )
        yield finding(Kind.WRONG_ROW_IDS, file=row["path"], version=snapshot.version, detail=detail)


# --- checks of the storage


def _found_files(snapshot: Snapshot) -> Iterator[_File | Finding]:
    """Every live file with what the storage has of it, in the order of their urls, and findings in between."""
    table, illegal = _locate_files(snapshot)
    yield from illegal
    inside = pc.starts_with(table.column("url"), snapshot.url + "/")
    yield from _beside_the_listing(snapshot, _rows(table.filter(inside)))
    for row in _rows(table.filter(pc.invert(inside))):
        try:
            store, key = snapshot.log.locate(row["url"])
        except UnsupportedStorageError as error:
            yield finding_of_error(Kind.ILLEGAL_PATH, row["path"], snapshot.version, error)
        else:
            yield _file(row, store.head(key))


def _locate_files(snapshot: Snapshot) -> tuple[pa.Table, list[Finding]]:
    """The live files with their urls, sorted by url, and findings for illegal paths."""
    paths, illegal = snapshot.live.column("path"), []
    try:
        urls = resolve_urls(paths, snapshot.live.ambiguous, snapshot.url)
    except (PathOutsideTableError, InvalidPathError):
        found = [_url_or_finding(snapshot, path) for path in paths.to_pylist()]
        illegal = [url for url in found if isinstance(url, Finding)]
        urls = pa.chunked_array([[None if isinstance(url, Finding) else url for url in found]], pa.string())
    names = ("path", "size_bytes", "stats", "deletion_vector")
    table = pa.table({"url": urls, **{name: snapshot.live.column(name) for name in names}})
    return sorted_table(table.filter(pc.is_valid(urls)), ["url"]), illegal


def _url_or_finding(snapshot: Snapshot, path: str) -> str | Finding:
    try:
        return resolve_path(path, snapshot.url)
    except (PathOutsideTableError, InvalidPathError) as error:
        return finding_of_error(Kind.ILLEGAL_PATH, path, snapshot.version, error)


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(_BATCH_ROWS):
        yield from batch.to_pylist()


def _file(row: dict[str, Any], info: FileInfo | None) -> _File:
    vector = decode_deletion_vector(row["deletion_vector"])
    return _File(
        path=row["path"], url=row["url"], size_bytes=row["size_bytes"], stats=row["stats"], vector=vector, info=info
    )


def _beside_the_listing(snapshot: Snapshot, rows: Iterator[dict[str, Any]]) -> Iterator[_File | Finding]:
    """Merge the live files with the listing. Both are in byte order, so each is read once."""
    store, home = snapshot.log.env.store, snapshot.url + "/"
    listing = iter(store.walk())
    here = next(listing, None)
    for row in rows:
        key = row["url"].removeprefix(home)
        while here is not None and byte_order(here.key) < byte_order(key):
            yield from _check_leftover(snapshot, here)
            here = next(listing, None)
        # A listing may not show a file that exists behind a link to a folder.
        yield _file(row, here if here is not None and here.key == key else store.head(key))
    while here is not None:
        yield from _check_leftover(snapshot, here)
        here = next(listing, None)


def _check_leftover(snapshot: Snapshot, info: FileInfo) -> Iterator[Finding]:
    age_ms = snapshot.log.env.clock_ms() - info.modified_ms
    if age_ms > TEMPORARY_AGE_MS and (is_temporary(info.key) or "_temporary" in info.key.split("/")):
        detail = f"a temporary file of {info.size_bytes} bytes, written {age_ms // 3_600_000} hours ago"
        yield finding(Kind.ORPHAN_TEMPORARY_FILE, file=info.key, version=None, detail=detail)


# --- checks of one file


class _Presence:
    """Checks that a file and its deletion vector's file exist, and the file's size. Thread-safe."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._vector_files: dict[str, bool] = {}

    def __call__(self, file: _File) -> list[Finding]:
        found = self._size(file)
        try:
            if file.info is not None and (url := self._missing_vector(file)) is not None:
                found.append(self._finding(Kind.BAD_DELETION_VECTOR, file, f"its file {url} is missing"))
        except UnsupportedStorageError as error:
            found.append(finding_of_error(Kind.BAD_DELETION_VECTOR, file.path, self._snapshot.version, error))
        return found

    def _missing_vector(self, file: _File) -> str | None:
        """The url of the deletion vector's file if it does not exist. Many vectors share a file, which is looked at
        once.
        """
        location = None if file.vector is None else vector_location(file.vector, self._snapshot.url)
        if location is None:
            return None
        url = location[0]
        if url not in self._vector_files:
            store, key = self._snapshot.log.locate(url)
            self._vector_files[url] = store.head(key) is not None
        return None if self._vector_files[url] else url

    def _size(self, file: _File) -> list[Finding]:
        if file.info is None:
            return [self._finding(Kind.MISSING_DATA_FILE, file, f"{file.url} does not exist")]
        if file.info.size_bytes == file.size_bytes:
            return []
        detail = f"the log says {file.size_bytes} bytes, but the file has {file.info.size_bytes}"
        return [self._finding(Kind.WRONG_SIZE, file, detail)]

    def _finding(self, kind: Kind, file: _File, detail: str) -> Finding:
        return finding(kind, file=file.path, version=self._snapshot.version, detail=detail)


class _Examination(_Presence):
    """Compares a file with what the log says of it. Thread-safe."""

    _reads_rows = False

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._physical = physical_schema(snapshot.schema, snapshot.column_mapping_mode)

    def __call__(self, file: _File) -> list[Finding]:
        """The findings of one file. Each step needs the one before: rows are compared only if footer, columns and
        deletion vector can be read.
        """
        found = self._size(file)
        if file.info is None:
            return found
        try:
            store, key = self._snapshot.log.locate(file.url)
            with open_parquet(store, key) as parquet:
                footer = parquet.metadata
        except (DeltaError, OSError, pa.ArrowException) as error:
            return [*found, replace(self._finding(Kind.UNREADABLE_DATA_FILE, file, str(error)), error=error)]
        if wrong := self._wrong_columns(footer):
            return [*found, self._finding(Kind.UNREADABLE_DATA_FILE, file, wrong)]
        if file.vector is not None:
            try:
                load_deletion_vector(self._snapshot.log, file.vector, file.path, rows=footer.num_rows)
            except (
                DeletionVectorError,
                UnsupportedStorageError,
            ) as error:  # without its live rows, its statistics cannot be checked
                return [*found, finding_of_error(Kind.BAD_DELETION_VECTOR, file.path, self._snapshot.version, error)]
        filters = broken_filters(store, key, footer, file.info.size_bytes, reads_rows=self._reads_rows)
        return [
            *found,
            *self._statistics(file, footer),
            *(self._finding(Kind.BROKEN_BLOOM_FILTER, file, detail) for detail in filters),
        ]

    def _wrong_columns(self, footer: pq.FileMetaData) -> str | None:
        """The columns that have another type than the table's, as words; None if there are none. Shredded variants,
        which only Spark reads, are right where the protocol supports them.
        """
        columns, match = (
            FileColumns(canonical_schema(footer.schema.to_arrow_schema())),
            matcher(self._snapshot.column_mapping_mode),
        )
        for column in self._snapshot.schema:
            try:
                if (found := match(columns, column)) is not None:
                    conform(pa.array([], found.type), column.type, match)
            except pa.ArrowNotImplementedError:
                continue
            except ShreddedVariantError:
                if not supports(self._snapshot.protocol, "variantShredding"):
                    return f"column {column.name} has shredded variants, but the protocol has no variantShredding"
            except pa.ArrowException as error:
                kind = "" if found is None else f" is {found.type} in the file but {column.type} in the table"
                return f"column {column.name}{kind} ({error})"
        return None

    def _statistics(self, file: _File, footer: pq.FileMetaData) -> Iterator[Finding]:
        """What is wrong with the statistics of a file: they cannot be read, are impossible in themselves, or contradict
        the footer. Each is looked at only if the one before is right.
        """
        if not file.stats:
            return
        claimed = claimed_statistics(file.stats, self._physical)
        if claimed is None:
            yield self._finding(Kind.WRONG_STATISTICS, file, "its statistics are not a JSON object")
        elif nonsense := list(impossible_statistics(file.stats, claimed, self._physical)):
            yield from (self._finding(Kind.WRONG_STATISTICS, file, detail) for detail in nonsense)
        elif claimed.num_records is not None and claimed.num_records != footer.num_rows:
            detail = f"the log says {claimed.num_records} rows, but the file has {footer.num_rows}"
            yield self._finding(Kind.WRONG_STATISTICS, file, detail)
        else:
            yield from self._contradictions(file, footer, claimed)

    def _contradictions(self, file: _File, footer: pq.FileMetaData, claimed: Statistics) -> Iterator[Finding]:
        columns = comparable_columns(footer, self._physical)
        found = list(footer_contradictions(claimed, footer_statistics(footer, columns), columns))
        if found and file.vector is not None:  # bounds that were tight once may be narrower than the footer's
            found = self._against_rows(
                file, footer, claimed, [c for c in self._stored_columns() if c.physical in columns]
            )
        yield from (self._finding(Kind.WRONG_STATISTICS, file, detail) for detail in found)
        yield from self._wrong_variants(file, footer, claimed)

    def _wrong_variants(self, file: _File, footer: pq.FileMetaData, claimed: Statistics) -> Iterator[Finding]:
        columns = {path: VARIANT for path, column in self._physical.leaves() if column.type == VARIANT}
        if columns and file.vector is None:  # bounds may leave out the rows that a vector deletes
            found = footer_statistics(footer, columns, shredded=True)
            for detail in variant_contradictions(claimed, found):
                yield self._finding(Kind.WRONG_STATISTICS, file, detail)

    def _stored_columns(self) -> list[IndexedColumn]:
        return columns_in_files(self._snapshot.metadata, self._snapshot.column_mapping_mode)

    def _against_rows(
        self, file: _File, footer: pq.FileMetaData, claimed: Statistics, columns: Sequence[IndexedColumn]
    ) -> list[str]:
        """Contradictions to the live rows of a file."""
        data_file = DataFile(file.url, file.path, {}, file.vector, None, None)
        rows = measure_rows(measure_footer(self._snapshot, data_file, file.size_bytes, columns))
        live_rows = footer.num_rows - (0 if file.vector is None else file.vector.cardinality)
        fields = {column.physical: column.field for column in columns}
        return list(row_contradictions(claimed, rows, fields, live_rows=live_rows, has_vector=file.vector is not None))


class _ExaminationOfRows(_Examination):
    """Compares all statistics of a file with its rows, unless its footer confirms them, and its Bloom filters.
    Thread-safe.
    """

    _reads_rows = True

    def _contradictions(self, file: _File, footer: pq.FileMetaData, claimed: Statistics) -> Iterator[Finding]:
        columns = [c for c in self._stored_columns() if has_statistics(c) and not has_collation(c.field)]
        try:
            found = self._against_rows(file, footer, claimed, columns)
        except UnsupportedOperationError as error:
            yield self._finding(Kind.UNCHECKED_STATISTICS, file, str(error.parameters["detail"]))
            yield from super()._contradictions(file, footer, claimed)
        else:
            yield from (self._finding(Kind.WRONG_STATISTICS, file, detail) for detail in found)


_EXAMINERS: Mapping[Depth, type[_Presence]] = {
    Depth.PRESENCE: _Presence,
    Depth.CONTENTS: _Examination,
    Depth.ROWS: _ExaminationOfRows,
}
