"""A user's program: statements of every kind, in a session and in those made from it. It prints as JSON which of them
answer otherwise than they should.

    python -m tests.programs.every_statement FOLDER RUN START

FOLDER has the settings of the session in settings.json, and RUN is the process, whose databases are its own. START says
when the session is enabled: "configured" by its builder, "running" once it has run queries, "submitted" with the
settings of spark-submit.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import tahoe
from tahoe import DeltaTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A session, and where in it tables are made."""

    spark: SparkSession
    database: str
    folder: str

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.database}"

    def answer(self, ask: Ask) -> Any:
        """What a statement or a call answers: rows as lists; of an error its class, and what it says."""
        try:
            if callable(ask):
                return ask(self)
            return [list(row) for row in self.spark.sql(ask.format(db=self.database, path=self.path)).collect()]
        except Exception as error:
            return f"{type(error).__name__}: {error}"


Ask = str | Callable[[Place], Any]


def history(at: Place) -> list[str]:
    return [row.operation for row in at.spark.sql(f"DESCRIBE HISTORY {at.database}.t LIMIT 3").collect()]


def partitions(at: Place) -> list[int]:
    return sorted(row.p for row in at.spark.sql(f"SHOW PARTITIONS {at.database}.t").collect())


def frames(at: Place) -> list[int]:
    """By every way that a DataFrame is written; the rows of the name, of the path, and of the path's first version."""
    name = f"{at.database}.saved"
    frame = at.spark.range(3).selectExpr("id", "id % 2 AS p")
    frame.write.format("delta").partitionBy("p").saveAsTable(name)
    frame.write.insertInto(name)
    frame.writeTo(name).append()
    frame.write.format("delta").save(at.path)
    frame.where("id = 0").write.format("delta").mode("overwrite").option("replaceWhere", "id < 2").save(at.path)
    reader = at.spark.read.format("delta")
    return [
        at.spark.table(name).count(),
        reader.load(at.path).count(),
        reader.option("versionAsOf", 0).load(at.path).count(),
    ]


def delta_tables(at: Place) -> list[Any]:
    """DELETE and UPDATE by name, MERGE by path: the rows, and the path's history."""
    named, placed = DeltaTable.forName(at.spark, f"{at.database}.saved"), DeltaTable.forPath(at.spark, at.path)
    named.delete("id = 2")
    named.update("id = 1", {"p": "5"})
    source = at.spark.createDataFrame([(2, 0), (8, 1)], "id long, p long")
    placed.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedDelete().whenNotMatchedInsertAll().execute()
    rows = [sorted(list(row) for row in table.toDF().distinct().collect()) for table in (named, placed)]
    return [*rows, [row.operation for row in placed.history().collect()]]


# What needs a parser, a rule or a catalog of ours, each of which a session made from another could lack.
IN_EVERY_SESSION: list[tuple[Ask, Any]] = [
    ("CREATE TABLE {db}.t (id BIGINT, p INT, s STRING) USING delta PARTITIONED BY (p)", []),
    ("ALTER TABLE {db}.t SET TBLPROPERTIES (delta.enableDeletionVectors = true)", []),
    ("INSERT INTO {db}.t VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 2, 'c'), (4, 2, 'd')", []),
    ("CREATE VIEW {db}.v AS SELECT p, count(*) AS n, max(s) AS s FROM {db}.t GROUP BY p ORDER BY p", []),
    ("SELECT * FROM {db}.v", [[1, 2, "b"], [2, 2, "d"]]),
    ("DELETE FROM {db}.t WHERE id = 4", [[1]]),
    ("UPDATE {db}.t SET s = concat(s, '!') WHERE id IN (SELECT id + 1 FROM {db}.t WHERE id = 1)", [[1]]),
    (
        "MERGE INTO {db}.t USING (SELECT id + 2 AS id, 7 AS p, 'm' AS s FROM {db}.t WHERE id < 3) src ON t.id = src.id "
        "WHEN MATCHED THEN UPDATE SET s = src.s WHEN NOT MATCHED THEN INSERT *",
        [[2, 1, 0, 1]],
    ),
    ("SELECT * FROM {db}.t ORDER BY id", [[1, 1, "a"], [2, 1, "b!"], [3, 2, "m"], [4, 7, "m"]]),
    ("SELECT count(*) FROM {db}.t VERSION AS OF 2", [[4]]),
    (history, ["MERGE", "UPDATE", "DELETE"]),
    ("ALTER TABLE {db}.t ADD CONSTRAINT positive CHECK (id > 0)", []),
    ("INSERT INTO {db}.t (id, p) VALUES (-1, 1)", "CheckConstraintViolatedError: "),
]
IN_THE_FIRST: list[tuple[Ask, Any]] = [
    ("CREATE TABLE {db}.c USING delta AS SELECT * FROM {db}.t", []),
    ("INSERT OVERWRITE {db}.c SELECT id, p, upper(s) FROM {db}.t WHERE id < 3", []),
    ("SELECT id, s FROM {db}.c ORDER BY id", [[1, "A"], [2, "B!"]]),
    ("ALTER TABLE {db}.t ADD COLUMN later DOUBLE", []),
    ("ALTER TABLE {db}.t ALTER COLUMN id SET NOT NULL", []),
    ("ALTER TABLE {db}.t SET TBLPROPERTIES (delta.enableChangeDataFeed = true)", []),
    ("INSERT INTO {db}.t (id, p) VALUES (9, 9)", []),
    ("SELECT id, _change_type FROM table_changes('{db}.t', 10)", [[9, "insert"]]),
    (partitions, [1, 2, 7, 9]),
    ("CREATE OR REPLACE TABLE {db}.c (x INT) USING delta", []),
    ("CREATE TEMPORARY VIEW {db}_seen AS SELECT id FROM {db}.t VERSION AS OF 2", []),
    ("DELETE FROM {db}.t WHERE EXISTS (SELECT 1 FROM {db}_seen WHERE {db}_seen.id = t.id AND {db}_seen.id < 2)", [[1]]),
    (frames, [9, 2, 3]),
    (delta_tables, [[[0, 0], [1, 5]], [[0, 0], [8, 1]], ["MERGE", "WRITE", "WRITE"]]),
    ("INSERT INTO delta.`{path}` VALUES (10, 10)", []),
    ("CREATE TABLE {db}.placed USING delta LOCATION '{path}'", []),
    ("SELECT max(id) FROM {db}.placed", [[10]]),
    ("SELECT * FROM delta.`{path}/none`", "TableNotFoundError: "),
    ("ALTER TABLE {db}.saved RENAME TO {db}.renamed", []),
    ("SELECT count(*) FROM {db}.renamed", [[6]]),
    ("DROP TABLE {db}.renamed", []),
]


def otherwise(at: Place, statements: list[tuple[Ask, Any]]) -> list[Any]:
    """The statements that are answered otherwise than they should, with both answers."""
    at.spark.sql(f"CREATE DATABASE {at.database}")
    found = []
    for ask, expected in statements:
        answer = at.answer(ask)
        is_error = isinstance(expected, str) and isinstance(answer, str)
        if not (answer.startswith(expected) if is_error else answer == expected):
            found.append([at.database, ask if isinstance(ask, str) else ask.__name__, expected, answer])
    return found


def started(start: str) -> SparkSession:
    """The session, as START says."""
    if start == "submitted":
        return tahoe.enable(SparkSession.builder.getOrCreate())
    builder = SparkSession.builder
    for name, value in json.loads(Path("settings.json").read_text()).items():
        builder = builder.config(name, value)
    if start == "configured":
        return tahoe.configure(builder).getOrCreate()
    spark = builder.getOrCreate()
    spark.range(3).createOrReplaceTempView("before")
    spark.sql("SELECT count(*) FROM before").collect()
    return tahoe.enable(spark)


def main(folder: str, run: str, start: str) -> None:
    spark = started(start)
    databases = [row[0] for row in spark.sql("SHOW DATABASES").collect()]
    kept = [spark.sql(f"SELECT * FROM {name}.t JOIN {name}.v").count() for name in databases if name != "default"]
    found = otherwise(Place(spark=spark, database=f"{run}_first", folder=folder), [*IN_EVERY_SESSION, *IN_THE_FIRST])
    clone = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    for name, session in {"new": spark.newSession(), "cloned": clone}.items():
        found += otherwise(Place(spark=session, database=f"{run}_{name}", folder=folder), IN_EVERY_SESSION)
    print("FOUND " + json.dumps({"otherwise": found, "kept": kept}, default=str))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
