"""`tahoe vacuum`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.filesize import decimal as size_text

from tahoe.cli.app import AsJson, Location, Options, errors_as_messages, open_table
from tahoe.cli.output import ROWS_SHOWN_MAX, open_console, print_json, printable
from tahoe.cli.values import second
from tahoe.protocol.types.names import counted
from tahoe.table.cleanup.vacuum import VacuumReport

Retain = Annotated[
    float | None,
    typer.Option("--retain", metavar="HOURS", help="Retention in hours; default: delta.deletedFileRetentionDuration."),
]
Lite = Annotated[bool, typer.Option("--lite", help="Find the files in the log, without listing the folder.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be deleted, and delete nothing.")]
NoCheck = Annotated[
    bool, typer.Option("--no-retention-check", help="Allow a retention that is shorter than the table's.")
]


def vacuum(
    path: Location,
    retain: Retain = None,
    lite: Lite = False,
    dry_run: DryRun = False,
    no_retention_check: NoCheck = False,
    as_json: AsJson = False,
    option: Options = None,
) -> None:
    """Delete the files that no version within the retention needs. The exit code is 1 if some could not be deleted."""
    with errors_as_messages():
        report = open_table(path, option).vacuum(
            retain, lite=lite, dry_run=dry_run, retention_check=not no_retention_check
        )
    if as_json:
        print_json(_report_json(report))
    else:
        _print_report(report)
    raise typer.Exit(1 if report.failed else 0)


def _print_report(report: VacuumReport) -> None:
    """Print the report. Only a dry run lists what is deleted: of a real one there is nothing left to look at."""
    console = open_console()
    if report.is_dry_run:
        shown = [*report.files, *report.folders]
        for key in shown[:ROWS_SHOWN_MAX]:
            console.print(printable(key))
        if len(shown) > ROWS_SHOWN_MAX:
            console.print(f"and {len(shown) - ROWS_SHOWN_MAX} more; --json has them all")
    for key, error in report.failed.items():
        console.print(f"[bold red]not deleted[/] {printable(key)}: {printable(error)}")
    counts = (
        f"{counted(len(report.files), 'file')} ({size_text(report.size_bytes)}) and "
        f"{counted(len(report.folders), 'folder')}"
    )
    since = second(datetime.fromtimestamp(report.cutoff_ms / 1000, UTC))
    for hold in report.holds:
        held = f"{counted(hold.files, 'file')} ({size_text(hold.size_bytes)})"
        console.print(f"held back by the tag [bold]{printable(hold.tag)}[/] of version {hold.version}: {held}")
    if len(report.holds) > 1:
        console.print(f"held back by tags: {counted(report.held_files, 'file')} ({size_text(report.held_bytes)})")
    console.print(
        f"[bold]{counts} {'would be deleted' if report.is_dry_run else 'deleted'}[/]; what versions since {since} "
        f"need is kept"
    )


def _report_json(report: VacuumReport) -> dict[str, Any]:
    """The report as JSON. Its names are those that programs rely on, whatever the attributes are called."""
    return {
        "table": report.table,
        "lite": report.is_lite,
        "dry_run": report.is_dry_run,
        "cutoff_ms": report.cutoff_ms,
        "files": list(report.files),
        "folders": list(report.folders),
        "size_bytes": report.size_bytes,
        "held_by_tags": [asdict(hold) for hold in report.holds],
        "held_files": report.held_files,
        "held_bytes": report.held_bytes,
        "failed": dict(report.failed),
    }
