"""The leaf of a row as SQL that Spark computes without Python.

A nested IF over all splits is the fastest for a hundred leaves, and impossible for ten thousand: the comparisons are
one method of the JVM, which is interpreted beyond 8 KB and illegal beyond 64 KB. Codes of values by ranges would need
as many comparisons, or a function that Spark does not have. So only the first levels of the tree are a nested IF. Each
further level is a step: the splits of the level are constant arrays (the bounds of each column, the nodes below and
above), in which the row's node is looked up. A step's code is as long as there are columns, not as there are splits; a
row takes as many steps as the tree has levels.

Steps are columns of queries around each other, because each uses the one before several times. Spark does not merge
such queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from tahoe.protocol.types.schema import BINARY, DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ, DataType
from tahoe.table.arrow.layout import Layout, Split
from tahoe.table.arrow.sort_keys import as_bytes
from tahoe.table.arrow.types import arrow_type, delta_schema

# At most 127 comparisons, whose code the JVM compiles.
NESTED_LEVELS = 7

# A node of one level: its index among the splits of the level, or the complement of a cell.
_Node: TypeAlias = int
_Level: TypeAlias = list[tuple[Split, _Node, _Node]]


def leaf_steps(
    layout: Layout, columns: Sequence[str], node: str, spread: str, *, nested_levels: int = NESTED_LEVELS
) -> tuple[str, ...]:
    """Expressions to evaluate one after the other. Each uses the result of the one before; the last gives the leaf.

    Args:
        columns: the layout's columns as SQL; they must have the types of the sample.
        node: the name in SQL under which each expression finds the result of the one before.
        spread: a number of each row that is the same when a task is repeated: it chooses among leaves that share a
            cell.
    """
    levels = _levels(layout)
    literals = [_literals(bounds) for bounds in layout.bounds]
    first = _nested(levels[:nested_levels], 0, 0 if levels else -1, columns, literals)
    further = [_step(level, columns, literals, node) for level in levels[nested_levels:]]
    return first, *further, _leaf(layout, node, spread)


def _levels(layout: Layout) -> list[_Level]:
    """The splits of each level, with the nodes below and above them."""
    levels: list[_Level] = []
    numbers = [0] if layout.splits else []
    while numbers:
        following: list[int] = []
        splits = [layout.splits[number] for number in numbers]
        levels.append(
            [(split, _node(layout, split.below, following), _node(layout, split.above, following)) for split in splits]
        )
        numbers = following
    return levels


def _node(layout: Layout, child: int, following: list[int]) -> _Node:
    if child >= len(layout.splits):
        return ~(child - len(layout.splits))
    following.append(child)
    return len(following) - 1


def _nested(
    levels: Sequence[_Level], level: int, node: _Node, columns: Sequence[str], literals: Sequence[Sequence[str]]
) -> str:
    """The node of the level behind the given ones to which a row comes from a node of one of them."""
    if level == len(levels) or node < 0:
        return str(node)
    split, below, above = levels[level][node]
    sides = [_nested(levels, level + 1, side, columns, literals) for side in (above, below)]
    return f"if({columns[split.column]} >= {literals[split.column][split.bound]}, {sides[0]}, {sides[1]})"


def _step(level: _Level, columns: Sequence[str], literals: Sequence[Sequence[str]], node: str) -> str:
    is_above = []
    for number in sorted({split.column for split, _, _ in level}):
        bounds = [literals[number][split.bound] if split.column == number else "NULL" for split, _, _ in level]
        is_above.append(f"coalesce({columns[number]} >= get(array({', '.join(bounds)}), {node}), false)")
    below, above = (
        f"get({_integers(nodes)}, {node})" for nodes in zip(*((low, high) for _, low, high in level), strict=True)
    )
    return f"if({node} < 0, {node}, if({' or '.join(is_above)}, {above}, {below}))"


def _leaf(layout: Layout, node: str, spread: str) -> str:
    if layout.leaves == len(layout.cells):
        return f"-1 - {node}"
    first, count = (
        _integers(numbers) for numbers in zip(*((cell.start, len(cell)) for cell in layout.cells), strict=True)
    )
    return f"cast(get({first}, -1 - {node}) + pmod({spread}, get({count}, -1 - {node})) as int)"


def _integers(numbers: Sequence[int]) -> str:
    return f"array({', '.join(map(str, numbers))})"


def _literals(bounds: pa.Array) -> list[str]:
    """Values as constant expressions whose meaning does not depend on the session: not on its time zone, nor on how it
    escapes texts.
    """
    kind = delta_schema(pa.schema([pa.field("", bounds.type)]), table="").fields[0].type
    if kind in (STRING, BINARY):
        form = "CAST(X'{}' AS STRING)" if kind == STRING else "X'{}'"
        return [form.format(value.hex()) for value in as_bytes(bounds).to_pylist()]
    plain = bounds.cast(arrow_type(kind), safe=False)
    number, form = _MOMENTS.get(kind, (pa.string(), f"CAST('{{}}' AS {kind})"))
    return [form.format(value) for value in plain.cast(number).to_pylist()]


_MOMENTS: Mapping[DataType, tuple[pa.DataType, str]] = {
    DATE: (pa.int32(), "date_from_unix_date({})"),
    TIMESTAMP: (pa.int64(), "timestamp_micros({})"),
    TIMESTAMP_NTZ: (pa.int64(), "timestampadd(MICROSECOND, {}, TIMESTAMP_NTZ'1970-01-01 00:00:00')"),
}
