"""`tahoe history`."""

from __future__ import annotations

from typing import Annotated

import typer

from tahoe.cli.app import AsJson, Location, Options, Version, errors_as_messages, open_table
from tahoe.cli.output import print_json, print_table
from tahoe.cli.values import flat, moment

Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Print at most this many commits, newest first.")]


def history(path: Location, version: Version = None, as_json: AsJson = False, option: Options = None, limit: Limit = None) -> None:
    """List the commits, newest first, up to --version."""
    with errors_as_messages():
        table = open_table(path, option)
        last = table.snapshot(version).version
        skipped = table.snapshot().version - last
        commits = table.history(None if limit is None else limit + skipped)[skipped:]
    if as_json:
        print_json(commits)
        return
    free = ("operation", "operationParameters", "operationMetrics")
    rows = [(c["version"], moment(c["timestamp"]), *(flat(c.get(name)) for name in free)) for c in commits]
    print_table(["version", "timestamp", "operation", "parameters", "metrics"], rows, right=["version"])
