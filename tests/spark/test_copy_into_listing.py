"""COPY INTO: which files are listed, and that Spark reads those without listing them again."""

from __future__ import annotations

from pathlib import Path

import pytest

import tahoe
from tahoe.errors import CopyFileError, CopyUnsupportedError, InvalidOptionError
from tahoe.spark.ingest import copy_into as ingest
from tahoe.storage.local import LocalStore
from tests.spark.copying import JSON, copy, id_and_name, put, put_frame, rows

# Files that Spark's readers could take for something else than their names say.
NAMES = ("a b", "a%20b", "p+q", "ü漢", "{a,b}", "st*r?", "[1]", "#h", "c,d")

LISTING = "spark.sql.sources.parallelPartitionDiscovery.threshold"


@pytest.fixture
def source(path):
    folder = Path(path + "-in")
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def table(spark, path):
    return id_and_name(spark, path)


@pytest.fixture
def lists_by_jobs(spark):
    """Spark starts a job for each list of files that it lists."""
    spark.conf.set(LISTING, "0")
    yield
    spark.conf.unset(LISTING)


def listings(spark):
    """The jobs so far that have listed files; the oldest are let go."""
    core = spark.sparkContext._jsc.sc()
    core.listenerBus().waitUntilEmpty()
    jobs = core.statusStore().jobsList(spark.sparkContext._jvm.java.util.ArrayList())
    found = [jobs.apply(number) for number in range(jobs.size())]
    told = {int(job.jobId()): job.description().get() if job.description().isDefined() else "" for job in found}
    return {number for number, text in told.items() if text.startswith("Listing leaf files")}


@pytest.mark.every_spark
@pytest.mark.parametrize(
    ("file_format", "options"),
    [("JSON", ""), ("JSON", "'multiLine' = 'true'"), ("CSV", "'header' = 'true'"), ("PARQUET", ""), ("ORC", "")],
)
@pytest.mark.usefixtures("lists_by_jobs")
def test_spark_lists_no_file_again(spark, table, source, file_format, options):
    expected = []
    for name in NAMES:
        for folder in ("", "day=1/"):
            number = len(expected)
            if file_format == "JSON":
                put(source, folder + name, JSON.format(number, name))
            elif file_format == "CSV":
                put(source, folder + name, "id,name", f'{number},"{name}"')
            else:
                frame = spark.sql(f"SELECT {number} AS id, '{name}' AS name")
                put_frame(source, folder + name, file_format.lower(), frame)
            expected.append((number, name, 1 if folder else None))
    spark.sql(f"ALTER TABLE {table} ADD COLUMN day INT")
    before = listings(spark)
    format_options = f"FORMAT_OPTIONS ({options})" if options else ""
    copy(spark, table, source, f"FILEFORMAT = {file_format} {format_options}")
    assert listings(spark) <= before
    assert rows(spark, table) == expected


def test_the_metadata_of_files_are_those_of_the_listing(spark, path, source):
    spark.sql(f"CREATE TABLE delta.`{path}` (name STRING, size BIGINT, at TIMESTAMP, place STRING) USING delta")
    put(source, "a b%20.txt", "x")
    select = "(SELECT _metadata.file_name AS name, _metadata.file_size AS size, "
    select += f"_metadata.file_modification_time AS at, input_file_name() AS place FROM '{source}')"
    spark.sql(f"COPY INTO delta.`{path}` FROM {select} FILEFORMAT = TEXT")
    read = spark.read.text(str(source)).selectExpr(
        "_metadata.file_name", "_metadata.file_size", "_metadata.file_modification_time", "input_file_name()"
    )
    assert [tuple(row) for row in spark.table(f"delta.`{path}`").collect()] == [tuple(row) for row in read.collect()]


@pytest.mark.parametrize("file_format", ["JSON", "CSV", "PARQUET"])
def test_without_columns_of_the_table_the_files_columns_are_spark_s(spark, path, source, file_format):
    """Columns are found line by line, as Spark finds them in files that it lists itself."""
    named = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    spark.sql(f"CREATE TABLE delta.`{path}` (other INT) USING delta {named}")
    reader = spark.read.option("header", "true").option("inferSchema", "true")
    frame = spark.sql("SELECT 1 AS id, 2.5 AS x, 'a' AS `b c`, DATE '2026-01-02' AS d")
    for name in ("a", "b"):
        if file_format == "CSV":
            put(source, name, "id,x,b c,d", "1,2.5,a,2026-01-02")
        else:
            put_frame(source, name, file_format.lower(), frame)
    options = "FORMAT_OPTIONS ('header' = 'true', 'inferSchema' = 'true') COPY_OPTIONS ('mergeSchema' = 'true')"
    copy(spark, f"delta.`{path}`", source, f"FILEFORMAT = {file_format} {options}")
    found = spark.table(f"delta.`{path}`").drop("other").schema
    expected = reader.format(file_format.lower()).load(str(source)).schema
    assert {f.name: f.dataType for f in found} == {f.name: f.dataType for f in expected}


def test_what_spark_passes_over_is_not_counted_as_loaded(spark, table, source):
    """Since Spark 4.3 the session may say which names readers pass over."""
    put(source, "a.json", JSON.format(1, "x"))
    put(source, "b.json", JSON.format(2, "y"))
    spark.conf.set("spark.sql.files.ignoredPathSegmentRegex", "^b")
    try:
        assert copy(spark, table, source).num_loaded_files == 2
    finally:
        spark.conf.unset("spark.sql.files.ignoredPathSegmentRegex")
    assert rows(spark, table) == [(1, "x"), (2, "y")]
    with pytest.raises(InvalidOptionError, match="ignoredPathSegmentRegex"):
        copy(spark, table, source, "FILEFORMAT = JSON FORMAT_OPTIONS ('ignoredpathsegmentregex' = '^b')")


def test_a_pattern_lists_only_the_folder_that_it_names(spark, table, source, monkeypatch):
    for name in ("old/a.json", "new/1/b.json", "new/2/c.json", "n,w/d.json"):
        put(source, name, JSON.format(1, name))
    listed = []
    branches = LocalStore.branches

    def watched(store):
        listed.append(store.url)
        return branches(store)

    monkeypatch.setattr(LocalStore, "branches", watched)
    assert copy(spark, table, source, "FILEFORMAT = JSON PATTERN = '/new/1/*.json'").num_loaded_files == 1
    assert [url for url in listed if str(source) in url] == [f"file://{source}/new/1"]
    assert copy(spark, table, source, "FILEFORMAT = JSON PATTERN = 'ne?/*/*.json'").num_loaded_files == 1
    assert copy(spark, table, source, "FILEFORMAT = JSON PATTERN = 'n,w/*'").num_loaded_files == 1
    assert copy(spark, table, source, "FILEFORMAT = JSON PATTERN = 'none/*.json'").num_loaded_files == 0
    assert copy(spark, table, source, "FILEFORMAT = JSON PATTERN = './old/*.json'").num_loaded_files == 0
    names = {"new/1/b.json", "new/2/c.json", "n,w/d.json"}
    assert {name for _, name in rows(spark, table)} == names


def test_a_pattern_below_a_table_is_refused(spark, table, source):
    spark.sql("SELECT 3 AS id, 'z' AS name, 1 AS day").write.format("delta").partitionBy("day").save(f"{source}/inner")
    for pattern in ("inner/day=1/*.parquet", "inner/*/*.parquet"):
        with pytest.raises(CopyUnsupportedError, match="inner is a Delta table"):
            copy(spark, table, source, f"FILEFORMAT = PARQUET PATTERN = '{pattern}'")


@pytest.mark.parametrize("file_format", ["JSON", "PARQUET"])
def test_a_file_that_is_gone_when_it_is_read_is_named(spark, table, source, path, monkeypatch, file_format):
    for name in ("a", "b"):
        put_frame(source, name, file_format.lower(), spark.sql("SELECT 1 AS id, 'x' AS name"))
    listed = ingest.listed_source

    def without_one(*args, **kwargs):
        found = listed(*args, **kwargs)
        (source / "b").unlink()
        return found

    monkeypatch.setattr(ingest, "listed_source", without_one)
    with pytest.raises(CopyFileError, match=r"/b\b"):
        copy(spark, table, source, f"FILEFORMAT = {file_format}")
    assert tahoe.Table(path).version == 0


def test_a_file_that_grows_while_it_is_loaded_counts_as_changed(spark, table, source, monkeypatch):
    put(source, "a.json", JSON.format(1, "x"))
    listed = ingest.listed_source

    def growing(*args, **kwargs):
        found = listed(*args, **kwargs)
        put(source, "a.json", JSON.format(1, "x"), JSON.format(2, "y"))
        return found

    monkeypatch.setattr(ingest, "listed_source", growing)
    copy(spark, table, source)
    monkeypatch.undo()
    assert rows(spark, table)[0] == (1, "x")
    assert copy(spark, table, source).num_changed_files == 1


def test_rows_as_one_variant(spark, path, source):
    spark.sql(f"CREATE TABLE delta.`{path}` (v VARIANT) USING delta")
    put(source, "a.json", JSON.format(1, "x"))
    copy(spark, f"delta.`{path}`", source, "FILEFORMAT = JSON FORMAT_OPTIONS ('singleVariantColumn' = 'v')")
    query = f"SELECT variant_get(v, '$.id', 'int') AS id FROM delta.`{path}`"
    assert spark.sql(query).first().id == 1


@pytest.mark.parametrize("options", ["", "'badRecordsPath' = '/tmp/none'"])
def test_a_number_that_does_not_fit_is_an_error_also_where_casts_wrap_around(spark, path, source, options):
    spark.sql(f"CREATE TABLE delta.`{path}` (a TINYINT, b ARRAY<TINYINT>) USING delta")
    format_options = f"FORMAT_OPTIONS ({options})" if options else ""
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        for line in ('{"a": 200}', '{"b": [200]}'):
            put(source, "a.json", line)
            with pytest.raises(Exception, match=r"(?i)overflow"):
                copy(spark, f"delta.`{path}`", source, f"FILEFORMAT = JSON {format_options}")
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert tahoe.Table(path).version == 0
