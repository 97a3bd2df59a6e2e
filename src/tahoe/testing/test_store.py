"""What `tahoe.storage.env.Store` promises, asked of every store there is."""

from __future__ import annotations

import io
import os
import pickle
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tahoe.storage.cache.cached_store import CachedStore
from tahoe.storage.env import FileReplacedError, Store, Tree, branches, byte_order
from tahoe.storage.memory import MemoryStore


def keys(files: Iterator[object]) -> list[str]:
    return [file.key for file in files]  # type: ignore[attr-defined]


def test_what_was_put_is_read_back(store: Store) -> None:
    store.put("a/b.json", b"one")
    assert store.get("a/b.json") == b"one"


def test_a_file_that_was_put_is_read_back(store: Store, tmp_path: Path) -> None:
    content = os.urandom((10 << 20) + 1)  # more than what a storage takes in one part
    (tmp_path / "source").write_bytes(b"before" + content)
    with open(tmp_path / "source", "rb") as file:
        file.seek(len(b"before"))
        store.put("a/large", file)
    assert store.get("a/large") == content


def test_an_empty_object_is_a_file(store: Store) -> None:
    store.put("_delta_log/empty", b"")
    assert store.put_if_absent("_delta_log/made", b"")
    assert [(f.key, f.size_bytes) for f in store.list_from("_delta_log")] == [
        ("_delta_log/empty", 0),
        ("_delta_log/made", 0),
    ]
    assert (
        store.get("_delta_log/empty")
        == store.get_range("_delta_log/empty", 0, 5)
        == store.open("_delta_log/empty").read()
        == b""
    )


def test_put_takes_the_place_of_what_was_there(store: Store) -> None:
    store.put("k", b"long content")
    store.put("k", b"new")
    assert store.get("k") == b"new"


def test_put_if_absent_never_touches_what_is_there(store: Store) -> None:
    assert store.put_if_absent("_delta_log/0.json", b"first") is True
    assert store.put_if_absent("_delta_log/0.json", b"second") is False
    assert store.get("_delta_log/0.json") == b"first"


def test_put_if_absent_makes_what_was_deleted(store: Store) -> None:
    store.put("k", b"1")
    store.delete("k")
    assert store.put_if_absent("k", b"2") is True


@pytest.mark.parametrize("read", ["get", "get_range", "empty_range", "open"])
def test_reading_a_missing_key_says_so(store: Store, read: str) -> None:
    calls: dict[str, Callable[[], object]] = {
        "get": lambda: store.get("a/no"),
        "get_range": lambda: store.get_range("a/no", 0, 1),
        "empty_range": lambda: store.get_range("a/no", 0, 0),
        "open": lambda: store.open("a/no"),
    }
    with pytest.raises(FileNotFoundError):
        calls[read]()


def test_a_folder_is_no_file(store: Store) -> None:
    store.put("a/b/c", b"x")
    assert store.head("a/b") is None
    with pytest.raises(FileNotFoundError):
        store.get("a/b")


def test_head_knows_size_and_time_and_what_is_missing(store: Store) -> None:
    store.put("a", b"12345")
    found = store.head("a")
    assert found is not None
    assert (found.key, found.size_bytes) == ("a", 5)
    assert abs(found.modified_ms - time.time_ns() // 1_000_000) < 60_000
    assert store.head("b") is None


def test_listing_and_head_agree_on_the_time(store: Store) -> None:
    """The snapshot compares a commit's time with what an earlier listing said, to see whether the log is still the
    same.

    S3 gives whole seconds to the one and may give more to the other, so that only the second counts there.
    """
    store.put("a", b"1")
    found = store.head("a")
    assert found is not None
    assert [f.modified_ms // 1000 for f in store.list_from("")] == [found.modified_ms // 1000]
    assert [f.identity for f in store.list_from("")] == [found.identity]
    assert list(store.list_from("")) == list(store.walk(""))


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [(0, 3, b"012"), (3, 4, b"3456"), (7, 3, b"789"), (7, 100, b"789"), (10, 1, b""), (99, 1, b""), (4, 0, b"")],
)
def test_ranges_end_where_the_file_ends(store: Store, start: int, length: int, expected: bytes) -> None:
    store.put("k", b"0123456789")
    assert store.get_range("k", start, length) == expected


def test_an_opened_file_seeks_and_tells(store: Store) -> None:
    store.put("k", b"0123456789")
    with store.open("k") as file:
        assert file.read(2) == b"01"
        assert file.tell() == 2
        assert file.seek(-3, io.SEEK_END) == 7
        assert file.read() == b"789"
        assert file.read(1) == b""
        file.seek(4)
        file.seek(1, io.SEEK_CUR)
        buffer = bytearray(3)
        assert file.readinto(buffer) == 3  # type: ignore[attr-defined]
        assert bytes(buffer) == b"567"


def test_a_file_that_was_replaced_is_told_from_the_one_before(store: Store) -> None:
    store.put("k", b"0123456789")
    before = store.head("k")
    assert before is not None
    with store.open("k", before) as file:
        assert file.read() == b"0123456789"
    store.put("k", b"9876543210")
    after = store.head("k")
    assert after is not None
    assert before.identity != after.identity
    if isinstance(store, CachedStore):  # it has what was there before
        with store.open("k", before) as file:
            assert file.read() == b"0123456789"
    else:
        with pytest.raises(FileReplacedError), store.open("k", before) as file:
            file.read(1)
    store.delete("k")
    with pytest.raises((FileNotFoundError, FileReplacedError)), store.open("k", after) as file:
        file.read(1)


def test_an_opened_file_never_mixes_two_contents(store: Store) -> None:
    store.put("k", b"0" * 100_000)
    with store.open("k") as file:
        read = file.read(10)
        store.put("k", b"1" * 100_000)
        file.seek(50_000)
        with suppress(FileReplacedError):
            read += file.read(10)
    assert set(read) == set(b"0")


def test_an_opened_file_is_good_enough_for_parquet(store: Store) -> None:
    table = pa.table({"a": range(10_000), "b": [str(n) for n in range(10_000)]})
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=1000)
    store.put("part-0.parquet", out.getvalue())
    with store.open("part-0.parquet") as file:
        assert pq.ParquetFile(file).read(columns=["b"]).equals(table.select(["b"]))


def test_a_copy_has_the_content_and_replaces_what_was_there(
    store: Store, open_folder: Callable[[], Store], odd_names: list[str]
) -> None:
    for number, name in enumerate(odd_names):
        store.put(f"from/{name}", b"x" * number)
        store.copy_from(store, f"from/{name}", f"to/{name}")
    assert [len(store.get(f"to/{name}")) for name in odd_names] == list(range(len(odd_names)))
    elsewhere = MemoryStore("memory://elsewhere")
    elsewhere.put("here", b"other")
    for source, key in ((elsewhere, "here"), (open_folder(), f"from/{odd_names[1]}")):
        store.copy_from(source, key, "to/there")
        assert store.get("to/there") == source.get(key)
        with pytest.raises(FileNotFoundError):
            store.copy_from(source, "missing", "to/there")
        assert store.get("to/there") == source.get(key)


def test_deleting_what_is_not_there_is_no_error(store: Store) -> None:
    store.put("a/k", b"1")
    store.delete("a/k")
    store.delete("a/k")
    store.delete("no/such/folder")
    assert store.head("a/k") is None
    assert list(store.walk()) == []
    for key in ("x", "x b", "x_", "xb", "b/x"):
        store.put(key, b"1")
    for key in ("x", "x_"):
        store.delete(key)
    assert keys(store.walk()) == ["b/x", "x b", "xb"]


def test_many_files_are_deleted_at_once(store: Store, odd_names: list[str]) -> None:
    """A name that an escape changes on the way stays, or another file goes."""
    keys_put = [f"p=x/{name}" for name in odd_names] + ["a", "b/c/d"]
    for key in [*keys_put, "kept", "p=x/kept"]:
        store.put(key, b"x")
    assert store.delete_many([*keys_put, "missing", "no/such/folder"]) == {}
    assert keys(store.walk()) == ["kept", "p=x/kept"]
    assert store.delete_many([]) == {}


def test_a_tree_has_every_file(store: Store, odd_names: list[str]) -> None:
    listed = [f"p=x/{name}" for name in odd_names] + ["a", "_delta_log/0.json", "_delta_log/.1.json.tmp", "b/c/d"]
    for key in listed:
        store.put(key, b"123")
    tree = store.tree()
    walked = {info.key: (info.size_bytes, info.modified_ms) for info in store.walk()}
    assert dict(zip(tree.keys, zip(tree.sizes_bytes, tree.modified_ms, strict=True), strict=True)) == walked
    assert set(walked) == set(listed)
    assert set(tree.folders) <= {"p=x", "_delta_log", "b", "b/c"}
    assert len(tree.folders) == len(tree.folders_modified_ms)
    together = Tree()
    for branch in branches(store):
        together.extend(branch)
    assert sorted(together.keys) == sorted(tree.keys)
    assert sorted(together.folders) == sorted(tree.folders)


def test_a_missing_folder_has_no_tree(store: Store) -> None:
    tree = store.tree()
    assert (tree.keys, tree.folders) == ([], [])


def test_empty_folders_are_removed_and_others_stay(store: Store) -> None:
    for key in ["a/b/c/1", "a/d/2", "e/3"]:
        store.put(key, b"x")
    store.delete_many(["a/b/c/1", "e/3"])
    removed = store.remove_folders(["a", "a/b", "a/b/c", "a/d", "e", "missing"])
    if store.tree().folders:  # a file system
        assert sorted(removed) == ["a/b", "a/b/c", "e"]
        assert sorted(store.tree().folders) == ["a", "a/d"]
    assert keys(store.walk()) == ["a/d/2"]
    store.put("a/b/c/1", b"again")
    assert store.get("a/b/c/1") == b"again"


def test_a_missing_folder_has_no_files(store: Store) -> None:
    assert (
        list(store.list_from("_delta_log"))
        == list(store.list_from(""))
        == list(store.walk("x/y"))
        == list(store.walk())
        == []
    )
    assert list(store.list_from("_delta_log", "_delta_log/00000000000000000005")) == []


def test_listing_a_folder_shows_its_own_files_only(store: Store) -> None:
    """`_delta_log` has folders below it, whose files must not pass for log files, and `_delta_log2` is another
    folder.
    """
    for key in ["_delta_log/1.json", "_delta_log/_sidecars/a.parquet", "_delta_log2/2.json", "part-0.parquet"]:
        store.put(key, b"x")
    assert keys(store.list_from("_delta_log")) == ["_delta_log/1.json"]
    assert keys(store.list_from("_delta_log", "_delta_log/0")) == ["_delta_log/1.json"]
    assert keys(store.list_from("")) == ["part-0.parquet"]
    assert keys(store.walk("_delta_log")) == ["_delta_log/1.json", "_delta_log/_sidecars/a.parquet"]


def test_walking_shows_every_file_in_byte_order(store: Store) -> None:
    """`a-b` comes before `a/b`, as the bytes do, though a walk through folders would meet them the other way round."""
    names = ["a/b", "a-b", "a/c/d", "a0", "Z", "_delta_log/0.json", "a/b2"]
    for key in names:
        store.put(key, b"x")
    assert keys(store.walk()) == sorted(names)


def test_listing_starts_after_a_key(store: Store) -> None:
    for version in range(12):
        store.put(f"_delta_log/{version:020d}.json", b"x")
    assert keys(store.list_from("_delta_log", f"_delta_log/{9:020d}")) == [
        f"_delta_log/{v:020d}.json" for v in (9, 10, 11)
    ]
    assert keys(store.list_from("_delta_log", f"_delta_log/{10:020d}.json")) == [f"_delta_log/{11:020d}.json"]
    assert keys(store.list_from("_delta_log", "_delta_log/1")) == []


def test_names_are_kept_character_by_character_and_sorted_by_bytes(store: Store, odd_names: list[str]) -> None:
    """An escape that is undone or done twice on the way loses a data file whose partition value holds it."""
    listed = [f"p=x/{name}" for name in odd_names]
    for key in listed:
        assert store.put_if_absent(key, key.encode())
    listed.sort(key=byte_order)
    assert keys(store.list_from("p=x")) == keys(store.walk()) == listed
    assert [store.get(key).decode() for key in listed] == listed
    assert [info.key for key in listed if (info := store.head(key))] == listed
    assert [store.open(key).read().decode() for key in listed] == listed
    middle = listed[len(listed) // 2]
    assert keys(store.list_from("p=x", middle)) == listed[len(listed) // 2 + 1 :]
    for key in listed:
        store.delete(key)
    assert list(store.walk()) == []


def test_long_keys_are_kept_whole(store: Store) -> None:
    """Several partition columns with long values make a path that is longer than any name in it."""
    folders = "/".join(f"p{number}={'v' * 90}" for number in range(6))
    for name in ("1", "2"):
        assert store.put_if_absent(f"{folders}/part-{name}.parquet", name.encode())
    assert keys(store.walk()) == [f"{folders}/part-1.parquet", f"{folders}/part-2.parquet"]
    assert store.get(f"{folders}/part-1.parquet") == b"1"


def test_folders_may_have_odd_names(store: Store, odd_names: list[str]) -> None:
    for name in odd_names:
        store.put(f"{name}/f", b"x")
    assert keys(store.walk()) == sorted((f"{name}/f" for name in odd_names), key=byte_order)
    for name in odd_names:
        assert keys(store.list_from(name)) == [f"{name}/f"]


def test_a_folder_in_a_folder_has_its_files(store: Store, open_url: Callable[[str], Store]) -> None:
    """Shallow clones open the folder of each file, and a clone asks whether there is a table above it."""
    store.put("a/b/k", b"1")
    inside = open_url(f"{store.url}/a/b")
    assert inside.get("k") == b"1"
    inside.put("new", b"2")
    assert keys(store.walk()) == ["a/b/k", "a/b/new"]
    assert keys(open_url(f"{store.url}/a").walk()) == ["b/k", "b/new"]


def test_a_listing_of_many_pages_is_whole(store: Store) -> None:
    names = [f"_delta_log/{number:020d}.json" for number in range(1050)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: store.put(name, b""), names))
    assert keys(store.list_from("_delta_log")) == keys(store.walk()) == names
    assert keys(store.list_from("_delta_log", f"{names[0]}")) == names[1:]
    assert store.delete_many(names[1:]) == {}
    assert keys(store.walk()) == names[:1]


def test_unfinished_writes_are_no_log_files(store: Store) -> None:
    """What a crash leaves behind must not be listed as a commit; a walk shows it, so that it can be cleaned up."""
    store.put("_delta_log/.00000000000000000000.json.3f2b.tmp", b"half a comm")
    store.put("_delta_log/0.json", b"x")
    assert keys(store.list_from("_delta_log")) == ["_delta_log/0.json"]
    assert len(keys(store.walk("_delta_log"))) == 2


def test_writing_leaves_nothing_else_behind(store: Store) -> None:
    store.put_if_absent("_delta_log/0.json", b"x")
    store.put_if_absent("_delta_log/0.json", b"y")
    store.put("_delta_log/_last_checkpoint", b"z")
    assert keys(store.walk()) == ["_delta_log/0.json", "_delta_log/_last_checkpoint"]


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads that give way between any two steps, so that a look before a write shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
def test_one_of_eight_racing_writers_wins_each_key(open_folder: Callable[[], Store]) -> None:
    """Two winners would be two commits of one version: one of them is lost without a word. Readers meanwhile see all of
    it or nothing.
    """
    writers, keys_raced, size = 8, [f"_delta_log/{v:020d}.json" for v in range(40)], 20_000
    barrier, done = threading.Barrier(writers), threading.Event()

    def write(writer: int) -> list[str]:
        store = open_folder()
        won = []
        for key in keys_raced:
            barrier.wait(60)
            if store.put_if_absent(key, bytes([writer]) * size):
                won.append(key)
        return won

    def read() -> None:
        store = open_folder()
        while not done.is_set():
            for info in store.list_from("_delta_log"):
                data = store.get(info.key)
                assert len(data) == info.size_bytes == size
                assert len(set(data)) == 1

    with ThreadPoolExecutor(writers + 1) as pool:
        reader = pool.submit(read)
        writing = [pool.submit(write, n) for n in range(writers)]
        try:
            wins = {key: n for n, future in enumerate(writing) for key in future.result()}
            assert Counter(key for future in writing for key in future.result()) == Counter(keys_raced)
        finally:
            done.set()
        reader.result()
    store = open_folder()
    assert keys(store.walk()) == keys_raced
    assert {key: store.get(key)[0] for key in keys_raced} == wins


@pytest.mark.parametrize("write", ["put", "put_file", "copy_from"])
def test_a_reader_sees_all_of_a_file_or_nothing(
    open_folder: Callable[[], Store], store: Store, tmp_path: Path, write: str
) -> None:
    """A file that is written or copied in parts is half there in between, and a reader takes the half for the whole."""
    size, turns, done = 500_000, 12, threading.Event()
    contents = [bytes([turn]) * (size + turn) for turn in range(turns)]

    def write_all() -> None:
        target = open_folder()
        for turn, content in enumerate(contents):
            if write == "put":
                target.put("data/file", content)
            elif write == "put_file":
                (tmp_path / "content").write_bytes(content)
                with open(tmp_path / "content", "rb") as file:
                    target.put("data/file", file)
            else:
                target.copy_from(store, f"source/{turn}", "data/file")

    def read_all() -> None:
        reader = open_folder()
        while not done.is_set():
            info = reader.head("data/file")
            assert info is None or size <= info.size_bytes < size + turns, "a part of a file was listed"
            with suppress(FileNotFoundError):
                content = reader.get("data/file")
                assert content in contents, f"a part of a file was read: {len(content)} bytes"

    for turn, content in enumerate(contents):
        store.put(f"source/{turn}", content)
    with ThreadPoolExecutor(2) as pool:
        reading = pool.submit(read_all)
        try:
            pool.submit(write_all).result()
        finally:
            done.set()
        reading.result()
    assert store.get("data/file") == contents[-1]


def test_a_pickled_store_opens_the_same_folder(store: Store) -> None:
    store.put("k", b"1")
    again = pickle.loads(pickle.dumps(store))
    assert again.url == store.url
    assert again.get("k") == b"1"


def test_a_store_is_found_again_by_its_url(store: Store, open_folder: Callable[[], Store]) -> None:
    assert not store.url.endswith("/")
    assert open_folder().url == store.url
    store.put("k", b"1")
    assert open_folder().get("k") == b"1"
