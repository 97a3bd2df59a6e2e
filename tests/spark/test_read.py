"""Reading by path: versions, what a DataFrame sees, and what is refused."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession

import tahoe
from tahoe.errors import (
    DataFileMissingError,
    InvalidDataFileError,
    InvalidOptionError,
    InvalidTimeTravelError,
    NotADeltaTableError,
    SchemaChangedError,
    SchemaMismatchError,
    TableNotFoundError,
    TimestampOutOfRangeError,
    VersionNotFoundError,
)
from tahoe.protocol.types.schema import INTEGER, LONG, STRING, VOID, Field, Struct
from tahoe.spark.reading import planning, scan
from tahoe.storage.background import finish_background
from tests.spark.foreign import change_schema, mark

NAN = float("nan")


def load(spark, path, **options):
    return spark.read.format("delta").options(**options).load(path)


def append(path, *ids):
    """Another writer's commit of one file."""
    tahoe.Table(path).append(pa.table({"id": pa.array(ids, pa.int64())}))


def ids(frame) -> list[int]:
    return sorted(row.id for row in frame.collect())


@pytest.fixture(scope="module")
def versions(tmp_path_factory) -> str:
    """Versions 0, 1, 2 with one, two, three rows, committed at noon of three days."""
    path = str(tmp_path_factory.mktemp("versions") / "t")
    for version in range(3):
        append(path, version)
        moment = dt.datetime(2024, 1, 1 + version, 12, tzinfo=dt.UTC).timestamp()
        os.utime(Path(path, "_delta_log", f"{version:020d}.json"), (moment, moment))
    return path


# --- versions


@pytest.mark.parametrize(
    ("options", "suffix", "expected"),
    [
        ({"versionAsOf": 0}, "", [0]),
        ({"VERSIONASOF": "1"}, "", [0, 1]),
        ({"timestampAsOf": "2024-01-02"}, "", [0]),
        ({"timestampAsOf": "2024-01-02 12:00:00"}, "", [0, 1]),
        ({"timestampAsOf": "2024-01-02T13:00:00Z"}, "", [0, 1]),
        ({}, "@v1", [0, 1]),
        ({}, "@V0", [0]),
        ({}, "@20240102120000000", [0, 1]),
        ({}, "@20240102115959999", [0]),
        ({}, "", [0, 1, 2]),
    ],
)
def test_a_version_is_read_by_option_and_by_suffix(spark, versions, options, suffix, expected):
    assert ids(load(spark, versions + suffix, **options)) == expected


def test_a_timestamp_without_a_zone_is_in_the_sessions(spark, versions):
    # noon in Greenwich is four in the morning there: read as UTC it would be version 1
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        assert ids(load(spark, versions, timestampAsOf="2024-01-02 03:59:59")) == [0]
        assert ids(load(spark, versions, timestampAsOf="2024-01-02 04:00:00")) == [0, 1]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize(
    ("options", "suffix", "error"),
    [
        ({"versionAsOf": 3}, "", VersionNotFoundError),
        ({"versionAsOf": "one"}, "", InvalidTimeTravelError),
        ({"timestampAsOf": "2023-01-01"}, "", TimestampOutOfRangeError),
        ({"timestampAsOf": "2025-01-01"}, "", TimestampOutOfRangeError),
        ({"timestampAsOf": "yesterday evening"}, "", InvalidTimeTravelError),
        ({"versionAsOf": 0, "timestampAsOf": "2024-01-02"}, "", InvalidTimeTravelError),
        ({"versionAsOf": 0}, "@v1", InvalidTimeTravelError),
    ],
)
def test_a_version_that_cannot_be_read_is_refused(spark, versions, options, suffix, error):
    with pytest.raises(error) as caught:
        load(spark, versions + suffix, **options)
    assert isinstance(caught.value, AnalysisException)


# --- what a DataFrame sees


def test_a_dataframe_sees_the_newest_version_each_time_it_is_planned(spark, path):
    append(path, 1)
    frame = load(spark, path)
    assert frame.count() == 1
    append(path, 2)
    assert frame.count() == 2


def test_a_dataframe_of_a_version_does_not_change(spark, path):
    append(path, 1)
    frame = load(spark, path, versionAsOf=0)
    append(path, 2)
    assert frame.count() == 1


def test_one_query_sees_one_version_however_often_it_names_the_table(spark, path, monkeypatch):
    # another writer commits between the first look at the table and the next ones: all must still read the same
    append(path, 1)
    load(spark, path).createOrReplaceTempView("seen")
    looks = []

    def plan_and_be_overtaken(*arguments):
        planned = plan(*arguments)
        looks.append(planned.version())
        tahoe.Table(path).append(pa.table({"id": [100 + len(looks)]}))
        return planned

    plan = planning.plan_scan
    monkeypatch.setattr(planning, "plan_scan", plan_and_be_overtaken)
    query = (
        "select count(*) as n, (select count(*) from seen) as m from seen a full join seen b using (id) where id in "
        "(select id from seen)"
    )
    assert spark.sql(query).collect() == [Row(n=1, m=1)]
    assert len(looks) >= 3
    assert set(looks) == {0}
    monkeypatch.undo()
    spark.catalog.dropTempView("seen")
    assert load(spark, path).count() == 1 + len(looks)


def test_a_write_from_the_same_dataframe_reads_anew(spark, path, tmp_path):
    # Spark plans both writes under the tracker of the DataFrame: it must not pin the second to the version of the first
    append(path, 1)
    frame = load(spark, path)
    frame.write.format("delta").save(str(tmp_path / "first"))
    append(path, 2)
    frame.write.format("delta").save(str(tmp_path / "second"))
    assert ids(load(spark, str(tmp_path / "second"))) == [1, 2]


def test_a_column_that_another_writer_added_is_seen(spark, path):
    append(path, 1)
    frame = load(spark, path)
    spark.sql("select 2L as id, 'x' as name").write.format("delta").mode("append").option("mergeSchema", "true").save(
        path
    )
    assert load(spark, path).columns == ["id", "name"]
    assert ids(frame) == [1, 2], "what was analysed before keeps its columns"


@pytest.mark.parametrize(
    "changed",
    [
        Struct((Field(name="id", type=INTEGER), Field(name="s", type=STRING))),
        Struct((Field(name="s", type=STRING),)),
    ],
)
def test_a_dataframe_whose_column_changed_must_be_made_again(spark, path, changed):
    # to read the new files with the old schema would give wrong values, or none
    spark.sql("select 1L as id, 'x' as s").write.format("delta").save(path)
    frame = load(spark, path)
    change_schema(path, changed)
    with pytest.raises(SchemaChangedError, match=r"id is different or missing in version 1"):
        frame.collect()
    assert load(spark, path).columns == list(changed.names)


def test_a_table_that_was_made_anew_in_the_same_folder_is_another_one(spark, path):
    append(path, 1)
    cached = load(spark, path).cache()
    assert ids(cached) == [1]
    finish_background()
    shutil.rmtree(path)
    append(path, 7)
    assert ids(load(spark, path)) == [7]
    cached.unpersist()


# --- the cache


def test_a_cached_dataframe_is_used_while_version_and_table_are_equal(spark, path):
    append(path, 1)
    cached = load(spark, path).cache()
    assert cached.count() == 1
    assert "InMemoryTableScan" in _plan(load(spark, path).where("id > 0"))
    cached.unpersist()


def test_a_cached_dataframe_is_not_taken_for_a_newer_version(spark, path):
    # equality must know the version, or rows that another writer committed stay unseen
    append(path, 1)
    cached = load(spark, path).cache()
    assert cached.count() == 1
    append(path, 2)
    assert load(spark, path).count() == 2
    cached.unpersist()


def test_a_write_of_this_session_renews_what_is_cached(spark, path):
    # as on plain Parquet
    append(path, 1)
    cached = load(spark, path).cache()
    assert cached.count() == 1
    spark.range(2, 3).write.format("delta").mode("append").save(path)
    assert cached.count() == 2
    assert "InMemoryTableScan" in _plan(load(spark, path))
    cached.unpersist()


def test_a_cached_name_follows_both_writers(spark, path, table_name):
    append(path, 1)
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{path}'")
    spark.sql(f"CACHE TABLE {table_name}")
    assert "InMemoryRelation" in _plan(spark.table(table_name))
    spark.sql(f"INSERT INTO {table_name} VALUES (2)")
    assert ids(spark.table(table_name)) == [1, 2]
    assert "InMemoryRelation" in _plan(spark.table(table_name)), "our own commit renews what is cached"
    append(path, 3)
    assert ids(spark.table(table_name)) == [1, 2, 3], "another writer's is seen"
    spark.sql(f"REFRESH TABLE {table_name}")
    assert ids(spark.table(table_name)) == [1, 2, 3]
    spark.sql(f"UNCACHE TABLE {table_name}")


def test_exchanges_are_reused(spark, path):
    append(path, *range(10))
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        counts = load(spark, path).groupBy("id").count()
        assert "ReusedExchange" in _plan(counts.union(load(spark, path).groupBy("id").count()))
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
        spark.conf.unset("spark.sql.adaptive.enabled")


def _plan(frame) -> str:
    return frame._jdf.queryExecution().executedPlan().toString()


# --- what cannot be read


def test_a_path_that_is_no_table_is_refused(spark, tmp_path):
    with pytest.raises(TableNotFoundError) as caught:
        load(spark, str(tmp_path / "nothing"))
    assert isinstance(caught.value, AnalysisException)
    assert caught.value.getCondition() == "DELTA_TABLE_NOT_FOUND"
    assert caught.value.getSqlState() == "42P01"
    assert caught.value.getMessageParameters() == {"table": f"file://{tmp_path}/nothing"}


def test_a_folder_of_parquet_is_no_table(spark, path):
    spark.range(3).write.parquet(path)
    with pytest.raises(NotADeltaTableError):
        load(spark, path)


def test_a_path_is_needed_and_only_one(spark, path):
    with pytest.raises(InvalidOptionError):
        spark.read.format("delta").load()
    with pytest.raises(InvalidOptionError):
        spark.read.format("delta").load([path, path])


def test_a_schema_of_the_readers_own_is_refused(spark, path):
    append(path, 1)
    with pytest.raises(Exception, match="user-specified schema"):
        spark.read.format("delta").schema("id int").load(path)


def test_a_missing_data_file_is_named(spark, path):
    append(path, 1)
    (file,) = Path(path).glob("*.parquet")
    frame = load(spark, path)
    file.unlink()
    with pytest.raises(DataFileMissingError) as caught:
        frame.collect()
    assert file.name in caught.value.parameters["file"]


def test_a_damaged_data_file_is_named(spark, path):
    append(path, 1)
    (file,) = Path(path).glob("*.parquet")
    file.write_bytes(b"this is no Parquet")
    for checksum in Path(path).glob(".*.crc"):
        checksum.unlink()
    with pytest.raises(InvalidDataFileError) as caught:
        load(spark, path).collect()
    assert file.name in caught.value.parameters["file"]


# --- partitions and skipping


@pytest.fixture(scope="module")
def parted(spark, tmp_path_factory) -> tuple[str, str]:
    """A table partitioned by columns of many types, nulls among them, and the same rows as a view."""
    path = str(tmp_path_factory.mktemp("parted") / "t")
    rows = """
        select id, if(id = 0, null, concat('P', id)) as s, cast(id as tinyint) as b, cast(id as decimal(10, 2)) / 4 as d,
               date_add(date'2020-01-01', cast(id as int)) as day, timestamp'2020-01-01 12:00:00' + make_interval(0, 0, 0, 0, id) as ts,
               id % 2 = 0 as f, cast(id as double) / 3 as dbl
        from range(6)"""
    spark.sql(rows).write.format("delta").partitionBy("s", "b", "d", "day", "ts", "f", "dbl").save(path)
    spark.sql(rows).createOrReplaceTempView("unparted")
    yield path, "unparted"
    spark.catalog.dropTempView("unparted")


@pytest.mark.parametrize(
    "condition",
    [
        "s = 'P2'",
        "s is null",
        "lower(s) = 'p3'",
        "length(s) = 2 and id > 2",
        "b % 2 = 1",
        "b in (1, 3, 5)",
        "b = 2 or id = 4",
        "d >= 0.75",
        "day = date'2020-01-03' or year(day) = 2019",
        "ts > timestamp'2020-01-01 14:30:00'",
        "hour(ts) = 13",
        "f",
        "not f and s is not null",
        "dbl > 1 and dbl < 1.5",
        "s = concat('P', b)",
        "coalesce(s, 'none') = 'none'",
    ],
)
def test_partition_filters_hold_exactly(spark, parted, condition):
    # Spark asks for the files of a partition filter and then drops it: what it cannot be translated to must hold as
    # well
    path, view = parted
    found = load(spark, path).where(condition)
    assert sorted(map(repr, found.collect())) == sorted(map(repr, spark.table(view).where(condition).collect()))


def files_read(frame) -> int:
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    leaves = (plan.executedPlan() if "Adaptive" in plan.nodeName() else plan).collectLeaves()
    return leaves.apply(0).metrics().apply("numFiles").value()


def test_files_are_skipped_by_partition_and_by_statistics(spark, parted, path):
    assert files_read(load(spark, parted[0]).where("b = 2")) == 1
    assert files_read(load(spark, parted[0]).where("id = 2")) == 1
    for low in (0, 10, 20):
        append(path, *range(low, low + 10))
    assert files_read(load(spark, path)) == 3
    assert files_read(load(spark, path).where("id = 15")) == 1
    assert files_read(load(spark, path).where("id in (1, 25) or id < 0")) == 2
    assert files_read(load(spark, path).where("id % 7 = 1")) == 3


def test_statistics_of_the_files_kept_decide_the_join(spark, parted):
    # the size that Spark counts with is that of the files which are read
    path, _ = parted
    sizes = [
        load(spark, path).where(condition)._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
        for condition in ("b >= 0", "b = 2")
    ]
    assert sizes[1] < sizes[0] / 3


def test_dynamic_partition_pruning(spark, parted):
    path, view = parted
    load(spark, path).createOrReplaceTempView("facts")
    frame = spark.sql(f"select count(*) from facts join {view} u on facts.b = u.b where u.id = 3")
    assert frame.collect() == [(1,)]
    assert "dynamicpruning" in frame._jdf.queryExecution().executedPlan().toString()
    spark.catalog.dropTempView("facts")


def test_many_files_go_to_the_jvm_in_a_file(spark, path, monkeypatch):
    monkeypatch.setattr(scan, "MESSAGE_BYTES_MAX", 0)
    append(path, 1, 2)
    before = set(Path(tempfile.gettempdir()).glob("tahoe-files-*"))
    assert ids(load(spark, path)) == [1, 2]
    assert set(Path(tempfile.gettempdir()).glob("tahoe-files-*")) == before


def test_an_error_while_files_are_listed_reaches_the_user(spark, path, monkeypatch):
    # Spark lists the files of a broadcast side in a thread of its own
    append(path, 1, 2)

    def fail(*_):
        raise TableNotFoundError(table="gone")

    frame = spark.range(5).join(load(spark, path), "id")
    monkeypatch.setattr(scan, "files_message", fail)
    with pytest.raises(TableNotFoundError):
        frame.collect()


def test_strange_column_names(spark, path):
    rows = spark.sql("select 1 as `a.b`, 2 as `c``d`, named_struct('e.f', 3) as g, 4 as `Ünï 1`")
    rows.write.format("delta").option("delta.columnMapping.mode", "name").save(path)
    found = load(spark, path).where("`a.b` = 1 and g.`e.f` = 3 and `c``d` = 2 and `Ünï 1` > 0")
    assert found.collect() == rows.collect()
    mark(path, {0: []})
    assert load(spark, path).where("`a.b` = 1 and g.`e.f` = 3").select("`c``d`", "g.`e.f`", "`Ünï 1`").collect() == [
        (2, 3, 4)
    ]


# --- where Spark looks


def test_other_spellings_of_a_path_are_the_same_table(spark, path):
    append(path, 1)
    for spelling in (path + "/", "file:" + path, "file://" + path, str(Path(path).parent) + "/./" + Path(path).name):
        assert ids(load(spark, spelling)) == [1]


def test_input_files_are_listed(spark, path):
    append(path, 1)
    append(path, 2)
    assert sorted(load(spark, path).inputFiles()) == sorted("file://" + str(f) for f in Path(path).glob("*.parquet"))


def test_metadata_columns_are_those_of_parquet(spark: SparkSession, path):
    append(path, 5, 6)
    (file,) = Path(path).glob("*.parquet")
    selected = [
        "_metadata.file_name",
        "_metadata.file_size",
        "_metadata.row_index",
        "_metadata.file_path",
        "input_file_name() as name",
    ]
    found = load(spark, path).selectExpr("id", *selected)
    expected = spark.read.parquet(str(file)).selectExpr("id", *selected)
    assert sorted(found.collect()) == sorted(expected.collect())


def test_a_column_that_the_files_do_not_have_is_null(spark, path):
    append(path, 1)
    table = tahoe.Table(path).snapshot()
    change_schema(path, Struct((*table.schema.fields, Field(name="later", type=LONG))))
    assert load(spark, path).collect() == [Row(id=1, later=None)]


def test_a_void_column_is_null_at_every_depth(spark, path):
    spark.sql("select 1L as id, named_struct('a', 1) as s").write.format("delta").save(path)
    schema = tahoe.Table(path).schema
    struct = schema.find("s")
    deeper = Struct((*struct.type.fields, Field(name="nothing", type=VOID)))
    change_schema(path, Struct((schema.find("id"), replace(struct, type=deeper), Field(name="v", type=VOID))))
    frame = load(spark, path)
    assert frame.schema["v"].dataType.simpleString() == "void"
    assert frame.collect() == [Row(id=1, s=Row(a=1, nothing=None), v=None)]
    assert frame.where("v is null and s.nothing is null").select("s.a").collect() == [Row(a=1)]

    spark.sql(f"UPDATE delta.`{path}` SET id = 2")
    spark.sql(f"UPDATE delta.`{path}` SET s.a = 3")
    spark.sql(
        f"MERGE INTO delta.`{path}` t USING (SELECT 2L AS id) u ON t.id = u.id WHEN MATCHED THEN UPDATE SET id = 4"
    )
    assert load(spark, path).collect() == [Row(id=4, s=Row(a=3, nothing=None), v=None)]
    with pytest.raises(SchemaMismatchError, match=r"s\.nothing has type void, whose values are not stored"):
        spark.sql(f"UPDATE delta.`{path}` SET s = named_struct('a', 5, 'nothing', 6)")

    spark.sql(f"INSERT OVERWRITE delta.`{path}` (id, s) SELECT id, named_struct('a', int(id)) FROM range(0, 2, 1, 1)")
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    rows = spark.sql("SELECT 1L AS id, named_struct('a', 7) AS s")
    rows.write.format("delta").mode("overwrite").option("replaceWhere", "id = 1").save(path)
    version = tahoe.Table(path).version
    feed = (
        load(spark, path, readChangeFeed="true", startingVersion=str(version))
        .orderBy("_change_type")
        .select("s.*", "_change_type")
    )
    assert feed.collect() == [
        Row(a=1, nothing=None, _change_type="delete"),
        Row(a=7, nothing=None, _change_type="insert"),
    ]


@pytest.mark.every_spark
def test_zero_finds_minus_zero_and_the_other_way_round(spark, path):
    """Parquet's dictionaries and its filters of rows tell the zeros apart, which are equal to SQL: rows were
    missing.
    """
    numbers = ([-0.0, 5.0, -7.0], [0.0, 5.0, -7.0])
    for number, values in enumerate(numbers):
        column = pa.array(values)
        rows = {"id": [number] * 3, "f": column.cast(pa.float32()), "st": pa.StructArray.from_arrays([column], ["d"])}
        tahoe.Table(path).append(pa.table(rows))
    conditions = [f"{c} {o} {z}" for c in ("f", "st.d") for o in ("=", "<=>", ">=", "<=") for z in ("0.0D", "-0.0D")]
    conditions += [
        "f IN (0.0D, 99D)",
        "st.d IN (-0.0D, 99D)",
        "f = 0D AND id >= 0",
        "f = -0.0D OR st.d = 99D",
        "NOT st.d <> 0D",
    ]
    expected = {c: [0, 0, 1, 1] if c.split()[1] in (">=", "<=") else [0, 1] for c in conditions}
    for vectorised in ("true", "false"):
        spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorised)
        try:
            assert {c: ids(load(spark, path).where(c)) for c in conditions} == expected
            assert ids(load(spark, path).where("NOT st.d = 0D")) == [0, 0, 1, 1]
            assert ids(load(spark, path).where(f"st.d IN (0D, {', '.join(f'{n}D' for n in range(100, 1200))})")) == [
                0,
                1,
            ]
        finally:
            spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


@pytest.mark.every_spark
def test_nan_is_found_in_files_whose_footers_do_not_tell_of_it(spark, path):
    """Arrow leaves NaN out of a row group's bounds, so Parquet's reader skipped rows that are above every number."""
    for number, values in enumerate(([1.0, NAN, 2.0], [5.0, NAN, 5.0], [NAN, NAN, NAN])):
        column = pa.array(values)
        rows = {"id": [number] * 3, "f": column.cast(pa.float32()), "st": pa.StructArray.from_arrays([column], ["d"])}
        write_deltalake(path, pa.table(rows), mode="append")
    nan, every = "double('NaN')", [0, 1, 2, 2, 2]
    for c in ("f", "st.d"):
        expected = {
            f"{c} > 10D": every,
            f"{c} >= 10D": every,
            f"NOT {c} <= 10D": every,
            f"{c} = {nan}": every,
            f"{c} <=> {nan}": every,
            f"{c} >= {nan}": every,
            f"{c} IN ({nan}, 99D)": every,
            f"{c} IN ({nan}, {', '.join(f'{n}D' for n in range(100, 1200))})": every,
            f"{c} > 10D OR id = 7": every,
            f"{c} <> 5D": [0, 0, 0, 1, 2, 2, 2],
            f"{c} NOT IN (5D, 1D)": [0, 0, 1, 2, 2, 2],
            f"{c} > 1D AND {c} < 3D": [0],
            f"{c} BETWEEN 2D AND 5D": [0, 1, 1],
            f"{c} > 1D AND {c} <= {nan}": [0, 0, 1, 1, 1, 2, 2, 2],
            f"{c} < {nan}": [0, 0, 1, 1],
        }
        for vectorised in ("true", "false"):
            spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorised)
            try:
                assert {condition: ids(load(spark, path).where(condition)) for condition in expected} == expected
            finally:
                spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
