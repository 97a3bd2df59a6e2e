"""Which parts of a MERGE's condition are keys: by records of what Spark says of them, without Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tahoe.protocol.types.schema import LONG
from tahoe.spark.dml.join_keys import keys_of
from tahoe.spark.jvm.plans import Equality, Operand

LEFT, RIGHT = object(), object()  # columns, which are only handed on
TARGET = Operand(column=LEFT, side="left", never_fails=True, path=("id",), type="bigint", type_json='"long"')  # type: ignore[arg-type]
SOURCE = replace(TARGET, column=RIGHT, side="right", path=("key",))


@pytest.mark.parametrize("is_null_safe", [False, True])
@pytest.mark.parametrize("sides", [(TARGET, SOURCE), (SOURCE, TARGET)], ids=["target first", "source first"])
def test_a_key_has_the_targets_side_first(sides: tuple[Operand, Operand], is_null_safe: bool) -> None:
    (key,) = keys_of([Equality(*sides, is_null_safe)])
    assert (key.target, key.source, key.type, key.is_null_safe, key.path) == (LEFT, RIGHT, LONG, is_null_safe, ("id",))


@pytest.mark.parametrize(
    "change",
    [
        {"side": None},
        {"side": "left"},
        {"never_fails": False},
    ],
    ids=["both sides or none", "two of one side", "it may fail"],
)
def test_what_is_no_key(change: dict[str, Any]) -> None:
    assert keys_of([Equality(TARGET, replace(SOURCE, **change), is_null_safe=False)]) == []


@pytest.mark.parametrize(
    ("name", "json", "is_key"),
    [
        ("string", '"string"', True),
        ("string collate UTF8_LCASE", '"string"', False),
        ("decimal(10,2)", '"decimal(10,2)"', True),
        ("double", '"double"', False),
        ("boolean", '"boolean"', False),
        ("interval month", '"interval month"', False),
    ],
)
def test_only_types_whose_equal_values_have_equal_hashes_are_keys(name: str, json: str, is_key: bool) -> None:
    target, source = (replace(side, type=name, type_json=json) for side in (TARGET, SOURCE))
    assert len(keys_of([Equality(target, source, is_null_safe=False)])) == is_key
