"""Scans of tables in an object store read data files through the local cache: what it saves, what it never does, and
what it survives. `etag_storage` is the object store; `tests/hadoop/test_s3.py` asks a real one.
"""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from tahoe import DeltaTable
from tahoe.errors import TableNotCachedError
from tahoe.spark.jvm.executor_cache import metrics_of_tasks
from tahoe.storage.cache.block_cache import BlockCache
from tahoe.storage.cache.eviction import QUEUES, entries
from tests.spark.any_storage import append, ids, load
from tests.spark.etag_storage import ROOT, counts, install, set_fault, use_cache

pytestmark = [pytest.mark.sparks_reader, pytest.mark.usefixtures("scans")]

ROWS = 100_000


@pytest.fixture(scope="module", autouse=True)
def storage(spark: SparkSession) -> None:
    install(spark)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"{ROOT}{tmp_path}/lake"


@pytest.fixture
def cache(spark: SparkSession, tmp_path: Path) -> Iterator[BlockCache]:
    cache = use_cache(spark, tmp_path / "cache")
    assert cache is not None
    yield cache
    set_fault(spark, "")
    use_cache(spark, None)


def rows(spark: SparkSession) -> DataFrame:
    return spark.range(ROWS).selectExpr("id", "cast(rand(7) as string) as text", "id % 3 as part")


def fetched(spark: SparkSession, frame: DataFrame) -> tuple[list[Row], int]:
    """The rows of a query, and how many bytes of data files came from the storage."""
    before = counts(spark).bytes
    return sorted(frame.collect()), counts(spark).bytes - before


def sums(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("sum(id)", "count(distinct text)", "max(text)")


def data_files(url: str) -> list[Path]:
    return sorted(Path(url.removeprefix(ROOT)).rglob("*.parquet"))


def block_files(cache: BlockCache) -> list[Path]:
    return [
        cache.folder / queue / entry.name[:2] / entry.name for queue in QUEUES for entry in entries(cache.folder, queue)
    ]


# --- what it saves


def test_what_was_read_once_is_not_fetched_again(spark: SparkSession, cache: BlockCache, url: str) -> None:
    append(rows(spark), url)
    use_cache(spark, None)
    expected, without = fetched(spark, sums(load(spark, url)))
    use_cache(spark, cache.folder)
    assert metrics_of_tasks(cache).fetched_bytes == 0
    assert fetched(spark, sums(load(spark, url)))[0] == expected
    first = metrics_of_tasks(cache)
    assert without > 0
    assert first.misses > 0
    assert first.fetched_bytes > 0
    assert fetched(spark, sums(load(spark, url))) == (expected, 0)
    second = metrics_of_tasks(cache)
    assert second.fetched_bytes == first.fetched_bytes
    assert second.cached_bytes > first.cached_bytes
    assert second.hits > first.hits
    everything = cache.metrics()  # what tahoe has read of the log, too
    assert everything.hits >= second.hits
    assert everything.fetched_bytes >= second.fetched_bytes
    assert cache.verify().damaged == 0, "Python must read what Java has written"


@pytest.mark.usefixtures("cache")
def test_the_urls_of_files_are_what_they_are_without_it(spark: SparkSession, url: str) -> None:
    append(rows(spark), url)
    query = load(spark, url).selectExpr(
        "_metadata.file_path as a", "_metadata.file_size as b", "input_file_name() as c"
    )
    cached = sorted(query.distinct().collect())
    use_cache(spark, None)
    assert sorted(query.distinct().collect()) == cached
    assert all(row.a.startswith(ROOT) and row.c.startswith(ROOT) for row in cached)


@pytest.mark.usefixtures("cache")
def test_explain_tells_of_it(spark: SparkSession, url: str) -> None:
    append(rows(spark), url)
    told = "Parquet (through the local cache)"
    plan = load(spark, url)._jdf.queryExecution().executedPlan().toString
    assert told in str(plan())
    use_cache(spark, None)
    assert "local cache" not in str(load(spark, url)._jdf.queryExecution().executedPlan().toString())


def test_others_in_the_session_read_as_before(spark: SparkSession, cache: BlockCache, url: str, tmp_path: Path) -> None:
    """Neither Parquet in the same storage, nor tables on a local disk, nor a session without a cache."""
    append(rows(spark), url)
    append(spark.range(5), str(tmp_path / "local"))
    ids(load(spark, str(tmp_path / "local")))
    spark.range(5).write.parquet(f"{url}-parquet")
    assert ids(spark.read.parquet(f"{url}-parquet")) == list(range(5))
    figures = metrics_of_tasks(cache)
    assert (figures.hits, figures.misses) == (0, 0)
    assert spark.sparkContext._jsc.hadoopConfiguration().get("fs.etag.impl") == "etags.EtagFileSystem"


# --- what it never does


@pytest.mark.usefixtures("cache")
def test_a_file_that_was_replaced_is_not_read_from_it(spark: SparkSession, url: str) -> None:
    append(spark.range(0, 10).coalesce(1), url)
    append(spark.range(50, 60).coalesce(1), f"{url}-other")
    assert ids(load(spark, url)) == list(range(10))
    (mine,), (other,) = data_files(url), data_files(f"{url}-other")
    shutil.copy(other, mine)
    assert ids(load(spark, url)) == list(range(50, 60))


def test_a_file_that_is_replaced_while_it_is_read_is_not_mixed(
    spark: SparkSession, cache: BlockCache, url: str
) -> None:
    """Neither with what the cache has of the other one, nor does the cache keep what belongs to none of both."""
    append(rows(spark).coalesce(1), url)
    expected, _ = fetched(spark, sums(load(spark, url)))
    without_footers = [block for block in block_files(cache) if not block.read_bytes().endswith(b"PAR1")]
    for block in without_footers[::2]:
        block.unlink()
    set_fault(spark, "replaced")
    with pytest.raises(Exception, match=r"replaced while it was read|FAILED_READ_FILE"):
        fetched(spark, sums(load(spark, url)))
    shutil.rmtree(cache.folder)
    assert fetched(spark, sums(load(spark, url)))[0] == expected
    assert block_files(cache) == []


@pytest.mark.usefixtures("cache")
def test_whoever_may_not_read_a_file_does_not_get_it(spark: SparkSession, url: str) -> None:
    append(spark.range(10), url)
    query = load(spark, url)
    assert ids(query) == list(range(10))
    set_fault(spark, "denied")
    with pytest.raises(Exception, match=r"you may not|FAILED_READ_FILE"):
        ids(query)


@pytest.mark.usefixtures("cache")
def test_a_deleted_file_is_missed(spark: SparkSession, url: str) -> None:
    append(spark.range(10), url)
    query = load(spark, url)
    assert ids(query) == list(range(10))
    for file in data_files(url):
        file.unlink()
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist|missing|FAILED_READ_FILE|gone"):
        ids(query)


def test_a_file_without_an_etag_is_not_kept(spark: SparkSession, cache: BlockCache, url: str) -> None:
    append(spark.range(10), url)
    set_fault(spark, "untagged")
    for _ in range(2):
        found, count = fetched(spark, load(spark, url))
        assert [row.id for row in found] == list(range(10))
        assert count > 0
    assert metrics_of_tasks(cache).misses == 0


# --- tables of every kind


def test_changes_of_a_cached_table(spark: SparkSession, cache: BlockCache, url: str) -> None:
    """Deletion vectors, mapped columns, MERGE, OPTIMIZE, a change feed: as on a table that is not cached."""
    properties = {"delta.columnMapping.mode": "name", "delta.enableChangeDataFeed": "true"}
    for place in (url, f"{url}-uncached"):
        use_cache(spark, cache.folder if place == url else None)
        writer = spark.range(100).selectExpr("id", "id * 2 as double").coalesce(1).write.format("delta")
        writer.options(**properties).save(place)
        table = DeltaTable.forPath(spark, place)
        ids(load(spark, place))
        table.delete("id % 7 = 0")
        ids(load(spark, place))
        table.update("id = 5", {"double": "0"})
        source = spark.range(95, 105).selectExpr("id", "-1 as double")
        merge = (
            table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
        )
        merge.execute()
        table.optimize().executeCompaction()

    def state(place: str) -> list[list[Any]]:
        use_cache(spark, cache.folder if place == url else None)
        feed = load(spark, place, readChangeFeed="true", startingVersion="0")
        return [
            sorted(map(tuple, load(spark, place).collect())),
            sorted(map(tuple, feed.select("id", "double", "_change_type", "_commit_version").collect())),
        ]

    assert state(url) == state(f"{url}-uncached") == state(url)
    assert metrics_of_tasks(cache).hits > 0


def test_a_session_of_its_own(spark: SparkSession, cache: BlockCache, url: str) -> None:
    """A new session has its own settings."""
    append(rows(spark), url)
    other = spark.newSession()
    sums(load(other, url)).collect()
    assert metrics_of_tasks(cache).misses == 0


# --- what it survives


@pytest.mark.parametrize("damage", ["emptied", "changed", "swapped", "deleted", "no folder", "a file", "shared"])
def test_damage(spark: SparkSession, cache: BlockCache, url: str, damage: str) -> None:
    append(rows(spark), url)
    expected, _ = fetched(spark, sums(load(spark, url)))
    blocks = block_files(cache)
    assert len(blocks) > 1
    contents = [block.read_bytes() for block in blocks]
    if damage in ("no folder", "a file"):
        shutil.rmtree(cache.folder)
    elif damage == "shared":
        cache.folder.chmod(0o777)
    for block, content, other in zip(blocks, contents, reversed(contents), strict=True):
        match damage:
            case "emptied":
                block.write_bytes(b"")
            case "changed":
                block.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
            case "swapped":
                block.write_bytes(other)
            case "deleted":
                block.unlink()
    if damage == "a file":
        cache.folder.write_text("not a folder")
    found, count = fetched(spark, sums(load(spark, url)))
    assert found == expected
    assert count > 0
    again, count = fetched(spark, sums(load(spark, url)))
    assert again == expected
    if damage not in ("a file", "shared"):
        assert count == 0 or damage == "no folder", "what was damaged is kept again"


def test_a_frame_that_was_dropped_is_counted(spark: SparkSession, cache: BlockCache, url: str) -> None:
    """Spark knows the scan's figures only as long as somebody holds them."""
    append(rows(spark), url)
    running = load(spark, url)._jdf.queryExecution().toRdd()
    for _ in range(5):
        gc.collect()
        spark.sparkContext._jvm.System.gc()
    assert running.count() == ROWS
    assert metrics_of_tasks(cache).misses > 0


def test_a_folder_of_somebody_else_is_not_touched(spark: SparkSession, cache: BlockCache, url: str) -> None:
    cache.folder.mkdir()
    (cache.folder / "thesis").write_text("the only copy")
    append(rows(spark), url)
    expected = fetched(spark, sums(load(spark, url)))[0]
    assert fetched(spark, sums(load(spark, url)))[0] == expected
    assert [path.name for path in cache.folder.iterdir()] == ["thesis"]


@pytest.mark.usefixtures("cache")
def test_a_folder_that_a_jvm_cannot_name(spark: SparkSession, url: str, tmp_path: Path) -> None:
    """As one with an umlaut, for an executor that was started with LC_ALL=C."""
    append(rows(spark), url)
    use_cache(spark, tmp_path / "not\0a path")
    assert fetched(spark, load(spark, url).selectExpr("count(text)"))[0] == [Row(ROWS)]


def test_it_stays_within_its_bound(spark: SparkSession, cache: BlockCache, url: str) -> None:
    bound = 2 << 20
    use_cache(spark, cache.folder, bytes_max=bound)
    for _ in range(3):
        append(rows(spark), url)
    expected = fetched(spark, sums(load(spark, url)))[0]
    assert fetched(spark, sums(load(spark, url)))[0] == expected
    assert 0 < cache.usage().bytes <= bound
    assert cache.verify().damaged == 0


# --- CACHE SELECT


@pytest.mark.usefixtures("cache")
def test_cache_select_fills_it(spark: SparkSession, url: str) -> None:
    append(rows(spark), url)
    assert spark.sql(f"cache select text, id from delta.`{url}` where id >= 0").columns == []
    assert fetched(spark, sums(load(spark, url)))[1] == 0
    assert spark.sql(f"cache select * from delta.`{url}`").collect() == []
    assert fetched(spark, load(spark, url).agg({"part": "sum"}))[1] == 0


@pytest.mark.usefixtures("cache")
def test_cache_select_needs_a_cache(spark: SparkSession, url: str, tmp_path: Path) -> None:
    append(spark.range(3), str(tmp_path / "local"))
    append(spark.range(3), url)
    with pytest.raises(TableNotCachedError, match="no local cache, or the table is not in an object store"):
        spark.sql(f"cache select id from delta.`{tmp_path}/local`")
    use_cache(spark, None)
    with pytest.raises(TableNotCachedError, match="no local cache"):
        spark.sql(f"cache select id from delta.`{url}`")
