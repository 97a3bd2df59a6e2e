"""What Spark's write plans and new tables become: by records of what Spark says of them, without Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructType

from tahoe.errors import DeltaError, OperationNotAllowedError, UnsupportedOperationError
from tahoe.protocol.types.schema import LONG
from tahoe.spark.api.commands import insert_of, new_table
from tahoe.spark.ddl.table_names import SessionName
from tahoe.spark.dml.replace import Matching
from tahoe.spark.dml.write import Insert
from tahoe.spark.jvm.statements.write_commands import ReplaceOn, ReplaceUsing, StagedTable, Transform, WriteCommand

# Rows, conditions and names of Spark's, which are only handed on.
ROWS: Any = object()
CONDITION: Any = object()
NAME: Any = object()

STATIC = {"partitionOverwriteMode": "static"}

PLAN = WriteCommand(
    kind="AppendData",
    table="file:/t",
    staged=None,
    rows=ROWS,
    options={},
    evolves=False,
    condition=None,
    replaced=None,
    is_by_name=True,
    is_statement=False,
)
OVERWRITE = replace(PLAN, kind="OverwriteByExpression", condition="true")
DYNAMIC = replace(PLAN, kind="OverwritePartitionsDynamic")
INSERT = Insert(url="file:/t", rows=ROWS, overwrite=False)


@pytest.mark.parametrize(
    ("plan", "meant"),
    [
        (PLAN, INSERT),
        (OVERWRITE, replace(INSERT, overwrite=True, options=STATIC)),
        (replace(OVERWRITE, condition="TRUE"), replace(INSERT, overwrite=True, options=STATIC)),
        (replace(OVERWRITE, condition="p = 1"), replace(INSERT, overwrite=True, predicate="p = 1", options=STATIC)),
        (DYNAMIC, replace(INSERT, overwrite=True, dynamic=True)),
    ],
    ids=["append", "all rows", "TRUE", "replaceWhere", "dynamic partition overwrite"],
)
def test_which_rows_a_write_replaces(plan: WriteCommand, meant: Insert) -> None:
    assert insert_of(plan) == meant


def test_a_static_overwrite_is_one_whatever_the_session_says_but_the_writers_own_option_holds() -> None:
    given = {"partitionOverwriteMode": "dynamic", "other": "1"}
    assert insert_of(replace(OVERWRITE, options=given)).options == given
    assert insert_of(replace(DYNAMIC, options={"other": "1"})).options == {"other": "1"}


def test_schema_evolution_is_an_option_of_the_writer() -> None:
    plan = replace(PLAN, options={"mergeSchema": "false"})
    assert insert_of(plan).options == {"mergeSchema": "false"}
    assert insert_of(replace(plan, evolves=True)).options == {"mergeSchema": "true"}


@pytest.mark.parametrize("is_by_name", [True, False])
@pytest.mark.parametrize("is_statement", [True, False])
def test_columns_are_taken_as_the_plan_says(is_by_name: bool, is_statement: bool) -> None:
    meant = insert_of(replace(PLAN, is_by_name=is_by_name, is_statement=is_statement))
    assert (meant.by_position, meant.is_statement) == (not is_by_name, is_statement)


@pytest.mark.parametrize("plan", [OVERWRITE, DYNAMIC], ids=["static", "dynamic"])
def test_rows_that_match_are_replaced_in_all_partitions(plan: WriteCommand) -> None:
    meant = insert_of(replace(plan, replaced=ReplaceUsing(("a", "b"))))
    assert (meant.overwrite, meant.predicate, meant.dynamic, meant.options) == (True, None, False, STATIC)
    assert meant.matching == Matching.of_columns(["a", "b"])


@pytest.mark.parametrize(
    ("alias", "table", "name"), [("x", "db.t", "x"), (None, "db.t", "t"), (None, "db.`t`", "t"), (None, "t", "t")]
)
def test_the_condition_of_replace_on_names_the_table(alias: str | None, table: str, name: str) -> None:
    meant = insert_of(replace(OVERWRITE, replaced=ReplaceOn(text="c", condition=CONDITION, alias=alias, table=table)))
    assert meant.matching == Matching(text="c", on=CONDITION, alias=name)


# --- new tables

STAGED = StagedTable(
    staged=object(),
    name=NAME,
    path=None,
    text="db.t",
    columns=StructType().add("id", LongType()),
    value_sources={},
    constraints=(),
    partitioning=(),
    properties={},
    replaces=False,
    if_not_exists=False,
    is_of_pipeline=False,
)


def transform(name: str, *columns: tuple[str, ...]) -> Transform:
    return Transform(name=name, columns=columns, text=f"{name}({', '.join(map('.'.join, columns))})")


def test_a_new_table_has_the_statements_columns_and_partitioning() -> None:
    parts = (transform("identity", ("p",)), transform("identity", ("q",)), transform("cluster_by", ("a",), ("s", "x")))
    new = new_table(replace(STAGED, partitioning=parts), None)
    assert [(field.name, field.type) for field in new.schema] == [("id", LONG)]
    assert (new.partition_by, new.cluster_by) == (("p", "q"), (("a",), ("s", "x")))


def test_where_a_new_table_is() -> None:
    name = SessionName(None, NAME)  # type: ignore[arg-type]
    assert (new_table(STAGED, name).name, new_table(STAGED, name).location) == (name, None)
    assert new_table(replace(STAGED, properties={"location": "/l"}), name).location == "/l"
    by_path = new_table(replace(STAGED, name=None, path="/p", properties={"location": "/l"}), None)
    assert (by_path.name, by_path.location) == (None, "/p")


def test_a_tables_properties_are_told_from_sparks_own_and_from_options() -> None:
    properties = {"provider": "delta", "owner": "me", "comment": "why", "a": "1"}
    options = {"path": "/l", "compression": "zstd", "delta.appendOnly": "true"}
    both = {**properties, **options, **{f"option.{name}": value for name, value in options.items()}}
    new = new_table(replace(STAGED, properties=both), None)
    assert (new.comment, new.properties) == ("why", {"a": "1", "delta.appendOnly": "true"})
    assert new.options == {"compression": "zstd", "delta.appendOnly": "true"}


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("names", "error", "told"),
    [
        (["bucket"], OperationNotAllowedError, r"db\.t.*clusterBy"),
        (["sorted_bucket"], OperationNotAllowedError, r"db\.t.*clusterBy"),
        (["identity", "days"], UnsupportedOperationError, r"days\(id\)"),
    ],
    ids=str,
)
def test_partitions_are_the_values_of_columns(names: list[str], error: type[DeltaError], told: str) -> None:
    with pytest.raises(error, match=told):
        new_table(replace(STAGED, partitioning=tuple(transform(name, ("id",)) for name in names)), None)
