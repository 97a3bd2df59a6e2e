"""`tahoe sql`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer

from tahoe.cli.app import AsJson, Options, Timestamp, Version, errors_as_messages, key_value, open_snapshot
from tahoe.cli.output import ROWS_SHOWN_MAX, open_console, print_json_list
from tahoe.cli.row_files import Format, Output, format_of, write_rows
from tahoe.cli.rows import print_rows
from tahoe.errors import PackageMissingError
from tahoe.table.reading.plain_values import plain_rows

if TYPE_CHECKING:
    from tahoe.table.reading.snapshot import Snapshot

Query = Annotated[
    str, typer.Argument(metavar="QUERY", help="A query in DuckDB's SQL, such as \"select count(*) from '/data/t'\".")
]
Tables = Annotated[
    list[str] | None,
    typer.Option("--table", metavar="NAME=PATH", help="A name for a table in the query; may be repeated."),
]


def sql(
    query: Query,
    table: Tables = None,
    version: Version = None,
    timestamp: Timestamp = None,
    as_json: AsJson = False,
    form: Format = None,
    output: Output = None,
    option: Options = None,
) -> None:
    """Run a query over tables, with DuckDB. Its first rows are printed, or all of them written.

    A table is a path with a slash or a url, in quotes, or a name that --table gives it. Only the columns that the query
    needs are read. Install DuckDB with: pip install duckdb
    """
    chosen = format_of(form, output, as_json=as_json)
    named = dict(key_value(text, "--table") for text in table or ())
    if find_spec("duckdb") is None:
        with errors_as_messages():
            raise PackageMissingError(table="tahoe sql", what="a query", package="duckdb")
    from tahoe.cli.duckdb_queries import run_query, tables_in  # noqa: PLC0415  an optional package

    places = {name: named.get(name, name) for name in tables_in(query) if name in named or "/" in name}
    if (version is not None or timestamp is not None) and len(places) != 1:
        raise typer.BadParameter(
            f"it needs a query of one table, found {len(places)}", param_hint="--version, --timestamp"
        )
    with errors_as_messages():
        snapshots: dict[str, Snapshot] = {
            name: open_snapshot(place, option, version, timestamp) for name, place in places.items()
        }
        with run_query(query, snapshots) as reader:
            if chosen is not None:
                write_rows(reader, chosen, output)
            elif as_json:
                print_json_list(chain.from_iterable(plain_rows(pa.table(batch)) for batch in reader))
            else:
                _print_first(reader)


def _print_first(reader: pa.RecordBatchReader) -> None:
    rows = pa.Table.from_batches(_until(reader, ROWS_SHOWN_MAX + 1), schema=reader.schema)
    print_rows(rows.slice(0, ROWS_SHOWN_MAX))
    if rows.num_rows > ROWS_SHOWN_MAX:
        open_console().print("and more; --format csv or --json prints all")


def _until(reader: pa.RecordBatchReader, enough: int) -> Iterator[Any]:
    """Batches until there are enough rows."""
    count = 0
    while count < enough and (batch := next(reader, None)) is not None:
        count += batch.num_rows
        yield batch
