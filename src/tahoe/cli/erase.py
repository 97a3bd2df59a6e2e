"""`tahoe erase`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.filesize import decimal as size_text

from tahoe.cli.app import AsJson, Location, Options, errors_as_messages, open_table
from tahoe.cli.output import ROWS_SHOWN_MAX, open_console, print_facts, print_json, printable
from tahoe.protocol.types.names import counted
from tahoe.table.cleanup.traces import Search
from tahoe.table.maintenance.erase import EraseReport

Where = Annotated[str, typer.Option("--where", metavar="SQL", help="The rows to erase.")]
SearchFor = Annotated[
    list[str] | None,
    typer.Option(
        "--search",
        metavar="TEXT",
        help="A text to search for at the end, besides those of the erased rows. May be repeated.",
    ),
]
NoCheck = Annotated[
    bool,
    typer.Option(
        "--no-retention-check", help="Also delete young files that no commit names. Only if no writer is at work."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing, and print how many rows would be erased.")]
NOTHING_TO_SEARCH_FOR = (
    "There is no text to search for: name some with --search, such as those of rows that were deleted before"
)

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def erase(
    path: Location,
    where: Where,
    search: SearchFor = None,
    no_retention_check: NoCheck = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    option: Options = None,
) -> None:
    """Erase rows from every file and every version, and prove it by a search of every byte.

    Only the newest version is left: time travel ends. Run it again after an interruption. The exit code is 1 if the
    search found a value, could not read a file, or had nothing to search for.
    """
    with errors_as_messages():
        table = open_table(path, option)
        if dry_run or not yes:
            plan = table.erase(where, search=search or (), dry_run=True)
            if dry_run:
                _print_plan(plan, as_json=as_json)
                return
            oldest, newest = plan.oldest_version, plan.version
            versions = f"version {newest}" if oldest == newest else f"versions {oldest} to {newest}"
            lost = f"{versions} can no longer be read, and nothing brings the rows back"
            what = (
                f"Erase {counted(plan.rows, 'row')} of the newest version of {table.url}, and whatever earlier "
                f"versions alone have"
            )
            unproven = "" if plan.values else f" {NOTHING_TO_SEARCH_FOR}, so nothing will prove that they are gone."
            typer.confirm(f"{what}?{unproven} Afterwards {lost}", abort=True, err=True)
        report = table.erase(where, search=search or (), retention_check=not no_retention_check, progress=_tell)
    if as_json:
        print_json(_report_json(report))
    else:
        _print_report(report)
    raise typer.Exit(0 if report.is_proven else 1)


def _tell(step: str) -> None:
    typer.echo(f"{step} ...", err=True)


def _print_plan(report: EraseReport, *, as_json: bool) -> None:
    if as_json:
        print_json(_report_json(report))
        return
    facts = {
        "rows to erase": f"{report.rows:,} of version {report.version}, besides those that only earlier versions have",
        "versions that end": f"{report.oldest_version} to {report.version}",
        "to search for": counted(report.values, "text") if report.values else f"{NOTHING_TO_SEARCH_FOR}.",
    }
    print_facts({**facts, **_elsewhere(report)})


def _print_report(report: EraseReport) -> None:
    """Print what was erased, then every trace of the texts that is left: they decide the verdict in the last line."""
    search = report.search
    assert search is not None  # no dry run
    facts = {
        "rows erased": f"{report.rows:,}",
        "files rewritten": f"{report.files_rewritten:,}",
        "files deleted": (
            f"{report.files_deleted:,} ({size_text(report.bytes_deleted)}), and {report.log_files_deleted:,} of the log"
        ),
        "version": f"{report.version}, the only one left",
        **_elsewhere(report),
        "searched": f"{search.files:,} files ({size_text(search.size_bytes)}) for {counted(report.values, 'text')}",
    }
    if report.values_left_out:
        facts["not searched for"] = (
            f"{counted(report.values_left_out, 'text')}: too short, in other rows as well, or too many"
        )
    print_facts(facts)
    console = open_console()
    for trace in search.traces[:ROWS_SHOWN_MAX]:
        console.print(
            f"[bold red]found[/] a text of {printable(trace.value_of)} in {printable(trace.file)}, "
            f"{printable(trace.place)}"
        )
    if len(search.traces) > ROWS_SHOWN_MAX:
        console.print(f"and {len(search.traces) - ROWS_SHOWN_MAX} more; --json has them all")
    for key, error in search.unread.items():
        console.print(f"[bold red]not read[/] {printable(key)}: {printable(error)}")
    console.print(f"[bold]{_verdict(report, search)}[/]")


def _verdict(report: EraseReport, search: Search) -> str:
    if search.traces:
        return (
            "Not erased everywhere. A file that no commit names may be that of a writer at work: erase again with "
            "--no-retention-check when no writer is. Delete files of other programs by hand."
        )
    if search.unread:
        return "Not proven: some files could not be read."
    if not report.values:
        return f"Not proven. {NOTHING_TO_SEARCH_FOR}."
    return "Erased: no file has any of the texts."


def _elsewhere(report: EraseReport) -> dict[str, str]:
    told = "; ".join(printable(folder) for folder in report.elsewhere)
    return {"not erased": f"files of other tables, which this one used: {told}"} if told else {}


def _report_json(report: EraseReport) -> dict[str, Any]:
    search = report.search
    found = None if search is None else {**asdict(search), "traces": [asdict(trace) for trace in search.traces]}
    return {**asdict(report), "is_proven": report.is_proven, "elsewhere": list(report.elsewhere), "search": found}
