"""Generated, default and identity columns, and types that are widened: tahoe and the reference write the same tables in
turn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tahoe
from tahoe import DeltaTable
from tahoe.errors import GeneratedColumnExpressionError, GeneratedValueMismatchError, IdentityValueGivenError
from tahoe.protocol.changes.column_values import identity_columns
from tahoe.spark.api.table_builder import IdentityGenerator
from tests.interop.reference import Reference, ReferenceFailure
from tests.interop.rows import assert_same, spark_rows

COLUMNS: list[dict[str, Any]] = [
    {"name": "id", "type": "LONG"},
    {"name": "at", "type": "TIMESTAMP"},
    {"name": "day", "type": "DATE", "generated": "CAST(at AS DATE)"},
    {"name": "bucket", "type": "INT", "generated": "CAST(hash(id) % 4 AS INT)"},
    {
        "name": "text",
        "type": "STRING",
        "generated": "concat(upper(substring(cast(id AS STRING), 1, 2)), '-', year(at))",
    },
]


@pytest.fixture(params=["ours", "theirs"])
def maker(request: pytest.FixtureRequest) -> str:
    """Who makes the table."""
    return str(request.param)


def make(
    maker: str,
    spark: SparkSession,
    reference: Reference,
    path: str,
    columns: list[dict[str, Any]],
    by: tuple[str, ...] = (),
) -> None:
    if maker == "theirs":
        reference.create(path, columns, partition_by=by)
        return
    builder = DeltaTable.create(spark).location(path)
    for column in columns:
        given: dict[str, Any] = {}
        if "generated" in column:
            given["generatedAlwaysAs"] = column["generated"]
        if "identity_always" in column:
            given["generatedAlwaysAs"] = IdentityGenerator(**column["identity_always"])
        if "identity" in column:
            given["generatedByDefaultAs"] = IdentityGenerator(**column["identity"])
        builder = builder.addColumn(column["name"], column["type"], **given)
    (builder.partitionedBy(*by) if by else builder).execute()


def same(spark: SparkSession, reference: Reference, path: str) -> pa.Table:
    """The rows, which are the same to both."""
    found = reference.read(path)
    assert_same(spark_rows(spark.read.format("delta").load(path)), found)
    assert_same(tahoe.Table(path).to_arrow(), found)
    return found


def test_each_computes_and_checks_what_the_other_would(
    maker: str, spark: SparkSession, reference: Reference, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    make(maker, spark, reference, path, COLUMNS, by=("day",))
    rows = "select id, timestamp'2024-02-28 20:00:00' + make_interval(0, 0, 0, 0, cast(id as int)) as at from range(10)"
    insert = f"INSERT INTO delta.`{path}` (id, at) {rows}"
    spark.sql(insert)
    reference.run(insert)
    found = same(spark, reference, path)
    assert (
        found.group_by(["id", "at", "day", "bucket", "text"])
        .aggregate([("id", "count")])
        .column("id_count")
        .to_pylist()
        == [2] * 10
    )
    everything = f"INSERT INTO delta.`{path}` SELECT * FROM delta.`{path}`"
    spark.sql(everything)
    reference.run(everything)
    assert same(spark, reference, path).num_rows == 80
    wrong = f"INSERT INTO delta.`{path}` SELECT id, at, day, bucket + 1, text FROM delta.`{path}`"
    with pytest.raises(ReferenceFailure, match="bucket"):
        reference.run(wrong)
    with pytest.raises(GeneratedValueMismatchError, match="bucket"):
        spark.sql(wrong)


@pytest.mark.parametrize(
    "expression", ["rand()", "max(id)", "explode(array(id))", "id + nothing", "id + 1 +", "current_date()"]
)
def test_what_the_reference_refuses_tahoe_refuses(
    expression: str, spark: SparkSession, reference: Reference, tmp_path: Path
) -> None:
    columns = [
        {"name": "id", "type": "LONG"},
        {"name": "g", "type": "DATE" if "date" in expression else "LONG", "generated": expression},
    ]
    with pytest.raises(ReferenceFailure):
        make("theirs", spark, reference, str(tmp_path / "theirs"), columns)
    with pytest.raises((GeneratedColumnExpressionError, tahoe.errors.GeneratedColumnReferenceError)):
        make("ours", spark, reference, str(tmp_path / "ours"), columns)


def test_defaults(maker: str, spark: SparkSession, reference: Reference, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    columns = "id LONG, name STRING DEFAULT 'nobody', n INT DEFAULT 40 + 2, d DATE DEFAULT DATE'2024-02-29'"
    create = (
        f"CREATE TABLE delta.`{path}` ({columns}) USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = "
        f"'supported')"
    )
    if maker == "ours":
        spark.sql(create)
    else:
        reference.run(create)
    for number, statement in enumerate(
        ("(id) VALUES ({i})", "VALUES ({i}, DEFAULT, DEFAULT, DEFAULT)", "(id, name) VALUES ({i}, NULL)")
    ):
        for run in (spark.sql, reference.run):
            run(f"INSERT INTO delta.`{path}` " + statement.format(i=number))
    reference.write(path, pa.table({"id": [0]}))
    spark.range(1).write.format("delta").mode("append").save(path)
    found = same(spark, reference, path).to_pylist()
    assert {(row["name"], row["n"], str(row["d"])) for row in found if row["id"] < 2} == {("nobody", 42, "2024-02-29")}
    assert len(found) == 8
    metadata = [dict(f.metadata) for f in tahoe.Table(path).schema]
    expected = [
        {},
        {"CURRENT_DEFAULT": "'nobody'"},
        {"CURRENT_DEFAULT": "40 + 2"},
        {"CURRENT_DEFAULT": "DATE'2024-02-29'"},
    ]
    assert metadata == expected


@pytest.mark.parametrize("step", [1, 10, -2])
def test_each_counts_on_where_the_other_stopped(
    maker: str, step: int, spark: SparkSession, reference: Reference, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    numbers = {"start": 100, "step": step}
    make(
        maker,
        spark,
        reference,
        path,
        [{"name": "i", "type": "LONG", "identity_always": numbers}, {"name": "x", "type": "LONG"}],
    )
    for round_ in range(3):
        rows = f"INSERT INTO delta.`{path}` (x) SELECT id FROM range(0, 20, 1, {round_ + 2})"
        spark.sql(rows)
        reference.run(rows)
        tahoe.Table(path).append(pa.table({"x": [1, 2, 3]}))
        found = same(spark, reference, path).column("i").to_pylist()
        assert len(set(found)) == len(found) == 43 * (round_ + 1)
        assert all((i - 100) % step == 0 and (i - 100) * step >= 0 for i in found)
        (mark,) = [identity.high_water_mark for _, identity in identity_columns(tahoe.Table(path).schema)]
        assert mark == (max(found) if step > 0 else min(found))
    given = f"INSERT INTO delta.`{path}` (i, x) VALUES (1, 1)"
    with pytest.raises(ReferenceFailure) as refused:
        reference.run(given)
    with pytest.raises(IdentityValueGivenError) as ours:
        spark.sql(given)
    assert refused.value.condition == ours.value.condition


def test_numbers_that_are_given(maker: str, spark: SparkSession, reference: Reference, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    make(
        maker,
        spark,
        reference,
        path,
        [{"name": "i", "type": "LONG", "identity": {"start": 1, "step": 1}}, {"name": "x", "type": "LONG"}],
    )
    spark.sql(f"INSERT INTO delta.`{path}` (x) VALUES (0)")
    reference.run(f"INSERT INTO delta.`{path}` VALUES (1000, 1)")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (2000, 2)")
    reference.run(f"INSERT INTO delta.`{path}` (x) VALUES (3)")
    spark.sql(f"INSERT INTO delta.`{path}` (x) VALUES (4)")
    found = {row["x"]: row["i"] for row in same(spark, reference, path).to_pylist()}
    assert found == {0: 1, 1: 1000, 2: 2000, 3: 2, 4: 3}


WIDER = {
    "a": ("CAST(1 AS TINYINT)", "CAST(300 AS SMALLINT)"),
    "b": ("1", "5000000000"),
    "c": ("CAST(1.5 AS FLOAT)", "CAST(0.1 AS DOUBLE)"),
    "d": ("DATE'2024-02-29'", "TIMESTAMP_NTZ'2024-03-01 10:00:00'"),
    "e": ("CAST(1.25 AS DECIMAL(5, 2))", "CAST(12345678.125 AS DECIMAL(12, 3))"),
    "f": ("1", "0.5D"),
    "g": ("7L", "CAST(0.5 AS DECIMAL(21, 1))"),
}


def test_the_reference_reads_what_was_widened_and_goes_on(
    spark: SparkSession, reference: Reference, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")

    def rows(which: int) -> str:
        plain = [f"{values[which]} AS {name}" for name, values in WIDER.items()]
        inside = [
            f"ARRAY({values[which]}) AS l{name}, MAP({values[which]}, {values[which]}) AS m{name}"
            for name, values in WIDER.items()
        ]
        return "SELECT " + ", ".join([*plain, *inside, f"NAMED_STRUCT('x', {WIDER['b'][which]}) AS s"])

    spark.sql(rows(0)).write.format("delta").option("delta.enableTypeWidening", "true").save(path)
    spark.sql(rows(1)).write.format("delta").mode("append").option("mergeSchema", "true").save(path)
    assert same(spark, reference, path).num_rows == 2
    reference.run(
        f"INSERT INTO delta.`{path}` {rows(1)}", f"INSERT INTO delta.`{path}` {rows(0)}", f"OPTIMIZE delta.`{path}`"
    )
    assert same(spark, reference, path).num_rows == 4
    for name, values in WIDER.items():
        assert reference.read(path, columns=[f"{name} = {values[1]} AS eq"]).column("eq").to_pylist().count(True) == 2
