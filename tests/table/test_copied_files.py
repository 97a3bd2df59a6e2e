"""The record of the files that COPY INTO has loaded: each is loaded once, whatever happens in between."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import CopiedFilesLostError, DeltaConcurrentModificationException
from tahoe.protocol.log.copied_files import DOMAIN, FOLDER, copied_files
from tahoe.storage.env import Env
from tahoe.storage.memory import MemoryStore
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.commit.post_commit_hooks import clean_log
from tahoe.table.log.copied_files import loaded_among
from tahoe.table.verify.check import check_table
from tahoe.table.writing.copied_files import chosen, commit_copied
from tahoe.table.writing.planning import plan_replacement
from tahoe.table.writing.write_request import WriteRequest
from tests.table import copying
from tests.table.builders import memory_env
from tests.table.copying import choice_of, files, planned
from tests.table.dying import deaths

DAY_MS = 86_400_000


def at(env: Env) -> tahoe.Table:
    return tahoe.Table(env.store.url, env=env)


def new_table() -> Env:
    env = memory_env()
    at(env).append(pa.table({"id": [0]}))
    return env


@pytest.fixture
def env() -> Env:
    return new_table()


def load(env: Env, *names: str, force: bool = False) -> list[str]:
    return copying.load(at(env), *names, force=force)


def loaded(env: Env, version: int | None = None) -> list[str]:
    return copying.loaded(at(env), version)


def parts(env: Env) -> list[str]:
    return [info.key for info in env.store.list_from(FOLDER)]


def test_each_file_is_loaded_once(env: Env) -> None:
    assert load(env, "b", "a") == ["b", "a"]
    assert load(env, "a", "b") == []
    assert load(env, "c", "a") == ["c"]
    assert loaded(env) == ["a", "b", "c"]
    assert at(env).history(1)[0]["operation"] == "COPY INTO"
    assert [str(found) for found in check_table(at(env).log)] == []


def test_a_file_that_has_changed_is_loaded_again_only_if_that_is_asked_for(env: Env) -> None:
    load(env, "a", "b")
    snapshot = at(env).snapshot()
    now = [*files("a", size_bytes=2), *files("b")]
    kept = chosen(snapshot, now, force=False, reloads_changed=False)
    assert (kept.files, kept.skipped, kept.changed) == ([], 2, 1)
    again = chosen(snapshot, now, force=False, reloads_changed=True)
    assert (again.files, again.skipped, again.changed) == (files("a", size_bytes=2), 1, 0)
    commit_copied(planned(at(env)), again, [], {})
    assert chosen(at(env).snapshot(), now, force=False, reloads_changed=True).files == []
    assert loaded(env) == ["a", "b"]


def test_force_loads_all_and_the_record_has_each_file_once(env: Env) -> None:
    load(env, "a", "b")
    assert load(env, "a", force=True) == ["a"]
    assert loaded(env) == ["a", "b"]


def test_many_runs_leave_few_parts_and_look_ups_find_every_file(env: Env) -> None:
    for number in range(40):
        assert load(env, f"{number:03d}") == [f"{number:03d}"]
    snapshot = at(env).snapshot()
    record = copied_files(snapshot.domains, snapshot.metadata.id)
    assert len(record.parts) <= 3
    wanted = [f"file:///in/{number:03d}" for number in (7, 39, 40)]
    assert sorted(loaded_among(env.store, record, wanted)["path"].to_pylist()) == wanted[:2]


def test_of_two_runs_one_conflicts_and_then_finds_what_is_left(env: Env) -> None:
    first, second = planned(at(env)), planned(at(env))
    choices = choice_of(first, "a", "b"), choice_of(second, "b", "c")
    commit_copied(first, choices[0], [], {})
    discarded = list[int]()
    with pytest.raises(DeltaConcurrentModificationException):
        commit_copied(second, choices[1], [], {}, lambda: discarded.append(1))
    assert discarded == [1]
    assert len(parts(env)) == 1
    assert load(env, "b", "c") == ["c"]
    assert loaded(env) == ["a", "b", "c"]


def test_a_run_that_dies_at_any_call_has_loaded_all_or_nothing() -> None:
    def world() -> Env:
        env = new_table()
        load(env, "a")
        return env

    for env in deaths(lambda env: load(env, "a", "b"), world):
        committed = at(env).version == 2
        assert loaded(env) == (["a", "b"] if committed else ["a"])
        assert load(env, "a", "b") == ([] if committed else ["b"])
        assert [str(found) for found in check_table(at(env).log)] == []


def test_a_lost_part_is_an_error_and_not_an_empty_record(env: Env) -> None:
    load(env, "a")
    env.store.delete(parts(env)[0])
    with pytest.raises(CopiedFilesLostError, match="unknown which files are new"):
        load(env, "b")
    with at(env).transaction() as changes:
        changes.set_domain(DOMAIN, None)
    assert load(env, "b") == ["b"]


def test_a_restored_version_has_loaded_what_it_had_then(env: Env) -> None:
    load(env, "a")
    load(env, "b")
    at(env).restore(1)
    assert loaded(env) == ["a"]
    assert load(env, "a", "b") == ["b"]
    at(env).restore(2)
    assert loaded(env) == ["a", "b"]
    at(env).restore(0)
    assert load(env, "a", "b") == ["a", "b"]


@pytest.mark.parametrize("shallow", [False, True])
def test_a_deep_clone_goes_on_where_the_source_is(env: Env, shallow: bool) -> None:
    load(env, "a")
    load(env, "b")
    other = memory_env()
    at(env).clone(other.store.url, env=other, shallow=shallow)
    assert load(other, "a", "b", "c") == (["a", "b", "c"] if shallow else ["c"])
    load(env, "d")
    assert loaded(other) == ["a", "b", "c"]
    at(env).clone(other.store.url, env=other, shallow=shallow, replace=True)
    assert loaded(other) == ([] if shallow else ["a", "b", "d"])


def test_an_overwrite_keeps_the_record_and_a_replaced_table_has_none(env: Env) -> None:
    load(env, "a")
    at(env).overwrite(pa.table({"id": [1]}))
    assert load(env, "a") == []
    plan_replacement(at(env), WriteRequest(mode="overwrite", schema=at(env).snapshot().schema)).commit([])
    assert load(env, "a") == ["a"]


def test_log_cleanup_deletes_the_parts_that_no_version_needs() -> None:
    now = [1_700_000_000_000]
    base = memory_env()
    env = replace(base, store=MemoryStore(base.store.url, clock_ms=lambda: now[0]), clock_ms=lambda: now[0])
    at(env).append(pa.table({"id": [0]}), properties={"delta.logRetentionDuration": "interval 2 days"})
    for name in "abc":
        load(env, name)
        now[0] += 1000
    assert len(parts(env)) == 3
    write_checkpoint(at(env).snapshot())
    clean_log(at(env).snapshot())
    assert len(parts(env)) == 3  # versions of the log need them
    tagged = at(env).tag("early", 2)
    now[0] += 4 * DAY_MS
    write_checkpoint(at(env).snapshot())
    clean_log(at(env).snapshot())
    assert len(parts(env)) == 2  # the newest record, and that of the tag
    assert loaded(env) == ["a", "b", "c"]
    assert loaded(env, tagged.tag.version) == ["a", "b"]
    at(env).untag("early")
    now[0] += 4 * DAY_MS
    clean_log(at(env).snapshot())
    assert len(parts(env)) == 1
    assert loaded(env) == ["a", "b", "c"]


def test_vacuum_leaves_the_record(env: Env) -> None:
    load(env, "a")
    at(env).vacuum(retention_hours=0, retention_check=False)
    assert loaded(env) == ["a"]
