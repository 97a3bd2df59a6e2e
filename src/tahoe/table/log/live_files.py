"""The live files of a snapshot as columns, so that a million files cost a second and not a minute.

Protocol: "Action Reconciliation". A snapshot's files are a few parts, newest first: the files that commits added, in
memory, and the files of a checkpoint, whose columns are read on demand. Replay goes from the newest commit to the
checkpoint; a file that a newer part names is dropped from older parts. The result must agree with the reference
implementation in `tahoe.protocol.log.replay`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe._cached import cached_property
from tahoe.errors import CorruptCheckpointError, MissingVersionError
from tahoe.protocol.log.actions import Action, Add, Remove
from tahoe.protocol.log.replay import FileKey, file_key
from tahoe.protocol.types.schema import Struct
from tahoe.storage.threads import CORES, in_threads, on_all_cores
from tahoe.table.arrow.chunks import joined_table, reordered, reordered_table
from tahoe.table.arrow.row_group_bounds import LeafBounds, joined_bounds
from tahoe.table.arrow.statistics import STATS_PARSED, StatisticsRequest, no_statistics
from tahoe.table.log.file_entries import to_adds, to_table
from tahoe.table.log.file_parts import COLUMNS, DELETION_VECTOR, GONE, MemoryPart, Part, joined_columns
from tahoe.table.log.grouped_part import GroupedPart
from tahoe.table.log.superseded import Superseded

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

    def texts(self, schema: Struct) -> pa.ChunkedArray:
        return reordered(self._live.texts(schema), self._order)

    def batches(self) -> Iterator[pa.Table]:
        """In the order of `live`, so that no rows need be held."""
        return self._live.subset(np.sort(self._order.to_numpy())).batches()

    def take(self, rows: pa.Array) -> ReorderedPart:
        return ReorderedPart(self._live, self._order.take(rows))


@dataclass(frozen=True, slots=True)
class Totals:
    """The number and the size of a version's files."""

    files: int
    size_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """The version that files belong to.

    Attributes:
        checkpoint: the names of the files of the checkpoint that it was loaded from.
        find_again: loads the files of the version from the present log, in any order, because of an error.
        totals: the totals of the version, if a file beside its commit tells them.
    """

    table: str
    version: int
    checkpoint: frozenset[str]
    find_again: Callable[[Exception], LiveFiles]
    totals: Callable[[], Totals | None]


class LiveFiles:
    """The files of one version. `after` makes those of a newer version.

    A checkpoint may be deleted by metadata cleanup, or replaced by another writer, before all needed columns are read.
    Then the version is loaded again from the present log, once for all threads. A file keeps its position from the
    first column that was read, or from when its position was handed out: until then nobody knows an order.

    Args:
        origin: of the whole version, for its files and for some of them.
    """

    def __init__(self, parts: Iterable[Part], origin: Origin | None = None) -> None:
        given = tuple(parts)
        self.parts = (
            given if not any(part.is_empty for part in given) else tuple(part for part in given if not part.is_empty)
        )
        self.origin = origin
        self._lock = (
            threading.RLock()
        )  # for what changes when the version is loaded again, `parts` and `origin`, and for the next attribute
        self._handed_out: list[
            tuple[npt.NDArray[np.int64], pa.ChunkedArray]
        ] = []  # positions, with the paths of their files

    def __reduce__(self) -> tuple[Any, ...]:
        """Files are sent to workers, without the lock and the positions of this process."""
        return LiveFiles, (self.parts, self.origin)

    def of(self, origin: Origin) -> LiveFiles:
        """The same files, of a version that can be loaded again."""
        return LiveFiles(self.parts, origin)

    def __len__(self) -> int:
        return sum(self._answers(lambda part: part.num_rows))

    def column(self, name: str) -> pa.ChunkedArray:
        """One column of `COLUMNS` for all files."""
        self._fix_order()
        return joined_columns(self._answers(lambda part: part.column(name)), COLUMNS[name].type)

    def _fix_order(self) -> None:
        """Read the paths, by which every file finds its position again."""
        self._answers(lambda part: part.has_read("path") or part.column("path"))

    def statistics(self, request: StatisticsRequest) -> pa.Table:
        """Typed statistics of all files, null if a file has none."""
        self._fix_order()
        return pa.concat_tables([no_statistics(0, request), *self._answers(lambda part: part.statistics(request))])

    @cached_property
    def num_records(self) -> pa.ChunkedArray:
        """The number of rows in each file, deleted ones included, by its statistics; null if they do not tell."""
        return joined_columns(self._answers(lambda part: part.num_records()), pa.int64())

    def batches(self) -> Iterator[pa.Table]:
        """All columns of the files, in batches, in any order; see `Part.batches`."""
        parts = self.parts
        for number, part in enumerate(parts):
            batches = part.batches()
            try:
                first = next(batches, None)
            except GONE as error:
                done = LiveFiles(parts[:number]).column("path")
                self.renew(error, parts)
                rest = pc.invert(pc.is_in(self.column("path"), value_set=done))
                yield from self.subset(np.flatnonzero(np.asarray(rest))).batches()
                return
            yield from batches if first is None else chain([first], batches)

    def in_pieces(self, work: Callable[[Part], Answer]) -> Iterator[Answer]:
        """The results of `work` for parts of bounded size, of which nothing is kept, on all cores. If the version is
        loaded again meanwhile, they begin anew with its first files.
        """
        while True:
            parts = self.parts
            try:
                yield from in_threads(
                    lambda load: work(load()), (load for part in parts for load in part.loads()), CORES
                )
                return
            except (*GONE, CorruptCheckpointError) as error:
                self.renew(error, parts)

    def chosen(
        self,
        look: Callable[[Part], Answer],
        choose: Callable[[Sequence[Answer]], Iterable[npt.NDArray[np.int64]]],
    ) -> FileSubset:
        """Some of the files, chosen by what is told of parts of bounded size, of which nothing else is kept.

        Args:
            look: tells of a part what the choice depends on; called on all cores.
            choose: from what is told of all parts, in the order of the files, the ascending positions of the chosen
                files in each. Both are called again if the version is loaded again meanwhile.
        """
        while True:
            parts = self.parts
            loads = [load for part in parts for load in part.loads()]
            try:
                looked = list(in_threads(lambda load: _looked(load(), look), loads, CORES))
                rows = list(choose([answer for _, answer in looked]))
                starts = np.cumsum([0, *(files for files, _ in looked)])
                places = [start + inside for start, inside in zip(starts, rows, strict=False)]
                wanted = [(load, inside) for load, inside in zip(loads, rows, strict=True) if len(inside)]
                found = on_all_cores(lambda some: _taken(*some), wanted)
                return ChosenFiles(self, parts, found, np.concatenate([np.zeros(0, np.int64), *places]))
            except (*GONE, CorruptCheckpointError) as error:
                self.renew(error, parts)

    def subset(self, rows: npt.NDArray[np.integer[Any]]) -> LiveFiles:
        """Some of the files, by sorted positions."""
        return LiveFiles(self._retried(lambda: list(self._pieces(rows.astype(np.int64)))), self.origin)

    def _pieces(self, rows: npt.NDArray[np.int64]) -> Iterator[Part]:
        start = 0
        for part in self.parts:
            yield from part.pieces(rows[slice(*np.searchsorted(rows, [start, start + part.num_rows]))] - start)
            start += part.num_rows

    def lacks_texts(self) -> bool:
        """Whether a file has its statistics only in typed columns of a checkpoint."""
        return any(self._answers(lambda part: part.lacks_texts()))

    def texts(self, schema: Struct) -> pa.ChunkedArray:
        """The statistics as JSON texts; see `Part.texts`."""
        return joined_columns(self._answers(lambda part: part.texts(schema)), pa.string())

    def _answers(self, ask: Callable[[Part], Answer]) -> list[Answer]:
        """The answer of each part."""
        return self._retried(lambda: [ask(part) for part in self.parts])

    def _retried(self, ask: Callable[[], Answer]) -> Answer:
        """An answer, for which the version is loaded again if its checkpoint is gone or turns out to be broken."""
        while True:
            parts = self.parts
            try:
                return ask()
            except (*GONE, CorruptCheckpointError) as error:
                self.renew(error, parts)

    def renew(self, error: Exception, parts: tuple[Part, ...]) -> None:
        """Load the version again, with the same files in the same order, unless another thread has done so.

        Args:
            error: why.
            parts: those of which one is gone.
        """
        with self._lock:
            if self.parts is not parts:
                return
            if self.origin is None:
                raise error
            again = self.origin.find_again(error)
            self.origin = again.origin  # it knows which checkpoints are broken
            if all(part.has_read("path") for part in parts):
                every = joined_columns([part.column("path") for part in parts], pa.string())
                self.parts = (ReorderedPart(again, self._order(again, len(every), [(np.arange(len(every)), every)])),)
            elif self._handed_out:
                self.parts = (ReorderedPart(again, self._order(again, len(again), self._handed_out)),)
            else:
                self.parts = again.parts
                self.__dict__.pop("num_records", None)  # the only answer that needs no paths

    def _order(
        self, reloaded: LiveFiles, total: int, handed_out: Sequence[tuple[npt.NDArray[np.int64], pa.ChunkedArray]]
    ) -> pa.Array:
        """The places of these files in the version as it was loaded again: of files whose positions are known, and of
        all others.
        """
        assert self.origin is not None
        order, paths = np.full(total, -1), reloaded.column("path")
        for positions, known_paths in handed_out:
            places = pc.index_in(known_paths, value_set=paths)
            if places.null_count:
                lost = known_paths.filter(places.is_null())[0]
                detail = f"its checkpoint was deleted, and version {self.origin.version} no longer has the file {lost}"
                raise MissingVersionError(table=self.origin.table, version=self.origin.version, detail=detail)
            order[positions] = np.asarray(places)
        free = np.flatnonzero(order < 0)
        order[free] = np.setdiff1d(np.arange(len(paths)), order)[: len(free)]
        return pa.array(order)

    @cached_property
    def ambiguous(self) -> pa.ChunkedArray:
        """Which paths must be resolved one by one."""
        return joined_columns(self._answers(lambda part: part.ambiguous), pa.bool_())

    @property
    def files_at_most(self) -> int:
        """The number of files, those included that newer actions name: known without listing them."""
        return sum(part.num_rows for part in self.parts if not isinstance(part, GroupedPart)) + int(
            self.group_files.sum()
        )

    @property
    def is_listed(self) -> bool:
        """Whether the files are few, or in memory; else they should not be listed for a query that needs only some of
        them.
        """
        return not any(isinstance(part, GroupedPart) for part in self.parts)

    @cached_property
    def totals(self) -> Totals:
        """The number and the size of the files. They are read from the version checksum if counting them would list all
        files.
        """
        stated = None if self.is_listed or self.origin is None else self.origin.totals()
        return stated or Totals(len(self), sum(self._answers(lambda part: part.size_bytes)))

    @property
    def size_bytes(self) -> int:
        return self.totals.size_bytes

    @cached_property
    def vectors(self) -> pa.ChunkedArray:
        """The descriptors of deletion vectors, of those files that have one."""
        return joined_columns(self._answers(lambda part: part.vectors()), DELETION_VECTOR)

    @property
    def has_deletion_vectors(self) -> bool:
        return len(self.vectors) > 0

    def first_path(self) -> str | None:
        """The path of one of the files."""
        return next((path for path in self._answers(lambda part: part.first_path()) if path is not None), None)

    def adds(self) -> Iterable[Add]:
        """The files as actions, for callers that need few of them. `Scan.adds` has also statistics that are only in
        typed columns.
        """
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
            keyed = [(file_key(a, canonical), a) for a in actions if isinstance(a, (Add, Remove))]
            added.extend(a for key, a in keyed if isinstance(a, Add) and key not in seen)
            seen.update(key for key, _ in keyed)
        if not seen:
            return self
        superseded = Superseded(seen, canonical)
        return LiveFiles(
            _join_memory_parts([MemoryPart(to_table(added)), *self._answers(lambda part: part.without(superseded))])
        )

    def divided(self, belongs: Callable[[Part], bool]) -> tuple[list[Part], LiveFiles]:
        """The parts of which something is true, and the files of all others, which cannot be loaded again."""
        parts, chosen = self._retried(lambda: (self.parts, [belongs(part) for part in self.parts]))
        inside = [part for part, is_chosen in zip(parts, chosen, strict=True) if is_chosen]
        return inside, LiveFiles(part for part, is_chosen in zip(parts, chosen, strict=True) if not is_chosen)

    # --- some of the row groups

    def bounds(self, path: Sequence[str], kind: pa.DataType) -> LeafBounds:
        """The bounds of a field of `add` in all row groups of all parts that have row groups."""
        return joined_bounds([part.file.bounds(path, kind) for part in self._grouped])

    @property
    def group_files(self) -> npt.NDArray[np.int64]:
        """The number of files in each of these row groups, those included that newer actions name."""
        return np.concatenate([np.zeros(0, np.int64), *(part.file.files for part in self._grouped)])

    @property
    def _grouped(self) -> list[GroupedPart]:
        return [part for part in self.parts if isinstance(part, GroupedPart)]

    def narrowed(self, whole: LiveFiles, groups: npt.NDArray[np.bool_]) -> RowGroupSubset:
        """The files of some row groups, and all files of parts without row groups.

        Args:
            whole: the same files, with the parts that have these row groups: those of this object may be others by now.
            groups: for each row group of its `group_files` whether its files are wanted.
        """
        parts, places, start = list[Part](), list[tuple[int, int]](), 0
        for number, part in enumerate(whole.parts):
            if not isinstance(part, GroupedPart):
                parts.append(part)
                places.append((number, 0))
                continue
            wanted = np.flatnonzero(groups[start : start + len(part.file.files)])
            start += len(part.file.files)
            parts.extend(on_all_cores(part.group, wanted.tolist()))
            places.extend((number, int(group)) for group in wanted)
        return RowGroupSubset(self, whole.parts, parts, places)

    def sample(self, share: float, fields: Sequence[str], parsed: Sequence[str]) -> list[pa.Table]:
        """A share of the files, from all over the version and from every row group, as `Part.batches` has them.

        Args:
            fields: of `add`, which are wanted.
            parsed: the same for parts with typed statistics.
        """

        def of_part(part: Part) -> list[pa.Table]:
            if isinstance(part, GroupedPart):
                wanted = parsed if part.has(STATS_PARSED) else fields
                return on_all_cores(
                    partial(part.head, share=share, fields=wanted), np.flatnonzero(part.file.files).tolist()
                )
            every = max(1, round(1 / share))
            return [batch.take(np.arange(0, len(batch), every)) for batch in part.batches()]

        return list(chain.from_iterable(self._answers(of_part)))

    def hand_out(self, positions: npt.NDArray[np.int64], paths: pa.ChunkedArray, parts: tuple[Part, ...]) -> bool:
        """Note that the positions of some files are handed out, so that these files keep them.

        Args:
            parts: those of which they are positions.

        Returns:
            whether they still are.
        """
        with self._lock:
            if self.parts is parts and not self.is_listed:
                self._handed_out.append((positions, paths))
            return self.parts is parts


class FileSubset(ABC):
    """Some files of a version, as parts.

    Args:
        whole: the parts of the version that these are from.
    """

    def __init__(self, version: LiveFiles, whole: tuple[Part, ...], parts: Sequence[Part]) -> None:
        self._version, self._whole = version, whole
        self.files = LiveFiles(parts, version.origin)

    def some(self, rows: npt.NDArray[np.int64]) -> LiveFiles:
        """Some of the files, by their ascending positions among these."""
        return self.files if len(rows) == len(self.files) else self.files.subset(rows)

    def positions(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The positions in the version of some of the files, given by their positions among these."""
        paths, version = self.some(rows).column("path"), self._version
        while True:
            parts = version.parts
            try:
                if parts is self._whole:
                    places = self._counted(rows)
                else:  # it was loaded again
                    places = np.asarray(pc.index_in(paths, value_set=LiveFiles(parts).column("path"))).astype(np.int64)
            except (*GONE, CorruptCheckpointError) as error:
                version.renew(error, parts)
                continue
            if version.hand_out(places, paths, parts):
                return places

    @abstractmethod
    def _counted(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The positions in the version, as long as it has the parts that these are from."""


class RowGroupSubset(FileSubset):
    """The files of some row groups of a version.

    Args:
        places: of each part, the number of the version's part that it is from, and its row group there.
    """

    def __init__(
        self, version: LiveFiles, whole: tuple[Part, ...], parts: Sequence[Part], places: Sequence[tuple[int, int]]
    ) -> None:
        super().__init__(version, whole, parts)
        self._parts, self._places = parts, places

    def _counted(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        starts = np.cumsum([0, *(part.num_rows for part in self._whole)])
        found, start = [np.zeros(0, np.int64)], 0
        for part, (number, group) in zip(self._parts, self._places, strict=True):
            parent = self._whole[number]
            inside = rows[slice(*np.searchsorted(rows, [start, start + part.num_rows]))] - start
            found.append(inside + starts[number] + (parent.start(group) if isinstance(parent, GroupedPart) else 0))
            start += part.num_rows
        return np.concatenate(found)


class ChosenFiles(FileSubset):
    """Files of a version that were chosen one by one.

    Args:
        places: their positions in the version, ascending.
    """

    def __init__(
        self, version: LiveFiles, whole: tuple[Part, ...], parts: Sequence[Part], places: npt.NDArray[np.int64]
    ) -> None:
        super().__init__(version, whole, parts)
        self._places = places

    def _counted(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return self._places[rows]


def _taken(load: Callable[[], Part], rows: npt.NDArray[np.int64]) -> Part:
    """Some files of a part, with their paths, by which they are found again if the version is loaded again."""
    part = load().take(pa.array(rows))
    part.column("path")
    return part


def _looked(part: Part, look: Callable[[Part], Answer]) -> tuple[int, Answer]:
    """The number of files of a part, and what is told of it."""
    return part.num_rows, look(part)


def _join_memory_parts(parts: list[Part]) -> list[Part]:
    memory = [part for part in parts if isinstance(part, MemoryPart) and part.num_rows]
    if len(memory) <= MEMORY_PARTS_MAX:
        return parts
    joined = MemoryPart(joined_table([part.table for part in memory]))
    return [joined, *(part for part in parts if not isinstance(part, MemoryPart))]
