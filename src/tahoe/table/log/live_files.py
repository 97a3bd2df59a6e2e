"""The live files of a snapshot as columns, so that a million files cost a second and not a minute.

Protocol: "Action Reconciliation". A snapshot's files are a few parts, newest first: the files that commits added, in memory, and the files
of a checkpoint, whose columns are read on demand. Replay goes from the newest commit to the checkpoint; a file that a newer part names is
dropped from older parts. The result must agree with the reference implementation in `tahoe.protocol.replay`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe._cached import cached_property
from tahoe.errors import CorruptCheckpointError
from tahoe.protocol.actions import Action, Add, Remove, decode_deletion_vector
from tahoe.protocol.json_text import is_text
from tahoe.protocol.replay import FileKey, file_key
from tahoe.storage.env import FileReplacedError
from tahoe.table.arrow.chunks import joined_table, reordered, reordered_table, taken, taken_table
from tahoe.table.arrow.parquet import UNREADABLE, NestedColumns
from tahoe.table.arrow.statistics import StatisticsCache, StatisticsRequest, no_statistics, parse_statistics, read_parsed_statistics

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

# Our column, its type, and the field of `add` that it comes from.
COLUMNS: Mapping[str, tuple[pa.DataType, str, str]] = {
    "path": (pa.string(), "path", "path"),
    "size_bytes": (pa.int64(), "size", "size_bytes"),
    "modification_time_ms": (pa.int64(), "modificationTime", "modification_time_ms"),
    "partition_values": (TEXT_MAP, "partitionValues", "partition_values"),
    "deletion_vector": (DELETION_VECTOR, "deletionVector", "deletion_vector"),
    "stats": (pa.string(), "stats", "stats"),
    "tags": (TEXT_MAP, "tags", "tags"),
    "base_row_id": (pa.int64(), "baseRowId", "base_row_id"),
    "default_row_commit_version": (pa.int64(), "defaultRowCommitVersion", "default_row_commit_version"),
    "clustering_provider": (pa.string(), "clusteringProvider", "clustering_provider"),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _, _) in COLUMNS.items()])

# Beyond this number, in-memory parts of commits are joined: each part adds a small cost to every access.
MEMORY_PARTS_MAX = 16

# The number of files in a batch, if all columns of the files are read.
BATCH_ROWS = 25_000

# The field of a checkpoint's `add` with statistics as typed columns.
STATS_PARSED = "stats_parsed"

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
    def batches(self) -> Iterator[pa.Table]:
        """All of `COLUMNS`, and `stats_parsed` if a checkpoint has it, in batches; nothing is cached."""

    @abstractmethod
    def take(self, rows: pa.Array) -> Part:
        """The part reduced to some of its rows, by position."""

    @cached_property
    def ambiguous(self) -> pa.ChunkedArray:
        """Which paths can be spelled in several ways. Cached, because each replay asks for it."""
        return pc.match_substring_regex(self.column("path"), AMBIGUOUS)


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

    def batches(self) -> Iterator[pa.Table]:
        for start in range(0, self.num_rows, BATCH_ROWS):
            yield self.table.slice(start, BATCH_ROWS)

    def take(self, rows: pa.Array) -> MemoryPart:
        return MemoryPart(taken_table(self.table, rows))


class CheckpointPart(Part):
    """Files in a Parquet checkpoint or sidecar. Each column is read once, at first use."""

    def __init__(self, columns: NestedColumns, rows: pa.Array | None = None) -> None:
        self._columns = columns
        self._rows = rows  # positions in the file; None until `load` has found the rows with an add
        self._read: dict[str, pa.ChunkedArray] = {}
        self._statistics = StatisticsCache()

    @property
    def num_rows(self) -> int:
        return len(self.column("path"))

    def column(self, name: str) -> pa.ChunkedArray:
        if name not in self._read:
            self.load([name])
        return self._read[name]

    def check_types(self) -> None:
        """Check by the footer alone that every column can be cast to its type.

        Raises:
            the errors of Arrow: the file is missing or broken, or a column has another type.
        """
        for kind, field, _ in COLUMNS.values():
            found = self._columns.type_of(("add", field))
            if found is not None:
                cast_column(pa.chunked_array([], found), kind)

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
        wanted = list(dict.fromkeys([*names, "path"] if self._rows is None else names))
        read = {}
        for name, found in zip(wanted, self._columns.read([("add", COLUMNS[n][1]) for n in wanted]), strict=True):
            read[name] = pa.chunked_array([pa.nulls(self._columns.num_rows, COLUMNS[name][0])]) if found is None else found
        if self._rows is None:
            there = pc.is_valid(read["path"])
            if "size_bytes" in read and pc.any(pc.and_not(pc.is_valid(read["size_bytes"]), there)).as_py():
                raise ValueError("a file has a size but no path")
            self._rows = pc.indices_nonzero(there)
        # several threads use a snapshot, so they must see only complete results
        self._read.update({name: self._live(cast_column(column, COLUMNS[name][0])) for name, column in read.items()})

    def _live(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Select the rows of this part from a column with all rows of the file."""
        return _selected(column, np.asarray(self._rows))

    def statistics(self, request: StatisticsRequest) -> pa.Table:
        """Recent answers are cached: most queries of a table use the same few columns."""
        return self._statistics.answer(request, self._read_statistics)

    def _read_statistics(self, request: StatisticsRequest) -> pa.Table:
        """Read typed statistics. If they cannot be read, no file is skipped: this costs time but never correctness."""
        try:
            parsed = read_parsed_statistics(self._columns, request)
            if parsed is not None:
                return pa.table([self._live(column) for column in parsed.columns], schema=parsed.schema)
            return self._parsed_texts(request)
        except GONE:
            raise
        except UNREADABLE:
            return no_statistics(self.num_rows, request)

    def _parsed_texts(self, request: StatisticsRequest) -> pa.Table:
        """Parse the JSON statistics row group by row group without keeping the texts, which are the bulk of a checkpoint."""
        self.column("path")
        rows = np.asarray(self._rows)

        def parse(start: int, texts: pa.ChunkedArray) -> pa.Table:
            inside = rows[slice(*np.searchsorted(rows, [start, start + len(texts)]))] - start
            return parse_statistics(_selected(cast_column(texts, pa.string()), inside), request)

        parsed = self._columns.map_row_groups(("add", "stats"), parse)
        return pa.concat_tables(parsed) if parsed else no_statistics(len(rows), request)

    def batches(self) -> Iterator[pa.Table]:
        self.column("path")
        rows = np.asarray(self._rows)
        start = 0
        try:
            for batch in self._columns.batches("add", [*(name for _, name, _ in COLUMNS.values()), STATS_PARSED], BATCH_ROWS):
                inside = rows[slice(*np.searchsorted(rows, [start, start + len(batch)]))] - start
                start += len(batch)
                yield _batch_table(batch, inside)
        except GONE:
            raise
        except UNREADABLE as error:
            raise CorruptCheckpointError(table=self._columns.url, file=self._columns.key, detail=str(error)) from error

    def take(self, rows: pa.Array) -> CheckpointPart:
        self.column("path")
        assert self._rows is not None
        smaller = CheckpointPart(self._columns, self._rows.take(rows))
        smaller._read = {name: taken(column, rows) for name, column in dict(self._read).items()}  # other threads may add columns
        smaller._statistics = self._statistics.take(rows)
        return smaller


class ReorderedPart(Part):
    """Files of a version that was loaded again, in their previous order.

    Args:
        order: for each file its position in `live`.
    """

    def __init__(self, live: LiveFiles, order: pa.Array) -> None:
        self._live, self._order = live, order

    @property
    def num_rows(self) -> int:
        return len(self._order)

    def column(self, name: str) -> pa.ChunkedArray:
        return reordered(self._live.column(name), self._order)

    def statistics(self, request: StatisticsRequest) -> pa.Table:
        return reordered_table(self._live.statistics(request), self._order)

    def batches(self) -> Iterator[pa.Table]:
        """In the order of `live`, so that no rows need be held."""
        return self._live.subset(np.sort(self._order.to_numpy())).batches()

    def take(self, rows: pa.Array) -> ReorderedPart:
        return ReorderedPart(self._live, self._order.take(rows))


def _batch_table(adds: pa.StructArray, rows: npt.NDArray[np.integer[Any]]) -> pa.Table:
    """Some rows of the struct `add`, as columns."""
    there = {field.name: pa.chunked_array([values]) for field, values in zip(adds.type, adds.flatten(), strict=True)}
    columns = {}
    for name, (kind, field, _) in COLUMNS.items():
        columns[name] = _selected(cast_column(there[field], kind), rows) if field in there else pa.nulls(len(rows), kind)
    if STATS_PARSED in there:
        columns[STATS_PARSED] = _selected(there[STATS_PARSED], rows)
    return pa.table(columns)


def _selected(column: pa.ChunkedArray, rows: npt.NDArray[np.integer[Any]]) -> pa.ChunkedArray:
    """Some rows of a column, by sorted positions. Files are mostly contiguous in a checkpoint; then nothing is copied."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return column.slice(int(rows[0]), len(rows))
    return taken(column, rows)


def cast_column(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Cast a field of a checkpoint's action to its type, whatever type its writer chose: Arrow cannot select rows of every type."""
    if kind == DELETION_VECTOR:
        return _conform_vectors(column)
    if column.type == kind:
        return column
    if pa.types.is_map(kind) and not pa.types.is_map(column.type):  # a checkpoint of a table without partitions may have an empty group
        return pa.chunked_array([pa.nulls(len(column), kind)], type=kind)
    return column.cast(kind)


def _conform_vectors(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Add struct fields that some writers leave out. A descriptor without a storage type becomes null."""
    if column.type == DELETION_VECTOR and pc.struct_field(column, "storageType").null_count == column.null_count:
        return column
    chunks = []
    for chunk in column.chunks:
        fields = {field.name: values for field, values in zip(chunk.type, chunk.flatten(), strict=True)}
        columns = [fields[f.name].cast(f.type) if f.name in fields else pa.nulls(len(chunk), f.type) for f in DELETION_VECTOR]
        chunks.append(pa.StructArray.from_arrays(columns, fields=list(DELETION_VECTOR), mask=pc.is_null(columns[0])))
    return pa.chunked_array(chunks, type=DELETION_VECTOR)


class LiveFiles:
    """The files of one version, in a fixed order. Immutable; `after` makes those of a newer version.

    A checkpoint may be deleted by metadata cleanup, or replaced by another writer, before all needed columns are read. Then the version is
    loaded again from the present log.

    Args:
        find_again: returns the files with these paths, in this order, from the present log in the same version.
    """

    def __init__(self, parts: Iterable[Part], find_again: Callable[[pa.ChunkedArray], Part] | None = None) -> None:
        self.parts = tuple(part for part in parts if part.num_rows)
        self._find_again = find_again

    def found_by(self, find_again: Callable[[pa.ChunkedArray], Part]) -> LiveFiles:
        """The same files, with a function that finds them again."""
        return LiveFiles(self.parts, find_again)

    def __len__(self) -> int:
        return sum(part.num_rows for part in self.parts)

    def column(self, name: str) -> pa.ChunkedArray:
        """One column of `COLUMNS` for all files."""
        columns = self._answers(lambda part: part.column(name))
        return pa.chunked_array([chunk for column in columns for chunk in column.chunks], type=COLUMNS[name][0])

    def statistics(self, request: StatisticsRequest) -> pa.Table:
        """Typed statistics of all files, null if a file has none."""
        return pa.concat_tables([no_statistics(0, request), *self._answers(lambda part: part.statistics(request))])

    def batches(self) -> Iterator[pa.Table]:
        """All columns of the files, in batches, in any order; see `Part.batches`."""
        start = 0
        for part in self.parts:
            batches = part.batches()
            try:
                first = next(batches, None)
            except GONE:
                if self._find_again is None:
                    raise
                self._renew()
                yield from self.subset(np.arange(start, len(self))).batches()
                return
            yield from batches if first is None else chain([first], batches)
            start += part.num_rows

    def subset(self, rows: npt.NDArray[np.integer[Any]]) -> LiveFiles:
        """Some of the files, by sorted positions."""
        taken, start = list[Part](), 0
        for part in self.parts:
            inside = rows[slice(*np.searchsorted(rows, [start, start + part.num_rows]))] - start
            taken.append(part.take(pa.array(inside, pa.int64())))
            start += part.num_rows
        return LiveFiles(taken, self._find_again)

    def lacks_texts(self) -> bool:
        """Whether a file has its statistics only in typed columns of a checkpoint."""
        return any(self._answers(lambda part: not isinstance(part, MemoryPart) and part.column("stats").null_count > 0))

    def _answers(self, ask: Callable[[Part], Answer]) -> list[Answer]:
        """The answer of each part."""
        try:
            return [ask(part) for part in self.parts]
        except GONE:
            if self._find_again is None:
                raise
            self._renew()
        return [ask(part) for part in self.parts]

    def _renew(self) -> None:
        """Load the version again, with the same files in the same order."""
        assert self._find_again is not None
        paths = [chunk for part in self.parts for chunk in part.column("path").chunks]  # already read with the version
        self.parts = (self._find_again(pa.chunked_array(paths, pa.string())),)

    @cached_property
    def ambiguous(self) -> pa.ChunkedArray:
        """Which paths must be resolved one by one."""
        return pa.chunked_array([chunk for part in self.parts for chunk in part.ambiguous.chunks], type=pa.bool_())

    @cached_property
    def size_bytes(self) -> int:
        return int(pc.sum(self.column("size_bytes")).as_py() or 0)

    @cached_property
    def has_deletion_vectors(self) -> bool:
        return any(part.column("deletion_vector").null_count < part.num_rows for part in self.parts)

    def adds(self) -> Iterable[Add]:
        """The files as actions, for callers that need few of them."""
        tables = self._answers(lambda part: pa.table({name: part.column(name) for name in COLUMNS}))
        return chain.from_iterable(map(to_adds, tables))

    def after(self, newer: Sequence[Iterable[Action]], canonical: Callable[[str], str]) -> LiveFiles:
        """The files after further commits.

        Args:
            newer: the actions of the commits, newest first; each has passed `protocol.replay.check_commit`.
            canonical: maps all spellings of a file's path to one.
        """
        seen: set[FileKey] = set()
        added: list[Add] = []
        for actions in newer:
            file_actions = [a for a in actions if isinstance(a, Add | Remove)]
            keyed = [(file_key(a, canonical), a) for a in file_actions]
            added.extend(a for key, a in keyed if isinstance(a, Add) and key not in seen)
            seen.update(key for key, _ in keyed)
        if not seen:
            return self
        older = [without(part, seen, canonical) for part in self.parts]
        return LiveFiles(_joined([MemoryPart(to_table(added)), *older]))


def _joined(parts: list[Part]) -> list[Part]:
    memory = [part for part in parts if isinstance(part, MemoryPart) and part.num_rows]
    if len(memory) <= MEMORY_PARTS_MAX:
        return parts
    joined = MemoryPart(joined_table([part.table for part in memory]))
    return [joined, *(part for part in parts if not isinstance(part, MemoryPart))]


def without(part: Part, seen: Set[FileKey], canonical: Callable[[str], str]) -> Part:
    """The part without the files that newer actions name."""
    paths = part.column("path")
    names = {path for path, _ in seen if is_text(path)}  # a path that is not valid text has escapes in the log, so it is `ambiguous`
    suspects = pc.or_(pc.is_in(paths, value_set=pa.array(sorted(names), pa.string())), part.ambiguous)
    candidates = pc.indices_nonzero(suspects)
    if not len(candidates):
        return part
    vectors = taken(part.column("deletion_vector"), candidates).to_pylist()
    gone = [
        position
        for position, path, vector in zip(candidates.to_pylist(), taken(paths, candidates).to_pylist(), vectors, strict=True)
        if (canonical(path), _unique_id(vector)) in seen
    ]
    if not gone:
        return part
    return part.take(pa.array(np.delete(np.arange(part.num_rows), gone)))


def _unique_id(vector: Mapping[str, Any] | None) -> str | None:
    if vector is None:
        return None
    base = f"{vector['storageType']}{vector['pathOrInlineDv']}"
    return base if vector["offset"] is None else f"{base}@{vector['offset']}"


def to_table(adds: Sequence[Add]) -> pa.Table:
    """Actions as columns of `COLUMNS`."""
    columns = {}
    for name, (kind, _, attribute) in COLUMNS.items():
        values = [getattr(add, attribute) for add in adds]
        if name == "deletion_vector":
            values = [None if v is None else _vector_row(v) for v in values]
        elif pa.types.is_map(kind):
            values = [None if v is None else list(v.items()) for v in values]
        columns[name] = pa.array(values, kind)
    return pa.table(columns, schema=SCHEMA)


def _vector_row(vector: Any) -> dict[str, Any]:
    return {
        "storageType": vector.storage_type,
        "pathOrInlineDv": vector.path_or_inline,
        "offset": vector.offset,
        "sizeInBytes": vector.size_bytes,
        "cardinality": vector.cardinality,
    }


def to_adds(table: pa.Table) -> Iterator[Add]:
    """The rows of a table with the columns `COLUMNS`, as actions."""
    for batch in table.to_batches():
        yield from (_to_add(row) for row in batch.to_pylist(maps_as_pydicts="lossy"))


def _to_add(row: Mapping[str, Any]) -> Add:
    values = dict(row)
    values["deletion_vector"] = decode_deletion_vector(values["deletion_vector"])
    values["partition_values"] = values["partition_values"] or {}
    return Add(**values, data_change=False)
