"""The application, the options that commands share, and the entry point."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

import tahoe
from tahoe import errors
from tahoe._progress import watch_command_line
from tahoe._version import VERSION
from tahoe.cli.commands import Commands
from tahoe.cli.output import open_console, printable

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Inspect and maintain Delta tables, without Spark.",
)


PATH_HELP = "Path or URL of the table: /data/t, s3://bucket/t, abfss://container@account.dfs.core.windows.net/t"


Location = Annotated[str, typer.Argument(metavar="PATH", help=PATH_HELP)]

Version = Annotated[
    str | None, typer.Option("--version", help="Version of the table, or the name of a tag; default: the newest.")
]

Timestamp = Annotated[
    str | None,
    typer.Option("--timestamp", metavar="TIME", help="The newest version at that time, such as '2026-01-31 12:00:00'."),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

Options = Annotated[
    list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="Storage option; may be repeated.")
]

# Importing makes many objects and no garbage, for which a short command looks a tenth of its time with Python's own
# threshold of 700.
_OBJECTS_BEFORE_COLLECTION = 50_000


def main() -> None:
    """The entry point of the command `tahoe`."""
    _prepare_output()
    watch_command_line()
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    try:
        app()
    except OSError as error:  # typer handles closed pipes; this is for example a full disk
        print(f"tahoe: {error}", file=sys.stderr)
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  the buffered rest cannot be written at exit either
        raise SystemExit(2) from error
    finally:
        gc.freeze()  # Python would look for garbage among all modules once more before it ends


def _prepare_output() -> None:
    """Print characters that the terminal lacks as escapes, and replace closed streams by the null device."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  for the life of the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"tahoe {VERSION}")
        raise typer.Exit


OwnVersion = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print tahoe's version and exit.")
]


@app.callback()
def _root(_: OwnVersion = False) -> None:
    """Separates the options of `tahoe` itself from the commands."""


def open_table(path: str, option: Sequence[str] | None) -> tahoe.Table:
    _leave_pandas_out()
    return tahoe.Table(path, options_of(option))


def open_snapshot(
    path: str, option: Sequence[str] | None, version: str | None = None, timestamp: str | None = None
) -> tahoe.Snapshot:
    """A version of a table for a command that only reads, without the modules that change tables."""
    from tahoe.table.versions.table_reader import TableReader  # noqa: PLC0415 - `tahoe --help` reads no table

    _leave_pandas_out()
    return TableReader(path, options_of(option)).snapshot(version, timestamp)


def _leave_pandas_out() -> None:
    """Keep Arrow from importing pandas with its first array, to recognise pandas' objects: no command makes one, and
    the import takes as long as most commands.
    """
    if "pandas" not in sys.modules:
        import pyarrow as pa  # noqa: PLC0415 - `tahoe --help` makes no array

        hidden = _HiddenPandas()
        sys.meta_path.insert(0, hidden)
        pa.array([])
        sys.meta_path.remove(hidden)


class _HiddenPandas:
    """Lets pandas be missing."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


def options_of(option: Sequence[str] | None) -> dict[str, str]:
    """The storage options that a command was given."""
    return dict(key_value(text, "--option") for text in option or ())


def key_value(text: str, option: str) -> tuple[str, str]:
    """The parts of KEY=VALUE, the value of an option that may be repeated."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise typer.BadParameter(f"expected KEY=VALUE, found {text!r}", param_hint=option)
    return key, value


@contextmanager
def errors_as_messages() -> Iterator[None]:
    """Print an error of tahoe as a message without a stack trace, and exit with 2."""
    try:
        yield
    except errors.DeltaError as error:
        open_console(sys.stderr).print(f"[bold red]{printable(str(error), lines=True)}[/]")
        raise typer.Exit(2) from error
