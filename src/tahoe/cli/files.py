"""`tahoe files`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.filesize import decimal as size_text

from tahoe.cli.app import AsJson, Location, Options, Timestamp, Version, errors_as_messages, open_snapshot
from tahoe.cli.output import ROWS_SHOWN_MAX, open_console, print_json, print_table
from tahoe.protocol.configuration.column_mapping import physical_path
from tahoe.protocol.types.predicate import columns_of
from tahoe.protocol.types.schema import VARIANT, DataType
from tahoe.protocol.types.value_texts import cell
from tahoe.table.arrow.chunks import taken_table
from tahoe.table.arrow.statistics import StatisticsRequest, column_name
from tahoe.table.reading.plain_values import plain_rows
from tahoe.table.reading.scan import Scan

Where = Annotated[
    str | None,
    typer.Option("--where", metavar="SQL", help="Only files that may contain rows that match this condition."),
]


def files(
    path: Location,
    where: Where = None,
    version: Version = None,
    timestamp: Timestamp = None,
    as_json: AsJson = False,
    option: Options = None,
) -> None:
    """List the data files; with --where, only those that data skipping keeps."""
    with errors_as_messages():
        scan = open_snapshot(path, option, version, timestamp).scan(where)
        rows = _file_rows(scan, None if as_json else ROWS_SHOWN_MAX)
    if as_json:
        print_json(rows)
        return
    columns = list(_predicate_columns(scan))
    cells = [_file_cells(row, scan.snapshot.partition_columns, columns) for row in rows]
    headings = ["file", "size", "rows", "deleted", *scan.snapshot.partition_columns]
    headings += [f"{bound} {name}" for name in columns for bound in ("min", "max")]
    print_table(headings, cells, right=["size", "rows", "deleted"], more=scan.kept_files - len(rows))
    share = f", {100 - 100 * scan.kept_files / scan.total_files:.1f} % skipped" if where and scan.total_files else ""
    open_console().print(
        f"[bold]{scan.kept_files} of {scan.total_files} files kept[/]{share}, {size_text(scan.size_bytes)}"
    )


def _file_rows(scan: Scan, limit: int | None) -> list[dict[str, Any]]:
    """The files that skipping keeps, each with the bounds of the columns in the filter."""
    rows: list[dict[str, Any]] = plain_rows(scan.listing().slice(0, limit))
    columns = _predicate_columns(scan)
    if not columns:
        return rows
    statistics = scan.snapshot.live.statistics(StatisticsRequest(dict(columns.values())))
    kept = plain_rows(
        (statistics if scan.file_positions is None else taken_table(statistics, scan.file_positions)).slice(0, limit)
    )
    for row, found in zip(rows, kept, strict=True):
        row["statistics"] = {
            name: {bound: found.get(column_name(bound, path)) for bound in ("min", "max")}
            for name, (path, _) in columns.items()
        }
    return rows


def _predicate_columns(scan: Scan) -> dict[str, tuple[tuple[str, ...], DataType]]:
    """The data columns in the filter: physical path and type, by name."""
    snapshot = scan.snapshot
    found: dict[str, tuple[tuple[str, ...], DataType]] = {}
    for column in columns_of(scan.predicate) if scan.predicate is not None else ():
        fields = snapshot.schema.resolve(column.path)
        physical = physical_path(snapshot.schema, column.path, snapshot.column_mapping_mode)
        if fields is None or physical is None or column.path[0] in snapshot.partition_columns:
            continue
        if fields[-1].type != VARIANT:
            found[".".join(column.path)] = (physical, fields[-1].type)
    return found


def _file_cells(row: Mapping[str, Any], partition_columns: Sequence[str], columns: Sequence[str]) -> list[Any]:
    partition = [cell(row["partition_values"][name]) for name in partition_columns]
    bounds = [cell(row["statistics"][name][bound]) for name in columns for bound in ("min", "max")]
    return [
        row["path"],
        size_text(row["size_bytes"]),
        row["num_records"],
        row["deleted_records"] or "",
        *partition,
        *bounds,
    ]
