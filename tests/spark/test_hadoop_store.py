"""What `tahoe.storage.env.Store` promises, asked of the store over Hadoop's file systems; and what is particular to
it.
"""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tahoe.errors import AtomicCreateUnsupportedError, StorageRefusedError, StorageUnavailableError
from tahoe.spark.jvm import hadoop_store
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.hadoop_store import HadoopStore, qualified_url
from tahoe.storage.env import Store, branches
from tahoe.testing.plugin import odd_names, open_folder, store  # noqa: F401  fixtures
from tahoe.testing.test_store import *  # noqa: F403  the suite over all stores
from tests.spark.hadoop_file_systems import install, set_fault

_numbers = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def systems(spark: SparkSession) -> None:
    install(spark)


@pytest.fixture(params=["strict://", "viewfs://tests/mounted"])
def folder_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{request.param}{tmp_path}/t {next(_numbers)}/ü%41"


@pytest.fixture
def open_url() -> Callable[[str], Store]:
    return HadoopStore


@pytest.fixture
def strict(spark: SparkSession, tmp_path: Path) -> Iterator[HadoopStore]:
    yield HadoopStore(f"strict://{tmp_path}/t")
    set_fault(spark, "")


def test_a_rename_whose_answer_was_lost_is_unknown(spark: SparkSession, strict: HadoopStore) -> None:
    """Taken for a refusal, the commit's files would be deleted under it."""
    set_fault(spark, "after")
    with pytest.raises(StorageUnavailableError, match="the answer was lost") as caught:
        strict.put_if_absent("k", b"1")
    assert not isinstance(caught.value, StorageRefusedError)
    assert strict.get("k") == b"1"


@pytest.mark.parametrize(("fault", "kind"), [("before", StorageUnavailableError), ("denied", StorageRefusedError)])
def test_a_rename_that_failed_leaves_nothing_behind(
    spark: SparkSession, strict: HadoopStore, fault: str, kind: type
) -> None:
    for write in (strict.put_if_absent, strict.put):
        set_fault(spark, fault)
        with pytest.raises(StorageUnavailableError) as caught:
            write("k", b"1")
        assert type(caught.value) is kind
        assert list(strict.walk()) == []


@pytest.mark.parametrize(
    ("url", "detail"), [("viewfs://tests/local", "file:// replaces"), ("oss://bucket", "oss:// is a copy")]
)
def test_a_rename_that_two_writers_survive_is_refused(url: str, detail: str, tmp_path: Path) -> None:
    """The local disk's replaces what is there, and an object store's copies: of two commits one would be lost without a
    word.
    """
    with pytest.raises(AtomicCreateUnsupportedError, match=detail):
        HadoopStore(f"{url}{tmp_path}/t").put_if_absent("k", b"1")
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_a_long_listing_comes_in_pages_by_one_call_each(
    strict: HadoopStore, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder may have more files than fit into the memory of either process."""
    keys = [*(f"p={number % 3}/f{number}" for number in range(7)), "a/b/c"]
    for key in keys:
        strict.put(key, b"123")
    monkeypatch.setattr(hadoop_store, "_PAGE_ENTRIES", 4)
    messages.clear()
    pages = list(branches(strict))
    assert sorted(key for page in pages for key in page.keys) == sorted(keys)
    assert sorted(key for page in pages for key in page.folders) == ["a", "a/b", "p=0", "p=1", "p=2"]
    assert [len(page.keys) + len(page.folders) for page in pages] == [4, 4, 4, 1]
    assert sum("\nnext\n" in message for message in messages) == len(pages)
    assert len(messages) == len(pages) + 3


def test_folders_that_are_deleted_while_they_are_listed_have_no_files(
    strict: HadoopStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("a/1", "b/1", "b/2"):
        strict.put(key, b"1")
    monkeypatch.setattr(hadoop_store, "_PAGE_ENTRIES", 2)
    pages = branches(strict)
    assert sorted(next(pages).folders) == ["a", "b"]
    strict.delete_many(["a/1", "b/1", "b/2"])
    strict.remove_folders(["a", "b"])
    assert [page.keys for page in pages] == [[]]


def test_a_file_system_that_hadoop_does_not_know_is_refused() -> None:
    with pytest.raises(StorageRefusedError, match="nosuch"):
        HadoopStore("nosuch://there/t").get("k")


def _get(pickled: bytes) -> str:
    try:
        pickle.loads(pickled).get("k")
    except StorageRefusedError as error:
        return str(error)
    return "it was read"


def test_another_process_is_told_that_it_cannot_get_there(strict: HadoopStore) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert "only the process that started Spark's JVM" in pool.apply(_get, (pickle.dumps(strict),))


def test_reading_in_many_threads_leaves_no_connections_behind(spark: SparkSession, strict: HadoopStore) -> None:
    """Each thread has a connection of its own into the JVM, and a thread there that serves it."""
    strict.put("k", b"0123456789" * 1000)
    threads = Gateway(spark).jvm.java.lang.Thread.activeCount
    before = threads()
    for _ in range(50):
        reader = threading.Thread(target=strict.get, args=("k",))
        reader.start()
        reader.join()
    assert threads() < before + 25


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("/a//b/", "file:///a/b"),
        ("file:/a/b", "file:///a/b"),
        ("s3a://bucket/a/", "s3a://bucket/a"),
        ("STRICT:/a b/%41/", "strict:///a b/%41"),
        ("strict:///a", "strict:///a"),
        ("viewfs://tests/mounted/a/../b", "viewfs://tests/mounted/b"),
    ],
)
def test_locations_have_one_spelling_for_hadoop_too(spark: SparkSession, location: str, url: str) -> None:
    assert qualified_url(Gateway(spark), location) == url
    assert qualified_url(Gateway(spark), url) == url


def test_a_path_is_in_hadoops_default_file_system(spark: SparkSession) -> None:
    """On a cluster whose default is HDFS, /data/t would otherwise be a folder of the driver's disk."""
    session = spark.newSession()
    session.conf.set("fs.defaultFS", "viewfs://tests/")
    assert qualified_url(Gateway(session), "/mounted/a b") == "viewfs://tests/mounted/a b"
    assert qualified_url(Gateway(session), "viewfs:/mounted/a") == "viewfs://tests/mounted/a"
    assert qualified_url(Gateway(session), "file:/a") == "file:///a"
