"""`tahoe inspect`."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.filesize import decimal as size_text

from tahoe.cli.app import PATH_HELP, AsJson, Options, Timestamp, Version, errors_as_messages, open_snapshot
from tahoe.cli.output import ROWS_SHOWN_MAX, print_json, print_table
from tahoe.cli.values import flat, second, with_numbers
from tahoe.errors.root import nearest
from tahoe.protocol.types.value_texts import cell
from tahoe.table.inspection.inspector import INSPECTIONS
from tahoe.table.reading.plain_values import plain_rows

What = Annotated[
    str,
    typer.Argument(
        metavar="WHAT",
        help=f"One of {', '.join(INSPECTIONS)}.",
        autocompletion=lambda incomplete: [name for name in INSPECTIONS if name.startswith(incomplete)],
    ),
]
Path = Annotated[
    str | None, typer.Argument(metavar="PATH", help=PATH_HELP, show_default=False)
]  # `inspect` tells that it is missing

_BYTES = "_bytes"
_METRICS = "operation_metrics"
_OF_PARTITION = "partition_values."


def inspect(
    what: What,
    path: Path = None,
    version: Version = None,
    timestamp: Timestamp = None,
    as_json: AsJson = False,
    option: Options = None,
) -> None:
    """Print what is in a table: its files, partitions, history, ... Columns without a value are left out; --json prints
    all.
    """
    inspection = INSPECTIONS.get(what.replace("-", "_"))
    if inspection is None:
        raise typer.BadParameter(
            f"expected one of {', '.join(INSPECTIONS)}, found {what!r}{_suggestion(what, path)}", param_hint="WHAT"
        )
    if path is None:
        raise typer.BadParameter(f"a path is missing: tahoe inspect {what} PATH", param_hint="PATH")
    with errors_as_messages():
        found = inspection.of(open_snapshot(path, option, version, timestamp))
    if as_json:
        print_json([_json_row(row) for row in plain_rows(found)])
        return
    shown = _flattened(found.slice(0, ROWS_SHOWN_MAX))
    rows = plain_rows(shown)
    names = [name for name in shown.column_names if not rows or any(row[name] not in (None, {}, []) for row in rows)]
    headings = [name.removeprefix(_OF_PARTITION).replace("size_bytes", "size").replace("_", " ") for name in names]
    right = [
        heading
        for heading, name in zip(headings, names, strict=True)
        if pa.types.is_integer(shown.schema.field(name).type)
    ]
    cells = [[_text(name, row[name]) for name in names] for row in rows]
    print_table(headings, cells, right=right, more=found.num_rows - shown.num_rows)


def _suggestion(what: str, path: str | None) -> str:
    """What to write: the path may have come first, or alone."""
    near = nearest(what, INSPECTIONS)
    if path in INSPECTIONS:
        return f". Write: tahoe inspect {path} {shlex.quote(what)}"
    if path is None and near is None:
        return f". Write what to print before the path, for example: tahoe inspect files {shlex.quote(what)}"
    return "" if near is None else f". Did you mean {near}?"


def _json_row(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, _METRICS: with_numbers(row[_METRICS])} if _METRICS in row else row


def _flattened(table: pa.Table) -> pa.Table:
    """The table with a column for each field of its structs."""
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    return table


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return flat(value)
    if isinstance(value, datetime):
        return second(value)
    return size_text(value) if name.endswith(_BYTES) else cell(value)
