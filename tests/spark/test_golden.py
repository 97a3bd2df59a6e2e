"""Spark, enabled, on tables that other writers made."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import tahoe
from tahoe.errors import DeltaError
from tests.golden import tables as golden

pytestmark = pytest.mark.golden


@pytest.fixture(autouse=True)
def _folder():
    golden.require_folder()


@pytest.fixture
def in_zone(spark: SparkSession):
    """Sets the session's time zone, in which early timestamps of partitions are read, and gives it back."""
    before = spark.conf.get("spark.sql.session.timeZone")
    yield lambda zone: spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize("name", golden.names_with_expected_rows() or ["none"])
def test_rows_are_as_the_other_writer_says(spark, in_zone, name):
    in_zone(golden.ZONES.get(name, "UTC"))
    expected = spark.read.parquet(str(golden.FOLDER / name / "expected"))
    found = spark.read.format("delta").load(golden.path(name))
    assert {c.lower() for c in found.columns} == {c.lower() for c in expected.columns}
    columns = [f"`{c}`" for c in expected.columns]
    assert golden.sortable(_rows(found.select(*columns))) == golden.sortable(_rows(expected.select(*columns)))


def _rows(frame):
    return [row.asDict(recursive=True) for row in frame.collect()]


@pytest.mark.parametrize(("name", "condition"), golden.REFUSED.items())
def test_what_breaks_the_protocol_is_refused(spark, name, condition):
    with pytest.raises(DeltaError) as caught:
        spark.read.format("delta").load(golden.path(name)).count()
    assert caught.value.condition == condition


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("type-widening", 2),
        ("type-widening-nested", 2),
        ("spark-variant-checkpoint", 102),
        ("table-with-icebegCompatV2Enabled", 6),
        ("commit-info-containing-arbitrary-operationParams-types", 2),
        ("kernel-timestamp-partition-col-ISO8601", 2),
        ("collations-table", 0),
    ],
)
def test_tables_without_expected_rows_read_as_the_small_reader_reads_them(spark, in_zone, name, rows):
    in_zone("UTC")
    frame = spark.read.format("delta").load(golden.path(name))
    assert frame.count() == rows
    comparable = [f.name for f in frame.schema.fields if "variant" not in f.dataType.simpleString()]
    ours = tahoe.Table(golden.path(name)).to_arrow(columns=comparable)
    theirs = frame.select(*[f"`{c}`" for c in comparable]).toArrow()
    assert golden.sortable(theirs.to_pylist()) == golden.sortable(ours.to_pylist())
