"""COPY INTO: each format, each file once, rows that do not fit, and what happens beside other commits."""

from __future__ import annotations

import datetime as dt
import json
import os
import threading
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row

import tahoe
from tahoe import DeltaTable
from tahoe.errors import (
    CopiedFilesLostError,
    CopyColumnsError,
    CopyFileError,
    CopyFormatError,
    CopyOptionError,
    CopySourceGlobError,
    CopySourceMissingError,
    CopyUnsupportedError,
    DeltaError,
    InvalidArgumentError,
    InvalidOptionError,
    SchemaMismatchError,
    TableNotFoundError,
)
from tests.spark.copying import HEADER, JSON, copy, id_and_name, put, put_frame, rows


@pytest.fixture
def source(path):
    folder = Path(path + "-in")
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def table(spark, path):
    return id_and_name(spark, path)


def test_each_file_is_loaded_once(spark, table, source, path):
    put(source, "a.json", JSON.format(1, "x"), JSON.format(2, "y"))
    first = copy(spark, table, source)
    assert first.asDict() == {
        "num_affected_rows": 2,
        "num_inserted_rows": 2,
        "num_skipped_corrupt_files": 0,
        "num_loaded_files": 1,
        "num_skipped_files": 0,
        "num_changed_files": 0,
        "num_bad_records": 0,
    }
    again = copy(spark, table, source)
    assert (again.num_inserted_rows, again.num_loaded_files, again.num_skipped_files) == (0, 0, 1)
    put(source, "b.json", JSON.format(3, "z"))
    assert copy(spark, table, source).num_inserted_rows == 1
    assert rows(spark, table) == [(1, "x"), (2, "y"), (3, "z")]
    commit = tahoe.Table(path).history(1)[0]
    assert commit["operation"] == "COPY INTO"
    assert commit["operationMetrics"]["numOutputRows"] == "1"
    assert commit["operationMetrics"]["numLoadedFiles"] == "1"
    assert tahoe.Table(path).version == 2  # nothing to load is no commit
    assert copy(spark, table, source, "FILEFORMAT = JSON COPY_OPTIONS ('force' = 'true')").num_inserted_rows == 3


def test_a_changed_file_is_loaded_again_only_if_that_is_asked_for(spark, table, source):
    put(source, "a.json", JSON.format(1, "x"))
    copy(spark, table, source)
    put(source, "a.json", JSON.format(2, "longer"))
    assert copy(spark, table, source).num_changed_files == 1
    allowed = "FILEFORMAT = JSON COPY_OPTIONS ('allowOverwrites' = 'true')"
    assert copy(spark, table, source, allowed).num_inserted_rows == 1
    assert copy(spark, table, source, allowed).num_inserted_rows == 0


@pytest.mark.parametrize("file_format", ["PARQUET", "ORC", "JSON", "CSV"])
def test_formats_with_columns(spark, table, source, file_format):
    frame = spark.createDataFrame([Row(name="x", id=1), Row(name=None, id=2)], "name STRING, id INT")
    frame.coalesce(1).write.option("header", "true").mode("overwrite").format(file_format.lower()).save(str(source))
    options = "FORMAT_OPTIONS ('header' = 'true')" if file_format == "CSV" else ""
    assert copy(spark, table, source, f"FILEFORMAT = {file_format} {options}").num_inserted_rows == 2
    assert sorted(spark.table(table).collect(), key=str) == [Row(id=1, name="x"), Row(id=2, name=None)]


def test_texts_and_binary_files(spark, path, source):
    put(source, "a.txt", "one", "two")
    spark.sql(f"CREATE TABLE delta.`{path}` (value STRING) USING delta")
    assert copy(spark, f"delta.`{path}`", source, "FILEFORMAT = TEXT").num_inserted_rows == 2
    spark.sql(f"CREATE TABLE delta.`{path}-b` (path STRING, length BIGINT, content BINARY) USING delta")
    select = f"(SELECT path, length, content FROM '{source}')"
    spark.sql(f"COPY INTO delta.`{path}-b` FROM {select} FILEFORMAT = BINARYFILE")
    [row] = spark.table(f"delta.`{path}-b`").collect()
    assert (row.path.endswith("a.txt"), row.length, bytes(row.content)) == (True, 8, b"one\ntwo\n")


def test_files_patterns_partitions_and_nested_folders(spark, table, source):
    for name in ("a.json", "b.json", "day=1/c.json", "deep/d.json", "_hidden.json", "deep/er/e.txt"):
        put(source, name, JSON.format(1, name))
    one = "FILEFORMAT = JSON FILES = ('b.json')"
    assert copy(spark, table, source, one).num_loaded_files == 1
    assert copy(spark, table, source, "FILEFORMAT = JSON PATTERN = 'deep/*.json'").num_loaded_files == 1
    merge = "COPY_OPTIONS ('mergeSchema' = 'true')"
    assert copy(spark, table, source, f"FILEFORMAT = JSON {merge}").num_loaded_files == 2
    nested = "FILEFORMAT = JSON FORMAT_OPTIONS ('recursiveFileLookup' = 'true')"
    assert copy(spark, table, source, nested).num_loaded_files == 1
    found = {(row.name, row.day) for row in spark.table(table).collect()}
    names = {("a.json", None), ("b.json", None), ("day=1/c.json", 1), ("deep/d.json", None), ("deep/er/e.txt", None)}
    assert found == names


def test_a_single_file_and_a_name_with_characters_of_a_pattern(spark, table, source):
    put(source, "a [1]{x}.json", JSON.format(1, "x"))
    assert copy(spark, table, source / "a [1]{x}.json").num_inserted_rows == 1
    assert copy(spark, table, source).num_inserted_rows == 0


def test_a_select_list(spark, table, source):
    put(source, "a.csv", "1;x", "2;y")
    text = f"""COPY INTO {table} FROM (SELECT _c0::INT * 10 AS id, concat(_c1, ', ', _metadata.file_name) AS name
               FROM '{source}') FILEFORMAT = CSV FORMAT_OPTIONS ('sep' = ';')"""
    spark.sql(text)
    assert rows(spark, table) == [(10, "x, a.csv"), (20, "y, a.csv")]


def test_columns_by_position(spark, path, source):
    table = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {table} (id INT, twice INT GENERATED ALWAYS AS (id * 2), name STRING DEFAULT 'none') "
        "USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    put(source, "a.csv", "1,x")
    put(source, "b.csv", "2")
    put(source, "c.csv", "z,3")
    copy(spark, f"{table} BY POSITION", source, "FILEFORMAT = CSV FILES = ('a.csv')")
    copy(spark, f"{table} (id)", source, "FILEFORMAT = CSV FILES = ('b.csv')")
    copy(spark, f"{table} (name, id)", source, "FILEFORMAT = CSV FILES = ('c.csv')")
    assert rows(spark, table) == [(1, 2, "x"), (2, 4, "none"), (3, 6, "z")]
    put(source, "d.csv", "1,2,3")
    with pytest.raises(CopyColumnsError, match="3 columns, and they are assigned to 2: id, name"):
        copy(spark, f"{table} BY POSITION", source, "FILEFORMAT = CSV FILES = ('d.csv')")
    with pytest.raises(CopyColumnsError, match="no column nam"):
        copy(spark, f"{table} (nam, id)", source, "FILEFORMAT = CSV FILES = ('d.csv')")


def test_a_table_without_columns_takes_those_of_the_files(spark, source):
    put(source, "a.csv", "id,name", "1,x")
    spark.sql("CREATE TABLE without_columns USING delta")
    copy(
        spark,
        "without_columns",
        source,
        "FILEFORMAT = CSV FORMAT_OPTIONS ('header' = 'true', 'inferSchema' = 'true') "
        "COPY_OPTIONS ('mergeSchema' = 'true')",
    )
    assert rows(spark, "without_columns") == [(1, "x")]
    spark.sql("DROP TABLE without_columns")


def test_new_columns_need_merge_schema(spark, table, source):
    put(source, "a.json", '{"id": 1, "name": "x", "more": {"a": [1]}}')
    with pytest.raises(SchemaMismatchError, match="mergeSchema"):
        copy(spark, table, source)
    copy(spark, table, source, "FILEFORMAT = JSON COPY_OPTIONS ('mergeSchema' = 'true')")
    put(source, "b.json", '{"id": 2, "name": "y", "more": {"a": [2], "b": "new"}}')
    copy(spark, table, source, "FILEFORMAT = JSON COPY_OPTIONS ('mergeSchema' = 'true')")
    assert spark.table(table).select("more.b").orderBy("id").collect() == [Row(b=None), Row(b="new")]


@pytest.mark.parametrize(
    ("name", "lines", "rest"),
    [
        ("a.json", [JSON.format(1, "x"), '{"id": "no number", "name": "y"}'], "FILEFORMAT = JSON"),
        ("a.json", [JSON.format(1, "x"), "{broken"], "FILEFORMAT = JSON"),
        ("a.json", ["{broken"], "FILEFORMAT = JSON"),
        ("a.json", [JSON.format(1, "x"), "5"], "FILEFORMAT = JSON"),
        ("a.csv", ["id,name", "1,x", "no number,y"], HEADER),
        ("a.csv", ["id,name", "1,x", "3000000000,y"], HEADER),
    ],
    ids=["a value", "a line", "no line", "no object", "a field", "too large"],
)
def test_a_value_that_does_not_fit_is_an_error_and_nothing_is_loaded(spark, table, source, path, name, lines, rest):
    put(source, name, *lines)
    with pytest.raises(CopyFileError) as caught:
        copy(spark, table, source, rest)
    assert caught.value.parameters["file"].endswith(f"/{name}")
    assert tahoe.Table(path).version == 0
    assert [str(file) for file in Path(path).rglob("*.parquet")] == []


def test_files_with_other_headers_are_not_mixed_up(spark, table, source):
    put(source, "a.csv", "id,name", "1,x")
    put(source, "b.csv", "name,id", "y,2")
    with pytest.raises(Exception, match=r"(?i)header"):
        copy(spark, table, source, HEADER)
    for name in ("a.csv", "b.csv"):
        copy(spark, table, source, f"{HEADER} FILES = ('{name}')")
    assert rows(spark, table) == [(1, "x"), (2, "y")]


@pytest.mark.parametrize("file_format", ["JSON", "CSV"])
def test_bad_records_are_set_aside(spark, table, source, path, file_format):
    lines = (
        [JSON.format(1, "x"), '{"id": "no", "name": "y"}', "{broken"]
        if file_format == "JSON"
        else ["id,name", "1,x", "no,y", "7,z,too many"]
    )
    put(source, "a.data", *lines)
    options = f"FORMAT_OPTIONS ('header' = 'true', 'badRecordsPath' = '{path}-bad')"
    found = copy(spark, table, source, f"FILEFORMAT = {file_format} {options}")
    assert (found.num_inserted_rows, found.num_bad_records) == (1, 2)
    assert rows(spark, table) == [(1, "x")]
    bad = [json.loads(line) for file in Path(path + "-bad").rglob("*.json") for line in file.read_text().splitlines()]
    assert {record["record"] for record in bad} == set(lines[-2:])
    assert all(record["path"].endswith("a.data") for record in bad)


def test_rescued_data_of_json(spark, path, source):
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (id INT, at DATE, more STRUCT<a: INT>, _rescued STRING) USING delta")
    put(
        source,
        "a.json",
        '{"id": 1, "at": "2026-01-02", "more": {"a": 5}}',
        '{"id": "no", "extra": [1, 2], "more": {"a": "no"}}',
        "{broken",
    )
    copy(spark, table, source, "FILEFORMAT = JSON FORMAT_OPTIONS ('rescuedDataColumn' = '_rescued')")
    good, other, broken = sorted(spark.table(table).collect(), key=lambda row: (row.id is None, row._rescued))[0:3]
    assert (good.id, str(good.at), good.more.a, good._rescued) == (1, "2026-01-02", 5, None)
    found = {key: value for row in (other, broken) for key, value in json.loads(row._rescued).items()}
    assert found.pop("_file_path").endswith("a.json")
    assert found == {"id": "no", "extra": "[1,2]", "more": '{"a":"no"}', "_corrupt_record": "{broken"}
    assert (other.id, other.more, broken.id) == (None, None, None)


def test_rescued_data_of_csv(spark, path, source):
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (id INT, name STRING, _rescued STRING) USING delta")
    put(source, "a.csv", "ID,name,extra", "1,x,", "no,y,more")
    options = "FORMAT_OPTIONS ('header' = 'true', 'rescuedDataColumn' = '_rescued')"
    copy(spark, table, source, f"FILEFORMAT = CSV {options}")
    good, other = spark.table(table).orderBy("name").collect()
    assert tuple(good) == (1, "x", None)
    assert (other.id, other.name) == (None, "y")
    assert json.loads(other._rescued).items() >= {"ID": "no", "extra": "more"}.items()


def test_a_preview_writes_nothing(spark, table, source, path):
    put(source, "a.json", *(JSON.format(n, "x") for n in range(60)))
    assert copy_frame(spark, table, source, "VALIDATE").columns == ["id", "name"]
    assert copy_frame(spark, table, source, "VALIDATE").count() == 50
    assert copy_frame(spark, table, source, "VALIDATE 3 ROWS").count() == 3
    assert tahoe.Table(path).version == 0
    put(source, "b.json", '{"id": "no"}')
    with pytest.raises(Exception, match=r"(?i)malformed|parse"):
        copy_frame(spark, table, source, "VALIDATE ALL")
    (source / "b.json").unlink()
    copy(spark, table, source)
    assert copy_frame(spark, table, source, "VALIDATE").collect() == []


def copy_frame(spark, table, source, clause):
    return spark.sql(f"COPY INTO {table} FROM '{source}' FILEFORMAT = JSON {clause}")


def test_the_rules_of_the_table_hold(spark, table, source):
    spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT small CHECK (id < 10)")
    put(source, "a.json", JSON.format(11, "x"))
    with pytest.raises(DeltaError, match="small"):
        copy_frame(spark, table, source, "VALIDATE")
    with pytest.raises(DeltaError, match="small"):
        copy(spark, table, source)
    assert rows(spark, table) == []


def test_two_loaders_at_once_load_nothing_twice(spark, table, source, path):
    for n in range(6):
        put(source, f"{n}.json", JSON.format(n, "x"))
    failed = []

    def load(names):
        try:
            DeltaTable.forPath(spark, path)
            files = ", ".join(f"'{n}.json'" for n in names)
            copy(spark, table, source, f"FILEFORMAT = JSON FILES = ({files})")
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=load, args=(names,)) for names in (range(4), range(2, 6), range(6))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert [row[0] for row in rows(spark, table)] == list(range(6))


def test_the_function_does_the_same(spark, table, source, path):
    put(source, "a'b.csv", "1,x", "2,y")
    call = {"format": "csv", "by_position": True, "files": ["a'b.csv"]}
    assert tahoe.copy_into(spark, path, str(source), validate=True, **call).count() == 2
    assert tahoe.copy_into(spark, DeltaTable.forPath(spark, path), str(source), **call).first().num_inserted_rows == 2
    assert tahoe.copy_into(spark, table, str(source), **call).first().num_inserted_rows == 0
    select = tahoe.copy_into(
        spark, table, str(source), format="CSV", select=["_c0::INT AS id"], force=True, format_options={"header": False}
    )
    assert select.first().num_inserted_rows == 2


def test_names_and_parameters(spark, source):
    spark.sql("CREATE OR REPLACE TABLE copied (id INT, name STRING) USING delta")
    put(source, "a.json", JSON.format(1, "x"))
    text = "COPY INTO IDENTIFIER(:t) FROM :source FILEFORMAT = JSON"
    assert spark.sql(text, {"t": "copied", "source": str(source)}).first().num_inserted_rows == 1
    spark.sql("CREATE OR REPLACE TABLE copied (id INT, name STRING) USING delta")
    assert copy(spark, "copied", source).num_inserted_rows == 1  # a table that was replaced has loaded nothing
    spark.sql("DROP TABLE copied")


@pytest.mark.parametrize(
    ("rest", "error", "told"),
    [
        ("FILEFORMAT = CVS", CopyFormatError, "CVS.*Did you mean CSV"),
        ("FILEFORMAT = JSON COPY_OPTIONS ('mergeShema' = 'true')", CopyOptionError, "Did you mean mergeSchema"),
        ("FILEFORMAT = JSON COPY_OPTIONS ('force' = 'perhaps')", InvalidOptionError, "true or false"),
        ("FILEFORMAT = JSON FILES = ('none.json')", CopySourceMissingError, "none.json"),
        ("FILEFORMAT = JSON PATTERN = '[a'", InvalidOptionError, r"a \[ has no \]"),
        ("FILEFORMAT = JSON PATTERN = ''", InvalidOptionError, "PATTERN"),
        (
            "FILEFORMAT = JSON FORMAT_OPTIONS ('basePath' = '/x')",
            InvalidOptionError,
            "basePath.*the source is after FROM",
        ),
        (
            "FILEFORMAT = JSON FORMAT_OPTIONS ('modifiedAfter' = 'x')",
            InvalidOptionError,
            "modifiedAfter.*no.*timestamp",
        ),
        ("FILEFORMAT = PARQUET FORMAT_OPTIONS ('badRecordsPath' = '/x')", InvalidOptionError, "for CSV and JSON"),
    ],
)
def test_wrong_statements_say_what_is_wrong(spark, table, source, rest, error, told):
    put(source, "a.json", JSON.format(1, "x"))
    with pytest.raises(error, match=f"(?s){told}"):
        copy(spark, table, source, rest)


def test_wrong_places_say_what_is_wrong(spark, table, source, path):
    assert copy(spark, table, source).num_loaded_files == 0  # an empty folder is no error
    with pytest.raises(CopySourceMissingError, match="nowhere"):
        copy(spark, table, f"{source}/nowhere")
    with pytest.raises(CopySourceGlobError, match="PATTERN"):
        copy(spark, table, f"{source}/*.json")
    with pytest.raises(CopyUnsupportedError, match="CSV files without a header"):
        copy(spark, f"{table} BY POSITION", source)
    with pytest.raises((TableNotFoundError, AnalysisException)):
        copy(spark, f"delta.`{path}-none`", source)
    put(source, "a.json", JSON.format(1, "x"))
    copy(spark, table, source)
    for part in (Path(path) / "_delta_log" / "_copied").iterdir():
        part.unlink()
    with pytest.raises(CopiedFilesLostError):
        copy(spark, table, source)


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_column_that_some_files_lack_is_read_from_the_others(spark, path, source, file_format):
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, name STRING, more STRING) USING delta")
    put_frame(source, "a", file_format, spark.sql("SELECT 1 AS id, 'x' AS name"))
    put_frame(source, "b", file_format, spark.sql("SELECT 2 AS id, 'y' AS name, 'm' AS more"))
    copy(spark, f"delta.`{path}`", source, f"FILEFORMAT = {file_format}")
    assert rows(spark, f"delta.`{path}`") == [(1, "x", None), (2, "y", "m")]


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_files_whose_types_differ_are_an_error_not_nulls(spark, table, source, path, file_format):
    put_frame(source, "a", file_format, spark.sql("SELECT 1 AS id, 'x' AS name"))
    put_frame(source, "b", file_format, spark.sql("SELECT 2L AS id, 'y' AS name"))
    with pytest.raises(Exception, match=r"(?i)merge"):
        copy(spark, table, source, f"FILEFORMAT = {file_format}")
    assert tahoe.Table(path).version == 0


READERS = {
    "PARQUET": "",
    "JSON": "",
    "rescued JSON": "FORMAT_OPTIONS ('rescuedDataColumn' = '_rescued')",
    "rescued CSV": "FORMAT_OPTIONS ('rescuedDataColumn' = '_rescued', 'header' = 'true')",
    "bad CSV": "FORMAT_OPTIONS ('badRecordsPath' = '/tmp/none', 'header' = 'true')",
}


@pytest.mark.parametrize("reader", READERS)
def test_a_text_in_the_name_of_a_folder_keeps_its_zeros(spark, path, source, reader):
    table, file_format = f"delta.`{path}`", reader.split()[-1]
    spark.sql(f"CREATE TABLE {table} (id INT, hour STRING, day DATE, _rescued STRING) USING delta")
    frame = spark.sql("SELECT 1 AS id").write.option("header", "true")
    frame.format(file_format.lower()).save(f"{source}/hour=05/day=2026-01-02")
    copy(spark, table, source, f"FILEFORMAT = {file_format} {READERS[reader]}")
    assert rows(spark, table) == [(1, "05", dt.date(2026, 1, 2), None)]
    select = f"(SELECT id::INT AS id, hour FROM '{source}')"
    header = "FORMAT_OPTIONS ('header' = 'true')"
    spark.sql(f"COPY INTO {table} FROM {select} FILEFORMAT = {file_format} {header} COPY_OPTIONS ('force' = 'true')")
    assert {row.hour for row in spark.table(table).collect()} == {"05"}


def test_partition_folders_may_be_in_several_folders(spark, path, source):
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, name STRING, day INT) USING delta")
    for n, name in enumerate(("x/day=1/a.json", "y/day=2/b.json", "x/y/c.json")):
        put(source, name, JSON.format(n, "x"))
    assert copy(spark, f"delta.`{path}`", source, "FILEFORMAT = JSON PATTERN = '*/*/*.json'").num_loaded_files == 3
    assert rows(spark, f"delta.`{path}`") == [(0, "x", 1), (1, "x", 2), (2, "x", None)]


def test_a_number_that_is_too_large_for_a_tinyint_is_an_error(spark, path, source):
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (a TINYINT, b STRUCT<c: ARRAY<TINYINT>>) USING delta")
    put(source, "a.json", '{"a": 127, "b": {"c": [-128]}}')
    copy(spark, table, source)
    assert spark.table(table).collect() == [Row(a=127, b=Row(c=[-128]))]
    for line in ('{"a": 200}', '{"b": {"c": [200]}}'):
        put(source, "b.json", line)
        with pytest.raises(Exception, match=r"(?i)overflow"):
            copy(spark, table, source)


@pytest.mark.parametrize(
    ("name", "content", "rest"),
    [
        ("a.json", "", "FILEFORMAT = JSON"),
        ("a.json", " \n\n", "FILEFORMAT = JSON"),
        ("a.csv", "", HEADER),
        ("a.csv", "", "FILEFORMAT = CSV"),
    ],
)
def test_an_empty_file_is_loaded_once_without_rows(spark, table, source, name, content, rest):
    (source / name).write_text(content)
    assert copy(spark, table, source, rest)[0:4] == (0, 0, 0, 1)
    assert copy(spark, table, source, rest)[3:5] == (0, 1)


def test_empty_files_have_no_columns_to_assign_by_position(spark, table, source):
    put(source, "a.csv")
    assert copy(spark, f"{table} BY POSITION", source, "FILEFORMAT = CSV").num_loaded_files == 1


def test_objects_without_fields_are_rows_with_defaults(spark, path, source):
    table = f"delta.`{path}`"
    allowed = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    spark.sql(f"CREATE TABLE {table} (n INT DEFAULT 5, id INT) USING delta {allowed}")
    put(source, "a.json", "{}", "{}")
    copy(spark, table, source)
    assert rows(spark, table) == [(5, None), (5, None)]


def test_bad_records_alone_are_set_aside(spark, table, source, path):
    put(source, "a.json", "{broken")
    found = copy(spark, table, source, f"FILEFORMAT = JSON FORMAT_OPTIONS ('badRecordsPath' = '{path}-bad')")
    assert (found.num_inserted_rows, found.num_bad_records, found.num_loaded_files) == (0, 1, 1)


@pytest.mark.parametrize(
    ("name", "content", "rest", "told"),
    [
        ("a.json", b'{"id": "no"}', "FILEFORMAT = JSON", "the value no of the JSON token"),
        ("a.csv", b"id,name\nno,x", HEADER, 'input string: "no"'),
        ("a.json.gz", b"no archive", "FILEFORMAT = JSON", "gzip|end of input"),
        ("a.parquet", b"no Parquet", "FILEFORMAT = PARQUET", "not a Parquet file"),
        ("a:b.json", b'{"id": 1}', "FILEFORMAT = JSON", "Relative path in absolute URI"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(spark, table, source, name, content, rest, told):
    (source / name).write_bytes(content)
    for clause in ("", " VALIDATE"):
        with pytest.raises(CopyFileError, match=f"(?s){name}.*{told}") as failure:
            copy(spark, table, source, rest + clause)
        assert "\tat " not in str(failure.value)


def test_corrupt_files_are_not_counted_where_the_session_passes_over_them(spark, table, source, path):
    put_frame(source, "a.parquet", "parquet", spark.sql("SELECT 1 AS id"))
    (source / "b.parquet").write_bytes(b"no Parquet")
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        assert copy(spark, table, source, "FILEFORMAT = PARQUET").num_skipped_corrupt_files is None
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")
    assert "numSkippedCorruptFiles" not in tahoe.Table(path).history(1)[0]["operationMetrics"]


def test_no_file_of_a_table_is_loaded_as_parquet(spark, table, source, path):
    spark.sql(f"INSERT INTO {table} VALUES (1, 'x'), (2, 'y')")
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    recursive = "FILEFORMAT = PARQUET FORMAT_OPTIONS ('recursiveFileLookup' = 'true')"
    for folder in (path, Path(path).parent):
        with pytest.raises(CopyUnsupportedError, match="is a Delta table, and its folder has also rows"):
            copy(spark, table, folder, recursive)
    with pytest.raises(CopyUnsupportedError, match="in the table's own folder"):
        copy(spark, table, path, f"FILEFORMAT = PARQUET FILES = ('{next(Path(path).glob('*.parquet')).name}')")
    spark.sql(f"CREATE TABLE delta.`{source}/inner` USING delta AS SELECT 3 AS id, 'z' AS name")
    put_frame(source, "a.parquet", "parquet", spark.sql("SELECT 3 AS id, 'z' AS name"))
    assert copy(spark, table, source, "FILEFORMAT = PARQUET").num_inserted_rows == 1


def test_what_readers_pass_over_does_not_count_as_loaded(spark, path, source):
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (value STRING) USING delta")
    put(source, "_hidden.txt", "x")
    put(source, "a.txt._COPYING_", "x")
    assert copy(spark, table, source, "FILEFORMAT = TEXT").num_loaded_files == 0
    for name in ("_hidden.txt", "a.txt._COPYING_"):
        with pytest.raises(CopyUnsupportedError, match="pass over"):
            copy(spark, table, source / name, "FILEFORMAT = TEXT")
        with pytest.raises(CopyUnsupportedError, match="pass over"):
            copy(spark, table, source, f"FILEFORMAT = TEXT FILES = ('{name}')")


def test_a_file_has_one_name(spark, table, source):
    put(source, "deep/a.json", JSON.format(1, "x"))
    names = "FILES = ('deep/a.json', './deep//a.json')"
    assert copy(spark, table, source, f"FILEFORMAT = JSON {names}").num_loaded_files == 1
    with pytest.raises(CopyUnsupportedError, match="below the source"):
        copy(spark, table, source / "deep", "FILEFORMAT = JSON FILES = ('../deep/a.json')")


def test_a_name_that_is_no_text_is_told(spark, table, source):
    (Path(os.fsdecode(os.fsencode(source) + b"/caf\xe9.json"))).write_text(JSON.format(1, "x"))
    with pytest.raises(CopyUnsupportedError, match="not UTF-8"):
        copy(spark, table, source)


def test_rescued_rows_have_what_the_table_makes_and_bytes_in_base64(spark, path, source):
    table = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {table} (id INT, twice INT GENERATED ALWAYS AS (id * 2), n INT DEFAULT 5, b BINARY, "
        "k BIGINT GENERATED ALWAYS AS IDENTITY, r STRING) "
        "USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    put(source, "a.json", '{"id": 1, "b": "aGVsbG8="}', "{'id': 2, 'b': '?'}")
    copy(spark, table, source, "FILEFORMAT = JSON FORMAT_OPTIONS ('rescuedDataColumn' = 'r')")
    first, second = spark.table(table).orderBy("id").collect()
    assert (first.twice, first.n, bytes(first.b), first.k, first.r) == (2, 5, b"hello", 1, None)
    assert (second.twice, second.b, json.loads(second.r)["b"]) == (4, None, "?")


@pytest.mark.parametrize("argument", [{"format": None}, {"pattern": 5}, {"path": None}])
def test_arguments_that_are_no_texts_are_told(spark, table, argument):
    with pytest.raises(InvalidArgumentError, match=f"{next(iter(argument))} must be a text"):
        tahoe.copy_into(spark, table, **{"path": "/data", "format": "json", **argument})
