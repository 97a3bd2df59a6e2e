"""The command line: `tahoe show | history | files | schema | changes | check PATH`. It calls the table ring and prints; it decides nothing.

Output is tables for people, and JSON for programs (`--json`). The exit code is 0 on success, 1 if `check` finds an error, and 2 if the
command fails.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from typing import IO, Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.cells import cell_len
from rich.console import Console
from rich.filesize import decimal as size_text
from rich.markup import escape
from rich.table import Table as RichTable

from tahoe import errors
from tahoe._version import VERSION
from tahoe.protocol.column_mapping import physical_path
from tahoe.protocol.partitions import format_partition_value
from tahoe.protocol.predicate import columns_of
from tahoe.protocol.schema import DATE, TIMESTAMP, TIMESTAMP_NTZ, DataType, Struct
from tahoe.table.arrow.chunks import taken_table
from tahoe.table.arrow.statistics import StatisticsRequest, column_name
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.table import Table
from tahoe.table.verify.check import check_table
from tahoe.table.verify.findings import Finding, Severity

# People do not read longer tables; --json prints all rows.
ROWS_SHOWN_MAX = 100

# The width for output to a file or a pipe: its reader can cut long lines, but cannot join broken ones.
_PLAIN_WIDTH = 1_000_000

# The least width of a readable column. On a terminal too narrow for the columns, rows are printed vertically.
_READABLE_WIDTH = 12

# Control characters, line ends, marks of text direction, and surrogates: characters that could steer the terminal.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="Inspect Delta tables, without Spark.")

_PATH_HELP = "Path or URL of the table: /data/t, s3://bucket/t, abfss://container@account.dfs.core.windows.net/t"
Location = Annotated[str, typer.Argument(metavar="PATH", help=_PATH_HELP)]
Version = Annotated[int | None, typer.Option("--version", help="Version of the table; default: the newest.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Where = Annotated[str | None, typer.Option("--where", metavar="SQL", help="Only files that may contain rows that match this condition.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Print at most this many commits, newest first.")]
From = Annotated[int, typer.Option("--from", metavar="VERSION", help="First version.")]
To = Annotated[int | None, typer.Option("--to", metavar="VERSION", help="Last version; default: the newest.")]
RowsWhere = Annotated[str | None, typer.Option("--where", metavar="SQL", help="Only rows that match this condition.")]
RowLimit = Annotated[int | None, typer.Option("--limit", min=1, help="Print at most this many rows, oldest version first.")]
Options = Annotated[list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="Storage option; may be repeated.")]


def main() -> None:
    """The entry point of the command `tahoe`."""
    _prepare_output()
    try:
        app()
    except OSError as error:  # typer handles closed pipes; this is for example a full disk
        print(f"tahoe: {error}", file=sys.stderr)
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  the buffered rest cannot be written at exit either
        raise SystemExit(2) from error


def _prepare_output() -> None:
    """Print characters that the terminal lacks as escapes, and replace closed streams by the null device."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  for the life of the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"tahoe {VERSION}")
        raise typer.Exit


OwnVersion = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print tahoe's version and exit.")]


@app.callback()
def _root(_: OwnVersion = False) -> None:
    """Separates the options of `tahoe` itself from the commands."""


# --- the commands


@app.command()
def show(path: Location, version: Version = None, as_json: AsJson = False, option: Options = None) -> None:
    """Show a table's location, version, size, protocol, features and properties."""
    with _errors_as_messages():
        facts = _facts(_open(path, option).snapshot(version))
    if as_json:
        _print_json(facts)
        return
    grid = _grid()
    for name, value in facts.items():
        if value not in (None, [], {}):
            grid.add_row(name.replace("_", " "), _printable(_fact_text(name, value), lines=True))
    _console().print(grid)


@app.command()
def history(path: Location, version: Version = None, as_json: AsJson = False, option: Options = None, limit: Limit = None) -> None:
    """List the commits, newest first, up to --version."""
    with _errors_as_messages():
        table = _open(path, option)
        last = table.snapshot(version).version
        skipped = table.snapshot().version - last
        commits = table.history(None if limit is None else limit + skipped)[skipped:]
    if as_json:
        _print_json(commits)
        return
    free = ("operation", "operationParameters", "operationMetrics")
    rows = [(c["version"], _moment(c["timestamp"]), *(_flat(c.get(name)) for name in free)) for c in commits]
    _print_table(["version", "timestamp", "operation", "parameters", "metrics"], rows, right=["version"])


@app.command()
def files(path: Location, where: Where = None, version: Version = None, as_json: AsJson = False, option: Options = None) -> None:
    """List the data files; with --where, only those that data skipping keeps."""
    with _errors_as_messages():
        scan = _open(path, option).snapshot(version).scan(where)
        rows = _file_rows(scan, None if as_json else ROWS_SHOWN_MAX)
    if as_json:
        _print_json({"total": scan.total_files, "kept": scan.kept_files, "size_bytes": scan.size_bytes, "files": rows})
        return
    columns = list(_predicate_columns(scan))
    cells = [_file_cells(row, scan.snapshot.partition_columns, columns) for row in rows]
    headings = ["file", "size", "rows", "deleted", *scan.snapshot.partition_columns]
    headings += [f"{bound} {name}" for name in columns for bound in ("min", "max")]
    _print_table(headings, cells, right=["size", "rows", "deleted"], more=scan.kept_files - len(rows))
    share = f", {100 - 100 * scan.kept_files / scan.total_files:.1f} % skipped" if where and scan.total_files else ""
    _console().print(f"[bold]{scan.kept_files} of {scan.total_files} files kept[/]{share}, {size_text(scan.size_bytes)}")


@app.command()
def schema(path: Location, version: Version = None, as_json: AsJson = False, option: Options = None) -> None:
    """List the columns. --json prints the schema as it is in the log."""
    with _errors_as_messages():
        snapshot = _open(path, option).snapshot(version)
    if as_json:
        _print_json(json.loads(snapshot.metadata.schema_string))
        return
    _print_table(["column", "type", "nullable", "partition", "comment"], _schema_rows(snapshot.schema, snapshot.partition_columns))


@app.command()
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
    with _errors_as_messages():
        rows = _open(path, option).changes(start_version=start, end_version=end, filter=where).slice(0, limit)
    if as_json:
        _print_json(_plain_rows(rows))
        return
    shown = rows.slice(0, ROWS_SHOWN_MAX)
    cells = [[_cell(value) for value in row.values()] for row in _plain_rows(shown)]
    numbers = [field.name for field in rows.schema if pa.types.is_integer(field.type)]
    _print_table(rows.column_names, cells, right=numbers, more=rows.num_rows - shown.num_rows)


@app.command()
def check(path: Location, version: Version = None, as_json: AsJson = False, option: Options = None) -> None:
    """Verify a table and print each problem when it is found; --json prints one object per line.

    Reads the whole log, the footer of every data file, and every deletion vector.
    """
    counts = dict.fromkeys(Severity, 0)
    with _errors_as_messages():
        for found in check_table(_open(path, option).log, version):
            counts[found.severity] += 1
            if as_json:
                _print_json(_finding_json(found), indent=None)
            else:
                _print_finding(found)
    if not as_json:
        said = ", ".join(f"{n} {severity.value}{'' if n == 1 else 's'}" for severity, n in counts.items())
        _console().print(f"[bold]{'Nothing is wrong' if not sum(counts.values()) else said}[/]")
    raise typer.Exit(1 if counts[Severity.ERROR] else 0)


# --- asking


def _open(path: str, option: Sequence[str] | None) -> Table:
    return Table(path, dict(_setting(text) for text in option or ()))


def _setting(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise typer.BadParameter(f"expected KEY=VALUE, found {text!r}", param_hint="--option")
    return key, value


@contextmanager
def _errors_as_messages() -> Iterator[None]:
    """Print an error of tahoe as a message without a stack trace, and exit with 2."""
    try:
        yield
    except errors.DeltaError as error:
        _console(sys.stderr).print(f"[bold red]{_printable(str(error), lines=True)}[/]")
        raise typer.Exit(2) from error


def _facts(snapshot: Snapshot) -> dict[str, Any]:
    listing = snapshot.files()
    protocol = snapshot.protocol
    num_records, deleted = listing.column("num_records"), listing.column("deleted_records")
    rows = None if num_records.null_count else (pc.sum(num_records).as_py() or 0) - (pc.sum(deleted).as_py() or 0)
    return {
        "location": snapshot.url,
        "version": snapshot.version,
        "timestamp": datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC),
        "name": snapshot.metadata.name,
        "description": snapshot.metadata.description,
        "id": snapshot.metadata.id,
        "files": listing.num_rows,
        "size_bytes": snapshot.live.size_bytes,
        "rows": rows,
        "columns": len(snapshot.schema),
        "partition_columns": list(snapshot.partition_columns),
        "column_mapping": snapshot.column_mapping_mode,
        "protocol": {"reader": protocol.reader_version, "writer": protocol.writer_version},
        "features": sorted((protocol.reader_features or frozenset()) | (protocol.writer_features or frozenset())),
        "properties": dict(snapshot.properties),
    }


def _file_rows(scan: Scan, limit: int | None) -> list[dict[str, Any]]:
    """The files that skipping keeps, each with the bounds of the columns in the filter."""
    rows: list[dict[str, Any]] = _plain_rows(scan.listing().drop_columns(["stats"]).slice(0, limit))
    columns = _predicate_columns(scan)
    if not columns:
        return rows
    statistics = scan.snapshot.live.statistics(StatisticsRequest(dict(columns.values())))
    kept = _plain_rows((statistics if scan.rows is None else taken_table(statistics, scan.rows)).slice(0, limit))
    for row, found in zip(rows, kept, strict=True):
        row["statistics"] = {
            name: {bound: found.get(column_name(bound, path)) for bound in ("min", "max")} for name, (path, _) in columns.items()
        }
    return rows


def _predicate_columns(scan: Scan) -> dict[str, tuple[tuple[str, ...], DataType]]:
    """The data columns in the filter: physical path and type, by name."""
    snapshot = scan.snapshot
    found: dict[str, tuple[tuple[str, ...], DataType]] = {}
    for column in columns_of(scan.predicate) if scan.predicate is not None else ():
        fields = snapshot.schema.resolve(column.path)
        physical = physical_path(snapshot.schema, column.path, snapshot.column_mapping_mode)
        if fields is not None and physical is not None and column.path[0] not in snapshot.partition_columns:
            found[".".join(column.path)] = (physical, fields[-1].type)
    return found


def _schema_rows(schema: Struct, partition_columns: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for field in schema:
        comment = field.metadata.get("comment")
        yield (
            field.name,
            str(field.type),
            "" if field.nullable else "not null",
            "yes" if field.name in partition_columns else "",
            str(comment or ""),
        )


# --- printing


def _console(file: IO[str] | None = None) -> Console:
    """A console for standard output or a file. Output to a pipe has practically unlimited width, so that no line is broken."""
    file = sys.stdout if file is None else file
    return Console(file=file, width=None if file.isatty() else _PLAIN_WIDTH, highlight=False)


def _printable(text: str, *, lines: bool = False) -> str:
    """Text from a table, safe for a terminal: markup is escaped, and characters that could steer the terminal are printed as escapes."""
    return escape(_UNPRINTABLE.sub(lambda found: found[0] if lines and found[0] == "\n" else ascii(found[0])[1:-1], text))


def _grid() -> RichTable:
    """A grid of names and values."""
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _print_table(headings: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[str] = (), more: int = 0) -> None:
    console = _console()
    names = [_printable(heading) for heading in headings]
    cells = [[_printable("" if cell is None else str(cell)) for cell in row] for row in rows]
    if _fits(console.width, names, cells):
        table = RichTable(header_style="bold", row_styles=["", "dim"])
        for heading, name in zip(headings, names, strict=True):
            table.add_column(name, justify="right" if heading in right else "left", overflow="fold")
        for row in cells:
            table.add_row(*row)
        console.print(table)
    else:
        _print_vertically(console, names, cells)
    if more:
        console.print(f"and {more} more; --json has them all")


def _fits(width: int, names: Sequence[str], cells: Sequence[Sequence[str]]) -> bool:
    """Whether the width is enough for every column to be readable."""
    longest = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
    return sum(min(length, _READABLE_WIDTH) + 3 for length in longest) < width


def _print_vertically(console: Console, names: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print each row as a block of names and values."""
    for number, row in enumerate(cells):
        grid = _grid()
        for name, cell in zip(names, row, strict=True):
            grid.add_row(name, cell)
        if number:
            console.print()
        console.print(grid)


def _file_cells(row: Mapping[str, Any], partition_columns: Sequence[str], columns: Sequence[str]) -> list[Any]:
    partition = [_cell(row["partition_values"][name]) for name in partition_columns]
    bounds = [_cell(row["statistics"][name][bound]) for name in columns for bound in ("min", "max")]
    return [row["path"], size_text(row["size_bytes"]), row["num_records"], row["deleted_records"] or "", *partition, *bounds]


def _cell(value: Any) -> str:
    """A value as text for people."""
    if isinstance(value, datetime):
        return _moment(value)
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _moment(value: datetime) -> str:
    """A timestamp with milliseconds, as in the log; with microseconds if it has any."""
    timespec = "microseconds" if value.microsecond % 1000 else "milliseconds"
    return value.isoformat(sep=" ", timespec=timespec).replace("+00:00", "Z")


def _flat(value: Any) -> str:
    return " ".join(f"{name}={text}" for name, text in value.items()) if isinstance(value, dict) else "" if value is None else str(value)


def _fact_text(name: str, value: Any) -> str:
    match value:
        case datetime():
            return _moment(value)
        case dict():
            return "\n".join(f"{key} = {text}" for key, text in value.items())
        case list():
            return ", ".join(value)
        case _:
            return f"{size_text(value)} ({value:,})" if name == "size_bytes" else f"{value:,}" if isinstance(value, int) else str(value)


def _print_finding(found: Finding) -> None:
    color = "red" if found.severity is Severity.ERROR else "yellow"
    where = " ".join(part for part in (found.file, None if found.version is None else f"(version {found.version})") if part)
    console = _console()
    console.print(f"[bold {color}]{found.severity.value}[/] [bold]{found.kind.value}[/] {_printable(where)}")
    console.print(f"  {_printable(found.detail)}\n  [dim]{_printable(found.next_step)}[/]")


def _finding_json(found: Finding) -> dict[str, Any]:
    return {
        "severity": found.severity.value,
        "kind": found.kind.value,
        "file": found.file,
        "version": found.version,
        "detail": found.detail,
        "next_step": found.next_step,
    }


def _print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print JSON. Characters that the output encoding lacks become JSON escapes."""
    has_all = (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(_plain(value), indent=indent, ensure_ascii=not has_all), flush=True)


def _plain(value: Any) -> Any:
    """A value that JSON can represent; other values become text."""
    match value:
        case dict():
            return {str(name): _plain(item) for name, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case date():
            return value.isoformat()
        case bytes():
            return value.hex()
        case _:
            return str(value)


# --- Arrow's values


def _plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    columns = [_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    if not pa.types.is_nested(column.type):
        with suppress(OverflowError, ValueError):  # a date outside of Python's calendar
            values: list[Any] = column.to_pylist()
            return values
    return [_value(scalar) for scalar in column]


def _value(scalar: pa.Scalar) -> Any:
    """A scalar as a Python value. A map becomes a dict with its keys as text; a date outside of Python's calendar becomes text."""
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_map(kind):
        return {_cell(_value(entry["key"])): _value(entry["value"]) for entry in scalar.values}
    if pa.types.is_struct(kind):
        return {name: _value(item) for name, item in scalar.items()}
    if pa.types.is_list(kind):
        return [_value(item) for item in scalar.values]
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        if pa.types.is_date(kind):
            return format_partition_value(scalar.value, DATE)
        return format_partition_value(scalar.value, TIMESTAMP if kind.tz else TIMESTAMP_NTZ)
