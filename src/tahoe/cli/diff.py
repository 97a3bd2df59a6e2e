"""`tahoe diff`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tahoe.cli.app import AsJson, Location, Options, errors_as_messages, open_table
from tahoe.cli.output import json_text, open_console, print_table, printable
from tahoe.cli.rows import is_number
from tahoe.protocol.types.value_texts import cell
from tahoe.table.difference.compared import ROWS_SHOWN
from tahoe.table.difference.difference import TableDifference
from tahoe.table.difference.page import file_lines, updated_texts
from tahoe.table.reading.plain_values import first_rows


class DiffFormat(StrEnum):
    """How a difference is printed."""

    TABLE = "table"
    JSON = "json"
    HTML = "html"


From = Annotated[str, typer.Option("--from", metavar="VERSION", help="The version to compare with, or its tag.")]
To = Annotated[
    str | None, typer.Option("--to", metavar="VERSION", help="The other version, or its tag; default: the newest.")
]
Keys = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="COLUMN", help="Column that identifies a row; may be repeated."),
]
Limit = Annotated[int, typer.Option("--limit", min=0, help="Show at most this many rows of each kind.")]
Format = Annotated[DiffFormat, typer.Option("--format", help="How the difference is printed.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", metavar="FILE", help="Write it into this file: a page, or JSON if its name ends so."),
]


def diff(
    path: Location,
    start: From,
    end: To = None,
    key: Keys = None,
    limit: Limit = ROWS_SHOWN,
    form: Format = DiffFormat.TABLE,
    as_json: AsJson = False,
    output: Output = None,
    option: Options = None,
) -> None:
    """Tell what differs between two versions: rows, columns, properties, protocol and files.

    Needs no change data feed, and reads only files that the versions do not share. Rows are matched by --key; without
    it by their ids, if the table has row tracking; or else as whole rows, of which none is an update. The numbers of
    rows are exact, whatever --limit shows.
    """
    if as_json or (output is not None and output.suffix == ".json"):
        form = DiffFormat.JSON
    elif output is not None:
        form = DiffFormat.HTML
    with errors_as_messages():
        found = open_table(path, option).diff(start, end, keys=key or ())
        match form:
            case DiffFormat.TABLE:
                _print(found, limit)
            case DiffFormat.JSON:
                _put(json_text(found.to_dict(limit)), output)
            case DiffFormat.HTML:
                _put(found.html(limit), output)


def _put(text: str, output: Path | None) -> None:
    if output is None:
        print(text, end="" if text.endswith("\n") else "\n", flush=True)
        return
    output.write_text(text, encoding="utf-8")
    open_console().print(f"[bold]{printable(str(output))}[/] has the difference")


def _print(found: TableDifference, limit: int) -> None:
    counts, console = found.counts, open_console()
    by = ", ".join(found.keys) if found.keys else found.matched_by
    told = [f"{counts.inserted:,} inserted", f"{counts.deleted:,} deleted"]
    told += [] if found.matched_by == "whole rows" else [f"{counts.updated:,} updated"]
    console.print(f"[bold]version {found.before.version} to {found.after.version}[/], rows by {printable(by)}")
    console.print(f"rows: {', '.join(told)}")
    if found.updated_columns:
        changed = ", ".join(f"{printable(name)} in {count:,}" for name, count in found.updated_columns.items())
        console.print(f"updated columns: {changed}")
    schema = found.inserted_batches().schema
    names, numbers = schema.names, [field.name for field in schema if is_number(field.type)]
    inserted, deleted = (
        [[cell(value) for value in row.values()] for row in first_rows(reader, limit)]
        for reader in (found.inserted_batches(), found.deleted_batches())
    )
    columns = [(each.column, each.kind, each.before, each.after) for each in found.schema]
    parts: list[tuple[str, Sequence[str], Sequence[Sequence[str | None]], int]] = [
        ("inserted rows", names, inserted, counts.inserted),
        ("deleted rows", names, deleted, counts.deleted),
        ("updated rows", names, list(updated_texts(found, limit)), counts.updated),
        ("columns", ("column", "what", "before", "after"), columns, len(columns)),
    ]
    for title, changes in (("properties", found.properties), ("protocol", found.protocol), ("layout", found.layout)):
        texts = [(each.name, each.before, each.after) for each in changes]
        parts.append((title, ("name", "before", "after"), texts, len(texts)))
    files = file_lines(found)
    for title, headings, rows, count in (*parts, ("files", ("files", "count", "size"), files, len(files))):
        if rows:
            console.print(f"\n[bold]{title}[/]")
            print_table(
                headings, rows, right=("count", "size") if title == "files" else numbers if headings is names else ()
            )
            if count > len(rows):
                console.print(f"and {count - len(rows):,} more; --limit shows more")
