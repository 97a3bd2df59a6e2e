"""Columns whose values come from a rule, and columns that a property names, change as their rule allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tahoe.errors import (
    ColumnTypeChangeError,
    DefaultOfNewColumnError,
    IdentityColumnChangeError,
    IdentityReplaceColumnsError,
    InvalidArgumentError,
)
from tahoe.protocol.changes.column_changes import (
    ColumnChange,
    NewColumn,
    Position,
    add_columns,
    change_column,
    drop_columns,
    history_column,
    rename_column,
    replace_columns,
)
from tahoe.protocol.changes.column_type_changes import TEXT_TYPE
from tahoe.protocol.changes.column_values import identity_columns
from tahoe.protocol.changes.table_configuration import TableConfiguration
from tahoe.protocol.log.actions import Metadata, Protocol
from tahoe.protocol.types.column_metadata import (
    IDENTITY_EXPLICIT,
    IDENTITY_HIGH_WATER_MARK,
    IDENTITY_START,
    IDENTITY_STEP,
)
from tahoe.protocol.types.schema import INTEGER, LONG, STRING, Decimal, Field, Map, Struct

IDENTITY = {IDENTITY_START: 1, IDENTITY_STEP: 1, IDENTITY_EXPLICIT: False, IDENTITY_HIGH_WATER_MARK: 7}
COLUMNS = Struct(
    (
        Field(name="i", type=LONG, metadata=IDENTITY),
        Field(name="n", type=INTEGER),
        Field(name="g", type=INTEGER, metadata={"delta.generationExpression": "n + 1"}),
    )
)


def definition(schema: Struct = COLUMNS, **properties: str) -> TableConfiguration:
    metadata = Metadata(id="m", schema_string=schema.to_json(), partition_columns=(), configuration={})
    made = TableConfiguration(table="t", protocol=Protocol(reader_version=2, writer_version=6), metadata=metadata)
    return made.with_properties({"delta.columnMapping.mode": "name", **properties}, lambda: "x")


def changed(of: TableConfiguration, **change: Any) -> TableConfiguration:
    return change_column(of, ColumnChange(**change), lambda: "x")


def test_an_identity_column_has_a_comment_a_place_and_a_name() -> None:
    found = changed(definition(), path=("I",), comment="number", position=Position("n"))
    found = rename_column(found, ("i",), "number")
    assert found.schema.names == ("n", "number", "g")
    assert dict(identity_columns(found.schema))["number"].high_water_mark == 7


@pytest.mark.parametrize("change", [{"nullable": False}, {"default": "1"}, {"type": Decimal(20, 0)}])
def test_what_an_identity_column_counts_stays(change: dict[str, Any]) -> None:
    with pytest.raises(IdentityColumnChangeError, match="identity"):
        changed(definition(), path=("i",), **change)


def test_columns_of_a_table_that_counts_are_not_replaced() -> None:
    with pytest.raises(IdentityReplaceColumnsError, match=r"identity columns \(i\)"):
        replace_columns(definition(), Struct((Field(name="n", type=INTEGER),)), lambda: "x")


def test_a_generated_column_has_no_default() -> None:
    with pytest.raises(ColumnTypeChangeError, match="generated"):
        changed(definition(), path=("g",), default="1")


def test_replaced_columns_bring_no_values() -> None:
    plain = definition(Struct((Field(name="n", type=INTEGER),)))
    with pytest.raises(DefaultOfNewColumnError):
        replace_columns(
            plain,
            Struct((*plain.schema, Field(name="d", type=INTEGER, metadata={"CURRENT_DEFAULT": "1"}))),
            lambda: "x",
        )


def test_a_text_is_not_cut_short_by_replacing_columns() -> None:
    text = Field(name="v", type=STRING, metadata={TEXT_TYPE: "varchar(5)"})
    shorter = replace(text, metadata={TEXT_TYPE: "varchar(4)"})
    with pytest.raises(ColumnTypeChangeError, match=r"varchar\(4\)"):
        replace_columns(definition(Struct((text,))), Struct((shorter,)), lambda: "x")


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda d: rename_column(d, ("s",), "a b"), "n,`a b`.x"),
        (lambda d: rename_column(d, ("s", "x"), "y"), "n,s.y"),
        (lambda d: drop_columns(d, [("s",)]), "n"),
        (lambda d: drop_columns(d, [("N",)]), "s.x"),
        (lambda d: drop_columns(d, [("s", "z")]), "n,s.x"),
    ],
)
def test_the_columns_with_statistics_follow(
    change: Callable[[TableConfiguration], TableConfiguration], left: str
) -> None:
    inner = Struct((Field(name="x", type=INTEGER), Field(name="z", type=INTEGER)))
    schema = Struct((Field(name="n", type=INTEGER), Field(name="s", type=inner), Field(name="o", type=INTEGER)))
    before = definition(schema, **{"delta.dataSkippingStatsColumns": "n,s.x"})
    assert change(before).properties["delta.dataSkippingStatsColumns"] == left


def test_the_history_tells_a_text_by_its_length() -> None:
    text = Field(name="v", type=STRING, metadata={TEXT_TYPE: "varchar(5)", "comment": "c"})
    assert history_column(("a b",), text) == {
        "name": "`a b`.v",
        "type": "varchar(5)",
        "nullable": True,
        "metadata": {"comment": "c"},
    }


def test_no_column_is_named_by_nothing() -> None:
    with pytest.raises(InvalidArgumentError, match="must be the name of a column, not empty"):
        rename_column(definition(), ("n",), "")
    with pytest.raises(InvalidArgumentError, match="must be the name of a column, not empty"):
        add_columns(definition(), [NewColumn(field=Field(name="", type=LONG))], lambda: "x")


def test_a_renamed_column_keeps_its_collations() -> None:
    collations = {"__COLLATIONS": {"m.key": "icu.UNICODE", "m.value": "spark.UTF8_LCASE"}}
    column = Field(name="m", type=Map(key=STRING, value=STRING), metadata=collations)
    renamed = rename_column(definition(Struct((column, Field(name="n", type=INTEGER)))), ("m",), "x")
    found = renamed.schema.find("x")
    assert found is not None
    assert found.metadata["__COLLATIONS"] == {"x.key": "icu.UNICODE", "x.value": "spark.UTF8_LCASE"}


def test_a_column_gets_the_collations_of_its_new_type() -> None:
    column = Field(name="s", type=STRING, metadata={"__COLLATIONS": {"s": "spark.UTF8_LCASE"}})
    before = definition(Struct((column,)))
    for collations in ({"s": "icu.UNICODE"}, None):
        (after,) = changed(before, path=("s",), type=STRING, collations=collations).schema
        assert after.metadata.get("__COLLATIONS") == collations
    (kept,) = changed(before, path=("s",), comment="c").schema
    assert kept.metadata["__COLLATIONS"] == {"s": "spark.UTF8_LCASE"}
