"""The store whose log a class of the user's own reads and writes, without a JVM: what goes to the class and what to the
store below, and what its answers mean.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError

from tahoe.errors import (
    AtomicCreateUnsupportedError,
    CommitOutcomeUnknownError,
    StorageRefusedError,
    StorageUnavailableError,
    UnknownLogStoreError,
)
from tahoe.spark.jvm import log_store
from tahoe.spark.jvm.log_store import LogStoreAdapter, log_store_settings, with_log_store
from tahoe.storage import env_of, open_store
from tahoe.storage.env import FileReplacedError
from tahoe.storage.memory import Effect, Fault, FaultPlan, MemoryStore, Operation
from tahoe.table.table import Table

SETTING, CLASS = "spark.delta.logStore.class", "com.example.Mine"
NOW_MS = time.time_ns() // 1_000_000


class JavaClass:
    def __init__(self, name: str, above: JavaClass | None = None) -> None:
        self.getName, self.getSimpleName = (lambda: name), (lambda: name.rpartition(".")[2])
        self.getSuperclass = lambda: above


class JavaException:
    """Looks like one behind py4j."""

    _target_id, _gateway_client = "o1", None

    def __init__(self, name: str, message: str) -> None:
        self.getClass, self.getMessage = (lambda: JavaClass(name)), (lambda: message)


def thrown(name: str, message: str = "no reason") -> Py4JJavaError:
    return Py4JJavaError("", JavaException(name, message))


@dataclass
class Elsewhere:
    """What `delta.LogStoreAdapter` does for a class that keeps text files for itself, and lists each file twice."""

    below: MemoryStore
    files: dict[str, bytes] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def _listing(self, path: str) -> list[tuple[str, int]]:
        folder, _, start = path.rpartition("/")
        own = {key.rpartition("/")[2]: len(data) for key, data in self.files.items() if key.startswith(folder + "/")}
        parquet = {
            info.key.rpartition("/")[2]: info.size_bytes
            for info in self.below.list_from("_delta_log")
            if info.key.endswith(".parquet")
        }
        return sorted((name, size) for name, size in {**own, **parquet}.items() if name >= start)

    def list(self, path: str) -> str:
        self.calls["list"] += 1
        return "".join(f"{name}\0{size}\0{NOW_MS}\0" for name, size in self._listing(path) for _ in range(2))

    def resolve(self, path: str) -> str:
        return path

    def status(self, path: str) -> str:
        self.calls["status"] += 1
        name = path.rpartition("/")[2]
        return "".join(f"{found}\0{size}\0{NOW_MS}\0" for found, size in self._listing(path) if found == name)

    def read(self, path: str, at_least: int) -> bytes:
        self.calls["read"] += 1
        if path not in self.files:
            raise thrown("java.io.FileNotFoundException")
        found, lines = b"", self.files[path].splitlines()
        while len(found) < at_least and lines:
            found += lines.pop(0) + b"\n"
        return found

    def write(self, path: str, data: bytes, overwrite: bool) -> bool:
        self.calls["write"] += 1
        fault = self.faults.pop(0) if self.faults and path.endswith(".json") else ""
        if fault == "before":
            raise thrown("java.lang.IllegalStateException", "try again later")
        if path in self.files and not overwrite:
            return False
        self.files[path] = data if data.endswith(b"\n") else data + b"\n"
        if fault == "after":
            raise thrown("java.io.IOException", "the answer was lost")
        return True


@pytest.fixture
def below(request: pytest.FixtureRequest) -> MemoryStore:
    return MemoryStore(f"memory://{request.node.name}")


@pytest.fixture
def java(below: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    java = Elsewhere(below)

    class Running:
        def of(self, name: str, settings: str) -> Elsewhere:
            assert (name, settings) == (CLASS, f"{SETTING}\0{CLASS}\0")
            return java

    monkeypatch.setattr(log_store, "running_class", lambda _: Running())
    monkeypatch.setattr(log_store, "has_gateway", lambda: True)
    return java


@pytest.fixture
def adapter(java: Elsewhere) -> LogStoreAdapter:
    found = with_log_store(java.below, {SETTING: CLASS}, {})
    assert isinstance(found, LogStoreAdapter)
    return found


def opened(store: LogStoreAdapter) -> Table:
    return Table(store.url, env=env_of(store.url, lambda url: store if url == store.url else MemoryStore(url)))


COMMIT = f"_delta_log/{0:020d}.json"


def test_a_life_goes_through_the_class(adapter: LogStoreAdapter, below: MemoryStore, java: Elsewhere) -> None:
    """A step that went past it would find no log, or make a second one."""
    table = opened(adapter)
    for number in range(3):
        table.append(
            pa.table({"id": [number]}), properties={"delta.enableDeletionVectors": "true"} if number == 0 else {}
        )
    table.delete("id = 1")
    table.create_checkpoint()
    table.append(pa.table({"id": [3]}))
    assert sorted(opened(adapter).to_arrow()["id"].to_pylist()) == [0, 2, 3]
    assert sorted(opened(adapter).to_arrow(version=1)["id"].to_pylist()) == [0, 1]
    table.optimize()
    table.vacuum()
    table.restore(version=0)
    assert opened(adapter).to_arrow()["id"].to_pylist() == [0]
    kept = {path.rpartition("/")[2] for path in java.files}
    assert kept >= {f"{version:020d}.{kind}" for version in range(5) for kind in ("json", "crc")} | {"_last_checkpoint"}
    in_log = {info.key.rpartition("/")[2] for info in below.walk("_delta_log")}
    assert in_log == {f"{3:020d}.checkpoint.parquet"}


def test_a_json_checkpoint_is_the_classes(adapter: LogStoreAdapter, java: Elsewhere, below: MemoryStore) -> None:
    """And its sidecars are the store's below."""
    table = opened(adapter)
    table.append(pa.table({"id": [1]}), properties={"delta.checkpointPolicy": "v2"})
    table.create_checkpoint()
    assert opened(adapter).to_arrow()["id"].to_pylist() == [1]
    names = {path.rpartition("/")[2] for path in java.files} | {info.key for info in below.walk("_delta_log")}
    assert any("checkpoint" in name for name in names)


@pytest.mark.parametrize(
    ("faults", "error"),
    [(["after"], None), (["before"], None), (["before", "after"], None), (["before"] * 99, CommitOutcomeUnknownError)],
)
def test_a_commit_without_an_answer_is_neither_lost_nor_made_twice(
    adapter: LogStoreAdapter, java: Elsewhere, faults: list[str], error: type[Exception] | None
) -> None:
    table = opened(adapter)
    table.append(pa.table({"id": [0]}))
    java.faults = list(faults)
    if error is None:
        table.append(pa.table({"id": [1]}))
    else:
        with pytest.raises(error, match=r"com\.example\.Mine: IllegalStateException: try again later"):
            table.append(pa.table({"id": [1]}))
    java.faults = []
    assert sorted(opened(adapter).to_arrow()["id"].to_pylist()) == [0, 1] if error is None else [0]


def test_no_error_of_a_write_is_a_refusal(adapter: LogStoreAdapter, java: Elsewhere) -> None:
    """The class may have done a part before, which somebody else finishes: a commit's files must stay."""
    java.faults = ["before"]
    with pytest.raises(StorageUnavailableError) as caught:
        adapter.put_if_absent(COMMIT, b"{}\n")
    assert not isinstance(caught.value, StorageRefusedError)


def test_each_request_is_one_call(adapter: LogStoreAdapter, java: Elsewhere) -> None:
    assert adapter.put_if_absent(COMMIT, b"one\ntwo\n")
    assert not adapter.put_if_absent(COMMIT, b"three\n")
    assert adapter.get(COMMIT) == b"one\ntwo\n"
    assert adapter.get_range(COMMIT, 2, 3) == b"e\nt"
    assert [info.key for info in adapter.list_from("_delta_log", "_delta_log/0")] == [COMMIT]
    assert list(adapter.list_from("_delta_log", COMMIT)) == []
    assert adapter.head(COMMIT) == next(iter(adapter.list_from("_delta_log")))
    with adapter.open(COMMIT) as content:
        assert content.read() == b"one\ntwo\n"
    assert java.calls == {"write": 2, "read": 3, "list": 3, "status": 1}


def test_a_parquet_file_of_the_log_is_known_by_its_size(adapter: LogStoreAdapter) -> None:
    """The class lists it without the tag by which the store below knows it again."""
    adapter.put("_delta_log/0.checkpoint.parquet", b"1234")
    known = adapter.head("_delta_log/0.checkpoint.parquet")
    assert known is not None
    assert known == next(iter(adapter.list_from("_delta_log")))
    assert adapter.open(known.key, known).read() == b"1234"
    adapter.put(known.key, b"12345")
    with pytest.raises(FileReplacedError):
        adapter.open(known.key, known)


def test_a_storage_without_atomic_creates_keeps_the_other_files(adapter: LogStoreAdapter, below: MemoryStore) -> None:
    """As for a commit service: checkpoints are alike, whoever writes them."""
    error = AtomicCreateUnsupportedError(table=below.url, operation="create", detail="it is a copy")
    below.faults = FaultPlan(Fault(effect=Effect.RAISE_BEFORE, operation=Operation.PUT_IF_ABSENT, error=error))
    assert adapter.put_if_absent("_delta_log/0.checkpoint.parquet", b"1")
    assert not adapter.put_if_absent("_delta_log/0.checkpoint.parquet", b"2")
    assert below.get("_delta_log/0.checkpoint.parquet") == b"1"


def test_files_are_copied_past_the_class_and_texts_through_it(adapter: LogStoreAdapter, java: Elsewhere) -> None:
    adapter.put("a.parquet", b"1")
    adapter.copy_from(adapter, "a.parquet", "b.parquet")
    assert java.calls.total() == 0
    adapter.put_if_absent(COMMIT, b"{}\n")
    adapter.copy_from(adapter, COMMIT, "copied")
    assert adapter.get("copied") == b"{}\n"


@pytest.mark.parametrize(
    ("name", "message", "told"),
    [
        ("java.lang.ClassNotFoundException", CLASS, "is not on the class path of Spark's driver"),
        ("java.lang.ClassCastException", "io.delta.storage.LogStore", "does not extend io.delta.storage.LogStore"),
        ("java.lang.ClassCastException", "org.apache.spark.sql.delta.storage.LogStore", "only the reference can call"),
        (
            "java.lang.NoClassDefFoundError",
            "org/apache/spark/sql/delta/storage/LogStore",
            "only the reference can call",
        ),
        ("java.lang.NoClassDefFoundError", "io/delta/storage/LogStore", r"is missing \(.*io/delta/storage/LogStore"),
        ("java.lang.NoSuchMethodException", "", "no public constructor that takes a Hadoop Configuration"),
        ("java.lang.InstantiationException", "", "is abstract"),
        ("java.lang.IllegalStateException", "no key", "failed with IllegalStateException: no key"),
    ],
)
def test_a_class_that_cannot_be_called_is_refused(
    below: MemoryStore, monkeypatch: pytest.MonkeyPatch, name: str, message: str, told: str
) -> None:
    """Silence would let two writers win a version, each by its own rule."""

    def refuse(_: str) -> object:
        raise thrown(name, message)

    monkeypatch.setattr(log_store, "running_class", refuse)
    monkeypatch.setattr(log_store, "has_gateway", lambda: True)
    with pytest.raises(UnknownLogStoreError, match=rf"setting {SETTING}.*com\.example\.Mine.*{told}"):
        with_log_store(below, {SETTING: CLASS}, {})


def test_what_the_class_is_given(tmp_path: Path) -> None:
    """The session's settings, and above them those of the storage; those of Spark's engine would open the table anew
    whenever one of them changes.
    """
    session = {SETTING: "a later one", "com.example.key": "1", "spark.sql.shuffle.partitions": "2", "fs.mine.key": "3"}
    given = log_store_settings({SETTING: CLASS, "spark.app.name": "a"}, lambda: session)
    assert given == {SETTING: CLASS, "com.example.key": "1", "fs.mine.key": "3"}
    assert log_store_settings({"spark.app.name": "a"}, lambda: session) == {}
    store = open_store(str(tmp_path))
    assert with_log_store(store, {}, {}) is store
    made = with_log_store(store, given, {"fs.mine.key": "4"})
    assert isinstance(made, LogStoreAdapter)
    assert made.settings["fs.mine.key"] == "4"
    assert "fs.mine.key" not in repr(made)
