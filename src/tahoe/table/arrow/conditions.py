"""Conditions of `pyarrow.compute`: their values for rows, the columns that they name, and the comparisons in them.

Arrow does not let Python look into an expression, except by its text. What is read from the text is built again and compared with the
expression, so a text that means something else is never trusted. Knows nothing of Delta tables.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions

from tahoe.table.arrow.chunks import one_array

Comparison: TypeAlias = tuple[str, str, Any]
"""A column, `==`, `<`, `<=`, `>` or `>=`, and a Python value."""

_AND = " and "
_ATOM = re.compile(r"\((.+) (==|<=|>=|<|>) (.+)\)", re.DOTALL)
_BUILDERS: dict[str, Callable[[Any, Any], Any]] = {
    "==": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def condition_of_arrow(condition: pc.Expression, rows: pa.Table) -> pa.Array:
    """The value of a condition for each row.

    Raises:
        pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError: it does not fit the columns.
    """
    plan = [
        Declaration("table_source", TableSourceNodeOptions(rows)),
        Declaration("project", ProjectNodeOptions([condition], ["found"])),
    ]
    found = one_array(Declaration.from_sequence(plan).to_table(use_threads=False).column(0))
    return found if len(found) == rows.num_rows else pa.repeat(found[0], rows.num_rows)


def columns_in(condition: pc.Expression, names: Sequence[str]) -> list[str]:
    """The columns that a condition may name: all whose names are in its text."""
    text = str(condition)
    return [name for name in names if name in text]


def comparisons_in(condition: pc.Expression) -> list[Comparison]:
    """The comparisons of columns with values that are all true where the condition is true; none if it is anything else."""
    found = list(_comparisons(str(condition)))
    if not found or None in found:
        return []
    known = [comparison for comparison in found if comparison is not None]
    again = reduce(and_, (_BUILDERS[symbol](pc.field(name), pc.scalar(value)) for name, symbol, value in known))
    return known if again.equals(condition) else []


def _comparisons(text: str) -> Sequence[Comparison | None]:
    """The comparisons of a text, joined by AND from left to right; None for a part that is something else."""
    atom = _ATOM.fullmatch(text)
    if _AND in text and text.startswith("(("):
        left, _, right = text[1:-1].rpartition(_AND)
        return [*_comparisons(left), *_comparisons(right)]
    value = None if atom is None else _value(atom[3])
    return [None] if atom is None or value is None else [(atom[1], atom[2], value)]


def _value(text: str) -> Any:
    """The value that Arrow prints so; None if it is not known."""
    if text in ("true", "false"):
        return text == "true"
    for parse in (int, float, _text, dt.date.fromisoformat, _moment):
        try:
            return parse(text)
        except ValueError:
            continue
    return None


def _text(text: str) -> str:
    found = json.loads(text)
    if not isinstance(found, str):
        raise ValueError(text)  # noqa: TRY004 - it is the text that is wrong
    return found


def _moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)
