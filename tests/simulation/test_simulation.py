"""Lives of a table on a storage that fails: the total never changes, and what was acknowledged is there. `make sim`
runs many more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from tahoe.protocol.log.log_files import STAGED_FOLDER
from tahoe.storage.managed import ManagedStore
from tahoe.storage.ratified import RatifiedCommit
from tahoe.table.commit import transaction
from tahoe.table.log import checkpoint
from tahoe.table.log.committer import Committed
from tahoe.testing.simulated_world import Life
from tahoe.testing.simulator import live
from tests import sample
from tests.simulation.__main__ import report

# Somebody takes long for checkpoints, and the table is dropped and made anew meanwhile.
RECREATED = ("archivist", "demolisher")


def _always_ratified(store: ManagedStore, version: int, data: bytes) -> bool:
    """A store that takes a lost race for a won one."""
    file = f"{version:020d}.{store.new_id()}.json"
    store.inner.put(f"{STAGED_FOLDER}/{file}", data)
    store.commits.ratify(RatifiedCommit(version=version, file=file, size_bytes=len(data), modified_ms=0))
    return True


LIVES = sample.number("TAHOE_LIVES", quick=12, ci=40, full=40)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "tahoe")


def test_the_total_never_changes() -> None:
    lives = [live(seed) for seed in range(LIVES)]
    report(lives)
    assert not [(life.seed, life.violations) for life in lives if life.violations]
    assert sum(life.rebases_after_fault > 0 for life in lives) >= LIVES / 2, "the lives are too easy"


def test_the_total_never_changes_in_a_table_that_is_made_anew() -> None:
    lives = [live(seed, also=RECREATED) for seed in range(LIVES)]
    assert not [(life.seed, life.violations) for life in lives if life.violations]


def test_the_total_never_changes_in_a_table_of_a_catalog() -> None:
    """Answers of the catalog are lost, its clients die, and publication lags behind."""
    lives = [live(seed, has_catalog=True) for seed in range(LIVES)]
    report(lives)
    assert not [(life.seed, life.violations) for life in lives if life.violations]
    assert sum(life.rebases_after_fault > 0 for life in lives) >= LIVES / 2, "the lives are too easy"


@pytest.mark.parametrize("has_catalog", [False, True])
def test_a_seed_is_one_life(has_catalog: bool) -> None:
    first, second = live(7, has_catalog=has_catalog), live(7, has_catalog=has_catalog)
    assert first.trace == second.trace
    assert first.faults == second.faults


@pytest.mark.parametrize(
    ("target", "attribute", "mutant", "also", "first"),
    [
        (transaction, "find_conflict", lambda *_, **__: None, (), 0),
        (
            transaction,
            "put_commit",
            lambda env, version, data: (env.store.put_if_absent(_key(version), data), Committed())[1],
            (),
            0,
        ),
        (transaction, "check_follows", lambda *_, **__: None, (), 145),
        (checkpoint, "has_commit", lambda *_: True, RECREATED, 116),
    ],
    ids=[
        "no conflict check",
        "every put has won",
        "no look at the version before",
        "every checkpoint belongs to the table",
    ],
)
def test_what_is_broken_is_seen(
    target: object, attribute: str, mutant: object, also: tuple[str, ...], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`first` is a seed that has seen it, so that few lives are needed as long as they stay the same."""
    monkeypatch.setattr(target, attribute, mutant)
    seeds = [*range(first, 300), *range(first)]
    _check_seen(lambda seed: live(seed, also=also), seeds)


@pytest.mark.parametrize(
    ("attribute", "mutant", "first"),
    [
        ("_ratified", _always_ratified, 0),
        ("_ask", lambda self: self._known[0] if self._known[0].latest >= 0 else self._know(self.commits.ratified()), 0),
        ("before_describing", lambda *_: None, 18),
    ],
    ids=["every proposal is ratified", "the catalog is asked once", "what is not published is described"],
)
def test_what_is_broken_with_a_catalog_is_seen(
    attribute: str, mutant: object, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ManagedStore, attribute, mutant)
    _check_seen(partial(live, has_catalog=True), [*range(first, 300), *range(first)])


def _check_seen(lived: Callable[[int], Life], seeds: Sequence[int]) -> None:
    found = next((life for life in map(lived, seeds) if life.violations), None)
    assert found is not None, "the simulation is blind to this"
    print(f"seen with seed {found.seed}: {found.violations[0]}")


def _key(version: int) -> str:
    return f"_delta_log/{version:020}.json"
