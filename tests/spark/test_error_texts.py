"""What users are told where something is not possible: in a sentence, about what they wrote, and with nothing left
behind.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import tahoe
from tahoe import DeltaTable
from tahoe.errors import (
    AppendOnlyTableError,
    CheckConstraintViolatedError,
    ColumnNotFoundError,
    ConcurrentAppendException,
    DeltaError,
    NotNullViolationError,
    OperationNotAllowedError,
    PathIsFileError,
    ReplaceWhereMismatchError,
    WriteFailedError,
)
from tahoe.protocol.types.schema import LONG, Field, Struct
from tahoe.spark.dml.row_changes import RowChange
from tahoe.spark.jvm.failures import for_user
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.writing.data_writer import translating_failures
from tahoe.spark.writing.store_assignment import Refusals
from tahoe.storage.background import finish_background
from tahoe.table.writing.planning import plan_write
from tahoe.table.writing.write_request import WriteRequest

FAILS = "if(id = 2, raise_error('boom'), id)"


@pytest.fixture
def t(spark: SparkSession, path: str) -> str:
    """A table of one file."""
    spark.range(10).coalesce(1).write.format("delta").save(path)
    finish_background()  # so that nothing comes to its files by itself
    return path


# --- hints


def test_a_hint_is_told_under_spark_too() -> None:
    """The exception for users of Spark is another object, made of the error's parameters: it has the same words."""
    missing = ColumnNotFoundError(table="t", column="amout", columns="id, amount")
    hinted = ColumnNotFoundError(table="t", column="z", columns="id").suggesting("Look again.")
    for error, hint in ((missing, "Did you mean amount?"), (hinted, "Look again.")):
        raised = for_user(error)
        assert isinstance(raised, AnalysisException)
        for same in (raised, pickle.loads(pickle.dumps(raised))):
            assert hint in str(same)
            assert str(same) == str(error) == same.getMessage()
            assert same.next_step == error.next_step


# --- what is left behind


def test_a_table_that_cannot_be_made_leaves_no_folder(spark: SparkSession, path: str, table_name: str) -> None:
    warehouse = Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"))
    broken = f"SELECT /*+ COALESCE(1) */ id, {FAILS} AS x FROM range(4)"
    with pytest.raises(SparkRuntimeException, match="boom"):
        spark.sql(f"CREATE TABLE {table_name} USING delta PARTITIONED BY (id) AS {broken}")
    with pytest.raises(SparkRuntimeException, match="boom"):
        spark.sql(f"CREATE OR REPLACE TABLE {table_name} USING delta AS {broken}")
    with pytest.raises(SparkRuntimeException, match="boom"):
        spark.sql(broken).write.format("delta").saveAsTable(table_name)
    with pytest.raises(SparkRuntimeException, match="boom"):
        spark.sql(broken).write.format("delta").save(path)
    assert not (warehouse / table_name).exists()
    assert not Path(path).exists()


def test_a_table_that_cannot_be_replaced_stays_as_it_is(spark: SparkSession, t: str) -> None:
    before = sorted(Path(t).rglob("*"))
    with pytest.raises(SparkRuntimeException, match="boom"):
        spark.sql(
            f"CREATE OR REPLACE TABLE delta.`{t}` USING delta AS SELECT /*+ COALESCE(1) */ {FAILS} AS x FROM range(4)"
        )
    assert [path for path in sorted(Path(t).rglob("*")) if path.is_file()] == [
        path for path in before if path.is_file()
    ]
    assert spark.read.format("delta").load(t).count() == 10


# --- what happened


def test_the_cause_of_a_failure_to_write_is_told(spark: SparkSession, path: str) -> None:
    with pytest.raises(WriteFailedError, match=r"It was caused by java\.io\.IOException: Mkdirs failed"):
        spark.range(1).select("id", F.lit("x" * 300).alias("p")).write.format("delta").partitionBy("p").save(path)


def test_a_worker_that_dies_while_rows_are_searched_is_told(spark: SparkSession, t: str) -> None:
    spark.udf.register("dies", lambda _: os._exit(13), "boolean")
    with pytest.raises(WriteFailedError, match=f"{t}.* nothing was committed.*Python worker exited"):
        spark.sql(f"DELETE FROM delta.`{t}` WHERE dies(id)")
    with pytest.raises(WriteFailedError, match="Python worker exited"):
        spark.sql(
            f"MERGE INTO delta.`{t}` t USING (SELECT id FROM range(3) WHERE dies(id)) s ON t.id = s.id WHEN "
            f"MATCHED THEN DELETE"
        )


def test_a_session_that_is_stopped_in_a_command_hides_nothing(
    spark: SparkSession, t: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = sorted(Path(t).rglob("*"))

    def stopped(*_: object, **__: object) -> None:
        monkeypatch.setattr(spark.sparkContext, "_jsc", None)
        raise ConcurrentAppendException(table=t, winner="version 1", detail="a row was added")

    monkeypatch.setattr(RowChange, "commit", stopped)
    with pytest.raises(ConcurrentAppendException):
        DeltaTable.forPath(spark, t).delete("id = 3")
    monkeypatch.undo()
    assert sorted(Path(t).rglob("*")) == files


def test_a_mistake_of_ours_is_no_failure_of_a_job(tmp_path: Path, spark: SparkSession) -> None:
    plan = plan_write(
        tahoe.Table(tmp_path / "t"), WriteRequest(mode="append", schema=Struct((Field(name="id", type=LONG),)))
    )
    assert plan is not None
    with pytest.raises(ZeroDivisionError), translating_failures(plan, Refusals(plan.url)):
        _ = 1 // 0
    with pytest.raises(Exception, match="no_such_method") as found, translating_failures(plan, Refusals(plan.url)):
        Gateway(spark).session.no_such_method()
    assert not isinstance(found.value, DeltaError)
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"), translating_failures(plan, Refusals(plan.url)):
        spark.range(1).select("no_such_column")


def test_buckets_are_refused_by_name(spark: SparkSession, table_name: str) -> None:
    with pytest.raises(OperationNotAllowedError, match="Bucketing is not supported"):
        spark.range(4).write.format("delta").bucketBy(2, "id").sortBy("id").saveAsTable(table_name)
    with pytest.raises(OperationNotAllowedError, match="Bucketing is not supported"):
        spark.range(4).write.format("delta").bucketBy(2, "id").saveAsTable(table_name)
    with pytest.raises(OperationNotAllowedError, match="Bucketing is not supported"):
        spark.sql(f"CREATE TABLE {table_name} (id INT) USING delta CLUSTERED BY (id) SORTED BY (id) INTO 2 BUCKETS")
    assert not spark.catalog.tableExists(table_name)


def test_a_path_that_is_a_file_is_told_so(spark: SparkSession, t: str) -> None:
    file = next(path for path in os.listdir(t) if path.endswith(".parquet"))
    with pytest.raises(PathIsFileError):
        spark.read.format("delta").load(f"{t}/{file}")
    with pytest.raises(PathIsFileError):
        spark.sql(f"SELECT * FROM delta.`{t}/{file}`").collect()
    with pytest.raises(PathIsFileError):
        spark.range(1).write.format("delta").mode("append").save(f"{t}/{file}")


# --- in what words


def test_no_column_of_ours_is_suggested(spark: SparkSession, t: str) -> None:
    table = tahoe.DeltaTable.forPath(spark, t)
    source = spark.range(3).alias("s")
    asked: list[Any] = [
        lambda: table.alias("t").merge(source, "t.idd = s.id").whenMatchedDelete().execute(),
        lambda: table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdate("plaec = 1", {"id": "s.id"}).execute(),
        lambda: table.update("tahoe_place = 1", {"id": "1"}),
        lambda: table.update("true", {"id": "tahoe_plac"}),
        lambda: table.delete("tahoe_place = 1"),
        lambda: (
            spark.range(3).write.format("delta").mode("overwrite").option("replaceWhere", "tahoe_place = 1").save(t)
        ),
    ]
    for ask in asked:
        with pytest.raises(AnalysisException) as found:
            ask()
        told = [str(found.value), found.value.getMessage(), str(found.value.getMessageParameters())]
        assert not [text for text in told if "__tahoe" in text]
        assert found.value.getCondition() in (
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
            "DELTA_INVALID_PREDICATE",
            "DELTA_COLUMN_NOT_FOUND",
        )


def history(spark: SparkSession, path: str) -> dict[str, Any]:
    (row,) = spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").collect()
    return dict(row["operationParameters"])


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("id IN (SELECT id FROM range(2))", "(id IN (SELECT id FROM range(2)))"),
        ("id < 5 AND EXISTS (SELECT 1)", "EXISTS (SELECT 1)"),
        ("id = (SELECT max(id) FROM range(2))", "(SELECT max(id) FROM range(2))"),
    ],
)
def test_the_history_has_the_subquery_of_a_condition(spark: SparkSession, t: str, condition: str, told: str) -> None:
    spark.sql(f"DELETE FROM delta.`{t}` WHERE {condition}")
    assert told in history(spark, t)["predicate"]
    tahoe.DeltaTable.forPath(spark, t).update(condition.replace("id < 5", "id < 50"), {"id": "id"})
    assert told in history(spark, t)["predicate"]


# --- how loudly


@contextmanager
def logged(spark: SparkSession) -> Iterator[Any]:
    """What Spark's log says meanwhile."""
    core, writer = Gateway(spark).jvm.org.apache.logging.log4j.core, Gateway(spark).jvm.java.io.StringWriter()
    root = Gateway(spark).jvm.org.apache.logging.log4j.LogManager.getContext(False).getConfiguration().getRootLogger()
    layout = core.layout.PatternLayout.createDefaultLayout()
    appender = core.appender.WriterAppender.createAppender(layout, None, writer, "captured", False, True)
    appender.start()
    root.addAppender(appender, None, None)
    try:
        yield writer
    finally:
        root.removeAppender("captured")


def test_a_row_that_is_refused_makes_no_noise(spark: SparkSession, path: str) -> None:
    columns = "id LONG NOT NULL, g LONG GENERATED ALWAYS AS (id + 1), x LONG, CONSTRAINT small CHECK (id < 100)"
    spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta")

    def append(row: str, **options: str) -> None:
        mode = "overwrite" if options else "append"
        spark.sql(f"SELECT {row}").write.format("delta").mode(mode).options(**options).save(path)

    with logged(spark) as log:
        with pytest.raises(ReplaceWhereMismatchError, match="id = 1"):
            append("5L AS id, 0L AS x", replaceWhere="id = 1")
        with pytest.raises(CheckConstraintViolatedError):
            append("500L AS id, 0L AS x")
        with pytest.raises(NotNullViolationError):
            append("if(rand() < 2, null, 1L) AS id, 0L AS x")
        with pytest.raises(DeltaError):
            append("1L AS id, 3L AS g, 0L AS x")
        with pytest.raises(AppendOnlyTableError):
            spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
            spark.sql(f"CREATE OR REPLACE TABLE delta.`{path}` USING delta AS SELECT 1 AS id")
        told = str(log)
        assert "\tat " not in told
        with pytest.raises(SparkRuntimeException):
            append("raise_error('boom') AS id, 0L AS x")
        assert "boom" in str(log), "any other failure is told in full"
        assert "\tat " in str(log)
