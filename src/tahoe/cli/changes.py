"""`tahoe changes`."""

from __future__ import annotations

from typing import Annotated

import typer

from tahoe.cli.app import AsJson, Location, Options, errors_as_messages, open_table
from tahoe.cli.output import ROWS_SHOWN_MAX, print_json
from tahoe.cli.rows import print_rows
from tahoe.table.reading.plain_values import plain_rows

From = Annotated[str, typer.Option("--from", metavar="VERSION", help="First version, or its tag.")]


To = Annotated[
    str | None, typer.Option("--to", metavar="VERSION", help="Last version, or its tag; default: the newest.")
]


RowsWhere = Annotated[str | None, typer.Option("--where", metavar="SQL", help="Only rows that match this condition.")]


RowLimit = Annotated[
    int | None, typer.Option("--limit", min=1, help="Print at most this many rows, oldest version first.")
]


def changes(
    path: Location,
    start: From,
    end: To = None,
    where: RowsWhere = None,
    as_json: AsJson = False,
    option: Options = None,
    limit: RowLimit = None,
) -> None:
    """Print the rows that were inserted, updated or deleted from --from to --to. Needs the change data feed."""
    with errors_as_messages():
        rows = open_table(path, option).changes(start_version=start, end_version=end, filter=where).slice(0, limit)
    if as_json:
        print_json(plain_rows(rows))
        return
    shown = rows.slice(0, ROWS_SHOWN_MAX)
    print_rows(shown, more=rows.num_rows - shown.num_rows)
