"""What a session, a reader or a writer says of the storage reaches it, and no other reader."""

from __future__ import annotations

import gc
import shutil
import weakref
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tahoe
from tahoe._cached import Recent
from tahoe.errors import StorageOptionsForgottenError
from tahoe.protocol.types.predicate import TRUE
from tahoe.spark.jvm import table_cache
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.plans import leaves, optimised
from tahoe.spark.jvm.table_cache import held_snapshot, hold, open_table, release, scan_of, within_text
from tahoe.storage.background import finish_background
from tahoe.storage.cloud import CloudStore
from tahoe.storage.coordinated import CoordinatedStore
from tahoe.storage.dynamodb import DynamoDBCommitService
from tahoe.table.reading.snapshot import load_snapshot
from tests.table.builders import add, make_log

pytestmark = pytest.mark.every_spark

MINE, THEIRS = {"fs.s3a.access.key": "mine"}, {"fs.s3a.access.key": "theirs"}


def test_the_commit_service_of_the_reference_is_chosen_by_its_settings(spark):
    """A session that was set up for the reference would else write past its other writers."""
    settings = {
        "spark.delta.logStore.s3a.impl": "io.delta.storage.S3DynamoDBLogStore",
        "spark.io.delta.storage.S3DynamoDBLogStore.ddb.tableName": "mine",
        "spark.io.delta.storage.S3DynamoDBLogStore.ddb.region": "eu-west-1",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        store = open_table(spark, "s3a://bucket/served").env.store
        assert isinstance(store, CoordinatedStore)
        assert store.service == DynamoDBCommitService(table_name="mine", region="eu-west-1")
        assert isinstance(open_table(spark, "s3://bucket/served").env.store, CoordinatedStore), "s3 is s3a under Spark"
    finally:
        for name in settings:
            spark.conf.unset(name)
    assert isinstance(open_table(spark, "s3a://bucket/plain").env.store, CloudStore)


def test_the_files_of_a_batch_are_released_with_it() -> None:
    """A query runs for months, so nothing of its batches may stay, and nothing else may go."""
    snapshot, other = load_snapshot(make_log([[add("a"), add("b")]])), load_snapshot(make_log([[add("c")]]))
    files, held = weakref.ref(snapshot.live), hold(snapshot)
    kept = scan_of(other, TRUE)
    for numbers in (None, [1]):
        within = within_text(held, numbers)
        scan_of(held_snapshot(within), TRUE, within)
    del snapshot
    gc.collect()
    assert files() is not None
    release(held)
    gc.collect()
    assert files() is None
    assert scan_of(other, TRUE) is kept


@pytest.mark.parametrize("has_vectors", [False, True], ids=["plain", "vectors"])
@pytest.mark.parametrize("feed", [False, True], ids=["rows", "changes"])
def test_readers_with_other_credentials_do_not_share_them(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch, has_vectors: bool, feed: bool
) -> None:
    table = tahoe.Table(path)
    table.append(
        spark.range(5).toArrow(),
        properties={"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": str(feed).lower()},
    )
    if has_vectors:
        with table.transaction() as changes:
            changes.delete("id = 3")
    options = {"readChangeFeed": "true", "startingVersion": "0"} if feed else {}
    mine, theirs = (spark.read.format("delta").options(**options, **given).load(path) for given in (MINE, THEIRS))
    used: list[Any] = []
    real = table_cache.open_table
    monkeypatch.setattr(table_cache, "open_table", lambda *asked: used.append(asked[2]) or real(*asked))
    for frame, given in [(mine, MINE), (theirs, THEIRS), (mine, MINE)]:
        used.clear()
        assert frame.where("id >= 0").count() == (6 if feed and has_vectors else 5 - has_vectors)
        assert used, "nothing was opened"
        assert all(asked == given for asked in used)
        for leaf in leaves(Gateway(spark), optimised(frame)):
            assert given.items() <= Gateway(spark).dict(leaf.relation().options()).items(), (
                "rows are read with them too"
            )


def test_a_query_runs_on_the_snapshot_that_it_was_planned_with(spark: SparkSession, path: str) -> None:
    """Deletion vectors are applied by the numbers of files, and another snapshot of the version may number them
    otherwise.
    """
    tahoe.Table(path).append(spark.range(5).toArrow())
    tables = [open_table(spark, path, given) for given in (None, MINE, THEIRS)]
    planned = [table_cache.remember(table.snapshot()) for table in tables]
    assert len({id(snapshot) for snapshot in planned}) == 3
    assert all(table_cache.snapshot_of(table, 0) is snapshot for table, snapshot in zip(tables, planned, strict=True))
    renewed = open_table(spark, path, {"fs.s3a.access.key": "renewed"})
    assert table_cache.snapshot_of(renewed, 0) is planned[-1]


def test_a_copy_in_the_place_of_a_table_is_read_anew(spark: SparkSession, path: str) -> None:
    """It has the table's id and versions, but another commit in the last version: a backup that was restored, and
    written to.
    """
    backup, query = f"{path}-backup", f"SELECT count(*) FROM delta.`{path}` WHERE id >= 0"
    spark.range(10).write.format("delta").save(path)
    finish_background()  # nothing comes to the log while it is copied
    shutil.copytree(path, backup)
    spark.range(10, 20).write.format("delta").mode("append").save(path)
    assert spark.sql(query).collect() == [(20,)]
    shutil.rmtree(path)
    shutil.copytree(backup, path)
    spark.range(10, 15).write.format("delta").mode("append").save(path)
    assert spark.sql(query).collect() == [(15,)]


def test_a_plan_is_never_read_with_other_credentials_than_its_own(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options are kept for the newest thousand readers that have some; those of the session do not take their place."""
    tahoe.Table(path).append(spark.range(5).toArrow())
    monkeypatch.setattr(table_cache, "OPTIONS_MAX", 1)
    monkeypatch.setattr(table_cache, "_storage_options", Recent(1))
    mine = spark.read.format("delta").options(**MINE).load(path).where("id >= 0")
    assert mine.count() == 5
    spark.read.format("delta").options(**THEIRS).load(path)
    with pytest.raises(StorageOptionsForgottenError, match="1 other sets of options"):
        mine.where("id > 1").count()
    assert spark.read.format("delta").options(**MINE).load(path).count() == 5
