"""`tahoe maintain`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Annotated

import typer

from tahoe.cli.app import AsJson, Options, errors_as_messages
from tahoe.cli.fleet import CatalogUrl, Folder, named_tables
from tahoe.cli.output import open_console, print_json_list, printable
from tahoe.table.fleet.fleet import NamedTable
from tahoe.table.fleet.maintenance import Limit, Step
from tahoe.table.fleet.maintenance import maintain as maintained

Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only", metavar="NAME", help="Only these tables, such as shop.orders or 'sales/*'; may be repeated."
    ),
]
Minutes = Annotated[float, typer.Option("--minutes", min=0, help="Begin nothing after so many minutes.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing, and print what would be done.")]

_COLOURS = {"done": "green", "planned": "bold", "left": "yellow", "failed": "bold red"}


def maintain(
    path: Folder = None,
    catalog: CatalogUrl = None,
    only: Only = None,
    minutes: Minutes = 30,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    option: Options = None,
) -> None:
    """Do what tahoe report advises for the tables of a folder or a catalog: OPTIMIZE, VACUUM, checkpoints, log.

    By need, the most useful first, beside other writers, with each table's own retention. Run it again to do what is
    left. The exit code is 1 if a step failed, or a table cannot be read.
    """
    with errors_as_messages():
        tables = _chosen(named_tables(path, catalog, option), only)
        failed = False

        def steps() -> Iterator[Step]:
            nonlocal failed
            for step in maintained(tables, Limit(time.monotonic, time.monotonic() + 60 * minutes), dry_run=dry_run):
                failed |= step.outcome == "failed"
                yield step

        if as_json:
            print_json_list(asdict(step) for step in steps())
        else:
            _print(steps())
    raise typer.Exit(1 if failed else 0)


def _chosen(tables: list[NamedTable], only: list[str] | None) -> list[NamedTable]:
    if only is None:
        return tables
    chosen = [named for named in tables if any(fnmatchcase(named.name, pattern) for pattern in only)]
    if not chosen:
        raise typer.BadParameter(
            f"no table has such a name; there is for example {tables[0].name}", param_hint="--only"
        )
    return chosen


def _print(steps: Iterator[Step]) -> None:
    console, number = open_console(), 0
    for number, step in enumerate(steps, 1):  # noqa: B007 - whether there was one
        what = "" if step.kind is None else f" {step.kind}:"
        told = printable(step.detail, lines=True)
        console.print(f"[{_COLOURS[step.outcome]}]{step.outcome:7}[/] {printable(step.table)}:{what} {told}")
    if not number:
        console.print("nothing to do")
