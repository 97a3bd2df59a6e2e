"""A commit is made once, whatever the storage answers."""

from __future__ import annotations

import threading

import pytest

from tahoe.errors import StorageRefusedError
from tahoe.protocol.log.log_files import commit_key
from tahoe.storage.memory import Effect, Fault, FaultPlan, Operation
from tahoe.table.log.committer import Committed, Lost, Unknown, put_commit
from tests.table.builders import memory_env


def fault(effect: Effect, operation: Operation = Operation.PUT_IF_ABSENT, times: int = 1) -> FaultPlan:
    return FaultPlan(Fault(effect=effect, operation=operation, times=times))


def test_a_free_version_is_ours_and_a_taken_one_is_not():
    env = memory_env()
    assert put_commit(env, 0, b"mine") == Committed()
    assert put_commit(env, 0, b"other") == Lost()
    assert env.store.get(commit_key(0)) == b"mine"


def test_a_put_that_failed_after_it_landed_is_a_commit():
    env = memory_env(faults=fault(Effect.RAISE_AFTER))
    assert put_commit(env, 0, b"mine") == Committed()


def test_a_put_that_failed_before_it_landed_is_sent_again():
    env = memory_env(faults=fault(Effect.RAISE_BEFORE))
    assert put_commit(env, 0, b"mine") == Committed()
    assert env.store.get(commit_key(0)) == b"mine"


def test_a_failed_put_whose_version_somebody_else_has_is_lost():
    env = memory_env(faults=fault(Effect.RAISE_BEFORE))
    env.store.put(commit_key(0), b"winner")
    assert put_commit(env, 0, b"mine") == Lost()


def test_a_conflict_that_nobody_won_is_not_taken_for_a_loss():
    env = memory_env(faults=fault(Effect.ANSWER_FALSE))
    assert put_commit(env, 0, b"mine") == Committed()
    assert isinstance(put_commit(memory_env(faults=fault(Effect.ANSWER_FALSE, times=99)), 0, b"mine"), Unknown)


REFUSAL = StorageRefusedError(table="t", operation="create", detail="no right to write")


def refuse(times: int = 99) -> Fault:
    return Fault(effect=Effect.RAISE_BEFORE, operation=Operation.PUT_IF_ABSENT, times=times, error=REFUSAL)


def test_a_storage_that_refuses_for_good_says_so():
    with pytest.raises(StorageRefusedError):
        put_commit(memory_env(faults=FaultPlan(refuse())), 0, b"mine")


def test_a_put_that_nobody_answers_may_arrive_late_so_nothing_is_assumed():
    # taken for a failure, the data files would be deleted, and the commit that arrives after all would name them
    assert isinstance(put_commit(memory_env(faults=fault(Effect.RAISE_BEFORE, times=99)), 0, b"mine"), Unknown)


def test_a_refusal_says_nothing_of_an_earlier_try_that_was_not_answered():
    faults = FaultPlan(Fault(effect=Effect.RAISE_BEFORE, operation=Operation.PUT_IF_ABSENT, times=1), refuse())
    assert isinstance(put_commit(memory_env(faults=faults), 0, b"mine"), Unknown)


def test_where_neither_put_nor_get_answer_nothing_is_assumed():
    faults = FaultPlan(
        Fault(effect=Effect.RAISE_AFTER, operation=Operation.PUT_IF_ABSENT),
        Fault(effect=Effect.RAISE_BEFORE, operation=Operation.GET),
    )
    assert isinstance(put_commit(memory_env(faults=faults), 0, b"mine"), Unknown)


def test_of_many_that_race_for_a_version_one_wins():
    env = memory_env()
    outcomes = []
    racers = [threading.Thread(target=lambda n=n: outcomes.append(put_commit(env, 0, b"%d" % n))) for n in range(16)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sorted(type(o).__name__ for o in outcomes) == ["Committed"] + ["Lost"] * 15
