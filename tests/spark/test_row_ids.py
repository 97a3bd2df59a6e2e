"""`_metadata.row_id` and its like: what the log and the data files say, in any query, and nothing of it where nobody
asks.
"""

from __future__ import annotations

import json
import re
import shutil

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import tahoe
from tahoe.errors import ColumnNotFoundError, SchemaChangedError
from tahoe.spark.reading import deletion_vectors
from tahoe.storage.background import finish_background
from tests.spark.foreign import KEPT_ID, KEPT_VERSION, change_schema, mark, track

pytestmark = pytest.mark.every_spark

ROWS = 20
FIELDS = ["row_id", "base_row_id", "default_row_commit_version", "row_commit_version"]
ASKED = ["id", *(f"_metadata.{name}" for name in FIELDS)]

# Of the first file some rows have brought an id with them, some a version, some both.
KEPT = [(None if i % 2 else 5 + i, None if i % 3 else 3) for i in range(ROWS // 2)]


def save(spark: SparkSession, path: str, *, by: str = "", **options: str) -> None:
    """Two files, with the rows 0 to 9 and 10 to 19."""
    for low in (0, ROWS // 2):
        columns = ("id", f"id div {ROWS // 2} as part", "named_struct('x', id, 'y', 'y') as s")
        rows = spark.range(low, low + ROWS // 2, 1, 1).selectExpr(*columns)
        writer = rows.write.format("delta").mode("append").options(**options)
        (writer.partitionBy(by) if by else writer).save(path)


def first_ids(path: str) -> list[int]:
    """The lowest id of each file, in the order of their paths."""
    files = sorted(tahoe.Table(path).files(columns=["path", "stats"]).to_pylist(), key=lambda file: file["path"])
    return [max(v for v in json.loads(file["stats"])["minValues"].values() if isinstance(v, int)) for file in files]


def expected(
    lowest: list[int], kept: dict[int, list[tuple[int | None, int | None]]] | None = None
) -> dict[int, tuple[int, int, int, int]]:
    """By id what `_metadata` says of each row of a table that `track` has changed."""
    found = {}
    for position, low in enumerate(lowest):
        base, version = 1000 * (position + 1), 10 + position
        for index in range(ROWS // 2):
            own, own_version = (kept or {}).get(position, [(None, None)] * ROWS)[index]
            found[low + index] = (own if own is not None else base + index, base, version, own_version or version)
    return found


def by_id(frame: DataFrame) -> dict[int, tuple[int, ...]]:
    return {row[0]: tuple(row[1:]) for row in frame.collect()}


def without_spark(path: str, version: int | None = None) -> dict[int, tuple[int, ...]]:
    found = tahoe.Table(path).snapshot(version).to_arrow(columns=ASKED)
    assert found.column_names == ASKED
    return {row["id"]: tuple(row[name] for name in ASKED[1:]) for row in found.to_pylist()}


KINDS = {
    "plain": {},
    "partitioned": {"by": "part"},
    "mapped by name": {"delta.columnMapping.mode": "name"},
    "mapped by id": {"delta.columnMapping.mode": "id", "by": "part"},
}


@pytest.fixture(scope="module", params=KINDS)
def table(request, spark, tmp_path_factory) -> tuple[str, dict[int, tuple[int, ...]]]:
    """A table of two files, of which one has kept values. With it what `_metadata` must say by id."""
    path = str(tmp_path_factory.mktemp("rows") / "t")
    save(spark, path, **KINDS[request.param])
    track(path, {0: KEPT})
    return path, expected(first_ids(path), {0: KEPT})


def test_values_are_those_of_log_and_files(spark, table):
    path, rows = table
    assert by_id(spark.read.format("delta").load(path).selectExpr(*ASKED)) == rows
    assert without_spark(path) == rows
    assert by_id(spark.sql(f"select id, _metadata.row_id, _METADATA.Row_Commit_Version from delta.`{path}`")) == {
        i: (row[0], row[3]) for i, row in rows.items()
    }


def test_each_field_alone(spark, table):
    path, rows = table
    for position, name in enumerate(FIELDS):
        found = spark.read.format("delta").load(path).select(f"_metadata.{name}")
        assert found.schema.simpleString() == f"struct<{name}:bigint>"
        assert sorted(row[0] for row in found.collect()) == sorted(row[position] for row in rows.values())


def test_all_columns_and_beside_fields_of_sparks(spark, table):
    path, rows = table
    parts = "_metadata.row_id as r, _metadata.row_index as i, _metadata.file_name as f, _metadata as m"
    frame = spark.sql(f"select *, {parts} from delta.`{path}`")
    assert frame.columns == ["id", "part", "s", "r", "i", "f", "m"]
    names = {f["url"].rpartition("/")[2] for f in tahoe.Table(path).files().to_pylist()}
    for row in frame.collect():
        assert (row.r, row.m.base_row_id, row.m.default_row_commit_version, row.m.row_commit_version) == rows[row.id]
        assert row.m.row_id == row.r
        assert (row.i, row.m.row_index) == (row.id % 10, row.id % 10)
        assert row.f == row.m.file_name in names
        assert row.s.x == row.id


@pytest.mark.parametrize(
    "condition",
    [
        "_metadata.row_id = 7",
        "_metadata.row_id in (7, 1003, 2004)",
        "_metadata.row_id > 1004 and id < 15",
        "_metadata.base_row_id = 2000",
        "_metadata.base_row_id = 2000 and part = 1 and s.x > 12",
        "_metadata.row_commit_version = 3 and _metadata.row_id is not null",
        "_metadata.default_row_commit_version > 10 or id = 2",
        "_metadata.row_id is null",
    ],
)
def test_filters(spark, table, condition):
    path, rows = table
    metadata = ", ".join(f"{name}: long" for name in FIELDS)
    schema = f"id long, part long, s struct<x: long>, _metadata struct<{metadata}>"
    plain = spark.createDataFrame([(i, i // 10, (i,), row) for i, row in rows.items()], schema)
    wanted = sorted(row.id for row in plain.where(condition).collect())
    frame = spark.read.format("delta").load(path)
    assert sorted(row.id for row in frame.where(condition).collect()) == wanted
    assert frame.where(condition).count() == len(wanted)
    assert by_id(frame.where(condition).selectExpr(*ASKED)) == {i: rows[i] for i in wanted}


def test_joins_and_aggregates(spark, table):
    path, rows = table
    ids = {row[0]: i for i, row in rows.items()}
    t = f"delta.`{path}`"
    right = f"(select id, _metadata.row_id as r from {t} where id > 3)"
    found = spark.sql(f"select a.id, b.id from {t} a join {right} b on a._metadata.row_id = b.r")
    assert sorted(map(tuple, found.collect())) == [(i, i) for i in range(4, ROWS)]
    assert spark.sql(f"select max(_metadata.row_id), count(distinct _metadata.row_id) from {t}").collect() == [
        (max(ids), ROWS)
    ]
    grouped = spark.sql(f"select _metadata.base_row_id, count(*) from {t} group by 1 order by 1")
    assert [tuple(row) for row in grouped.collect()] == [(1000, 10), (2000, 10)]
    one = spark.sql(
        f"select id from {t} where _metadata.row_id = (select min(_metadata.row_id) from {t} where id >= {ROWS // 2})"
    )
    assert [row.id for row in one.collect()] == [min(((row[0], i) for i, row in rows.items() if i >= ROWS // 2))[1]]
    both = spark.sql(f"select _metadata.row_id from {t} union all select id from {t}")
    assert sorted(row[0] for row in both.collect()) == sorted([*ids, *range(ROWS)])


def test_rows_that_vectors_mark_keep_the_others_ids(spark, table, path):
    """A row's place is the one in its file, with the rows that are gone."""
    original, rows = table
    finish_background()  # nothing comes to the log while it is copied
    shutil.copytree(original, path)
    version = tahoe.Table(path).version
    mark(path, {0: [0, 4], 1: [9]})
    lowest = first_ids(path)
    gone = {lowest[0], lowest[0] + 4, lowest[1] + 9}
    frame = spark.read.format("delta").load(path)
    assert by_id(frame.selectExpr(*ASKED)) == {i: row for i, row in rows.items() if i not in gone}
    assert without_spark(path) == by_id(frame.selectExpr(*ASKED))
    with_index = by_id(frame.selectExpr("id", "_metadata.row_id", "_metadata.row_index"))
    assert with_index == {i: (row[0], i % 10) for i, row in rows.items() if i not in gone}
    assert frame.where("_metadata.row_id = 5").count() == 0
    past = spark.read.format("delta").option("versionAsOf", version).load(path)
    assert by_id(past.selectExpr(*ASKED)) == rows


def test_one_of_two_files_has_a_vector(spark, path):
    save(spark, path)
    track(path, {1: KEPT})
    mark(path, {1: [3]})
    lowest = first_ids(path)
    rows = expected(lowest, {1: KEPT})
    del rows[lowest[1] + 3]
    assert by_id(spark.read.format("delta").load(path).selectExpr(*ASKED)) == rows


@pytest.mark.parametrize(
    "limits",
    [{"ARRAY_BYTES_MAX": 0}, {"BROADCAST_BYTES_MAX": deletion_vectors.CHUNK_BYTES}],
    ids=["joined bitmaps", "a function of executors"],
)
def test_larger_vectors(spark, table, path, monkeypatch, limits):
    original, rows = table
    finish_background()  # nothing comes to the log while it is copied
    shutil.copytree(original, path)
    mark(path, {0: [0, 4], 1: [9]})
    gone = {low + index for low, index in zip([*first_ids(path)[:1] * 2, first_ids(path)[1]], (0, 4, 9), strict=True)}
    for name, value in limits.items():
        monkeypatch.setattr(deletion_vectors, name, value)
    monkeypatch.setattr(deletion_vectors, "_recent_bitmaps", deletion_vectors.Recent(1))
    frame = spark.read.format("delta").load(path)
    assert by_id(frame.selectExpr(*ASKED)) == {i: row for i, row in rows.items() if i not in gone}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.files.maxPartitionBytes", "200"),
        ("spark.sql.parquet.enableVectorizedReader", "false"),
        ("spark.sql.codegen.wholeStage", "false"),
        ("spark.sql.ansi.enabled", "false"),
    ],
)
def test_places_in_files_that_are_read_in_parts(spark, table, name, value):
    """A row's place is counted from where a task or a row group begins."""
    path, rows = table
    spark.conf.set(name, value)
    try:
        frame = spark.read.format("delta").load(path)
        assert by_id(frame.selectExpr(*ASKED)) == rows
        assert by_id(frame.where("id in (4, 8, 17)").selectExpr(*ASKED)) == {i: rows[i] for i in (4, 8, 17)}
    finally:
        spark.conf.unset(name)


def test_files_without_a_base_row_id(spark, path):
    save(spark, path)
    track(path, {1: KEPT}, without=(0, 1))
    lowest = first_ids(path)
    found = by_id(spark.read.format("delta").load(path).selectExpr(*ASKED))
    assert all(found[lowest[0] + i] == (None,) * 4 for i in range(10))
    assert without_spark(path) == found
    assert [found[lowest[1] + i] for i in range(10)] == [(own, None, None, version) for own, version in KEPT]
    assert spark.read.format("delta").load(path).where("_metadata.row_id is null").count() == 15


# --- whoever does not ask


def plan(frame: DataFrame) -> str:
    return re.sub(r"#\d+|plan_id=\d+", "", frame._jdf.queryExecution().executedPlan().toString())


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.sparks_reader
@pytest.mark.parametrize(
    "query",
    [
        "select * from {t}",
        "select s.x from {t} where part = 1 and id > 3",
        "select count(*) from {t}",
        "select _metadata.file_name from {t}",
    ],
)
def test_who_does_not_ask_reads_as_before(spark, path, query, marked):
    save(spark, path)
    if marked:
        mark(path, {0: [1], 1: [2, 3]})
    before = plan(spark.sql(query.format(t=f"delta.`{path}`")))
    version = tahoe.Table(path).version
    track(path)
    after = plan(spark.sql(query.format(t=f"delta.`{path}`")))
    assert after == before.replace(f" v{version} ", f" v{version + 1} ")
    assert "FileScan parquet" in after


@pytest.mark.sparks_reader
def test_only_what_is_asked_for_is_read(spark, table):
    path, _ = table
    frame = spark.read.format("delta").load(path)

    def read(*columns: str) -> str:
        return re.search(r"ReadSchema: struct<(.*?)>\n?", plan(frame.selectExpr(*columns)))[1]

    assert read("_metadata.base_row_id") == ""
    assert read("_metadata.row_commit_version") == f"{KEPT_VERSION}:bigint"
    assert read("_metadata.row_id") == f"{KEPT_ID}:bigint,_tmp_metadata_row_index:bigint"
    assert "tahoe" not in plan(frame.selectExpr("_metadata.row_index"))


def test_a_filter_on_a_files_constant_reads_that_file(spark, path):
    save(spark, path)
    track(path)
    frame = spark.read.format("delta").load(path).where("_metadata.base_row_id = 2000")
    frame.collect()
    scan = frame._jdf.queryExecution().executedPlan()
    assert "PartitionFilters: [isnotnull(__tahoe_base_row_id" in scan.toString()
    assert {row.f for row in frame.selectExpr("_metadata.file_name as f").collect()} == {
        max(tahoe.Table(path).files()["path"].to_pylist())
    }


def test_fields_in_use_are_not_narrowed(spark, table):
    """Where Spark is told to read whole structs, the plan has every part of `_metadata`."""
    path, rows = table
    spark.conf.set("spark.sql.optimizer.nestedSchemaPruning.enabled", "false")
    try:
        frame = spark.read.format("delta").load(path)
        assert by_id(frame.selectExpr(*ASKED)) == rows
        assert by_id(frame.selectExpr("id", "_metadata.row_index")) == {i: (i % 10,) for i in rows}
    finally:
        spark.conf.unset("spark.sql.optimizer.nestedSchemaPruning.enabled")


# --- tables


def test_a_table_without_row_tracking_has_no_such_field(spark, path):
    save(spark, path)
    frame = spark.read.format("delta").load(path)
    frame.write.parquet(path + " plain")
    for name in FIELDS:
        with pytest.raises(AnalysisException) as ours:
            frame.select(f"_metadata.{name}")
        with pytest.raises(AnalysisException) as sparks:
            spark.read.parquet(path + " plain").select(f"_metadata.{name}")
        assert ours.value.getCondition() == sparks.value.getCondition() == "FIELD_NOT_FOUND"
        assert ours.value.getMessageParameters() == sparks.value.getMessageParameters()
        with pytest.raises(ColumnNotFoundError):
            tahoe.Table(path).to_arrow(columns=[f"_metadata.{name}"])


def test_the_property_alone_switches_nothing_on(spark, path):
    save(spark, path)
    configuration = {"delta.enableRowTracking": "true"}
    snapshot = tahoe.Table(path).snapshot()
    change_schema(path, snapshot.schema, configuration=configuration)
    with pytest.raises(AnalysisException, match="FIELD_NOT_FOUND"):
        spark.read.format("delta").load(path).select("_metadata.row_id")


def test_time_travel_to_before(spark, path):
    save(spark, path)
    version = track(path)
    with pytest.raises(AnalysisException, match="FIELD_NOT_FOUND"):
        spark.sql(f"select _metadata.row_id from delta.`{path}` version as of {version - 1}")
    assert (
        spark.sql(f"select max(_metadata.row_id) from delta.`{path}` version as of {version}").collect()[0][0] == 2009
    )


def test_a_dataframe_from_before_row_tracking_was_switched_off(spark, path):
    save(spark, path)
    track(path)
    frame = spark.read.format("delta").load(path)
    asking = frame.select("_metadata.row_id")
    change_schema(path, tahoe.Table(path).snapshot().schema, configuration={})
    assert frame.count() == ROWS
    with pytest.raises(SchemaChangedError, match=r"_metadata\.row_id"):
        asking.collect()


def test_files_of_a_newer_version(spark, path):
    """A DataFrame that was analysed before sees what later commits gave."""
    save(spark, path)
    track(path)
    frame = spark.read.format("delta").load(path)
    assert frame.selectExpr("max(_metadata.row_id)").collect()[0][0] == 2009
    track(path, {1: [(77_000 + i, None) for i in range(10)]})
    assert frame.selectExpr("max(_metadata.row_id)").collect()[0][0] == 77_009


def test_a_column_of_the_tables_own_by_that_name(spark, path):
    rows = spark.range(3).selectExpr("id", "named_struct('row_id', id * 100, 'z', 1) as _metadata")
    rows.coalesce(1).write.format("delta").save(path)
    track(path)
    frame = spark.read.format("delta").load(path)
    assert sorted(frame.select("_metadata.row_id").collect()) == [(0,), (100,), (200,)]
    mark(path, {0: [1]})
    assert sorted(frame.select("_metadata.row_id").collect()) == [(0,), (200,)]


def test_a_name_in_the_catalog(spark, path, table_name):
    save(spark, path)
    track(path, {0: KEPT})
    spark.sql(f"create table {table_name} using delta location '{path}'")
    rows = expected(first_ids(path), {0: KEPT})
    assert by_id(spark.sql(f"select id, _metadata.row_id from {table_name} x where x.part >= 0")) == {
        i: row[:1] for i, row in rows.items()
    }
    spark.sql(f"cache table {table_name}")
    try:
        assert by_id(spark.sql(f"select id, _metadata.row_id from {table_name}")) == {
            i: row[:1] for i, row in rows.items()
        }
    finally:
        spark.sql(f"uncache table {table_name}")
