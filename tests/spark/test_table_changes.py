"""What the parts of ALTER TABLE make of a table: by records of what Spark asks, on a table in memory, without Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

import tahoe
from tahoe.errors import DefaultOfNewColumnError, DeltaError, UnsupportedOperationError
from tahoe.protocol.changes.column_changes import COMMENT, ColumnChange, Position
from tahoe.protocol.configuration.declared_keys import Key
from tahoe.protocol.types.schema import LONG
from tahoe.spark.ddl.alter_table import apply_changes, column_changes
from tahoe.spark.jvm.statements.table_changes import (
    AddColumn,
    AddConstraint,
    ClusterBy,
    DeleteColumn,
    DropConstraint,
    OtherChange,
    RemoveProperty,
    RenameColumn,
    SetProperty,
    TableChange,
    UpdateColumnComment,
    UpdateColumnDefaultValue,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
)
from tests.table.builders import memory_env

MAPPED = {"delta.columnMapping.mode": "name", "delta.feature.allowColumnDefaults": "supported"}


def make() -> tahoe.Table:
    table = tahoe.Table("memory://changed", env=memory_env())
    table.append(pa.table({"id": pa.array([1], pa.int32()), "name": pa.array(["a"])}), properties=MAPPED)
    return table


def changed(*changes: TableChange) -> tahoe.Table:
    table = make()
    with table.transaction() as open_:
        apply_changes(open_, changes)
    return table


def declared(name: str, data_type: IntegerType | LongType | StringType) -> StructType:
    return StructType().add(name, data_type)


def added(
    name: str, *parent: str, comment: str | None = None, default: str | None = None, position: Position | None = None
) -> AddColumn:
    return AddColumn((*parent, name), declared(name, StringType()), comment, default, position)


def test_the_changes_of_a_statement_are_one_version() -> None:
    table = changed(
        SetProperty("a", "1"),
        SetProperty("b", "2"),
        added("more"),
        RenameColumn(("name",), "title"),
        ClusterBy((("id",),)),
    )
    snapshot = table.snapshot()
    assert (snapshot.version, snapshot.schema.names, snapshot.clustering_columns) == (
        1,
        ("id", "title", "more"),
        (("id",),),
    )
    assert {"a": "1", "b": "2"}.items() <= snapshot.properties.items()
    assert "b" not in changed(SetProperty("a", "1"), RemoveProperty("b")).snapshot().properties


def test_an_added_column_has_its_comment_and_position() -> None:
    schema = changed(added("more", comment="why", position=Position())).snapshot().schema
    assert schema.names == ("more", "id", "name")
    assert schema.fields[0].metadata[COMMENT] == "why"


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ((DeleteColumn(("id",), False),), ("name",)),
        ((DeleteColumn(("id",), False), added("more")), ("name", "more")),
        ((DeleteColumn(("id",), False), DeleteColumn(("name",), False), added("name")), ("name",)),
        ((DeleteColumn(("gone",), True),), ("id", "name")),
    ],
    ids=["drop", "drop and add", "replace all", "if exists"],
)
def test_columns_that_go_and_come(changes: Sequence[TableChange], names: tuple[str, ...]) -> None:
    assert changed(*changes).snapshot().schema.names == names


def test_keys_come_and_go() -> None:
    key = Key(name="pk", kind="PRIMARY KEY", columns=("ID",), rely=True)
    table = changed(AddConstraint("pk", None, "PRIMARY KEY (ID)", key))
    assert table.snapshot().properties["tahoe.keys.pk"] == '{"kind":"PRIMARY KEY","columns":["id"],"rely":true}'
    with table.transaction() as open_:
        apply_changes(open_, [DropConstraint("pk", if_exists=False)])
    assert "tahoe.keys.pk" not in table.snapshot().properties


def test_constraints_come_and_go() -> None:
    table = changed(AddConstraint("positive", "id > 0", "CHECK (id > 0)"))
    assert table.snapshot().properties["delta.constraints.positive"] == "id > 0"
    with table.transaction() as open_:
        apply_changes(open_, [DropConstraint("positive", if_exists=False), DropConstraint("none", if_exists=True)])
    assert "delta.constraints.positive" not in table.snapshot().properties


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (
            AddConstraint("pk", None, "PRIMARY KEY (id)"),
            UnsupportedOperationError,
            r"PRIMARY KEY \(id\).*NOT ENFORCED, or use a CHECK",
        ),
        (OtherChange("SetSerde"), UnsupportedOperationError, "SetSerde.*no such change"),
        # a default arrives with its column
        (added("more", default="'x'"), DefaultOfNewColumnError, None),
    ],
    ids=["an enforced key", "another change", "the default of a new column of a table with rows"],
)
def test_what_a_delta_table_does_not_have_is_refused(
    change: TableChange, error: type[DeltaError], text: str | None
) -> None:
    with pytest.raises(error, match=text):
        changed(SetProperty("a", "1"), change)


def test_a_change_that_cannot_be_leaves_nothing_of_the_others() -> None:
    table = make()
    with pytest.raises(DeltaError), table.transaction() as open_:
        apply_changes(open_, [SetProperty("a", "1"), RenameColumn(("gone",), "other")])
    assert table.snapshot().version == 0


def test_updates_of_one_column_are_one_change_in_the_order_of_the_statement() -> None:
    found = column_changes(
        [
            UpdateColumnComment(("b",), "why"),
            UpdateColumnType(("a",), declared("a", LongType())),
            UpdateColumnNullability(("b",), True),
            UpdateColumnPosition(("a",), Position("b")),
            UpdateColumnDefaultValue(("b",), ""),
        ],
        table="t",
    )
    assert found == [
        ColumnChange(path=("b",), comment="why", nullable=True, default=""),
        ColumnChange(path=("a",), type=LONG, position=Position("b")),
    ]
