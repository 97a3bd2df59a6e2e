"""What a Spark Connect session sends to the server for a command, and what it refuses before anything is made. No
server is asked.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from tahoe.errors import OperationNotYetSupportedError, UnsupportedOperationError

proto = pytest.importorskip(
    "pyspark.sql.connect.proto", reason="PySpark's Connect needs packages that are not here", exc_type=ImportError
)

from tahoe.spark.api.connect.commands import as_sent, watch  # noqa: E402 - after the packages that it needs
from tahoe.spark.api.connect.data_source import DeltaSource  # noqa: E402

SETTINGS = {
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.databricks.delta.schema.autoMerge.enabled": "true",
    "my.secret": "x",
}


def session(**settings: str) -> SimpleNamespace:
    sent: list[object] = []

    def send(command: object, observations: object = None) -> tuple[object, ...]:
        sent.append(command)
        return (None, {}, observations)

    client = SimpleNamespace(execute_command=send, to_table=send)
    return SimpleNamespace(conf=SimpleNamespace(getAll=settings), client=client, sent=sent)


def write(**fields: object) -> object:
    command = proto.Command()
    operation = command.write_operation
    operation.source = str(fields.pop("source", "delta"))
    operation.path = "/t"
    for name, value in fields.items():
        if isinstance(value, list):
            getattr(operation, name).extend(value)
        else:
            setattr(operation, name, value)
    return command


def sql(text: str) -> object:
    command = proto.Command()
    command.sql_command.input.sql.query = text
    return command


@pytest.mark.parametrize(
    ("mode", "sent", "told"),
    [
        ("SAVE_MODE_UNSPECIFIED", "SAVE_MODE_APPEND", "error"),
        ("SAVE_MODE_ERROR_IF_EXISTS", "SAVE_MODE_APPEND", "error"),
        ("SAVE_MODE_IGNORE", "SAVE_MODE_APPEND", "ignore"),
        ("SAVE_MODE_APPEND", "SAVE_MODE_APPEND", None),
        ("SAVE_MODE_OVERWRITE", "SAVE_MODE_OVERWRITE", None),
    ],
)
def test_a_mode_travels_as_one_that_spark_takes(mode, sent, told):
    operation = as_sent(write(source="Delta", mode=getattr(proto.WriteOperation, mode)), session()).write_operation
    assert operation.mode == getattr(proto.WriteOperation, sent)
    assert operation.options.get("__mode") == told


def test_columns_and_settings_travel_in_options():
    command = write(partitioning_columns=["a", "b,c"], clustering_columns=["d"])
    operation = as_sent(command, session(**SETTINGS)).write_operation
    assert (list(operation.partitioning_columns), list(operation.clustering_columns)) == ([], [])
    assert json.loads(operation.options["__partition_columns"]) == ["a", "b,c"]
    assert json.loads(operation.options["__clustering_columns"]) == ["d"]
    assert json.loads(operation.options["__settings"]) == {name: SETTINGS[name] for name in list(SETTINGS)[:2]}
    assert list(command.write_operation.partitioning_columns) == ["a", "b,c"], (
        "the command that was given is the caller's"
    )


def test_what_is_not_ours_travels_as_it_is():
    others = [
        write(source="parquet", partitioning_columns=["a"]),
        sql("CREATE TABLE t (delta INT) USING parquet"),
        proto.Command(),
    ]
    assert all(as_sent(command, session()) is command for command in others)


MADE = {
    "CREATE TABLE t (id BIGINT) USING delta": "t",
    "create table if not exists a.`b c`.t using DELTA location '/x'": "a.`b c`.t",
    "CREATE OR REPLACE TABLE t USING `delta` AS SELECT 1": "t",
    "-- a comment\nREPLACE TABLE d.t (a INT) PARTITIONED BY (a) USING delta": "d.t",
}


@pytest.mark.parametrize("text", MADE)
def test_a_statement_that_makes_a_name_is_refused(text):
    with pytest.raises(UnsupportedOperationError) as caught:
        as_sent(sql(text), session())
    assert caught.value.parameters["table"] == MADE[text]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'CREATE TABLE t USING delta'",
        "CREATE TABLE t (a INT COMMENT 'USING delta') USING parquet",
        "CREATE TEMPORARY VIEW v USING delta OPTIONS (path '/t')",
        "CREATE TABLE t AS SELECT * FROM a JOIN b USING (delta)",
        "DROP TABLE delta",
        "CREATE TABLE",
        "",
    ],
)
def test_other_statements_are_sent(text):
    command = sql(text)
    assert as_sent(command, session()) is command


def test_calls_that_make_a_name_are_refused():
    saved, created = proto.Command(), proto.Command()
    saved.write_operation.source = "delta"
    saved.write_operation.table.table_name = "saved"
    created.write_operation_v2.provider = "delta"
    created.write_operation_v2.table_name = "created"
    for command, name in ((saved, "saved"), (created, "created")):
        with pytest.raises(UnsupportedOperationError, match=name):
            as_sent(command, session())


def test_a_stream_is_refused():
    command = proto.Command()
    command.write_stream_operation_start.format = "delta"
    with pytest.raises(OperationNotYetSupportedError, match="writeStream"):
        as_sent(command, session())
    with pytest.raises(OperationNotYetSupportedError, match="readStream"):
        DeltaSource({"path": "/t"}).streamReader(None)


def test_buckets_are_refused():
    command = write()
    command.write_operation.bucket_by.num_buckets = 2
    with pytest.raises(UnsupportedOperationError, match="bucketBy"):
        as_sent(command, session())


def test_a_session_is_watched_once_and_says_what_is_refused():
    spark = session()
    watch(spark)
    once = spark.client.execute_command
    watch(spark)
    assert spark.client.execute_command is once
    assert once(write(), {"o": 1}) == (None, {}, {"o": 1})
    assert spark.sent[0].write_operation.options["__mode"] == "error"
    with pytest.raises(UnsupportedOperationError, match="no statement could use the table's name"):
        once(sql("CREATE TABLE t USING delta"))
    plan = proto.Plan()
    plan.root.catalog.create_table.source = "delta"
    plan.root.catalog.create_table.table_name = "of_the_catalog"
    with pytest.raises(UnsupportedOperationError, match="of_the_catalog"):
        spark.client.to_table(plan, {})
    assert len(spark.sent) == 1
