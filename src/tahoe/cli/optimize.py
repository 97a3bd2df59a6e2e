"""`tahoe optimize`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.filesize import decimal as size_text

from tahoe.cli.app import AsJson, Location, Options, errors_as_messages, open_table
from tahoe.cli.output import print_facts, print_json
from tahoe.errors import InvalidOptionError
from tahoe.protocol.configuration.properties import parse_size
from tahoe.table.layout.optimize import OptimizeReport

Where = Annotated[
    str | None,
    typer.Option("--where", metavar="SQL", help="Only files that may contain rows that match this condition."),
]


Target = Annotated[
    str | None, typer.Option("--target-size", metavar="SIZE", help="Size of the new files, such as 128mb.")
]


ZOrder = Annotated[
    list[str] | None,
    typer.Option(
        "--zorder-by",
        metavar="COLUMNS",
        help="Order rows, so that queries skip files by these columns. May be repeated.",
    ),
]


Full = Annotated[bool, typer.Option("--full", help="Lay out all rows of a clustered table again.")]


DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing, and print what would be done.")]


def optimize(
    path: Location,
    where: Where = None,
    zorder_by: ZOrder = None,
    full: Full = False,
    target_size: Target = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    option: Options = None,
) -> None:
    """Combine small files into larger ones, and rewrite files with many deleted rows.

    With --zorder-by, and on a clustered table, rows are ordered so that queries skip files.
    """
    with errors_as_messages():
        table = open_table(path, option)
        size = _size(target_size, table.url)
        report = table.optimize(where, z_order_by=zorder_by or (), full=full, max_file_bytes=size, dry_run=dry_run)
    if as_json:
        print_json({"table": table.url, "dry_run": dry_run, **_report_json(report)})
        return
    print_facts(_facts(report, dry_run=dry_run))


def _size(text: str | None, table: str) -> int | None:
    try:
        return None if text is None else parse_size(text)
    except ValueError:
        detail = "it must be a size in bytes, such as 134217728 or 128mb"
        raise InvalidOptionError(option="--target-size", value=text, table=table, detail=detail) from None


def _report_json(report: OptimizeReport) -> dict[str, Any]:
    sizes = {name: list(getattr(report, name)) for name in ("removed_bytes", "added_bytes", "cube_bytes")}
    partitions = [dict(values) for values in report.partitions]
    return {
        **asdict(report),
        **sizes,
        "partitions": partitions,
        "order": None if report.order is None else report.order.names,
    }


def _facts(report: OptimizeReport, *, dry_run: bool) -> dict[str, str]:
    """The report line by line. A dry run says what would be done, and has no version."""
    removed, added = report.removed_bytes, report.added_bytes
    facts = {"files considered": f"{report.files_considered:,}"}
    if dry_run and not removed:
        return {**facts, "files to rewrite": "none: nothing to do"}
    facts["files to rewrite" if dry_run else "files rewritten"] = f"{len(removed):,} ({size_text(sum(removed))})"
    if report.order is not None and removed:
        facts["ordered by"] = ", ".join(report.order.names)
    if report.why:
        facts["reason"] = report.why
    if removed:
        facts["new files"] = _planned_text(report) if dry_run else f"{len(added):,} ({size_text(sum(added))})"
        facts["deleted rows removed"] = f"{report.rows_purged:,}"
    if report.bins_dropped:
        facts["left as they were"] = (
            f"the files of {report.bins_dropped:,} of {report.counted_bins(report.bins)}, which other writers changed"
        )
    if not dry_run:
        facts["version"] = "none: nothing to do" if report.version is None else str(report.version)
    return facts


def _planned_text(report: OptimizeReport) -> str:
    return f"{report.bins:,} at most" if report.order is None else f"those of {report.counted_bins(report.bins)}"
