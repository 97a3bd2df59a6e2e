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
from tahoe.errors import InvalidOptionError, StoreNotOpenedError, UnsupportedStorageError
from tahoe.storage import open_store, register, schemes
from tahoe.storage.memory import MemoryStore
from tahoe.storage.service_options import log_store_class, own_log_stores

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
    command += [
        "--store-option",
        f"database={tmp_path}/lake.db",
        "--store-seconds",
        "2",
        "-k",
        "not killed and not money",
    ]
    done = run(tmp_path, command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


# A store that breaks a promise, each over a sound one: its methods, and the tests that refuse it.
BROKEN = {
    # It looks before it writes, which is what storages without a condition do.
    "looks_first": (
        """
    def put_if_absent(self, key, data):
        if self.head(key) is not None:
            return False
        time.sleep(0.001)  # as long as a request takes
        self.put(key, data)
        return True
""",
        "racing",
        {"test_one_of_eight_racing_writers_wins_each_key", "test_one_of_racing_processes_wins_each_key"},
    ),
    # It does so under a lock of its process.
    "locks_itself": (
        """
    def put_if_absent(self, key, data):
        with LOCK:
            if self.head(key) is not None:
                return False
            time.sleep(0.005)
            self.put(key, data)
            return True
""",
        "racing",
        {"test_one_of_racing_processes_wins_each_key"},
    ),
    "copies_in_parts": (
        """
    def copy_from(self, source, key, to):
        content = source.get(key)
        self.put(to, content[: len(content) // 2])
        time.sleep(0.005)
        self.put(to, content)
""",
        "all_of_a_file",
        {"test_a_reader_sees_all_of_a_file_or_nothing[copy_from]"},
    ),
    "cuts_names": ("\n    rename = staticmethod(lambda name: name[:180])\n", "names_are_kept", {"test_names_are_kept"}),
    "unescapes_names": (
        "\n    rename = staticmethod(urllib.parse.unquote)\n",
        "names_are_kept",
        {"test_names_are_kept"},
    ),
    "normalises_names": (
        "\n    rename = staticmethod(lambda name: unicodedata.normalize('NFC', name))\n",
        "names_are_kept",
        {"test_names_are_kept"},
    ),
    "forgets_case": ("\n    rename = staticmethod(str.lower)\n", "names_are_kept", {"test_names_are_kept"}),
    "cuts_keys": (
        "\n    def put_if_absent(self, key, data):\n        return super().put_if_absent(key[:500], data)\n",
        "long_keys",
        {"test_long_keys_are_kept_whole"},
    ),
}

MODULE = """
import threading, time, unicodedata, urllib.parse
import tahoe.storage
from tahoe.storage.local import LocalStore

LOCK = threading.Lock()


class Renaming(LocalStore):
    rename = staticmethod(lambda name: name)

    def __reduce__(self):
        return type(self), (self.url,)


def renaming(method):
    return lambda self, key, *rest: getattr(LocalStore, method)(self, self.rename(key), *rest)


for method in ("put_if_absent", "put", "get", "get_range", "head", "open", "delete"):
    setattr(Renaming, method, renaming(method))


class Broken(Renaming):
    pass

{methods}

def opened(url, options):
    return Broken("file://" + url.partition("://")[2])


tahoe.storage.register("broken", opened)
"""


@pytest.mark.parametrize("name", BROKEN)
def test_the_contract_refuses_a_store_that_breaks_it(tmp_path: Path, name: str) -> None:
    methods, selection, expected = BROKEN[name]
    (tmp_path / "broken.py").write_text(MODULE.replace("{methods}", methods), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tahoe.testing.plugin"]
    command += ["--pyargs", "tahoe.testing", "--store-url", f"broken://{tmp_path}/lake", "--store-module", "broken"]
    done = run(tmp_path, [*command, "-k", selection])
    assert done.returncode == 1, done.stdout + done.stderr
    failed = re.findall(r"^FAILED \S*::(\S+)", done.stdout, re.MULTILINE)
    assert all(any(test.startswith(wanted) for test in failed) for wanted in expected), done.stdout


def run(folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command that can import the modules of a folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


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
def test_the_references_own_classes_need_no_call(url: str, settings: dict[str, str], told: str | None) -> None:
    """Of any other class, its setting and name: in silence, two writers might win a version, each by its own rule."""
    found = log_store_class(url, settings)
    assert found == (None if told is None else (told, "com.example.Mine"))
    assert own_log_stores(settings) == (settings if "com.example.Mine" in settings.values() else {})
