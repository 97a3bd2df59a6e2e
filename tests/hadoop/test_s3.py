"""Spark on S3: Hadoop's file system moves the rows and tahoe's store the log, by the same settings of Hadoop's. `make
interop-s3`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import deltalake
import pytest
from pyspark.sql import SparkSession

import tahoe
from tahoe import DeltaTable
from tahoe.errors import StorageUnavailableError
from tahoe.spark.jvm import table_cache
from tahoe.spark.jvm.executor_cache import metrics_of_tasks
from tahoe.storage import cloud
from tahoe.storage.cache.configuration import opened_cache
from tests.hadoop.conftest import jars, session
from tests.spark.any_storage import append, ids, load
from tests.spark.test_in_any_storage import *  # noqa: F403  what every storage must do
from tests.storage.servers import (
    BUCKET,
    S3_SERVER,
    Server,
    ServerProcess,
    hadoop_options,
    make_bucket,
    s3_server_to_kill,
)

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="session")
def s3_and_process() -> Iterator[tuple[Server, ServerProcess]]:
    with s3_server_to_kill() as found:
        yield found


@pytest.fixture(scope="session")
def s3(s3_and_process: tuple[Server, ServerProcess]) -> Server:
    return s3_and_process[0]


@pytest.fixture(scope="session")
def spark(s3: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with session(tmp_path_factory.mktemp("spark"), jars("s3"), hadoop_options(s3)) as spark:
        yield spark


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> str:
    return f"s3a://{BUCKET}/{request.node.name}"


def test_other_readers_see_the_table(spark: SparkSession, s3: Server, folder: str) -> None:
    """Without Spark by tahoe, with its own options and with Hadoop's, and by delta-rs, which takes a %41 in a url for
    an A.
    """
    url = f"{folder}/t ü+=&"
    append(spark.range(4), url)
    tahoe.Table(url, s3.options).append(tahoe.Table(url, s3.options).to_arrow())
    hadoop = hadoop_options(s3)
    expected = sorted([*range(4), *range(4)])
    assert ids(load(spark, url)) == expected
    for options in (s3.options, hadoop, {f"spark.hadoop.{name}": value for name, value in hadoop.items()}):
        assert sorted(tahoe.Table(url, options).to_arrow()["id"].to_pylist()) == expected
    theirs = deltalake.DeltaTable(url.replace("s3a:", "s3:"), storage_options={**s3.options, "allow_http": "true"})
    assert sorted(theirs.to_pyarrow_table()["id"].to_pylist()) == expected


def test_data_files_are_read_through_the_local_cache(spark: SparkSession, url: str, tmp_path: Path) -> None:
    """The second run gets no byte of them from the server, by s3a:// and by s3://, with vectored reads and without."""
    append(spark.range(200_000).selectExpr("id", "cast(rand(1) as string) as text"), url)
    query = "select sum(id), count(distinct text), count(distinct _metadata.file_path) from delta.`{}`"
    expected = spark.sql(query.format(url)).collect()
    for setting, table in (("true", url), ("false", url.replace("s3a:", "s3:"))):
        other = spark.newSession()
        other.conf.set("spark.tahoe.cache.folder", str(tmp_path / setting))
        other.conf.set("parquet.hadoop.vectored.io.enabled", setting)
        cache = opened_cache(str(tmp_path / setting), "50g")
        assert other.sql(query.format(table)).collect() == expected
        before = metrics_of_tasks(cache)
        assert before.fetched_bytes > 0
        assert other.sql(query.format(table)).collect() == expected
        after = metrics_of_tasks(cache)
        assert (after.fetched_bytes, after.misses) == (before.fetched_bytes, before.misses)
        assert after.cached_bytes > before.cached_bytes
        assert cache.verify().damaged == 0


def test_the_scheme_may_be_s3(spark: SparkSession, url: str) -> None:
    """Hadoop knows no s3, and Spark is given the data files as s3a."""
    short = url.replace("s3a:", "s3:")
    append(spark.range(3), short)
    cached = load(spark, short).cache()
    assert ids(cached) == [0, 1, 2]
    append(spark.range(3, 4), short)
    assert ids(load(spark, short)) == ids(load(spark, url)) == ids(cached) == [0, 1, 2, 3]
    cached.unpersist()
    assert all(file.startswith("s3a://") for file in load(spark, short).inputFiles())


@pytest.mark.skipif(S3_SERVER == "moto", reason="moto keeps its objects in memory: make interop-s3-servers")
def test_writers_survive_a_server_that_is_away(
    spark: SparkSession, s3_and_process: tuple[Server, ServerProcess], url: str
) -> None:
    """The rows go through Hadoop's client and the commits through ours, and each repeats in its own way."""
    _, server = s3_and_process
    append(spark.range(1), url)
    with ThreadPoolExecutor(2) as pool:
        writers = [
            pool.submit(lambda n: [append(spark.range(n + k, n + k + 1), url) for k in range(5)], n) for n in (10, 20)
        ]
        time.sleep(1)
        server.kill()
        time.sleep(30)
        server.start()
        for writer in writers:
            writer.result()
    assert ids(load(spark, url)) == [0, *range(10, 15), *range(20, 25)]
    assert [entry["version"] for entry in table_cache.open_table(spark, url).history()] == list(range(10, -1, -1))


def test_settings_of_one_bucket_go_before_those_of_all(spark: SparkSession, s3: Server) -> None:
    make_bucket(s3, "bucket-1")
    other = spark.newSession()
    other.conf.set("fs.s3a.endpoint", NOWHERE)
    other.conf.set("fs.s3a.bucket.bucket-1.endpoint", s3.endpoint)
    append(other.range(3), "s3a://bucket-1/t")
    assert ids(load(other, "s3a://bucket-1/t")) == [0, 1, 2]


def test_options_of_a_reader_and_a_writer_go_before_the_sessions(spark: SparkSession, s3: Server) -> None:
    make_bucket(s3, "bucket-2")
    other = spark.newSession()
    other.conf.set("fs.s3a.endpoint", NOWHERE)
    option = {"fs.s3a.endpoint": s3.endpoint}
    other.range(3).write.format("delta").options(**option).save("s3a://bucket-2/t")
    assert ids(load(other, "s3a://bucket-2/t", **option)) == [0, 1, 2]
    assert DeltaTable.forPath(other, "s3a://bucket-2/t", option).detail().first().numFiles > 0


def test_without_a_word_on_style_an_address_gets_paths(spark: SparkSession, s3: Server) -> None:
    """Hadoop's default puts the bucket before the host, which the SDK does not do to an address."""
    make_bucket(s3, "bucket-3")
    other = spark.newSession()
    other.conf.set("fs.s3a.bucket.bucket-3.path.style.access", "false")
    append(other.range(3), "s3a://bucket-3/t")
    assert ids(load(other, "s3a://bucket-3/t")) == [0, 1, 2]


@pytest.mark.skipif(S3_SERVER != "moto", reason="moto alone takes any session token")
def test_renewed_credentials_reach_a_table_that_was_opened_before(
    spark: SparkSession, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Session tokens last some hours, and sessions longer."""
    monkeypatch.setattr(cloud, "RETRY_SECONDS_MAX", 1)
    append(spark.range(3), url)
    other = spark.newSession()
    other.conf.set("fs.s3a.endpoint", NOWHERE)
    with pytest.raises(StorageUnavailableError):
        table_cache.open_table(other, url).snapshot()
    other.conf.unset("fs.s3a.endpoint")
    other.conf.set("fs.s3a.session.token", "renewed")
    table = table_cache.open_table(other, url)
    assert table.snapshot().version == 0
    assert table.env.store.options["fs.s3a.session.token"] == "renewed"
