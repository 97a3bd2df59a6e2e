"""A commit that a service decides: whatever happens to the writer, the version is its own or free, and whoever looks
next finishes it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tahoe.errors import CommitEntryError, StorageRefusedError, StorageUnavailableError
from tahoe.protocol.log.log_files import commit_key, commit_name
from tahoe.storage.commit_service import CommitEntry
from tahoe.storage.coordinated import CoordinatedStore
from tahoe.storage.env import Store
from tahoe.storage.memory import Effect, Fault, FaultPlan, MemoryCommitService, MemoryStore, Operation
from tahoe.table.log.committer import Committed, put_commit
from tests.table.builders import memory_env

_names = itertools.count()

CALLS_MAX = 40


class Crash(BaseException):
    """The writer's process is gone."""


class Steps:
    """Counts the calls of a writer, and lets it fail before or after the nth."""

    def __init__(self, nth: int, after: bool, error: BaseException) -> None:
        self.calls, self.nth, self.after, self.error = 0, nth, after, error
        self.claimed = False

    def of(self, target: Any) -> Any:
        return _Stepped(target, self)

    def call(self, name: str, method: Callable[..., Any], *arguments: Any) -> Any:
        self.calls += 1
        is_due = self.calls == self.nth
        if is_due and not self.after:
            raise self.error
        answer = method(*arguments)
        self.claimed = self.claimed or name == "claim"
        if is_due:
            raise self.error
        return answer


class _Stepped:
    def __init__(self, target: Any, steps: Steps) -> None:
        self._target, self._steps = target, steps

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        return (lambda *arguments: self._steps.call(name, found, *arguments)) if callable(found) else found


class IgnoresTheCondition(MemoryStore):
    """A storage that overwrites, whatever it was asked."""

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self.put(key, data)
        return True


def new_store(kind: type[MemoryStore] = MemoryStore) -> CoordinatedStore:
    name = f"memory://coordinated-{next(_names)}"
    return CoordinatedStore(inner=kind(name), service=MemoryCommitService(name))


def stepped(store: CoordinatedStore, steps: Steps) -> CoordinatedStore:
    return replace(store, inner=steps.of(store.inner), service=steps.of(store.service))


def listed(store: Store) -> list[str]:
    return [file.key for file in store.list_from("_delta_log")]


def is_settled(store: CoordinatedStore, version: int) -> bool:
    entry = store.service.find(store.url, commit_name(version))
    return entry is not None and entry.is_complete


LOOKS: dict[str, Callable[[Store], object]] = {
    "list": lambda store: listed(store),
    "list from there": lambda store: list(store.list_from("_delta_log", "_delta_log/00000000000000000001")),
    "walk": lambda store: list(store.walk()),
    "get": lambda store: store.get(commit_key(1)) if store.head(commit_key(1)) else None,
    "write": lambda store: store.put_if_absent(commit_key(1), b"theirs"),
    "write the next": lambda store: store.put_if_absent(commit_key(2), b"next"),
}


@pytest.mark.parametrize("kind", [MemoryStore, IgnoresTheCondition])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("look", LOOKS)
def test_a_writer_may_crash_at_any_step(look: str, after: bool, kind: type[MemoryStore]) -> None:
    """Whoever looks next finds the whole commit or a free version, and nobody ever finds anything else later."""
    outcomes = set()
    for nth in range(1, CALLS_MAX):
        store = new_store(kind)
        store.put_if_absent(commit_key(0), b"0")
        steps = Steps(nth, after, Crash())
        try:
            stepped(store, steps).put_if_absent(commit_key(1), b"mine")
            break
        except Crash:
            pass
        LOOKS[look](store)
        if steps.claimed:
            assert store.inner.get(commit_key(1)) == b"mine", (
                "what has an entry must be in the log after any look at it"
            )
            assert listed(store)[:2] == [commit_key(0), commit_key(1)]
            assert is_settled(store, 1)
        elif not look.startswith("write"):
            assert store.put_if_absent(commit_key(1), b"theirs") is True
        if store.head(commit_key(1)) is not None:
            outcomes.add(store.get(commit_key(1)))
            store.put_if_absent(commit_key(2), b"next")
            assert listed(store) == [commit_key(version) for version in range(3)]
            assert is_settled(store, 2)
    else:
        raise AssertionError("the writer never came to its end")
    assert b"mine" in outcomes


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", [StorageUnavailableError, StorageRefusedError])
def test_an_error_at_any_step_never_makes_a_loss_of_a_commit_or_a_commit_of_a_loss(
    kind: type[StorageUnavailableError], after: bool
) -> None:
    for nth in range(1, CALLS_MAX):
        store = new_store()
        store.put_if_absent(commit_key(0), b"0")
        steps = Steps(nth, after, kind(table=store.url, operation="do it", detail="for the test"))
        env = replace(memory_env(), store=stepped(store, steps))
        try:
            assert put_commit(env, 1, b"mine") == Committed()
        except StorageRefusedError:
            assert not steps.claimed
            assert store.put_if_absent(commit_key(1), b"theirs") is True
            continue
        assert store.get(commit_key(1)) == b"mine"
        if steps.calls < nth:
            return
    raise AssertionError("the writer never came to its end")


def test_an_entry_whose_answer_was_lost_is_found_by_reading_back() -> None:
    """The first try and the second have different temporary files, and the entry of the first stands."""
    store = new_store()
    error = StorageUnavailableError(table=store.url, operation="answer", detail="for the test")

    class Deaf(MemoryCommitService):
        def claim(self, entry: CommitEntry) -> bool:
            MemoryCommitService.claim(self, entry)
            raise error

        def find(self, *_: object) -> CommitEntry | None:
            raise error

    deaf = replace(store, service=Deaf(store.url))
    with pytest.raises(StorageUnavailableError):
        deaf.put_if_absent(commit_key(0), b"mine")
    assert put_commit(replace(memory_env(), store=store), 0, b"mine") == Committed()


def test_a_writer_without_the_service_is_not_overwritten() -> None:
    """Its file was created between our look and our copy: where the storage can tell, ours has lost, though it has the
    entry.
    """
    store = new_store()
    theirs = MemoryStore(store.url)

    class Between(MemoryCommitService):
        def claim(self, entry: CommitEntry) -> bool:
            theirs.put(commit_key(0), b"theirs")
            return MemoryCommitService.claim(self, entry)

    assert replace(store, service=Between(store.url)).put_if_absent(commit_key(0), b"mine") is False
    assert store.get(commit_key(0)) == b"theirs"
    assert is_settled(store, 0)
    assert [file.key for file in store.walk()] == [commit_key(0)]


def test_readers_that_finish_one_commit_at_once_all_see_it() -> None:
    """One has taken the temporary file away while the other was about to read it."""
    store = new_store()
    entry = CommitEntry(table=store.url, file=commit_name(0), temporary=".tmp/a")
    store.put("_delta_log/.tmp/a", b"mine")
    store.service.claim(entry)

    class Late(MemoryStore):
        def get(self, key: str) -> bytes:
            if "/.tmp/" in key:
                assert listed(store) == [commit_key(0)]
            return MemoryStore.get(self, key)

    assert replace(store, inner=Late(store.url)).get(commit_key(0)) == b"mine"
    assert is_settled(store, 0)


def test_readers_go_on_when_the_service_will_not_note_that_a_commit_is_there() -> None:
    store = new_store()
    entry = CommitEntry(table=store.url, file=commit_name(0), temporary=".tmp/a")
    store.put("_delta_log/.tmp/a", b"mine")
    store.service.claim(entry)

    class ReadOnly(MemoryCommitService):
        def complete(self, entry: CommitEntry) -> None:
            raise StorageRefusedError(table=entry.table, operation="write", detail="for the test")

    assert listed(replace(store, service=ReadOnly(store.url))) == [commit_key(0)]
    assert store.head("_delta_log/.tmp/a") is not None
    assert listed(store) == [commit_key(0)]
    assert is_settled(store, 0)


@pytest.mark.parametrize("is_complete", [False, True])
def test_entries_of_a_table_that_was_deleted_are_named(is_complete: bool) -> None:
    """To take the version for lost would leave the writer without a winner; to take it would let two writers have
    it.
    """
    store = new_store()
    store.service.claim(
        CommitEntry(table=store.url, file=commit_name(0), temporary=".tmp/gone", is_complete=is_complete)
    )
    with pytest.raises(CommitEntryError, match=commit_name(0)) as caught:
        store.put_if_absent(commit_key(0), b"new")
    assert "delete that table's entries" in caught.value.next_step


@pytest.mark.parametrize(
    ("file", "temporary"),
    [(commit_name(0), "../../outside"), (commit_name(0), "/etc/x"), ("../x.json", ".tmp/a"), ("zzz", ".tmp/a")],
)
def test_an_entry_that_names_what_is_no_commit_of_the_log_is_refused(file: str, temporary: str) -> None:
    """Its bytes would become a commit, and be deleted where they were."""
    store = new_store()
    store.put("outside", b"precious")
    store.service.claim(CommitEntry(table=store.url, file=file, temporary=temporary))
    with pytest.raises(CommitEntryError):
        listed(store)
    assert store.get("outside") == b"precious"


def test_files_that_are_no_commits_need_no_entry() -> None:
    store = new_store()
    for key in (
        "_delta_log/00000000000000000000.crc",
        "00000000000000000000.json",
        "_delta_log/x/00000000000000000000.json",
    ):
        assert store.put_if_absent(key, b"1") is True
        assert store.put_if_absent(key, b"2") is False
    assert store.service.newest(store.url) is None


def test_a_failed_look_at_the_storage_is_no_commit() -> None:
    """A fault of the storage itself, not of a call around it."""
    name = f"memory://coordinated-{next(_names)}"
    faults = FaultPlan(Fault(effect=Effect.RAISE_AFTER, operation=Operation.PUT, key="*.tmp/*"))
    store = CoordinatedStore(inner=MemoryStore(name, faults), service=MemoryCommitService(name))
    with pytest.raises(StorageUnavailableError):
        store.put_if_absent(commit_key(0), b"1")
    assert store.service.newest(name) is None
    assert store.put_if_absent(commit_key(0), b"2") is True
