"""Repair removes what is certainly gone, deletes what the log does not need, and leaves the rest with a reason."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap64

import tahoe
from tahoe.errors import (
    AppendOnlyTableError,
    DataFileMissingError,
    DeltaProtocolError,
    InvalidArgumentError,
    RepairUncertainError,
    StorageRefusedError,
    TableNotFoundError,
)
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import Add, DeletionVectorDescriptor, Protocol, Remove, encode_commit
from tahoe.protocol.log.deletion_vector import inline_descriptor
from tahoe.protocol.log.last_checkpoint import LastCheckpoint, encode_last_checkpoint
from tahoe.protocol.log.replay import replay
from tahoe.storage.env import Env
from tahoe.storage.memory import Effect, Fault, FaultPlan, Operation
from tahoe.table.layout import statistics
from tahoe.table.log.deletion_vectors import write_vectors
from tahoe.table.verify import file_repairs
from tahoe.table.verify.check import Kind, Severity, check_table
from tahoe.table.verify.findings import finding
from tahoe.table.verify.log_repairs import plan_log_repairs
from tahoe.table.verify.repair import RepairReport
from tahoe.table.verify.repairs import RepairKind
from tests.table.builders import memory_env, parquet_bytes, put_commit, state_actions
from tests.table.damage import copied, lives, rewrite, with_statistics

VECTORS = {"delta.enableDeletionVectors": "true"}
LOG = log_files.LOG_FOLDER


def made(env: Env | None = None, properties: dict[str, str] | None = None, files: int = 3) -> tahoe.Table:
    """Files of two rows each: 0 and 1, 2 and 3, ..."""
    table = tahoe.Table("memory://t", env=env or memory_env())
    for number in range(0, 2 * files, 2):
        table.append(pa.table({"id": [number, number + 1], "s": [f"s{number}", None]}), properties=properties or {})
    return table


def again(table: tahoe.Table) -> tahoe.Table:
    """The same table, as another process sees it."""
    return tahoe.Table(table.url, env=table.env)


def ids(table: tahoe.Table) -> list[int]:
    return sorted(again(table).to_arrow()["id"].to_pylist())


def entries(table: tahoe.Table) -> list[Add]:
    """The live files, oldest first."""
    return sorted(again(table).snapshot().live.adds(), key=lambda entry: entry.modification_time_ms)


def lose(table: tahoe.Table, *numbers: int) -> list[str]:
    """Delete data files, by their age. Returns their paths."""
    lost = [entries(table)[number].path for number in numbers]
    for key in lost:
        table.env.store.delete(key)
    return lost


def kinds(found: Sequence[Any]) -> list[Kind]:
    return [entry.finding.kind for entry in found]


def errors(table: tahoe.Table) -> list[Kind]:
    return [f.kind for f in check_table(table.log) if f.severity is Severity.ERROR]


# --- files that are gone


def test_files_that_are_gone_are_removed_and_told_before() -> None:
    table = made()
    lost = lose(table, 0, 2)
    told: list[tuple[int, RepairReport]] = []
    report = again(table).repair(
        announce=lambda plan: told.append((again(table).version, plan)), user_metadata="after the fire"
    )
    ((version, plan),) = told
    assert (version, plan.repairs, plan.version) == (2, report.repairs, None)
    assert sorted(report.removed_files) == sorted(lost)
    assert (report.version, report.left) == (3, ())
    assert ids(table) == [2, 3]
    assert errors(table) == []
    removes = [a for a in table.log.read_version(3) if isinstance(a, Remove)]
    assert [remove.data_change for remove in removes] == [True, True]
    entry = table.history(1)[0]
    assert (entry["operation"], entry["operationMetrics"]["numRemovedFiles"], entry["userMetadata"]) == (
        "FSCK",
        "2",
        "after the fire",
    )
    assert again(table).repair().repairs == ()


def test_the_change_feed_of_lost_rows_is_an_error_and_not_empty() -> None:
    table = made(properties={"delta.enableChangeDataFeed": "true"})
    lose(table, 0)
    version = again(table).repair().version
    assert version == 3
    with pytest.raises(DataFileMissingError):
        again(table).changes(start_version=version)
    assert again(table).changes(start_version=1, end_version=2).num_rows == 4


def test_a_dry_run_says_the_same_and_changes_nothing() -> None:
    table = made()
    lost = lose(table, 1)
    before = {info.key: info.identity for info in table.env.store.walk()}
    report = again(table).repair(dry_run=True)
    assert (list(report.removed_files), report.version, report.is_dry_run) == (lost, None, True)
    assert {info.key: info.identity for info in table.env.store.walk()} == before


@pytest.mark.parametrize(
    "how", [{}, {"verify_all_files": True}, {"metadata_only": True}, {"unreadable_vectors": "remove_files"}]
)
def test_an_intact_table_stays_as_it_is(how: dict[str, Any]) -> None:
    table = made(properties=VECTORS | {"delta.checkpointInterval": "2"})
    with table.transaction() as changes:
        changes.delete("id in (0, 2, 3)")
    table.compact_logs(0, 2)
    before = {info.key: info.identity for info in table.env.store.walk()}
    report = again(table).repair(**how)
    assert (report.repairs, report.left, report.version) == ((), (), None)
    assert {info.key: info.identity for info in table.env.store.walk()} == before


def test_metadata_only_looks_at_no_file() -> None:
    table = made()
    lose(table, 0)
    assert again(table).repair(metadata_only=True).repairs == ()


FAULTS = [
    pytest.param(
        Operation.HEAD, "part-*", StorageRefusedError(table="t", operation="look at X", detail="403"), id="403"
    ),
    pytest.param(Operation.HEAD, "part-*", None, id="timeout"),
    pytest.param(Operation.WALK, "*", None, id="listing"),
]


@pytest.mark.parametrize(("operation", "key", "error"), FAULTS)
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_if_the_storage_does_not_answer_for_a_file_nothing_is_changed(
    operation: Operation, key: str, error: Exception | None, nth: int
) -> None:
    faults = FaultPlan()
    table = made(memory_env(faults=faults))
    (lost, _) = lose(table, 0, 1)
    hint = table.env.store.get(log_files.commit_key(0))
    table.env.store.put(f"{LOG}/_last_checkpoint", b"not a hint")
    faults.add(Fault(effect=Effect.RAISE_BEFORE, operation=operation, key=key, nth=nth, error=error))
    if operation is Operation.WALK and nth > 1:
        return
    with pytest.raises(
        RepairUncertainError,
        match="part-"
        if operation is Operation.HEAD and error is None
        else "Nothing was committed|No entry of a file was changed",
    ):
        again(table).repair()
    assert again(table).version == 2, "the last look is right before the commit"
    assert hint == table.env.store.get(log_files.commit_key(0))
    assert lost in [entry.path for entry in entries(table)]


def test_a_file_outside_the_table_counts_like_any_other() -> None:
    table = made()
    elsewhere = table.env.store_at("memory://elsewhere")
    there, gone = "memory://elsewhere/there.parquet", "memory://elsewhere/gone.parquet"
    data = table.env.store.get(entries(table)[0].path)
    elsewhere.put("there.parquet", data)
    put_commit(table.env, 3, [entries(table)[0].replace(path=path, data_change=True) for path in (there, gone)])
    assert again(table).repair().removed_files == (gone,)
    assert ids(table) == [0, 0, 1, 1, 2, 3, 4, 5]


def test_an_append_only_table_keeps_its_entries() -> None:
    table = made(properties={"delta.appendOnly": "true"})
    lose(table, 0)
    assert len(again(table).repair(dry_run=True).repairs) == 1
    with pytest.raises(AppendOnlyTableError):
        again(table).repair()


def test_a_table_that_tahoe_must_not_write_is_left_alone() -> None:
    table = made()
    put_commit(table.env, 3, [Protocol(reader_version=1, writer_version=7, writer_features=frozenset({"unheardOf"}))])
    lose(table, 0)
    with pytest.raises(DeltaProtocolError):
        again(table).repair()


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="restore_rows"):
        made().repair(unreadable_vectors="drop")  # type: ignore[arg-type]
    with pytest.raises(TableNotFoundError):
        tahoe.Table("memory://nothing", env=memory_env()).repair()


# --- beside other writers


def meanwhile(table: tahoe.Table, rival: Callable[[], object], **how: Any) -> RepairReport:
    """Repair, with a rival that acts between the decision and the first change."""
    return again(table).repair(announce=lambda _: rival() and None, **how)


def test_a_file_that_is_back_stays() -> None:
    table = made()
    kept = {path: table.env.store.get(path) for path in (entries(table)[n].path for n in (0, 1))}
    first, _ = lose(table, 0, 1)
    report = meanwhile(table, lambda: table.env.store.put(first, kept[first]))
    assert report.version == 3
    assert ids(table) == [0, 1, 4, 5]


def test_what_another_writer_removed_is_not_removed_again() -> None:
    table = made()
    lost = lose(table, 0)

    def rival() -> None:
        put_commit(table.env, 3, [Remove(path=lost[0], deletion_timestamp_ms=1, data_change=True)])

    assert meanwhile(table, rival).version is None
    assert again(table).version == 3


def test_a_winner_at_the_last_moment_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    table = made()
    lost, _ = lose(table, 0, 1)
    look, rivals = file_repairs._still_live, itertools.count()

    def late(*given: Any) -> Any:
        found = look(*given)
        if next(rivals) == 0:
            put_commit(table.env, 3, [Remove(path=lost, deletion_timestamp_ms=1, data_change=True)])
        return found

    monkeypatch.setattr(file_repairs, "_still_live", late)
    assert again(table).repair().version == 4
    assert ids(table) == [4, 5]


def test_rows_that_a_compaction_has_read_in_time_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row deletions are carried over a compaction, but the removal of a file that is gone is none."""
    table = made(properties=VECTORS)
    kept = table.env.store.get(entries(table)[0].path)
    (lost,) = lose(table, 0)
    look, rivals = file_repairs._still_live, itertools.count()

    def late(*given: Any) -> Any:
        found = look(*given)
        if next(rivals) == 0:
            table.env.store.put(lost, kept)
            again(table).optimize()
            table.env.store.delete(lost)
        return found

    monkeypatch.setattr(file_repairs, "_still_live", late)
    assert again(table).repair().version is None
    assert ids(table) == [0, 1, 2, 3, 4, 5]


def test_many_entries_are_removed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_repairs, "_ENTRIES_PER_COMMIT_MAX", 2)
    table = made(files=6)
    lose(table, 0, 1, 2, 3, 4)
    assert again(table).repair().version == 8
    assert ids(table) == [10, 11]


def test_killed_at_any_call_it_leaves_a_whole_table_and_the_next_goes_on() -> None:
    table = made(properties={"delta.checkpointInterval": "2"})
    lose(table, 1)
    table.env.store.put(f"{LOG}/{log_files.classic_checkpoint_name(2)}", b"broken")
    before, runs = {*errors(table)}, 0
    for survivor in lives(table.env, lambda t: t.repair()):
        runs += 1
        assert {*errors(survivor)} <= before
        again(survivor).repair()
        assert errors(survivor) == []
        assert ids(survivor) == [0, 1, 4, 5]
    assert runs > 20


# --- deletion vectors


def with_stored_vectors(*numbers: int) -> tuple[tahoe.Table, list[str]]:
    """A table in which one row of each of these files is deleted by a vector in a file; the keys of these files."""
    table, keys = made(properties=VECTORS), list[str]()
    for number in numbers:
        entry = entries(table)[number]
        (vector,), (key,) = _stored(table.log, [0])
        keys.append(key)
        stats = str(entry.stats)[:-1] + ',"tightBounds":false}'
        actions = [
            Remove(path=entry.path, deletion_timestamp_ms=1, data_change=True),
            entry.replace(deletion_vector=vector, stats=stats, data_change=True),
        ]
        put_commit(table.env, again(table).version + 1, actions)
    return table, keys


def _stored(log: Any, rows: Sequence[int]) -> tuple[list[DeletionVectorDescriptor], list[str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tahoe.table.log.deletion_vectors.INLINE_BYTES_MAX", 0)
        keys: list[str] = []
        return write_vectors(log, [BitMap64(rows)], keys), keys


@pytest.mark.parametrize("is_deep", [False, True])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_file_whose_vector_is_unreadable_is_reported_until_the_user_decides(is_deep: bool, is_damaged: bool) -> None:
    """To remove the vector would bring deleted rows back; to remove the file would lose its rows."""
    if is_damaged and not is_deep:
        return  # only whether it exists
    table, (key,) = with_stored_vectors(1)
    assert ids(table) == [0, 1, 3, 4, 5]
    if is_damaged:
        table.env.store.put(key, b"x" * 60)
    else:
        table.env.store.delete(key)
    how: Any = {"verify_all_files": is_deep}
    lost = lose(table, 0)
    report = again(table).repair(**how)
    assert list(report.removed_files) == lost, "what is certain is repaired"
    (left,) = report.left
    assert (left.finding.kind, "restore_rows" in left.reason) == (Kind.BAD_DELETION_VECTOR, True)
    assert again(table).repair(**how).version is None
    copies = [table, tahoe.Table(table.url, env=copied(table.env))]
    for copy, decision, expected in zip(copies, ("restore_rows", "remove_files"), ([2, 3, 4, 5], [4, 5]), strict=True):
        report = again(copy).repair(unreadable_vectors=decision, **how)
        assert (kinds(report.repairs), report.left) == ([Kind.BAD_DELETION_VECTOR], ())
        assert ids(copy) == expected
        assert errors(copy) == []
        assert again(copy).repair(**how).repairs == ()


def test_restored_rows_have_statistics_again() -> None:
    """Statistics that were tight without the deleted rows would hide them."""
    table, (key,) = with_stored_vectors(1)
    again(table).compute_statistics()
    assert again(table).files("id = 2").num_rows == 0
    table.env.store.delete(key)
    again(table).repair(unreadable_vectors="restore_rows")
    assert again(table).to_arrow(filter="id = 2")["id"].to_pylist() == [2]
    assert (
        entries(table)[1].stats
        == '{"numRecords":2,"minValues":{"id":2,"s":"s2"},"maxValues":{"id":3,"s":"s2"},"nullCount":{"id":0,"s":1}}'
    )


def test_restored_rows_are_never_hidden_even_if_it_is_killed() -> None:
    table, (key,) = with_stored_vectors(1)
    again(table).compute_statistics()
    table.env.store.delete(key)
    for survivor in lives(table.env, lambda t: t.repair(unreadable_vectors="restore_rows")):
        if entries(survivor)[1].deletion_vector is None:
            assert again(survivor).to_arrow(filter="id = 2")["id"].to_pylist() == [2]


# --- entries that a file has twice


def with_two_entries(table: tahoe.Table, *vectors: DeletionVectorDescriptor | None) -> None:
    """Give the first file several entries, as no writer may."""
    first = entries(table)[0]
    for vector in vectors:
        put_commit(table.env, again(table).version + 1, [first.replace(deletion_vector=vector, data_change=True)])


def vector_of(*rows: int) -> DeletionVectorDescriptor:
    return inline_descriptor(BitMap64(rows))


def test_it_never_chooses_between_two_vectors_of_a_file() -> None:
    table = made(properties=VECTORS)
    with_two_entries(table, vector_of(1))
    report = again(table).repair(unreadable_vectors="remove_files")
    assert (report.repairs, kinds(report.left)) == ((), [Kind.DUPLICATE_FILE])
    assert ids(table) == [0, 0, 1, 2, 3, 4, 5]


def test_of_two_entries_that_delete_the_same_rows_one_is_enough() -> None:
    table = made(properties=VECTORS)
    first = entries(table)[0]
    put_commit(table.env, 3, [Remove(path=first.path, deletion_timestamp_ms=1, data_change=True)])
    (stored,), _ = _stored(table.log, [0])
    for number, vector in enumerate((vector_of(0), stored)):
        put_commit(table.env, 4 + number, [first.replace(deletion_vector=vector, data_change=True)])
    assert ids(table) == [1, 1, 2, 3, 4, 5]
    report = again(table).repair()
    assert [r.action for r in report.repairs] == [RepairKind.REMOVE_DUPLICATE]
    assert ids(table) == [1, 2, 3, 4, 5]
    assert Kind.DUPLICATE_FILE not in errors(table)


def test_a_missing_file_goes_with_all_its_entries() -> None:
    table = made(properties=VECTORS)
    with_two_entries(table, vector_of(1), vector_of(0))
    lost = lose(table, 0)
    report = again(table).repair()
    assert (list(report.removed_files), report.left) == (lost, ())
    assert ids(table) == [2, 3, 4, 5]


# --- what else check finds


def test_wrong_statistics_are_computed_again_but_only_if_all_files_are_verified() -> None:
    table = made()
    expected = entries(table)[1].stats
    with_statistics(table.env, 1, '{"numRecords":2,"minValues":{"id":3},"maxValues":{"id":3},"nullCount":{"id":0}}')
    assert again(table).to_arrow(filter="id = 2").num_rows == 0
    assert again(table).repair().repairs == ()
    report = again(table).repair(verify_all_files=True)
    assert {r.action for r in report.repairs} == {RepairKind.COMPUTE_STATISTICS}
    assert again(table).to_arrow(filter="id = 2").num_rows == 1
    assert entries(table)[1].stats == expected
    assert table.history(1)[0]["operation"] == statistics.COMPUTE_STATS


@pytest.mark.parametrize("name", ["_last_checkpoint", "00000000000000000002.crc"])
def test_files_that_only_save_time_are_deleted(name: str) -> None:
    table = made()
    table.env.store.put(f"{LOG}/{name}", b'{"version":')
    report = again(table).repair(metadata_only=True)
    assert [r.keys for r in report.repairs] == [(f"{LOG}/{name}",)]
    assert list(check_table(table.log)) == []
    assert again(table).version == 2


def test_a_hint_that_was_written_meanwhile_stays() -> None:
    table = made()
    table.env.store.put(f"{LOG}/_last_checkpoint", encode_last_checkpoint(LastCheckpoint(version=1, size=1)))
    meanwhile(table, table.create_checkpoint, metadata_only=True)
    hint = table.log.last_checkpoint()
    assert hint is not None
    assert hint.version == 2


def test_a_wrong_compacted_log_is_deleted_and_files_are_judged_without_it() -> None:
    table = made()
    name = log_files.compacted_name(0, 2)
    actions = [a for version in range(3) for a in table.log.read_version(version)]
    stranger = entries(table)[0].replace(path="stranger.parquet")
    state = replay([actions], table.log.canonical)
    table.env.store.put(f"{LOG}/{name}", encode_commit([*state_actions(state), stranger]))
    for version in range(3):
        table.env.store.delete(f"{LOG}/{log_files.checksum_name(version)}")
    assert errors(table)
    report = again(table).repair()
    assert (kinds(report.repairs), report.removed_files) == ([Kind.WRONG_COMPACTED_LOG], ())
    assert errors(table) == []
    assert ids(table) == [0, 1, 2, 3, 4, 5]


def checkpoint_key(version: int) -> str:
    return f"{LOG}/{log_files.classic_checkpoint_name(version)}"


@pytest.mark.parametrize("is_readable", [False, True])
def test_a_broken_or_wrong_checkpoint_is_replaced_if_all_commits_exist(is_readable: bool) -> None:
    table = made()
    state = replay([table.log.read_version(version) for version in range(2)], table.log.canonical)
    table.env.store.put(checkpoint_key(2), parquet_bytes(state_actions(state)) if is_readable else b"PAR1")
    table.env.store.delete(f"{LOG}/{log_files.checksum_name(2)}")
    known = again(table)
    known.snapshot()
    report = known.repair()
    assert kinds(report.repairs) == [Kind.WRONG_CHECKPOINT if is_readable else Kind.BROKEN_CHECKPOINT]
    assert known.to_arrow().num_rows == 6, "the version that was loaded from the wrong checkpoint is forgotten"
    assert list(check_table(table.log)) == []
    assert table.env.store.head(checkpoint_key(2)) is not None, "a new checkpoint"
    assert again(table).version == 2


def test_a_wrong_checkpoint_stays_if_commits_before_it_are_gone() -> None:
    """Then the older checkpoint may be the wrong one."""
    table = made(files=4, properties={"delta.checkpointInterval": "2"})
    state = replay([table.log.read_version(version) for version in range(3)], table.log.canonical)
    table.env.store.put(checkpoint_key(3), parquet_bytes(state_actions(state)))
    table.env.store.delete(log_files.commit_key(0))
    report = again(table).repair()
    assert report.repairs == ()
    assert {*kinds(report.left)} == {Kind.WRONG_CHECKPOINT}, "the checksum says the same as the older checkpoint"
    assert table.env.store.head(checkpoint_key(3)) is not None


def test_the_only_checkpoint_of_lost_commits_stays() -> None:
    table = made(properties={"delta.checkpointInterval": "1"})
    table.env.store.put(checkpoint_key(2), b"PAR1")
    table.env.store.delete(checkpoint_key(1))
    table.env.store.delete(log_files.commit_key(0))
    table.env.store.delete(f"{LOG}/{log_files.checksum_name(2)}")
    report = again(table).repair()
    assert report.repairs == ()
    assert {Kind.BROKEN_CHECKPOINT, Kind.UNREADABLE_TABLE} <= {*kinds(report.left)}
    assert table.env.store.head(checkpoint_key(2)) is not None


def test_parts_of_an_unfinished_checkpoint_are_deleted_once_they_are_old() -> None:
    table = made()
    part = f"{LOG}/00000000000000000001.checkpoint.0000000001.0000000002.parquet"
    table.env.store.put(part, b"PAR1")
    assert kinds(again(table).repair().left) == [Kind.INCOMPLETE_CHECKPOINT]
    later = replace(table.env, clock_ms=lambda: 1_800_000_000_000)
    assert kinds(tahoe.Table(table.url, env=later).repair().repairs) == [Kind.INCOMPLETE_CHECKPOINT]
    assert table.env.store.head(part) is None


def test_old_temporary_files_are_deleted_but_not_those_of_other_programs() -> None:
    table = made()
    for key in (".x.tmp", "_temporary/0/part"):
        table.env.store.put(key, b"x")
    later = replace(table.env, clock_ms=lambda: 1_800_000_000_000)
    report = tahoe.Table(table.url, env=later).repair()
    assert [r.keys for r in report.repairs] == [(".x.tmp",)]
    assert kinds(report.left) == [Kind.ORPHAN_TEMPORARY_FILE]
    assert table.env.store.head(".x.tmp") is None
    assert report.version is None


@pytest.mark.parametrize("is_deep", [False, True])
def test_a_damaged_file_is_left_with_the_reason(is_deep: bool) -> None:
    table = made()
    table.env.store.put(entries(table)[0].path, b"PAR1")
    report = again(table).repair(verify_all_files=is_deep)
    assert report.repairs == ()
    assert kinds(report.left) == [Kind.WRONG_SIZE, *([Kind.UNREADABLE_DATA_FILE] if is_deep else [])]
    assert all(left.reason for left in report.left)


def test_every_kind_has_a_decision_or_a_reason() -> None:
    table = made()
    of_files = {Kind.ILLEGAL_PATH, Kind.DUPLICATE_FILE, Kind.WRONG_ROW_IDS, Kind.MISSING_DATA_FILE, Kind.WRONG_SIZE}
    of_files |= {Kind.UNREADABLE_DATA_FILE, Kind.WRONG_STATISTICS, Kind.WRONG_PARTITION_VALUE, Kind.BAD_DELETION_VECTOR}
    of_files.add(Kind.ORPHAN_TEMPORARY_FILE)
    for kind in Kind:
        found = [finding(kind, file="x", version=0, detail="d")]
        if kind in of_files:
            assert len(file_repairs.plan_file_repairs(table.snapshot(), found, "report").decisions) == 1
        else:
            assert len(plan_log_repairs(table.log, [], found)) == 1


def test_a_broken_row_count_of_a_row_tracked_file_is_not_made_worse() -> None:
    table = made(properties={"delta.enableRowTracking": "true"})
    rewrite(table.env, 1, lambda a: a.replace(stats='{"numRecords":5}') if isinstance(a, Add) else a)
    before = [(entry.base_row_id, entry.default_row_commit_version) for entry in entries(table)]
    report = again(table).repair(verify_all_files=True)
    assert RepairKind.COMPUTE_STATISTICS in [r.action for r in report.repairs]
    assert [(entry.base_row_id, entry.default_row_commit_version) for entry in entries(table)] == before
    assert errors(table) == []
