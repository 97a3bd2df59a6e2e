"""Reads Parquet files of a store: memory-mapped on local disk, by ranges elsewhere, with row groups and columns in
parallel.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tahoe._cached import cached_property
from tahoe.protocol.log.log_files import LOG_FOLDER
from tahoe.storage.env import FileInfo, FileReplacedError, Store
from tahoe.storage.threads import CORES, in_threads, on_all_cores

if TYPE_CHECKING:
    import pyarrow.parquet as pq  # it imports the file systems of Arrow

LOCAL_SCHEME = "file://"

# Files with fewer rows are read faster than threads are started.
IN_ONE_GO_ROWS_MAX = 10_000

# A column is read in this many pieces by each core, so that cores finish at about the same time.
_PIECES_PER_CORE = 4

# The errors that Arrow's layers raise for bytes that are not Parquet, or are inconsistent.
UNREADABLE = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    NotImplementedError,
    MemoryError,
    pa.ArrowException,
)

Item = TypeVar("Item")
Result = TypeVar("Result")


def open_parquet(
    store: Store, key: str, metadata: pq.FileMetaData | None = None, *, known: FileInfo | None = None
) -> pq.ParquetFile:
    """Open a file with timestamps in microseconds, as in Delta. In nanoseconds, INT96 could not represent distant
    dates.

    Args:
        metadata: its footer, if it was read before.
        known: what the store returned for the file then; the file must not have been replaced since.

    Raises:
        FileNotFoundError: no such key.
        FileReplacedError: the file was replaced, noticed now or while it is read.
        pyarrow.ArrowInvalid: the file is not Parquet.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 - it imports Arrow's file systems, and a short log needs no Parquet

    is_local = store.url.startswith(LOCAL_SCHEME)
    return pq.ParquetFile(
        _mapped(store, key, known) if is_local else store.open(key, known),
        metadata=metadata,
        pre_buffer=not is_local,  # on object stores each read is a request, so close ranges are combined
        coerce_int96_timestamp_unit="us",
        arrow_extensions_enabled=False,
        page_checksum_verification=key.startswith(LOG_FOLDER),  # the files of the log decide which rows exist
    )


def _mapped(store: Store, key: str, known: FileInfo | None) -> pa.MemoryMappedFile:
    """Memory-map a local file. The mapping keeps its content if the file is replaced, so `known` is compared after
    opening.
    """
    source = pa.memory_map(os.path.join(store.url.removeprefix(LOCAL_SCHEME), key))
    found = None if known is None else store.head(key)
    if known is not None and (found is None or found.identity != known.identity):
        source.close()
        raise FileReplacedError(errno.ESTALE, "the file was replaced", key)
    return source


class NestedColumns:
    """Fields inside the nested structs of one file, or of some of its row groups, each read separately.

    Only a field's own leaves are read, with row groups and fields in parallel: a checkpoint of a million files opens in
    a fraction of a second. The footer is read once and applies only to this file: another writer may replace a
    checkpoint by one of the same name.

    Methods that read raise, in addition to Arrow's errors:
        FileNotFoundError, FileReplacedError: the file was deleted or replaced.
    """

    def __init__(self, store: Store, key: str) -> None:
        self._store, self._key = store, key

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def key(self) -> str:
        return self._key

    @cached_property
    def _footer(self) -> tuple[FileInfo, pq.FileMetaData]:
        known = self._store.head(self._key)
        if known is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._key)
        return known, open_parquet(self._store, self._key, known=known).metadata

    @property
    def footer(self) -> pq.FileMetaData:
        """The footer of the file, with all of its row groups."""
        return self._footer[1]

    @property
    def info(self) -> FileInfo:
        """What the store said of the file when its footer was read."""
        return self._footer[0]

    def within(self, groups: Sequence[int]) -> NestedColumns:
        """The same fields of some row groups, by their numbers in the file."""
        part = NestedColumns(self._store, self._key)
        part.__dict__.update(_footer=self._footer, leaves=self.leaves, groups=tuple(groups))
        return part

    @cached_property
    def groups(self) -> tuple[int, ...]:
        """The row groups, by their numbers in the file."""
        return tuple(range(self.footer.num_row_groups))

    @cached_property
    def group_rows(self) -> npt.NDArray[np.int64]:
        """The number of rows in each row group."""
        return np.array([self.footer.row_group(group).num_rows for group in self.groups], np.int64)

    def open(self) -> pq.ParquetFile:
        """A reader of the file, which must not be shared between threads."""
        known, metadata = self._footer
        return open_parquet(self._store, self._key, metadata, known=known)

    @cached_property
    def leaves(self) -> dict[str, int]:
        """The leaf columns by their dotted paths, with their positions."""
        schema = self.footer.schema
        return {schema.column(i).path: i for i in range(len(schema))}

    @property
    def num_rows(self) -> int:
        return int(self.group_rows.sum())

    def read(self, paths: Sequence[tuple[str, ...]]) -> list[pa.ChunkedArray | None]:
        """The fields at these paths, null where any enclosing struct is null; None for a field that the file does not
        have.
        """
        dotted = [".".join(path) for path in paths]
        found = [self._has(name) for name in dotted]
        if self.num_rows <= IN_ONE_GO_ROWS_MAX:
            columns = [name for name, there in zip(dotted, found, strict=True) if there]
            table = self.open().read_row_groups(self.groups, columns=columns, use_threads=False)
            return [
                _inside_of(table.column(path[0]), path) if there else None
                for path, there in zip(paths, found, strict=True)
            ]
        pieces = self._pieces()
        tasks = [(piece, path) for path, there in zip(paths, found, strict=True) if there for piece in pieces]
        chunks = iter(on_all_cores(self._read_one, tasks))
        return [_chunked([next(chunks) for _ in pieces]) if there else None for there in found]

    def _pieces(self) -> list[tuple[int, ...]]:
        """The row groups in pieces for all cores: opening a file costs as much as reading a small row group."""
        size = -(-len(self.groups) // (_PIECES_PER_CORE * CORES))
        return [self.groups[start : start + size] for start in range(0, len(self.groups), size)]

    def batches(self, parent: str, names: Sequence[str], rows: int) -> Iterator[pa.StructArray]:
        """A struct column in batches of at most `rows` rows, with those of the fields `names` that the file has, in the
        file's order.
        """
        leaves = [f"{parent}.{name}" for name in names if self._has(f"{parent}.{name}")]
        file = self.open()
        for batch in file.iter_batches(rows, row_groups=self.groups, columns=leaves) if leaves else ():
            yield batch.column(0)

    def has(self, path: tuple[str, ...]) -> bool:
        """Whether the file has a field at a path."""
        return self._has(".".join(path))

    @cached_property
    def _type(self) -> pa.DataType:
        """The schema of the file as a struct."""
        return pa.struct(list(self.footer.schema.to_arrow_schema()))

    def type_of(self, path: tuple[str, ...]) -> pa.DataType | None:
        """The type of a field; None if the file does not have it, or if its path leads through a type that is not a
        struct.
        """
        kind = self._type
        for name in path:
            position = kind.get_field_index(name) if pa.types.is_struct(kind) else -1
            if position < 0:
                return None
            kind = kind.field(position).type
        return kind

    def _has(self, name: str) -> bool:
        return name in self.leaves or any(leaf.startswith(name + ".") for leaf in self.leaves)

    def map_batches(
        self, path: tuple[str, ...], work: Callable[[int, pa.ChunkedArray], Result], rows: int
    ) -> list[Result]:
        """Apply `work` to one field in batches of at most `rows` rows, on all cores; an empty list if the file does not
        have the field.

        Args:
            work: takes the position of the batch's first row, and the field.
        """
        if ".".join(path) not in self.leaves:
            return []
        starts = (np.cumsum(self.group_rows) - self.group_rows).tolist()
        groups = list(zip(self.groups, starts, strict=True))
        if len(groups) >= CORES or self.num_rows <= rows:  # every core reads row groups of its own
            found = on_all_cores(lambda group: [work(*batch) for batch in self._batches(path, rows, *group)], groups)
            return [result for results in found for result in results]
        batches = (batch for group in groups for batch in self._batches(path, rows, *group))
        return list(in_threads(lambda batch: work(*batch), batches, CORES))

    def _batches(
        self, path: tuple[str, ...], rows: int, group: int, start: int
    ) -> Iterator[tuple[int, pa.ChunkedArray]]:
        """One field of a row group in batches, each with the position of its first row."""
        for batch in self.open().iter_batches(rows, row_groups=[group], columns=[".".join(path)], use_threads=False):
            yield start, _inside_of(pa.chunked_array([batch.column(0)]), path)
            start += len(batch)

    def _read_one(self, task: tuple[tuple[int, ...], tuple[str, ...]]) -> pa.ChunkedArray:
        groups, path = task
        file = self.open()
        return _inside_of(file.read_row_groups(groups, columns=[".".join(path)], use_threads=False).column(0), path)


def _inside_of(column: pa.ChunkedArray, path: tuple[str, ...]) -> pa.ChunkedArray:
    """The field at a path, from its top-level column."""
    for name in path[1:]:
        column = child(column, name)
    return column


def _chunked(parts: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], type=parts[0].type) if parts else None


def child(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """A field of a struct column, null where the struct is null."""
    position = column.type.get_field_index(name)
    return pa.chunked_array(
        [chunk.flatten()[position] for chunk in column.chunks], type=column.type.field(position).type
    )


def leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """The Parquet leaf columns of a column in canonical form, with their values."""
    kind = values.type
    if pa.types.is_struct(kind):
        for field, child in zip(kind, values.flatten(), strict=True):
            yield from leaves(f"{path}.{field.name}", child)
    elif pa.types.is_map(kind):
        yield from leaves(f"{path}.key_value.key", values.keys)
        yield from leaves(f"{path}.key_value.value", values.items)
    elif pa.types.is_list(kind):
        yield from leaves(f"{path}.list.element", values.values)
    else:
        yield path, values
