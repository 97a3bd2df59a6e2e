"""COPY INTO from files of Avro, without the package spark-avro."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import Row

from tahoe.errors import CopyFileError, SchemaMismatchError
from tests.spark.copying import copy, id_and_name, put_frame, rows

pytestmark = pytest.mark.every_spark

AVRO = "org.apache.spark.sql.avro.AvroFileFormat"


@pytest.fixture
def source(path):
    folder = Path(path + "-in")
    folder.mkdir(parents=True)
    return folder


def put(spark, source, name, query):
    put_frame(source, name, AVRO, spark.sql(query))


def test_files_of_avro_are_loaded_once(spark, path, source):
    table = id_and_name(spark, path)
    names = ("a.avro", "b.avro", "deep/c.avro", "no extension")
    for number, name in enumerate(names):
        put(spark, source, name, f"SELECT {number} AS id, '{name}' AS name")
    preview = spark.sql(f"COPY INTO {table} FROM '{source}' FILEFORMAT = AVRO VALIDATE").collect()
    assert sorted(row.id for row in preview) == [0, 1, 3]
    assert copy(spark, table, source, "FILEFORMAT = AVRO FILES = ('b.avro')").num_loaded_files == 1
    assert copy(spark, table, source, "FILEFORMAT = AVRO PATTERN = 'deep/*.avro'").num_loaded_files == 1
    assert copy(spark, table, source, "FILEFORMAT = AVRO").num_loaded_files == 2
    assert copy(spark, table, source, "FILEFORMAT = AVRO").num_loaded_files == 0
    assert rows(spark, table) == list(enumerate(names))


def test_columns_that_some_files_lack_are_read_from_the_others(spark, path, source):
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (id INT) USING delta")
    put(spark, source, "a", "SELECT 1 AS id")
    put(spark, source, "b", "SELECT 2 AS id, named_struct('x', 1, 'y', array('z')) AS more")
    put(spark, source, "c", "SELECT 3 AS id, 'n' AS note")
    with pytest.raises(SchemaMismatchError, match="more"):
        copy(spark, table, source, "FILEFORMAT = AVRO")
    copy(spark, table, source, "FILEFORMAT = AVRO COPY_OPTIONS ('mergeSchema' = 'true')")
    assert spark.table(table).orderBy("id").collect() == [
        Row(id=1, more=None, note=None),
        Row(id=2, more=Row(x=1, y=["z"]), note=None),
        Row(id=3, more=None, note="n"),
    ]


def test_files_whose_types_differ_are_an_error_not_nulls(spark, path, source):
    table = id_and_name(spark, path)
    put(spark, source, "a", "SELECT 1 AS id")
    put(spark, source, "b", "SELECT 'x' AS id")
    with pytest.raises(Exception, match=r"(?i)merge"):
        copy(spark, table, source, "FILEFORMAT = AVRO")
    assert rows(spark, table) == []


def test_a_file_that_is_no_avro_is_named(spark, path, source):
    table = id_and_name(spark, path)
    put(spark, source, "a", "SELECT 1 AS id")
    (source / "b").write_text("no Avro")
    with pytest.raises(CopyFileError, match="/b"):
        copy(spark, table, source, "FILEFORMAT = AVRO")


def test_a_schema_of_avro_decides_which_columns_are_read(spark, path, source):
    table = id_and_name(spark, path)
    put(spark, source, "a", "SELECT 1 AS id, 'x' AS name, 5 AS more")
    schema = '{"type": "record", "name": "topLevelRecord", "fields": [{"name": "id", "type": ["int", "null"]}]}'
    copy(spark, table, source, f"FILEFORMAT = AVRO FORMAT_OPTIONS ('avroSchema' = '{schema}')")
    assert rows(spark, table) == [(1, None)]


def test_folders_of_partitions_make_columns(spark, path, source):
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (id INT, hour STRING) USING delta")
    for hour in ("05", "06"):
        put(spark, source, f"hour={hour}/a.avro", f"SELECT {int(hour)} AS id")
    copy(spark, table, source, "FILEFORMAT = AVRO")
    assert rows(spark, table) == [(5, "05"), (6, "06")]
