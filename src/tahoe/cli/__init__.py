"""The command line: `tahoe COMMAND PATH`, with the commands show, head, sql, history, tags, files, inspect, report, schema, changes, check,
repair, tag, untag, restore, clone, optimize, analyze, vacuum, convert and generate; `tahoe run PROGRAM` and
`tahoe connect-server`.

It calls the table ring and prints; it decides nothing. Only the last two are about Spark.

Output is tables for people, and JSON for programs (`--json`). The exit code is 0 on success, 1 if `check` finds an error, `repair` leaves
one or `vacuum` could not delete a file, and 2 if the command fails.
"""

from tahoe.cli.analyze import analyze
from tahoe.cli.app import app, main
from tahoe.cli.changes import changes
from tahoe.cli.check import check
from tahoe.cli.clone import clone
from tahoe.cli.connect_server import connect_server
from tahoe.cli.convert import convert
from tahoe.cli.files import files
from tahoe.cli.generate import generate
from tahoe.cli.head import head
from tahoe.cli.history import history
from tahoe.cli.inspect import inspect
from tahoe.cli.optimize import optimize
from tahoe.cli.repair import repair
from tahoe.cli.report import report
from tahoe.cli.restore import restore
from tahoe.cli.run import run
from tahoe.cli.schema import schema
from tahoe.cli.show import show
from tahoe.cli.sql import sql
from tahoe.cli.tags import tag, tags, untag
from tahoe.cli.vacuum import vacuum

for _command in (
    show,
    head,
    sql,
    history,
    tags,
    files,
    inspect,
    report,
    schema,
    changes,
    check,
    repair,
    tag,
    untag,
    restore,
    clone,
    optimize,
    analyze,
    vacuum,
    convert,
    generate,
    connect_server,
):  # as `tahoe --help` lists them
    app.command()(_command)

# All that follows the program is the program's, `--help` too.
_VERBATIM = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []}
app.command(context_settings=_VERBATIM)(run)

__all__ = ["app", "main"]
