"""The live files of a snapshot as columns, so that a million files cost a second and not a minute.

Protocol: "Action Reconciliation". A snapshot's files are a few parts, newest first: the files that commits added, in memory, and the files
of a checkpoint, whose columns are read on demand. Replay goes from the newest commit to the checkpoint; a file that a newer part names is
dropped from older parts. The result must agree with the reference implementation in `tahoe.protocol.replay`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe._cached import cached_property
from tahoe.protocol.actions import Action, Add, Remove, decode_deletion_vector
from tahoe.protocol.json_text import is_text
from tahoe.protocol.replay import FileKey, file_key
from tahoe.table.arrow.chunks import joined_table, reordered, reordered_table, taken
from tahoe.table.arrow.statistics import StatisticsRequest, no_statistics
from tahoe.table.log.file_parts import COLUMNS, GONE, SCHEMA, MemoryPart, Part, joined_columns

Answer = TypeVar("Answer")

# Beyond this number, in-memory parts of commits are joined: each part adds a small cost to every access.
MEMORY_PARTS_MAX = 16


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

    def num_records(self) -> pa.ChunkedArray:
        return reordered(self._live.num_records, self._order)

    def batches(self) -> Iterator[pa.Table]:
        """In the order of `live`, so that no rows need be held."""
        return self._live.subset(np.sort(self._order.to_numpy())).batches()

    def take(self, rows: pa.Array) -> ReorderedPart:
        return ReorderedPart(self._live, self._order.take(rows))


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
        return joined_columns(self._answers(lambda part: part.column(name)), COLUMNS[name][0])

    def statistics(self, request: StatisticsRequest) -> pa.Table:
        """Typed statistics of all files, null if a file has none."""
        return pa.concat_tables([no_statistics(0, request), *self._answers(lambda part: part.statistics(request))])

    @cached_property
    def num_records(self) -> pa.ChunkedArray:
        """The number of rows in each file, deleted ones included, by its statistics; null if they do not tell."""
        return joined_columns(self._answers(lambda part: part.num_records()), pa.int64())

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
        columns = {name: _values(batch.column(name)) for name in COLUMNS if name != "stats"}
        columns["stats"] = _statistics(batch.column("stats"))
        columns["deletion_vector"] = [decode_deletion_vector(vector) for vector in columns["deletion_vector"]]
        columns["partition_values"] = [values or {} for values in columns["partition_values"]]
        names = tuple(columns)
        for row in zip(*columns.values(), strict=True):
            yield Add(**dict(zip(names, row, strict=True)), data_change=False)


def _values(column: pa.Array) -> list[Any]:
    """The values of a column as Python has them. `to_pylist` takes a microsecond for each, and most columns need less."""
    if column.null_count == len(column):
        return [None] * len(column)
    if pa.types.is_integer(column.type) and not column.null_count:
        return list(column.to_numpy().tolist())
    if pa.types.is_string(column.type):
        return _texts(column)
    if pa.types.is_map(column.type) and not column.null_count and not len(column.items):
        return [{} for _ in range(len(column))]
    return list(column.to_pylist(maps_as_pydicts="lossy"))


def _texts(column: pa.Array) -> list[str | None]:
    try:
        return list(column.to_numpy(zero_copy_only=False).tolist())
    except pa.ArrowException:  # Arrow does not check that the texts of a checkpoint are UTF-8
        return list(column.to_pylist())


def _statistics(column: pa.Array) -> list[str | None]:
    """Statistics as text. Those that are not UTF-8 are ignored, as in a commit."""
    try:
        return _texts(column)
    except UnicodeDecodeError:
        return [_text(data) for data in column.cast(pa.binary()).to_pylist()]


def _text(data: bytes | None) -> str | None:
    with suppress(UnicodeDecodeError):
        return None if data is None else data.decode()
    return None
