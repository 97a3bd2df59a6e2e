"""`tahoe report`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tahoe.cli.app import AsJson, Options, Timestamp, Version, errors_as_messages, open_table
from tahoe.cli.fleet import CatalogUrl, Folder, named_tables
from tahoe.cli.output import open_console, print_json, print_table, printable
from tahoe.errors import InvalidOptionError
from tahoe.table.fleet.fleet import FleetReport, fleet_report
from tahoe.table.fleet.page import HEADINGS, TASKS_SHOWN, page, texts_of
from tahoe.table.report.report import TableReport

STANDARD_OUTPUT = "-"


class ReportFormat(StrEnum):
    """How a report of several tables is printed."""

    TABLE = "table"
    JSON = "json"


Output = Annotated[
    str | None,
    typer.Option(
        "--output", metavar="FILE", help="File of the page, or - for standard output; default: NAME-report.html."
    ),
]


Format = Annotated[ReportFormat, typer.Option("--format", help="Of several tables: how they are printed.")]


def report(
    path: Folder = None,
    catalog: CatalogUrl = None,
    version: Version = None,
    timestamp: Timestamp = None,
    output: Output = None,
    form: Format = ReportFormat.TABLE,
    as_json: AsJson = False,
    option: Options = None,
) -> None:
    """Report on a table as a page, or on all tables of a folder or catalog: sizes, growth, what to do.

    The page is one HTML file that needs no network. --json prints the figures instead. Of a folder that is no table,
    and of a --catalog, all tables are told, and what to do first: printed, or with --output as one page.
    """
    as_json = as_json or form is ReportFormat.JSON
    if path is None or catalog is not None or not _is_table(path, option):
        with errors_as_messages():
            _refuse_version(version, timestamp, str(path or catalog))
        _report_all(path, catalog, output, as_json=as_json, option=option)
        return
    with errors_as_messages():
        table = open_table(path, option)
        file = None if as_json or output == STANDARD_OUTPUT else _file(output, table.url)
        made = table.report(version if timestamp is None else table.snapshot(version, timestamp).version)
    if as_json:
        print_json({**asdict(made.figures), "advice": [asdict(found) for found in made.advice]})
    elif file is None:
        sys.stdout.write(made.html)
    else:
        made.save(file)
        _print_advice(made, file)


def _is_table(path: str, option: list[str] | None) -> bool:
    """Whether a path is to be told as one table: it is one, or nothing is there, which is an error of its own."""
    with errors_as_messages():
        table = open_table(path, option)
        return table.exists() or next(iter(table.env.store.walk()), None) is None


def _refuse_version(version: int | str | None, timestamp: str | None, place: str) -> None:
    for name, value in (("--version", version), ("--timestamp", timestamp)):
        if value is not None:
            detail = "it is for the report of one table; that of several is about their newest versions"
            raise InvalidOptionError(option=name, value=value, table=place, detail=detail)


def _report_all(
    path: str | None, catalog: str | None, output: str | None, *, as_json: bool, option: list[str] | None
) -> None:
    with errors_as_messages():
        tables = named_tables(path, catalog, option)
        file = None if output in (None, STANDARD_OUTPUT) else _file(output, None)
        found = fleet_report(str(path or catalog), tables, is_catalog=catalog is not None)
        if file is not None:
            for row in found.tables:
                _check_outside(file, row.url)
    if as_json:
        print_json(found.to_dict())
    elif output == STANDARD_OUTPUT:
        sys.stdout.write(page(found))
    elif file is not None:
        file.write_text(page(found), encoding="utf-8")
        open_console().print(f"[bold]{printable(str(file))}[/] has the report")
    else:
        _print_all(found)


def _print_all(found: FleetReport) -> None:
    rows = [row for row in found.tables if row.figures is not None]
    if rows:
        print_table(HEADINGS, [texts_of(row) for row in rows], right=HEADINGS[1:])
    console = open_console()
    for row in found.broken:
        console.print(f"\n[bold red]cannot be read[/] {printable(row.name)}: {printable(str(row.error), lines=True)}")
    if not found.tasks:
        console.print("\nnothing to do")
        return
    console.print("\n[bold]what to do first[/]")
    for number, task in enumerate(found.tasks[:TASKS_SHOWN], 1):
        told = str(task.command or task.advice.sql)
        console.print(f"{number:>3}. {printable(task.table.name)}: {task.advice.title}\n     {printable(told)}")
    if len(found.tasks) > TASKS_SHOWN:
        console.print(f"and {len(found.tasks) - TASKS_SHOWN:,} more; --json has all")


def _file(output: str | None, table: str | None) -> Path:
    """The file to write.

    Raises:
        InvalidOptionError: its folder does not exist, or is part of the table: VACUUM would delete the page.
    """
    name = (table or "").rstrip("/").rpartition("/")[2] or "table"
    file = Path(f"{name}-report.html" if output is None else output).absolute()
    detail = None
    if file.is_dir() or not file.parent.is_dir():
        detail = "it is a folder" if file.is_dir() else f"there is no folder {file.parent}"
    if detail is not None:
        raise InvalidOptionError(option="--output", value=str(file), table=table or str(file), detail=detail)
    if table is not None:
        _check_outside(file, table)
    return file


def _check_outside(file: Path, table: str) -> None:
    """Check that a file is not in a table's folder."""
    if table and file.resolve().is_relative_to(Path(table.removeprefix("file://")).resolve()):
        detail = "it would be in the table's own folder, where VACUUM deletes what is not part of the table"
        raise InvalidOptionError(option="--output", value=str(file), table=table, detail=detail)


def _print_advice(made: TableReport, file: Path) -> None:
    console = open_console()
    for found in made.advice:
        console.print(f"[bold]{found.title}[/]: {printable(found.reason)}")
        console.print(f"  {printable(str(found.command or found.sql))}\n")
    result = ", which finds nothing to do" if made.figures.upkeep is not None and not made.advice else ""
    console.print(f"[bold]{printable(str(file))}[/] has the report{result}")
