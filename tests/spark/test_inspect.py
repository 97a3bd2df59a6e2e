"""`delta_files('t')`, `delta_history('t')`, ...: what `Table.inspect` tells, as table functions in SQL."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException

import tahoe
from tahoe.table.inspection.inspector import INSPECTIONS

pytestmark = pytest.mark.every_spark


@pytest.fixture
def told(spark, table_name):
    """The name of a table of three versions, with partitions of several types and a deletion vector; and its path."""
    spark.sql(
        f"CREATE TABLE {table_name} (id INT, day DATE, at TIMESTAMP, price DECIMAL(9, 2)) USING delta PARTITIONED BY (day, at, price) "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(
        f"INSERT INTO {table_name} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, DATE'2026-01-01', TIMESTAMP'2026-01-01 10:00:00', 1.5), "
        "(2, DATE'2026-01-01', TIMESTAMP'2026-01-01 10:00:00', 1.5), (3, NULL, NULL, NULL)"
    )
    spark.sql(f"DELETE FROM {table_name} WHERE id = 1")
    return table_name, spark.sql(f"DESCRIBE DETAIL {table_name}").head().location


@pytest.mark.parametrize("name", INSPECTIONS)
def test_every_inspection_is_a_function_with_the_same_rows(spark, told, name):
    table, path = told
    expected = getattr(tahoe.Table(path).inspect, name)()
    for given in (table, f"default.{table}", f"delta.`{path}`", path):
        found = spark.sql(f"SELECT * FROM delta_{name}('{given}')")
        assert found.columns == expected.column_names
        assert found.count() == expected.num_rows
        arrow = found.toArrow()
        assert pa.Table.from_batches(arrow.to_batches(), arrow.schema).num_rows == expected.num_rows


def test_functions_are_tables_in_a_query(spark, told):
    table, path = told
    (row,) = spark.sql(
        f"SELECT f.partition_values.day AS day, sum(f.num_records - f.deleted_records) AS n, max(v.size_bytes) > 0 AS marked "
        f"FROM delta_files('{table}') f JOIN delta_vectors('{table}') v ON f.path = v.path WHERE f.size_bytes > 0 GROUP BY ALL"
    ).collect()
    assert (str(row.day), row.n, row.marked) == ("2026-01-01", 1, True)
    twice = f"SELECT count(*) FROM delta_sizes('{table}') a JOIN delta_sizes('{table}') b ON a.version = b.version + 1"
    assert spark.sql(twice).head()[0] == 2
    assert spark.sql("SELECT name FROM delta_properties(?) WHERE value = 'true'", args=[table]).head().name == "delta.enableDeletionVectors"
    assert spark.newSession().sql(f"SELECT * FROM delta_history('{path}')").count() == 3


def test_a_version_or_a_time_may_be_given(spark, told):
    table, path = told
    first = tahoe.Table(path).history()[-1]["timestamp"]
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    for at in ("0", f"'{first:%Y-%m-%d %H:%M:%S.%f}'", f"TIMESTAMP'{first:%Y-%m-%d %H:%M:%S.%f}'"):
        assert spark.sql(f"SELECT * FROM delta_history('{table}', {at})").count() == 1, at
    assert spark.sql(f"SELECT * FROM delta_history('{path}@v1')").count() == 2
    tahoe.Table(path).tag("first-of-all", 0)
    assert spark.sql(f"SELECT * FROM delta_history('{table}', 'first-of-all')").count() == 1
    assert spark.sql(f"SELECT name, version FROM delta_tags('{table}')").collect() == [("first-of-all", 0)]


def test_a_view_sees_the_newest_version(spark, told):
    table, _ = told
    spark.sql(f"CREATE TEMP VIEW seen AS SELECT max(version) AS newest FROM delta_history('{table}')")
    assert spark.sql("SELECT * FROM seen").head().newest == 2
    spark.sql(f"INSERT INTO {table} (id) VALUES (9)")
    assert spark.sql("SELECT * FROM seen").head().newest == 3
    spark.sql("DROP VIEW seen")


@pytest.mark.parametrize("arguments", ["", "'{t}', 1, 2", "'{t}', NULL", "'{t}', 1.5", "NULL", "1", "'{t}', true"])
def test_other_arguments_are_refused(spark, told, arguments):
    with pytest.raises(IllegalArgumentException, match=r"DELTA_ILLEGAL_OPTION.*delta_files"):
        spark.sql(f"SELECT * FROM delta_files({arguments.format(t=told[0])})")


def test_what_is_not_there_is_told(spark, told):
    table, path = told
    for call, text in (
        (f"delta_files('{table}', 7)", "DELTA_VERSION_NOT_FOUND.*versions 0 to 2"),
        (f"delta_files('{table}', '2001-01-01')", "DELTA_TIMESTAMP_OUT_OF_RANGE"),
        (f"delta_files('{table}', 'no tag')", "DELTA_INVALID_TIME_TRAVEL.*'no tag' is not a timestamp"),
        (f"delta_files('{table}', 'soon')", "DELTA_TAG_NOT_FOUND.*soon"),
        (f"delta_files('{path}@v1', 1)", "DELTA_INVALID_TIME_TRAVEL.*cannot be combined"),
        ("delta_files('no_such_table')", "TABLE_OR_VIEW_NOT_FOUND.*no_such_table"),
        ("delta_files('/no/such/path')", "/no/such/path"),
    ):
        with pytest.raises(AnalysisException) as raised:
            spark.sql(f"SELECT * FROM {call}")
        assert re.search(text, str(raised.value)), (call, str(raised.value))


def test_a_table_without_files_has_rows_in_no_list_of_them(spark, table_name):
    spark.sql(f"CREATE TABLE {table_name} (id INT) USING delta")
    for name in ("files", "partitions", "statistics", "row_groups"):
        assert spark.sql(f"SELECT * FROM delta_{name}('{table_name}')").collect() == []
