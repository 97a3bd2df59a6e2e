"""`tahoe head`."""

from __future__ import annotations

from typing import Annotated

import typer

from tahoe.cli.app import AsJson, Location, Options, Timestamp, Version, errors_as_messages, open_snapshot
from tahoe.cli.output import print_json
from tahoe.cli.row_files import Format, Output, format_of, write_rows
from tahoe.cli.rows import print_rows
from tahoe.table.reading.plain_values import plain_rows

Rows = Annotated[int, typer.Option("--rows", "-n", min=1, help="How many rows.")]
Columns = Annotated[
    list[str] | None, typer.Option("--column", metavar="NAME", help="Only this column; may be repeated. Default: all.")
]
Where = Annotated[str | None, typer.Option("--where", metavar="SQL", help="Only rows that match this condition.")]


def head(
    path: Location,
    rows: Rows = 10,
    column: Columns = None,
    where: Where = None,
    version: Version = None,
    timestamp: Timestamp = None,
    as_json: AsJson = False,
    form: Format = None,
    output: Output = None,
    option: Options = None,
) -> None:
    """Print the first rows, in the order of the files. No further file is read."""
    chosen = format_of(form, output, as_json=as_json)
    with errors_as_messages():
        found = open_snapshot(path, option, version, timestamp).head(rows, column, where)
    if chosen is not None:
        write_rows(found.to_reader(), chosen, output)
    elif as_json:
        print_json(plain_rows(found))
    else:
        print_rows(found)
