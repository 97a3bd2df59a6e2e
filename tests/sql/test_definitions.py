"""CREATE TABLE LIKE and SHOW CREATE TABLE, decided over records, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from tahoe import Table
from tahoe.errors import UnsupportedOperationError
from tahoe.protocol.types.schema import INTEGER, STRING, Field, Struct
from tahoe.spark.ddl.show_describe import reserved_properties, statement_that_creates
from tahoe.spark.ddl.table_like import definition_of, target
from tahoe.spark.ddl.table_names import SessionName
from tahoe.spark.jvm.statements.catalog_entries import TableEntry
from tahoe.spark.jvm.statements.table_like_plans import SourceTable, TableLike
from tahoe.table.writing.planning import create_table
from tahoe.table.writing.write_request import WriteRequest


def like(*parts: str, location: str | None = None) -> TableLike:
    return TableLike(
        target=parts,
        name="the name",
        location=location,
        provider=None,
        properties={"a": "1"},
        if_not_exists=False,
        source=("s",),
    )


NAME = SessionName(None, "the name")  # type: ignore[arg-type]


@pytest.mark.parametrize("parts", [("delta", "/p"), ("DELTA", "s3://b/p")])
def test_the_new_table_may_be_a_path(parts: tuple[str, str]) -> None:
    new = target(like(*parts), NAME)
    assert (new.name, new.location, new.properties) == (None, parts[1], {"a": "1"})


@pytest.mark.parametrize("parts", [("spark_catalog", "db", "t"), ("delta", "t"), ("t",)])
def test_the_new_table_may_have_a_name(parts: tuple[str, ...]) -> None:
    new = target(like(*parts, location="/p"), NAME)
    assert (new.name, new.location) == (NAME, "/p")


def test_a_table_of_another_format_gives_its_columns_and_its_users_properties() -> None:
    source = SourceTable(
        name="db.s",
        url=None,
        columns=StructType([StructField("n", IntegerType())]),
        partition_columns=("n",),
        properties={"a": "1", "delta.appendOnly": "true", "spark.sql.sources.schema": "x"},
        comment="of s",
    )
    new = definition_of(source)
    assert new.schema == Struct((Field(name="n", type=INTEGER),))
    assert new.partition_by == ("n",)
    assert new.properties == {"a": "1", "delta.appendOnly": "true"}
    assert new.comment == "of s"


def test_a_table_of_another_catalog_is_refused() -> None:
    with pytest.raises(UnsupportedOperationError, match="not in the session catalog"):
        definition_of(None)


@pytest.fixture
def snapshot(tmp_path: Path):
    table = Table(tmp_path / "it's")
    schema = Struct(
        (Field(name="a-b", type=INTEGER, nullable=False), Field(name="p", type=STRING, metadata={"comment": "it's"}))
    )
    create_table(
        table,
        WriteRequest(
            mode="error", schema=schema, partition_by=("p",), comment="c", properties={"k": "v"}, keep_nullability=True
        ),
    )
    return table.snapshot()


def test_a_table_without_a_name_is_created_by_its_path(snapshot) -> None:
    statement = statement_that_creates(TableEntry(name=None, owner="", is_managed=False), snapshot, ["INT", "STRING"])
    path = snapshot.url.removeprefix("file://")
    assert statement.startswith(
        f"CREATE TABLE delta.`{path}` (\n  `a-b` INT NOT NULL,\n  `p` STRING COMMENT 'it\\'s')\nUSING "
        f"delta\nPARTITIONED BY (`p`)"
    )
    assert "LOCATION" not in statement
    assert "'k' = 'v'" in statement


@pytest.mark.parametrize(("is_managed", "says"), [(True, False), (False, True)])
def test_an_external_table_says_where_it_is(snapshot, is_managed: bool, says: bool) -> None:
    entry = TableEntry(name="`db`.`t`", owner="me", is_managed=is_managed)
    assert ("LOCATION" in statement_that_creates(entry, snapshot, ["INT", "STRING"])) == says
    reserved = reserved_properties(entry, snapshot)
    assert (reserved["owner"], reserved["comment"], "external" in reserved, "is_managed_location" in reserved) == (
        "me",
        "c",
        says,
        is_managed,
    )
