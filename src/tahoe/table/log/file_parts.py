"""Parts of the live files of a snapshot, as columns: files that commits added, and files of a checkpoint.

Protocol: "Add File and Remove File", "Checkpoint Schema". A checkpoint's columns are read when they are needed. How
parts are reconciled is known in `tahoe.table.log.live_files`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe._cached import cached_property
from tahoe.errors import CorruptCheckpointError
from tahoe.protocol.types.schema import VARIANT, Struct
from tahoe.storage.env import FileReplacedError
from tahoe.table.arrow.chunks import taken, taken_table, text_bytes
from tahoe.table.arrow.parquet import UNREADABLE, NestedColumns
from tahoe.table.arrow.row_group_bounds import null_counts
from tahoe.table.arrow.statistics import (
    STATS_PARSED,
    StatisticsCache,
    StatisticsRequest,
    no_statistics,
    parse_statistics,
    read_parsed_counts,
    read_parsed_statistics,
    record_counts,
    texts_of_parsed,
)
from tahoe.table.log.superseded import Superseded

Answer = TypeVar("Answer")

# The errors of a part whose file was deleted or replaced since the version was loaded.
GONE = (FileNotFoundError, FileReplacedError)

DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
TEXT_MAP = pa.map_(pa.string(), pa.string())


class AddColumn(NamedTuple):
    """The type of a column, and the field of `add` that it comes from."""

    type: pa.DataType
    field: str


# By the names of the attributes of `Add`.
COLUMNS: Mapping[str, AddColumn] = {
    "path": AddColumn(pa.string(), "path"),
    "size_bytes": AddColumn(pa.int64(), "size"),
    "modification_time_ms": AddColumn(pa.int64(), "modificationTime"),
    "partition_values": AddColumn(TEXT_MAP, "partitionValues"),
    "deletion_vector": AddColumn(DELETION_VECTOR, "deletionVector"),
    "stats": AddColumn(pa.string(), "stats"),
    "tags": AddColumn(TEXT_MAP, "tags"),
    "base_row_id": AddColumn(pa.int64(), "baseRowId"),
    "default_row_commit_version": AddColumn(pa.int64(), "defaultRowCommitVersion"),
    "clustering_provider": AddColumn(pa.string(), "clusteringProvider"),
}
SCHEMA = pa.schema([(name, column.type) for name, column in COLUMNS.items()])

# The number of files in a batch, if all columns of the files are read.
BATCH_ROWS = 25_000

# The same, if only the beginnings of statistics are looked at: the memory of a batch is used again by the next one.
COUNTED_ROWS = 10_000

# A path with an escape, or an absolute path, can be spelled in several ways.
AMBIGUOUS = r"^/|^[A-Za-z][A-Za-z0-9+.-]*:|%|(^|/)\.\.?(/|$)|//"


class Part(ABC):
    """Some of the live files."""

    @property
    @abstractmethod
    def num_rows(self) -> int: ...

    @abstractmethod
    def column(self, name: str) -> pa.ChunkedArray:
        """One column of `COLUMNS`."""

    @abstractmethod
    def statistics(self, request: StatisticsRequest) -> pa.Table:
        """Typed statistics, one row per file; null if a file has none."""

    @abstractmethod
    def num_records(self) -> pa.ChunkedArray:
        """The number of rows in each file, deleted ones included, by its statistics; null if they do not tell."""

    @abstractmethod
    def batches(self) -> Iterator[pa.Table]:
        """All of `COLUMNS`, and `stats_parsed` if a checkpoint has it, in batches; nothing is cached."""

    @abstractmethod
    def take(self, rows: pa.Array) -> Part:
        """The part reduced to some of its rows, by position."""

    def has_read(self, name: str) -> bool:
        """Whether a column is in memory."""
        return name in COLUMNS

    def pieces(self, rows: npt.NDArray[np.int64]) -> list[Part]:
        """Some of its files as parts, by sorted positions."""
        return [self.take(pa.array(rows, pa.int64()))]

    def without(self, superseded: Superseded) -> Part:
        """The part without the files that newer actions name."""
        gone = self.positions_of(superseded)
        return self.take(pa.array(np.delete(np.arange(self.num_rows), gone))) if len(gone) else self

    def positions_of(self, superseded: Superseded) -> npt.NDArray[np.int64]:
        """The positions of the files that newer actions name, ascending."""
        return superseded.positions(
            self.column("path"), self.ambiguous, read_vectors=lambda: self.column("deletion_vector")
        )

    @property
    def is_empty(self) -> bool:
        """Whether the part surely has no files."""
        return not self.num_rows

    @property
    def size_bytes(self) -> int:
        return int(pc.sum(self.column("size_bytes")).as_py() or 0)

    def vectors(self) -> pa.ChunkedArray:
        """The descriptors of deletion vectors, of those files that have one."""
        return self.column("deletion_vector").drop_null()

    def loads(self) -> Iterator[Callable[[], Part]]:
        """Its files as parts of bounded size, of which nothing is kept, each loaded by a call."""
        yield lambda: self

    def lacks_texts(self) -> bool:
        """Whether a file has its statistics only in typed columns of a checkpoint; perhaps a file that newer actions
        name.
        """
        return bool(self.column("stats").null_count)

    def texts(self, schema: Struct) -> pa.ChunkedArray:  # noqa: ARG002  only checkpoints have others
        """The statistics as JSON texts, also those that a checkpoint has only in typed columns.

        Args:
            schema: with physical names.
        """
        return self.column("stats")

    def check(self) -> None:
        """Read all columns, of which nothing is kept: a checkpoint hands a sidecar on to the next one without reading
        it.

        Raises:
            CorruptCheckpointError: it is broken.
        """
        for _ in self.batches():
            pass

    def first_path(self) -> str | None:
        """The path of one of the files."""
        paths = self.column("path")
        return str(paths[0]) if len(paths) else None

    @cached_property
    def ambiguous(self) -> pa.ChunkedArray:
        """Which paths can be spelled in several ways. Cached, because each replay asks for it."""
        return are_ambiguous(self.column("path"))


class MemoryPart(Part):
    """Files that commits added."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._statistics = StatisticsCache()

    @property
    def num_rows(self) -> int:
        rows: int = self.table.num_rows
        return rows

    def column(self, name: str) -> pa.ChunkedArray:
        return self.table.column(name)

    def statistics(self, request: StatisticsRequest) -> pa.Table:
        """Recent answers are cached: most queries of a table use the same few columns."""
        return self._statistics.answer(request, lambda missing: parse_statistics(self.table.column("stats"), missing))

    def num_records(self) -> pa.ChunkedArray:
        return record_counts(self.table.column("stats"))

    def lacks_texts(self) -> bool:
        return False

    def batches(self) -> Iterator[pa.Table]:
        for start in range(0, self.num_rows, BATCH_ROWS):
            yield self.table.slice(start, BATCH_ROWS)

    def take(self, rows: pa.Array) -> MemoryPart:
        return MemoryPart(taken_table(self.table, rows))


class CheckpointPart(Part):
    """Files in a Parquet checkpoint or sidecar. Each column is read once, at first use.

    Args:
        rows: positions in the file; None for all rows with an add.
        by_footer: whether to find these rows by the footer, if it tells, instead of by reading all paths.
    """

    def __init__(self, columns: NestedColumns, rows: pa.Array | None = None, *, by_footer: bool = False) -> None:
        self._columns, self._by_footer = columns, by_footer
        self._rows = rows  # None until they are needed
        self._read: dict[str, pa.ChunkedArray] = {}
        self._statistics = StatisticsCache()
        self._num_records: pa.ChunkedArray | None = None

    @property
    def num_rows(self) -> int:
        return len(self._known_rows())

    def _find_rows_by_footer(self) -> None:
        """Find the rows with an add, if the footer tells and may be asked."""
        if self._by_footer:
            self._rows = _rows_by_footer(self._columns)

    def column(self, name: str) -> pa.ChunkedArray:
        if name not in self._read:
            self.load([name])
        return self._read[name]

    @property
    def columns(self) -> NestedColumns:
        """The Parquet file."""
        return self._columns

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """The rows of the Parquet file that have these files."""
        return np.asarray(self._known_rows()).astype(np.int64)

    def _known_rows(self) -> pa.Array:
        """The positions of the files in the Parquet file."""
        if self._rows is None:
            self._find_rows_by_footer()
        if self._rows is None:
            self.load(["path"])
        assert self._rows is not None
        return self._rows

    def has_read(self, name: str) -> bool:
        return name in self._read

    def check_types(self) -> None:
        """Check by the footer alone that every column can be cast to its type.

        Raises:
            the errors of Arrow: the file is missing or broken, or a column has another type.
        """
        for column in COLUMNS.values():
            stored_type = self._columns.type_of(("add", column.field))
            if stored_type is not None:
                cast_column(pa.chunked_array([], stored_type), column.type)

    def load(self, names: Sequence[str]) -> None:
        """Read columns in parallel. The first call also finds the rows with an add.

        Raises:
            FileNotFoundError, FileReplacedError: the file was deleted or replaced.
            CorruptCheckpointError: it is broken.
        """
        try:
            self._read_columns(names)
        except GONE:
            raise
        except UNREADABLE as error:
            raise CorruptCheckpointError(table=self._columns.url, file=self._columns.key, detail=str(error)) from error

    def _read_columns(self, names: Sequence[str]) -> None:
        """Read columns of this part. If its rows are unknown and the footer does not tell them, the paths are read too,
        and tell them.
        """
        if self._rows is None:
            self._find_rows_by_footer()
        all_rows = self._read_all_rows(list(dict.fromkeys(names if self._rows is not None else [*names, "path"])))
        if self._rows is None:
            has_path = pc.is_valid(all_rows["path"])
            if "size_bytes" in all_rows and pc.any(pc.and_not(pc.is_valid(all_rows["size_bytes"]), has_path)).as_py():
                raise ValueError("a file has a size but no path")
            self._rows = pc.indices_nonzero(has_path)
        columns = {
            name: self._rows_of_part(cast_column(column, COLUMNS[name].type)) for name, column in all_rows.items()
        }
        for column in columns.values():
            column.validate(full=True)  # Arrow does not look whether texts in Parquet files are UTF-8
        if "path" in columns and columns["path"].null_count:
            raise ValueError("the footer says that a row group has only files, but a row has no path")
        if (detail := _illegal_values(columns)) is not None:
            raise ValueError(detail)
        self._read.update(columns)  # several threads use a snapshot, so they must see only complete results

    def _read_all_rows(self, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
        """Columns with all rows of the Parquet file, in its types; nulls for those that it does not have."""
        columns = {}
        fields = self._columns.read([("add", COLUMNS[name].field) for name in names])
        for name, column in zip(names, fields, strict=True):
            columns[name] = (
                pa.chunked_array([pa.nulls(self._columns.num_rows, COLUMNS[name].type)]) if column is None else column
            )
        return columns

    def _rows_of_part(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Select the rows of this part from a column with all rows of the file."""
        return _selected(column, np.asarray(self._known_rows()))

    def vectors(self) -> pa.ChunkedArray:
        """The footer tells if no file has a vector."""
        nulls = null_counts(self._columns, f"add.{COLUMNS['deletion_vector'].field}.storageType")
        if not self.has_read("deletion_vector") and np.all(nulls == self._columns.group_rows):
            return pa.chunked_array([], DELETION_VECTOR)
        return super().vectors()

    def statistics(self, request: StatisticsRequest) -> pa.Table:
        """Recent answers are cached: most queries of a table use the same few columns."""
        return self._statistics.answer(request, self._read_statistics)

    def num_records(self) -> pa.ChunkedArray:
        if self._num_records is None:
            self._known_rows()  # first: if they are unreadable, so is the part, not only its statistics
            self._num_records = self._unless_unreadable(
                self._read_counts, read_instead=lambda: pa.chunked_array([pa.nulls(self.num_rows, pa.int64())])
            )
        return self._num_records

    def _read_counts(self) -> pa.ChunkedArray:
        parsed = read_parsed_counts(self._columns)
        if parsed is not None:
            return self._rows_of_part(parsed)
        return joined_columns(self._map_texts(record_counts, COUNTED_ROWS), pa.int64())

    def _read_statistics(self, request: StatisticsRequest) -> pa.Table:
        self._known_rows()  # first: if they are unreadable, so is the part, not only its statistics
        return self._unless_unreadable(
            lambda: self._typed_statistics(request), read_instead=lambda: no_statistics(self.num_rows, request)
        )

    def _unless_unreadable(self, read: Callable[[], Answer], *, read_instead: Callable[[], Answer]) -> Answer:
        """Read statistics. If they cannot be read, no file has any: this costs time but never correctness."""
        try:
            return read()
        except GONE:
            raise
        except UNREADABLE:
            return read_instead()

    def _typed_statistics(self, request: StatisticsRequest) -> pa.Table:
        parsed = read_parsed_statistics(self._columns, request)
        if parsed is None:
            return self._statistics_of_texts(request)
        typed = pa.table([self._rows_of_part(column) for column in parsed.columns], schema=parsed.schema)
        variants = {path: kind for path, kind in request.columns.items() if kind == VARIANT}
        if not variants or not self._columns.has(("add", "stats")):
            return typed
        # not every writer has the bounds of variants as columns
        texts = self._statistics_of_texts(StatisticsRequest(variants))
        known = {name: pc.coalesce(typed[name], texts[name]) for name in texts.column_names}
        columns = [known.get(name, typed[name]) for name in typed.column_names]
        return pa.table(columns, schema=typed.schema)

    def _statistics_of_texts(self, request: StatisticsRequest) -> pa.Table:
        return pa.concat_tables(
            [no_statistics(0, request), *self._map_texts(lambda texts: parse_statistics(texts, request))]
        )

    def texts(self, schema: Struct) -> pa.ChunkedArray:
        texts = self.column("stats")
        if not texts.null_count or not self._columns.has(("add", STATS_PARSED)):
            return texts
        return self._unless_unreadable(
            lambda: pc.coalesce(texts, joined_columns(self._typed_texts(schema), pa.string())),
            read_instead=lambda: texts,
        )

    def _typed_texts(self, schema: Struct) -> Iterator[pa.ChunkedArray]:
        """The typed statistics as texts, batch by batch: as Python has them they take much memory."""
        rows, start = np.asarray(self._known_rows()), 0
        for batch in self._columns.batches("add", [STATS_PARSED], BATCH_ROWS):
            in_batch = _within(rows, start, start + len(batch))
            start += len(batch)
            yield texts_of_parsed(_selected(pa.chunked_array([pc.struct_field(batch, STATS_PARSED)]), in_batch), schema)

    def _map_texts(self, parse: Callable[[pa.ChunkedArray], Answer], batch_rows: int = BATCH_ROWS) -> list[Answer]:
        """Parse the JSON statistics batch by batch without keeping the texts, which are the bulk of a checkpoint."""
        rows = np.asarray(self._known_rows())
        if not self._columns.has(("add", "stats")):
            return [parse(pa.chunked_array([pa.nulls(len(rows), pa.string())]))]

        def parse_batch(start: int, texts: pa.ChunkedArray) -> Answer:
            in_batch = _within(rows, start, start + len(texts))
            return parse(_selected(cast_column(texts, pa.string()), in_batch))

        return self._columns.map_batches(("add", "stats"), parse_batch, batch_rows)

    def head(self, rows: int, fields: Sequence[str]) -> pa.Table:
        """The first files, as `batches` has them, with some fields of `add`, by dotted path; the other columns are
        null.
        """
        return next(self._batches(rows, fields), SCHEMA.empty_table())

    def batches(self) -> Iterator[pa.Table]:
        yield from self._batches(BATCH_ROWS, [*(column.field for column in COLUMNS.values()), STATS_PARSED])

    def _batches(self, batch_rows: int, fields: Sequence[str]) -> Iterator[pa.Table]:
        """`batches` of at most `batch_rows` rows of the Parquet file, with some fields of `add`. While the rows of the
        part are unknown, they are those with a path, so that nothing is read ahead to find them.
        """
        start = 0
        try:
            for batch in self._columns.batches("add", fields, batch_rows):
                if self._rows is None:
                    in_batch = np.asarray(pc.indices_nonzero(pc.struct_field(batch, "path").is_valid()))
                else:
                    in_batch = _within(np.asarray(self._rows), start, start + len(batch))
                start += len(batch)
                yield _batch_table(batch, in_batch)
        except GONE:
            raise
        except UNREADABLE as error:
            raise CorruptCheckpointError(table=self._columns.url, file=self._columns.key, detail=str(error)) from error

    def take(self, rows: pa.Array) -> CheckpointPart:
        smaller = CheckpointPart(self._columns, self._known_rows().take(rows))
        smaller._read = {
            name: taken(column, rows) for name, column in dict(self._read).items()
        }  # other threads may add columns
        smaller._statistics = self._statistics.take(rows)
        smaller._num_records = None if self._num_records is None else taken(self._num_records, rows)
        return smaller


def _rows_by_footer(columns: NestedColumns) -> pa.Array | None:
    """The rows with an add, if the footer tells that each row group has only such rows or none of them; else None."""
    nulls = null_counts(columns, "add.path")
    if np.any((nulls != 0) & (nulls != columns.group_rows)):
        return None
    return pa.array(np.flatnonzero(np.repeat(nulls == 0, columns.group_rows)))


def _illegal_values(columns: Mapping[str, pa.ChunkedArray]) -> str | None:
    """Describe illegal values in the numbers of a checkpoint's files, as far as the columns are there; None if there
    are none.
    """
    if "size_bytes" in columns and not _is_counted(columns["size_bytes"]):
        return "a file has no size, or a negative size"
    vectors = columns["deletion_vector"].drop_null() if "deletion_vector" in columns else ()
    if not len(vectors):
        return None
    fields = {
        name: pc.struct_field(vectors, name) for name in ("pathOrInlineDv", "sizeInBytes", "cardinality", "offset")
    }
    if fields["pathOrInlineDv"].null_count or not all(
        _is_counted(fields[name]) for name in ("sizeInBytes", "cardinality")
    ):
        return "a deletion vector has no path, size or cardinality, or a negative size or cardinality"
    return None if _is_counted(fields["offset"].drop_null()) else "a deletion vector has a negative offset"


def _is_counted(numbers: pa.ChunkedArray) -> bool:
    """Whether no number is null or negative."""
    return not numbers.null_count and (not len(numbers) or pc.min(numbers).as_py() >= 0)


def are_ambiguous(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which paths can be spelled in several ways: those that match `AMBIGUOUS`."""
    return pa.chunked_array([_ambiguous(chunk) for chunk in paths.chunks], pa.bool_())


def _ambiguous(paths: pa.StringArray) -> pa.BooleanArray:
    """Which paths match `AMBIGUOUS`. Mostly none does, which is seen in their bytes in a quarter of the time."""
    starts, data = text_bytes(paths)
    behind_slashes = data[np.flatnonzero(data[:-1] == ord("/")) + 1]
    first = np.concatenate([behind_slashes, data[starts[:-1][np.diff(starts) > 0]]])
    # A path that matches has a `%` or `:`, or a `/` or `.` at its start or behind a slash. Others may have these too.
    if any(np.any(found) for found in (data == ord("%"), data == ord(":"), first == ord("/"), first == ord("."))):
        return pc.match_substring_regex(paths, AMBIGUOUS)
    return pa.array(np.zeros(len(paths), bool))


def _batch_table(adds: pa.StructArray, rows: npt.NDArray[np.integer[Any]]) -> pa.Table:
    """Some rows of the struct `add`, as columns."""
    there = {field.name: pa.chunked_array([values]) for field, values in zip(adds.type, adds.flatten(), strict=True)}
    columns = {}
    for name, (kind, field) in COLUMNS.items():
        columns[name] = (
            _selected(cast_column(there[field], kind), rows) if field in there else pa.nulls(len(rows), kind)
        )
    if STATS_PARSED in there:
        columns[STATS_PARSED] = _selected(there[STATS_PARSED], rows)
    return pa.table(columns)


def _within(rows: npt.NDArray[np.integer[Any]], start: int, end: int) -> npt.NDArray[np.integer[Any]]:
    """The rows of a range, counted from its start."""
    return (
        rows[slice(*np.searchsorted(rows, np.array([start, end], rows.dtype)))] - start
    )  # of another type, all rows would be converted


def _selected(column: pa.ChunkedArray, rows: npt.NDArray[np.integer[Any]]) -> pa.ChunkedArray:
    """Some rows of a column, by sorted positions. Files are mostly contiguous in a checkpoint; then nothing is
    copied.
    """
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return column.slice(int(rows[0]), len(rows))
    return taken(column, rows)


def cast_column(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Cast a field of a checkpoint's action to its type, whatever type its writer chose: Arrow cannot select rows of
    every type.
    """
    if kind == DELETION_VECTOR:
        return _conform_vectors(column)
    if column.type == kind:
        return column
    if pa.types.is_map(kind) and not pa.types.is_map(
        column.type
    ):  # a checkpoint of a table without partitions may have an empty group
        return pa.chunked_array([pa.nulls(len(column), kind)], type=kind)
    return column.cast(kind)


def _conform_vectors(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Add struct fields that some writers leave out. A descriptor without a storage type becomes null."""
    if column.type == DELETION_VECTOR and pc.struct_field(column, "storageType").null_count == column.null_count:
        return column
    chunks = []
    for chunk in column.chunks:
        fields = {field.name: values for field, values in zip(chunk.type, chunk.flatten(), strict=True)}
        columns = [
            fields[f.name].cast(f.type) if f.name in fields else pa.nulls(len(chunk), f.type) for f in DELETION_VECTOR
        ]
        storage_types = columns[0]
        chunks.append(pa.StructArray.from_arrays(columns, fields=list(DELETION_VECTOR), mask=pc.is_null(storage_types)))
    return pa.chunked_array(chunks, type=DELETION_VECTOR)


def joined_columns(columns: Iterable[pa.ChunkedArray], kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], type=kind)
