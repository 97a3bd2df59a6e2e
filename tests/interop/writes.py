"""Writes as code that the reference and tahoe run alike: ways to write, types, and the shapes of rows; and what comes
of a write.

This module runs in the reference's process too, so it knows nothing of tahoe.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

MERGES = "spark.databricks.delta.schema.autoMerge.enabled"

# What a write that is refused leaves in its error: class, condition, SQLSTATE and message. None for a write that is
# done.
Refusal = tuple[str, str | None, str | None, str]


def run_all(spark: SparkSession, delta_table: Any, writes: Sequence[Mapping[str, Any]]) -> list[Refusal | None]:
    """Run writes one after the other.

    Args:
        delta_table: the class `DeltaTable`, of tahoe or of the reference.
        writes: each of them `code` over `spark`, `F`, `DeltaTable` and `stream`, and `settings` of the session for it.
    """

    def fails(_: int) -> int:
        raise ValueError("no luck")

    spark.udf.register("fails", fails, "int")  # a function of the user's, for the writes' queries
    names = {"spark": spark, "F": F, "DeltaTable": delta_table, "stream": stream}
    return [_run(spark, names, write["code"], write.get("settings", {})) for write in writes]


def _run(spark: SparkSession, names: dict[str, Any], code: str, settings: Mapping[str, str]) -> Refusal | None:
    with _settings(spark, settings):
        try:
            eval(code, names)
        except Exception as error:
            return refusal(error)
    return None


# Conditions in a message, and those of the exceptions that caused a Java exception. Spark wraps errors in these two.
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ")
_WRAPPING = ("STREAM_FAILED", "TASK_WRITE_FAILED")


def refusal(error: Exception) -> Refusal:
    """The error. Of a wrapped error the condition, whose SQLSTATE the text does not tell. For an error that is not of
    PySpark the same.
    """
    message = str(error)
    condition, state = (
        (error.getCondition(), error.getSqlState()) if isinstance(error, PySparkException) else (None, None)
    )
    if condition is None or condition in _WRAPPING:
        condition, state = (
            next((found for found in _CONDITION.findall(message) if found not in _WRAPPING), condition),
            None,
        )
    return type(error).__name__, condition, state, message


@contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Any:
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def stream(rows: DataFrame, path: str, mode: str = "append", **options: str) -> None:
    """Write rows into the table at a path by a streaming query."""
    folder = tempfile.mkdtemp()
    try:
        rows.write.parquet(f"{folder}/rows")
        read = rows.sparkSession.readStream.schema(rows.schema).parquet(f"{folder}/rows")
        if mode == "complete":
            read = read.groupBy(*rows.columns).count().drop("count")
        writer = read.writeStream.format("delta").outputMode(mode).option("checkpointLocation", f"{folder}/checkpoint")
        query = writer.options(**options).trigger(availableNow=True).start(path)
        query.awaitTermination()
    finally:
        shutil.rmtree(folder)


_FRAME = 'spark.sql("""{q}""")'
_WRITE = _FRAME + ".write.options(**{o})"
_SAVE = _FRAME + '.write.format("delta").options(**{o})'
_MERGE = "MERGE {evolution}INTO {t} t USING ({q}) s ON t.id = s.id"

# The ways to write what `{q}` gives into the table `{t}` at `{path}`, with the options `{o}`; the table has a row of
# the id 1.
BY_PATH: Mapping[str, str] = {
    "save append": _SAVE + '.mode("append").save("{path}")',
    "save overwrite": _SAVE + '.mode("overwrite").save("{path}")',
    "save replaceWhere": _SAVE + '.mode("overwrite").option("replaceWhere", "id = 2").save("{path}")',
    "save dynamic": _SAVE + '.mode("overwrite").option("partitionOverwriteMode", "dynamic").save("{path}")',
}
BY_NAME: Mapping[str, str] = {
    "saveAsTable append": _SAVE + '.mode("append").saveAsTable("{t}")',
    "saveAsTable overwrite": _SAVE + '.mode("overwrite").saveAsTable("{t}")',
    "insertInto": _WRITE + '.insertInto("{t}")',
    "insertInto overwrite": _WRITE + '.insertInto("{t}", overwrite=True)',
    "writeTo append": _FRAME + '.writeTo("{t}").options(**{o}).append()',
    "writeTo overwrite": _FRAME + '.writeTo("{t}").options(**{o}).overwrite(F.col("id") == 2)',
    "writeTo overwritePartitions": _FRAME + '.writeTo("{t}").options(**{o}).overwritePartitions()',
    "INSERT": 'spark.sql("""INSERT INTO {t} {q}""")',
    "INSERT (columns)": 'spark.sql("""INSERT INTO {t} ({columns}) {q}""")',
    "INSERT BY NAME": 'spark.sql("""INSERT INTO {t} BY NAME {q}""")',
    "INSERT OVERWRITE": 'spark.sql("""INSERT OVERWRITE {t} {q}""")',
    "INSERT REPLACE WHERE": 'spark.sql("""INSERT INTO {t} REPLACE WHERE id = 2 {q}""")',
}
CHANGES: Mapping[str, str] = {
    "UPDATE": 'spark.sql("""UPDATE {t} SET c = {value}""")',
    "DeltaTable.update": 'DeltaTable.forPath(spark, "{path}").update(set={{"c": """{value}"""}})',
    "MERGE INSERT *": f'spark.sql("""{_MERGE} WHEN NOT MATCHED THEN INSERT *""")',
    "MERGE INSERT": f'spark.sql("""{_MERGE} WHEN NOT MATCHED THEN INSERT (id, c) VALUES (s.id, s.c)""")',
    "MERGE UPDATE *": f'spark.sql("""{_MERGE} - 1 WHEN MATCHED THEN UPDATE SET *""")',
    "MERGE UPDATE": f'spark.sql("""{_MERGE} - 1 WHEN MATCHED THEN UPDATE SET c = s.c""")',
    "DeltaTable.merge": (
        'DeltaTable.forPath(spark, "{path}").alias("t").merge(' + _FRAME + '.alias("s"), "t.id = s.id")'
        ".whenNotMatchedInsertAll(){evolves}.execute()"
    ),
}
STREAMS: Mapping[str, str] = {
    "stream append": "stream(" + _FRAME + ', "{path}", **{o})',
    "stream complete": "stream(" + _FRAME + ', "{path}", "complete", **{o})',
}
WAYS = {**BY_PATH, **BY_NAME, **CHANGES, **STREAMS}


def code(
    way: str,
    path: str,
    query: str,
    *,
    value: str = "null",
    columns: str = "id, c",
    options: Mapping[str, str] | None = None,
) -> str:
    """A write as Python code. `value` is what UPDATE assigns to the column c."""
    options = options or {}
    evolves = options.get("mergeSchema") == "true"
    return WAYS[way].format(
        t=f"delta.`{path}`",
        path=path,
        q=query,
        o=dict(options),
        value=value,
        columns=columns,
        evolution="WITH SCHEMA EVOLUTION " if evolves else "",
        evolves=".withSchemaEvolution()" if evolves else "",
    )
