"""`tahoe repair`."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, cast

import typer

from tahoe.cli.app import AsJson, Location, Options, errors_as_messages, open_table
from tahoe.cli.output import open_console, print_json, printable
from tahoe.table.verify.file_repairs import UnreadableVectors
from tahoe.table.verify.findings import Finding, Severity
from tahoe.table.verify.repair import RepairReport

DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing, and print what would be done.")]
MetadataOnly = Annotated[
    bool, typer.Option("--metadata-only", help="Repair only the log, without checking data files.")
]
VerifyAll = Annotated[
    bool, typer.Option("--verify-all-files", help="Also read every footer and every deletion vector.")
]
VerifyStatistics = Annotated[
    bool, typer.Option("--statistics", help="Also compare all statistics with the rows. Includes --verify-all-files.")
]


class Vectors(Enum):
    """What is done about files whose deletion vector is missing or damaged."""

    REPORT = "report"
    RESTORE_ROWS = "restore-rows"
    REMOVE_FILES = "remove-files"


Decision = Annotated[
    Vectors,
    typer.Option(
        "--unreadable-vectors",
        metavar="WHAT",
        help="Files whose deletion vector is missing or damaged: report them, restore-rows (keep the files, with their "
        "deleted rows), or remove-files.",
    ),
]


def repair(
    path: Location,
    dry_run: DryRun = False,
    metadata_only: MetadataOnly = False,
    verify_all_files: VerifyAll = False,
    verify_statistics: VerifyStatistics = False,
    unreadable_vectors: Decision = Vectors.REPORT,
    as_json: AsJson = False,
    option: Options = None,
) -> None:
    """Remove missing files from the table, and delete wrong files of the log. Prints them first.

    A file is removed only if the storage says that it does not exist. The exit code is 1 if an error is left.
    """
    vectors = cast("UnreadableVectors", unreadable_vectors.value.replace("-", "_"))
    with errors_as_messages():
        report = open_table(path, option).repair(
            dry_run=dry_run,
            metadata_only=metadata_only,
            verify_all_files=verify_all_files,
            verify_statistics=verify_statistics,
            unreadable_vectors=vectors,
            announce=None if as_json else _print_plan,
        )
    if as_json:
        print_json(_report_json(report))
    elif not report.is_dry_run and report.repairs:
        made = "" if report.version is None else f", version {report.version}"
        open_console().print(f"[bold]Repaired{made}[/]")
    raise typer.Exit(1 if any(u.finding.severity is Severity.ERROR for u in report.left) else 0)


def _print_plan(report: RepairReport) -> None:
    """Print each problem with its repair, or with the reason why it is left, before anything is changed."""
    console = open_console()
    for repaired in report.repairs:
        console.print(
            f"[bold green]repair[/] [bold]{repaired.finding.kind.value}[/] {printable(repaired.finding.file or '')}"
        )
        console.print(f"  {printable(repaired.finding.detail)}\n  [dim]{printable(repaired.action.value)}[/]")
    for left in report.left:
        console.print(f"[bold red]left[/] [bold]{left.finding.kind.value}[/] {printable(left.finding.file or '')}")
        console.print(f"  {printable(left.finding.detail)}\n  [dim]{printable(left.reason)}[/]")
    if report.repairs or report.left:
        console.print(
            f"[bold]{len(report.repairs)} {'would be repaired' if report.is_dry_run else 'to repair'}, "
            f"{len(report.left)} left[/]"
        )
    else:
        console.print("[bold]No problems found[/]")


def _report_json(report: RepairReport) -> dict[str, Any]:
    return {
        "table": report.table,
        "dry_run": report.is_dry_run,
        "version": report.version,
        "removed_files": list(report.removed_files),
        "repairs": [{**_finding_json(r.finding), "action": r.action.value} for r in report.repairs],
        "left": [{**_finding_json(u.finding), "reason": u.reason} for u in report.left],
    }


def _finding_json(found: Finding) -> dict[str, Any]:
    return {"kind": found.kind.value, "file": found.file, "detail": found.detail}
