"""A class by which a session commits: `spark.delta.logStore.class`, `spark.delta.logStore.<scheme>.impl`.

The class of these tests keeps the log's text files in a folder of its own, so that what does not ask it finds no table.
"""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tahoe.errors import (
    CommitOutcomeUnknownError,
    StorageUnavailableError,
    UnknownLogStoreError,
)
from tahoe.spark.jvm import table_cache
from tahoe.spark.jvm.hadoop_store import HadoopStore
from tahoe.spark.jvm.log_store import LogStoreAdapter
from tahoe.storage.background import finish_background
from tahoe.storage.local import LocalStore
from tahoe.table.table import Table
from tests.spark import hadoop_file_systems
from tests.spark.any_storage import append, ids, load
from tests.spark.log_stores import ELSEWHERE, IN_PLACE, calls, install, set_static, static

_numbers = itertools.count()

CLASS = "spark.delta.logStore.class"


@pytest.fixture(autouse=True)
def folder(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """The folder in which the class keeps logs."""
    install(spark)
    hadoop_file_systems.install(spark)
    spark.conf.set("logs.folder", str(tmp_path / "logs"))
    calls(spark)
    yield tmp_path / "logs"
    for setting in ("logs.folder", "logs.twice"):
        spark.conf.unset(setting)
    set_static(spark, "fault", "")
    set_static(spark, "partial", False)


@pytest.fixture(params=["file", "strict"])
def url(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where a table may be made whose commits go through the class."""
    named = {f"spark.delta.logStore.{request.param}.impl": ELSEWHERE}
    monkeypatch.setattr(table_cache, "_settings_of_contexts", {spark.sparkContext: named})
    return f"{request.param}://{tmp_path}/t {next(_numbers)} ü%41"


def opened(spark: SparkSession, url: str) -> Table:
    """The table, read by nothing that has been read before."""
    return Table(url, env=table_cache.open_table(spark, url).env)


def test_a_life(spark: SparkSession, url: str, folder: Path) -> None:
    """A step of it that went past the class would find no log, or make a second one."""
    if url.startswith("strict:"):
        spark.conf.set("logs.twice", "true")
    properties = {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "4"}
    spark.range(10).write.format("delta").options(**properties).save(url)
    append(spark.range(10, 20), url)
    spark.sql(f"DELETE FROM delta.`{url}` WHERE id = 3")
    spark.sql(
        f"MERGE INTO delta.`{url}` t USING (SELECT explode(array(4, 100)) id) s ON t.id = s.id "
        f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    )
    append(spark.range(20, 22), url)
    finish_background()
    expected = [*(n for n in range(22) if n not in (3, 4)), 100]
    assert ids(load(spark, url)) == sorted(expected)
    assert ids(load(spark, url, versionAsOf=1)) == list(range(20))
    assert sorted(opened(spark, url).to_arrow()["id"].to_pylist()) == sorted(expected)
    spark.sql(f"OPTIMIZE delta.`{url}`")
    spark.sql(f"VACUUM delta.`{url}`")
    spark.sql(f"RESTORE delta.`{url}` TO VERSION AS OF 0")
    finish_background()
    assert ids(load(spark, url)) == list(range(10))
    names = {file.name for file in folder.rglob("*") if file.is_file()}
    assert names >= {f"{version:020d}.json" for version in range(5)} | {f"{4:020d}.crc", "_last_checkpoint"}
    in_log = [file.name for file in (Path(url.partition("://")[2]) / "_delta_log").rglob("[!.]*") if file.is_file()]
    assert f"{4:020d}.checkpoint.parquet" in in_log
    assert [name for name in in_log if not name.endswith(".parquet")] == []
    assert static(spark, "open") == 0, "an iterator of lines was not closed"


@pytest.mark.parametrize("partial", [False, True])
def test_of_two_writers_each_version_has_one(spark: SparkSession, url: str, partial: bool) -> None:
    """Where a partial write is visible, a class may leave it to its caller that one writer of a process goes after the
    other.
    """
    set_static(spark, "partial", partial)
    calls(spark)
    append(spark.range(0), url)
    table, barrier, failures = opened(spark, url), threading.Barrier(4), []

    def write(writer: int) -> None:
        try:
            for number in range(3):
                barrier.wait(120)
                opened(spark, url).append(pa.table({"id": [10 * writer + number]}))
        except BaseException as error:
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(table.to_arrow()["id"].to_pylist()) == [10 * w + n for w in range(4) for n in range(3)]
    assert table.snapshot().version == 12
    assert (static(spark, "most") == 1) is partial


@pytest.mark.parametrize(("fault", "error"), [("before", CommitOutcomeUnknownError), ("after", None)])
def test_a_commit_without_an_answer_is_neither_lost_nor_made_twice(
    spark: SparkSession, url: str, fault: str, error: type[Exception] | None
) -> None:
    append(spark.range(3), url)
    set_static(spark, "fault", fault)
    table = opened(spark, url)
    if error is None:
        table.append(pa.table({"id": [7]}))
    else:
        with pytest.raises(error, match=r"logs\.ElsewhereLogStore: IOException: the network is down"):
            table.append(pa.table({"id": [7]}))
    set_static(spark, "fault", "")
    expected = [0, 1, 2, 7] if error is None else [0, 1, 2]
    assert sorted(opened(spark, url).to_arrow()["id"].to_pylist()) == expected


def test_what_the_class_throws_is_told(spark: SparkSession, url: str) -> None:
    append(spark.range(3), url)
    set_static(spark, "fault", "often")
    store = table_cache.open_table(spark, url).env.store
    with pytest.raises(StorageUnavailableError, match="IllegalStateException: try again later"):
        store.put_if_absent("_delta_log/00000000000000000009.json", b"{}\n")
    with pytest.raises(FileNotFoundError):
        store.get("_delta_log/00000000000000000009.json")


def test_few_calls_into_the_jvm(spark: SparkSession, url: str, messages: list[str]) -> None:
    """Each costs as much as a request to a near storage: a commit is one, and a version that is read is one."""
    append(spark.range(3), url)
    finish_background()
    store = table_cache.open_table(spark, url).env.store
    for work in (
        lambda: store.put_if_absent("_delta_log/probe.txt", b"{}\n"),
        lambda: store.get("_delta_log/probe.txt"),
        lambda: store.get_range("_delta_log/probe.txt", 0, 10),
        lambda: list(store.list_from("_delta_log", "_delta_log/p")),
        lambda: store.head("_delta_log/probe.txt"),
    ):
        messages.clear()
        work()
        assert len(messages) == 1
    table = opened(spark, url)
    calls(spark)
    messages.clear()
    table.append(pa.table({"id": [1]}))
    finish_background()
    asked = calls(spark)
    assert asked.total() <= 12, asked


@pytest.fixture
def in_place(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where a table may be made whose commits go through a class that extends one of the reference's."""
    named = {"spark.delta.logStore.strict.impl": IN_PLACE}
    monkeypatch.setattr(table_cache, "_settings_of_contexts", {spark.sparkContext: named})
    set_static(spark, "written", "", IN_PLACE)
    yield f"strict://{tmp_path}/t"
    set_static(spark, "physical", "", IN_PLACE)


def test_the_folder_is_there_before_the_class_writes(spark: SparkSession, in_place: str) -> None:
    """The reference makes it, and its classes refuse to write without it."""
    append(spark.range(3), in_place)
    append(spark.range(3, 5), in_place)
    assert ids(load(spark, in_place)) == list(range(5))
    assert f"{1:020d}.json" in static(spark, "written", IN_PLACE).splitlines()


def test_manifests_name_the_physical_storage(spark: SparkSession, in_place: str) -> None:
    """Who reads them does not ask the class, which writes them."""
    spark.range(3).selectExpr("id", "id % 2 as p").write.format("delta").partitionBy("p").save(in_place)
    set_static(spark, "physical", "s3a://lake/below", IN_PLACE)
    spark.sql(f"GENERATE symlink_format_manifest FOR TABLE delta.`{in_place}`")
    path = in_place.removeprefix("strict://")
    manifests = list(Path(path).glob("_symlink_format_manifest/p=*/manifest"))
    lines = [line for manifest in manifests for line in manifest.read_text().splitlines()]
    assert len(manifests) == 2
    assert all(line.startswith(f"s3a://lake/below{path}/p=") for line in lines)
    assert static(spark, "written", IN_PLACE).splitlines().count("manifest") == 2


@pytest.mark.parametrize(
    ("physical", "is_recorded"), [("abfss://lake@x", True), ("s3a://lake", False), ("unsupported", False)]
)
def test_the_physical_storage_decides_whether_vacuum_is_recorded(
    spark: SparkSession, in_place: str, physical: str, is_recorded: bool
) -> None:
    """As in the reference."""
    append(spark.range(3), in_place)
    set_static(spark, "physical", physical, IN_PLACE)
    spark.sql(f"VACUUM delta.`{in_place}`")
    operations = [entry["operation"] for entry in opened(spark, in_place).history()]
    assert ("VACUUM START" in operations) is is_recorded


def test_options_of_a_reader_reach_the_class(spark: SparkSession, url: str) -> None:
    """And another class object, as they may be credentials."""
    append(spark.range(3), url)
    other = table_cache.open_table(spark, url, {"fs.mine.key": "x"}).env.store
    assert isinstance(other, LogStoreAdapter)
    assert other.settings["fs.mine.key"] == "x"
    assert "fs.mine.key" not in repr(other)
    assert ids(load(spark, url, **{"fs.mine.key": "x"})) == [0, 1, 2]


def test_pythons_workers_read_files_without_the_class(spark: SparkSession, url: str) -> None:
    append(spark.range(3), url)
    store = table_cache.open_table(spark, url).env.store
    assert isinstance(store, LogStoreAdapter)
    again = pickle.loads(pickle.dumps(store))
    assert again == store
    assert isinstance(again.inner, LocalStore | HadoopStore)


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("com.example.Mine", "is not on the class path of Spark's driver"),
        ("java.lang.String", r"does not extend io\.delta\.storage\.LogStore"),
        ("logs.Unfit$Abstract", "is abstract"),
        ("logs.Unfit$WithoutConfiguration", "no public constructor that takes a Hadoop Configuration"),
        (ELSEWHERE, r"it failed with IllegalStateException: logs\.folder is not set"),
    ],
)
def test_a_class_that_cannot_be_called_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, detail: str
) -> None:
    """Silence would let two writers win a version, each by its own rule."""
    append(spark.range(3), str(tmp_path / "t"))
    spark.conf.unset("logs.folder")
    monkeypatch.setattr(table_cache, "_settings_of_contexts", {spark.sparkContext: {CLASS: name}})
    with pytest.raises(UnknownLogStoreError, match=f"{CLASS}.*{name.replace('$', '.')}.*{detail}") as caught:
        table_cache.open_table(spark, str(tmp_path / "t"))
    assert "io.delta:delta-storage" in str(caught.value)
    with pytest.raises(Exception, match="DELTA_UNKNOWN_LOG_STORE"):
        append(spark.range(3), str(tmp_path / "t"))
    monkeypatch.setattr(table_cache, "_settings_of_contexts", {})
    assert ids(load(spark, str(tmp_path / "t"))) == [0, 1, 2]
