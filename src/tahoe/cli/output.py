"""Printing tables, facts and JSON, safely for terminals, pipes and files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from tahoe.cli.values import json_value
from tahoe.protocol.names import visible

# People do not read longer tables; --json prints all rows.
ROWS_SHOWN_MAX = 100


# The width for output to a file or a pipe: its reader can cut long lines, but cannot join broken ones.
_PLAIN_WIDTH = 1_000_000


# The least width of a readable column. On a terminal too narrow for the columns, rows are printed vertically.
_READABLE_WIDTH = 12


def open_console(file: IO[str] | None = None) -> Console:
    """A console for standard output or a file. Output to a pipe has practically unlimited width, so that no line is broken."""
    file = sys.stdout if file is None else file
    return Console(file=file, width=None if file.isatty() else _PLAIN_WIDTH, highlight=False)


def printable(text: str, *, lines: bool = False) -> str:
    """Text from a table, safe for a terminal: markup is escaped, and characters that could steer the terminal are printed as escapes."""
    return escape(visible(text, lines=lines))


def fact_grid() -> RichTable:
    """A grid of names and values."""
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def print_facts(facts: Mapping[str, str]) -> None:
    grid = fact_grid()
    for name, value in facts.items():
        grid.add_row(name, value)
    open_console().print(grid)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[str] = (), more: int = 0) -> None:
    console = open_console()
    names = [printable(heading) for heading in headings]
    cells = [[printable("" if cell is None else str(cell)) for cell in row] for row in rows]
    if _fits(console.width, names, cells):
        table = RichTable(header_style="bold", row_styles=["", "dim"])
        for heading, name in zip(headings, names, strict=True):
            table.add_column(name, justify="right" if heading in right else "left", overflow="fold")
        for row in cells:
            table.add_row(*row)
        console.print(table)
    else:
        _print_vertically(console, names, cells)
    if more:
        console.print(f"and {more} more; --json prints all")


def _fits(width: int, names: Sequence[str], cells: Sequence[Sequence[str]]) -> bool:
    """Whether the width is enough for every column to be readable."""
    longest = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
    return sum(min(length, _READABLE_WIDTH) + 3 for length in longest) < width


def _print_vertically(console: Console, names: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print each row as a block of names and values."""
    for number, row in enumerate(cells):
        grid = fact_grid()
        for name, cell in zip(names, row, strict=True):
            grid.add_row(name, cell)
        if number:
            console.print()
        console.print(grid)


def print_progress(done: int, total: int) -> None:
    """Say on a terminal how many files are done, in one line that is written anew."""
    if sys.stderr.isatty():
        print(f"\r{done:,} of {total:,} files", end="\n" if done == total else "", file=sys.stderr, flush=True)


def counted(count: int, name: str) -> str:
    """`1 file`, `2,000 files`."""
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print JSON. Characters that the output encoding lacks become JSON escapes."""
    has_all = (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(json_value(value), indent=indent, ensure_ascii=not has_all), flush=True)
