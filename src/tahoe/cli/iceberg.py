"""`tahoe iceberg`: shows, writes and verifies the Iceberg metadata of a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from typing import Annotated, Any

import typer

from tahoe.cli.app import AsJson, Location, Options, errors_as_messages, open_table
from tahoe.cli.output import open_console, print_facts, print_json, printable
from tahoe.errors import PackageMissingError
from tahoe.protocol.configuration.universal_format import has_iceberg
from tahoe.protocol.types.names import counted
from tahoe.storage.background import finish_background
from tahoe.table.layout.optimize import optimize
from tahoe.table.layout.upgrade_uniform import upgrade_uniform

iceberg = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Give a table Iceberg's metadata; show, write and verify it.",
)

Compat = Annotated[
    int,
    typer.Option(
        "--compat", metavar="2|3", help="The version of Iceberg compatibility: 3 keeps deletion vectors and row ids."
    ),
]
Whole = Annotated[bool, typer.Option("--whole", help="List all files anew, whatever the metadata has.")]


@iceberg.command()
def show(path: Location, as_json: AsJson = False, option: Options = None) -> None:
    """Tell which version of the table the metadata describes, and where it is."""
    with _messages(path):
        table = open_table(path, option)
        snapshot = table.snapshot()
        folder = import_module("tahoe.iceberg.metadata_folder").MetadataFolder(snapshot.log)
        found = import_module("tahoe.iceberg.conversion").converted(snapshot)
        newest = folder.newest()
        facts: dict[str, Any] = {"table": table.url, "is_asked_for": has_iceberg(snapshot.properties)}
        facts |= {"version": snapshot.version, "converted_delta_version": None, "converted_delta_timestamp": None}
        if found is not None:
            facts["converted_delta_version"] = found[0]
            facts["converted_delta_timestamp"] = datetime.fromtimestamp(found[1] / 1000, UTC).isoformat()
            facts |= {"metadata": folder.url(newest.key), "snapshots": len(newest.metadata.snapshots)}
            facts["format_version"] = newest.metadata.format_version
    if as_json:
        print_json(facts)
    else:
        print_facts({name: str(value) for name, value in facts.items()})


@iceberg.command()
def enable(path: Location, compat: Compat = 2, as_json: AsJson = False, option: Options = None) -> None:
    """Give a table the metadata, and rewrite the files that Iceberg's readers could not read."""
    with _messages(path):
        table = open_table(path, option)
        version = upgrade_uniform(table, compat, lambda request: optimize(table, request))
        finish_background()
    if as_json:
        print_json({"table": table.url, "version": version})
    else:
        open_console().print(f"Each commit from version [bold]{version}[/] on writes Iceberg's metadata")


@iceberg.command()
def sync(path: Location, whole: Whole = False, as_json: AsJson = False, option: Options = None) -> None:
    """Bring the metadata up to the newest version now, for a table that asks for it."""
    with _messages(path):
        table = open_table(path, option)
        report = import_module("tahoe.iceberg.conversion").sync(table.snapshot(), whole=whole)
    if as_json:
        print_json({"table": table.url, **asdict(report)})
    else:
        new = f"{counted(report.snapshots, 'new snapshot')}{', with all files listed anew' if report.is_whole else ''}"
        open_console().print(f"version {report.version}: [bold]{new}[/]\n{printable(report.metadata)}")


@iceberg.command()
def verify(path: Location, as_json: AsJson = False, option: Options = None) -> None:
    """Compare the metadata with the table: schema, files, rows, partitions and bounds. Exits with 1 if they differ."""
    with _messages(path):
        table = open_table(path, option)
        found = import_module("tahoe.iceberg.verification").verify(table.snapshot())
    if as_json:
        print_json({"table": table.url, **asdict(found)})
    else:
        for difference in found.differences:
            open_console().print(printable(difference))
        seen = f"{counted(found.files, 'file')}, {counted(found.rows, 'row')}"
        verdict = "No differences" if not found.differences else counted(len(found.differences), "difference")
        behind = "" if found.version == found.newest else f"; the newest version is {found.newest}"
        open_console().print(f"[bold]{verdict}[/] at version {found.version}: {seen}{behind}")
    raise typer.Exit(1 if found.differences else 0)


@contextmanager
def _messages(path: str) -> Iterator[None]:
    """As `errors_as_messages`, and what is missing if PyIceberg is not installed."""
    with errors_as_messages():
        try:
            yield
        except ModuleNotFoundError as error:
            raise PackageMissingError(table=path, what="tahoe iceberg", package="pyiceberg") from error
