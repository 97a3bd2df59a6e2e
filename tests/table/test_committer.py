"""A commit is made once, whatever the storage answers."""

from __future__ import annotations

import threading

import pytest

from tahoe.errors import StorageRefusedError
from tahoe.protocol.log.log_files import commit_key
from tahoe.storage.memory import Effect, Fault, FaultPlan, Operation
from tahoe.table.log.committer import Committed, Lost, Unknown, put_commit
from tests.table.builders import memory_env


def fault(effect: Effect, operation: Operation = Operation.PUT_IF_ABSENT, times: int = 1) -> Fault:
    return Fault(effect=effect, operation=operation, times=times)


REFUSAL = StorageRefusedError(table="t", operation="create", detail="no right to write")


def refuse() -> Fault:
    return Fault(effect=Effect.RAISE_BEFORE, operation=Operation.PUT_IF_ABSENT, times=99, error=REFUSAL)


def test_a_free_version_is_ours_and_a_taken_one_is_not():
    env = memory_env()
    assert put_commit(env, 0, b"mine") == Committed()
    assert put_commit(env, 0, b"other") == Lost()
    assert env.store.get(commit_key(0)) == b"mine"


@pytest.mark.parametrize(
    ("faults", "winner", "outcome"),
    [
        pytest.param([fault(Effect.RAISE_AFTER)], None, Committed, id="failed after it landed"),
        pytest.param([fault(Effect.RAISE_BEFORE)], None, Committed, id="failed before it landed: sent again"),
        pytest.param([fault(Effect.RAISE_BEFORE)], b"winner", Lost, id="failed, and somebody else has the version"),
        pytest.param([fault(Effect.ANSWER_FALSE)], None, Committed, id="a conflict that nobody won"),
        pytest.param([fault(Effect.ANSWER_FALSE, times=99)], None, Unknown, id="conflicts that nobody won"),
        # taken for a failure, the data files would be deleted, and the commit that arrives after all would name them
        pytest.param([fault(Effect.RAISE_BEFORE, times=99)], None, Unknown, id="never answered: it may arrive late"),
        pytest.param([fault(Effect.RAISE_BEFORE), refuse()], None, Unknown, id="refused after a try without an answer"),
        pytest.param(
            [fault(Effect.RAISE_AFTER), fault(Effect.RAISE_BEFORE, Operation.GET)],
            None,
            Unknown,
            id="neither put nor get answer",
        ),
    ],
)
def test_without_a_clear_answer_a_commit_is_neither_lost_nor_made_twice(faults, winner, outcome):
    env = memory_env(faults=FaultPlan(*faults))
    if winner is not None:
        env.store.put(commit_key(0), winner)
    assert isinstance(put_commit(env, 0, b"mine"), outcome)
    if outcome is not Unknown:
        assert env.store.get(commit_key(0)) == (winner or b"mine")


def test_a_storage_that_refuses_for_good_says_so():
    with pytest.raises(StorageRefusedError):
        put_commit(memory_env(faults=FaultPlan(refuse())), 0, b"mine")


def test_of_many_that_race_for_a_version_one_wins():
    env = memory_env()
    outcomes = []
    racers = [threading.Thread(target=lambda n=n: outcomes.append(put_commit(env, 0, b"%d" % n))) for n in range(16)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sorted(type(o).__name__ for o in outcomes) == ["Committed"] + ["Lost"] * 15
