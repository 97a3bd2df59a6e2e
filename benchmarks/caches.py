"""What does each cache save? One operation with the cache, and with a cache that keeps nothing, in turns.

`docs/ARCHITECTURE.md` lists the caches with these figures. What is not worth keeping is not kept.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.logs import write_checkpointed_table
from benchmarks.measure import FOLDER, ROUNDS, Comparison, report
from benchmarks.worker import session
from tahoe import Table
from tahoe._cached import Recent
from tahoe.protocol.log import file_paths
from tahoe.protocol.types.predicate import Column, Literal
from tahoe.protocol.types.predicate import Comparison as IsAbove
from tahoe.spark.jvm import file_writer, table_cache
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.reading import data_files, deletion_vectors
from tahoe.storage import cloud, dynamodb
from tahoe.table.arrow.statistics import StatisticsCache
from tahoe.table.log.grouped_part import GroupedFile
from tahoe.table.reading import physical_rows

NOTHING = "without this cache"
FILES = 1_000_000
VERSIONS = 2_000


_copies = itertools.count()


class Forgetful(dict[Any, Any]):
    """A dictionary that never has a key when it is asked."""

    def __contains__(self, key: object) -> bool:
        return False


def case(question: str, run: Callable[[], object], *without: Any, times: int = 1) -> Comparison:
    """Time `run` with a cache and, with the patches of `without`, without it."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for number in range(ROUNDS + 1):
        for kept in (True, False) if number % 2 else (False, True):
            for patch in () if kept else without:
                patch.start()
            began = time.perf_counter()
            for _ in range(times):
                run()
            if number:
                seconds[kept].append((time.perf_counter() - began) / times * 1000)
            for patch in () if kept else without:
                patch.stop()
    return Comparison(question=question, peer=NOTHING, ours=seconds[True], theirs=seconds[False], unit="ms")


def run() -> list[Comparison]:
    folder = FOLDER / "caches"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    spark = session("tahoe", str(folder), "")
    try:
        return [*_without_spark(folder), *_in_spark(spark, folder)]
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _without_spark(folder: Path) -> Iterator[Comparison]:
    large = folder / "large"
    write_checkpointed_table(large, FILES)
    snapshot = Table(str(large)).snapshot()
    yield case(
        f"typed statistics: a filter on {FILES:,} files",
        lambda: snapshot.scan("l_partkey > 100000").kept_files,
        mock.patch.object(StatisticsCache, "answer", lambda _, request, read: read(request)),
    )
    with Table(str(large)).transaction() as changes:
        changes.set_properties({"written.by": "tahoe"})
    Table(str(large)).create_checkpoint()  # in an order, so that a filter needs one row group
    narrow = Table(str(large)).snapshot()
    yield case(
        f"row groups of a checkpoint: a filter that needs one, of {FILES:,} files",
        lambda: narrow.scan("l_orderkey = 5").listing(["path"]),
        mock.patch.object(GroupedFile, "group", _fresh_group),
    )
    many = folder / "many"
    _make_versions(many, VERSIONS)
    yield case(
        f"commits of a command: a dry run of VACUUM over {VERSIONS:,} versions",
        lambda: Table(str(many)).vacuum(dry_run=True),
        mock.patch("tahoe.table.log.kept_commits._BYTES_MAX", -1),
    )
    wide = folder / "wide"
    Table(str(wide)).append(pa.table({f"c{n}": list(range(400_000)) for n in range(20)}))
    yield case(
        "columns of a file: an UPDATE whose condition has 10 of 20 columns",
        lambda: _updated(wide, " AND ".join(f"c{n} >= 0" for n in range(10)) + " AND c0 % 7 = 0"),
        mock.patch.object(physical_rows, "_KEPT_BYTES_MAX", -1),
    )
    paths = [f"file:///lake/source/day={day}/part-{n}.parquet" for day in range(1000) for n in range(100)]
    yield case(
        "folders of paths: 100,000 absolute paths in 1,000 folders",
        lambda: [file_paths.canonical_key(path, "file:///lake/table") for path in paths],
        mock.patch.object(file_paths, "_folder_key", file_paths._folder_key.__wrapped__),
    )
    yield case(
        "folders of paths: their urls",
        lambda: [file_paths.resolve_path(path, "file:///lake/table") for path in paths],
        mock.patch.object(file_paths, "_resolved_folder", file_paths._resolved_folder.__wrapped__),
    )
    single = [f"file:///lake/source/{n}/" for n in range(100_000)]
    yield case(
        "urls of tables: 100,000 absolute paths, each in another folder",
        lambda: [file_paths.canonical_key(path, "file:///lake/table") for path in single],
        mock.patch.object(file_paths, "_split", file_paths._split.__wrapped__),
    )
    options = (("aws_access_key_id", "x"), ("aws_secret_access_key", "x"), ("aws_region", "eu-west-1"))
    yield case(
        "clients of object stores: open a bucket",
        lambda: cloud._open_bucket("s3", "bucket", options),
        mock.patch.object(cloud, "_open_bucket", cloud._open_bucket.__wrapped__),
        times=10,
    )
    service = dynamodb.DynamoDBCommitService(access_key_id="x", secret_access_key="x")
    yield case(
        "clients of the commit service: make one",
        lambda: dynamodb._client_of_process(service, 0),
        mock.patch.object(dynamodb, "_client_of_process", dynamodb._client_of_process.__wrapped__),
    )
    schema = {"type": "struct", "fields": [_field(n) for n in range(500)]}
    table = json.dumps({"mode": "name", "schema": json.dumps(schema)})
    yield case(
        "schemas of formats: the physical schema of 500 columns",
        lambda: data_files.physical_schema_json(table, json.dumps(schema)),
        mock.patch.object(data_files, "_mode_and_schema", data_files._mode_and_schema.__wrapped__),
    )


def _make_versions(folder: Path, versions: int) -> None:
    """A table whose newest versions are no checkpoint's."""
    table = Table(str(folder))
    rows = pa.table({"id": list(range(100))})
    table.append(rows, properties={"delta.checkpointInterval": "1000000"})
    table.append(rows)
    log = folder / "_delta_log"
    commit = (log / f"{1:020}.json").read_text()
    (name,) = re.findall(r"part-[^\"]*\.parquet", commit)[:1]
    for version in range(2, versions):
        shutil.copy(folder / name, folder / f"{version}.parquet")
        (log / f"{version:020}.json").write_text(commit.replace(name, f"{version}.parquet"))


def _fresh_group(file: GroupedFile, group: int) -> Any:
    part = file.fresh(group)
    part.load(["path"])
    return part


def _updated(table: Path, where: str) -> None:
    copy = table.with_name(f"copy-{next(_copies)}")
    shutil.copytree(table, copy)
    Table(str(copy)).update({"c1": "c2 + 1"}, where)
    shutil.rmtree(copy, ignore_errors=True)


def _field(number: int) -> dict[str, Any]:
    metadata = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"p{number}"}
    return {"name": f"c{number}", "type": "long", "nullable": True, "metadata": metadata}


def _in_spark(spark: SparkSession, folder: Path) -> Iterator[Comparison]:
    path = str(folder / "many")
    yield case(
        f"tables: open one with {VERSIONS:,} versions",
        lambda: table_cache.open_table(spark, path).snapshot().live.size_bytes,
        mock.patch.object(table_cache, "_tables", Recent(0)),
    )
    yield case(
        "snapshots: an earlier version, when a query is planned and when it runs",
        lambda: [
            table_cache.snapshot_of(table_cache.open_table(spark, path), VERSIONS - 9).live.size_bytes for _ in range(2)
        ],
        mock.patch.object(table_cache, "_snapshots", Recent(0)),
    )
    snapshot = table_cache.open_table(spark, str(folder / "large")).snapshot()
    condition = IsAbove(">", Column(("l_orderkey",)), Literal(5))
    yield case(
        f"scans: a filter on {FILES:,} files, when a query is planned and when it runs",
        lambda: [table_cache.scan_of(snapshot, condition).kept_files for _ in range(2)],
        mock.patch.object(table_cache, "_scans", Recent(0)),
    )
    spark.sql(f"alter table delta.`{path}` set tblproperties ('delta.enableChangeDataFeed' = 'true')")
    for _ in range(20):
        Table(path).append(pa.table({"id": list(range(100))}))
    first = Table(path).version - 19
    yield case(
        "change feeds: a feed of 20 versions, analysed, planned and run",
        lambda: spark.read.format("delta").options(readChangeFeed="true", startingVersion=first).load(path).collect(),
        mock.patch.object(table_cache, "_feeds", Recent(0)),
    )
    marked = str(folder / "marked")
    spark.range(0, 10_000_000, 1, 20).write.format("delta").option("delta.enableDeletionVectors", "true").save(marked)
    spark.sql(f"delete from delta.`{marked}` where id % 7 = 1")
    yield case(
        "deletion vectors: a sum over 20 files that have one",
        lambda: spark.read.format("delta").load(marked).selectExpr("sum(id)").collect(),
        mock.patch.object(deletion_vectors, "_kept", Recent(0)),
        mock.patch.object(deletion_vectors, "_marks", Recent(0)),
    )
    gateway = Gateway(spark)
    package = gateway.module("org.apache.spark.sql.execution.datasources.FileFormatWriter")
    yield case(
        "parameters of Spark's methods: the default values of one",
        lambda: file_writer._defaults(gateway, package, "write", 10),
        mock.patch.object(file_writer, "_parameter_counts", Forgetful()),
    )


if __name__ == "__main__":
    report(*run())
