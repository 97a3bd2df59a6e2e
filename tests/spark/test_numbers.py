"""The law of numbers in Spark: what a statement replaces, restores or drops brings no number back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest
from pyspark.sql import SparkSession

from tahoe import DeltaTable, Table
from tahoe.protocol.configuration.features import supported_features
from tahoe.protocol.log.actions import CommitInfo
from tahoe.table.verify.check import check_table
from tahoe.tables import IdentityGenerator
from tests.property.assigned_numbers import NumbersOfLog, NumbersOfRows

TABLE, SOURCE = "numbered", "numbered_source"
COLUMNS = "(id BIGINT, k BIGINT GENERATED ALWAYS AS IDENTITY, p STRING) USING delta"
EVERYTHING = (
    "'delta.columnMapping.mode' = 'name', 'delta.enableRowTracking' = 'true', 'delta.enableInCommitTimestamps' = "
    "'true', 'delta.enableDeletionVectors' = 'true'"
)


class Life:
    """A table in the catalog, and what happens to it."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.spark, self.path, self.rows = spark, path, 0
        self.columns = 0
        self.log_law, self.row_law = NumbersOfLog(), NumbersOfRows()
        spark.sql(f"CREATE OR REPLACE TABLE {TABLE} {COLUMNS} LOCATION '{path}'")
        spark.sql(f"CREATE OR REPLACE TABLE {SOURCE} {COLUMNS} LOCATION '{path}-source'")
        spark.sql(f"INSERT INTO {SOURCE} (id, p) VALUES (-1, 's'), (-2, 's')")

    @property
    def table(self) -> Table:
        return Table(self.path)

    def append(self) -> None:
        """Rows for the columns that the table has, and a new column."""
        self.rows += 2
        columns = {"id": (self.rows - 1, self.rows), "p": ("'x'", "'y'")}
        there = [name for name in columns if name in self.table.schema.names]
        rows = ", ".join(f"({', '.join(str(columns[name][number]) for name in there)})" for number in (0, 1))
        self.spark.sql(f"INSERT INTO {TABLE} ({', '.join(there)}) VALUES {rows}")
        self.columns += 1
        self.spark.sql(f"ALTER TABLE {TABLE} ADD COLUMN c{self.columns} INT")

    def switch_on(self) -> None:
        self.spark.sql(f"ALTER TABLE {TABLE} SET TBLPROPERTIES ({EVERYTHING})")

    def drop(self, feature: str) -> None:
        if feature in supported_features(self.table.protocol):
            self.spark.sql(f"ALTER TABLE {TABLE} DROP FEATURE {feature}")

    def rebuild(self) -> None:
        identity = IdentityGenerator(start=1, step=1)
        builder = DeltaTable.replace(self.spark).tableName(TABLE).location(self.path).addColumn("id", "LONG")
        builder.addColumn("k", "LONG", generatedAlwaysAs=identity).addColumn("p", "STRING").execute()

    def overwrite(self) -> None:
        self.rows += 1
        frame = self.spark.createDataFrame([(self.rows, "o")], "id LONG, p STRING")
        frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(self.path)

    def save(self) -> None:
        self.rows += 1
        frame = self.spark.createDataFrame([(self.rows, "o")], "id LONG, p STRING")
        frame.write.format("delta").mode("overwrite").option("path", self.path).saveAsTable(TABLE)

    def check(self) -> None:
        table = self.table
        for version in range(self.log_law.version + 1, table.version + 1):
            assert not self.log_law.look(table.log, version)
            assert not self.row_law.look(
                table.snapshot(version), table.log.commit_info(version) or CommitInfo({}), set(range(1000))
            )
        assert [str(fault) for fault in check_table(table.log)] == []


def sql(text: str) -> Callable[[Life], object]:
    return lambda life: life.spark.sql(text)


BACKWARDS: Mapping[str, Callable[[Life], object]] = {
    "RESTORE": sql(f"RESTORE TABLE {TABLE} TO VERSION AS OF 2"),
    "CREATE OR REPLACE": sql(f"CREATE OR REPLACE TABLE {TABLE} {COLUMNS}"),
    "CREATE OR REPLACE AS SELECT": sql(f"CREATE OR REPLACE TABLE {TABLE} USING delta AS SELECT id, p FROM {TABLE}"),
    "DeltaTable.replace": lambda life: life.rebuild(),
    "CLONE": sql(f"CREATE OR REPLACE TABLE {TABLE} DEEP CLONE {SOURCE}"),
    "SHALLOW CLONE": sql(f"CREATE OR REPLACE TABLE {TABLE} SHALLOW CLONE {SOURCE}"),
    "overwriteSchema": lambda life: life.overwrite(),
    "saveAsTable": lambda life: life.save(),
    "DROP FEATURE columnMapping": lambda life: life.drop("columnMapping"),
    "DROP FEATURE rowTracking": lambda life: life.drop("rowTracking"),
    "DROP FEATURE domainMetadata": lambda life: (life.drop("rowTracking"), life.drop("domainMetadata")),
}


@pytest.fixture
def tables(spark: SparkSession) -> Iterator[None]:
    yield
    for name in (TABLE, SOURCE):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("first", BACKWARDS)
@pytest.mark.parametrize("later", [1, 4])
def test_no_pair_of_statements_brings_a_number_back(spark: SparkSession, path: str, first: str, later: int) -> None:
    """Every pair without Spark is in `tests/property/test_numbers_law.py`."""
    names = list(BACKWARDS)
    life = Life(spark, path)
    life.append()
    for name in (first, names[(names.index(first) + later) % len(names)]):
        life.switch_on()
        life.append()
        BACKWARDS[name](life)
        life.check()
    life.switch_on()
    life.append()
    life.check()
