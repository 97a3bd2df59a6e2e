"""Runs DuckDB's SQL over Delta tables. Rows come from the reader without Spark, so deletion vectors and column mapping are applied.

It knows nothing of the command line. It is imported only when a query is run, because DuckDB is an optional package.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import sqlglot

from tahoe.errors import DeltaAnalysisError, QueryFailedError
from tahoe.table.arrow.conditions import columns_in
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import Snapshot


class SnapshotDataset(ds.Dataset):  # type: ignore[misc]  # DuckDB asks only what is a Dataset for columns and conditions
    """A version of a table as DuckDB reads it: it asks for the columns that a query needs, and leaves simple conditions to the reader."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @property
    def schema(self) -> pa.Schema:
        return self._snapshot.to_batches(limit=0).schema

    def scanner(self, columns: Sequence[str] | None = None, filter: ds.Expression | None = None, **_: Any) -> ds.Scanner:
        wanted = self.schema.names if columns is None else list(columns)
        needed = wanted if filter is None else [*wanted, *(name for name in columns_in(filter, self.schema.names) if name not in wanted)]
        return ds.Scanner.from_batches(self._scan(filter).to_batches(needed), columns=wanted, filter=filter)

    def _scan(self, filter: ds.Expression | None) -> Scan:
        """The files that may have matching rows; all files if the filter has parts that statistics cannot answer."""
        try:
            return self._snapshot.scan(filter)
        except DeltaAnalysisError:
            return self._snapshot.scan()


def tables_in(query: str) -> list[str]:
    """The names of tables in a query, in alphabetical order."""
    try:
        parsed = sqlglot.parse(query, read="duckdb")
    except sqlglot.errors.SqlglotError:  # DuckDB says what is wrong
        return []
    return sorted({table.name for statement in parsed if statement for table in statement.find_all(sqlglot.exp.Table) if not table.db})


@contextmanager
def run_query(query: str, tables: Mapping[str, Snapshot]) -> Iterator[pa.RecordBatchReader]:
    """The rows of a query over tables, which have these names in it.

    Raises:
        QueryFailedError: the query is wrong, or fails.
    """
    with _errors(tables), duckdb.connect(config={"python_enable_replacements": "false"}) as connection:
        for name, snapshot in tables.items():
            connection.register(name, SnapshotDataset(snapshot))
        relation = connection.sql(query)
        if relation is None:
            raise QueryFailedError(table=_told(tables), detail="it has no result.")
        yield relation.to_arrow_reader()


@contextmanager
def _errors(tables: Iterable[str]) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise QueryFailedError(table=_told(tables), detail=str(error)) from error


def _told(tables: Iterable[str]) -> str:
    return ", ".join(tables) or "no table"
