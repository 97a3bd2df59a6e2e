"""Files are left out by the values inside variants, however a query reads them, and no row with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import tahoe
from tahoe.protocol.statistics.variants import encode_bounds, variant_bounds_of
from tahoe.protocol.types.schema import LONG, STRING, Decimal
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.verify.check import check_table
from tahoe.table.verify.findings import Kind

FILES = 10

# Spark casts the values that its scan takes out of variants with generated code alone.
pytestmark = pytest.mark.usefixtures("generated_code")

# Ten files of a hundred rows. `mixed` has numbers and texts, `maybe` JSON's null, `gone` is not in every row.
ROWS = """select id, to_variant_object(named_struct(
    'Id', id, 'user', named_struct('name', format_string('u%04d', id), "it's", -id), 'price', id::decimal(9, 2) / 8,
    'ratio', id / 8, 'day', date'2020-01-01' + id::int, 'tags', array(id),
    'at', timestamp_micros(1500 + 1000000 * id), 'local', timestamp_ntz'2020-01-01' + make_dt_interval(0, 0, 0, id)
  )) as v, parse_json('{"mixed": ' || if(id % 2 = 0, string(id), '"' || id || '"') || ', "maybe": ' || if(id % 7 = 0, 'null', string(id))
    || if(id % 3 = 0, '', ', "gone": ' || id) || ', "KEY": ' || id || ', "key": ' || (1000 - id)
    || ', "amount": ' || id || '.5}') as w,
  if(id % 5 = 0, null, named_struct('v', parse_json('{"a": {"b": ' || id || '}}'))) as s
  from rows"""


@pytest.fixture(scope="module")
def events(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = str(tmp_path_factory.mktemp("events") / "t")
    spark.range(0, 1000, 1, FILES).createOrReplaceTempView("rows")
    spark.sql(ROWS).createOrReplaceTempView("expected_events")
    spark.sql(
        f"create table delta.`{path}` (id bigint, V variant, w variant, s struct<v: variant>) using delta tblproperties "
        "('delta.enableVariantShredding' = 'true', 'delta.columnMapping.mode' = 'name')"
    )
    spark.sql(f"insert into delta.`{path}` {ROWS}")
    yield path
    spark.catalog.dropTempView("rows")
    spark.catalog.dropTempView("expected_events")


@pytest.fixture(params=["true", "false"])
def pushed(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    """Whether the scan takes values out of variants."""
    spark.conf.set("spark.sql.variant.pushVariantIntoScan", request.param)
    yield
    spark.conf.unset("spark.sql.variant.pushVariantIntoScan")


def read(frame: DataFrame) -> tuple[list[Row], int]:
    """The rows of a query, and the number of files that it has read."""
    rows = frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    leaves = (plan.executedPlan() if "Adaptive" in plan.nodeName() else plan).collectLeaves()
    return rows, int(leaves.apply(0).metrics().apply("numFiles").value())


def statistics_of(path: str) -> list[dict[str, Any]]:
    """The statistics of the live files, in the order of their rows."""
    texts = tahoe.Table(path).snapshot().live.texts(tahoe.Table(path).snapshot().schema).to_pylist()
    return sorted(map(json.loads, texts), key=lambda found: found["minValues"]["id"])


def bounds(statistics: dict[str, Any], *column: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The bounds inside a variant, by path."""
    found = statistics["minValues"], statistics["maxValues"]
    for name in column:
        found = found[0].get(name), found[1].get(name)
    return tuple({} if text is None else dict(variant_bounds_of(text)) for text in found)


CONDITIONS = [
    ("v:Id::int = 555", 1),
    ("555 = v:Id::int", 1),
    ("variant_get(v, '$.Id', 'bigint') >= 950", 1),
    ("""variant_get(v, '$["Id"]', 'bigint') < 100""", 1),
    ("v:Id::decimal(10, 2) = 300.00", 1),
    ("v:Id::double > 899.5", 1),
    ("v:Id::int in (1, 999)", 2),
    ("v:Id::int between 150 and 250", 2),
    ("v:Id::int <=> 7", 1),
    ("not (v:Id::int < 990)", 1),
    ("v:Id::int = 5 or v:user.name::string = 'u0999'", 2),
    ("v:Id::int > 5 and v:user.name::string < 'u0100'", 1),
    ("try_variant_get(v, '$.Id', 'tinyint') = 125", FILES - 1),  # the other files have values that are no TINYINT
    ("try_variant_get(v, '$.Id.nothing', 'int') = 5", FILES),
    ("v:user.name::string = 'u0123'", 1),
    ("v:user.name::string like 'u01%'", 1),
    ("try_variant_get(v:user, '$.name', 'string') = 'u0123'", 1),
    ("""variant_get(v, '$.user["it\\'s"]', 'int') = -450""", 1),
    ("v:price::decimal(20, 10) = 12.5", 1),
    ("v:price::double = 12.5", 1),
    ("v:price::decimal(9, 1) = 12.5", FILES),  # rounded
    ("v:ratio::double < 12", 1),
    ("v:ratio::double > 120", FILES),  # another writer's footer may leave out NaN, and so may its bounds
    ("v:day::date = date'2020-01-11'", 1),
    ("v:at::timestamp <= timestamp'1970-01-01 00:01:00.0015'", 1),
    ("v:local::timestamp_ntz >= timestamp_ntz'2020-01-01 00:16:30'", 1),
    ("v:tags[0]::int = 5", FILES),
    ("w:amount::double > 950", 1),
    ("w:gone::int = 500", 1),
    ("w:KEY::int = 950", 1),
    ("w:key::int = 950", 1),
    ("w:Key::int = 950", FILES),
    ("try_variant_get(w, '$.mixed', 'int') = 950", FILES),
    ("w:mixed::string = '951'", FILES),
    ("w:maybe::int = 950", FILES),
    ("s.v:a.b::int = 951", 1),
    ("try_cast(s.v:a as int) = 951", FILES),
    ("v:Id::string = '7'", FILES),
    ("v:Id::int <> 5", FILES),
    ("v:Id::int is null", FILES),
    ("v:Id::int <=> null", FILES),
    ("not (v:Id::int <=> 5)", FILES),
    ("v:Id::int + 1 = 5", FILES),
    ("cast(v:user.name as string collate UTF8_LCASE) = 'U0123' collate UTF8_LCASE", FILES),
    ("(v:user.name::string) collate UTF8_LCASE = 'U0123'", FILES),
]


@pytest.mark.usefixtures("pushed")
@pytest.mark.parametrize(("condition", "files"), CONDITIONS)
def test_files_are_left_out_by_values_in_variants(spark: SparkSession, events: str, condition: str, files: int) -> None:
    found = spark.table(f"delta.`{events}`").where(condition).select("id")
    expected = spark.table("expected_events").where(condition).select("id")
    rows, read_files = read(found)
    assert sorted(row.id for row in rows) == sorted(row.id for row in expected.collect())
    assert read_files == files


def test_the_values_of_a_query_are_right_too(spark: SparkSession, events: str) -> None:
    query = "select id, v:Id::int, v:user.name::string, to_json(w) from {} where v:Id::int between 95 and 105"
    found = spark.sql(query.format(f"delta.`{events}`"))
    rows, files = read(found)
    assert sorted(rows) == sorted(spark.sql(query.format("expected_events")).collect())
    assert files == 2


SHREDDED = "tblproperties ('delta.enableVariantShredding' = 'true'{})"
NUMBERS = """select id, parse_json('{"n": ' || id || ', "d": ' || id || '.5, "t": "' || repeat('x', 30) || id || '", "mixed": '
    || if(id % 10 = 0, '"text"', string(id)) || ', "null": ' || if(id % 10 = 0, 'null', string(id)) || ', "list": [' || id || ']}') as v
  from range(0, {rows}, 1, {files})"""
NUMBER = "select id from delta.`{}` where v:n::int = 15"


def create(spark: SparkSession, path: str, properties: str = "", rows: int = 40, files: int = 4) -> None:
    spark.sql(f"create table delta.`{path}` (id bigint, v variant) using delta {SHREDDED.format(properties)}")
    spark.sql(f"insert into delta.`{path}` " + NUMBERS.replace("{rows}", str(rows)).replace("{files}", str(files)))


def test_bounds_are_of_paths_with_one_type(spark: SparkSession, path: str) -> None:
    create(spark, path)
    low, high = bounds(statistics_of(path)[1], "v")
    kind = low["$['d']"][0]
    assert isinstance(kind, Decimal)
    assert low == {"$['d']": (kind, 10.5), "$['n']": (LONG, 10), "$['t']": (STRING, "x" * 30 + "10")}
    assert high == {"$['d']": (kind, 19.5), "$['n']": (LONG, 19), "$['t']": (STRING, "x" * 30 + "19")}
    assert list(check_table(tahoe.Table(path).log)) == []


def test_whole_variants_have_no_bounds(spark: SparkSession, path: str) -> None:
    create(spark, path, ", 'delta.enableDeletionVectors' = 'true'")
    spark.sql(f"alter table delta.`{path}` set tblproperties ('delta.enableVariantShredding' = 'false')")
    spark.sql(f"insert into delta.`{path}` select 15, parse_json('{{\"n\": 15}}')")
    assert bounds(statistics_of(path)[2], "v") == ({}, {})
    rows, files = read(spark.sql(NUMBER.format(path)))
    assert (len(rows), files) == (2, 2)


def test_deleted_rows_leave_the_bounds(spark: SparkSession, path: str) -> None:
    create(spark, path, ", 'delta.enableDeletionVectors' = 'true'")
    before = statistics_of(path)
    spark.sql(f"delete from delta.`{path}` where v:n::int = 12")
    after = statistics_of(path)
    assert after[1] == before[1] | {"tightBounds": False}
    found = spark.sql(NUMBER.format(path))
    assert [row.id for row in found.collect()] == [15]
    assert "[1 of 4 files, with deletion vectors]" in found._jdf.queryExecution().optimizedPlan().toString()
    assert spark.sql(NUMBER.format(path).replace("15", "12")).collect() == []
    assert list(check_table(tahoe.Table(path).log)) == []


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_changes_find_their_rows(spark: SparkSession, path: str, vectors: str) -> None:
    create(spark, path, f", 'delta.enableDeletionVectors' = '{vectors}'")
    expected = {number: number for number in range(40)}
    spark.sql(f"delete from delta.`{path}` where v:n::int between 8 and 11 or v:mixed::string = '23'")
    for number in (8, 9, 10, 11, 23):
        del expected[number]
    changed = "parse_json('{\"n\": ' || (v:n::int + 100) || '}')"
    spark.sql(f"update delta.`{path}` set v = {changed} where try_variant_get(v, '$.n', 'int') in (15, 35)")
    expected |= {15: 115, 35: 135}
    source = "select 16 as n union all select 115 union all select 1000"
    spark.sql(
        f"merge into delta.`{path}` t using ({source}) s on t.v:n::int = s.n and t.v:n::int < 500 when matched then "
        "delete when not matched then insert (id, v) values (n, parse_json('{\"n\": ' || n || '}'))"
    )
    del expected[15], expected[16]
    expected[1000] = 1000
    spark.sql(f"OPTIMIZE delta.`{path}`")
    rows = spark.sql(f"select id, v:n::int n from delta.`{path}`").collect()
    assert {row.id: row.n for row in rows} == expected
    assert len(spark.sql(f"select id from delta.`{path}` where v:n::int = 1000").collect()) == 1
    low, high = bounds(statistics_of(path)[0], "v")
    assert (low["$['n']"], high["$['n']"]) == ((LONG, 0), (LONG, 1000))


@pytest.mark.parametrize("as_json", ["true", "false"])
def test_checkpoints_keep_the_bounds(spark: SparkSession, path: str, as_json: str) -> None:
    create(
        spark,
        path,
        ", 'delta.checkpoint.writeStatsAsStruct' = 'true', 'delta.checkpoint.writeStatsAsJson' = "
        f"'{as_json}', 'delta.columnMapping.mode' = 'name'",
    )
    write_checkpoint(tahoe.Table(path).snapshot())
    for name in sorted(Path(path, "_delta_log").glob("*.json")):
        name.unlink()
    rows, files = read(spark.sql(NUMBER.format(path)))
    assert (len(rows), files) == (1, 1)
    assert list(check_table(tahoe.Table(path).log)) == []


@pytest.mark.parametrize("gone", ["all", "variants"])
def test_statistics_can_be_computed_again(spark: SparkSession, path: str, gone: str) -> None:
    create(spark, path)
    before = statistics_of(path)
    commit = Path(path, "_delta_log", f"{1:020}.json")
    lines = []
    for line in commit.read_text().splitlines():
        action = json.loads(line)
        if "add" in action:
            stats = json.loads(action["add"].pop("stats"))
            if gone == "variants":
                del stats["minValues"]["v"], stats["maxValues"]["v"]
                action["add"]["stats"] = json.dumps(stats)
        lines.append(json.dumps(action))
    commit.write_text("\n".join(lines))
    for checksum in Path(path, "_delta_log").glob("*.crc"):
        checksum.unlink()
    spark.sql(f"ANALYZE TABLE delta.`{path}` COMPUTE DELTA STATISTICS")
    assert statistics_of(path) == before


@pytest.mark.parametrize("swap", ["another type", "too narrow", "no variant"])
def test_wrong_bounds_are_found(spark: SparkSession, path: str, swap: str) -> None:
    create(spark, path)
    commit = Path(path, "_delta_log", f"{1:020}.json")
    narrow = {"another type": (STRING, "5"), "too narrow": (LONG, 15)}
    text = encode_bounds({"$['n']": narrow[swap]}) if swap in narrow else "no variant"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            stats = json.loads(action["add"]["stats"])
            if stats["minValues"]["id"] == 10:
                stats["minValues"]["v"] = text
                action["add"]["stats"] = json.dumps(stats)
    commit.write_text("\n".join(map(json.dumps, actions)))
    for checksum in Path(path, "_delta_log").glob("*.crc"):
        checksum.unlink()
    assert [finding.kind for finding in check_table(tahoe.Table(path).log)] == [Kind.WRONG_STATISTICS]
