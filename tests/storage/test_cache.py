"""The local cache: what it saves, what it never does, and what it survives. That it is a store is asked in
`test_contract`.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import tahoe
from tahoe import cli
from tahoe.errors import InvalidOptionError, StorageUnavailableError
from tahoe.storage import open_store
from tahoe.storage.cache.block_cache import BlockCache, block_cache
from tahoe.storage.cache.block_file import BLOCK_BYTES, decode, encode
from tahoe.storage.cache.cached_store import CachedStore
from tahoe.storage.cache.configuration import _Unset, realm_of
from tahoe.storage.cache.eviction import MAIN, SMALL, block_path, entries, evicting
from tahoe.storage.env import FileInfo, FileReplacedError
from tahoe.storage.memory import Effect, Fault, MemoryStore, Operation

MIB = 1 << 20


def store_over(folder: Path, name: str, realm: str = "", size: int = 100 * MIB) -> tuple[CachedStore, MemoryStore]:
    """A cached store and the one beneath it."""
    inner = MemoryStore(f"memory://{name}")
    return CachedStore(inner=inner, realm=realm, blocks=BlockCache(str(folder), size)), inner


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"cache-{request.node.name}-{time.monotonic_ns()}"


def content_of(blocks: float, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(int(blocks * BLOCK_BYTES))


# --- what it saves


def test_what_was_read_once_is_not_fetched_again(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name)
    data = content_of(4.5)
    inner.put("a", data)
    assert store.get("a") == data
    fetched = store.blocks.metrics().fetched_bytes
    for _ in range(3):
        assert store.get("a") == data
        assert store.get_range("a", 3, 2 * BLOCK_BYTES) == data[3 : 3 + 2 * BLOCK_BYTES]
        with store.open("a") as file:
            assert file.read() == data
    assert store.blocks.metrics().fetched_bytes == fetched == len(data)


def test_another_process_reads_what_this_one_has_fetched(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name)
    inner.put("a", content_of(2))
    store.get("a")
    other, _ = store_over(tmp_path / "cache", name)  # its own object, as in another process
    other.get("a")
    assert other.blocks.metrics().fetched_bytes == 0


def test_only_the_ranges_that_are_read_are_kept(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name)
    data = content_of(100)
    inner.put("a", data)
    with store.open("a") as file:
        for start in (5 * BLOCK_BYTES + 7, 90 * BLOCK_BYTES):
            file.seek(start)
            assert file.read(1000) == data[start : start + 1000]
    assert store.blocks.metrics().fetched_bytes == 2 * BLOCK_BYTES


def test_neighbours_are_fetched_by_one_request(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name)
    data = content_of(10)
    inner.put("a", data)
    store.get_range("a", 4 * BLOCK_BYTES, 1)
    inner.calls.clear()
    with store.open("a") as file:
        assert file.read() == data
    assert inner.calls[Operation.FETCH] == 2  # before the block that is here, and after it


def test_many_threads_that_ask_for_a_block_cause_one_fetch(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name)
    data = content_of(3)
    inner.put("a", data)
    info = store.head("a")
    arrived = threading.Barrier(8)

    class Slow(MemoryStore):
        def fetch(self, *asked: object, **more: object) -> object:  # type: ignore[override]
            time.sleep(0.2)  # long enough that all others ask meanwhile
            return super().fetch(*asked, **more)  # type: ignore[arg-type]

    slow = Slow(f"memory://{name}")
    shared = CachedStore(inner=slow, realm="", blocks=store.blocks)

    def read(_: int) -> bytes:
        arrived.wait()
        with shared.open("a", info) as file:
            return file.read()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(read, range(8))) == {data}
    assert slow.calls[Operation.FETCH] == 1


def test_an_error_of_one_asker_is_not_that_of_the_others(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name)
    data = content_of(1)
    inner.put("a", data)
    info = store.head("a")
    assert info is not None
    began, may_fail = threading.Event(), threading.Event()

    def fails(_: list[int]) -> object:
        began.set()
        may_fail.wait(10)
        raise StorageUnavailableError(table="t", operation="read", detail="cancelled")

    def asks() -> None:
        with pytest.raises(StorageUnavailableError):
            store.blocks.fetch_once({0: store._name("a", 0)}, info.identity, fails)  # type: ignore[arg-type]

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(asks)
        assert began.wait(10)
        second = pool.submit(store.open("a", info).read)
        time.sleep(0.1)  # so that it waits for the first, which it would not show otherwise
        may_fail.set()
        first.result()
        assert second.result() == data


# --- what it never does


def test_a_file_that_was_replaced_is_read_anew(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name)
    for seed, blocks in enumerate((3, 5, 0.5, 0, 2, 2)):
        data = content_of(blocks, seed)
        inner.put("a", data)
        for _ in range(2):
            assert store.get("a") == data
            assert store.get_range("a", 100, 5 * BLOCK_BYTES) == data[100 : 100 + 5 * BLOCK_BYTES]
            with store.open("a") as file:
                assert file.read() == data


def refuse(inner: MemoryStore) -> None:
    for operation in (Operation.FETCH, Operation.HEAD):
        inner.faults.add(Fault(effect=Effect.RAISE_BEFORE, operation=operation, times=10))


@pytest.mark.parametrize(
    ("event", "error"),
    [(refuse, StorageUnavailableError), (lambda inner: inner.delete("a"), FileNotFoundError)],
    ids=["refused", "deleted"],
)
def test_what_the_storage_does_not_give_is_not_read_from_the_cache(
    tmp_path: Path, name: str, event: Callable[[MemoryStore], None], error: type[Exception]
) -> None:
    store, inner = store_over(tmp_path / "cache", name)
    inner.put("a", content_of(1))
    store.get("a")
    event(inner)
    for read in (lambda: store.get("a"), lambda: store.get_range("a", 0, 1), lambda: store.open("a")):
        with pytest.raises(error):
            read()


def test_other_credentials_and_other_endpoints_do_not_meet(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name, realm=realm_of({"endpoint": "http://a", "key": "1"}))
    inner.put("a", content_of(1))
    store.get("a")
    for other in ({"endpoint": "http://b", "key": "1"}, {"endpoint": "http://a", "key": "2"}):
        foreign, _ = store_over(tmp_path / "cache", name, realm=realm_of(other))
        foreign.get("a")
        assert foreign.blocks.metrics().hits == 0
    assert "secret-word" not in realm_of({"key": "secret-word"})


def test_credentials_of_the_environment_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    before = realm_of({})
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    assert realm_of({}) != before


def test_a_file_without_an_etag_is_not_kept(tmp_path: Path) -> None:
    """It may be replaced within the second in which it was written, with as many bytes."""

    class WithoutEtags(MemoryStore):
        def fetch(self, *asked: object, **more: object) -> object:  # type: ignore[override]
            fetched = super().fetch(*asked, **more)  # type: ignore[arg-type]
            return fetched and fetched._replace(info=FileInfo("a", fetched.info.size_bytes, 1000))

    inner = WithoutEtags("memory://without-etags")
    store = CachedStore(inner=inner, realm="", blocks=BlockCache(str(tmp_path / "cache"), MIB))
    for content in (b"old", b"new"):
        inner.put("a", content)
        assert store.get("a") == store.get_range("a", 0, 3) == content
    assert store.blocks.metrics().written_blocks == 0


def test_local_files_and_those_in_memory_are_not_cached(tmp_path: Path) -> None:
    kept = lambda: block_cache(str(tmp_path / "cache"), MIB, False)  # noqa: E731
    assert not isinstance(open_store(tmp_path, None, kept), CachedStore)
    assert not isinstance(open_store("memory://x/y", None, kept), CachedStore)
    assert isinstance(open_store("s3://bucket/y", {"aws_access_key_id": "x"}, kept), CachedStore)


def test_nobody_else_may_read_the_folder(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "new" / "cache", name)
    inner.put("a", b"x")
    store.get("a")
    assert (tmp_path / "new" / "cache").stat().st_mode & 0o777 == 0o700


# --- how much it keeps


def test_it_occupies_no_more_than_it_may(tmp_path: Path, name: str) -> None:
    size = 4 * MIB
    store, inner = store_over(tmp_path / "cache", name, size=size)
    for number in range(40):
        inner.put(f"{number}", content_of(1 + number % 3, number))
        store.get(f"{number}")
        assert on_disk(tmp_path / "cache") <= size
    assert on_disk(tmp_path / "cache") > size // 2


@pytest.fixture
def reads_count_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if five seconds had passed between any two of them."""
    monkeypatch.setattr("tahoe.storage.cache.cache_folder.CORRELATED_SECONDS", -1)


def on_disk(folder: Path) -> int:
    return sum(file.stat().st_blocks * 512 for queue in (MAIN, SMALL) for file in (folder / queue).rglob("?" * 40))


@pytest.mark.usefixtures("reads_count_at_once")
def test_a_scan_of_a_large_table_leaves_what_is_read_often(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name, size=8 * MIB)
    for number in range(8):
        inner.put(f"often-{number}", content_of(1, number))
    for number in range(400):
        inner.put(f"once-{number}", content_of(1, 100 + number))
    for _ in range(3):
        for number in range(8):
            store.get(f"often-{number}")
    for number in range(400):
        store.get(f"once-{number}")
    before = store.blocks.metrics().fetched_bytes
    for number in range(8):
        store.get(f"often-{number}")
    assert store.blocks.metrics().fetched_bytes == before


def test_what_returns_soon_after_it_was_deleted_stays(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name, size=4 * MIB)
    inner.put("a", content_of(1))
    for number in range(40):
        inner.put(f"{number}", content_of(1, number + 1))
    store.get("a")
    for number in range(16):
        store.get(f"{number}")
    store.get("a")
    assert [entry.name for entry in entries(tmp_path / "cache", MAIN)] == [store._name("a", 0)]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["put", "get", "range", "open", "evict", "clear"]), st.integers(0, 4), st.integers(0, 9)
        ),
        max_size=60,
    )
)
def test_reading_through_it_is_reading(tmp_path: Path, steps: list[tuple[str, int, int]]) -> None:
    folder = tmp_path / f"{time.monotonic_ns()}"
    store, inner = store_over(folder, folder.name, size=5 * BLOCK_BYTES)
    files = {str(key): content_of(1, key) for key in range(5)}
    for key, data in files.items():
        inner.put(key, data)
    for what, number, seed in steps:
        key = str(number)
        match what:
            case "put":
                files[key] = content_of(seed / 3, seed)
                inner.put(key, files[key])
            case "get":
                assert store.get(key) == files[key]
            case "range":
                start = seed * BLOCK_BYTES // 4
                assert store.get_range(key, start, BLOCK_BYTES) == files[key][start : start + BLOCK_BYTES]
            case "open":
                with store.open(key) as file:
                    file.seek(seed * 1000)
                    assert file.read() == files[key][seed * 1000 :]
            case "evict":
                if folder.exists() and store.blocks._files.is_ours():
                    store.blocks._files.evict(2 * BLOCK_BYTES)
            case "clear":
                store.blocks.clear()


# --- what it survives


def test_a_damaged_block_is_read_from_the_storage_again(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    store, inner = store_over(tmp_path / "cache", name)
    data = content_of(3)
    inner.put("a", data)
    store.get("a")
    for damage in (
        lambda d: d[:-1],
        lambda d: d[:500] + bytes([d[500] ^ 1]) + d[501:],
        lambda d: b"",
        lambda d: d[:11],
    ):
        path = Path(block_path(tmp_path / "cache", SMALL, store._name("a", 1)))
        path.write_bytes(damage(path.read_bytes()))
        with caplog.at_level(logging.WARNING):
            assert store.get("a") == data
    assert store.blocks.metrics().damaged_blocks == 4
    assert len([record for record in caplog.records if "damaged" in record.getMessage()]) == 1


def test_a_block_in_another_format_is_no_block() -> None:
    header, content = encode("n", FileInfo("a", 3, 0, "etag"), b"abc")
    whole = header + bytes(content)
    block = decode("n", whole)
    assert block is not None
    assert (bytes(block.content), block.info.identity) == (b"abc", (3, "etag"))
    assert decode("n", whole.replace(b"tahoe-b2", b"tahoe-b3")) is None
    assert decode("m", whole) is None
    header, content = encode("n", FileInfo("a", 9000, 0, "etag"), b"abc" * 3000, compresses=True)
    assert len(content) < 1000
    block = decode("n", header + bytes(content))
    assert block is not None
    assert bytes(block.content) == b"abc" * 3000


@given(st.binary(max_size=200))
def test_any_file_is_a_block_or_none(data: bytes) -> None:
    assert decode("n", data) is None
    for magic in (b"tahoe-b2", b"tahoe-z2"):  # with a checksum that is right
        assert decode("n", magic + zlib.crc32(data, zlib.crc32(b"n")).to_bytes(4, "little") + data) is None or data


def test_the_folder_may_be_deleted_at_any_time(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name)
    data = content_of(2)
    inner.put("a", data)
    for _ in range(3):
        assert store.get("a") == data
        subprocess.run(["rm", "-rf", str(tmp_path / "cache")], check=True)
    assert store.get("a") == data
    assert store.blocks.usage().blocks == 2


@pytest.mark.parametrize("what", ["a file", "no permission"])
def test_a_folder_that_cannot_be_written_to_is_said_once(
    tmp_path: Path, name: str, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "cache"
    if what == "a file":
        folder.write_bytes(b"")
    elif os.geteuid() == 0:
        folder = Path("/proc/tahoe-cache")  # where not even root makes folders
    else:
        tmp_path.chmod(0o500)
    store, inner = store_over(folder, name)
    data = content_of(2)
    inner.put("a", data)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert store.get("a") == data
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert str(folder) in said[0]


def test_a_full_disk_stops_writing_not_reading(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, inner = store_over(tmp_path / "cache", name)
    data = content_of(2)
    inner.put("a", data)
    store.get("a")
    full = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((*full[:3], 0, 0, *full[5:])))
    inner.put("b", data)
    with caplog.at_level(logging.WARNING):
        assert store.get("b") == store.get("b") == data
    assert len(caplog.records) == 1
    assert "space" in caplog.records[0].getMessage().lower()


def test_what_is_not_a_block_is_never_touched(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """The folder may be given by mistake: that of a project with `main/go`, or a home."""
    folder = tmp_path / "project"
    names = ["main/go/go.mod", "main/de/deutsch.txt", "small/js/x", "usage", "ghosts", "unfinished/novel.txt", "README"]
    for file in names:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(b"mine")
        os.utime(folder / file, (1, 1))
    store, inner = store_over(folder, name)
    inner.put("a", content_of(2))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert store.get("a") == content_of(2)
    assert [record.getMessage().count("not of a cache") for record in caplog.records] == [1]
    for action in ("show", "verify", "clear"):
        assert CliRunner().invoke(cli.app, ["cache", action, "--folder", str(folder)]).exit_code == 2
    assert sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()) == sorted(names)
    assert {(folder / file).read_bytes() for file in names} == {b"mine"}


def test_a_block_under_another_name_is_damaged(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name)
    data = content_of(2)
    inner.put("a", data)
    store.get("a")
    first, second = (Path(block_path(tmp_path / "cache", SMALL, store._name("a", number))) for number in range(2))
    shutil.copy(first, second)
    assert store.get("a") == data
    assert store.blocks.metrics().damaged_blocks == 1


def test_a_folder_that_others_may_write_to_is_not_used(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """They could put blocks there."""
    store, inner = store_over(tmp_path / "cache", name)
    inner.put("a", content_of(1))
    store.get("a")
    (tmp_path / "cache").chmod(0o777)
    before = store.blocks.metrics().hits
    with caplog.at_level(logging.WARNING):
        assert store.get("a") == content_of(1)
    assert store.blocks.metrics().hits == before
    assert ["others" in record.getMessage() or "other users" in record.getMessage() for record in caplog.records] == [
        True
    ]


def test_nothing_is_deleted_in_a_folder_of_others(tmp_path: Path) -> None:
    for file in ("README", "usage", "ghosts", "unfinished"):
        (tmp_path / file).write_bytes(b"mine")
    kept = BlockCache(str(tmp_path), MIB)
    for action in (kept.clear, kept.verify):
        with pytest.raises(OSError, match="not the folder of a cache"):
            action()
    assert len(list(tmp_path.iterdir())) == 4


def test_a_count_that_was_lost_evicts_nothing_that_fits(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name, size=16 * MIB)
    for number in range(40):
        inner.put(f"{number}", content_of(1, number))
        store.get(f"{number}")
    (tmp_path / "cache" / "usage").unlink()
    inner.put("new", content_of(1, 50))
    store.get("new")
    assert store.blocks.usage().blocks == 41


def test_odd_files_in_the_place_of_blocks(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name, size=3 * MIB)
    data = content_of(4)
    inner.put("a", data)
    store.get("a")
    paths = [Path(block_path(tmp_path / "cache", SMALL, store._name("a", number))) for number in range(4)]
    for path in paths:
        path.unlink()
    os.mkfifo(paths[0])
    paths[1].mkdir()
    paths[2].symlink_to("/dev/zero")
    paths[3].touch()
    os.truncate(paths[3], 5 << 30)
    (paths[0].parent / ".DS_Store").write_bytes(b"x")
    for number in range(20):  # evicts
        inner.put(f"{number}", content_of(1, number))
        store.get(f"{number}")
    assert store.get("a") == data


@pytest.mark.parametrize("etag", ["x" * 70_000, "\udcff", 'W/"ü"'])
def test_odd_etags(tmp_path: Path, etag: str) -> None:
    class Odd(MemoryStore):
        def fetch(self, *asked: object, **more: object) -> object:  # type: ignore[override]
            fetched = super().fetch(*asked, **more)  # type: ignore[arg-type]
            return fetched and fetched._replace(info=FileInfo("a", 3, 1000, etag))

    inner = Odd("memory://odd-etags")
    store = CachedStore(inner=inner, realm="", blocks=BlockCache(str(tmp_path / "cache"), MIB))
    inner.put("a", b"abc")
    assert store.get("a") == store.get("a") == b"abc"


def test_a_smaller_bound_takes_nothing_from_others(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name, size=16 * MIB)
    small, _ = store_over(tmp_path / "cache", name, size=MIB)
    inner.put("a", content_of(40))
    inner.put("b", content_of(2))
    store.get("a")
    small.get("b")
    before = store.blocks.metrics().fetched_bytes
    store.get("a")
    assert store.blocks.metrics().fetched_bytes == before
    assert small.blocks.usage().bytes_max == 16 * MIB


def test_a_scan_in_small_ranges_is_one_reading(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name)
    inner.put("a", content_of(4))
    with store.open("a") as file:
        while file.read(10_000):
            pass
    assert not any(entry.was_read for entry in entries(tmp_path / "cache", SMALL))
    for entry in entries(tmp_path / "cache", SMALL):  # a minute later
        path = block_path(tmp_path / "cache", SMALL, entry.name)
        os.utime(path, (time.time() - 60, time.time() - 60))
    store.get("a")
    assert all(entry.was_read for entry in entries(tmp_path / "cache", SMALL))


def test_what_killed_writers_leave_is_deleted(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name)
    inner.put("a", content_of(1))
    store.get("a")
    left = tmp_path / "cache" / "unfinished" / ("0" * 32)
    left.write_bytes(b"x" * MIB)
    os.utime(left, (1, 1))
    other, _ = store_over(tmp_path / "cache", name)
    inner.put("b", content_of(1, 1))
    other.get("b")
    assert not left.exists()


def test_a_disk_without_room_for_a_file_is_given_some_back(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be out of files or over a quota, while bytes are free."""
    store, inner = store_over(tmp_path / "cache", name)
    for number in range(20):
        inner.put(f"{number}", content_of(1, number))
        store.get(f"{number}")

    def refuses(*_: object) -> int:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "writev", refuses)
    inner.put("new", content_of(1, 30))
    assert store.get("new") == content_of(1, 30)
    assert store.blocks.usage().blocks < 20


def test_a_fork_does_not_wait_for_threads_that_it_does_not_have(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name)
    data = content_of(1)
    inner.put("a", data)
    info = store.head("a")
    assert info is not None
    began, may_end = threading.Event(), threading.Event()

    def waits(_: list[int]) -> object:
        began.set()
        may_end.wait(30)
        return iter([(0, memoryview(data))])

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(store.blocks.fetch_once, {0: store._name("a", 0)}, info.identity, waits)  # type: ignore[arg-type]
        assert began.wait(10)
        child = os.fork()
        if not child:
            with suppress(BaseException):
                os._exit(0 if store.open("a", info).read() == data else 1)
            os._exit(2)
        deadline = time.monotonic() + 20
        status = 0
        while time.monotonic() < deadline and not (ended := os.waitpid(child, os.WNOHANG))[0]:
            time.sleep(0.05)  # until it ends
        may_end.set()
        first.result()
    if not ended[0]:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    status = ended[1]
    assert (ended[0], status) == (child, 0)


def test_while_another_process_evicts_nothing_waits(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name, size=2 * MIB)
    data = content_of(20)
    inner.put("a", data)
    inner.put("b", data)
    store.get("a")
    with evicting(tmp_path / "cache") as is_ours:
        assert is_ours
        assert store.get("b") == data


_READER = """
import sys, random
from tahoe.storage.cache.block_cache import BlockCache
from tahoe.storage.cache.cached_store import CachedStore
from tahoe.storage.memory import MemoryStore
from tahoe.storage.cache.block_file import BLOCK_BYTES
folder, seed = sys.argv[1], int(sys.argv[2])
inner = MemoryStore("memory://killed/t")
files = {str(n): random.Random(n).randbytes((1 + n % 4) * BLOCK_BYTES + n) for n in range(24)}
for key, data in files.items():
    inner.put(key, data)
store = CachedStore(inner=inner, realm="", blocks=BlockCache(folder, 16 * BLOCK_BYTES))
draw = random.Random(seed)
print("ready", flush=True)
for _ in range(int(sys.argv[3])):
    key = str(draw.randrange(24))
    assert store.get(key) == files[key], key
"""


def test_processes_that_are_killed_leave_nothing_wrong(tmp_path: Path) -> None:
    """Blocks are evicted all the time: there are four times as many as fit."""
    folder = str(tmp_path / "cache")
    draw = random.Random(1)
    for turn in range(4):
        readers = [
            subprocess.Popen(
                [sys.executable, "-c", _READER, folder, str(10 * turn + n), "100000"], stdout=subprocess.PIPE
            )
            for n in range(2)
        ]
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"ready\n"
        time.sleep(draw.random() / 2)
        for reader in readers:
            assert reader.poll() is None, "it must not have failed"
            reader.send_signal(signal.SIGKILL)
            reader.wait()
    subprocess.run([sys.executable, "-c", _READER, folder, "99", "300"], check=True, stdout=subprocess.DEVNULL)
    assert BlockCache(folder, 16 * BLOCK_BYTES).verify().damaged == 0
    assert on_disk(Path(folder)) <= 16 * BLOCK_BYTES


# --- how it is turned on


def test_the_cache_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tahoe.storage.cache.configuration._chosen", _Unset.UNSET)
    assert tahoe.cache() is None
    monkeypatch.setenv("TAHOE_CACHE", str(tmp_path / "by variable"))
    monkeypatch.setenv("TAHOE_CACHE_SIZE", "30 MB")
    found = tahoe.cache()
    assert found is not None
    assert (found.folder, found.bytes_max) == (tmp_path / "by variable", 30 * MIB)
    chosen = tahoe.cache(tmp_path / "by call", "200 GB")
    assert chosen is tahoe.cache()
    assert chosen is not None
    assert chosen.bytes_max == 200 << 30
    by_both = tahoe.cache(os.fsencode(tmp_path / "by both"))  # type: ignore[arg-type]  # also as bytes
    assert by_both is not None
    assert by_both.bytes_max == 30 * MIB
    assert tahoe.cache(None) is None
    assert tahoe.cache() is None
    with pytest.raises(InvalidOptionError, match="folder"):
        tahoe.cache(size="1 GB")
    monkeypatch.setenv("TAHOE_CACHE_SIZE", "lots")
    with pytest.raises(InvalidOptionError, match="TAHOE_CACHE_SIZE"):
        tahoe.cache(tmp_path)


@pytest.mark.parametrize(
    ("folder", "size"),
    [
        ("", "1 GB"),
        ("s3://bucket/cache", "1 GB"),
        ("/tmp/x", "much"),
        ("/tmp/x", 0),
        ("/tmp/x", "15 MB"),
        ("/a\0b", "1 GB"),
    ],
)
def test_what_is_no_folder_or_no_size_is_refused(folder: str, size: str) -> None:
    with pytest.raises(InvalidOptionError):
        tahoe.cache(folder, size)


def test_a_store_finds_its_cache_where_it_is_unpickled(tmp_path: Path) -> None:
    kept = block_cache(str(tmp_path / "cache"), MIB, False)
    store = open_store("s3://bucket/y", {"aws_access_key_id": "x"}, lambda: kept)
    assert pickle.loads(pickle.dumps(store)).blocks is kept


@pytest.mark.parametrize("action", ["show", "verify", "clear"])
def test_the_command_line(tmp_path: Path, name: str, action: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store, inner = store_over(tmp_path / "cache", name)
    inner.put("a", content_of(2))
    store.get("a")
    by_option = CliRunner().invoke(cli.app, ["cache", action, "--folder", str(tmp_path / "cache"), "--json"])
    expected = {"show": ("blocks", 2), "verify": ("whole_blocks", 2), "clear": ("deleted_blocks", 2)}
    told = json.loads(by_option.stdout)
    assert told[expected[action][0]] == expected[action][1]
    monkeypatch.setenv("TAHOE_CACHE", str(tmp_path / "cache"))
    by_variable = CliRunner().invoke(cli.app, ["cache", action])
    assert str(tmp_path / "cache") in by_variable.stdout.replace("\n", "")
    assert store.blocks.usage().blocks == (0 if action == "clear" else 2)


def test_the_command_line_says_that_there_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAHOE_CACHE", raising=False)
    told = CliRunner().invoke(cli.app, ["cache", "show"])
    assert told.exit_code == 2
    assert "TAHOE_CACHE" in told.output


def test_replaced_beneath_an_open_file(tmp_path: Path, name: str) -> None:
    store, inner = store_over(tmp_path / "cache", name)
    inner.put("a", content_of(3))
    with store.open("a") as file:
        file.read(10)
        inner.put("a", content_of(3, seed=1))
        with pytest.raises(FileReplacedError):
            file.read()
