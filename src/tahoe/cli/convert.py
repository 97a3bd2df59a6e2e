"""`tahoe convert`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.filesize import decimal as size_text

from tahoe.cli.app import AsJson, Location, Options, errors_as_messages, open_table
from tahoe.cli.output import open_console, print_json
from tahoe.errors import DeltaError
from tahoe.protocol.types.names import counted
from tahoe.protocol.types.schema import DataType, Field, Struct, parse_type

# SQL's names of types that Delta's schemas name otherwise.
_SQL_NAMES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long", "real": "float"}

_EXPECTED = "expected NAME:TYPE with an SQL type, such as day:date, hour:int or price:decimal(9,2)"

Partition = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        metavar="NAME:TYPE",
        help="A partition column, such as day:date; repeat it in the order of the folders.",
    ),
]
NoStatistics = Annotated[bool, typer.Option("--no-statistics", help="Take no statistics from the footers.")]


def convert(
    path: Location,
    partition: Partition = None,
    no_statistics: NoStatistics = False,
    as_json: AsJson = False,
    option: Options = None,
) -> None:
    """Make a folder of Parquet files a Delta table, in place."""
    columns = partition_columns(partition)
    with errors_as_messages():
        table = open_table(path, option)
        report = table.convert(columns, statistics=not no_statistics)
    if as_json:
        print_json({"table": table.url, **asdict(report)})
    elif report.version is None:
        open_console().print("It is already a Delta table; nothing was done")
    else:
        open_console().print(
            f"[bold]It is a Delta table now: {counted(report.files, 'file')} ({size_text(report.size_bytes)})[/]"
        )


def partition_columns(texts: list[str] | None) -> Struct:
    """The columns that --partition gives."""
    return Struct(tuple(_column(text) for text in texts or ()))


def _column(text: str) -> Field:
    name, separator, kind = text.rpartition(":")
    if not separator or not name:
        raise typer.BadParameter(f"{_EXPECTED}, found {text!r}", param_hint="--partition")
    return Field(name=name, type=_type(kind.strip().lower()))


def _type(kind: str) -> DataType:
    try:
        return parse_type(_SQL_NAMES.get(kind, kind))
    except DeltaError as error:
        raise typer.BadParameter(f"{_EXPECTED}, found the type {kind!r}", param_hint="--partition") from error
