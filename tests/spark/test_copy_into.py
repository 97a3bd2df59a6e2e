"""COPY INTO: each format, each file once, rows that do not fit, and what happens beside other commits."""

from __future__ import annotations

import json
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
    CopyFormatError,
    CopyOptionError,
    CopySourceGlobError,
    CopySourceMissingError,
    CopyUnsupportedError,
    DeltaError,
    InvalidOptionError,
    SchemaMismatchError,
    TableNotFoundError,
)


@pytest.fixture
def source(path):
    folder = Path(path + "-in")
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def table(spark, path):
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, name STRING) USING delta")
    return f"delta.`{path}`"


def put(folder, name, *lines):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(line + "\n" for line in lines))


def copy(spark, table, source, rest="FILEFORMAT = JSON"):
    return spark.sql(f"COPY INTO {table} FROM '{source}' {rest}").first()


def rows(spark, table):
    return sorted(tuple(row) for row in spark.table(table).collect())


JSON = '{{"id": {0}, "name": "{1}"}}'
HEADER = "FILEFORMAT = CSV FORMAT_OPTIONS ('header' = 'true')"


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
        ("a.csv", ["id,name", "1,x", "no number,y"], HEADER),
        ("a.csv", ["id,name", "1,x", "3000000000,y"], HEADER),
    ],
    ids=["a value", "a line", "a field", "too large"],
)
def test_a_value_that_does_not_fit_is_an_error_and_nothing_is_loaded(spark, table, source, path, name, lines, rest):
    put(source, name, *lines)
    with pytest.raises(Exception, match=r"(?i)malformed|cannot|parse"):
        copy(spark, table, source, rest)
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
