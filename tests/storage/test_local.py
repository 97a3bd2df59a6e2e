"""What is particular to folders of the local disk."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tahoe.errors import AtomicCreateUnsupportedError, StorageUnavailableError
from tahoe.storage import open_store
from tahoe.storage.local import LocalStore, no_new_folder_left


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = open_store(tmp_path / "t")
    assert isinstance(store, LocalStore)
    return store


def test_writing_goes_on_while_empty_folders_are_removed(store: LocalStore) -> None:
    """A writer makes a folder and then its first file: whoever removes the folder in between must not make the write
    fail.
    """
    done = threading.Event()

    def remove() -> None:
        while not done.wait(0.0005):
            store.remove_folders(["a/b", "a"])

    with ThreadPoolExecutor(1) as pool:
        removing = pool.submit(remove)
        try:
            for _ in range(30):
                store.put("a/b/c", b"x")
                assert store.get("a/b/c") == b"x"
                store.delete("a/b/c")
        finally:
            done.set()
        removing.result()


def refuse(code: int) -> Callable[..., None]:
    def call(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return call


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_without_hard_links_creating_is_refused_and_leaves_nothing(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """A writer that creates the final name and then fills it shows half a commit to readers."""
    monkeypatch.setattr(os, "link", refuse(code))
    with pytest.raises(AtomicCreateUnsupportedError, match="no hard links") as caught:
        store.put_if_absent("_delta_log/0.json", b"x")
    assert "object store" in caught.value.next_step
    assert list(store.walk()) == []
    store.put("k", b"x")
    assert store.get("k") == b"x"


def test_a_link_that_a_network_file_system_sent_twice_is_ours(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS may repeat a request whose answer was lost, and report that the name, which it has just made, exists."""
    link = os.link

    def twice(source: str, target: str) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", twice)
    assert store.put_if_absent("k", b"x") is True
    assert store.put_if_absent("k", b"y") is False
    assert store.get("k") == b"x"


def test_content_and_names_are_forced_to_the_disk_in_order(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a loss of power a commit must be whole or absent, and one that was reported must be there."""
    steps: list[str] = []
    fsync, link, mkdir = os.fsync, os.link, os.mkdir

    def note_fsync(descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        steps.append("sync " + ("content" if name.endswith(".tmp") else os.path.basename(name)))
        fsync(descriptor)

    def note_link(source: str, target: str) -> None:
        steps.append("link")
        link(source, target)

    def note_mkdir(path: str) -> None:
        steps.append(f"mkdir {os.path.basename(path)}")
        mkdir(path)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "link", note_link)
    monkeypatch.setattr(os, "mkdir", note_mkdir)
    parent = Path(store.url.removeprefix("file://")).parent.name
    store.put_if_absent("_delta_log/0.json", b"x")
    assert steps == [
        "mkdir t",
        f"sync {parent}",
        "mkdir _delta_log",
        "sync t",
        "sync content",
        "link",
        "sync _delta_log",
    ]
    steps.clear()
    store.put_if_absent("_delta_log/0.crc", b"x")  # nobody needs a version checksum
    assert steps == ["link"]


def test_a_folder_that_cannot_be_synced_is_no_failure(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def only_files(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EINVAL, "not for folders")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", only_files)
    assert store.put_if_absent("k", b"x") is True


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EIO])
def test_what_the_system_refuses_is_a_storage_error_that_names_file_and_cause(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(os, "fsync", refuse(code))
    for write in (store.put, store.put_if_absent):
        with pytest.raises(StorageUnavailableError, match=os.strerror(code)) as caught:
            write("k", b"x")
        assert "k" in caught.value.parameters["operation"]
    assert list(store.walk()) == []


def test_what_the_system_refuses_to_show_is_no_missing_file(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that may not be listed must not look like a folder without a table, into which a new one could be
    written.
    """
    store.put("p/k", b"x")
    monkeypatch.setattr(os, "scandir", refuse(errno.EACCES))
    monkeypatch.setattr(os, "stat", refuse(errno.EACCES))
    monkeypatch.setattr("builtins.open", refuse(errno.EACCES))
    calls = [
        lambda: list(store.list_from("p")),
        lambda: list(store.walk()),
        lambda: store.head("p/k"),
        lambda: store.get("p/k"),
    ]
    refused = []
    for call in calls:
        try:
            call()
        except StorageUnavailableError as error:
            refused.append(error)
    monkeypatch.undo()
    assert len(refused) == len(calls)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do anything, so that permissions cannot be tested")
def test_a_folder_without_permission_is_a_storage_error(store: LocalStore) -> None:
    store.put("p/k", b"x")
    path = store.url.removeprefix("file://")
    os.chmod(f"{path}/p", 0)
    try:
        calls = [
            lambda: store.get("p/k"),
            lambda: list(store.list_from("p")),
            lambda: store.put("p/l", b"x"),
            lambda: store.head("p/k"),
        ]
        for call in calls:
            with pytest.raises(StorageUnavailableError):
                call()
    finally:
        os.chmod(f"{path}/p", 0o700)


def test_a_file_where_a_folder_should_be(store: LocalStore) -> None:
    store.put("a", b"x")
    assert list(store.list_from("a")) == list(store.walk("a")) == []
    assert store.head("a/b") is None
    with pytest.raises(FileNotFoundError):
        store.get("a/b")
    with pytest.raises(StorageUnavailableError):
        store.put("a/b", b"x")


def test_a_name_that_no_file_can_have(store: LocalStore) -> None:
    for key in ("a\0b", "x" * 300):
        with pytest.raises(StorageUnavailableError):
            store.put(key, b"x")


def test_links_to_folders_do_not_make_a_walk_endless(store: LocalStore) -> None:
    store.put("a/k", b"x")
    path = store.url.removeprefix("file://")
    os.symlink(path, f"{path}/a/loop")
    os.symlink("/nowhere", f"{path}/a/broken")
    os.symlink(f"{path}/a/k", f"{path}/a/link")
    assert [f.key for f in store.walk()] == ["a/k", "a/link"]
    assert [f.key for f in store.list_from("a")] == ["a/k", "a/link"]


def test_names_that_are_no_utf8_are_listed_and_read(store: LocalStore) -> None:
    """Another program's file with such a name must not make the whole table unreadable."""
    store.put("a/z", b"x")
    path = os.fsencode(store.url.removeprefix("file://"))
    with open(path + b"/a/\xff", "wb") as file:
        file.write(b"odd")
    found = [f.key for f in store.list_from("a")]
    assert found == ["a/z", "a/\udcff"]
    assert store.get(found[1]) == b"odd"


# --- what a failure leaves


def failing(folder: Path, *made: str) -> None:
    with suppress(ZeroDivisionError), no_new_folder_left(folder.as_uri()):
        for key in made:
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            if not key.endswith("/"):
                (folder / key).write_text("x")
            else:
                (folder / key).mkdir()
        raise ZeroDivisionError


def test_a_new_folder_goes_where_nothing_came_of_it(tmp_path: Path) -> None:
    failing(tmp_path / "t", "p=1/", "p=2/q=3/", "_delta_log/")
    assert list(tmp_path.iterdir()) == []


def test_what_another_writer_has_put_into_a_new_folder_stays(tmp_path: Path) -> None:
    failing(tmp_path / "t", "p=1/", "_delta_log/00000000000000000000.json")
    assert sorted(map(str, (tmp_path / "t").rglob("*"))) == [
        f"{tmp_path}/t/_delta_log",
        f"{tmp_path}/t/_delta_log/00000000000000000000.json",
    ]


def test_a_folder_that_was_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "t" / "mine").mkdir(parents=True)
    failing(tmp_path / "t", "p=1/")
    assert {path.name for path in (tmp_path / "t").iterdir()} == {"mine", "p=1"}
