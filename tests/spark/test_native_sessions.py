"""Settings of a session with Comet, switched between queries, and several sessions at once: rows are those of Spark's
own engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from tests.spark.foreign import mark
from tests.spark.natively import NEEDS_COMET, as_spark, reads_natively, rows

pytestmark = [pytest.mark.every_case, NEEDS_COMET]

COLUMNS = [
    "id", "id % 3 as p", "cast(id % 6 as int) as i", "if(id % 7 = 0, null, if(id % 5 = 0, double('NaN'), id - 20D)) as f",
    "concat('S', id % 4) as s", "timestamp'2024-03-31 00:30:00' + make_interval(0, 0, 0, 0, id) as ts", "array(id, null) as l",
    "timestamp_ntz'2024-03-31 00:30:00' + make_interval(0, 0, 0, 0, id) as tn", "cast(id as decimal(20, 3)) / 7 as d",
    "cast(99999999999999999999999999999999999999 as decimal(38, 0)) as big", "named_struct('x', id) as st",
]  # fmt: skip

QUERIES = [
    "select * from {t}",
    "select p, sum(id), avg(f), max(s), count(distinct i) from {t} group by p",
    "select id from {t} where f > 3 and ts > timestamp'2024-04-01 02:00:00'",
    "select date_trunc('day', ts), string(ts), hour(ts), cast(ts as date), cast(tn as timestamp), count(*) from "
    "{t} group by all",
    "select x.id, y.s from {t} x join {t} y on x.i = y.i and x.p = y.p where y.id < 20",
    "select id, rank() over (partition by p order by f) from {t}",
    "select ID, S from {t} where P = 1 order by Id desc limit 3",
    "select _metadata.file_name, _metadata.row_index, id from {t} where id % 3 = 1",
    "select id from {t} where id in (select id * 2 from {t} where p = 1)",
    "select id / (id - 20), l[i] from {t} where id > 2",
    "select sum(big), avg(big) from {t}",
    "select cast(s as int), cast(f as int), cast(id * 100 as byte) from {t} where id > 3",
]

SETTINGS: list[Mapping[str, str]] = [
    {"spark.sql.ansi.enabled": "false"},
    {"spark.sql.session.timeZone": "America/Los_Angeles"},
    {"spark.sql.session.timeZone": "Asia/Kathmandu", "spark.sql.ansi.enabled": "false"},
    {"spark.sql.caseSensitive": "true"},
    {"spark.sql.adaptive.enabled": "false"},
    {"spark.sql.parquet.enableVectorizedReader": "false"},
    {"spark.sql.parquet.columnarReaderBatchSize": "3", "spark.comet.batchSize": "3"},
    {"spark.sql.shuffle.partitions": "7", "spark.comet.exec.shuffle.mode": "jvm"},
    {"spark.comet.exec.shuffle.enabled": "false"},
    {"spark.comet.exec.enabled": "false"},
    {"spark.sql.autoBroadcastJoinThreshold": "-1"},
    {"spark.sql.files.maxPartitionBytes": "3000"},
    {"spark.sql.files.minPartitionNum": "20"},
    {"spark.sql.parquet.filterPushdown": "false"},
    {"spark.sql.timestampType": "TIMESTAMP_NTZ"},
    {"spark.comet.convert.parquet.enabled": "false", "spark.comet.exec.localTableScan.enabled": "false"},
    {"spark.sql.files.ignoreMissingFiles": "true"},
]


@pytest.fixture
def table(spark: SparkSession, path: str) -> str:
    """Sixty rows, with deletion vectors on some of the files."""
    made = spark.range(0, 60, 1, 4).selectExpr(*COLUMNS)
    made.write.format("delta").partitionBy("p").option("delta.enableDeletionVectors", "true").save(path)
    mark(path, {0: [0, 4], 3: [1, 2], 5: [3]})
    return f"delta.`{path}`"


def outcome(spark: SparkSession, query: str, *, is_native: bool) -> list[str]:
    """The rows of a query, or its error's condition."""
    try:
        return rows(spark.sql(query)) if is_native else as_spark(spark, query)
    except Exception as error:
        return [str(getattr(error, "getCondition", lambda: None)())]


def test_settings_that_are_switched_between_queries(spark: SparkSession, table: str) -> None:
    """Each setting with a third of the queries, and the next one with another third."""
    differing = []
    for number, settings in enumerate(SETTINGS):
        before = {name: spark.conf.get(name, None) for name in settings}
        for name, value in settings.items():
            spark.conf.set(name, value)
        try:
            for query in (text.format(t=table) for text in QUERIES[number % 3 :: 3]):
                if outcome(spark, query, is_native=True) != outcome(spark, query, is_native=False):
                    differing.append((settings, query))
        finally:
            for name, old in before.items():
                spark.conf.unset(name) if old is None else spark.conf.set(name, old)
    assert differing == []


def test_sessions_with_settings_of_their_own_at_once(spark: SparkSession, table: str) -> None:
    """A new session runs natively too, and what one sets, another does not have."""
    queries = [text.format(t=table) for text in QUERIES[::2]]

    def run(number: int) -> tuple[bool, list[list[str]]]:
        session = spark.newSession()
        for name, value in SETTINGS[number].items():
            session.conf.set(name, value)
        is_native = number % 4 < 3
        session.conf.set("spark.comet.enabled", str(is_native).lower())
        return reads_natively(session.sql(queries[0])) == is_native, [
            outcome(session, query, is_native=True) for query in queries
        ]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(run, range(4)))
    for number, (is_as_set, results) in enumerate(found):
        session = spark.newSession()
        for name, value in SETTINGS[number].items():
            session.conf.set(name, value)
        assert is_as_set, SETTINGS[number]
        assert results == [outcome(session, query, is_native=False) for query in queries], SETTINGS[number]
