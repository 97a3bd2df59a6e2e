"""Scans leave out files by the keys of joins: with the results of whole scans, and without evaluating twice what may
change.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

import tahoe
from tahoe.errors import ConcurrentAppendException
from tahoe.spark.configuration import setting_names
from tahoe.spark.reading import joins
from tahoe.table.commit.draft import Draft
from tests import sample

pytestmark = pytest.mark.every_spark

FILES = 10


@pytest.fixture(autouse=True)
def eager(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files are left out of small tables too."""
    for name in ("SAVED_BYTES_MIN", "SAVED_BY_QUERY_BYTES_MIN"):
        monkeypatch.setattr(joins, name, 0)
    for name in ("QUERY_SHARE_MAX", "UNFILTERED_BYTES_MAX"):
        monkeypatch.setattr(joins, name, 1e12)
    monkeypatch.setattr(joins, "SHARE_MAX", 1.0)
    names = (
        setting_names.PRUNE_JOINS.name,
        "spark.sql.adaptive.enabled",
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.planChangeValidation",
    )
    spark.conf.set("spark.sql.planChangeValidation", "true")
    yield
    for name in names:
        spark.conf.unset(name)


def scans(frame: DataFrame) -> list[tuple[str, int]]:
    """The scans of a query that has run, by their labels, and how many files each has read."""
    found, todo = [], [frame._jdf.queryExecution().executedPlan()]
    while todo:
        node = todo.pop()
        name = node.getClass().getSimpleName()
        if name == "AdaptiveSparkPlanExec":
            todo.append(node.executedPlan())
        elif name.endswith("QueryStageExec"):
            todo.append(node.plan())
        elif name in ("FileSourceScanExec", "CometNativeScanExec"):
            table = node.tableIdentifier()
            found.append((table.get().table() if table.isDefined() else "", node.metrics().apply("numFiles").value()))
        todo += [node.children().apply(i) for i in range(node.children().size())]
    return found


def read_of(frame: DataFrame, table: str) -> int:
    """How many files a query reads of a table."""
    frame.collect()
    return sum(files for label, files in scans(frame) if table in label)


def explained(frame: DataFrame) -> str:
    return frame._jdf.queryExecution().explainString(
        frame._sc._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
    )


@pytest.fixture
def facts(spark, tmp_path) -> str:
    """A view over ten files of a hundred ids each; beside it `days`, of which each has ten ids."""
    path = str(tmp_path / "facts")
    spark.range(1000).selectExpr("id", "id * 2 as v").repartitionByRange(FILES, "id").write.format("delta").save(path)
    spark.range(1000).selectExpr("id as k", "id div 10 as day").coalesce(1).write.format("delta").save(
        str(tmp_path / "days")
    )
    spark.read.format("delta").load(path).createOrReplaceTempView("facts")
    spark.read.format("delta").load(str(tmp_path / "days")).createOrReplaceTempView("days")
    return path


# For each query, how many of the ten files it reads.
QUERIES = {
    "SELECT count(*) FROM facts JOIN days ON id = k WHERE day = 7": 1,
    "SELECT count(*) FROM facts JOIN days ON id = k WHERE day IN (7, 92)": 2,
    "SELECT count(*) FROM facts JOIN days ON id = k WHERE day = 700": 0,
    "SELECT count(*) FROM facts WHERE id IN (SELECT k FROM days WHERE day = 7)": 1,
    "SELECT count(*) FROM facts WHERE EXISTS (SELECT 1 FROM days WHERE k = id AND day = 7)": 1,
    "SELECT count(v) FROM days LEFT JOIN facts ON id = k WHERE day = 7": 1,
    "SELECT count(v) FROM facts RIGHT JOIN days ON id = k WHERE day = 7": 1,
    "SELECT count(*) FROM days WHERE day = 7 AND NOT EXISTS (SELECT 1 FROM facts WHERE id = k)": 1,
    "SELECT count(v) FROM (SELECT id + 0 AS i, id, v FROM facts) JOIN days ON id = k WHERE day = 7": 1,
    "SELECT count(*) FROM (SELECT id, sum(v) FROM facts GROUP BY id) JOIN days ON id = k WHERE day = 7": 1,
    "SELECT count(*) FROM (SELECT id FROM facts UNION ALL SELECT -id FROM facts) JOIN days ON id = k WHERE day = 7": 11,
    "SELECT count(*) FROM facts JOIN days ON id <=> k WHERE day = 7": 1,
    "SELECT count(*) FROM facts JOIN VALUES (3), (999) t(x) ON id = x": 2,
    "SELECT count(*) FROM facts JOIN (SELECT DISTINCT k FROM days WHERE day = 7) ON id = k": 1,
    "SELECT count(*) FROM facts JOIN days ON id = k WHERE day = 7 AND (v IN (SELECT k FROM days) OR v % 3 = 0)": 1,
    # not these
    "SELECT count(*) FROM facts WHERE v % 3 = 0 OR EXISTS (SELECT 1 FROM days WHERE k = id AND day = 7)": 10,
    "SELECT count(*) FROM facts LEFT JOIN days ON id = k AND day = 7": 10,
    "SELECT count(*) FROM facts FULL JOIN (SELECT * FROM days WHERE day = 7) ON id = k": 10,
    "SELECT count(*) FROM facts WHERE id NOT IN (SELECT k FROM days WHERE day = 7)": 10,
    "SELECT count(*) FROM facts WHERE NOT EXISTS (SELECT 1 FROM days WHERE k = id AND day = 7)": 10,
    "SELECT count(*) FROM facts JOIN days ON id + 1 = k WHERE day = 7": 10,
    "SELECT count(*) FROM facts JOIN days ON cast(id AS STRING) = cast(k AS STRING) WHERE day = 7": 10,
    "SELECT count(*) FROM (SELECT * FROM facts LIMIT 1000) JOIN days ON id = k WHERE day = 7": 10,
    "SELECT sum(r) FROM (SELECT id, row_number() OVER (ORDER BY v) AS r FROM facts) JOIN days ON id = k WHERE day "
    "= 7": 10,
    "SELECT count(*) FROM facts JOIN (SELECT * FROM days WHERE day < 8 LIMIT 5) ON id = k": 10,
    "SELECT count(*) FROM facts JOIN (SELECT * FROM days WHERE day = 7 AND rand() < 0.999999) ON id = k": 10,
    "SELECT count(*) FROM facts JOIN (SELECT DISTINCT collate(CAST(k AS STRING), 'UTF8_LCASE') AS s FROM days WHERE "
    "day = 7) ON id = CAST(ascii(s) AS BIGINT)": 10,
    "SELECT count(*) FROM (SELECT * FROM facts WHERE rand() < 0.999999) JOIN days ON id = k WHERE day = 7": 10,
    "SELECT count(*) FROM (SELECT * FROM facts TABLESAMPLE (50 PERCENT)) JOIN days ON id = k WHERE day = 7": 10,
}
PLANS = {
    "adaptive": ("true", "10MB"),
    "fixed": ("false", "10MB"),
    "adaptive without broadcast": ("true", "-1"),
    "neither": ("false", "-1"),
}


def planned_as(spark: SparkSession, plan: str) -> None:
    adaptive, broadcast = PLANS[plan]
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", broadcast)


@pytest.mark.usefixtures("facts")
@pytest.mark.parametrize("plan", PLANS)
def test_files_without_a_key_are_not_read(spark, plan):
    planned_as(spark, plan)
    queries = sample.part(list(QUERIES), 3)
    assert {query: read_of(spark.sql(query), "/facts") for query in queries} == {
        query: QUERIES[query] for query in queries
    }


@pytest.mark.parametrize("plan", ["adaptive without broadcast", "neither"])
def test_a_side_that_was_asked_for_its_keys_leaves_files_out_too(spark, facts, tmp_path, monkeypatch, plan):
    planned_as(spark, plan)
    monkeypatch.setattr(joins, "COLLECTED_BYTES_MAX", 0)
    monkeypatch.setattr(joins, "SAVED_BYTES_MIN", 0)
    spark.read.format("delta").load(facts).selectExpr("id AS k", "v AS w", "id % 10 AS g").repartitionByRange(
        5, "k"
    ).write.format("delta").save(path := str(tmp_path / "keyed"))
    spark.read.format("delta").load(path).createOrReplaceTempView("keyed")
    some = "(SELECT * FROM keyed WHERE w % 700 = 0 AND g = 0 AND k > 0)"
    for kind, expected in {"JOIN": (2, 2, 2), "LEFT JOIN": (2, 2, 2), "RIGHT JOIN": (1000, FILES, 5)}.items():
        frame = spark.sql(f"SELECT k, w, v FROM {some} {kind} facts ON id = k")
        rows = len(frame.collect())
        read = dict(scans(frame))
        assert (
            rows,
            *(files for table in ("/facts", "/keyed") for label, files in read.items() if table in label),
        ) == expected, kind


@pytest.mark.usefixtures("facts")
@pytest.mark.parametrize(
    "where", ["NOT EXISTS (SELECT 1 FROM facts WHERE id = k)", "k < 20 OR EXISTS (SELECT 1 FROM facts WHERE id = k)"]
)
def test_a_table_in_two_places_prunes_neither_side(spark, tmp_path, monkeypatch, where):
    """Spark makes a join of the subquery in each part of the union, and both joins share its plan."""
    planned_as(spark, "neither")
    monkeypatch.setattr(joins, "COLLECTED_BYTES_MAX", 0)
    spark.range(2000).selectExpr("id AS k").repartitionByRange(5, "k").write.format("delta").save(
        path := str(tmp_path / "keyed")
    )
    parts = (f"SELECT k FROM delta.`{path}` WHERE k % 100 = {number}" for number in (3, 7))
    query = f"SELECT * FROM ({' UNION ALL '.join(parts)}) WHERE {where}"
    spark.conf.set(setting_names.PRUNE_JOINS.name, "false")
    expected = results(spark.sql(query))
    spark.conf.set(setting_names.PRUNE_JOINS.name, "true")
    assert results(spark.sql(query)) == expected
    assert expected


@pytest.mark.usefixtures("facts")
def test_explain_tells_and_a_setting_turns_it_off(spark):
    query = next(iter(QUERIES))
    assert "files that may have id in dynamicpruning" in explained(spark.sql(query))
    for setting in (
        setting_names.PRUNE_JOINS.name,
        setting_names.ANSWERS_FROM_LOG.name,
        "spark.sql.optimizer.dynamicPartitionPruning.enabled",
    ):
        spark.conf.set(setting, "false")
        try:
            assert "files that may have" not in explained(spark.sql(query))
            assert read_of(spark.sql(query), "/facts") == FILES
        finally:
            spark.conf.unset(setting)


@pytest.mark.usefixtures("facts")
def test_what_may_change_is_evaluated_once(spark):
    """A function with effects, rows of an RDD, files that Spark lists again."""
    calls = spark.sparkContext.accumulator(0)

    @F.udf("long")
    def counted(value):
        calls.add(1)
        return value

    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    once = spark.range(5).select(counted("id").alias("x"))
    frame = spark.table("facts").join(once, F.col("id") == F.col("x"))
    assert read_of(frame, "/facts") == FILES
    with_joins, calls.value = calls.value, 0
    spark.conf.set(setting_names.PRUNE_JOINS.name, "false")
    assert read_of(spark.table("facts").join(once, F.col("id") == F.col("x")), "/facts") == FILES
    spark.conf.set(setting_names.PRUNE_JOINS.name, "true")
    assert calls.value == with_joins
    changing = spark.createDataFrame(spark.sparkContext.parallelize([(1,), (2,)]), "x long")
    assert read_of(spark.table("facts").join(changing, F.col("id") == F.col("x")), "/facts") == FILES


@pytest.mark.usefixtures("facts")
def test_conditions_on_a_table_with_deletion_vectors_are_looked_at(spark, tmp_path, monkeypatch):
    """Its plan applies them itself: a subquery with LIMIT among them may have another result the second time."""
    path = str(tmp_path / "marked")
    rows = spark.table("days").coalesce(1).write.format("delta")
    rows.option("delta.enableDeletionVectors", "true").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE k % 10 = 0")
    spark.read.format("delta").load(path).createOrReplaceTempView("marked")
    monkeypatch.setattr(joins, "UNFILTERED_BYTES_MAX", 0)
    assert read_of(spark.sql("SELECT count(*) FROM facts JOIN marked ON id = k WHERE day = 7"), "/facts") == 1
    assert read_of(spark.sql("SELECT count(*) FROM facts JOIN marked ON id = k"), "/facts") == FILES
    changing = "SELECT * FROM marked WHERE day < 8 AND k > (SELECT k FROM days LIMIT 1)"
    assert read_of(spark.sql(f"SELECT count(*) FROM facts JOIN ({changing}) ON id = k"), "/facts") == FILES


@pytest.mark.usefixtures("facts")
def test_a_scan_in_a_subquery_leaves_files_out_twice(spark, tmp_path):
    """By the keys of its own join, and by those of the join that Spark makes of the subquery afterwards."""
    path = str(tmp_path / "t")
    spark.range(120).selectExpr("id", "cast(id as int) AS i").repartitionByRange(6, "id").write.format("delta").save(
        path
    )
    twice = (
        f"FROM delta.`{path}` x WHERE EXISTS (SELECT 1 FROM delta.`{path}` y JOIN days ON y.id = k WHERE day = 11 AND "
        f"y.i = x.i + 100)"
    )
    assert sorted(row.i for row in spark.sql(f"SELECT i {twice}").collect()) == list(range(10, 20))
    spark.sql(f"DELETE {twice}")
    assert spark.read.format("delta").load(path).count() == 110


def test_each_of_several_joins_leaves_files_out(spark):
    query = (
        "SELECT count(*) FROM facts JOIN days a ON id = a.k JOIN days b ON id = b.k WHERE a.day < 50 AND b.day >= 45"
    )
    frame = spark.sql(query)
    assert [tuple(row) for row in frame.collect()] == [(50,)]
    assert read_of(frame, "/facts") == 1


@pytest.mark.usefixtures("facts")
def test_keys_that_are_computed_by_what_may_change_leave_no_file_out(spark):
    planned_as(spark, "neither")  # Spark itself fails with a broadcast by such keys
    query = "SELECT count(*) FROM facts JOIN days ON id = k + (SELECT k FROM days LIMIT 1) WHERE day = 7"
    assert read_of(spark.sql(query), "/facts") == FILES


@pytest.mark.usefixtures("facts")
@pytest.mark.parametrize("plan", PLANS)
def test_joins_of_a_recursion_read_all_files(spark, plan):
    if spark.version < "4.1":
        pytest.skip("this Spark has no recursive queries")
    planned_as(spark, plan)
    step = "SELECT f.id + 300 FROM r JOIN facts f ON f.id = r.n JOIN days d ON f.id = d.k WHERE f.id < 800"
    query = f"SELECT f.id FROM facts f JOIN days d ON f.id = d.k WHERE day = 3 UNION ALL {step}"
    assert spark.sql(f"WITH RECURSIVE r(n) AS ({query}) SELECT * FROM r").count() == 40


@pytest.mark.usefixtures("facts")
def test_a_version_that_is_loaded_again_is_read_right(spark, monkeypatch):
    """The numbers of files may differ between two loads of a version."""
    numbers = iter(range(1, 100))
    monkeypatch.setattr("tahoe.table.reading.snapshot._SERIALS", numbers)
    original = joins.file_ordinals

    def loaded_again(snapshot, places):
        snapshot.__dict__.pop("serial", None)
        return original(snapshot, places)

    monkeypatch.setattr(joins, "file_ordinals", loaded_again)
    frame = spark.sql(next(iter(QUERIES)))
    assert [tuple(row) for row in frame.collect()] == [(10,)]
    assert read_of(frame, "/facts") == FILES


def test_a_write_has_read_what_a_join_leaves_out(spark, facts, monkeypatch):
    """Another writer adds a row with a key that none of the files had that the join has read."""
    commit_draft = Draft.commit

    def second(draft: Draft, *given: object) -> object:
        monkeypatch.setattr(Draft, "commit", commit_draft)
        tahoe.Table(facts).append(spark.range(2000, 2001).selectExpr("id", "id as v").toArrow())
        return commit_draft(draft, *given)

    rows = spark.table("facts").join(spark.table("days").where("day = 7"), F.col("id") == F.col("k")).select("id", "v")
    assert read_of(rows, "/facts") == 1
    monkeypatch.setattr(Draft, "commit", second)
    with pytest.raises(ConcurrentAppendException):
        rows.write.format("delta").mode("append").save(facts)


# --- the law

DAY, MOMENT = date(2020, 1, 1), datetime(2020, 1, 1)
NAN = float("nan")
LONG_TEXT = "x" * 40
# For each type of key: the fact's type, the dimension's, and the values, in an order.
KEYS = {
    "int": ("int", "int", lambda n: n),
    "widened": ("smallint", "bigint", lambda n: n),
    "narrowed": ("bigint", "int", lambda n: n),
    "string": ("string", "string", lambda n: f"{n:04}"),
    "long string": ("string", "string", lambda n: f"{LONG_TEXT}{n:04}"),
    "decimal": ("decimal(9,2)", "decimal(9,2)", lambda n: Decimal(n) / 4),
    "wider decimal": ("decimal(9,2)", "decimal(20,4)", lambda n: Decimal(n) / 4),
    "date": ("date", "date", lambda n: DAY + timedelta(days=n)),
    "timestamp": ("timestamp", "timestamp", lambda n: MOMENT + timedelta(microseconds=n * 300)),
    "timestamp_ntz": ("timestamp_ntz", "timestamp_ntz", lambda n: MOMENT + timedelta(microseconds=n * 300)),
    "double": ("double", "double", lambda n: [NAN, -0.0, 0.0][n] if n < 3 else float(n)),
    "day and moment": ("date", "timestamp", None),
}
JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
TABLES = {
    "plain": "",
    "vectors": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "mapped": "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "partitioned": "PARTITIONED BY (p)",
    "char": "",
}
PROPERTY = "delta.dataSkippingNumIndexedCols"


def value_of(kind: str, side: int, n: int):
    if KEYS[kind][2] is not None:
        return KEYS[kind][2](n)
    return DAY + timedelta(days=n) if side == 0 else MOMENT + timedelta(days=n)


def fill(spark: SparkSession, name: str, kind: str, table: str, draw: random.Random) -> None:
    """A table of a few files, whose keys are in order or scattered, some of them without statistics or with deleted
    rows.
    """
    column = "char(12)" if table == "char" and kind == "string" else KEYS[kind][0]
    spark.sql(f"CREATE TABLE {name} (k {column}, v INT, p INT) USING delta {TABLES[table]}")
    for number in range(6):
        lowest = draw.choice([number * 20, 0])
        keys = [
            draw.choice([None, *range(lowest, lowest + draw.choice([3, 20, 120]))]) for _ in range(draw.randint(1, 30))
        ]
        rows = [(None if n is None else value_of(kind, 0, n), v, v % 2) for v, n in enumerate(keys)]
        frame = spark.createDataFrame(rows, f"k {KEYS[kind][0]}, v int, p int").coalesce(1)
        frame.write.format("delta").mode("append").saveAsTable(name)
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{PROPERTY}' = '{draw.choice([0, 32, 32])}')")
    spark.sql(f"DELETE FROM {name} WHERE v % 5 = {draw.randrange(5)}")


def results(frame: DataFrame) -> list[str]:
    return sorted(repr(tuple(row)) for row in frame.collect())


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("kind", KEYS)
def test_joins_equal_joins_of_whole_scans(spark, monkeypatch, table_name, kind, table):
    draw = random.Random(f"{kind} {table}")
    fill(spark, table_name, kind, table, draw)
    some = [None, *range(120)]
    rows = [(None if (n := draw.choice(some)) is None else value_of(kind, 1, n), g % 4) for g in range(40)]
    dimension = spark.createDataFrame(rows, f"x {KEYS[kind][1]}, g int")
    dimension.write.format("delta").save(
        path := f"{spark.table(table_name).inputFiles()[0].rpartition('/')[0].partition('/p=')[0]}-keys"
    )
    spark.read.format("delta").load(path).createOrReplaceTempView("keys")
    monkeypatch.setattr(joins, "COLLECTED_BYTES_MAX", draw.choice([0, joins.COLLECTED_BYTES_MAX]))
    sides = [table_name, "(SELECT * FROM keys WHERE g = 1)"]
    for _ in range(8 // sample.step(2)):
        first, second = draw.sample(sides, 2)
        equal = draw.choice(["=", "=", "<=>"])
        more = draw.choice(["", "", " AND v > g"])
        query = f"SELECT * FROM {first} {draw.choice(JOINS)} {second} ON k {equal} x{more}"
        planned_as(spark, draw.choice(list(PLANS)))
        spark.conf.set(setting_names.PRUNE_JOINS.name, "true")
        found = results(spark.sql(query))
        spark.conf.set(setting_names.PRUNE_JOINS.name, "false")
        assert found == results(spark.sql(query)), query
