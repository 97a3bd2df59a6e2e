"""`tahoe run`."""

from __future__ import annotations

from typing import Annotated

import typer

from tahoe.cli.app import errors_as_messages
from tahoe.programs.launch import STARTUP, run_program

Words = Annotated[
    list[str] | None, typer.Argument(metavar="PROGRAM [ARGUMENT]", help="A Python file, a command, or -m MODULE.")
]


Native = Annotated[
    bool,
    typer.Option(
        "--native", help="Run plans natively, with Apache DataFusion Comet, if it has a build for this Spark."
    ),
]


def run(context: typer.Context, words: Words = None, native: Native = False) -> None:
    """Run a program unchanged: every Spark session that it makes has Delta tables, and `import delta` finds tahoe.

    Examples: tahoe run script.py, tahoe run dbt build, tahoe run pytest tests, tahoe run -m package.module.

    Options after the program are the program's. The exit code is the program's. `tahoe run --path` prints the folder
    that does this by standing first on PYTHONPATH, for tools that set the environment of the programs that they start.
    """
    if not words or words[0] in ("--help", "-h"):
        print(context.get_help())
        raise typer.Exit(0 if words else 2)
    if words == ["--path"]:
        print(STARTUP)
        return
    with errors_as_messages():
        run_program(words, native=native)
