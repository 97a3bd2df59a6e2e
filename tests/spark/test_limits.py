"""LIMIT reads few files: enough of them, or those that may have the first rows in an order. Results stay; so does what
a write has read.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

import tahoe
from tahoe.errors import ConcurrentAppendException
from tahoe.protocol.statistics.limits import RowLimit
from tahoe.spark.configuration import setting_names
from tahoe.table.reading.limits import needed
from tests import sample
from tests.spark.varied_tables import explained, mapped, thirty_days, various

SETTING = setting_names.LIMIT_PUSHDOWN.name

pytestmark = pytest.mark.every_spark

# Random queries over each table.
QUERIES = 35


@pytest.fixture
def without(spark: SparkSession) -> Iterator[Callable[[Callable[[], object]], object]]:
    """Runs a function with limits that leave out no file."""

    def run(function: Callable[[], object]) -> object:
        spark.conf.set(SETTING, "false")
        try:
            return function()
        finally:
            spark.conf.unset(SETTING)

    yield run
    spark.conf.unset(SETTING)


def reads(frame: DataFrame) -> list[int]:
    """How many files each scan of a query reads, from the names of the scans; once for each scan."""
    text = frame._jdf.queryExecution().optimizedPlan().toString()
    return [int(number) for number in re.findall(r"\[(\d+) of \d+ files", text)]


# --- what is left out: of thirty files with ten ids and one day each

LEFT_OUT = {
    "SELECT * FROM {t} LIMIT 5": [1],
    "SELECT id + 1 FROM {t} LIMIT 15": [2],
    "SELECT id FROM {t} LIMIT 5 OFFSET 7": [2],
    "SELECT id FROM {t} OFFSET 7": [30],
    "SELECT * FROM {t} LIMIT ALL": [30],
    "SELECT * FROM {t} LIMIT 0": [],
    "SELECT * FROM {t} LIMIT 2147483647": [30],
    "SELECT * FROM {t} VERSION AS OF 0 LIMIT 5": [1],
    "SELECT * FROM {t} WHERE id >= 105 LIMIT 5": [1],
    "SELECT * FROM {t} WHERE id % 2 = 0 LIMIT 5": [30],
    "SELECT * FROM {t} WHERE id >= (SELECT 105) LIMIT 5": [1],
    "SELECT * FROM {t} TABLESAMPLE (5 ROWS)": [1],
    "SELECT * FROM {t} TABLESAMPLE (99 PERCENT) LIMIT 5": [30],
    "SELECT * FROM (SELECT * FROM {t} LIMIT 5) ORDER BY id LIMIT 2": [1],
    "SELECT * FROM {t} ORDER BY id LIMIT 5": [1],
    "SELECT * FROM {t} ORDER BY day DESC LIMIT 15": [2],
    "SELECT p FROM {t} ORDER BY id LIMIT 5 OFFSET 8": [2],
    "SELECT id AS x, p FROM {t} ORDER BY x DESC NULLS FIRST LIMIT 5": [1],
    "SELECT * FROM {t} ORDER BY day, p LIMIT 5": [1],
    "SELECT * FROM {t} WHERE id >= 105 ORDER BY id LIMIT 5": [2],
    "SELECT * FROM {t} ORDER BY id + 1 LIMIT 5": [30],
    "SELECT * FROM {t} ORDER BY rand() LIMIT 5": [30],
    "SELECT * FROM (SELECT id, row_number() OVER (ORDER BY id) AS r FROM {t}) WHERE r <= 5": [1],
    "SELECT p, count(*) OVER (PARTITION BY p) FROM {t} LIMIT 5": [30],
    "SELECT id FROM {t} UNION ALL SELECT p FROM {t} LIMIT 15": [2, 2],
    "WITH c AS (SELECT * FROM {t} LIMIT 5) SELECT * FROM c JOIN c AS d ON c.id = d.id": [1, 1],
    "SELECT * FROM {t} a LEFT JOIN {t} b ON a.id = b.id LIMIT 3": [1, 30],
    "SELECT * FROM {t} a JOIN {t} b ON a.id = b.p LIMIT 3": [30, 30],
    "SELECT p, sum(id) FROM {t} GROUP BY p LIMIT 2": [30],
    "SELECT explode(array(id, p)) FROM {t} LIMIT 5": [30],
}


@pytest.mark.every_case
def test_limits_leave_out_files_where_they_may(spark, path, table_name, without):
    thirty_days(spark, path)
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{path}'")
    spark.sql(f"CREATE VIEW {table_name}_view AS SELECT * FROM {table_name} ORDER BY id DESC LIMIT 12")
    try:
        queries = [
            *LEFT_OUT.items(),
            (f"SELECT * FROM {table_name}_view", [2]),
            (f"SELECT * FROM {table_name}_view LIMIT 3", [1]),
        ]
        found = {query: reads(spark.sql(query.format(t=table_name))) for query, _ in queries}
        assert found == dict(queries)
        assert sorted(row.id for row in spark.table(f"{table_name}_view").collect()) == list(range(288, 300))
    finally:
        spark.sql(f"DROP VIEW {table_name}_view")
    query = spark.sql(f"SELECT id FROM {table_name} ORDER BY id DESC LIMIT 3")
    assert f"{table_name} v0 [1 of 30 files]" in explained(query)
    assert [row.id for row in query.collect()] == [299, 298, 297]
    assert without(lambda: reads(spark.sql(f"SELECT id FROM {table_name} LIMIT 3"))) == [30]


@pytest.mark.usefixtures("scans")
def test_the_setting_for_wrong_statistics_is_for_limits_too(spark, path):
    thirty_days(spark, path)
    assert reads(spark.read.format("delta").load(path).limit(3)) == [30]


def test_dataframes_leave_out_files_too(spark, path):
    thirty_days(spark, path)
    frame = spark.read.format("delta").load(path)
    plus = F.udf(lambda number: number + 1, "long")
    queries = [
        *(
            frame.limit(5),
            frame.orderBy("id").limit(5),
            frame.orderBy(F.desc("day")).select("p").limit(5),
            frame.limit(5).offset(3),
        ),
        *(frame.withColumn("u", plus("id")).limit(5), frame.withColumn("u", plus("id")).orderBy("u").limit(5)),
        *(
            frame.sample(0.9, seed=1).limit(5),
            frame.sortWithinPartitions("id").limit(5),
            frame.where("_metadata.row_index < 5").limit(5),
        ),
        *(
            frame.orderBy("_metadata.file_name").limit(5),
            frame.withColumn("r", F.rand()).limit(5),
            frame.where("rand() < 0.9").limit(5),
        ),
    ]
    assert [reads(query) for query in queries] == [[1]] * 5 + [[30]] * 7
    assert len(frame.limit(5).cache().collect()) == 5
    assert reads(spark.read.format("delta").option("ignoreMissingFiles", "true").load(path).limit(5)) == [30]


def test_the_first_rows_are_shown_without_the_other_files(spark, path):
    """`show`, `head`, `first`, `take`, `isEmpty`, `EXISTS` and limits of `toPandas` all read the same file."""
    thirty_days(spark, path)
    scan = tahoe.Table(path).snapshot().scan()
    [kept] = needed(RowLimit(5), scan).urls.to_pylist()
    for url in scan.urls.to_pylist():
        if url != kept:
            tahoe.Table(path).env.store.delete(url.rpartition("/")[2])
    frame = spark.read.format("delta").load(path)
    frame.show(5)
    assert frame.first() == frame.head() == frame.head(2)[0] == frame.take(5)[0]
    assert len(frame.limit(5).toPandas()) == len(frame.limit(5).toArrow()) == 5
    assert not frame.isEmpty()
    assert spark.sql(f"SELECT EXISTS (SELECT * FROM delta.`{path}`) AS e").first().e


# --- the law

KEYS = ("i", "l", "d", "s", "f", "ts", "dec", "st.n", "p", "day", "weight", "void_like", "i % 7", "upper(s)")
CONDITIONS = (
    *("true", "true", "true", "p = 'x'", "p is null", "day = '2026-02-01'", "i < 45", "i >= 40", "i between 20 and 90"),
    *("l is not null", "i % 2 = 0", "d >= '2026-01-03'", "f < 20", "dec < 20", "ts < timestamp_micros(60000)"),
)


def drawn(random: random.Random) -> str:
    key = random.choice(KEYS)
    order = f" order by {key} {random.choice(('asc', 'desc'))} {random.choice(('', 'nulls first', 'nulls last'))}, i"
    offset = random.choice(("", "", " offset 3", " offset 30"))
    limit = random.choice((1, 2, 5, 20, 60, 400))
    chosen = f"select {key} as k, i, l, p from answered where {random.choice(CONDITIONS)}"
    return f"{chosen}{order if random.random() < 0.75 else ''} limit {limit}{offset}"


@pytest.mark.every_case
@pytest.mark.parametrize("make", [various, mapped])
def test_results_are_those_of_all_files(spark, path, without, make):
    spark.read.format("delta").load(make(spark, path)).createOrReplaceTempView("answered")
    chosen, smaller = random.Random(make.__name__), 0

    def result(query: str) -> tuple[list[str], int]:
        frame = spark.sql(query)
        return list(map(repr, frame.collect())), sum(reads(frame))

    queries = sample.part([drawn(chosen) for _ in range(QUERIES)], 5)
    for query in queries:
        (found, files), (expected, all_files) = result(query), without(lambda query=query: result(query))
        if "order by" in query:
            assert found == expected, query
        else:
            every, _ = without(lambda query=query: result(query.partition(" limit ")[0]))
            assert len(found) == len(expected), query
            assert set(found) <= set(every), query
        smaller += files < all_files
    assert smaller >= len(queries) // 5


# --- writes

READS = {
    "insert": "INSERT INTO {t} SELECT id FROM {t} ORDER BY id DESC LIMIT 1",
    "insert any": "INSERT INTO {t} SELECT id FROM {t} LIMIT 1",
    "scalar subquery": "INSERT INTO {t} SELECT (SELECT id FROM {t} ORDER BY id DESC LIMIT 1) + 1 AS id",
    "view": "INSERT INTO {t} SELECT * FROM (SELECT id FROM {t} ORDER BY id DESC LIMIT 2) ORDER BY id LIMIT 1",
    "overwrite": "INSERT INTO {t} REPLACE WHERE id = 2 SELECT 2 + 0 * id AS id FROM {t} ORDER BY id DESC LIMIT 1",
    "delete": "DELETE FROM {t} WHERE id IN (SELECT id FROM {t} ORDER BY id DESC LIMIT 1)",
    "update": "UPDATE {t} SET id = (SELECT id FROM {t} ORDER BY id DESC LIMIT 1) + 1 WHERE id = 0",
    "merge": (
        "MERGE INTO {t} USING (SELECT id FROM {t} ORDER BY id DESC LIMIT 1) s ON {t}.id = s.id + 1 WHEN NOT MATCHED "
        "THEN INSERT *"
    ),
}


@pytest.mark.parametrize("statement", READS)
def test_what_a_write_has_read_with_a_limit_is_all_of_the_table(spark, path, table_name, behind_a_rival, statement):
    """Every file but one is left out, and the rival adds a file that would have been read instead. Dynamic overwrites
    are in tests/spark/test_answers.py.
    """
    spark.range(20, numPartitions=4).write.format("delta").save(path)
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{path}'")
    behind_a_rival(lambda: tahoe.Table(path).append(spark.range(100, 101).toArrow()))
    with pytest.raises(ConcurrentAppendException):
        spark.sql(READS[statement].format(t=table_name))


def test_limits_of_other_tables_go_on_behind_a_rival(spark, path, table_name, tmp_path, behind_a_rival):
    """CTAS and INSERT with the newest rows of a source: commits to the target that read nothing of it do not
    conflict.
    """
    source = str(tmp_path / "source")
    thirty_days(spark, source)
    spark.sql(
        f"CREATE TABLE {table_name} USING delta LOCATION '{path}' AS SELECT id FROM delta.`{source}` ORDER BY day "
        f"DESC, id LIMIT 2"
    )
    behind_a_rival(lambda: tahoe.Table(path).append(spark.range(1, 2).toArrow()))
    spark.sql(f"INSERT INTO {table_name} SELECT id FROM delta.`{source}` ORDER BY id LIMIT 1")
    assert sorted(row.id for row in spark.table(table_name).collect()) == [0, 1, 290, 291]
