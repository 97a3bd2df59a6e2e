"""The memory store's faults are what the tests of commits stand on: each does what it says, when it says so."""

from __future__ import annotations

import multiprocessing
import pickle

import pytest

from tahoe.errors import StorageUnavailableError
from tahoe.storage import open_store
from tahoe.storage.memory import Effect, Fault, FaultPlan, MemoryStore, Operation


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return f"memory://{request.node.name}"


def test_stores_of_one_name_share_their_content(url: str) -> None:
    MemoryStore(url).put("sub/k", b"1")
    assert MemoryStore(f"{url}/sub").get("k") == b"1"
    assert open_store(f"{url}/").get("sub/k") == b"1"
    assert list(MemoryStore(f"{url}-other").walk()) == []


def test_a_store_cannot_be_taken_to_another_process(url: str) -> None:
    """An executor that opened an empty store of the same name would read an empty table."""
    store = MemoryStore(url)
    store.put("k", b"1")
    assert pickle.loads(pickle.dumps(store)).get("k") == b"1"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_unpickle, (pickle.dumps(store),)) == "StorageUnavailableError"


def _unpickle(data: bytes) -> str:
    try:
        return type(pickle.loads(data)).__name__
    except StorageUnavailableError as error:
        return type(error).__name__


@pytest.mark.parametrize(
    ("effect", "stored"), [(Effect.RAISE_BEFORE, None), (Effect.RAISE_AFTER, b"1")], ids=["before", "after"]
)
def test_a_put_that_fails_before_leaves_nothing_and_one_that_fails_after_has_landed(
    url: str, effect: Effect, stored: bytes | None
) -> None:
    store = MemoryStore(url, FaultPlan(Fault(effect=effect, operation=Operation.PUT_IF_ABSENT)))
    with pytest.raises(StorageUnavailableError):
        store.put_if_absent("k", b"1")
    assert (store.get("k") if store.head("k") else None) == stored
    assert store.put_if_absent("k", b"2") is (stored is None)


def test_a_conflict_without_a_winner_says_false_and_stores_nothing(url: str) -> None:
    store = MemoryStore(url, FaultPlan(Fault(effect=Effect.ANSWER_FALSE, operation=Operation.PUT_IF_ABSENT, times=2)))
    assert [store.put_if_absent("k", b"1") for _ in range(2)] == [False, False]
    assert store.head("k") is None
    assert store.put_if_absent("k", b"1") is True


def test_a_fresh_file_is_hidden_from_listings_only(url: str) -> None:
    fault = Fault(effect=Effect.HIDE, operation=Operation.LIST, key="*/2.json", nth=2)
    store = MemoryStore(url, FaultPlan(fault))
    for version in range(3):
        store.put(f"_delta_log/{version}.json", b"x")
    seen = [[f.key[-6] for f in store.list_from("_delta_log")] for _ in range(3)]
    assert seen == [["0", "1", "2"], ["0", "1"], ["0", "1", "2"]]
    assert store.get("_delta_log/2.json") == b"x"


def test_faults_count_the_calls_that_they_match(url: str) -> None:
    plan = FaultPlan(Fault(effect=Effect.RAISE_BEFORE, operation=Operation.GET, key="a/*", nth=2, times=2))
    store = MemoryStore(url, plan)
    for key in ("a/x", "a/y", "b"):
        store.put(key, b"1")

    def outcome(key: str) -> bool:
        try:
            return store.get(key) == b"1"
        except StorageUnavailableError:
            return False

    assert [outcome(k) for k in ("a/x", "b", "b", "a/y", "a/x", "a/x")] == [True, True, True, False, False, True]
    plan.add(Fault(effect=Effect.RAISE_BEFORE, operation=Operation.GET))
    assert [outcome("a/x") for _ in range(2)] == [False, True]


def test_a_fault_may_raise_what_the_test_wants(url: str) -> None:
    """A simulator ends a writer at a storage call by an error that nothing catches."""
    store = MemoryStore(
        url, FaultPlan(Fault(effect=Effect.RAISE_BEFORE, operation=Operation.PUT, error=KeyboardInterrupt()))
    )
    with pytest.raises(KeyboardInterrupt):
        store.put("k", b"1")


@pytest.mark.parametrize("operation", list(Operation))
def test_every_operation_can_fail_and_is_counted(url: str, operation: Operation) -> None:
    calls = {
        Operation.LIST: lambda s: s.list_from("x"),
        Operation.WALK: lambda s: s.walk("x"),
        Operation.GET_RANGE: lambda s: s.get_range("x", 0, 1),
        Operation.PUT: lambda s: s.put("x", b""),
        Operation.PUT_IF_ABSENT: lambda s: s.put_if_absent("x", b""),
        Operation.TREE: lambda s: s.tree(),
        Operation.DELETE_MANY: lambda s: s.delete_many(["x"]),
    }
    key = "" if operation in (Operation.TREE, Operation.DELETE_MANY) else "x"
    store = MemoryStore(url, FaultPlan(Fault(effect=Effect.RAISE_BEFORE, operation=operation, key=key, nth=2)))
    MemoryStore(url).put("x", b"1")
    call = calls.get(operation, lambda s: getattr(s, operation.value)("x"))
    call(store)
    with pytest.raises(StorageUnavailableError):
        call(store)
    assert store.calls[operation] == store.calls.total() - (operation is Operation.DELETE_MANY) == 2


def test_a_fault_without_meaning_is_refused() -> None:
    with pytest.raises(AssertionError):
        Fault(effect=Effect.HIDE, operation=Operation.GET)
    with pytest.raises(AssertionError):
        Fault(effect=Effect.ANSWER_FALSE, operation=Operation.PUT)


def test_times_come_from_the_clock_it_was_given(url: str) -> None:
    times = iter([10, 20])
    store = MemoryStore(url, clock_ms=lambda: next(times))
    store.put("a", b"1")
    store.put_if_absent("b", b"1")
    assert [f.modified_ms for f in store.walk()] == [10, 20]
