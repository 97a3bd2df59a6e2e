"""`tahoe restore`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.filesize import decimal as size_text

from tahoe.cli.app import AsJson, Location, Options, errors_as_messages, open_table
from tahoe.cli.output import print_facts, print_json
from tahoe.table.adoption.restore import RestoreReport

Version = Annotated[str | None, typer.Option("--version", help="The version to restore, or its tag.")]
Timestamp = Annotated[
    str | None,
    typer.Option(
        "--timestamp", metavar="TIME", help="Restore the newest version at that time, such as '2026-01-31 12:00:00'."
    ),
]
NoCheck = Annotated[
    bool,
    typer.Option("--no-retention-check", help="Allow a version that is older than delta.deletedFileRetentionDuration."),
]
IgnoreMissing = Annotated[
    bool, typer.Option("--ignore-missing-files", help="Restore the version even if some of its files are gone.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing, and print what would be done.")]


def restore(
    path: Location,
    version: Version = None,
    timestamp: Timestamp = None,
    ignore_missing_files: IgnoreMissing = False,
    no_retention_check: NoCheck = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    option: Options = None,
) -> None:
    """Make a new version that equals an earlier one. Nothing is lost: the versions in between stay in the history."""
    with errors_as_messages():
        report = open_table(path, option).restore(
            version,
            timestamp,
            ignore_missing_files=ignore_missing_files,
            retention_check=not no_retention_check,
            dry_run=dry_run,
        )
    if as_json:
        facts = asdict(report)
        print_json({"dry_run": facts.pop("is_dry_run"), **facts})
        return
    print_facts(_facts(report))


def _facts(report: RestoreReport) -> dict[str, str]:
    """The report line by line. A dry run says what would be done, and has no version."""
    facts = {
        "restored version": str(report.restored_version),
        "files": f"{report.files:,} ({size_text(report.size_bytes)})",
    }
    if report.version is None and not report.is_dry_run:
        return {**facts, "version": "none: it is the newest version"}
    removed, back = (
        ("files to remove", "files to bring back") if report.is_dry_run else ("files removed", "files that are back")
    )
    facts[removed] = f"{report.removed_files:,} ({size_text(report.removed_bytes)})"
    facts[back] = f"{report.restored_files:,} ({size_text(report.restored_bytes)})"
    return facts if report.is_dry_run else {**facts, "version": str(report.version)}
