"""The reference implementation as a server: one Spark session with its jars, which answers requests in JSON lines on
stdin and stdout.

It runs in an environment of its own (requirements/reference.txt) and so knows nothing of tahoe. Tables of rows go
through Arrow files in the folder given, because Spark's and Python's logs would mix with anything larger on a pipe.

    {"op": "run", "statements": [...]}                               run for what they do
    {"op": "sql", "text": ...}                                       -> {"arrow": file}
    {"op": "read", "path": ..., "options": {}, "columns": [...]}     -> {"arrow": file}
    {"op": "write", "path": ..., "parquet": file, "mode": ..., "partition_by": [...], "options": {}}
    {"op": "create", "path": ..., "columns": [{"name", "type", ...}], "partition_by": [...], "cluster_by": [...], "properties": {}}
    {"op": "delta_table", "path": ..., "call": {...}}                -> {"rows": [...]}; for calls see tests/dml/calls.py
    {"op": "complaint", "path": ..., "code": ...}                    -> {"complaint": [class, message] or null}
    {"op": "writes", "writes": [...]}                                -> {"refusals": [...]}; for writes see tests/interop/writes.py
    {"op": "stream", "query": {...}, "one_batch": ...}               run a query until it ends; for queries see tests/interop/queries.py
    {"op": "set", "settings": {name: value or null}}                 -> {"before": {...}}
"""

from __future__ import annotations

import glob
import json
import os
import sys
from typing import Any

import pyarrow as pa
from delta import DeltaTable
from delta.tables import IdentityGenerator
from pyspark.sql import DataFrame, SparkSession

from tests.dml.calls import complaint, make
from tests.interop import queries
from tests.interop.writes import run_all

# It keeps what it knows of each table for an hour, which after some hundreds of them leaves it no memory.
FORGETS_EVERY = 100


def start_session(jars: str, scratch: str, more_jars: list[str], more_settings: dict[str, str]) -> SparkSession:
    """A session small enough to run beside another one."""
    settings = {
        "spark.jars": ",".join([*sorted(glob.glob(os.path.join(jars, "*.jar"))), *more_jars]),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": os.path.join(scratch, "warehouse"),
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch} -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # VACUUM lists in that many tasks, 10,000 by default
        "spark.ui.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",  # compiling takes a fifth of its time; its tables are small
        "spark.log.level": "ERROR",
        **more_settings,
    }
    builder = SparkSession.builder.master("local[2]").appName("reference")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class Server:
    """Answers one request at a time."""

    def __init__(self, spark: SparkSession, scratch: str) -> None:
        self.spark = spark
        self.scratch = scratch
        self.answers = self.requests = 0

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        self.requests += 1
        if self.requests % FORGETS_EVERY == 0:
            self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        operation = request.pop("op")
        result: dict[str, Any] = getattr(self, f"on_{operation}")(**request)
        return result

    def on_run(self, statements: list[str]) -> dict[str, Any]:
        for text in statements:
            self.spark.sql(text)
        return {}

    def on_sql(self, text: str) -> dict[str, Any]:
        return {"arrow": self.to_file(self.spark.sql(text))}

    def on_read(self, path: str, options: dict[str, str], columns: list[str] | None) -> dict[str, Any]:
        frame = self.spark.read.format("delta").options(**options).load(path)
        return {"arrow": self.to_file(frame.selectExpr(*columns) if columns else frame)}

    def on_write(
        self, path: str, parquet: str, mode: str, partition_by: list[str], options: dict[str, str]
    ) -> dict[str, Any]:
        self.spark.read.parquet(parquet).write.format("delta").mode(mode).partitionBy(*partition_by).options(
            **options
        ).save(path)
        return {}

    def on_create(
        self,
        path: str,
        columns: list[dict[str, Any]],
        partition_by: list[str],
        cluster_by: list[str],
        properties: dict[str, str],
    ) -> dict[str, Any]:
        table = DeltaTable.create(self.spark).location(path)
        for column in columns:
            identity, always = column.get("identity"), column.get("identity_always")
            generated = IdentityGenerator(**identity) if identity is not None else None
            table = table.addColumn(
                column["name"],
                column["type"],
                nullable=column.get("nullable", True),
                generatedAlwaysAs=column.get("generated") if always is None else IdentityGenerator(**always),
                generatedByDefaultAs=generated,
            )
        if partition_by:
            table = table.partitionedBy(*partition_by)
        if cluster_by:
            table = table.clusterBy(*cluster_by)
        for name, value in properties.items():
            table = table.property(name, value)
        table.execute()
        return {}

    def on_delta_table(self, path: str, call: dict[str, Any]) -> dict[str, Any]:
        return {"rows": make(self.spark, DeltaTable, path, call)}

    def on_complaint(self, path: str, code: str) -> dict[str, Any]:
        return {"complaint": complaint(self.spark, DeltaTable, path, code)}

    def on_writes(self, writes: list[dict[str, Any]]) -> dict[str, Any]:
        return {"refusals": run_all(self.spark, DeltaTable, writes)}

    def on_stream(self, query: dict[str, Any], one_batch: bool) -> dict[str, Any]:
        queries.run(self.spark, queries.Query(**query), one_batch)
        return {}

    def on_set(self, settings: dict[str, str | None]) -> dict[str, Any]:
        before = {name: self.spark.conf.get(name, None) for name in settings}
        for name, value in settings.items():
            if value is None:
                self.spark.conf.unset(name)
            else:
                self.spark.conf.set(name, value)
        return {"before": before}

    def to_file(self, frame: DataFrame) -> str:
        # DataFrame.toArrow would be this and a cast, which fails for a variant that is null.
        batches = frame._collect_as_arrow(empty_list_if_zero_records=False)
        table = pa.Table.from_batches(batches)
        self.answers += 1
        path = os.path.join(self.scratch, f"answer-{self.answers}.arrow")
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return path


def main() -> None:
    jars, scratch, more = sys.argv[1:]
    # Java inherits file 1 and may print there: answers go to a copy, and what was standard output goes to standard
    # error.
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    spark = start_session(jars, scratch, **{f"more_{name}": value for name, value in json.loads(more).items()})
    server = Server(spark, scratch)
    print(json.dumps({"ready": spark.version}), file=channel, flush=True)
    for line in sys.stdin:
        try:
            answer = server.answer(json.loads(line))
        except Exception as error:
            condition = getattr(error, "getCondition", lambda: None)()
            answer = {"error": f"{type(error).__name__}: {error}", "condition": condition}
        print(json.dumps(answer), file=channel, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
