"""`tahoe check`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from tahoe.cli.app import AsJson, Location, Options, Timestamp, Version, errors_as_messages, open_table, options_of
from tahoe.cli.output import open_console, print_json_list, printable
from tahoe.table.verify.check import check_table
from tahoe.table.verify.findings import Finding, Kind, Severity
from tahoe.table.verify.keys import check_keys, key_findings

Statistics = Annotated[
    bool,
    typer.Option(
        "--statistics", help="Compare all statistics with the rows; files whose footers confirm them are not read."
    ),
]


Keys = Annotated[
    bool, typer.Option("--keys", help="Look for rows that violate the declared keys; their columns are read.")
]


def check(
    path: Location,
    version: Version = None,
    timestamp: Timestamp = None,
    statistics: Statistics = False,
    keys: Keys = False,
    as_json: AsJson = False,
    option: Options = None,
) -> None:
    """Verify a table, and print each problem when it is found.

    Reads the whole log, the footer of every data file, and every deletion vector.
    """
    counts = dict.fromkeys(Severity, 0)

    def findings() -> Iterator[Finding]:
        table = open_table(path, option)
        number = None if version is timestamp is None else table.snapshot(version, timestamp).version
        is_readable = True
        for found in check_table(table.log, number, statistics=statistics):
            counts[found.severity] += 1
            is_readable &= found.kind is not Kind.UNREADABLE_TABLE
            yield found
        for found in key_findings(check_keys(table, number, options_of(option))) if keys and is_readable else ():
            counts[found.severity] += 1
            yield found

    with errors_as_messages():
        if as_json:
            print_json_list(map(_finding_json, findings()))
        else:
            for found in findings():
                _print_finding(found)
    if not as_json:
        summary = ", ".join(f"{n} {severity.value}{'' if n == 1 else 's'}" for severity, n in counts.items())
        open_console().print(f"[bold]{'No problems found' if not sum(counts.values()) else summary}[/]")
    raise typer.Exit(1 if counts[Severity.ERROR] else 0)


def _print_finding(found: Finding) -> None:
    color = "red" if found.severity is Severity.ERROR else "yellow"
    where = " ".join(
        part for part in (found.file, None if found.version is None else f"(version {found.version})") if part
    )
    console = open_console()
    console.print(f"[bold {color}]{found.severity.value}[/] [bold]{found.kind.value}[/] {printable(where)}")
    console.print(f"  {printable(found.detail)}\n  [dim]{printable(found.next_step)}[/]")


def _finding_json(found: Finding) -> dict[str, Any]:
    return {
        "severity": found.severity.value,
        "kind": found.kind.value,
        "file": found.file,
        "version": found.version,
        "detail": found.detail,
        "next_step": found.next_step,
    }
