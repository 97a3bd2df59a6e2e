"""Spark reads from a change feed what the small reader reads, with the filters and columns of every query."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.errors
import pytest
from pyspark.sql import DataFrame

import tahoe
from tahoe.errors import (
    ChangeBoundaryTwiceError,
    ChangesNotRecordedError,
    ChangeStartMissingError,
    ChangeStartTooLateError,
    DataFileMissingError,
    IncompatibleChangeDataError,
    InvalidChangeRangeError,
    InvalidOptionError,
    InvalidTimeTravelError,
    SessionNotEnabledError,
    TimestampOutOfRangeError,
    UnsupportedOperationError,
)
from tahoe.protocol.changes.column_changes import ColumnChange
from tahoe.protocol.log.deletion_vector import inline_descriptor
from tahoe.protocol.types.schema import DATE, INTEGER, LONG, STRING, TIMESTAMP_NTZ, Field, Struct
from tahoe.spark.reading import deletion_vectors, planning
from tahoe.storage import system_env
from tests.table.feeds import Fed, gone, metadata

ID, NAME, PART = Field(name="id", type=LONG), Field(name="name", type=STRING), Field(name="part", type=INTEGER)
NESTED = Field(name="s", type=Struct((Field(name="x", type=LONG), Field(name="y", type=STRING))))
SCHEMA = Struct((ID, NAME, PART, NESTED))
ROWS = 200


def people(*ids):
    return {"id": list(ids), "name": [f"n{i}" for i in ids], "s": [{"x": i, "y": f"y{i}"} for i in ids]}


def make(path: str, mode: str = "none") -> Fed:
    """Every kind of change, in partitions: inserts (1), a first vector (2), another and one taken back (3), change data
    files (4), files that go with a vector and without (5), rearranged data (6), more inserts (7)."""
    f = Fed(system_env(path), metadata(SCHEMA, by=["part"], mode=mode))
    one, two = (
        f.add("part=1/one", people(*range(ROWS)), part="1"),
        f.add("part=2/two", people(*range(ROWS, 2 * ROWS)), part="2"),
    )
    stats = '{"numRecords":%d,"minValues":{"%s":%d},"maxValues":{"%s":%d},"nullCount":{"%s":0}}'
    column = "id" if mode == "none" else "col-id"
    one = one.replace(stats=stats % (ROWS, column, 0, column, ROWS - 1, column))
    two = two.replace(stats=stats % (ROWS, column, ROWS, column, 2 * ROWS - 1, column))
    f.commit(one, two)
    first, second = (one.replace(deletion_vector=inline_descriptor(rows)) for rows in ([0, 70, 199], [70, 71]))
    f.commit(gone(one), first)
    f.commit(gone(first), second)
    images = {**people(5, 5), "_change_type": ["update_preimage", "update_postimage"]}
    f.commit(
        f.cdc("_change_data/part=1/c", images, part="1"),
        gone(two, data_change=True),
        f.add("part=2/x", people(1000), part="2"),
    )
    three = f.add("part=3/three", people(*range(500, 510)), part="3", vector=[1, 2])
    f.commit(gone(second), three)
    f.commit(
        gone(three, data_change=False), f.add("part=3/four", people(*range(8)), part="3").replace(data_change=False)
    )
    f.commit(f.add("part=__HIVE_DEFAULT_PARTITION__/none", people(9000), part=None))
    return f


@pytest.fixture(scope="module", params=["none", "name", "id"])
def feed(request, tmp_path_factory) -> Fed:
    return make(str(tmp_path_factory.mktemp("feed") / "t"), request.param)


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Fed:
    return make(str(tmp_path_factory.mktemp("feed") / "t"))


def load(spark, given: Fed | str, **options) -> DataFrame:
    path = given if isinstance(given, str) else given.table.url
    return spark.read.format("delta").options(readChangeFeed="true", **options).load(path)


def normal(found: DataFrame) -> list[str]:
    return normal_rows(found.collect())


def normal_rows(rows: Iterable[Sequence[object]]) -> list[str]:
    return sorted(repr(tuple(row)) for row in rows)


def same(frame: DataFrame, given: Fed, start: int = 0, **asked) -> None:
    expected = given.table.changes(start_version=start, **asked)
    assert frame.columns == expected.column_names
    found = [tuple(row.values()) for row in frame.toArrow().to_pylist()]
    assert normal_rows(found) == normal_rows(row.values() for row in expected.to_pylist())


# --- rows


def test_all_changes(spark, feed):
    same(load(spark, feed, startingVersion=0), feed)


@pytest.mark.parametrize("version", range(8))
def test_the_changes_of_each_version(spark, feed, version):
    same(load(spark, feed, startingVersion=version, endingVersion=version), feed, version, end_version=version)


def test_what_changed_in_numbers(spark, plain):
    """The small reader is no witness against itself."""
    counts = load(spark, plain, startingVersion=0).groupBy("_commit_version", "_change_type").count().collect()
    assert {(r[0], r[1]): r[2] for r in counts} == {
        (1, "insert"): 2 * ROWS,
        (2, "delete"): 3,
        (3, "delete"): 1,
        (3, "insert"): 2,
        (4, "update_preimage"): 1,
        (4, "update_postimage"): 1,
        (5, "delete"): ROWS - 2,
        (5, "insert"): 8,
        (7, "insert"): 1,
    }


@pytest.mark.parametrize("budget", ["array", "keys", "none"])
def test_vectors_of_every_size(spark, plain, monkeypatch, budget):
    """Bitmaps go to the executors as one array, by keys, or not at all; marked and unmarked rows must come out
    alike.
    """
    if budget != "array":
        monkeypatch.setattr(deletion_vectors, "ARRAY_BYTES_MAX", 0)
    if budget == "none":
        monkeypatch.setattr(deletion_vectors, "BROADCAST_BYTES_MAX", 0)
    deletion_vectors._recent_bitmaps._entries.clear()
    same(load(spark, plain, startingVersion=2, endingVersion=5), plain, 2, end_version=5)
    deletion_vectors._recent_bitmaps._entries.clear()


@pytest.mark.parametrize(
    "condition",
    [
        "_commit_version = 3",
        "_commit_version in (2, 7) and id > 60",
        "_change_type = 'delete'",
        "_change_type like 'update%' or id = 0",
        "_change_type != 'insert' and part = 1",
        "_commit_timestamp is null",
        "part is null",
        "part = 2 and name = 'n201'",
        "s.x = 70",
        "id between 195 and 205",
        "length(_change_type) > 6",
    ],
)
def test_filters(spark, feed, condition):
    everything = load(spark, feed, startingVersion=0)
    told = everything.selectExpr(
        "*", f"coalesce({condition}, false) as holds"
    ).collect()  # no filter that could reach a scan
    assert normal(everything.where(condition)) == normal_rows(row[:-1] for row in told if row.holds)


@pytest.mark.parametrize(
    "condition", ["_commit_version = 3", "_change_type = 'delete'", "id = 70 and _commit_version > 1", "part = 2"]
)
def test_filters_as_the_small_reader_has_them(spark, feed, condition):
    same(load(spark, feed, startingVersion=0).where(condition), feed, filter=condition)


@pytest.mark.parametrize(
    "columns", [["id"], ["_change_type"], ["_commit_version", "id"], ["s.y", "part"], ["_commit_timestamp", "name"]]
)
def test_columns(spark, feed, columns):
    frame = load(spark, feed, startingVersion=0)
    assert normal(frame.select(*columns)) == normal_rows(_picked(row, columns) for row in frame.collect())


def _picked(row, columns):
    found = []
    for column in columns:
        value = row
        for name in column.split("."):
            value = value[name]
        found.append(value)
    return found


def test_joins_subqueries_and_aggregates(spark, plain):
    load(spark, plain, startingVersion=1).createOrReplaceTempView("feed")
    query = """
        select f._change_type, count(*) as n, max(f.id) as m from feed f
        where f._commit_version = (select max(_commit_version) from feed where _change_type = 'delete')
          and exists (select 1 from feed g where g.id = f.id and g._commit_version = 1)
        group by f._change_type order by 1"""
    assert [tuple(row) for row in spark.sql(query).collect()] == [("delete", ROWS - 2, 199)]
    assert spark.sql("select count(*) from feed").first()[0] == 615


def test_a_newer_version_is_not_in_a_feed_that_was_made_before(spark, path):
    f = make(path)
    frame = load(spark, f, startingVersion=7)
    assert frame.count() == 1
    f.commit(f.add("part=1/late", people(1), part="1"))
    assert frame.count() == 1
    assert load(spark, f, startingVersion=7).count() == 2


# --- what is read


def executed(frame: DataFrame) -> str:
    frame.collect()
    return frame._jdf.queryExecution().executedPlan().toString()


def scans(frame: DataFrame) -> list[str]:
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    return re.findall(r"Relation \S+ changes from v\d+ to v\d+ (\[\d+ of \d+ files)", plan)


def test_a_feed_is_three_scans_and_only_those_with_files(spark, plain):
    frame = load(spark, plain, startingVersion=0)
    assert len(scans(frame)) == 4  # files with and without vectors
    assert scans(frame.where("_commit_version = 2")) == ["[1 of 3 files"]
    assert scans(frame.where("_commit_version = 4")) == ["[1 of 1 files"]
    assert scans(frame.where("_change_type = 'delete' and _commit_version < 5")) == ["[1 of 1 files", "[2 of 3 files"]


def test_statistics_leave_files_out(spark, plain):
    assert scans(load(spark, plain, startingVersion=1, endingVersion=1).where("id = 3")) == ["[1 of 2 files"]


def test_columns_reach_the_scan(spark, plain):
    schemas = set(
        re.findall(r"ReadSchema: struct<(.*?)>[,)\n]", executed(load(spark, plain, startingVersion=0).select("s.x")))
    )
    assert all("name" not in schema and "y" not in schema for schema in schemas)


def test_count_reads_no_column(spark, plain):
    schemas = set(
        re.findall(r"ReadSchema: struct<(.*?)>", executed(load(spark, plain, startingVersion=0).groupBy().count()))
    )
    assert schemas <= {"", "_tmp_metadata_row_index:bigint"}


def test_input_files_are_those_of_the_feed(spark, plain):
    files = load(spark, plain, startingVersion=2, endingVersion=4).inputFiles()
    assert {re.sub(r".*/", "", file) for file in files} == {"one", "c"}


def test_metadata_tells_the_file(spark, plain):
    frame = load(spark, plain, startingVersion=3, endingVersion=4).select("id", "_metadata.file_name")
    assert {tuple(row) for row in frame.collect()} == {(71, "one"), (0, "one"), (199, "one"), (5, "c")}


def test_a_file_that_was_cleaned_up_is_named(spark, path):
    f = make(path)
    f.env.store.delete("part=1/one")
    with pytest.raises(DataFileMissingError, match="part=1/one"):
        load(spark, f, startingVersion=2).collect()
    assert load(spark, f, startingVersion=7).count() == 1


# --- options


def test_options_in_any_case_and_by_their_old_name(spark, plain):
    reader = spark.read.format("delta").option("READCHANGEDATA", "True").option("STARTINGVERSION", 7)
    assert reader.load(plain.table.url).count() == 1
    assert spark.read.format("delta").option("readChangeFeed", "false").load(plain.table.url).columns == [
        "id",
        "name",
        "part",
        "s",
    ]


def test_times_are_in_the_sessions_zone(spark, plain):
    times = [row["timestamp"].astimezone(UTC) for row in reversed(plain.table.history())]
    text = times[7].strftime("%Y-%m-%d %H:%M:%S.%f")
    assert load(spark, plain, startingTimestamp=text).count() == 1
    assert load(spark, plain, startingVersion=7).first()["_commit_timestamp"].astimezone(UTC) == times[7]
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "+02:00")
    try:
        later = datetime.fromtimestamp(times[7].timestamp() + 7200, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        assert load(spark, plain, startingTimestamp=later, endingTimestamp=later).count() == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, ChangeStartMissingError),
        ({"startingVersion": 1, "startingTimestamp": "2026-01-01"}, ChangeBoundaryTwiceError),
        ({"startingVersion": 1, "endingVersion": 1, "endingTimestamp": "2026-01-01"}, ChangeBoundaryTwiceError),
        ({"startingVersion": 3, "endingVersion": 2}, InvalidChangeRangeError),
        ({"startingVersion": 8}, ChangeStartTooLateError),
        ({"startingVersion": "latest"}, InvalidOptionError),
        ({"startingVersion": 0, "endingVersion": "2.5"}, InvalidOptionError),
        ({"startingTimestamp": "yesterday week"}, InvalidTimeTravelError),
        ({"startingTimestamp": "2999-01-01"}, TimestampOutOfRangeError),
        ({"startingVersion": 0, "versionAsOf": 3}, UnsupportedOperationError),
        ({"startingVersion": 0, "readChangeData": "perhaps"}, InvalidOptionError),
    ],
)
def test_options_that_make_no_sense(spark, plain, options, error):
    with pytest.raises(error) as caught:
        load(spark, plain, **options)
    assert isinstance(caught.value, getattr(pyspark.errors, error.pyspark_class))


def test_what_is_out_of_range_may_be_an_empty_feed(spark, plain):
    name = "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"
    spark.conf.set(name, "true")
    try:
        empty = load(spark, plain, startingTimestamp="2999-01-01")
        assert (empty.count(), empty.columns[-3:]) == (0, ["_change_type", "_commit_version", "_commit_timestamp"])
        assert load(spark, plain, startingVersion=7, endingTimestamp="2999-01-01").count() == 1
    finally:
        spark.conf.unset(name)


def test_the_schema_of_a_mapped_table_goes_by_the_setting(spark, path):
    f = Fed(system_env(path), metadata(Struct((ID, NAME)), mode="name"))
    f.commit(f.add("f", {"id": [1], "name": ["n"]}))
    fields = [replace(field, name="first") if field.name == "name" else field for field in f.metadata.schema]
    f.commit(f.metadata.replace(schema_string=Struct(tuple(fields)).to_json()))
    assert load(spark, f, startingVersion=0, endingVersion=1).columns[:2] == ["id", "name"]
    name = "spark.databricks.delta.changeDataFeed.defaultSchemaModeForColumnMappingTable"
    try:
        spark.conf.set(name, "latest")
        with pytest.raises(IncompatibleChangeDataError):
            load(spark, f, startingVersion=0, endingVersion=1)
        spark.conf.set(name, "newest")
        with pytest.raises(InvalidOptionError, match="endVersion, latest, legacy"):
            load(spark, f, startingVersion=0)
    finally:
        spark.conf.unset(name)


def test_a_table_without_a_feed_is_told(spark, path):
    spark.range(3).write.format("delta").save(path)
    with pytest.raises(ChangesNotRecordedError, match="not enabled at version 0"):
        load(spark, path, startingVersion=0)


# --- names


@pytest.fixture
def named(spark, table_name) -> str:
    spark.sql(f"create table {table_name} (id long) using delta tblproperties ('delta.enableChangeDataFeed' = 'true')")
    spark.range(3).write.format("delta").mode("append").saveAsTable(table_name)
    return table_name


def test_a_name_is_read_as_a_feed_and_as_a_table_one_after_the_other(spark, named):
    """Spark keeps the relation of a name, whatever it was asked for with."""
    for _ in range(2):
        feed = spark.read.option("readChangeFeed", "true").option("startingVersion", 1).table(named)
        assert feed.columns == ["id", "_change_type", "_commit_version", "_commit_timestamp"]
        assert feed.count() == 3
        assert spark.table(named).columns == ["id"]
        assert spark.sql(f"select count(*) from {named}").first()[0] == 3
    with pytest.raises(ChangeStartTooLateError):
        spark.read.option("readChangeFeed", "true").option("startingVersion", 9).table(named)
    both = feed.join(spark.table(named), "id")
    assert (both.count(), len(both.columns)) == (3, 4)


def test_a_name_is_not_looked_up_twice_while_nothing_changes(spark, named, monkeypatch):
    asked = []
    original = planning.relation
    monkeypatch.setattr(planning, "relation", lambda *arguments: asked.append(1) or original(*arguments))
    for _ in range(3):
        assert spark.table(named).count() == 3
    assert len(asked) <= 1
    spark.range(3).write.format("delta").mode("append").saveAsTable(named)
    spark.sql(f"describe {named}").collect()
    assert spark.table(named).count() == 6


def test_a_path_in_sql_is_read_with_options(spark, plain):
    reader = spark.read.option("readChangeFeed", "true").option("startingVersion", 7)
    assert reader.table(f"delta.`{plain.table.url.removeprefix('file://')}`").count() == 1


# --- what else may happen to a feed


def test_a_feed_is_cached_apart_from_its_table(spark, named):
    location = tahoe.DeltaTable.forName(spark, named).detail().first()["location"]
    feed = load(spark, location, startingVersion=1).cache()
    assert feed.count() == 3
    assert spark.table(named).columns == ["id"]
    spark.range(5).write.format("delta").mode("append").saveAsTable(named)
    assert (feed.count(), spark.table(named).count()) == (3, 8)
    feed.unpersist()


def test_a_table_may_be_overwritten_with_what_its_feed_tells(spark, path):
    f = Fed(system_env(path), metadata(Struct((ID,))))
    f.commit(f.add("f", {"id": [1, 2, 3]}))
    load(spark, f, startingVersion=0).where("id > 1").select("id").write.format("delta").mode("append").save(path)
    assert sorted(r.id for r in spark.read.format("delta").load(path).collect()) == [1, 2, 2, 3, 3]


def test_rows_are_not_inserted_into_a_feed(spark, path):
    f = Fed(system_env(path), metadata(Struct((ID,))))
    f.commit(f.add("f", {"id": [1]}))
    spark.sql(
        f"create or replace temp view feed_view using delta options (path '{path}', readChangeFeed 'true', "
        f"startingVersion '0')"
    )
    assert spark.table("feed_view").count() == 1
    with pytest.raises(UnsupportedOperationError, match="change feed"):
        spark.sql("insert into feed_view select 1L, 'insert', 1L, current_timestamp()")


def test_without_the_rule_a_feed_is_refused(spark, plain):
    # all rows of the files would come, where Spark asks for files without having asked for a plan
    files = load(spark, plain, startingVersion=0)._jdf.queryExecution().analyzed().relation().location()
    nothing = spark._jvm.PythonUtils.toSeq([])
    with pytest.raises(SessionNotEnabledError):
        files.listFiles(nothing, nothing)


def test_a_feed_has_the_widest_type_of_its_rows(spark, path):
    """A change of a type, and the RESTORE that undoes it, would end the feed."""
    table = tahoe.Table(path)
    types = Struct((ID, Field(name="n", type=INTEGER), Field(name="d", type=DATE)))
    table.create(
        types, partition_by=["d"], properties={"delta.enableChangeDataFeed": "true", "delta.enableTypeWidening": "true"}
    )
    table.append(pa.table({"id": [1], "n": pa.array([1], pa.int32()), "d": [date(2024, 1, 31)]}))
    with table.transaction() as changes:
        changes.alter_columns([ColumnChange(path=("n",), type=LONG), ColumnChange(path=("d",), type=TIMESTAMP_NTZ)])
    table.append(pa.table({"id": [2], "n": [1 << 40], "d": [datetime(2024, 1, 31, 12)]}))
    table.restore(1)
    for start, end in ((0, 1), (0, 4), (1, 2), (3, 3), (4, 4)):
        found = load(spark, path, startingVersion=start, endingVersion=end)
        expected = table.changes(start_version=start, end_version=end)
        assert found.schema["n"].dataType.simpleString() == ("int" if end == 1 else "bigint")
        given = sorted(tuple(row)[:4] for row in found.collect())
        assert given == sorted(tuple(row.values())[:4] for row in expected.to_pylist()), (start, end)
        assert found.where("n > 5").count() == expected.filter(pc.field("n") > 5).num_rows, (start, end)
