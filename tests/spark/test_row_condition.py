"""The conflict check looks at the rows that a winner has added, whatever the condition: it evaluates it as a query does.

A condition that counted as true for any row made a statement lose against every concurrent commit.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe import Table
from tahoe.errors import ConcurrentAppendException
from tahoe.spark.configuration import setting_names
from tahoe.spark.dml.row_changes import RowChange, Target
from tahoe.spark.dml.touched_rows import RowCondition, Search
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.plans import analysed

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
    *("id % 100 = 50", "n + 1 = 51", "name LIKE '%77'", "abs(id) = 50", "d / 2 > 10", "NOT (d / 2 > 10)", "dec * 2 = 10.00"),
    *("s.a % 10 = 3", "exists(s.b, x -> x = 7)", "m['k'] = 8", "aggregate(s.b, 0L, (x, y) -> x + y) = 7", "coalesce(d, 1) = 1"),
    *("abs(id) BETWEEN 5 AND 8", "nullif(n, 5) IS NULL", "ifnull(d, 0) % 2 = 0", "to_date(ts) = '1970-01-02'", "hour(ts) + 1 = 2"),
    *("date_trunc('day', ts) = timestamp'1970-01-02'", "left(name, 2) = 'n5'", "regexp_like(name, '5{2}')", "try_divide(id, n) = 1"),
    *("n IN (1, 2) OR id % 100 = 0", "greatest(n, 3) = 3", "CAST(n AS STRING) = '55'", "hex(bytes) = '7635'", "upper(name) = 'N5'"),
)
NOT_EVALUATED = (
    *("ts + INTERVAL 1 DAY < now()", "date_add(to_date(ts), 1) < current_date()", "to_date(ts) = CAST('today' AS DATE)"),
    *("id IN (SELECT 5)", "1 / (id - 5) > 0.1", "rpad(code, 5, '-') = 'c1  -'"),
)


@pytest.fixture
def table(spark: SparkSession, path: str) -> Table:
    rows = spark.range(300).selectExpr(*COLUMNS, "concat('c', id % 2) code")
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, n INT, d DOUBLE, name STRING, dec DECIMAL(10,2), ts TIMESTAMP, "
              "s STRUCT<a BIGINT, b ARRAY<BIGINT>>, m MAP<STRING, BIGINT>, bytes BINARY, code CHAR(4)) USING delta")  # fmt: skip
    rows.coalesce(1).write.format("delta").mode("append").save(path)
    return Table(path)


def matching(spark: SparkSession, table: Table, condition: str, *, queried: bool = True) -> tuple[object, object]:
    """The rows of the only file for which a condition is true, as the conflict check and as a query tell it."""
    with RowChange(Target(spark=spark, table=table)) as change:
        search = Search(change, F.expr(condition))
        (file,) = change.snapshot.live.adds()
        looked_at = RowCondition(change.snapshot, Gateway(spark), analysed(search.rows)).matching(file)
        return looked_at, next(iter(search.positions().by_file.values()), None) if queried else None


def test_a_condition_is_evaluated_on_rows_as_in_a_query(spark: SparkSession, table: Table) -> None:
    for condition in EVALUATED:
        looked_at, queried = matching(spark, table, condition)
        assert looked_at == queried, condition
        assert looked_at, condition


def test_what_needs_a_query_is_not_evaluated(spark: SparkSession, table: Table) -> None:
    """The current time of the query is another one; a column of type CHAR is padded when it is read."""
    for condition in NOT_EVALUATED:
        assert matching(spark, table, condition, queried=False)[0] is None, condition


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
    spark: SparkSession, path: str, tmp_path: object, statement: str, behind_a_rival: Callable[[Callable[[], object]], None]
) -> None:
    other = f"{tmp_path}/other"
    for target in (path, other):
        spark.range(200).selectExpr("id", "cast(id as int) n", "concat('n', id) name").coalesce(1).write.format("delta").option(
            "delta.enableDeletionVectors", "true"
        ).save(target)
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
        behind_a_rival(lambda: spark.range(50, 51).selectExpr("id", "'new' name").write.format("delta").mode("append").save(path))
        with pytest.raises(ConcurrentAppendException, match="this write would have read some"):
            spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 100 = 50")
        behind_a_rival(lambda: spark.range(7, 8).selectExpr("id", "'new' name").write.format("delta").mode("append").save(path))
        with pytest.raises(ConcurrentAppendException, match="could not be determined"):
            spark.sql(f"DELETE FROM delta.`{path}` WHERE id IN (SELECT 50)")
    finally:
        spark.conf.set(setting_names.CONFLICT_RETRIES.name, before)
