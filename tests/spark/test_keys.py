"""Declared keys by SQL, by name and by path: what declares, shows and keeps them, and the rows that violate them."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

import tahoe
from tahoe import DeltaTable
from tahoe.errors import ConstraintExistsError, ConstraintNotFoundError, InvalidKeyError
from tahoe.spark.maintenance import keys as keys_of_rows

MAPPING = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


@pytest.fixture(params=["name", "path"])
def t(request: pytest.FixtureRequest, table_name: str, path: str) -> str:
    """A table that does not exist yet."""
    return table_name if request.param == "name" else f"delta.`{path}`"


def keys(spark: SparkSession, t: str) -> dict[str, str]:
    """The declared keys of a table, by name."""
    location = DeltaTable.forName(spark, t).detail().head().location  # type: ignore[union-attr]
    rows = tahoe.Table(location).inspect.constraints().to_pylist()
    return {row["name"]: row["definition"] + (" RELY" if row["rely"] else "") for row in rows if not row["is_enforced"]}


def described(spark: SparkSession, t: str) -> dict[str, str]:
    """The constraints that DESCRIBE EXTENDED shows."""
    rows = [(row.col_name, row.data_type) for row in spark.sql(f"DESCRIBE EXTENDED {t}").collect()]
    start = next((place for place, row in enumerate(rows) if row[0] == "# Constraints"), len(rows))
    return dict(rows[start + 1 :])


def test_keys_are_declared_with_a_table(spark: SparkSession, t: str) -> None:
    spark.sql(
        f"CREATE TABLE {t} (id BIGINT CONSTRAINT pk PRIMARY KEY RELY, day DATE, n INT CHECK (n > 0), CONSTRAINT uq "
        f"UNIQUE (day, n) NOT ENFORCED NORELY, CONSTRAINT fk FOREIGN KEY (n, day) REFERENCES days (n, day)) USING delta"
    )
    assert keys(spark, t) == {
        "pk": "PRIMARY KEY (`id`) RELY",
        "uq": "UNIQUE (`day`, `n`)",
        "fk": "FOREIGN KEY (`n`, `day`) REFERENCES `spark_catalog`.`default`.`days` (`n`, `day`)",
    }
    shown = spark.sql(f"SHOW CREATE TABLE {t}").head()
    assert shown is not None
    assert "CONSTRAINT `pk` PRIMARY KEY (`id`) NOT ENFORCED RELY" in shown[0]
    assert "tahoe.keys" not in shown[0]
    told = described(spark, t)
    assert told["pk"].startswith("PRIMARY KEY (id) NOT ENFORCED")
    assert told["fk"].startswith("FOREIGN KEY (n, day) REFERENCES spark_catalog.default.days (n, day) NOT ENFORCED")
    assert [text for text in told.values() if text.startswith("CHECK (n > 0) ENFORCED")]
    spark.sql(f"INSERT INTO {t} VALUES (1, DATE'2026-01-01', 1), (1, DATE'2026-01-01', 1)")  # nobody enforces them


def test_keys_come_and_go_by_alter_table(spark: SparkSession, t: str) -> None:
    spark.sql(f"CREATE TABLE {t} (id BIGINT, day DATE, s STRUCT<x: INT>) USING delta")
    spark.sql(f"ALTER TABLE {t} ADD CONSTRAINT pk PRIMARY KEY (ID) NOT ENFORCED RELY")
    spark.sql(f"ALTER TABLE {t} ADD CONSTRAINT fk FOREIGN KEY (id) REFERENCES delta.`/data/days` (x)")
    spark.sql(f"ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id > 0)")
    spark.sql(f"ALTER TABLE {t} ADD UNIQUE (day)")
    (unnamed,) = set(keys(spark, t)) - {"pk", "fk"}
    assert keys(spark, t) == {
        "pk": "PRIMARY KEY (`id`) RELY",
        "fk": "FOREIGN KEY (`id`) REFERENCES `delta`.`/data/days` (`x`)",
        unnamed: "UNIQUE (`day`)",
    }
    for statement, error in (
        ("ADD CONSTRAINT other PRIMARY KEY (day)", InvalidKeyError),
        ("ADD CONSTRAINT other UNIQUE (nothing)", InvalidKeyError),
        ("ADD CONSTRAINT other UNIQUE (s)", InvalidKeyError),
        ("ADD CONSTRAINT other UNIQUE (s.x)", ParseException),
        ("ADD CONSTRAINT PK UNIQUE (day)", ConstraintExistsError),
        ("ADD CONSTRAINT pk CHECK (id > 1)", ConstraintExistsError),
        ("DROP CONSTRAINT nothing", ConstraintNotFoundError),
    ):
        with pytest.raises(error):
            spark.sql(f"ALTER TABLE {t} {statement}")
    spark.sql(f"ALTER TABLE {t} DROP CONSTRAINT PK")
    spark.sql(f"ALTER TABLE {t} DROP CONSTRAINT IF EXISTS pk")
    spark.sql(f"ALTER TABLE {t} DROP CONSTRAINT positive")
    assert list(keys(spark, t)) == [unnamed, "fk"]
    assert spark.sql(f"DESCRIBE HISTORY {t}").where("operation = 'ADD CONSTRAINT'").count() == 4


def test_enforced_keys_are_refused_by_name(spark: SparkSession, t: str) -> None:
    for key in ("PRIMARY KEY", "UNIQUE"):
        with pytest.raises(ParseException, match=f"ENFORCED.*{key}"):
            spark.sql(f"CREATE TABLE {t} (id BIGINT, CONSTRAINT k {key} (id) ENFORCED) USING delta")
    spark.sql(f"CREATE TABLE {t} (id BIGINT) USING delta")
    with pytest.raises(ParseException, match=r"ENFORCED.*FOREIGN KEY"):
        spark.sql(f"ALTER TABLE {t} ADD CONSTRAINT k FOREIGN KEY (id) REFERENCES days (id) ENFORCED")
    assert keys(spark, t) == {}


def test_a_new_table_with_a_wrong_key_is_not_made(spark: SparkSession, t: str) -> None:
    for columns in ("id BIGINT, PRIMARY KEY (nothing)", "id STRUCT<x: INT> UNIQUE", "id BIGINT, UNIQUE (id, id)"):
        with pytest.raises((InvalidKeyError, AnalysisException)):
            spark.sql(f"CREATE TABLE {t} ({columns}) USING delta")
        with pytest.raises(PySparkException):
            spark.sql(f"DESCRIBE {t}").collect()


def test_keys_are_kept_with_their_columns(spark: SparkSession, t: str, path: str) -> None:
    spark.sql(
        f"CREATE TABLE {t} (id BIGINT PRIMARY KEY, a INT, b INT, CONSTRAINT uq UNIQUE (a, id)) USING delta {MAPPING}"
    )
    (pk,) = set(keys(spark, t)) - {"uq"}
    spark.sql(f"ALTER TABLE {t} RENAME COLUMN id TO number")
    assert keys(spark, t) == {pk: "PRIMARY KEY (`number`)", "uq": "UNIQUE (`a`, `number`)"}
    spark.sql(f"ALTER TABLE {t} DROP COLUMN a")
    assert keys(spark, t) == {pk: "PRIMARY KEY (`number`)"}
    spark.sql(f"RESTORE TABLE {t} TO VERSION AS OF 0")
    assert keys(spark, t) == {pk: "PRIMARY KEY (`id`)", "uq": "UNIQUE (`a`, `id`)"}
    for kind in ("SHALLOW", "DEEP"):
        spark.sql(f"CREATE TABLE delta.`{path}_{kind}` {kind} CLONE {t}")
        assert keys(spark, f"delta.`{path}_{kind}`") == keys(spark, t)
    spark.sql(f"CREATE TABLE delta.`{path}_like` LIKE {t}")
    assert keys(spark, f"delta.`{path}_like`") == keys(spark, t)
    spark.sql(f"CREATE OR REPLACE TABLE {t} (id BIGINT, CONSTRAINT other UNIQUE (id)) USING delta")
    assert keys(spark, t) == {"other": "UNIQUE (`id`)"}
    spark.sql(f"CREATE OR REPLACE TABLE {t} USING delta AS SELECT 1L AS id")
    assert keys(spark, t) == {}


def test_the_rows_that_violate_keys_are_counted(spark: SparkSession, t: str, path: str) -> None:
    spark.sql(f"CREATE TABLE delta.`{path}_days` (Day INT, CONSTRAINT pk PRIMARY KEY (Day)) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}_days` VALUES (1), (2)")
    spark.sql(
        f"CREATE TABLE {t} (id BIGINT, x DOUBLE, day BIGINT, CONSTRAINT u UNIQUE (x), "
        f"CONSTRAINT both UNIQUE (id, x), CONSTRAINT fk FOREIGN KEY (day) REFERENCES delta.`{path}_days` (day), "
        f"CONSTRAINT nowhere FOREIGN KEY (day) REFERENCES nothing (day)) USING delta"
    )
    spark.sql(
        f"INSERT INTO {t} VALUES (1, 0.0, 1), (1, -0.0, 7), (2, double('NaN'), 7), (NULL, double('NaN'), NULL), "
        f"(NULL, NULL, 2), (3, NULL, 8)"
    )
    spark.sql(f"ALTER TABLE {t} ADD CONSTRAINT pk PRIMARY KEY (id)")  # in CREATE TABLE, it makes id NOT NULL
    location = DeltaTable.forName(spark, t).detail().head().location  # type: ignore[union-attr]
    with tahoe.Table(location).transaction() as changes:
        changes.add_key("fk_of_key", ["day"], "FOREIGN KEY", references=f"{path}_days")
    rows = {row.name: row for row in DeltaTable.forName(spark, t).checkKeys().collect()}
    assert {name: row.violations for name, row in rows.items()} == {
        "pk": 3,
        "u": 2,
        "both": 1,
        "fk": 3,
        "fk_of_key": 3,
        "nowhere": None,
    }
    assert (rows["pk"].type, rows["pk"].columns, rows["pk"].examples) == (
        "PRIMARY KEY",
        ["id"],
        ["id = NULL", "id = 1"],
    )
    assert rows["fk"].examples == ["day = 7", "day = 8"]
    assert "nothing" in rows["nowhere"].reason
    without = {each.key.name: each for each in tahoe.Table(location).check_keys()}
    for name in ("pk", "u", "both", "fk", "fk_of_key"):
        assert without[name].violations == rows[name].violations
        assert sorted(without[name].shown_examples) == sorted(rows[name].examples)


def test_the_keys_of_a_referenced_table_are_not_broadcast(spark: SparkSession) -> None:
    """Five million of them take ten megabytes in files, and did not fit into a driver of a gigabyte."""
    found = keys_of_rows._without(spark.range(3), ["id"], spark.range(2), ["id"])
    assert "Broadcast" not in found._jdf.queryExecution().executedPlan().toString()
    assert [tuple(row) for row in found.collect()] == [(2, 1, 1, 0)]


def test_a_table_that_is_referenced_by_name(spark: SparkSession, table_name: str, path: str) -> None:
    spark.sql(f"CREATE TABLE {table_name} (id INT PRIMARY KEY) USING delta")
    spark.sql(f"INSERT INTO {table_name} VALUES (1)")
    spark.sql(
        f"CREATE TABLE delta.`{path}` (n INT, CONSTRAINT b FOREIGN KEY (n) REFERENCES {table_name} (ID), CONSTRAINT c "
        f"FOREIGN KEY (n) REFERENCES {table_name} (x)) USING delta"
    )
    with tahoe.Table(path).transaction() as changes:
        changes.add_key("a", ["n"], "FOREIGN KEY", references=["spark_catalog", "default", table_name])
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1), (2), (NULL)")
    rows = DeltaTable.forPath(spark, path).checkKeys().collect()
    assert [(row.name, row.violations) for row in rows] == [("a", 1), ("b", 1), ("c", None)]
    assert "has no column x" in rows[2].reason
