"""The command line: `tahoe COMMAND PATH`, with the commands show, head, sql, history, tags, files, inspect, report,
schema, changes, diff, check, repair, tag, untag, restore, clone, optimize, analyze, maintain, vacuum, convert, generate
and iceberg; `tahoe run PROGRAM` and `tahoe connect-server`.

It calls the table ring and prints; it decides nothing. Only the last two are about Spark.

Output is tables for people, and JSON for programs (`--json`). The exit code is 0 on success, 1 if `check` finds an
error, `repair` leaves one, `vacuum` could not delete a file or a step of `maintain` failed, and 2 if the command fails.
"""

from tahoe.cli.app import app, main
from tahoe.cli.commands import list_commands

list_commands(app)

__all__ = ["app", "main"]
