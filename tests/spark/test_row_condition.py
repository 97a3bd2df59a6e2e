"""The conflict check looks at the rows that a winner has added, whatever the condition: it evaluates it as a query
does.

A condition that counted as true for any row made a statement lose against every concurrent commit.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe import Table
from tahoe.errors import ConcurrentAppendException
from tahoe.spark.configuration import setting_names
from tahoe.spark.dml import row_conditions
from tahoe.spark.dml.row_changes import DmlTarget, RowChange
from tahoe.spark.dml.row_conditions import COUNTS_AS_TRUE, RowCondition, condition_of_filter
from tahoe.spark.dml.touched_rows import Search
from tahoe.spark.jvm.gateway import Gateway

COLUMNS = (
    "id",
    "cast(id % 60 as int) n",
    "case when id % 7 = 0 then null else cast(id as double) / 3 end d",
    "concat('n', id) name",
    "cast(id as decimal(10,2)) dec",
    "timestamp_micros(id * 10000000000) ts",
    "struct(id as a, array(id, id + 1) as b) s",
    "map('k', id) m",
    "cast(concat('v', id) as binary) bytes",
)
EVALUATED = (
    *(
        "id % 100 = 50",
        "n + 1 = 51",
        "name LIKE '%77'",
        "abs(id) = 50",
        "d / 2 > 10",
        "NOT (d / 2 > 10)",
        "dec * 2 = 10.00",
    ),
    *(
        "s.a % 10 = 3",
        "exists(s.b, x -> x = 7)",
        "m['k'] = 8",
        "aggregate(s.b, 0L, (x, y) -> x + y) = 7",
        "coalesce(d, 1) = 1",
    ),
    *(
        "abs(id) BETWEEN 5 AND 8",
        "nullif(n, 5) IS NULL",
        "ifnull(d, 0) % 2 = 0",
        "to_date(ts) = '1970-01-02'",
        "hour(ts) + 1 = 2",
    ),
    *(
        "date_trunc('day', ts) = timestamp'1970-01-02'",
        "left(name, 2) = 'n5'",
        "regexp_like(name, '5{2}')",
        "try_divide(id, n) = 1",
    ),
    *(
        "n IN (1, 2) OR id % 100 = 0",
        "greatest(n, 3) = 3",
        "CAST(n AS STRING) = '55'",
        "hex(bytes) = '7635'",
        "upper(name) = 'N5'",
    ),
)
IN_A_QUERY = (
    *(
        "ts + INTERVAL 1 DAY < now()",
        "date_add(to_date(ts), 1) < current_date()",
        "to_date(ts) < CAST('today' AS DATE)",
    ),
    *("concat(name, current_user()) = concat('n50', session_user())", "concat(name, current_database()) LIKE 'n5%'"),
    *(
        "id IN (SELECT 5)",
        "n + 1 IN (SELECT x FROM delta.`{other}`)",
        "id NOT IN (SELECT x FROM delta.`{other}`)",
        "(id, n) IN (SELECT 5L, 5)",
    ),
    *(
        "id % 60 = (SELECT max(x) FROM delta.`{other}`)",
        "id < 5 AND EXISTS (SELECT 1 FROM delta.`{other}` WHERE x > 5)",
    ),
    *(
        "EXISTS (SELECT 1 FROM delta.`{other}` o WHERE o.x = n)",
        "n = (SELECT max(x) FROM delta.`{other}` o WHERE o.x <= n)",
    ),
    *(
        "id IN (WITH c AS (SELECT x FROM delta.`{other}`) SELECT DISTINCT a.x FROM c a JOIN c b ON a.x < b.x "
        "ORDER BY 1)",
    ),
    *(
        "id IN (SELECT x FROM delta.`{other}` WHERE at < now())",
        "plus_one(n) = 6",
        "plus_one(n) IN (SELECT x FROM delta.`{other}`)",
    ),
    *(
        "rpad(code, 5, '-') = 'c1  -'",
        "concat(code, '-') = 'c1  -'",
        "concat(short, '-') = 'v1-'",
        "length(nested.code) = 4",
    ),
)
NOT_EVALUATED = {
    "error": ("1 / (id - 5) > 0.1", "id = (SELECT explode(array(1, 2)))"),
    "source": ("id IN (SELECT x FROM of_an_rdd)", "id IN (SELECT x FROM of_a_cache)"),
    "order": (
        "id IN (SELECT x FROM delta.`{other}` LIMIT 2)",
        "id = (SELECT max(x) FROM (SELECT x FROM delta.`{other}` LIMIT 1))",
    ),
    "metadata": ("_metadata.row_index + id = 10",),
    "queries": ("plus_one(n) = 6",),
}


@pytest.fixture
def table(spark: SparkSession, path: str) -> Table:
    rows = spark.range(300).selectExpr(
        *COLUMNS, "concat('c', id % 2) code", "concat('v', id % 2) short", "struct(concat('c', id) code) nested"
    )
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, n INT, d DOUBLE, name STRING, dec DECIMAL(10,2), ts " "TIMESTAMP, s STRUCT<a BIGINT, b ARRAY<BIGINT>>, m MAP<STRING, BIGINT>, bytes BINARY, code CHAR(4), " "short VARCHAR(4), nested STRUCT<code: CHAR(4)>) USING delta")  # fmt: skip
    rows.coalesce(1).write.format("delta").mode("append").save(path)
    return Table(path)


@pytest.fixture
def other(spark: SparkSession, tmp_path: Path) -> str:
    """Another table, and what else conditions name."""
    spark.range(5, 8).selectExpr("cast(id as int) x", "timestamp'2020-01-01' at").write.format("delta").save(
        f"{tmp_path}/other"
    )
    spark.udf.register("plus_one", lambda n: None if n is None else n + 1, "int")
    spark.createDataFrame(spark.sparkContext.parallelize([(5,), (6,)]), "x int").createOrReplaceTempView("of_an_rdd")
    spark.read.format("delta").load(f"{tmp_path}/other").cache().createOrReplaceTempView("of_a_cache")
    return f"{tmp_path}/other"


def matching(spark: SparkSession, table: Table, condition: str, *, queried: bool = True) -> tuple[object, object]:
    """The rows of the only file for which a condition is true, as the conflict check and as a query tell it."""
    with RowChange(DmlTarget(spark=spark, table=table)) as change:
        search = Search(change, F.expr(condition))
        (file,) = change.snapshot.live.adds()
        positions = search.positions() if queried else None
        evaluator = partial(condition_of_filter, Gateway(spark), search.rows, search._executed)
        looked_at = RowCondition(change.snapshot, evaluator).matching(file)
        return looked_at, None if positions is None else next(iter(positions.by_file.values()), None)


def test_a_condition_is_evaluated_on_rows_as_in_a_query(spark: SparkSession, table: Table) -> None:
    for condition in EVALUATED:
        looked_at, queried = matching(spark, table, condition)
        assert looked_at == queried, condition
        assert looked_at, condition


def test_what_needs_more_than_the_row_is_evaluated(spark: SparkSession, table: Table, other: str) -> None:
    """The current time, subqueries, functions in Python, and columns of type CHAR, which Spark pads when it reads
    them.
    """
    for condition in IN_A_QUERY:
        looked_at, queried = matching(spark, table, condition.format(other=other))
        assert looked_at == queried, condition
        assert looked_at, condition


@pytest.mark.parametrize("reason", COUNTS_AS_TRUE)
def test_what_is_not_evaluated_counts_as_true_for_a_reason(
    spark: SparkSession,
    table: Table,
    other: str,
    reason: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if reason == "queries":
        monkeypatch.setattr(row_conditions, "QUERIES_MAX", 0)
    for condition in NOT_EVALUATED[reason]:
        caplog.clear()
        with caplog.at_level("DEBUG", "tahoe"):
            assert matching(spark, table, condition.format(other=other), queried=reason != "error")[0] is None, (
                condition
            )
        assert COUNTS_AS_TRUE[reason] in caplog.text, condition


def test_the_reasons_are_in_the_documentation() -> None:
    page = " ".join((Path(__file__).parents[2] / "docs/consistency.md").read_text().split())
    for reason in COUNTS_AS_TRUE.values():
        assert reason in page


def test_todays_date_as_a_word_is_a_condition(spark: SparkSession, table: Table) -> None:
    spark.sql(f"DELETE FROM delta.`{table.url}` WHERE to_date(ts) < CAST('today' AS DATE)")
    assert table.count() == 0


CONDITIONS = ("id % 100 = 50", "n + 1 = 51", "name LIKE '%50'", "abs(id) = 50")
STATEMENTS = {
    "UPDATE": "UPDATE delta.`{path}` SET name = 'x' WHERE {condition}",
    "DELETE": "DELETE FROM delta.`{path}` WHERE {condition}",
    "REPLACE WHERE": "INSERT INTO delta.`{path}` REPLACE WHERE {condition} SELECT * FROM delta.`{other}` WHERE {condition}",
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_goes_on_behind_rows_that_its_condition_does_not_match(
    spark: SparkSession,
    path: str,
    tmp_path: object,
    statement: str,
    behind_a_rival: Callable[[Callable[[], object]], None],
) -> None:
    other = f"{tmp_path}/other"
    for target in (path, other):
        spark.range(200).selectExpr("id", "cast(id as int) n", "concat('n', id) name").coalesce(1).write.format(
            "delta"
        ).option("delta.enableDeletionVectors", "true").save(target)
    for condition in CONDITIONS:
        behind_a_rival(lambda: Table(path).update({"name": "concat(name, '!')"}, "id = 7"))
        spark.sql(STATEMENTS[statement].format(path=path, other=other, condition=condition))
        assert "numConflictRetries" not in Table(path).history(1)[0]["operationMetrics"], condition


def test_rows_that_match_are_a_conflict_and_what_was_not_looked_at_is_said(
    spark: SparkSession, path: str, behind_a_rival: Callable[[Callable[[], object]], None]
) -> None:
    spark.range(200).selectExpr("id", "cast(id as string) name").coalesce(1).write.format("delta").save(path)
    before = spark.conf.get(setting_names.CONFLICT_RETRIES.name)
    spark.conf.set(setting_names.CONFLICT_RETRIES.name, "0")
    try:
        behind_a_rival(
            lambda: spark.range(50, 51).selectExpr("id", "'new' name").write.format("delta").mode("append").save(path)
        )
        with pytest.raises(ConcurrentAppendException, match="this write would have read some"):
            spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 100 = 50")
        behind_a_rival(
            lambda: spark.range(300, 301).selectExpr("id", "'new' name").write.format("delta").mode("append").save(path)
        )
        with pytest.raises(ConcurrentAppendException, match="could not be determined"):
            spark.sql(f"DELETE FROM delta.`{path}` WHERE 1 / (id - 300) < 0 AND id > 190")
    finally:
        spark.conf.set(setting_names.CONFLICT_RETRIES.name, before)


def test_a_subquery_is_read_as_the_statement_has_read_it(
    spark: SparkSession, path: str, other: str, behind_a_rival: Callable[[Callable[[], object]], None]
) -> None:
    """The row that the rival adds would be deleted if the subquery were read anew."""
    spark.range(50).selectExpr("cast(id as int) id").coalesce(1).write.format("delta").save(path)

    def rival() -> None:
        Table(other).append(pa.table({"x": pa.array([70], pa.int32())}))
        Table(path).append(pa.table({"id": pa.array([70], pa.int32())}))

    behind_a_rival(rival)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id IN (SELECT x FROM delta.`{other}`)")
    assert sorted(Table(path).to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4, *range(8, 50), 70]


@pytest.mark.parametrize("condition", ["at < now()", "at + INTERVAL 0 DAY < now()"])
def test_the_time_of_a_statement_is_one(
    spark: SparkSession, path: str, condition: str, behind_a_rival: Callable[[Callable[[], object]], None]
) -> None:
    """A row that the rival adds is from after the time with which the statement has compared the others."""
    spark.range(5).selectExpr("id", "timestamp'2020-01-01' at").coalesce(1).write.format("delta").save(path)
    behind_a_rival(lambda: spark.sql(f"INSERT INTO delta.`{path}` SELECT 70, now()"))
    spark.sql(f"DELETE FROM delta.`{path}` WHERE {condition}")
    assert Table(path).to_arrow()["id"].to_pylist() == [70]


MERGES = {
    "a range": "ON t.id BETWEEN s.low AND s.high WHEN MATCHED THEN DELETE",
    "a function": "ON t.id = s.low AND upper(t.name) = s.name WHEN MATCHED THEN UPDATE SET name = 'x'",
    "only inserts": "ON t.id + 1 > s.low AND t.id < s.low + 1 WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.low, 'x')",
    "the rest": "ON t.id + 0 = s.low WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE AND length(t.name) > 4 THEN DELETE",
}


@pytest.mark.parametrize("merge", MERGES.values(), ids=MERGES)
def test_a_merge_goes_on_behind_rows_that_no_row_of_its_source_matches(
    spark: SparkSession, path: str, merge: str, behind_a_rival: Callable[[Callable[[], object]], None]
) -> None:
    for rival, conflicts in (((200, 250), False), ((200, 300), True)):
        target = f"{path}-{conflicts}"
        spark.range(100).selectExpr("id", "concat('n', id) name").coalesce(1).write.format("delta").save(target)
        rows = pa.table({"id": pa.array(rival, pa.int64()), "name": ["n", f"n{rival[1]}"[:4]]})
        behind_a_rival(partial(Table(target).append, rows))
        told = (
            pytest.raises(ConcurrentAppendException, match="this write would have read some")
            if conflicts
            else nullcontext()
        )
        with told:
            spark.sql(
                f"MERGE INTO delta.`{target}` t USING (SELECT 5L low, 7L high, 'N5' name UNION ALL SELECT 300L, "
                f"300L, 'N300') s {merge}"
            )
        assert Table(target).count("id = 200") == 1


@pytest.mark.parametrize(
    ("condition", "queries", "conflicts"),
    [
        ("t.id + 0 = s.low", 0, True),
        ("t.id + 0 = s.low AND upper(t.name) = s.name", 1, False),  # for the one commit that has a key of the source
        ("upper(t.name) = s.name AND s.low = 5", 0, False),
        ("t.zero = s.zero AND s.low = 5 AND t.id < 300", 2, True),  # 0.0 = -0.0
    ],
)
def test_keys_of_a_source_are_looked_up_rather_than_queried(
    spark: SparkSession,
    path: str,
    condition: str,
    queries: int,
    conflicts: bool,
    behind_a_rival: Callable[[Callable[[], object]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a query for each commit, a statement beside a writer that never rests would never be done."""
    spark.range(100).selectExpr("id", "concat('n', id) name", "double(id) zero").coalesce(1).write.format("delta").save(
        path
    )
    rows = [pa.table({"id": [number], "name": ["n"], "zero": [0.0]}) for number in (200, 300)]
    behind_a_rival(lambda: [Table(path).append(row) for row in rows])
    looked, matching = set[RowCondition](), RowCondition.matching
    monkeypatch.setattr(RowCondition, "matching", lambda self, file: looked.add(self) or matching(self, file))
    source = "(SELECT explode(array(5L, 300L)) low, 'N5' name, CAST('-0.0' AS DOUBLE) zero)"
    with pytest.raises(ConcurrentAppendException) if conflicts else nullcontext():
        spark.sql(f"MERGE INTO delta.`{path}` t USING {source} s ON {condition} WHEN MATCHED THEN DELETE")
    assert looked
    assert sum(each._evaluator.queries() for each in looked) <= queries
