"""A commit service on a storage that overwrites whatever it is asked: in every order of calls, each version has one
winner, who keeps it.

Each writer tries some versions, one after the other, and writes its name. One may die before any of its calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from tahoe.protocol.log.log_files import commit_key
from tahoe.storage.commit_service import CommitEntry
from tahoe.storage.coordinated import CoordinatedStore
from tahoe.storage.env import Env, Store
from tahoe.storage.memory import MemoryCommitService, MemoryStore
from tahoe.table.log.committer import Committed, put_commit
from tahoe.testing.explorer import Acknowledge, Explored, Place, Program, Writer, explore
from tests import sample

_numbers = itertools.count()
EVERYTHING = sample.IS_PROOF


def program(name: str, versions: Sequence[int]) -> Program:
    def run(env: Env, acknowledge: Acknowledge) -> None:
        for version in versions:
            content = f"{name} {version}"
            if put_commit(env, version, content.encode()) == Committed():
                acknowledge(version, content)
            else:
                assert env.store.get(commit_key(version)) != content.encode()

    return run


def consistent(store: Store, writers: Sequence[Writer]) -> str | None:
    broken = next((writer.failure for writer in writers if writer.failure is not None), None)
    if broken is not None:
        return f"a writer failed: {broken!r}"
    found = [store.get(file.key).decode() for file in store.list_from("_delta_log")]
    if [file.key for file in store.list_from("_delta_log")] != [commit_key(version) for version in range(len(found))]:
        return f"the log has a gap: {found}"
    told = [pair for writer in writers for pair in writer.acknowledged]
    lost = [(version, content) for version, content in told if found[version : version + 1] != [content]]
    return f"acknowledged and not there: {lost}" if lost else None


def run(tries: Sequence[Sequence[int]], *, deaths: int = 0, coordinated: bool = True) -> Explored:
    return explore(
        lambda store: store.put(commit_key(0), b"first"),
        [program(f"p{number}", versions) for number, versions in enumerate(tries)],
        consistent,
        atomic=False,
        coordinated=coordinated,
        deaths=deaths,
        place=Place(
            new_store=lambda: MemoryStore(f"memory://service-{next(_numbers)}", clock_ms=lambda: 1_700_000_000_000)
        ),
    )


RACE = ((1,), (1,))
SCOPES = [(RACE, 0), *([(RACE, 1), (((1,), (1, 2)), 0)] if EVERYTHING else [])]


@pytest.mark.parametrize(("tries", "deaths"), SCOPES)
def test_a_version_has_one_winner_in_every_order(tries: tuple[tuple[int, ...], ...], deaths: int) -> None:
    found = run(tries, deaths=deaths)
    assert not found.violations, found.violations
    print(f"{tries}, {deaths} deaths: {found.states:,} states, {found.endings:,} endings, depth {found.depth}")


# --- the exploration sees what is wrong


def test_without_the_service_a_commit_is_lost() -> None:
    assert run(RACE, coordinated=False).violations


def test_a_service_that_lets_two_writers_in_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryCommitService, "claim", lambda *_: True)
    assert run(RACE).violations


def test_a_writer_that_does_not_finish_the_version_before_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the newest entry is looked at later: a writer that goes behind an unfinished one hides it."""

    def leave(self: CoordinatedStore, entry: CommitEntry) -> None:
        pass

    monkeypatch.setattr(CoordinatedStore, "_finish", leave)
    assert run(RACE, deaths=1).violations
