"""Which scans may leave out files by the keys of joins: rules over records, without Spark."""

from __future__ import annotations

import itertools

import pytest

from tahoe.spark.reading.join_rules import (
    Node,
    Step,
    are_comparable,
    is_fixed,
    is_selective,
    may_be_broadcast,
    may_lack,
    passes,
)

KINDS = (
    "INNER",
    "CROSS",
    "LEFT OUTER",
    "RIGHT OUTER",
    "FULL OUTER",
    "LEFT SEMI",
    "LEFT ANTI",
    "EXISTENCE",
    "LEFT SINGLE",
)


def joined(kind: str, left: list[int], right: list[int]) -> list[object]:
    """What a join of keys gives, each row with its number in its side."""
    pairs = [(a, b) for a in enumerate(left) for b in enumerate(right) if a[1] == b[1]]
    alone = [(a, None) for a in enumerate(left) if a[1] not in right]
    others = [(None, b) for b in enumerate(right) if b[1] not in left]
    return {
        "INNER": pairs,
        "CROSS": pairs,
        "LEFT OUTER": pairs + alone,
        "RIGHT OUTER": pairs + others,
        "FULL OUTER": pairs + alone + others,
        "LEFT SEMI": [(a, None) for a in enumerate(left) if a[1] in right],
        "LEFT ANTI": [(a, None) for a in enumerate(left) if a[1] not in right],
        "EXISTENCE": [(a, a[1] in right) for a in enumerate(left)],
    }.get(kind, [])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_a_partner_may_be_missing_where_the_join_drops_them(kind):
    """All small sides: what the rule allows changes nothing, and what it forbids may change something."""
    changed = {"left": False, "right": False}
    for left, right in itertools.product(itertools.product([1, 2, 3], repeat=2), repeat=2):
        without = {
            "left": ([k for k in left if k in right], [*right]),
            "right": ([*left], [k for k in right if k in left]),
        }
        for side, sides in without.items():
            keys = [sorted(key_of(row) for row in joined(kind, *given)) for given in (sides, ([*left], [*right]))]
            changed[side] |= keys[0] != keys[1]
    if kind == "LEFT SINGLE":  # an error where a row has several partners
        assert not any(may_lack(kind, side) for side in changed)
    else:
        assert {side: may_lack(kind, side) for side in changed} == {
            side: not is_changed for side, is_changed in changed.items()
        }


def key_of(row: object) -> str:
    """A row by its keys, whatever its number."""
    return repr([part[1] if isinstance(part, tuple) else part for part in row])


def test_no_side_that_rows_are_kept_of_is_broadcast():
    assert [(kind, side) for kind in KINDS for side in ("left", "right") if may_be_broadcast(kind, side)] == [
        ("INNER", "left"), ("INNER", "right"), ("CROSS", "left"), ("CROSS", "right"), ("LEFT SEMI", "right"),
    ]  # fmt: skip


def step(name: str, *, deterministic: bool = True, join: str = "", child: str = "left", grouped: bool = False) -> Step:
    return Step(name, deterministic, join, child, grouped)


@pytest.mark.parametrize(
    ("steps", "pass_"),
    [
        ([], True),
        ([step("Project"), step("Filter"), step("Union"), step("Sort")], True),
        ([step("Project", deterministic=False)], False),
        ([step("Filter"), step("GlobalLimit")], False),
        ([step("Sample")], False),
        ([step("Expand")], False),
        ([step("BatchEvalPython")], False),
        ([step("Aggregate", grouped=True)], True),
        ([step("Aggregate")], False),
        ([step("Window", grouped=True)], True),
        ([step("Window")], False),
        ([step("Join", join="INNER", child="right")], True),
        ([step("Join", join="LEFT OUTER")], True),
        ([step("Join", join="LEFT OUTER", child="right")], False),
        ([step("Join", join="RIGHT OUTER", child="right")], True),
        ([step("Join", join="FULL OUTER")], False),
        ([step("Join", join="LEFT ANTI")], True),
        ([step("Join", join="LEFT SINGLE")], False),
    ],
)
def test_what_stands_between_a_join_and_a_scan(steps, pass_):
    assert passes(steps) is pass_


def node(name: str, *functions: str, deterministic: bool = True, source: str = "", selects: bool = False) -> Node:
    return Node(name, deterministic, source, selects, functions)


@pytest.mark.parametrize(
    ("nodes", "fixed"),
    [
        ([node("Project"), node("Filter"), node("Read")], True),
        ([node("LocalRelation")], True),
        ([node("Range")], True),
        ([node("LogicalRelation", source="InMemoryFileIndex")], True),
        ([node("LogicalRelation", source="JDBCRelation")], False),
        ([node("LogicalRelation", source="CatalogFileIndex")], False),
        ([node("DataSourceV2ScanRelation")], False),
        ([node("InMemoryRelation")], False),
        ([node("LogicalRDD")], False),
        ([node("CTERelationRef")], False),
        ([node("Filter", deterministic=False), node("Read")], False),
        ([node("Project", "user-defined"), node("Read")], False),
        ([node("GlobalLimit"), node("LocalLimit"), node("Read")], False),
        ([node("Window"), node("Read")], False),
        ([node("Aggregate", "Max double", "Sum bigint"), node("Read")], True),
        ([node("Aggregate", "Sum double"), node("Read")], False),
        ([node("Aggregate", "Average double"), node("Read")], False),
        ([node("Aggregate", "First int"), node("Read")], False),
        ([node("Aggregate", "Group string", "Group double", "Max string"), node("Read")], True),
        ([node("Aggregate", "Group string collate UTF8_LCASE"), node("Read")], False),
        ([node("Aggregate", "Group int", "Max string collate UTF8_LCASE"), node("Read")], False),
    ],
)
def test_a_side_with_the_keys_has_the_same_rows_each_time(nodes, fixed):
    assert is_fixed(nodes) is fixed


def test_a_side_is_selective_by_a_filter_or_by_its_kind():
    assert is_selective([node("Project"), node("Filter", selects=True), node("Read")])
    assert is_selective([node("LocalRelation")])
    assert not is_selective([node("Filter"), node("Read")])


@pytest.mark.parametrize(
    ("types", "comparable"),
    [
        (["bigint"], True),
        (["bigint", "int"], True),
        (["bigint", "int", "smallint"], True),
        (["int", "bigint"], False),
        (["string"], True),
        (["string collate UTF8_LCASE"], False),
        (["string", "int"], False),
        (["date"], True),
        (["timestamp", "date"], False),
        (["timestamp_ntz"], True),
        (["decimal(20,4)", "decimal(9,2)"], True),
        (["decimal(9,4)", "decimal(9,2)"], False),
        (["decimal(12,1)", "decimal(9,2)"], False),
        (["decimal(20,0)", "int"], False),
        (["double"], False),
        (["double", "float"], False),
        (["double", "int"], False),
        (["boolean"], False),
        (["binary"], False),
    ],
)
def test_values_are_looked_up_where_casts_lose_nothing(types, comparable):
    assert are_comparable(types) is comparable
