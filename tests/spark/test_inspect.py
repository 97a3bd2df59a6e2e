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
        f"CREATE TABLE {table_name} (id INT, day DATE, at TIMESTAMP, price DECIMAL(9, 2)) USING delta PARTITIONED BY "
        "(day, at, price) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(
        f"INSERT INTO {table_name} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, DATE'2026-01-01', "
        "TIMESTAMP'2026-01-01 10:00:00', 1.5), (2, DATE'2026-01-01', TIMESTAMP'2026-01-01 10:00:00', 1.5), (3, "
        "NULL, NULL, NULL)"
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
        "SELECT f.partition_values.day AS day, sum(f.num_records - f.deleted_records) AS n, max(v.size_bytes) > 0 "
        f"AS marked FROM delta_files('{table}') f JOIN delta_vectors('{table}') v ON f.path = v.path WHERE "
        "f.size_bytes > 0 GROUP BY ALL"
    ).collect()
    assert (str(row.day), row.n, row.marked) == ("2026-01-01", 1, True)
    twice = f"SELECT count(*) FROM delta_sizes('{table}') a JOIN delta_sizes('{table}') b ON a.version = b.version + 1"
    assert spark.sql(twice).head()[0] == 2
    assert (
        spark.sql("SELECT name FROM delta_properties(?) WHERE value = 'true'", args=[table]).head().name
        == "delta.enableDeletionVectors"
    )
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


def test_answers_can_be_saved_as_tables(spark, table_name, path):
    spark.sql(f"CREATE TABLE {table_name} USING delta AS SELECT 1 AS id")
    spark.sql(f"CREATE TABLE delta.`{path}` USING delta AS SELECT * FROM delta_files('{table_name}')")
    assert spark.table(f"delta.`{path}`").head().num_records == 1


@pytest.mark.parametrize(
    ("call", "rows"),
    [
        ("delta_history(table_str => '{t}')", 3),
        ("delta_history('{t}', at => 1)", 2),
        ("delta_history(at => 0, table_str => '{t}')", 1),
        ("delta_history('{t}', '1')", 2),
        ("delta_history((SELECT '{t}'))", 3),
    ],
)
def test_arguments_may_be_named(spark, told, call, rows):
    assert spark.sql(f"SELECT * FROM {call.format(t=told[0])}").count() == rows


@pytest.mark.parametrize("arguments", ["table_str => '{t}', start => 1, end => 1", "'{t}', end => 1, start => 1"])
def test_arguments_of_changes_may_be_named(spark, table_name, arguments):
    spark.sql(f"CREATE TABLE {table_name} (id INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    for _ in range(2):
        spark.sql(f"INSERT INTO {table_name} VALUES (1)")
    assert spark.sql(f"SELECT * FROM table_changes({arguments.format(t=table_name)})").count() == 1


@pytest.mark.parametrize(
    "seen", ["delta_files('told')", "table_changes('told', 0)", "delta_files('spark_catalog.' || 'told_at.told')"]
)
def test_a_view_asks_for_the_table_of_its_own_database(spark, seen):
    spark.sql("CREATE DATABASE told_at")
    try:
        for database, rows in (("told_at", 2), ("default", 1)):
            spark.sql(f"USE {database}")
            spark.sql("CREATE TABLE told (id INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
            for _ in range(rows):
                spark.sql("INSERT INTO told VALUES (1)")
        spark.sql("USE told_at")
        view = f"CREATE VIEW seen AS SELECT count(*) AS n FROM {seen}"
        if spark.version.startswith("4.1"):  # it counts the functions of extensions as temporary
            with pytest.raises(AnalysisException, match="INVALID_TEMP_OBJ_REFERENCE"):
                spark.sql(view)
            return
        spark.sql(view)
        spark.sql("USE default")
        assert spark.sql("SELECT n FROM told_at.seen").head().n == 2
        spark.sql("DROP TABLE default.told")
        assert spark.sql("SELECT n FROM told_at.seen").head().n == 2
    finally:
        spark.sql("USE default")
        spark.sql("DROP TABLE IF EXISTS default.told")
        spark.sql("DROP DATABASE told_at CASCADE")


def test_a_view_sees_the_newest_version(spark, told):
    table, _ = told
    spark.sql(f"CREATE TEMP VIEW seen AS SELECT max(version) AS newest FROM delta_history('{table}')")
    assert spark.sql("SELECT * FROM seen").head().newest == 2
    spark.sql(f"INSERT INTO {table} (id) VALUES (9)")
    assert spark.sql("SELECT * FROM seen").head().newest == 3
    spark.sql("DROP VIEW seen")


WRONG = [
    "",
    "'{t}', 1, 2",
    "'{t}', NULL",
    "'{t}', 1.5",
    "NULL",
    "1",
    "'{t}', true",
    "t => '{t}'",
    "at => 1",
    "'{t}', table_str => '{t}'",
    "table_str => '{t}', 1",
    "TABLE({t})",
]


@pytest.mark.parametrize("arguments", WRONG)
def test_other_arguments_are_refused(spark, told, arguments):
    with pytest.raises(IllegalArgumentException, match=r"DELTA_ILLEGAL_OPTION.*delta_files"):
        spark.sql(f"SELECT * FROM delta_files({arguments.format(t=told[0])})")


def test_arguments_that_depend_on_rows_are_refused(spark, told):
    for argument in ("n.name", "n.name || ''", "table_str => n.name"):
        with pytest.raises(IllegalArgumentException, match=r"table_str of delta_files.*it must be a constant"):
            spark.sql(f"SELECT * FROM VALUES ('{told[0]}') n(name), LATERAL delta_files({argument})").collect()


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
