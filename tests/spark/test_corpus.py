"""The law of reading: a query over a table with vectors, mapped columns and partitions answers as the same query over
plain Parquet files of its live rows, whatever the settings.

`make test` runs each query once, under settings that take turns; `make corpus` runs every query under every setting.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import DataFrame, SparkSession

import tahoe
from tahoe.spark.reading import deletion_vectors
from tests import sample
from tests.spark.foreign import mark

ALL = sample.IS_PROOF
ROWS = 240

QUERIES = [
    # columns and nested fields
    "select * from {t}",
    "select a.y from {t} where a.x > 50",
    "select sum(a.y), max(a.z.w) from {t}",
    "select a from {t} where a.z.w = 'w7'",
    "select a.* from {t} where id < 9",
    "select l.e, l[0].e from {t} where id < 9",
    "select m['k'], map_keys(m) from {t} where id < 9",
    "select struct(a.y as one, part as two) from {t} where id % 50 = 0",
    "select upper(s) || part, coalesce(n, -1) from {t}",
    "select x.id from {t} x where x.`odd name` = 'o1'",
    # filters: on data, on partitions, on both, on nothing
    "select id from {t} where part = 1 and id < 60",
    "select id from {t} where part = 2 or id = 5",
    "select id from {t} where part is null",
    "select id from {t} where part <> 1 or part is null",
    "select id from {t} where part in (0, 2) and s in ('s1', 's2')",
    "select id from {t} where id in (1, 2, 3, 101, 102, 103, 150)",
    "select id from {t} where id between 95 and 105 and not (s = 's7')",
    "select count(*) from {t} where n is null",
    "select count(*) from {t} where n is not null and n <=> 4",
    "select count(*) from {t} where d is null or s like 's1%'",
    "select id from {t} where day = date'2026-01-05' or ts > timestamp'2026-01-09 00:00:00'",
    "select id from {t} where year(day) = 2026 and month(ts) = 1 and amount > 12.5",
    "select id from {t} where cast(id as string) like '1%' and length(s) = 2",
    "select id from {t} where false",
    "select count(*) from {t} where rand() >= 0",
    "select id from {t} where a.x = 7 or array_contains(transform(l, e -> e.e), 9)",
    # aggregates
    "select count(*) from {t}",
    "select count(1), count(n), count(distinct part) from {t}",
    "select count(*), min(id), max(id), round(sum(d), 3) from {t}",
    "select part, count(*) from {t} group by part",
    "select max(part), min(day) from {t}",
    "select s, part, sum(id) from {t} group by rollup (s, part)",
    "select s, part, sum(id) from {t} group by grouping sets ((s), (part), ())",
    "select s, count(*) filter (where part = 1) from {t} group by s having count(*) > 3",
    "select count(distinct s), approx_count_distinct(s) from {t}",
    "select max(struct(d, id)) from {t} where part = 0",
    "select part, sort_array(collect_set(s)) from {t} group by part",
    "select percentile(id, 0.5), round(stddev(d), 6) from {t}",
    # joins
    "select count(*) from {t} x join {t} y on x.id = y.id + 1",
    "select count(*) from {t} x join {t} y on x.part = y.part and x.s = y.s",
    "select x.id, y.id from {t} x left join {t} y on x.id = y.id * 2 where x.id < 20",
    "select count(*) from {t} x full join {t} y on x.id = y.id + 7",
    "select count(*) from {t} x left anti join {t} y on x.id = y.id * 2",
    "select count(*) from {t} x left semi join {t} y on x.id = y.id * 2",
    "select count(*) from {t} x cross join (select 1 union all select 2)",
    "select count(*) from {t} f join (select distinct part from {t} where id < 3) p on f.part = p.part",
    "select /*+ merge(y) */ count(*) from {t} x join {t} y using (id)",
    "select x.id, e.e from {t} x lateral view explode(l.e) e as e where x.id < 20",
    "select x.id, q.m from {t} x, lateral (select max(y.id) as m from {t} y where y.part = x.part) q where x.id < 10",
    # subqueries
    "select count(*) from {t} where id in (select id from {t} where part = 0)",
    "select count(*) from {t} where id not in (select id + 1 from {t} where part = 0)",
    "select count(*) from {t} x where exists (select 1 from {t} y where y.id = x.id + 10 and y.part = x.part)",
    "select id, (select max(id) from {t} y where y.part = x.part) from {t} x where id < 20",
    "select id from {t} where d > (select avg(d) from {t}) and id % 9 = 0",
    "select count(*) from {t} where part = (select max(part) from {t} where id < 50)",
    # set operations, common table expressions, windows, order
    "select * from (select id, s from {t} union all select id, s from {t}) where id < 30",
    "select distinct s from {t} except select s from {t} where id < 5",
    "select s from {t} where part = 0 intersect select s from {t} where part = 1",
    "with c as (select * from {t} where id > 10) select count(*) from c x join c y using (s)",
    "with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) select r.n, t.s from r join {t} "
    "t on t.id = r.n",
    "select id, row_number() over (partition by s order by id) from {t}",
    "select id, lag(d) over (order by id), sum(id) over (partition by part order by id rows 2 preceding) from {t}",
    "select * from (select part, s, id from {t}) pivot (sum(id) for part in (0, 1))",
    "select * from (select id, n, part from {t} where id < 9) unpivot include nulls (v for c in (n, part))",
    "select id from {t} order by id desc limit 7",
    "select id from {t} order by part nulls last, id limit 5 offset 3",
    "select case when part = 0 then 'zero' when a.x > 100 then 'big' else s end, count(*) from {t} group by 1",
]

SETTINGS: dict[str, dict[str, str]] = {
    "defaults": {},
    "no AQE": {"spark.sql.adaptive.enabled": "false"},
    "no ANSI": {"spark.sql.ansi.enabled": "false"},
    "no broadcast": {"spark.sql.autoBroadcastJoinThreshold": "-1"},
    "Bloom filters": {
        "spark.sql.optimizer.runtime.bloomFilter.enabled": "true",
        "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": "0",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    },
    "no code generation": {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
    "plan validation": {"spark.sql.planChangeValidation": "true", "spark.sql.lightweightPlanChangeValidation": "true"},
    "cost-based": {"spark.sql.cbo.enabled": "true", "spark.sql.cbo.joinReorder.enabled": "true"},
    "row by row": {"spark.sql.parquet.enableVectorizedReader": "false"},
    "no nested pruning": {"spark.sql.optimizer.nestedSchemaPruning.enabled": "false"},
    "vectors joined": {},
    "vectors loaded by executors": {},
}
VECTORS = {"vectors joined": "ARRAY_BYTES_MAX", "vectors loaded by executors": "BROADCAST_BYTES_MAX"}


@pytest.fixture(scope="module")
def tables(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The views `corpus`, a table of eight files of which three have vectors, and `corpus_plain`, its live rows as
    Parquet.
    """
    folder = tmp_path_factory.mktemp("corpus")
    table, plain = str(folder / "t"), str(folder / "plain")
    rows = spark.range(0, ROWS, 1, 1).selectExpr(
        "id",
        "nullif(id % 4, 3) as part",
        "named_struct('x', id, 'y', id * 100, 'z', named_struct('w', concat('w', id))) as a",
        "array(named_struct('e', id), named_struct('e', -id)) as l",
        "map('k', id % 3, concat('k', id % 2), id) as m",
        "concat('s', id % 10) as s",
        "if(id % 5 = 0, null, cast(id % 7 as int)) as n",
        "cast(id as double) / 7 as d",
        "cast(id as decimal(12, 3)) / 8 as amount",
        "date_add(date'2026-01-01', cast(id % 20 as int)) as day",
        "timestamp'2026-01-01 12:00:00' + make_interval(0, 0, 0, 0, cast(id as int)) as ts",
        "concat('o', id % 6) as `odd name`" if request.param != "none" else "concat('o', id % 6) as odd_name",
    )
    for low in range(0, ROWS, ROWS // 2):
        writer = (
            rows.where(f"id >= {low} and id < {low + ROWS // 2}")
            .write.format("delta")
            .mode("append")
            .partitionBy("part")
        )
        writer.option("delta.columnMapping.mode", request.param).save(table)
    mark(table, {0: [0, 3, 29], 2: range(20), 5: [*range(0, 30, 2)]}, stored=True)
    marked = tahoe.Table(table).to_arrow()  # the other reader of ours tells which rows live
    assert 0 < marked.num_rows < ROWS
    rows.where(rows.id.isin(marked["id"].to_pylist())).write.partitionBy("part").option("compression", "zstd").parquet(
        plain
    )
    spark.read.format("delta").load(table).createOrReplaceTempView("corpus")
    spark.read.parquet(plain).select(spark.table("corpus").columns).createOrReplaceTempView("corpus_plain")
    _expected.clear()
    yield request.param
    for view in ("corpus", "corpus_plain"):
        spark.catalog.dropTempView(view)


_expected: dict[str, list[str]] = {}


def normal(frame: DataFrame) -> list[str]:
    return sorted(repr(row) for row in frame.collect())


@contextmanager
def setting(spark: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if name in VECTORS:
        monkeypatch.setattr(deletion_vectors, VECTORS[name], 0)
        deletion_vectors._recent_bitmaps = type(deletion_vectors._recent_bitmaps)(deletion_vectors.KEPT_MAX)
    before = {key: spark.conf.get(key, None) for key in SETTINGS[name]}
    for key, value in SETTINGS[name].items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def cases() -> list[tuple[str, str, str]]:
    """How columns are mapped, the setting, and the query."""
    names = list(SETTINGS)
    in_turns = [(names[position % len(names)], query) for position, query in enumerate(QUERIES)]
    if not ALL:
        return [("name", *turn) for turn in in_turns]
    return [(mapping, *turn) for mapping in ("none", "id") for turn in in_turns] + [
        ("name", name, q) for name in names for q in QUERIES
    ]


@pytest.mark.parametrize(("tables", "name", "query"), cases(), indirect=["tables"])
def test_a_query_answers_as_on_plain_parquet(spark, tables, name, query, monkeypatch):
    if tables == "none":
        query = query.replace("`odd name`", "odd_name")
    if query not in _expected:
        _expected[query] = normal(spark.sql(query.format(t="corpus_plain")))
    with setting(spark, name, monkeypatch):
        assert normal(spark.sql(query.format(t="corpus"))) == _expected[query]


def test_the_corpus_is_as_large_as_promised():
    assert len(set(QUERIES)) >= 60
    assert len(SETTINGS) >= 8
