"""Commits that a catalog ratifies, while others publish: in every order of the calls to storage and catalog, each
version has one winner, who keeps it, whoever reads sees the same, and the log has it in order.

The catalog is made of files of the explored storage, so that each of its calls is a step. Writers try some versions, one
after the other; one may die before any of its calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from tahoe.protocol.log.log_files import LOG_FOLDER, commit_key
from tahoe.storage.env import Env, Store
from tahoe.storage.managed import ManagedStore
from tahoe.storage.memory import MemoryStore
from tahoe.storage.ratified import Ratified, RatifiedCommit
from tahoe.table.log.committer import Committed, put_commit
from tahoe.testing.explorer import Acknowledge, Explored, Place, Program, Writer, explore
from tests import sample

_numbers = itertools.count()
EVERYTHING = sample.IS_PROOF
RATIFIED, FORGOTTEN = "catalog", "forgotten"


@dataclass(frozen=True)
class FileCommits:
    """A catalog of one table in files: a version is ratified by the first one that makes its file."""

    store: Store

    def ratified(self) -> Ratified:
        known = [(int(file.key.rpartition("/")[2]), file.key) for file in self.store.list_from(RATIFIED)]
        forgotten = {int(file.key.rpartition("/")[2]) for file in self.store.list_from(FORGOTTEN)}
        kept = [(version, key) for version, key in known if version > max(forgotten, default=-1)]
        commits = (
            RatifiedCommit(version=version, file=self.store.get(key).decode(), size_bytes=0, modified_ms=0)
            for version, key in kept
        )
        return Ratified(known[-1][0] if known else -1, tuple(commits))

    def ratify(self, commit: RatifiedCommit) -> bool:
        return self.store.put_if_absent(f"{RATIFIED}/{commit.version:04}", commit.file.encode())

    def may_describe(self, _: int) -> bool:
        return True

    def published(self, version: int) -> None:
        self.store.put(f"{FORGOTTEN}/{version:04}", b"")


def managed(store: Store, new_id: Callable[[], str]) -> ManagedStore:
    return ManagedStore(store, FileCommits(store), new_id, lambda: 1_700_000_000_000)


def writer(name: str, versions: Sequence[int]) -> Program:
    def run(env: Env, acknowledge: Acknowledge) -> None:
        store = managed(env.store, env.new_id)
        for version in versions:
            content = f"{name} {version}"
            if put_commit(replace(env, store=store), version, content.encode()) == Committed():
                acknowledge(version, content)
            else:
                assert store.get(commit_key(version)) != content.encode()

    return run


def publisher(env: Env, _: Acknowledge) -> None:
    managed(env.store, env.new_id).publish()


def consistent(store: Store, writers: Sequence[Writer]) -> str | None:
    broken = next((writer.failure for writer in writers if writer.failure is not None), None)
    if broken is not None:
        return f"a writer failed: {broken!r}"
    reader = managed(store, lambda: "reader")
    found = [reader.get(file.key).decode() for file in reader.list_from(LOG_FOLDER)]
    if [file.key for file in reader.list_from(LOG_FOLDER)] != [commit_key(version) for version in range(len(found))]:
        return f"a reader sees a gap: {found}"
    published = [store.get(file.key).decode() for file in store.list_from(LOG_FOLDER)]
    if published != found[: len(published)]:
        return f"the log has {published}, and readers see {found}"
    told = [pair for writer in writers for pair in writer.acknowledged]
    lost = [(version, content) for version, content in told if found[version : version + 1] != [content]]
    return f"acknowledged and not there: {lost}" if lost else None


def run(programs: Sequence[Program], *, deaths: int = 0) -> Explored:
    def setup(store: Store) -> None:
        assert managed(store, lambda: "first").put_if_absent(commit_key(0), b'first "catalogManaged"')

    return explore(
        setup,
        programs,
        consistent,
        deaths=deaths,
        place=Place(
            new_store=lambda: MemoryStore(f"memory://managed-{next(_numbers)}", clock_ms=lambda: 1_700_000_000_000)
        ),
    )


RACE = (writer("a", (1,)), writer("b", (1,)))
SCOPES = {
    "a race": (RACE, 0),
    "beside a publisher": ((writer("a", (1,)), publisher), 0),
    **(
        {
            "a race of which one dies": (RACE, 1),
            "two versions": ((writer("a", (1,)), writer("b", (1, 2))), 0),
            "two publishers": ((writer("a", (1,)), publisher, publisher), 0),
            "a publisher dies": ((writer("a", (1,)), publisher), 1),
        }
        if EVERYTHING
        else {}
    ),
}


@pytest.mark.parametrize("scope", SCOPES)
def test_a_version_has_one_winner_in_every_order(scope: str) -> None:
    programs, deaths = SCOPES[scope]
    found = run(programs, deaths=deaths)
    assert not found.violations, found.violations
    print(f"{scope}: {found.states:,} states, {found.endings:,} endings, depth {found.depth}")


# --- the exploration sees what is wrong


def test_a_catalog_that_lets_two_writers_in_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def ratify(self: FileCommits, commit: RatifiedCommit) -> bool:
        self.store.put(f"{RATIFIED}/{commit.version:04}", commit.file.encode())
        return True

    monkeypatch.setattr(FileCommits, "ratify", ratify)
    assert run(RACE).violations


def test_a_reader_that_lists_before_it_asks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is published and forgotten in between is then in neither of the two."""

    def list_from(self: ManagedStore, prefix: str, start_after: str = "") -> object:
        files = {info.key: info for info in self.inner.list_from(prefix, start_after)}
        state = self._ask()
        files |= {commit_key(c.version): c for c in state.commits}  # type: ignore[misc]
        return iter(files[key] for key in sorted(files))

    def reads(env: Env, _: Acknowledge) -> None:
        assert list(managed(env.store, env.new_id).list_from(LOG_FOLDER)), "version 0 is there all the time"

    monkeypatch.setattr(ManagedStore, "list_from", list_from)
    assert run((reads, publisher)).violations
