"""What settings of a session say about its storage: the local cache, and who decides commits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tahoe.errors import InvalidOptionError
from tahoe.spark.configuration.local_cache import session_cache
from tahoe.spark.jvm import table_cache
from tahoe.storage.cache.block_cache import BlockCache, block_cache
from tahoe.storage.cache.cached_store import CachedStore
from tests.spark.any_storage import append, ids, load
from tests.spark.hadoop_file_systems import install

ENABLED, FOLDER = "spark.databricks.io.cache.enabled", "spark.tahoe.cache.folder"


@pytest.fixture
def url(spark: SparkSession, tmp_path: Path) -> str:
    """Of a table in a file system that only Hadoop has, with two files that are old enough to be kept."""
    install(spark)
    return f"strict://{tmp_path}/t"


@pytest.fixture
def cache(spark: SparkSession, tmp_path: Path) -> Iterator[BlockCache]:
    spark.conf.set(FOLDER, str(tmp_path / "cache"))
    yield block_cache(str(tmp_path / "cache"), 50 << 30, False)
    spark.conf.unset(FOLDER)


def test_a_session_reads_a_log_through_its_cache(
    spark: SparkSession, url: str, cache: BlockCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tahoe.storage.cache.cached_store._SETTLED_MS", -60_000)  # these files have no ETags
    append(spark.range(5), url)
    append(spark.range(5, 9), url)
    for _ in range(2):
        table_cache._tables.drop(lambda _: True)
        table_cache._snapshots.drop(lambda _: True)
        assert ids(load(spark, url)) == list(range(9))
    assert cache.metrics().hits > 0
    append(spark.range(9, 12), url)
    assert ids(load(spark, url)) == list(range(12))


@pytest.mark.usefixtures("cache")
def test_a_setting_turns_it_off(spark: SparkSession, url: str) -> None:
    assert isinstance(table_cache.open_table(spark, url).env.store, CachedStore)
    spark.conf.set(ENABLED, "false")
    try:
        assert not isinstance(table_cache.open_table(spark, url).env.store, CachedStore)
    finally:
        spark.conf.unset(ENABLED)


def test_the_names_of_databricks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    settings = {
        ENABLED: "true",
        "spark.databricks.io.cache.maxDiskUsage": "2g",
        "spark.databricks.io.cache.maxMetaDataCache": "1g",
        "spark.databricks.io.cache.compression.enabled": "true",
    }
    found = session_cache(settings, "t")
    assert found is not None
    assert (found.folder, found.bytes_max, found.compresses) == (tmp_path / "tahoe", 3 << 30, True)
    assert session_cache({}, "t") is None
    with pytest.raises(InvalidOptionError, match=r"io\.cache\.maxDiskUsage"):
        session_cache({**settings, "spark.databricks.io.cache.maxDiskUsage": "much"}, "t")


def test_a_class_that_commits_otherwise_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    append(spark.range(3), str(tmp_path / "t"))
    spark.conf.set("spark.delta.logStore.class", "com.example.Mine")
    try:
        with pytest.raises(Exception, match="DELTA_UNKNOWN_LOG_STORE"):
            append(spark.range(3), str(tmp_path / "t"))
    finally:
        spark.conf.unset("spark.delta.logStore.class")
    assert ids(load(spark, str(tmp_path / "t"))) == [0, 1, 2]
