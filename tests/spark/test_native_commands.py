"""Commands in a session with Comet: rows, metrics, feeds and errors are those of Spark's own engine."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tahoe.storage.background import finish_background
from tests.spark.natively import NEEDS_COMET, rows

pytestmark = [pytest.mark.every_case, NEEDS_COMET]

COLUMNS = [
    "id", "id % 3 as p", "if(id % 5 = 0, double('NaN'), if(id % 4 = 0, -0.0D, id - 20D)) as f", "concat('S', id % 4) as s",
    "named_struct('x', id) as st", "cast(id as decimal(9, 2)) as d", "cast(id % 100 as byte) as i",
]  # fmt: skip

KINDS: Mapping[str, tuple[Sequence[str], Mapping[str, str]]] = {
    "vectors": ((), {"delta.enableDeletionVectors": "true"}),
    "copies": (("p",), {}),
    "copies with a feed": ((), {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"}),
    "everything": (
        ("p",),
        {f"delta.enable{name}": "true" for name in ("DeletionVectors", "ChangeDataFeed", "RowTracking")}
        | {"delta.columnMapping.mode": "name"},
    ),
}

SOURCE = "(select id * 3 as id, id * 1D as f, concat('n', id) as s from range(40))"
TWICE = "(select 6L as id union all select 6L)"

# Those that fail change nothing.
COMMANDS = [
    "delete from {t} where id in (3, 17, 44)",
    "update {t} set i = id * 1000 where id > 50",
    "update {t} set f = 1 / (id - 20) where id > 10",
    "update {t} set id = id + 9990 where id > 5",
    "update {t} set d = cast(s as int)",
    "merge into {t} t using " + TWICE + " s on t.id = s.id when matched then update set s = 'd'",
    "merge into {t} t using (select 99999L as id) s on t.id = s.id when not matched then insert (id) values (s.id)",
    "insert into {t} select id, p, f, s, st, d, id * 100 from {t}",
    "insert into {t} replace where p = 1 select * from {t}",
    "update {t} set f = f + 1, s = upper(s) where id % 7 < 3",
    "merge into {t} t using "
    + SOURCE
    + " s on t.id = s.id when matched and s.f > 20 then delete when matched then update set f = s.f, s = s.s when not "
    "matched then insert (id, p, s) values (s.id, 1, s.s) when not matched by source and t.id % 10 = 7 then update "
    "set s = 'gone' when not matched by source and t.id % 10 = 9 then delete",
    "merge into {t} t using (select double('NaN') as f, 'n' as s) s on t.f = s.f and t.id < 30 when matched then "
    "update set s = s.s",
    "merge into {t} t using (select 0D as f, 'z' as s) s on t.f = s.f when matched then update set s = s.s",
    "merge into {t} t using " + TWICE + " s on t.id = s.id when matched then delete",
    "delete from {t} where f = double('NaN') and id < 20",
    "update {t} set s = 'last' where id > (select max(id) - 5 from {t})",
    "insert into {t} replace where p = 1 select id, 1, f, s, st, d, i from {t} where p = 1 and id > 30",
    "optimize {t} zorder by (s, f)",
    "delete from {t} where p = 2",
    "optimize {t}",
    "reorg table {t} apply (purge)",
]

# What depends on the time, or on how many tasks write rows.
NOT_COMPARED = ("Time", "Ms", "Bytes", "FileSize", "FilesAdded", "AddedFiles", "ChangeFiles", "numFiles")


def outcome(spark: SparkSession, path: str, command: str, *, is_native: bool) -> list[Any]:
    """What a command did: its error, or its metrics, the table's rows and the changes in its feed."""
    table = f"delta.`{path}`"
    spark.conf.set("spark.comet.enabled", str(is_native).lower())
    try:
        try:
            spark.sql(command.format(t=table)).collect()
        except Exception as error:
            return [getattr(error, "getCondition", lambda: None)(), type(error).__name__]
        entry = spark.sql(f"describe history {table} limit 1").collect()[0]
        metrics = {
            name: n for name, n in entry.operationMetrics.items() if not any(part in name for part in NOT_COMPARED)
        }
        on = {row.key for row in spark.sql(f"show tblproperties {table}").collect() if row.value == "true"}
        columns = "*, _metadata.row_commit_version" if "delta.enableRowTracking" in on else "*"
        found = [entry.version, entry.operation, metrics, rows(spark.sql(f"select {columns} from {table}"))]
        if "delta.enableChangeDataFeed" in on:
            changes = f"table_changes('{table}', {entry.version}, {entry.version})"
            found.append(rows(spark.sql(f"select * except (_commit_timestamp) from {changes}")))
        return found
    finally:
        spark.conf.set("spark.comet.enabled", "true")


@pytest.mark.parametrize("kind", KINDS)
def test_commands_do_what_they_do_in_sparks_engine(spark: SparkSession, path: str, kind: str) -> None:
    """Each of a row of commands is run in both engines, on the same files."""
    by, properties = KINDS[kind]
    spark.range(0, 80, 1, 4).selectExpr(*COLUMNS).write.format("delta").partitionBy(*by).options(**properties).save(
        path
    )
    spark.sql(f"alter table delta.`{path}` add constraint small check (id < 10000)")
    for number, command in enumerate(COMMANDS):
        finish_background()  # nothing comes to the log while it is copied
        copy = shutil.copytree(path, f"{path}-{number}")
        expected = outcome(spark, copy, command, is_native=False)
        assert outcome(spark, path, command, is_native=True) == expected, command


def streamed(spark: SparkSession, path: str, place: str, **options: str) -> list[str]:
    """The rows of a stream of the table, which stops once and goes on after a change."""
    target = f"{path}-{place}"
    for change in (
        "",
        f"insert into delta.`{path}` select id + 900, f, s from delta.`{path}` where f > 3 and id < 900",
    ):
        if change:
            spark.sql(change)
        read = spark.readStream.format("delta").options(**options).load(path).where("f > 3 or s = 'S1'")
        write = (
            read.writeStream.format("delta")
            .option("checkpointLocation", f"{target}-checkpoint")
            .trigger(availableNow=True)
        )
        write.start(target).awaitTermination(120)
    found = spark.read.format("delta").load(target)
    return rows(found.drop("_commit_timestamp"))


def test_streams_have_the_rows_of_sparks_engine(spark: SparkSession, path: str) -> None:
    columns = [COLUMNS[0], COLUMNS[2], COLUMNS[3]]
    properties = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    spark.range(0, 60, 1, 4).selectExpr(*columns).write.format("delta").options(**properties).save(path)
    spark.sql(f"delete from delta.`{path}` where id % 11 = 5")
    finish_background()
    shutil.copytree(path, f"{path}-spark")
    for place, options in (
        ("rows", {"ignoreChanges": "true"}),
        ("feed", {"readChangeFeed": "true", "startingVersion": "0"}),
    ):
        natively = streamed(spark, path, place, **options)
        spark.conf.set("spark.comet.enabled", "false")
        try:
            assert natively == streamed(spark, f"{path}-spark", place, **options)
        finally:
            spark.conf.set("spark.comet.enabled", "true")
