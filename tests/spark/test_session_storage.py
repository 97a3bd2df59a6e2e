"""What settings of a session say about its storage: the local cache, and options of stores of one's own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tahoe.errors import InvalidOptionError
from tahoe.spark.configuration.local_cache import session_cache
from tahoe.spark.jvm import table_cache
from tahoe.spark.jvm.hadoop_store import HadoopStore
from tahoe.storage import schemes
from tahoe.storage.cache.block_cache import BlockCache, block_cache
from tahoe.storage.cache.cached_store import CachedStore
from tahoe.storage.memory import MemoryStore
from tahoe.table.table import Table
from tests.spark.hadoop_file_systems import install
from tests.storage.servers import hadoop_options, s3_server

ENABLED, FOLDER = "spark.databricks.io.cache.enabled", "spark.tahoe.cache.folder"


URL = "s3a://lake/t"


@pytest.fixture
def cache(spark: SparkSession, tmp_path: Path) -> Iterator[BlockCache]:
    spark.conf.set(FOLDER, str(tmp_path / "cache"))
    yield block_cache(str(tmp_path / "cache"), 50 << 30, False)
    spark.conf.unset(FOLDER)


@pytest.mark.server
def test_a_session_reads_a_log_through_its_cache(spark: SparkSession, cache: BlockCache) -> None:
    with s3_server() as server:
        url = server.url.replace("s3:", "s3a:") + "/t"
        Table(url, server.options).append(pa.table({"id": range(5)}))
        for turn in range(2):
            table_cache._tables.drop(lambda _: True)
            assert table_cache.open_table(spark, url, hadoop_options(server)).count() == 5
            assert bool(cache.metrics().hits) == bool(turn)


def test_a_setting_turns_it_off(spark: SparkSession, cache: BlockCache) -> None:
    assert table_cache.open_table(spark, URL).env.store.blocks is cache  # type: ignore[attr-defined]
    spark.conf.set(ENABLED, "false")
    try:
        assert not isinstance(table_cache.open_table(spark, URL).env.store, CachedStore)
    finally:
        spark.conf.unset(ENABLED)


def test_what_hadoop_alone_reads_is_not_cached(spark: SparkSession, tmp_path: Path) -> None:
    """Its files have no ETags, and whoever may not read one can still see it."""
    install(spark)
    spark.conf.set(FOLDER, str(tmp_path / "cache"))
    try:
        assert isinstance(table_cache.open_table(spark, f"strict://{tmp_path}/t").env.store, HadoopStore)
    finally:
        spark.conf.unset(FOLDER)


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


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.databricks.io.cache.maxDiskUsage", "1m"),
        ("spark.databricks.io.cache.maxDiskUsage", "0"),
        *((FOLDER, folder) for folder in ("s3://lake/x", "file:/ssd/cache", "dbfs:/local_disk0", "/ssd/caf\udce9")),
    ],
)
def test_a_cache_that_cannot_be_is_refused_by_the_name_that_the_user_gave(setting: str, value: str) -> None:
    """A url would be taken for a path in the program's own folder, and Spark's JVM cannot name what is not UTF-8."""
    with pytest.raises(InvalidOptionError, match=re.escape(setting)):
        session_cache({FOLDER: "/ssd/cache", setting: value}, "t")


def test_a_folder_without_a_name_is_none() -> None:
    assert session_cache({FOLDER: " "}, "t") is None


def test_the_options_of_a_store_of_ones_own(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemes, "_factories", {})
    asked: list[tuple[str, dict[str, str]]] = []

    def opened(url: str, options: Mapping[str, str]) -> MemoryStore:
        asked.append((url, dict(options)))
        return MemoryStore("memory://own/" + url.partition("://")[2])

    schemes.register("own", opened)
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.own.timeout", "5")
    try:
        table_cache.open_table(spark, "own://lake/t", {"fs.own.database": "x.db", "mergeSchema": "true"})
    finally:
        hadoop.unset("fs.own.timeout")
    assert asked == [("own://lake/t", {"timeout": "5", "database": "x.db"})]
