"""Runs DuckDB's SQL over Delta tables. Rows come from the reader without Spark, so deletion vectors and column mapping
are applied.

It knows nothing of the command line. It is imported only when a query is run, because DuckDB is an optional package.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import duckdb
import pyarrow as pa
import sqlglot

from tahoe.errors import QueryFailedError
from tahoe.table.reading.snapshot import Snapshot


def tables_in(query: str) -> list[str]:
    """The names of tables in a query, in alphabetical order."""
    try:
        parsed = sqlglot.parse(query, read="duckdb")
    except sqlglot.errors.SqlglotError:  # DuckDB says what is wrong
        return []
    return sorted(
        {
            table.name
            for statement in parsed
            if statement
            for table in statement.find_all(sqlglot.exp.Table)
            if not table.db
        }
    )


@contextmanager
def run_query(query: str, tables: Mapping[str, Snapshot]) -> Iterator[pa.RecordBatchReader]:
    """The rows of a query over tables, which have these names in it.

    Raises:
        QueryFailedError: the query is wrong, or fails.
    """
    with _errors(tables), duckdb.connect(config={"python_enable_replacements": "false"}) as connection:
        for name, snapshot in tables.items():
            connection.register(name, snapshot.to_pyarrow_dataset())
        relation = connection.sql(query)
        if relation is None:
            raise QueryFailedError(table=_names_text(tables), detail="it has no result.")
        yield relation.to_arrow_reader()


@contextmanager
def _errors(tables: Iterable[str]) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise QueryFailedError(table=_names_text(tables), detail=str(error)) from error


def _names_text(tables: Iterable[str]) -> str:
    return ", ".join(tables) or "none"
