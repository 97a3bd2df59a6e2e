"""`tahoe inspect`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.filesize import decimal as size_text

from tahoe.cli.app import AsJson, Location, Options, Timestamp, Version, errors_as_messages, open_table
from tahoe.cli.output import ROWS_SHOWN_MAX, print_json, print_table
from tahoe.cli.rows import plain_rows
from tahoe.cli.values import cell, flat, second, with_numbers
from tahoe.table.inspection.inspector import INSPECTIONS

What = Annotated[str, typer.Argument(metavar="WHAT", help=f"One of {', '.join(INSPECTIONS)}.")]

_BYTES = "_bytes"
_METRICS = "operation_metrics"
_OF_PARTITION = "partition_values."


def inspect(
    what: What, path: Location, version: Version = None, timestamp: Timestamp = None, as_json: AsJson = False, option: Options = None
) -> None:
    """Print what is in a table: its files, partitions, history, ... Columns without a value are left out; --json prints all."""
    inspection = INSPECTIONS.get(what.replace("-", "_"))
    if inspection is None:
        raise typer.BadParameter(f"expected one of {', '.join(INSPECTIONS)}, found {what!r}", param_hint="WHAT")
    with errors_as_messages():
        found = inspection.of(open_table(path, option).snapshot(version, timestamp))
    if as_json:
        print_json([_json_row(row) for row in plain_rows(found)])
        return
    shown = _flattened(found.slice(0, ROWS_SHOWN_MAX))
    rows = plain_rows(shown)
    names = [name for name in shown.column_names if not rows or any(row[name] not in (None, {}, []) for row in rows)]
    headings = [name.removeprefix(_OF_PARTITION).replace("size_bytes", "size").replace("_", " ") for name in names]
    right = [heading for heading, name in zip(headings, names, strict=True) if pa.types.is_integer(shown.schema.field(name).type)]
    cells = [[_text(name, row[name]) for name in names] for row in rows]
    print_table(headings, cells, right=right, more=found.num_rows - shown.num_rows)


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
