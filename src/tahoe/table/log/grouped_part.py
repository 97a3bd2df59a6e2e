"""The files in a large Parquet checkpoint or sidecar, of which a query reads only the row groups that may hold what it
looks for.

Protocol: "Checkpoints", "Action Reconciliation". The footer tells how many files each row group has. The files that
newer actions name are looked for in each row group when it is read, and in all of them when all files are asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import Lock

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe._cached import cached_property
from tahoe.errors import CorruptCheckpointError
from tahoe.protocol.types.schema import Struct
from tahoe.storage.threads import on_all_cores
from tahoe.table.arrow.parquet import IN_ONE_GO_ROWS_MAX, NestedColumns
from tahoe.table.arrow.row_group_bounds import LeafBounds, leaf_bounds, null_counts
from tahoe.table.arrow.statistics import StatisticsRequest
from tahoe.table.log.file_parts import BATCH_ROWS, DELETION_VECTOR, CheckpointPart, MemoryPart, Part, joined_columns
from tahoe.table.log.superseded import Superseded

Numbers = npt.NDArray[np.int64]

# Row groups that queries have read are kept, up to this many files of one checkpoint file: about 150 MB.
KEPT_FILES_MAX = 500_000

# If a query needs more than this share of the row groups, all of them are read at once, which is faster and serves
# later queries too.
NARROW_SHARE_MAX = 0.5


class GroupedFile:
    """A Parquet file with the files of a checkpoint. All versions that are based on the checkpoint share it.

    Attributes:
        files: the number of files in each row group.
    """

    def __init__(self, columns: NestedColumns, files: Numbers) -> None:
        self.columns, self.files = columns, files
        self.whole = CheckpointPart(columns, by_footer=True)
        self._groups: OrderedDict[int, CheckpointPart] = OrderedDict()
        self._bounds: dict[tuple[tuple[str, ...], pa.DataType], LeafBounds] = {}
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[GroupedFile], tuple[NestedColumns, Numbers]]:
        """In another process nothing is cached."""
        return GroupedFile, (self.columns, self.files)

    @cached_property
    def starts(self) -> Numbers:
        """How many files there are before each row group."""
        return np.cumsum(self.files) - self.files

    def group(self, group: int) -> CheckpointPart:
        """One row group, with its paths; recently used ones are kept."""
        with self._lock:
            known = self._groups.pop(group, None)
        part = self.fresh(group) if known is None else known
        part.load(["path"])
        with self._lock:
            self._groups[group] = part
            while len(self._groups) > 1 and sum(int(self.files[kept]) for kept in self._groups) > KEPT_FILES_MAX:
                self._groups.popitem(last=False)
        return part

    def fresh(self, group: int) -> CheckpointPart:
        """One row group. Nothing of it is kept.

        Raises:
            CorruptCheckpointError: it is broken, or does not have the number of files that the footer states.
        """
        part = CheckpointPart(self.columns.within([group]), by_footer=True)
        if part.num_rows != self.files[group]:
            detail = f"row group {group} has {part.num_rows} files, its footer states {self.files[group]}"
            raise CorruptCheckpointError(table=self.columns.url, file=self.columns.key, detail=detail)
        return part

    def bounds(self, path: Sequence[str], kind: pa.DataType) -> LeafBounds:
        """The bounds of a field of `add` in each row group; `nulls` counts only files."""
        key = (tuple(path), kind)
        if key not in self._bounds:
            found = leaf_bounds(self.columns, ("add", *path), kind)
            others = self.columns.group_rows - self.files
            self._bounds[key] = LeafBounds(
                found.least, found.greatest, np.where(found.nulls < 0, -1, found.nulls - others)
            )
        return self._bounds[key]

    def nulls(self, *path: str) -> Numbers:
        """How many files of each row group have a null in a leaf of `add`; -1 if unknown."""
        found = null_counts(self.columns, ".".join(("add", *path)))
        return np.where(found < 0, -1, found - (self.columns.group_rows - self.files))


class GroupedPart(Part):
    """The files of a `GroupedFile`, without those that newer actions name.

    Args:
        settled: a part with the same files in which those of `superseded` have been found already.
    """

    def __init__(self, file: GroupedFile, superseded: Superseded | None = None, settled: Part | None = None) -> None:
        self.file, self.superseded = file, superseded
        self._gone_in: dict[int, Numbers] = {}  # by row group, as far as they were looked for
        if settled is not None:
            self.__dict__["whole"] = settled

    def has_read(self, name: str) -> bool:
        return "whole" in self.__dict__ and self.whole.has_read(name)

    @property
    def is_empty(self) -> bool:
        return not self.file.files.sum()

    @cached_property
    def gone(self) -> Numbers:
        """The places in the file of the files that newer actions name, ascending."""
        superseded, file = self.superseded, self.file
        if superseded is None:
            return np.zeros(0, np.int64)
        if "whole" in self.__dict__:
            return np.setdiff1d(np.arange(file.files.sum()), self._places(), assume_unique=True)
        found = on_all_cores(
            lambda group: self._gone_from(group, file.fresh(group)) + file.starts[group],
            np.flatnonzero(file.files).tolist(),
        )
        return np.concatenate([np.zeros(0, np.int64), *found])

    def _gone_from(self, group: int, part: Part) -> Numbers:
        """The positions of the files in a row group that newer actions name, ascending."""
        if self.superseded is None:
            return np.zeros(0, np.int64)
        if group not in self._gone_in:
            self._gone_in[group] = part.positions_of(self.superseded)
        return self._gone_in[group]

    def _places(self) -> Numbers:
        """The place of each file of `whole` among those of the checkpoint file."""
        whole = self.whole
        assert isinstance(whole, CheckpointPart)
        return np.searchsorted(self.file.whole.positions, whole.positions)

    @cached_property
    def whole(self) -> Part:
        """All files, whose columns are read at once."""
        if not len(self.gone):
            return self.file.whole
        return self.file.whole.take(pa.array(np.delete(np.arange(self.file.files.sum()), self.gone)))

    @property
    def num_rows(self) -> int:
        return self.whole.num_rows if "whole" in self.__dict__ else int(self.file.files.sum()) - len(self.gone)

    def column(self, name: str) -> pa.ChunkedArray:
        return self.whole.column(name)

    def statistics(self, request: StatisticsRequest) -> pa.Table:
        return self.whole.statistics(request)

    def num_records(self) -> pa.ChunkedArray:
        return self.whole.num_records()

    @cached_property
    def ambiguous(self) -> pa.ChunkedArray:
        return self.whole.ambiguous

    def batches(self) -> Iterator[pa.Table]:
        for batch in CheckpointPart(self.file.columns).batches():
            yield batch if self.superseded is None else _without(batch, self.superseded)

    def loads(self) -> Iterator[Callable[[], Part]]:
        if self.has_read("path"):
            yield lambda: self.whole
            return
        for group in np.flatnonzero(self.file.files).tolist():
            yield partial(self._loaded, group)

    def _loaded(self, group: int) -> Part:
        return self._live(group, self.file.fresh(group))

    def without(self, superseded: Superseded) -> GroupedPart:
        settled = self.whole.without(superseded) if "whole" in self.__dict__ else None
        return GroupedPart(self.file, superseded.and_also(self.superseded), settled)

    @property
    def size_bytes(self) -> int:
        if "whole" in self.__dict__ or not self.has("size"):
            return self.whole.size_bytes
        every = self.file.columns.map_batches(
            ("add", "size"), lambda _, sizes: int(pc.sum(sizes).as_py() or 0), BATCH_ROWS
        )
        return sum(every) - sum(
            self.file.group(group).take(members).size_bytes for group, members in self._gone_by_group()
        )

    def _gone_by_group(self) -> Iterator[tuple[int, pa.Array]]:
        for group, members in _by_group(self.gone, self.file.starts):
            yield group, pa.array(members - self.file.starts[group])

    def vectors(self) -> pa.ChunkedArray:
        """Row groups without a vector are known by the footer."""
        if "whole" in self.__dict__ or not self.has("deletionVector"):
            return self.whole.vectors()
        marked = np.flatnonzero(self.file.nulls("deletionVector", "storageType") != self.file.files)
        found = on_all_cores(lambda group: self._loaded(group).vectors(), marked.tolist())
        return joined_columns(found, DELETION_VECTOR)

    def lacks_texts(self) -> bool:
        nulls = self.file.nulls("stats")
        return bool(np.any(nulls > 0)) or (bool(np.any(nulls < 0)) and self.whole.lacks_texts())

    def texts(self, schema: Struct) -> pa.ChunkedArray:
        return self.whole.texts(schema)

    def check(self) -> None:
        groups = range(len(self.file.files))
        on_all_cores(lambda group: self.file.fresh(group).check(), groups)

    def first_path(self) -> str | None:
        paths = (self.group(group).first_path() for group in np.flatnonzero(self.file.files).tolist())
        return next((path for path in paths if path is not None), None)

    # --- some of the files

    def head(self, group: int, share: float, fields: Sequence[str]) -> pa.Table:
        """A share of the files of a row group, the first ones, those included that newer actions name; see
        `CheckpointPart.head`.
        """
        return self.file.fresh(group).head(max(1, round(share * int(self.file.files[group]))), fields)

    def has(self, field: str) -> bool:
        """Whether the file has a field of `add`."""
        return self.file.columns.has(("add", field))

    def group(self, group: int) -> Part:
        """The files of one row group."""
        return self._live(group, self.file.group(group))

    def _live(self, group: int, part: Part) -> Part:
        """A row group without the files that newer actions name."""
        gone = self._gone_from(group, part)
        return part.take(pa.array(np.delete(np.arange(part.num_rows), gone))) if len(gone) else part

    def start(self, group: int) -> int:
        """The position of the first file of a row group."""
        start = int(self.file.starts[group])
        return start - int(np.searchsorted(self.gone, start))

    def take(self, rows: pa.Array) -> Part:
        return self.whole.take(rows)

    def pieces(self, rows: Numbers) -> list[Part]:
        """A few files are taken from their row groups."""
        places = rows + np.searchsorted(self.gone - np.arange(len(self.gone)), rows, side="right")
        wanted = list(_by_group(places, self.file.starts))
        if "whole" in self.__dict__ or len(wanted) > NARROW_SHARE_MAX * len(self.file.files):
            return [self.take(pa.array(rows, pa.int64()))]
        ends = np.cumsum([len(members) for _, members in wanted])
        inside = zip(wanted, np.split(rows, ends[:-1]), strict=True) if wanted else ()
        return [
            self.group(group).take(pa.array(members - self.start(group), pa.int64())) for (group, _), members in inside
        ]


def _by_group(places: Numbers, starts: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Sorted places of files by their row groups."""
    groups, first = np.unique(np.searchsorted(starts, places, side="right") - 1, return_index=True)
    yield from zip(groups.tolist(), np.split(places, first[1:]), strict=True) if len(places) else ()


def _without(batch: pa.Table, superseded: Superseded) -> pa.Table:
    part = MemoryPart(batch).without(superseded)
    assert isinstance(part, MemoryPart)
    return part.table


def opened_part(columns: NestedColumns) -> Part:
    """The files of a Parquet file. Nothing but the footer is read."""
    part = CheckpointPart(columns)
    nulls = null_counts(columns, "add.path")
    if columns.num_rows <= IN_ONE_GO_ROWS_MAX or np.any(
        nulls < 0
    ):  # without counts in the footer, files are counted by reading paths
        return part
    return GroupedPart(GroupedFile(columns, columns.group_rows - nulls))
