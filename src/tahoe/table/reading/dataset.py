"""A version of a table as a `pyarrow.dataset.Dataset`.

DuckDB, Polars and other consumers of data sets ask it for the columns that a query needs, and leave conditions to it:
files are left out by partition values and statistics, deletion vectors and column mapping are applied. It has no
fragments: their readers would know neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from tahoe.errors import UnsupportedOperationError
from tahoe.events.listeners import now
from tahoe.protocol.types.predicate import And
from tahoe.table.arguments import COUNT, FILTER, takes
from tahoe.table.arrow.chunks import reordered_table
from tahoe.table.reading.filters import Filter, predicate_of
from tahoe.table.reading.scan import Scan, plan_scan, told_plan

Columns: TypeAlias = "Sequence[str] | Mapping[str, pc.Expression] | None"
"""Names of columns, expressions by the names of new columns, or None for all columns."""


# The only file of the data set in C++. Functions that pass by the methods below would end the process if there were no
# data set in C++, and lose the rows if it were empty; so they fail, and say why.
_FILE = "this data set is read by its own methods: scanner(), to_batches(), to_table()"


class TableDataset(ds.FileSystemDataset):  # type: ignore[misc]  # pyarrow has no types
    """The rows of a version, for consumers of data sets. Made by `Table.to_pyarrow_dataset`. No method of the base
    class is left as it is.

    Args:
        full_scan: the scan of all files of the version.
        filters: conditions that every row satisfies.

    Conditions may be those of `pyarrow.compute`, and all others that `Snapshot.scan` takes. Of the options of pyarrow's
    scanner, `batch_size` is kept; the others are about the reading of files, and have no effect.
    """

    def __init__(self, full_scan: Scan, filters: Sequence[Filter] = ()) -> None:
        self._full_scan, self._filters = full_scan, tuple(filters)
        nothing = ds.ParquetFileFormat().make_fragment(_FILE, LocalFileSystem())
        super().__init__([nothing], self.schema, nothing.format)

    def __repr__(self) -> str:
        return f"TableDataset({self.url!r}, version={self._full_scan.snapshot.version})"

    @property
    def url(self) -> str:
        return self._full_scan.url

    @property
    def schema(self) -> pa.Schema:
        return self._full_scan.to_batches(limit=0).schema

    @property
    def partition_expression(self) -> pc.Expression:
        """What is true for all rows: nothing is known."""
        return pc.scalar(True)

    # --- rows

    @takes(filter=FILTER)
    def scanner(
        self, columns: Columns = None, filter: Filter | None = None, batch_size: int | None = None, **_: object
    ) -> ds.Scanner:
        """A scanner of the rows, which can be read once. Files are read when their rows are asked for.

        Raises:
            ColumnNotFoundError, InvalidPredicateError: a column or the condition does not fit the schema.
        """
        if isinstance(columns, Mapping):
            return ds.Scanner.from_batches(self._reader(None, filter, batch_size), columns=dict(columns))
        return ds.Scanner.from_batches(self._reader(columns, filter, batch_size))

    @takes(filter=FILTER)
    def to_batches(
        self, columns: Columns = None, filter: Filter | None = None, batch_size: int | None = None, **_: object
    ) -> Iterator[pa.RecordBatch]:
        """The rows as batches, which are read as they are asked for."""
        if isinstance(columns, Mapping):
            return iter(self.scanner(columns, filter, batch_size).to_reader())
        return iter(self._reader(columns, filter, batch_size))

    @takes(filter=FILTER)
    def to_table(self, columns: Columns = None, filter: Filter | None = None, **_: object) -> pa.Table:
        """The rows as a table."""
        if isinstance(columns, Mapping):
            return self.scanner(columns, filter).to_table()
        return self._scan(filter).to_arrow(columns)

    @takes(num_rows=COUNT, filter=FILTER)
    def head(self, num_rows: int, columns: Columns = None, filter: Filter | None = None, **_: object) -> pa.Table:
        """The first rows, in the order of the files; no further file is read."""
        if isinstance(columns, Mapping):
            return self.scanner(columns, filter).head(num_rows)
        return self._scan(filter).head(num_rows, columns)

    @takes(filter=FILTER)
    def take(self, indices: Any, columns: Columns = None, filter: Filter | None = None, **_: object) -> pa.Table:
        """Some of the rows, by their positions."""
        return reordered_table(self.to_table(columns, filter), pa.array(indices))

    @takes(filter=FILTER)
    def count_rows(self, filter: Filter | None = None, **_: object) -> int:
        """The number of rows: without a condition from the log."""
        return self._scan(filter).count()

    @takes(expression=FILTER)
    def filter(self, expression: Filter) -> TableDataset:
        """The data set with the rows for which a condition is true."""
        return TableDataset(self._full_scan, [*self._filters, expression])

    def _scan(self, filter: Filter | None) -> Scan:
        snapshot, filters = self._full_scan.snapshot, self._filters if filter is None else (*self._filters, filter)
        parts = [predicate_of(each, snapshot.schema, zone=snapshot.log.zone, table=snapshot.url) for each in filters]
        begun, scan = now(), plan_scan(And(tuple(parts)), self._full_scan) if parts else self._full_scan
        told_plan(snapshot.version, [scan], begun)
        return scan

    def _reader(
        self, columns: Sequence[str] | None, filter: Filter | None, batch_size: int | None
    ) -> pa.RecordBatchReader:
        reader = self._scan(filter).to_batches(columns)
        if batch_size is None:
            return reader
        parts = (batch.slice(start, batch_size) for batch in reader for start in range(0, batch.num_rows, batch_size))
        return pa.RecordBatchReader.from_batches(reader.schema, parts)

    # --- what pyarrow does with all rows in memory

    def join(self, *arguments: Any, **options: Any) -> ds.Dataset:
        """As `pyarrow.dataset.Dataset.join`; all rows are read into memory."""
        return self._in_memory().join(*arguments, **options)

    def join_asof(self, *arguments: Any, **options: Any) -> ds.Dataset:
        """As `pyarrow.dataset.Dataset.join_asof`; all rows are read into memory."""
        return self._in_memory().join_asof(*arguments, **options)

    def sort_by(self, *arguments: Any, **options: Any) -> ds.Dataset:
        """As `pyarrow.dataset.Dataset.sort_by`; all rows are read into memory."""
        return self._in_memory().sort_by(*arguments, **options)

    def _in_memory(self) -> ds.Dataset:
        return ds.dataset(self.to_table())

    # --- what a table cannot offer

    def get_fragments(self, *_: object, **__: object) -> NoReturn:
        """
        Raises:
            UnsupportedOperationError: always.
        """
        raise self._refusal("get_fragments", "readers of its files apply neither deletion vectors nor column mapping")

    _get_fragments = get_fragments

    def replace_schema(self, *_: object) -> NoReturn:
        """
        Raises:
            UnsupportedOperationError: always.
        """
        raise self._refusal("replace_schema", "the schema is the table's")

    def __reduce__(self) -> NoReturn:
        raise self._refusal("pickle", "it holds an open connection to the table's storage")

    def _refusal(self, operation: str, detail: str) -> UnsupportedOperationError:
        return UnsupportedOperationError(
            operation=f"TableDataset.{operation}",
            table=self.url,
            detail=detail,
            remedy="Use scanner(), to_batches() or to_table(). Another process opens the table by its url.",
        )
