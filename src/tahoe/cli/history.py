"""`tahoe history`."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer

from tahoe.cli.app import AsJson, Location, Options, Timestamp, Version, errors_as_messages, open_snapshot
from tahoe.cli.output import print_json, print_records, print_table
from tahoe.cli.values import flat, second, with_numbers
from tahoe.protocol.types.moments import moment_of
from tahoe.protocol.types.value_texts import cell
from tahoe.table.inspection.versions import commits

Limit = Annotated[
    int | None, typer.Option("--limit", "-n", min=1, help="Print at most this many commits, newest first.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Print everything that the commits say: metrics, user metadata, program, ...")
]


def history(
    path: Location,
    version: Version = None,
    timestamp: Timestamp = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
    option: Options = None,
    limit: Limit = None,
) -> None:
    """List the commits, newest first, one in a line. With --version or --timestamp, up to that version."""
    with errors_as_messages():
        found = [_commit(row) for row in islice(commits(open_snapshot(path, option, version, timestamp)), limit)]
    if as_json:
        print_json(found)
    elif verbose:
        print_records(_texts(commit) for commit in found)
    else:
        rows = [(c["version"], second(c["timestamp"]), c["operation"], flat(c["operation_parameters"])) for c in found]
        print_table(["version", "timestamp", "operation", "parameters"], rows, right=["version"], cut="parameters")


def _commit(row: dict[str, Any]) -> dict[str, Any]:
    timestamp = moment_of(row["timestamp"])
    return {**row, "timestamp": timestamp, "operation_metrics": with_numbers(row["operation_metrics"])}


def _texts(commit: dict[str, Any]) -> dict[str, str]:
    return {name.replace("_", " "): _text(value) for name, value in commit.items() if value not in (None, {})}


def _text(value: Any) -> str:
    return "\n".join(f"{name} = {item}" for name, item in value.items()) if isinstance(value, dict) else cell(value)
