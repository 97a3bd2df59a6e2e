"""Printing tables, facts and JSON, safely for terminals, pipes and files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import IO, Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from tahoe.protocol.types.names import visible
from tahoe.protocol.types.value_texts import json_value

# People do not read longer tables; --json prints all rows.
ROWS_SHOWN_MAX = 100


# The width for output to a file or a pipe: its reader can cut long lines, but cannot join broken ones.
_PLAIN_WIDTH = 1_000_000


# Values up to this width stay in one line, and longer ones take at most so many lines. On a terminal too narrow for
# that, rows are printed vertically.
_READABLE_WIDTH = 24
_LINES_OF_A_CELL = 3

# Between two columns.
COLUMN_GAP = "  "


def open_console(file: IO[str] | None = None) -> Console:
    """A console for standard output or a file. Output to a pipe has practically unlimited width, so that no line is
    broken.
    """
    file = sys.stdout if file is None else file
    return Console(file=file, width=None if file.isatty() else _PLAIN_WIDTH, highlight=False)


def printable(text: str, *, lines: bool = False) -> str:
    """Text from a table, safe for a terminal: markup is escaped, and characters that could steer the terminal are
    printed as escapes.
    """
    return escape(visible(text, lines=lines))


def fact_grid() -> RichTable:
    """A grid of names and values."""
    grid = RichTable.grid(padding=(0, len(COLUMN_GAP), 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def print_facts(facts: Mapping[str, str]) -> None:
    grid = fact_grid()
    for name, value in facts.items():
        grid.add_row(name, value)
    open_console().print(grid)


def print_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    right: Sequence[str] = (),
    more: int = 0,
    cut: str | None = None,
) -> None:
    """Print rows below headings, or each row vertically if the terminal is too narrow.

    Args:
        right: headings of columns whose values are on the right side.
        more: how many rows are left out.
        cut: the heading of a column whose values are cut so that each row fits into a line.
    """
    console = open_console()
    names = [printable(heading) for heading in headings]
    cells = [[printable("" if cell is None else str(cell)) for cell in row] for row in rows]
    widths = _least_widths(headings, cells, cut)
    if sum(widths) + len(COLUMN_GAP) * (len(widths) - 1) <= console.width:
        table = RichTable(header_style="bold", box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for heading, name, width in zip(headings, names, widths, strict=True):
            table.add_column(name, justify="right" if heading in right else "left", overflow="fold", min_width=width)
        for row in cells if cut is None else _cut([names, *cells], headings.index(cut), console.width):
            table.add_row(*row)
        console.print(table)
    else:
        _print_vertically(console, [dict(zip(names, row, strict=True)) for row in cells])
    if more:
        console.print(f"and {more:,} more; --json prints all")


def _cut(cells: Sequence[Sequence[str]], column: int, width: int) -> Iterator[list[str]]:
    """The rows below the headings with the values of one column cut, so that each fits into a line."""
    taken = sum(
        max(map(cell_len, other)) + len(COLUMN_GAP) for n, other in enumerate(zip(*cells, strict=True)) if n != column
    )
    for row in cells[1:]:
        text = Text.from_markup(row[column])
        text.truncate(max(width - taken, 1), overflow="ellipsis")
        yield [*row[:column], escape(text.plain), *row[column + 1 :]]


def _least_widths(headings: Sequence[str], cells: Sequence[Sequence[str]], cut: str | None) -> list[int]:
    """How wide each column must be to be readable: long values may take a few lines, or are cut."""
    longest = [max(map(cell_len, column), default=0) for column in zip(*cells, strict=True)] or [0] * len(headings)
    words = [max(map(cell_len, heading.split()), default=0) for heading in headings]
    readable = [
        min(length, _READABLE_WIDTH)
        if heading == cut
        else max(min(length, _READABLE_WIDTH), ceil(length / _LINES_OF_A_CELL))
        for heading, length in zip(headings, longest, strict=True)
    ]
    return [max(pair) for pair in zip(readable, words, strict=True)]


def print_records(records: Iterable[Mapping[str, str]]) -> None:
    """Print names and values below each other, with an empty line between records."""
    safe = [{printable(name): printable(text, lines=True) for name, text in record.items()} for record in records]
    _print_vertically(open_console(), safe)


def _print_vertically(console: Console, records: Sequence[Mapping[str, str]]) -> None:
    for number, record in enumerate(records):
        grid = fact_grid()
        for name, value in record.items():
            grid.add_row(name, value)
        if number:
            console.print()
        console.print(grid)


def print_json_list(values: Iterable[Any]) -> None:
    """Print a JSON array whose items come one after the other, each when it is there, in a line."""
    separator = "["
    for value in values:
        print(separator, end="\n  ")
        print_json(value, indent=None, end="")
        separator = ","
    print("[]" if separator == "[" else "\n]", flush=True)


def print_json(value: Any, *, indent: int | None = 2, end: str = "\n") -> None:
    """Print JSON."""
    print(json_text(value, indent=indent), end=end, flush=True)


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """JSON for standard output. Characters that its encoding lacks become JSON escapes."""
    has_all = (sys.stdout.encoding or "").lower().startswith("utf")
    return json.dumps(json_value(value), indent=indent, ensure_ascii=not has_all)
