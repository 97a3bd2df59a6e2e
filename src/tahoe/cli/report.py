"""`tahoe report`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tahoe.cli.app import AsJson, Location, Options, Timestamp, Version, errors_as_messages, open_table
from tahoe.cli.output import open_console, print_json, printable
from tahoe.errors import InvalidOptionError
from tahoe.table.report.report import TableReport

STANDARD_OUTPUT = "-"

Output = Annotated[
    str | None,
    typer.Option(
        "--output", metavar="FILE", help="File of the page, or - for standard output; default: NAME-report.html."
    ),
]


def report(
    path: Location,
    version: Version = None,
    timestamp: Timestamp = None,
    output: Output = None,
    as_json: AsJson = False,
    option: Options = None,
) -> None:
    """Write a page about a table: sizes, partitions, growth and data skipping, and what to do about them.

    The page is one HTML file that needs no network. --json prints the figures instead.
    """
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


def _file(output: str | None, table: str) -> Path:
    """The file to write.

    Raises:
        InvalidOptionError: its folder does not exist, or is part of the table: VACUUM would delete the page.
    """
    name = table.rstrip("/").rpartition("/")[2] or "table"
    file = Path(f"{name}-report.html" if output is None else output).absolute()
    detail = None
    if file.is_dir() or not file.parent.is_dir():
        detail = "it is a folder" if file.is_dir() else f"there is no folder {file.parent}"
    elif file.resolve().is_relative_to(Path(table.removeprefix("file://")).resolve()):
        detail = "it would be in the table's own folder, where VACUUM deletes what is not part of the table"
    if detail is not None:
        raise InvalidOptionError(option="--output", value=str(file), table=table, detail=detail)
    return file


def _print_advice(made: TableReport, file: Path) -> None:
    console = open_console()
    for found in made.advice:
        console.print(f"[bold]{found.title}[/]: {printable(found.reason)}")
        console.print(f"  {printable(found.command or found.sql)}\n")
    result = ", which finds nothing to do" if made.figures.upkeep is not None and not made.advice else ""
    console.print(f"[bold]{printable(str(file))}[/] has the report{result}")
