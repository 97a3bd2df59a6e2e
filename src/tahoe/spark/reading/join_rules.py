"""Which scans may leave out files by the keys of a join's other side: rules over records of Spark's plans, without the
JVM.

The law: without the files, the query has the same result. A row of the *pruned* side may be missing if it has no
partner on the other side and the join gives nothing for such a row; and if nothing between the scan and the join looks
at rows that the join does not need. The keys are found by a query over the other side, so this side must have the same
rows each time it is evaluated.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Side: TypeAlias = Literal["left", "right"]

OTHER: Mapping[Side, Side] = {"left": "right", "right": "left"}

# For each kind of join, the sides whose rows it drops if they have no partner. A null-aware anti join has no equality.
_BOTH: tuple[Side, ...] = ("left", "right")
_DROPPED: Mapping[str, tuple[Side, ...]] = {
    "INNER": _BOTH,
    "CROSS": _BOTH,
    "LEFT SEMI": _BOTH,
    "LEFT OUTER": ("right",),
    "RIGHT OUTER": ("left",),
    "LEFT ANTI": ("right",),
    "EXISTENCE": ("right",),
}

# For each kind of join, the sides that Spark may broadcast.
_BROADCAST: Mapping[str, tuple[Side, ...]] = {"INNER": _BOTH, "CROSS": _BOTH, "LEFT SEMI": ("right",)}

# For each kind of join, the sides of which a row reaches the result as it is, or not at all.
_KEPT: Mapping[str, tuple[Side, ...]] = {
    "INNER": _BOTH,
    "CROSS": _BOTH,
    "LEFT SEMI": ("left",),
    "LEFT OUTER": ("left",),
    "RIGHT OUTER": ("right",),
    "LEFT ANTI": ("left",),
    "EXISTENCE": ("left",),
}

# Nodes that treat each row by itself, or in an order that has no meaning.
_BY_ROW = frozenset(
    {"Filter", "Project", "Union", "Generate", "Sort", "RepartitionByExpression", "Repartition", "RebalancePartitions"}
)

# Nodes that treat rows together that are equal in some columns, if the key is among these.
_BY_GROUP = frozenset({"Aggregate", "Window"})

# Nodes that give the same rows each time if their children do.
_UNCHANGING = _BY_ROW | {
    "Read",
    "LocalRelation",
    "OneRowRelation",
    "Range",
    "Aggregate",
    "Join",
    "Expand",
    "SubqueryAlias",
}

# Relations that have the same rows each time: files that Spark has listed once, and rows that the log says.
_FIXED_SOURCES = frozenset({"InMemoryFileIndex", "Files", "Answer"})

# Aggregates with the same result in any order of the rows; `Group` is a column of GROUP BY. A sum of floating point
# numbers depends on the order, and so does which of the texts that a collation makes equal is a group's, or the least
# one.
_UNORDERED = frozenset({"Count", "Min", "Max", "Sum", "Group"})
_ROUNDED = ("float", "double")
_COLLATED = " collate "

# Types whose values Python compares as Spark does, narrow ones before those that hold all their values.
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_COMPARED = frozenset({*_WHOLE, "string", "date", "timestamp", "timestamp_ntz"})


@dataclass(frozen=True, slots=True)
class Step:
    """A node between a join and a scan.

    Attributes:
        join: for a join, its kind in SQL.
        child: through which child the key comes.
        grouped: whether the key is computed from columns by which the node groups rows.
    """

    name: str
    deterministic: bool
    join: str
    child: Side
    grouped: bool


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the side that has the keys. The keys themselves are a projection.

    Attributes:
        source: for a relation, the class that knows its rows.
        selects: whether it is a filter that selects rows.
        functions: aggregates, and columns of GROUP BY, with their types; and whether there is a user-defined function.
    """

    name: str
    deterministic: bool
    source: str
    selects: bool
    functions: tuple[str, ...]


def may_lack(join: str, side: Side) -> bool:
    """Whether rows of a side may be missing that have no partner on the other side."""
    return side in _DROPPED.get(join, ())


def may_be_broadcast(join: str, side: Side) -> bool:
    """Whether Spark can broadcast a side of a join."""
    return side in _BROADCAST.get(join, ())


def passes(steps: Sequence[Step]) -> bool:
    """Whether rows that a join drops may be missing beneath all of these nodes."""
    return all(step.deterministic and _passes(step) for step in steps)


def _passes(step: Step) -> bool:
    if step.name == "Join":
        return step.child in _KEPT.get(step.join, ())
    return step.name in _BY_ROW or (step.name in _BY_GROUP and step.grouped)


def is_fixed(nodes: Sequence[Node]) -> bool:
    """Whether a side has the same rows each time it is evaluated, without any effect."""
    return all(node.deterministic and _is_fixed(node) for node in nodes)


def _is_fixed(node: Node) -> bool:
    if node.name == "LogicalRelation":
        return node.source in _FIXED_SOURCES
    return node.name in _UNCHANGING and all(map(_is_unordered, node.functions))


def _is_unordered(function: str) -> bool:
    name, _, kind = function.partition(" ")
    return name in _UNORDERED and (name != "Sum" or kind not in _ROUNDED) and _COLLATED not in kind


def is_selective(nodes: Sequence[Node]) -> bool:
    """Whether a side probably has few of the keys that there are."""
    return any(node.selects or node.name in ("LocalRelation", "OneRowRelation") for node in nodes)


def are_comparable(types: Sequence[str]) -> bool:
    """Whether the values of a column can be looked up among keys.

    Args:
        types: those of the key, of the casts within it, and of the column, by Spark's names.
    """
    pairs = itertools.pairwise(types)
    return _is_compared(types[-1]) and all(_holds(wide, narrow) for wide, narrow in pairs)


def _is_compared(name: str) -> bool:
    return name in _COMPARED or name.startswith("decimal(")


def _holds(wide: str, narrow: str) -> bool:
    """Whether a type has all values of another one."""
    if wide in _WHOLE and narrow in _WHOLE:
        return _WHOLE.index(wide) >= _WHOLE.index(narrow)
    if wide.startswith("decimal(") and narrow.startswith("decimal("):
        (digits, scale), (fewer, least) = _decimal(wide), _decimal(narrow)
        return scale >= least and digits - scale >= fewer - least
    return wide == narrow


def _decimal(name: str) -> tuple[int, int]:
    digits, scale = name.removeprefix("decimal(").removesuffix(")").split(",")
    return int(digits), int(scale)


def step_of(told: Mapping[str, Any]) -> Step:
    return Step(**told)


def node_of(told: Mapping[str, Any]) -> Node:
    return Node(**{**told, "functions": tuple(told["functions"])})
