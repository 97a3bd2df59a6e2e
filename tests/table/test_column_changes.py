"""Columns change without Spark too, several of them in one commit, and the past stays as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import (
    ArrayTypeChangeError,
    ClusteredAndPartitionedError,
    ClusteringStatisticsError,
    ColumnDefaultsNotEnabledError,
    ColumnNotFoundError,
    ColumnTypeChangeError,
    ConstraintDependsError,
    ConstraintNotFoundError,
    DefaultOfNewColumnError,
    DropClusteringColumnError,
    DropColumnUnsupportedError,
    DropLastFieldError,
    DropPartitionColumnError,
    DuplicateColumnsError,
    InvalidArgumentError,
    InvalidClusteringError,
    InvalidColumnNameError,
    InvalidPropertyError,
    MapTypeChangeError,
    NewColumnNotNullError,
    NotNullViolationError,
    ParentNotStructError,
    RenameColumnUnsupportedError,
    StructTypeChangeError,
    TooManyClusteringColumnsError,
)
from tahoe.protocol.changes.column_changes import ColumnChange, NewColumn, Position, dotted
from tahoe.protocol.changes.column_type_changes import TEXT_TYPE
from tahoe.protocol.configuration.column_mapping import column_id
from tahoe.protocol.types.schema import INTEGER, LONG, STRING, Array, Field, Map, Struct
from tahoe.table.transactions.transaction_builder import TransactionBuilder
from tests.table.builders import memory_env

ROWS = pa.table(
    {
        "id": pa.array([1, 2, None], pa.int32()),
        "name": ["a", "b", "c"],
        "s": pa.array(
            [{"x": 1, "y": [{"z": 1}]}] * 3,
            pa.struct([("x", pa.int32()), ("y", pa.list_(pa.struct([("z", pa.int32())])))]),
        ),
        "m": pa.array([[("k", 1)]] * 3, pa.map_(pa.string(), pa.int32())),
        "p": ["1", "2", "2"],
    }
)


@pytest.fixture
def table() -> tahoe.Table:
    table = tahoe.Table("memory://given", env=memory_env())
    table.append(ROWS, partition_by=["p"])
    return table


@pytest.fixture
def mapped(table: tahoe.Table) -> tahoe.Table:
    with table.transaction() as changes:
        changes.set_properties({"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"})
    return table


def integer(name: str, **more: Any) -> Field:
    return Field(name=name, type=INTEGER, **more)


def change(table: tahoe.Table, *steps: Callable[[TransactionBuilder], None]) -> None:
    with table.transaction() as changes:
        for step in steps:
            step(changes)


def told(table: tahoe.Table, key: str) -> Any:
    return json.loads(table.history()[0]["operationParameters"][key])


def test_columns_are_added_at_every_depth(table: tahoe.Table) -> None:
    new = [
        NewColumn(field=integer("a", metadata={"comment": "x"}), position=Position()),
        NewColumn(field=integer("b"), parent=("S",), position=Position("X")),
        NewColumn(field=integer("c"), parent=("s", "y", "element")),
        NewColumn(field=Field(name="d", type=Struct((integer("e"),)))),
        NewColumn(field=integer("f"), parent=("d",)),
    ]
    change(table, lambda c: c.add_columns(new))
    assert str(table.schema) == (
        "struct<a:integer,id:integer,name:string,s:struct<x:integer,b:integer,y:array<struct<z:integer,c:integer>>>,"
        "m:map<string,integer>,p:string,d:struct<e:integer,f:integer>>"
    )
    assert table.to_arrow(["a", "d"]).to_pylist() == [{"a": None, "d": None}] * 3
    assert table.history()[0]["operation"] == "ADD COLUMNS"
    assert told(table, "columns")[:2] == [
        {
            "column": {"name": "a", "type": "integer", "nullable": True, "metadata": {"comment": "x"}},
            "position": "FIRST",
        },
        {"column": {"name": "S.b", "type": "integer", "nullable": True, "metadata": {}}, "position": "AFTER X"},
    ]


@pytest.mark.parametrize(
    ("column", "error"),
    [
        (NewColumn(field=integer("a", nullable=False)), NewColumnNotNullError),
        (NewColumn(field=Field(name="a", type=Struct((integer("b", nullable=False),)))), NewColumnNotNullError),
        (NewColumn(field=integer("a", metadata={"CURRENT_DEFAULT": "1"})), DefaultOfNewColumnError),
        (NewColumn(field=integer("ID")), DuplicateColumnsError),
        (NewColumn(field=integer("X"), parent=("s",)), DuplicateColumnsError),
        (NewColumn(field=integer("a"), parent=("m",)), ParentNotStructError),
        (NewColumn(field=integer("a"), parent=("s", "nothing")), ColumnNotFoundError),
        (NewColumn(field=integer("a"), position=Position("nothing")), ColumnNotFoundError),
        (NewColumn(field=integer("a b")), InvalidColumnNameError),
    ],
)
def test_a_column_that_cannot_be_is_refused(table: tahoe.Table, column: NewColumn, error: type[Exception]) -> None:
    with table.transaction() as changes, pytest.raises(error):
        changes.add_columns([column])
    assert table.version == 0


def test_columns_are_named_as_in_sql(mapped: tahoe.Table) -> None:
    """A user without Spark has Arrow fields and names, and no classes of the protocol."""
    with mapped.transaction() as changes:
        changes.add_columns([pa.field("a.b", pa.string()), pa.field("c", pa.int32())])
        changes.rename_column("s.x", "first")
        changes.rename_column("`a.b`", "d")
        changes.drop_columns(["c"])
    snapshot = mapped.snapshot()
    assert [*snapshot.schema.names][-1] == "d"
    assert "first" in str(snapshot.schema.find("s"))


@pytest.mark.parametrize("path", ["a, b", "", "a..b", (), 3, "`a"])
def test_what_names_no_column_is_refused(mapped: tahoe.Table, path: object) -> None:
    with mapped.transaction() as changes, pytest.raises(InvalidArgumentError, match='Pass "name" for a column'):
        changes.rename_column(path, "c")  # type: ignore[arg-type]


def test_the_nearest_names_are_told(mapped: tahoe.Table) -> None:
    with mapped.transaction() as changes, pytest.raises(ColumnNotFoundError, match=r"no column s\.xx .* it has s\.x, "):
        changes.drop_columns([("s", "xx")])


def test_renaming_and_dropping_need_column_mapping(table: tahoe.Table) -> None:
    with table.transaction() as changes:
        with pytest.raises(RenameColumnUnsupportedError, match=r"'delta\.columnMapping\.mode' = 'name'"):
            changes.rename_column(("id",), "key")
        with pytest.raises(DropColumnUnsupportedError, match=r"'delta\.columnMapping\.mode' = 'name'"):
            changes.drop_columns([("id",)])


def test_names_follow(mapped: tahoe.Table) -> None:
    version = mapped.version
    change(
        mapped,
        lambda c: c.set_properties({"delta.dataSkippingStatsColumns": "id,s.x,name"}),
        lambda c: c.rename_column(("ID",), "key"),
        lambda c: c.rename_column(("s", "x"), "a.b"),
        lambda c: c.rename_column(("p",), "part"),
        lambda c: c.drop_columns([("name",), ("s", "y")]),
        lambda c: c.add_columns([NewColumn(field=integer("name"))]),
    )
    assert (
        str(mapped.schema) == "struct<key:integer,s:struct<a.b:integer>,m:map<string,integer>,part:string,name:integer>"
    )
    assert mapped.snapshot().partition_columns == ("part",)
    assert mapped.properties["delta.dataSkippingStatsColumns"] == "key,s.`a.b`"
    assert mapped.to_arrow(["key", "name", "part"], filter="part = '1'").to_pylist() == [
        {"key": 1, "name": None, "part": "1"}
    ]
    assert mapped.version == version + 1
    assert mapped.snapshot(version).to_arrow(["name"]).column("name").to_pylist() == ["a", "b", "c"]
    ids = [column_id(f) for f in mapped.schema]
    assert len(set(ids)) == len(ids)
    mapped.append(pa.table({"key": pa.array([9], pa.int32()), "part": ["2"]}))
    assert sorted(mapped.to_arrow(["key"], filter="key > 1").column("key").to_pylist()) == [2, 9]


def test_what_cannot_be_dropped(mapped: tahoe.Table) -> None:
    with mapped.transaction() as changes:
        for path, error in (
            (("p",), DropPartitionColumnError),
            (("nothing",), ColumnNotFoundError),
            (("m", "key"), ParentNotStructError),
        ):
            with pytest.raises(error):
                changes.drop_columns([path])
        with pytest.raises(DropLastFieldError):
            changes.drop_columns([("s", "x"), ("s", "y")])
        with pytest.raises(DropLastFieldError):
            changes.drop_columns([("id",), ("name",), ("s",), ("m",)])
        changes.drop_columns([("nothing",)], if_exists=True)
    with mapped.transaction() as changes, pytest.raises(DuplicateColumnsError):
        changes.rename_column(("id",), "NAME")


def test_an_expression_keeps_its_columns(mapped: tahoe.Table) -> None:
    change(mapped, lambda c: c.add_constraint("c", "s.x > 0"))
    with mapped.transaction() as changes:
        for refused in (("s", "x"), ("s",)):
            with pytest.raises(ConstraintDependsError, match=r"s\.x > 0"):
                changes.drop_columns([refused])
        with pytest.raises(ConstraintDependsError):
            changes.rename_column(("s",), "t")
        with pytest.raises(ConstraintDependsError):
            changes.alter_columns([ColumnChange(path=("s", "x"), type=LONG)])
        changes.rename_column(("s", "y"), "yy")
        changes.drop_constraint("C")
        changes.rename_column(("s", "x"), "xx")
    assert str(mapped.schema.find("s").type) == "struct<xx:integer,yy:array<struct<z:integer>>>"  # type: ignore[union-attr]
    with mapped.transaction() as changes, pytest.raises(ConstraintNotFoundError):
        changes.drop_constraint("c")


def test_columns_change(mapped: tahoe.Table) -> None:
    change(
        mapped,
        lambda c: c.alter_columns(
            [
                ColumnChange(path=("id",), type=LONG, comment="key", position=Position("name")),
                ColumnChange(path=("s", "y", "element", "z"), type=LONG),
                ColumnChange(path=("m", "value"), type=LONG),
                ColumnChange(path=("name",), nullable=False),
            ]
        ),
    )
    assert (
        str(mapped.schema)
        == "struct<name:string,id:long,s:struct<x:integer,y:array<struct<z:long>>>,m:map<string,long>,p:string>"
    )
    assert mapped.schema.find("m").metadata["delta.typeChanges"] == [  # type: ignore[union-attr]
        {"fromType": "integer", "toType": "long", "fieldPath": "value"}
    ]
    assert (mapped.schema.fields[0].nullable, mapped.schema.fields[1].metadata["comment"]) == (False, "key")
    assert sorted(mapped.to_arrow(["id"], filter="id > 0").column("id").to_pylist()) == [1, 2]
    assert mapped.history()[0]["operation"] == "CHANGE COLUMNS"
    with pytest.raises(NotNullViolationError):
        mapped.append(pa.table({"id": [5], "name": pa.array([None], pa.string()), "p": ["1"]}))
    change(mapped, lambda c: c.alter_columns([ColumnChange(path=("name",), nullable=True)]))
    assert mapped.history()[0]["operation"] == "CHANGE COLUMN"
    assert told(mapped, "column")["nullable"] is True


def test_rows_decide_whether_a_column_may_be_not_null(table: tahoe.Table) -> None:
    with table.transaction() as changes, pytest.raises(NotNullViolationError, match="id"):
        changes.alter_columns([ColumnChange(path=("id",), nullable=False)])
    with table.transaction() as changes:
        changes.delete("id is null")
        changes.alter_columns(
            [ColumnChange(path=("id",), nullable=False), ColumnChange(path=("s", "x"), nullable=False)]
        )
    assert [f.nullable for f in table.schema][:2] == [False, True]
    with table.transaction() as changes, pytest.raises(ColumnTypeChangeError, match="array or a map"):
        changes.alter_columns([ColumnChange(path=("s", "y", "element", "z"), nullable=False)])


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (ColumnChange(path=("id",), type=STRING), ColumnTypeChangeError),
        (ColumnChange(path=("s",), type=Struct((integer("x"),))), StructTypeChangeError),
        (ColumnChange(path=("s", "y"), type=Array(element=INTEGER)), ArrayTypeChangeError),
        (ColumnChange(path=("m",), type=Map(key=STRING, value=LONG)), MapTypeChangeError),
        (ColumnChange(path=("m", "value"), comment="x"), ColumnTypeChangeError),
        (ColumnChange(path=("id",), default="1"), ColumnDefaultsNotEnabledError),
        (ColumnChange(path=("s", "x"), default="1"), ColumnTypeChangeError),
        (ColumnChange(path=("name",), type=STRING, text_type="varchar(5)"), ColumnTypeChangeError),
        (ColumnChange(path=("id",), position=Position("nothing")), ColumnNotFoundError),
        (ColumnChange(path=("nothing",), comment="x"), ColumnNotFoundError),
    ],
)
def test_a_change_that_cannot_be_is_refused(mapped: tahoe.Table, wanted: ColumnChange, error: type[Exception]) -> None:
    with mapped.transaction() as changes, pytest.raises(error):
        changes.alter_columns([wanted])


def test_without_type_widening_a_type_stays(table: tahoe.Table) -> None:
    with table.transaction() as changes, pytest.raises(ColumnTypeChangeError, match=r"delta\.enableTypeWidening"):
        changes.alter_columns([ColumnChange(path=("id",), type=LONG)])


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        ("varchar(3)", "varchar(5)", True),
        ("char(3)", "varchar(3)", True),
        ("varchar(3)", None, True),
        ("varchar(3)", "varchar(2)", False),
        ("char(3)", "char(5)", False),
    ],
)
def test_texts_may_become_longer(before: str, after: str | None, allowed: bool) -> None:
    table = tahoe.Table("memory://texts", env=memory_env())
    table.append(pa.table({"v": ["a"]}))
    text = Field(name="t", type=STRING, metadata={TEXT_TYPE: before})
    change(table, lambda c: c.add_columns([NewColumn(field=text)]))
    with table.transaction() as changes:
        if allowed:
            changes.alter_columns([ColumnChange(path=("t",), type=STRING, text_type=after)])
        else:
            with pytest.raises(ColumnTypeChangeError):
                changes.alter_columns([ColumnChange(path=("t",), type=STRING, text_type=after)])
    assert table.schema.find("t").metadata.get(TEXT_TYPE) == (after if allowed else before)  # type: ignore[union-attr]


def test_defaults(table: tahoe.Table) -> None:
    change(
        table,
        lambda c: c.set_properties({"delta.feature.allowColumnDefaults": "supported"}),
        lambda c: c.alter_columns([ColumnChange(path=("name",), default="'none'")]),
    )
    assert table.schema.find("name").metadata == {"CURRENT_DEFAULT": "'none'"}  # type: ignore[union-attr]
    change(table, lambda c: c.alter_columns([ColumnChange(path=("name",), default="")]))
    assert table.schema.find("name").metadata == {}  # type: ignore[union-attr]


def test_replacing_columns(mapped: tahoe.Table) -> None:
    kept = [f for f in mapped.schema if f.name != "name"]
    plain = Struct(tuple(Field(name=f.name, type=f.type, metadata={"comment": f.name}) for f in reversed(kept)))
    change(mapped, lambda c: c.replace_columns(plain))
    assert mapped.schema.names == ("p", "m", "s", "id")
    assert [f.metadata["comment"] for f in mapped.schema] == ["p", "m", "s", "id"]
    assert sorted(mapped.to_arrow(["id"], filter="id > 0").column("id").to_pylist()) == [1, 2]
    with mapped.transaction() as changes, pytest.raises(ColumnTypeChangeError, match="a rename"):
        changes.replace_columns(Struct((*plain.fields[:3], integer("key"))))


@pytest.mark.parametrize("mode", ["none", "name"])
@pytest.mark.parametrize("how", ["replace_columns", "set_schema"])
def test_names_in_another_case_lose_no_values(mode: str, how: str) -> None:
    env = memory_env()
    table = tahoe.Table(env.store.url, env=env)
    table.append(pa.table({"a": [1], "p": ["x"]}), partition_by=["p"], properties={"delta.columnMapping.mode": mode})
    change(table, lambda c: getattr(c, how)(pa.schema([("A", pa.int64()), ("P", pa.string()), ("new", pa.int64())])))
    table.append(pa.table({"a": [2], "p": ["y"]}))
    names = ["a", "p", "new"] if mode == "none" else ["A", "P", "new"]
    assert sorted(map(tuple, (row.values() for row in table.to_arrow(names).to_pylist()))) == [
        (1, "x", None),
        (2, "y", None),
    ]
    assert table.snapshot().partition_columns == (names[1],)
    assert (table.scan("a = 1").kept_files, table.scan("p = 'x'").kept_files) == (1, 1)


def test_clustering() -> None:
    table = tahoe.Table("memory://clustered", env=memory_env())
    table.append(pa.table({"a": [1], "b": ["x"], "l": [[1]], "s": [{"x": 1}], "c": [1], "d": [1]}))
    change(table, lambda c: c.cluster_by([]))
    assert table.version == 0, "a table that is not clustered is not made one by CLUSTER BY NONE"
    change(
        table,
        lambda c: c.set_properties({"delta.columnMapping.mode": "name"}),
        lambda c: c.cluster_by([("A",), ("s", "x")]),
    )
    assert table.snapshot().clustering_columns == (("a",), ("s", "x"))
    assert {"clustering", "domainMetadata"} <= (table.protocol.writer_features or frozenset())
    change(table, lambda c: c.rename_column(("a",), "z"))
    assert table.snapshot().clustering_columns == (("z",), ("s", "x"))
    for columns, error in (
        ([("l",)], ClusteringStatisticsError),
        ([("nothing",)], ColumnNotFoundError),
        ([("b",), ("B",)], InvalidClusteringError),
        ([("z",), ("b",), ("c",), ("d",), ("s", "x")], TooManyClusteringColumnsError),
    ):
        with table.transaction() as changes, pytest.raises(error):
            changes.cluster_by(columns)
    with table.transaction() as changes, pytest.raises(DropClusteringColumnError):
        changes.drop_columns([("s",)])
    change(table, lambda c: c.cluster_by([]), lambda c: c.drop_columns([("s",)]))
    assert table.snapshot().clustering_columns == ()


def test_a_partitioned_table_is_not_clustered(table: tahoe.Table) -> None:
    with table.transaction() as changes, pytest.raises(ClusteredAndPartitionedError):
        changes.cluster_by([("id",)])


def test_columns_whose_files_have_no_statistics_are_no_clustering_columns() -> None:
    table = tahoe.Table("memory://few", env=memory_env())
    table.append(pa.table({"a": [1], "b": [1]}), properties={"delta.dataSkippingNumIndexedCols": "1"})
    with (
        table.transaction() as changes,
        pytest.raises(ClusteringStatisticsError, match="no statistics are collected for b"),
    ):
        changes.cluster_by([("b",)])


@pytest.mark.parametrize(("path", "text"), [(("a", "b_1"), "a.b_1"), (("a b", "c`d"), "`a b`.`c``d`")])
def test_paths_as_texts(path: tuple[str, ...], text: str) -> None:
    assert dotted(path) == text


@pytest.mark.parametrize("name", ["_change_type", "_Commit_Version", "_commit_timestamp"])
def test_the_change_data_feed_and_a_column_of_the_same_name_exclude_each_other(table: tahoe.Table, name: str) -> None:
    """A reader of the feed would see one column where there are two; the reference refuses such tables too."""
    feed = {"delta.enableChangeDataFeed": "true"}
    with table.transaction() as changes:
        changes.set_properties(feed)
    with (
        pytest.raises(InvalidPropertyError, match=f"columns of its own named {name}; rename or drop"),
        table.transaction() as changes,
    ):
        changes.add_columns([pa.field(name, pa.string())])
    with pytest.raises(InvalidPropertyError), table.transaction() as changes:
        changes.append(ROWS.append_column(name, pa.array(["x"] * 3)), merge_schema=True)
    with table.transaction() as changes:
        changes.unset_properties(list(feed))
        changes.add_columns([pa.field(name, pa.string())])
    version = table.version
    with pytest.raises(InvalidPropertyError), table.transaction() as changes:
        changes.set_properties(feed)
    assert table.version == version
