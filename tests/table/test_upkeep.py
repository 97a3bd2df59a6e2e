"""What follows commits: checksums, checkpoints, compacted files, and the end of what has expired. No version that is
promised is lost.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import CorruptCheckpointError, DeltaError, InvalidOptionError, VersionNotFoundError
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import Action, CommitInfo, DomainMetadata, Metadata, Protocol, Remove, Txn
from tahoe.protocol.log.version_checksum import parse_version_checksum
from tahoe.storage.background import finish_background, in_background
from tahoe.storage.env import Env
from tahoe.storage.memory import Effect, Fault, FaultPlan, MemoryStore, Operation
from tahoe.table.commit import checkpoint_writer
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.commit.post_commit_hooks import checksum_of, clean_log, compact_log
from tahoe.table.commit.transaction import Transaction
from tahoe.table.log.delta_log import Log
from tahoe.table.log.file_parts import CheckpointPart
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tahoe.table.verify.log import check_log
from tests.table.builders import METADATA, PROTOCOL, add, make_log, memory_env, put_commit
from tests.table.checkpoints import V2, VECTOR, with_statistics

DAY_MS = 86_400_000
ROWS = pa.table({"id": [1, 2, 3]})


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def env(clock: Clock) -> Env:
    env = memory_env()
    return replace(env, store=MemoryStore(env.store.url, clock_ms=clock), clock_ms=clock)


def names(env: Env) -> list[str]:
    return [info.key.rpartition("/")[2] for info in env.store.list_from(log_files.LOG_FOLDER)]


def versions(env: Env, suffix: str = ".json") -> list[int]:
    return [int(name[:20]) for name in names(env) if name[20:] == suffix]


# --- after commits


def test_every_commit_has_a_checksum_that_the_files_agree_with(env: Env) -> None:
    table = tahoe.Table(env.store.url, env=env)
    for _ in range(3):
        table.append(ROWS, txn=None)
    assert versions(env, ".crc") == [0, 1, 2]
    assert list(check_log(table.log)) == []
    found = parse_version_checksum(env.store.get(f"{log_files.LOG_FOLDER}/{log_files.checksum_name(2)}"))
    assert found is not None
    snapshot = table.snapshot()
    assert (found.num_files, found.table_size_bytes) == (3, snapshot.live.size_bytes)
    assert (found.protocol, found.metadata) == (snapshot.protocol, snapshot.metadata)
    assert found.txn_id == table.log.commit_info(2).txn_id
    assert found.files is not None
    assert {a.path for a in found.files} == set(snapshot.live.column("path").to_pylist())


def test_a_checksum_counts_vectors_and_lists_applications_and_domains() -> None:
    log = make_log([[]])
    put_commit(
        log.env, 1, [V2, add("a", deletion_vector=VECTOR), add("b"), DomainMetadata(domain="d", configuration="{}")]
    )
    Transaction(log=log, base=load_snapshot(log), actions=[Txn(app_id="x", version=3)], operation="WRITE").commit()
    body = json.loads(log.env.store.get(f"{log_files.LOG_FOLDER}/{log_files.checksum_name(2)}"))
    assert (body["numDeletionVectorsOpt"], body["numDeletedRecordsOpt"]) == (1, VECTOR.cardinality)
    assert (body["setTransactions"], body["numMetadata"], body["numProtocol"]) == ([{"appId": "x", "version": 3}], 1, 1)
    assert body["domainMetadata"] == [{"domain": "d", "configuration": "{}", "removed": False}]


def test_checkpoints_come_at_the_interval(env: Env) -> None:
    table = tahoe.Table(env.store.url, env=env)
    table.append(ROWS, properties={"delta.checkpointInterval": "3"})
    for _ in range(7):
        table.append(ROWS)
    assert versions(env, ".checkpoint.parquet") == [3, 6]
    assert tahoe.Table(env.store.url, env=env).to_arrow().num_rows == 8 * 3


def test_a_table_that_is_deleted_right_after_a_commit_is_no_reason_for_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    later: list[Callable[[], None]] = []
    env = replace(tahoe.Table(tmp_path / "t").env, background=later.append)
    table = tahoe.Table(tmp_path / "t", env=env)
    with caplog.at_level(logging.WARNING, "tahoe"):
        table.append(ROWS, properties={"delta.checkpointInterval": "1"})
        shutil.rmtree(tmp_path / "t")
        for work in later:
            work()
    assert caplog.text == ""


def test_a_checksum_of_a_commit_behind_winners_counts_theirs_too() -> None:
    log = make_log([[add("a")], [add("b")], [Remove(path="a")]])
    Transaction(log=log, base=load_snapshot(log, 0), actions=[add("c")], operation="WRITE").commit()
    found = parse_version_checksum(log.env.store.get(f"{log_files.LOG_FOLDER}/{log_files.checksum_name(3)}"))
    assert found is not None
    assert [a.path for a in found.files or ()] == ["c", "b"]


@pytest.mark.parametrize("key", ["*.crc", "*.parquet"])
def test_what_fails_after_a_commit_is_told_and_hurts_nobody(key: str, caplog: pytest.LogCaptureFixture) -> None:
    faults = FaultPlan(
        Fault(effect=Effect.RAISE_BEFORE, operation=Operation.PUT_IF_ABSENT, key=f"_delta_log/{key}", times=99)
    )
    table = tahoe.Table("memory://unused", env=memory_env(faults=faults))
    table.append(ROWS, properties={"delta.checkpointInterval": "1"})
    with caplog.at_level(logging.WARNING, "tahoe"):
        assert table.append(ROWS) == 1
    assert "version 1 is committed" in caplog.text
    assert table.to_arrow().num_rows == 6


def test_a_small_table_is_opened_from_its_checksum(env: Env) -> None:
    table = tahoe.Table(env.store.url, env=env)
    for n in range(5):
        table.append(ROWS, txn=("app", n))
    env.store.delete(f"{log_files.LOG_FOLDER}/_last_checkpoint")
    store = MemoryStore(env.store.url, clock_ms=env.clock_ms)
    found = load_snapshot(Log(replace(env, store=store)))
    assert store.calls[Operation.GET] == 3, "the hint, the checksum, the commit"
    replayed = _replayed(table.log)
    assert sorted(found.live.adds(), key=lambda a: a.path) == sorted(replayed.live.adds(), key=lambda a: a.path)
    assert (found.protocol, found.metadata, found.txns) == (replayed.protocol, replayed.metadata, replayed.txns)


def _replayed(log: Log) -> Snapshot:
    return load_snapshot(log, 0).after(
        [(log_files.parse_name(log_files.commit_name(v)), log.read_version(v)) for v in range(1, 5)]
    )


@pytest.mark.parametrize("what", ["another transaction", "another engine", "broken", "no files"])
def test_a_checksum_that_is_not_known_to_be_right_is_not_relied_on(env: Env, what: str) -> None:
    table = tahoe.Table(env.store.url, env=env)
    for _ in range(5):
        table.append(ROWS)
    key = f"{log_files.LOG_FOLDER}/{log_files.checksum_name(4)}"
    body = json.loads(env.store.get(key))
    body["allFiles"] = body["allFiles"][:1]
    if what == "another transaction":
        body["txnId"] = "other"
    if what == "no files":
        del body["allFiles"]
    if what == "another engine":
        commit = log_files.commit_key(4)
        env.store.put(commit, env.store.get(commit).replace(b"tahoe/", b"other/"))
    env.store.put(key, b"{" if what == "broken" else json.dumps(body).encode())
    assert len(load_snapshot(table.log).live) == 5


class Waiting:
    """Work for the background that waits until a test lets it happen."""

    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []

    def __call__(self, work: Callable[[], None]) -> None:
        self.work.append(work)

    def finish(self) -> None:
        while self.work:
            self.work.pop(0)()


@pytest.mark.parametrize("made_anew", [True, False])
def test_what_follows_a_commit_does_not_touch_a_table_that_came_after(clock: Clock, made_anew: bool) -> None:
    waiting = Waiting()
    env = memory_env()
    env = replace(env, store=MemoryStore(env.store.url, clock_ms=clock), clock_ms=clock, background=waiting)
    table = tahoe.Table(env.store.url, env=env)
    for _ in range(3):
        table.append(ROWS, properties={"delta.checkpointInterval": "1"} if not table.exists() else None)
    for info in list(env.store.walk()):
        env.store.delete(info.key)
    clock.now_ms += 1
    if made_anew:
        after = tahoe.Table(env.store.url, env=replace(env, background=lambda work: None))
        for _ in range(3):
            after.append(ROWS)
    before = [info.key for info in env.store.walk()]
    waiting.finish()
    assert [info.key for info in env.store.walk()] == before


def test_a_table_that_is_dropped_while_its_checkpoint_is_made_does_not_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = make_log([[add("a")]])
    snapshot = load_snapshot(log)
    put = checkpoint_writer._Writer._put_parquet

    def dropped_meanwhile(self: Any, *args: Any, **options: Any) -> Any:
        for info in list(log.env.store.walk()):
            log.env.store.delete(info.key)
        return put(self, *args, **options)

    monkeypatch.setattr(checkpoint_writer._Writer, "_put_parquet", dropped_meanwhile)
    with pytest.raises(DeltaError):
        write_checkpoint(snapshot)
    assert list(log.env.store.walk()) == []


def test_a_checksum_does_not_list_files_whose_statistics_are_elsewhere() -> None:
    log = with_statistics(
        **{"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "false"}
    )
    write_checkpoint(load_snapshot(log))
    assert checksum_of(load_snapshot(log), CommitInfo({})).files is None


def test_the_checksum_of_many_files_reads_no_statistics(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    # of a million files they are hundreds of megabytes, and a checksum comes with each commit
    put_commit(env, 0, [PROTOCOL, METADATA, *(add(f"f{n}", stats='{"numRecords":1}') for n in range(60))])
    write_checkpoint(load_snapshot(Log(env)))
    snapshot = load_snapshot(Log(env))
    read: list[str] = []
    load = CheckpointPart.load
    monkeypatch.setattr(CheckpointPart, "load", lambda self, names: read.extend(names) or load(self, names))
    assert checksum_of(snapshot, CommitInfo({})).files is None
    assert "stats" not in read


def test_a_broken_checkpoint_does_not_stop_the_next(env: Env, clock: Clock) -> None:
    log = old_log(env, clock, 15)
    env.store.put(f"{log_files.LOG_FOLDER}/{log_files.classic_checkpoint_name(10)}", b"broken")
    write_checkpoint(load_snapshot(log))
    assert versions(env, ".checkpoint.parquet") == [10, 14]
    assert len(load_snapshot(log).live) == 15


def test_a_checkpoint_that_is_there_is_not_written_anew_unless_it_is_broken() -> None:
    log = make_log([[add("a")]])
    key = f"{log_files.LOG_FOLDER}/{log_files.classic_checkpoint_name(0)}"
    write_checkpoint(load_snapshot(log))
    first = log.env.store.head(key)
    write_checkpoint(load_snapshot(log))
    assert log.env.store.head(key) == first
    log.env.store.put(key, b"broken")
    write_checkpoint(load_snapshot(log))
    assert log.env.store.get(key)[:4] == b"PAR1"


def test_a_forked_process_has_a_background_of_its_own() -> None:
    in_background(lambda: None)
    finish_background()
    done = os.fork()
    if done == 0:
        finish_background()
        os._exit(0)
    assert os.waitpid(done, 0)[1] == 0


# --- compacted files


def test_a_compacted_file_is_read_in_place_of_its_commits() -> None:
    protocol = Protocol(reader_version=1, writer_version=7, writer_features=("domainMetadata",))
    removed = [Remove(path="a"), Txn(app_id="x", version=1)]
    log = make_log([[add("a")], [protocol, add("b"), DomainMetadata(domain="d", configuration="1")], removed])
    put_commit(
        log.env, 3, [add("c"), DomainMetadata(domain="d", configuration="1", removed=True), Txn(app_id="x", version=2)]
    )
    put_commit(log.env, 4, [add("e")])
    expected = load_snapshot(log)
    compact_log(log, 1, 3)
    assert list(check_log(log)) == []
    for version in (1, 2):
        log.env.store.delete(log_files.commit_key(version))
    found = load_snapshot(log)
    assert (
        sorted(found.live.column("path").to_pylist())
        == sorted(expected.live.column("path").to_pylist())
        == ["b", "c", "e"]
    )
    assert (found.txns, found.domains) == (expected.txns, expected.domains)


def test_a_compacted_file_keeps_what_older_files_must_forget() -> None:
    log = make_log([[add("a"), DomainMetadata(domain="d", configuration="1")]])
    put_commit(log.env, 1, [Remove(path="a")])
    put_commit(log.env, 2, [DomainMetadata(domain="d", configuration="", removed=True)])
    compact_log(log, 1, 2)
    log.env.store.delete(log_files.commit_key(1))
    found = load_snapshot(log)
    assert (len(found.live), found.domains) == (0, {})


def test_only_a_range_can_be_compacted() -> None:
    log = make_log([[add("a")], [add("b")]])
    with pytest.raises(InvalidOptionError):
        compact_log(log, 1, 1)


# --- what has expired


def old_log(env: Env, clock: Clock, days: int, *, protocol: Protocol = PROTOCOL, **configuration: str) -> Log:
    """A commit a day, and a checkpoint every ten."""
    metadata = Metadata(id="test", schema_string=METADATA.schema_string, configuration=configuration)
    log = Log(env)
    for version in range(days):
        clock.now_ms += DAY_MS
        head: list[Action] = [protocol, metadata] if version == 0 else []
        put_commit(env, version, [*head, add(f"f{version}")])
        env.store.put(f"{log_files.LOG_FOLDER}/{log_files.checksum_name(version)}", b"{}")
        if version and version % 10 == 0:
            write_checkpoint(load_snapshot(log))
    return log


def readable(log: Log, up_to: int) -> Iterator[int]:
    for version in range(up_to):
        try:
            snapshot = load_snapshot(log, version)
        except VersionNotFoundError:
            continue
        assert len(snapshot.live) == version + 1
        yield version


def test_cleanup_keeps_every_version_from_the_checkpoint_before_the_cutoff(env: Env, clock: Clock) -> None:
    log = old_log(env, clock, 65)
    deleted = clean_log(load_snapshot(log))
    # 30 days before day 64 is day 34, whose checkpoint is that of version 30, with its commit
    assert versions(env) == list(range(30, 65))
    assert versions(env, ".checkpoint.parquet") == [30, 40, 50, 60]
    assert versions(env, ".crc") == list(range(30, 65))
    assert len(deleted) == 30 + 30 + 2
    # Protocol: "writers must remove commits before removing the associated checkpoints"
    assert deleted.index("_delta_log/00000000000000000010.json") < deleted.index(
        "_delta_log/00000000000000000010.checkpoint.parquet"
    )
    assert list(readable(log, 65)) == list(range(30, 65))


def test_a_second_cleanup_finds_nothing(env: Env, clock: Clock) -> None:
    log = old_log(env, clock, 65)
    clean_log(load_snapshot(log))
    assert clean_log(load_snapshot(log)) == []


def test_a_table_that_was_quiet_keeps_its_newest_version(env: Env, clock: Clock) -> None:
    log = old_log(env, clock, 25)
    clock.now_ms += 1000 * DAY_MS
    clean_log(load_snapshot(log))
    assert list(readable(log, 25)) == list(range(20, 25))


@pytest.mark.parametrize(("days", "checkpointed"), [(25, True), (65, False)])
def test_without_an_old_commit_or_a_checkpoint_nothing_goes(
    env: Env, clock: Clock, days: int, checkpointed: bool
) -> None:
    log = old_log(env, clock, days)
    if not checkpointed:
        for version in versions(env, ".checkpoint.parquet"):
            env.store.delete(f"{log_files.LOG_FOLDER}/{log_files.classic_checkpoint_name(version)}")
    assert clean_log(load_snapshot(log)) == []


def test_a_log_with_nothing_to_clean_is_listed_once(env: Env, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cleanup follows each checkpoint, and the log of a busy table has many files."""
    snapshot, listed, real = load_snapshot(old_log(env, clock, 25)), [], env.store.list_from
    monkeypatch.setattr(env.store, "list_from", lambda *given: listed.append(given) or real(*given))
    assert clean_log(snapshot) == []
    assert [prefix for prefix, *after in listed if not any(after)] == [log_files.LOG_FOLDER, log_files.SIDECAR_FOLDER]


def test_a_cleanup_that_is_cut_short_leaves_what_it_promises(clock: Clock) -> None:
    for nth in range(1, 70, 7):
        faults = FaultPlan(Fault(effect=Effect.RAISE_BEFORE, operation=Operation.DELETE, nth=nth, times=99))
        env = memory_env()
        env = replace(env, store=MemoryStore(env.store.url, faults, clock_ms=clock), clock_ms=clock)
        log = old_log(env, clock, 65)
        with pytest.raises(Exception, match="delete") if nth <= 62 else pytest.raises(AssertionError):
            clean_log(load_snapshot(log))
            raise AssertionError
        assert set(readable(log, 65)) >= set(range(30, 65))


def test_a_checkpoint_that_cannot_be_read_is_not_relied_on(env: Env, clock: Clock) -> None:
    log = old_log(env, clock, 65)
    env.store.put(f"{log_files.LOG_FOLDER}/{log_files.classic_checkpoint_name(30)}", b"broken")
    with pytest.raises(CorruptCheckpointError):
        clean_log(load_snapshot(log))
    assert versions(env) == list(range(65))


@pytest.mark.parametrize(("before", "first"), [(30, 30), (31, 0)])
def test_protected_checkpoints_go_all_at_once_or_not_at_all(env: Env, clock: Clock, before: int, first: int) -> None:
    protocol = Protocol(reader_version=1, writer_version=7, writer_features=frozenset({"checkpointProtection"}))
    log = old_log(env, clock, 65, protocol=protocol, **{"delta.requireCheckpointProtectionBeforeVersion": str(before)})
    clean_log(load_snapshot(log))
    assert versions(env)[0] == first


def test_compacted_files_that_reach_behind_the_checkpoint_go(env: Env, clock: Clock) -> None:
    log = old_log(env, clock, 65)
    for start, end in ((5, 9), (28, 33), (30, 33), (31, 39)):
        compact_log(log, start, end)
    clean_log(load_snapshot(log))
    assert [name for name in names(env) if "compacted" in name] == [log_files.compacted_name(31, 39)]
    assert list(readable(log, 65)) == list(range(30, 65))


def test_cleanup_of_v2_checkpoints_keeps_their_sidecars_and_a_classic_name(env: Env, clock: Clock) -> None:
    features = frozenset({"v2Checkpoint"})
    protocol = Protocol(reader_version=3, writer_version=7, reader_features=features, writer_features=features)
    log = old_log(env, clock, 65, protocol=protocol, **{"delta.checkpointPolicy": "v2"})
    env.store.put(f"{log_files.SIDECAR_FOLDER}/fresh.parquet", b"somebody is writing a checkpoint")
    env.store.put(f"{log_files.LOG_FOLDER}/_staged_commits/{30:020d}.00000000-0000-4000-8000-000000000000.json", b"{}")
    env.store.put(f"{log_files.LOG_FOLDER}/_staged_commits/{31:020d}.00000000-0000-4000-8000-000000000000.json", b"{}")
    before = {info.key for info in env.store.list_from(log_files.SIDECAR_FOLDER)}
    clean_log(load_snapshot(log))
    after = {info.key for info in env.store.list_from(log_files.SIDECAR_FOLDER)}
    assert len(before - after) == 2, "those of the checkpoints of versions 10 and 20"
    assert f"{log_files.SIDECAR_FOLDER}/fresh.parquet" in after
    assert versions(env, ".checkpoint.parquet") == [64]
    (staged,) = env.store.list_from(log_files.STAGED_FOLDER)
    assert staged.key.rpartition("/")[2].startswith(f"{31:020d}.")
    assert list(readable(log, 65)) == list(range(30, 65))
    assert list(check_log(log)) == []


def test_sidecars_go_by_the_storages_clock(env: Env, clock: Clock) -> None:
    log = old_log(env, clock, 65)
    env.store.put(f"{log_files.SIDECAR_FOLDER}/fresh.parquet", b"somebody is writing a checkpoint")
    ahead = Log(replace(env, clock_ms=lambda: clock.now_ms + 3 * DAY_MS))
    clean_log(load_snapshot(ahead))
    assert [info.key for info in env.store.list_from(log_files.SIDECAR_FOLDER)] == [
        f"{log_files.SIDECAR_FOLDER}/fresh.parquet"
    ]
    clock.now_ms += 2 * DAY_MS
    env.store.put(f"{log_files.SIDECAR_FOLDER}/fresher.parquet", b"and somebody else another one")
    clean_log(load_snapshot(log))
    assert [info.key for info in env.store.list_from(log_files.SIDECAR_FOLDER)] == [
        f"{log_files.SIDECAR_FOLDER}/fresher.parquet"
    ]


def test_a_table_may_forbid_cleanup(env: Env, clock: Clock) -> None:
    log = old_log(env, clock, 65, **{"delta.enableExpiredLogCleanup": "false", "delta.checkpointInterval": "1"})
    Transaction(log=log, base=load_snapshot(log), actions=[add("new")], operation="WRITE").commit()
    assert versions(env) == list(range(66))
    assert versions(env, ".checkpoint.parquet")[-1] == 65
