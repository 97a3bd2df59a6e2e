"""Stores of one's own: how they are registered, and that the page's example keeps what the contract asks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import InvalidOptionError, StoreNotOpenedError, UnknownLogStoreError, UnsupportedStorageError
from tahoe.storage import open_store, register, schemes
from tahoe.storage.memory import MemoryStore
from tahoe.storage.service_options import check_log_store

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "own-store.md"


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(schemes, "_factories", {})
    schemes._of_package.cache_clear()
    yield
    schemes._of_package.cache_clear()


def test_a_scheme_that_was_registered_is_opened_by_its_function() -> None:
    asked = []

    def factory(url: str, options: object) -> MemoryStore:
        asked.append((url, options))
        return MemoryStore("memory://own/" + url.partition("://")[2])

    with pytest.raises(UnsupportedStorageError, match=r"tahoe\.storage\.register\('sftp', factory\)"):
        tahoe.Table("sftp://server/t")
    register("SFTP", factory)
    table = tahoe.Table("sftp://server//a/../t/", {"user": "me"})
    table.append(pa.table({"id": [1]}))
    assert table.count() == 1
    assert asked[0] == ("sftp://server/t", {"user": "me"})


@pytest.mark.parametrize("scheme", ["s3", "file", "memory", "", "a b", "1x", "a:b"])
def test_what_is_no_scheme_or_is_ours_is_refused(scheme: str) -> None:
    with pytest.raises(InvalidOptionError):
        register(scheme, lambda url, _: MemoryStore(url))


def test_an_installed_package_registers_its_store(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("Mem", "tahoe.storage.memory:MemoryStore", schemes.ENTRY_POINTS)]
    asked: list[str] = []

    def found(*, group: str) -> list[EntryPoint]:
        asked.append(group)
        return [point for point in points if point.group == group]

    monkeypatch.setattr(schemes, "entry_points", found)
    points.append(EntryPoint("broken", "tahoe.no_such_module:Store", schemes.ENTRY_POINTS))
    assert schemes.is_known_scheme("mem")
    assert not schemes.is_known_scheme("hdfs")
    assert not schemes.is_known_scheme("hdfs")
    assert len(asked) == 2  # for mem and for hdfs
    with pytest.raises(StoreNotOpenedError, match="no_such_module"):
        open_store("broken://x/y")


@pytest.mark.parametrize(
    ("factory", "told"),
    [
        (lambda _, options: options["database"], "needs the storage option 'database'"),
        (lambda *_: {}["tenant"], "KeyError..tenant"),
        (lambda *_: None, "returned None"),
        (lambda: None, "TypeError"),
    ],
)
def test_a_function_that_opens_nothing_is_told(factory: Any, told: str) -> None:
    register("own", factory)
    with pytest.raises(StoreNotOpenedError, match=told):
        open_store("own://x/y")
    with pytest.raises(InvalidOptionError, match="factory"):
        register("own", None)  # type: ignore[arg-type]


def test_the_example_of_the_page_keeps_the_contract(tmp_path: Path) -> None:
    example = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    (tmp_path / "sqlite_store.py").write_text(example[1], encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tahoe.testing.plugin"]
    command += ["--pyargs", "tahoe.testing", "--store-url", "sqlite://lake", "--store-module", "sqlite_store"]
    command += ["--store-option", f"database={tmp_path}/lake.db", "-k", "not killed and not money"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


def test_the_contract_finds_a_store_that_lets_two_writers_win(tmp_path: Path) -> None:
    """It looks before it writes, which is what storages without a condition do."""
    (tmp_path / "hasty.py").write_text(
        "import time\n"
        "import tahoe.storage\n"
        "from tahoe.storage.memory import MemoryStore\n"
        "class Hasty(MemoryStore):\n"
        "    def put_if_absent(self, key, data):\n"
        "        if self.head(key) is not None:\n"
        "            return False\n"
        "        time.sleep(0.001)  # as long as a request takes\n"
        "        self.put(key, data)\n"
        "        return True\n"
        "    def __reduce__(self):\n"
        "        return Hasty, (self.url,)\n"
        "def opened(url, options):\n"
        "    store = Hasty('memory://' + url.partition('://')[2])\n"
        "    store.url = url\n"
        "    return store\n"
        "tahoe.storage.register('hasty', opened)\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tahoe.testing.plugin"]
    command += ["--pyargs", "tahoe.testing", "--store-url", "hasty://lake", "--store-module", "hasty", "-k", "racing"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "test_one_of_eight_racing_writers_wins_each_key" in done.stdout


@pytest.mark.parametrize(
    ("url", "settings", "told"),
    [
        ("s3a://b/t", {}, None),
        ("s3a://b/t", {"spark.delta.logStore.class": "io.delta.storage.S3SingleDriverLogStore"}, None),
        ("file:///t", {"spark.delta.logStore.file.impl": "org.apache.spark.sql.delta.storage.LocalLogStore"}, None),
        ("hdfs://h/t", {"spark.delta.logStore.s3a.impl": "com.example.Mine"}, None),
        ("s3a://b/t", {"spark.delta.logStore.s3a.impl": "com.example.Mine"}, "spark.delta.logStore.s3a.impl"),
        ("s3a://b/t", {"delta.logStore.s3a.impl": "com.example.Mine"}, "delta.logStore.s3a.impl"),
        ("file:///t", {"spark.delta.logStore.class": "com.example.Mine"}, "spark.delta.logStore.class"),
        (
            "s3a://b/t",
            {
                "spark.delta.logStore.class": "com.example.Mine",
                "spark.delta.logStore.s3a.impl": "io.delta.storage.S3DynamoDBLogStore",
            },
            None,
        ),
    ],
)
def test_a_class_that_only_the_reference_would_call_is_refused(
    url: str, settings: dict[str, str], told: str | None
) -> None:
    """Silence would let two writers win a version, each by its own rule."""
    if told is None:
        check_log_store(url, settings)
        return
    with pytest.raises(
        UnknownLogStoreError, match=rf"{re.escape(told)}, commits go through the class com\.example\.Mine"
    ):
        check_log_store(url, settings)
