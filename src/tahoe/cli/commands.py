"""The commands by name. The module of a command is loaded when the command is called, so that `tahoe --help` loads none
of them.
"""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

# As `tahoe --help` lists them: the first sentences of their own help.
SUMMARIES = {
    "show": "Show a table's location, version, size, protocol, features and properties.",
    "head": "Print the first rows, in the order of the files.",
    "sql": "Run a query over tables, with DuckDB.",
    "history": "List the commits, newest first, one in a line.",
    "tags": "List the tags, oldest version first.",
    "files": "List the data files; with --where, only those that data skipping keeps.",
    "inspect": "Print what is in a table: its files, partitions, history, ...",
    "report": "Report on a table as a page, or on all tables of a folder or catalog: sizes, growth, what to do.",
    "schema": "List the columns.",
    "clients": (
        "Tell which other programs can read and write a table, and which features to drop for those that cannot."
    ),
    "changes": "Print the rows that were inserted, updated or deleted from --from to --to.",
    "diff": "Tell what differs between two versions: rows, columns, properties, protocol and files.",
    "check": "Verify a table, and print each problem when it is found.",
    "repair": "Remove missing files from the table, and delete wrong files of the log.",
    "tag": "Give a version a name.",
    "untag": "Drop a tag.",
    "restore": "Make a new version that equals an earlier one.",
    "clone": "Create an independent table with the rows of a table.",
    "optimize": "Combine small files into larger ones, and rewrite files with many deleted rows.",
    "analyze": "Compute the statistics of files that are missing, or that deletion vectors have made wide.",
    "maintain": (
        "Do what tahoe report advises for the tables of a folder or a catalog: OPTIMIZE, VACUUM, checkpoints, log."
    ),
    "vacuum": ("Delete the files that no version within the retention needs."),
    "erase": "Erase rows from every file and every version, and prove it by a search of every byte.",
    "convert": "Make a folder of Parquet files a Delta table, in place.",
    "generate": (
        "Write symlink manifests, which list the data files for Presto, Athena and other engines without Delta."
    ),
    "iceberg": "Give a table Iceberg's metadata; show, write and verify it.",
    "cache": "Show, clear or verify the local cache of what was read from remote storages.",
    "catalog": "Make, serve and show a catalog of tables, and say who may use it.",
    "connect-server": "Serve Delta tables to clients of Spark Connect, who need no tahoe, until SIGINT or SIGTERM.",
    "run": (
        "Run a program unchanged: every Spark session that it makes has Delta tables, and `import delta` finds tahoe."
    ),
}

# The commands that are not in a module of their own name.
_MODULES = {"tag": "tags", "untag": "tags"}

# All that follows the program is the program's, `--help` too.
_SETTINGS = {"run": {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []}}

# A path or a url, in the place of a command.
_LOCATION = re.compile(r"[/\\~]|^\.")


class Commands(TyperGroup):
    """The commands as `tahoe --help` shows them, and the one that is called with its options."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in SUMMARIES and _LOCATION.search(args[0]):
            ctx.fail(f"expected a command before the path, for example: tahoe show {shlex.quote(args[0])}")
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if listed is None else load_command(str(listed.name)), rest


def load_command(name: str) -> Any:
    """The command of a name, with its options and its whole help."""
    function_name = name.replace("-", "_")
    function = getattr(import_module(f"tahoe.cli.{_MODULES.get(name, function_name)}"), function_name)
    if isinstance(function, typer.Typer):  # it has commands of its own
        return typer.main.get_command(function)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name, context_settings=_SETTINGS.get(name))(function)
    return typer.main.get_command(alone)


def list_commands(app: typer.Typer) -> None:
    """Enter the commands into an application by their names and summaries."""
    for name, summary in SUMMARIES.items():
        app.command(name, help=summary)(_listed)


def _listed() -> None:
    """Stands for a command whose module is not loaded."""
