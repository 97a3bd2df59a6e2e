"""A commit goes on from the log on which it was planned, and what was read stays that: whatever others delete, replace
or make anew.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tahoe.errors import (
    CommitOutcomeUnknownError,
    ConcurrentWriteException,
    CorruptCheckpointError,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    MissingVersionError,
    StorageUnavailableError,
    VersionNotFoundError,
)
from tahoe.protocol.log.actions import CommitInfo, encode_commit
from tahoe.protocol.log.log_files import classic_checkpoint_name, commit_key
from tahoe.storage.env import Env, FileInfo
from tahoe.storage.local import LocalStore
from tahoe.storage.locations import local_path
from tahoe.storage.memory import Effect, Fault, FaultPlan, MemoryStore, Operation
from tahoe.table.arrow.types import delta_schema
from tahoe.table.commit import checkpoint_writer
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.commit.post_commit_hooks import clean_log
from tahoe.table.log.commit_fingerprint import TAG, parse_fingerprint
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.table import Table
from tahoe.table.writing.arrow_writer import commit_files, write_files
from tahoe.table.writing.planning import plan_write
from tahoe.table.writing.write_request import WriteRequest
from tests.table.builders import memory_env

INTERVAL = 4


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


def ids(table: Table) -> list[int]:
    return sorted(table.to_arrow().column("id").to_pylist())


def make(env: Env | None = None, **properties: str) -> Table:
    """A table with the row 0, of which every fourth version has a checkpoint."""
    env = env or memory_env()
    table = Table(env.store.url, env=env)
    table.append(rows(0), properties={"delta.checkpointInterval": str(INTERVAL), **properties})
    return table


def another(table: Table) -> Table:
    """Another process on the same table."""
    return Table(table.url, env=table.env)


def write_and_clean(table: Table) -> None:
    """What others do: they commit until there are two newer checkpoints, and clean the log up to the last."""
    other = another(table)
    for number in range(2 * INTERVAL + 1):
        other.append(rows(100 + number))
    clean_log(other.snapshot(), timedelta(0))
    assert min(file.version for file in other.log.list_files()) > table.snapshot().version - 2 * INTERVAL - 1


def drop(table: Table) -> None:
    for info in list(table.env.store.walk()):
        table.env.store.delete(info.key)


def drop_and_make_anew(table: Table) -> None:
    """In its place is a table with other columns and as many versions."""
    versions = table.version
    drop(table)
    other = another(table)
    for number in range(versions + 1):
        other.append(pa.table({"name": [f"row {number}"]}))


def content(table: Table) -> dict[str, bytes]:
    return {info.key: table.env.store.get(info.key) for info in table.env.store.walk()}


# --- writers


def an_append(table: Table) -> Callable[[], object]:
    """A write that is planned, and whose files are there."""
    plan = plan_write(table, WriteRequest(mode="append", schema=delta_schema(rows(1).schema, table=table.url)))
    assert plan is not None
    files = write_files(plan, rows(1))
    return lambda: commit_files(plan, files, 1)


def a_delete(table: Table) -> Callable[[], object]:
    changes = table.transaction()
    changes.delete("id = 0")
    return changes.commit


def a_domain(table: Table) -> Callable[[], object]:
    changes = table.transaction()
    changes.set_domain("app", "1")
    return changes.commit


WRITERS = [an_append, a_delete, a_domain]


@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_write_older_than_the_log_is_a_conflict(writer, vectors):
    """Its version would be put into a gap, where nobody reads it."""
    table = make(**{"delta.enableDeletionVectors": vectors})
    commit = writer(table)
    before = content(table)
    write_and_clean(table)
    after = content(another(table))
    with pytest.raises(
        ConcurrentWriteException, match="version 0, on which this write is based, was deleted by metadata cleanup"
    ):
        commit()
    mine = before.keys() - after.keys() - {key for key in before if key.startswith("_delta_log/")}
    assert content(table).items() <= after.items()
    assert not mine & content(table).keys()
    assert ids(another(table)) == [0, *range(100, 109)]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(
    ("event", "told"),
    [(drop_and_make_anew, "was dropped or recreated"), (drop, "version 0 is gone")],
    ids=["made anew", "dropped"],
)
def test_a_write_on_a_table_that_was_dropped_is_a_conflict(writer, event, told):
    table = make()
    commit = writer(table)
    event(table)
    after = content(table)
    assert (after == {}) == (event is drop)
    with pytest.raises(MetadataChangedException, match=told):
        commit()
    assert content(table) == after


class Between(MemoryStore):
    """A store at which others are busy just before a commit is put, after its writer has looked for the last time."""

    others: Callable[[], object] | None = None

    def put_if_absent(self, key: str, data: bytes) -> bool:
        if key.endswith(".json") and self.others is not None:
            others, self.others = self.others, None
            others()
        return super().put_if_absent(key, data)


def between(table: Table, others: Callable[[Table], None]) -> Table:
    env = table.env
    store = Between(table.url, clock_ms=env.clock_ms)
    store.others = lambda: others(table)
    return Table(table.url, env=replace(env, store=store))


@pytest.mark.parametrize("writer", WRITERS)
def test_a_log_that_is_cleaned_between_the_look_and_the_put(writer):
    """The commit lands in the gap, and is taken away again."""
    table = make()
    late = between(table, write_and_clean)
    commit = writer(late)
    with pytest.raises(ConcurrentWriteException, match="deleted by metadata cleanup"):
        commit()
    assert late.env.store.head(commit_key(1)) is None
    assert ids(another(table)) == [0, *range(100, 109)]


@pytest.mark.parametrize("writer", WRITERS)
def test_a_table_that_is_dropped_between_the_look_and_the_put(writer):
    table = make()
    late = between(table, drop)
    commit = writer(late)
    with pytest.raises(MetadataChangedException):
        commit()
    assert not table.exists()


def test_a_table_that_is_made_anew_between_the_look_and_the_put_is_told_of_the_version_in_it():
    """Others may have read the version already, so it stays; it is not acknowledged."""
    table = make()
    late = between(table, drop_and_make_anew)
    with pytest.raises(CommitOutcomeUnknownError, match="dropped and recreated while version 1 was written"):
        a_domain(late)()


def test_a_table_that_was_made_and_cleaned_before_its_first_version_is_put():
    """Two make a table, and one is so late that version 0 is gone already."""
    env = memory_env()
    table = Table(env.store.url, env=env)

    def others(_: Table) -> None:
        make(env)
        write_and_clean(Table(env.store.url, env=env))

    plan = plan_write(
        between(table, others), WriteRequest(mode="append", schema=delta_schema(rows().schema, table=table.url))
    )
    assert plan is not None
    with pytest.raises(ConcurrentWriteException, match="there was no table when this write began"):
        plan.commit([])
    assert env.store.head(commit_key(0)) is None
    with pytest.raises(ConcurrentWriteException, match="there was no table when this write began"):
        plan.commit([])
    assert ids(table) == [0, *range(100, 109)]


def test_a_cleanup_behind_a_winner_is_a_conflict():
    """The writer loses its version, and by the time it looks at the winner, that is gone as well."""
    table = make()
    late = between(table, write_and_clean)
    commit = an_append(late)
    another(table).append(rows(50))  # takes version 1

    class Lost(Between):
        def put_if_absent(self, key: str, data: bytes) -> bool:
            done = super().put_if_absent(key, data)
            if key == commit_key(1) and self.others is not None:
                self.others()
            return done

    late.env.store.__class__ = Lost
    with pytest.raises(DeltaConcurrentModificationException):
        commit()
    assert 1 not in ids(another(table))


def test_a_base_that_only_a_checkpoint_is_left_of_can_be_written_on():
    """Other writers' cleanup may delete the commit of the newest checkpoint."""
    table = make()
    for number in range(1, INTERVAL + 1):
        table.append(rows(number))
    for version in range(INTERVAL + 1):
        table.env.store.delete(commit_key(version))
    late = another(table)
    assert late.append(rows(9)) == INTERVAL + 1
    assert ids(another(table)) == [0, 1, 2, 3, 4, 9]
    drop_and_make_anew(table)
    with pytest.raises(DeltaConcurrentModificationException):
        a_domain(replace_snapshot(late))()


# --- a table that was copied, restored or moved while a handle was open is the same table


def on_disk(folder: Path) -> Table:
    table = Table(str(folder / "table"))
    table.append(rows(0), properties={"delta.checkpointInterval": "100"})
    table.append(rows(1))
    return another(table)


def copy(table: Table) -> None:
    """What `cp -r` and rsync leave behind: the same bytes in other files, with other times."""
    folder = local_path(table.url)
    os.rename(folder, folder + ".old")
    shutil.copytree(folder + ".old", folder, copy_function=shutil.copyfile)
    shutil.rmtree(folder + ".old")


@pytest.mark.parametrize("writer", WRITERS)
def test_a_write_goes_on_where_its_table_was_copied(writer, tmp_path):
    table = on_disk(tmp_path)
    commit = writer(table)
    copy(table)
    assert commit() == 2
    assert len(ids(another(table))) == {an_append: 3, a_delete: 1, a_domain: 2}[writer]


@pytest.mark.parametrize("has_winner", [False, True])
def test_a_table_that_is_copied_while_a_version_is_put_keeps_the_version(has_winner, tmp_path, monkeypatch):
    """The commit is there, so it must not be taken away and called a conflict."""
    table = on_disk(tmp_path)
    commit = an_append(table)
    if has_winner:
        another(table).append(rows(2))
    put = LocalStore.put_if_absent

    def put_and_copy(store: LocalStore, key: str, data: bytes) -> bool:
        done = put(store, key, data)
        if key == commit_key(2 + has_winner):
            copy(table)
        return done

    monkeypatch.setattr(LocalStore, "put_if_absent", put_and_copy)
    assert commit() == 2 + has_winner
    assert len(ids(another(table))) == 3 + has_winner


def test_a_copied_table_gets_its_checkpoint(tmp_path):
    table = on_disk(tmp_path)
    snapshot = table.snapshot()
    copy(table)
    write_checkpoint(snapshot)
    assert os.path.exists(os.path.join(local_path(table.url), "_delta_log", classic_checkpoint_name(1)))


class Late(MemoryStore):
    """A store in which others do something just before a checkpoint is put."""

    others: Callable[[], object] | None = None

    def put(self, key: str, data: bytes | BinaryIO) -> None:
        self._let_others(key)
        super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self._let_others(key)
        return super().put_if_absent(key, data)

    def _let_others(self, key: str) -> None:
        if "checkpoint" in key and self.others is not None:
            others, self.others = self.others, None
            others()


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_checkpoint_of_a_table_that_was_dropped_does_not_bring_it_back(is_made_anew):
    """What other late writers put beside it, or a new table that has not come as far, must not be taken for the
    table.
    """
    table = make()
    table.append(rows(1))
    snapshot = table.snapshot()

    def others() -> None:
        drop(table)
        if is_made_anew:
            another(table).append(pa.table({"name": ["new"]}), properties={"delta.checkpointInterval": "100"})
        table.env.store.put("part-of-a-late-writer.parquet", b"")

    store = Late(table.url, clock_ms=table.env.clock_ms)
    store.others = others
    log = replace(snapshot.log, env=replace(table.env, store=store))
    with pytest.raises(MissingVersionError, match="no longer exists"):
        write_checkpoint(replace(snapshot, log=log))
    assert another(table).exists() == is_made_anew
    assert not [file for file in table.log.list_files() if file.is_checkpoint]


def test_a_late_commit_does_not_vouch_for_a_late_checkpoint():
    """The table was dropped, and a late writer has put a version that it will take away again: no cleanup leaves such a
    log.
    """
    table = make()
    snapshot = table.snapshot()
    late = encode_commit([CommitInfo({"operation": "WRITE"})])

    def others() -> None:
        drop(table)
        table.env.store.put(commit_key(1), late)

    store = Late(table.url, clock_ms=table.env.clock_ms)
    store.others = others
    with pytest.raises(MissingVersionError, match="no longer exists"):
        write_checkpoint(replace(snapshot, log=replace(snapshot.log, env=replace(table.env, store=store))))
    assert not [file for file in table.log.list_files() if file.is_checkpoint]


def test_a_late_checkpoint_whose_answer_is_lost_is_taken_away_too():
    table = make()
    snapshot = table.snapshot()

    class Silent(Late):
        def put_if_absent(self, key: str, data: bytes) -> bool:
            super().put_if_absent(key, data)
            raise StorageUnavailableError(table=self.url, operation=f"put {key}", detail="no answer")

    store = Silent(table.url, clock_ms=table.env.clock_ms)
    store.others = lambda: drop(table)
    with pytest.raises(StorageUnavailableError):
        write_checkpoint(replace(snapshot, log=replace(snapshot.log, env=replace(table.env, store=store))))
    assert not table.exists()


class Dead(BaseException):
    """The process is gone."""


class Dying(Late):
    """A process that dies right after it has put a checkpoint."""

    is_dead = False

    def put(self, key: str, data: bytes | BinaryIO) -> None:
        super().put(key, data)
        self.is_dead = "checkpoint" in key

    def put_if_absent(self, key: str, data: bytes) -> bool:
        done = super().put_if_absent(key, data)
        self.is_dead = "checkpoint" in key
        return done

    def head(self, key: str) -> FileInfo | None:
        if self.is_dead:
            raise Dead
        return super().head(key)


def die_with_a_checkpoint(table: Table, others: Callable[[], object], **how: Any) -> None:
    """Others do something between the last look of a writer and its put of a checkpoint, and the writer dies after the
    put.
    """
    snapshot = table.snapshot()
    store = Dying(table.url, clock_ms=table.env.clock_ms)
    store.others = others
    with pytest.raises(Dead):
        write_checkpoint(replace(snapshot, log=replace(snapshot.log, env=replace(table.env, store=store))), **how)


def make_anew(table: Table, versions: int, **properties: str) -> None:
    """In the table's place is one with other columns, without checkpoints of its own."""
    drop(table)
    for number in range(versions):
        another(table).append(
            pa.table({"name": [f"row {number}"]}), properties={"delta.checkpointInterval": "100", **properties}
        )


KINDS: list[dict[str, Any]] = [
    {},
    {"delta.checkpointPolicy": "v2"},
    {"delta.checkpointPolicy": "v2", "top_level": "parquet"},
]


@pytest.mark.parametrize("kind", KINDS, ids=["classic", "V2", "V2 in Parquet"])
@pytest.mark.parametrize("versions", [1, 3, 4])
@pytest.mark.parametrize("is_large", [False, True])
def test_the_checkpoint_of_a_table_that_was_dropped_is_not_read_if_its_writer_died(
    kind, versions, is_large, monkeypatch
):
    """The new table is shorter than the old one, as long, and longer."""
    monkeypatch.setattr(checkpoint_writer, "_BUFFERED_BYTES_MAX", 0 if is_large else 1 << 20)
    how = {name: value for name, value in kind.items() if name == "top_level"}
    table = make(**{name: value for name, value in kind.items() if name not in how})
    table.append(rows(1))
    table.append(rows(2))
    die_with_a_checkpoint(table, lambda: make_anew(table, versions), **how)
    assert [file.version for file in table.log.list_files() if file.is_checkpoint] == [2]
    assert another(table).to_arrow().column("name").to_pylist()[::-1] == [f"row {number}" for number in range(versions)]
    for number in range(versions, 4):
        another(table).append(pa.table({"name": [f"row {number}"]}))
    assert len(another(table).to_arrow()) == 4
    write_checkpoint(another(table).snapshot(2))  # of the same name, if it is a classic one
    for version in (0, 1):
        table.env.store.delete(commit_key(version))
    assert len(another(table).to_arrow()) == 4


def test_the_checkpoint_of_a_table_that_was_dropped_is_refused_if_it_is_alone():
    table = make()
    die_with_a_checkpoint(table, lambda: drop(table))
    with pytest.raises(CorruptCheckpointError, match="which was dropped"):
        another(table).append(rows(1))


def test_the_checkpoint_of_a_table_that_was_dropped_is_not_read_in_a_copy_of_the_new_table(tmp_path):
    """Copies have other times and tags, so the commit is compared by its content: here it even has the same size."""
    table = make()
    table.append(rows(1), user_metadata="long" * 100)
    die_with_a_checkpoint(table, lambda: make_anew(table, 2))
    new = on_disk(tmp_path)
    for key, data in content(table).items():
        new.env.store.put(key, data)
    key, stray = commit_key(1), f"_delta_log/{classic_checkpoint_name(1)}"
    found = parse_fingerprint(pq.ParquetFile(io.BytesIO(table.env.store.get(stray))).metadata.metadata[TAG.encode()])
    assert found is not None
    data = table.env.store.get(key)
    new.env.store.put(key, data.ljust(found.size_bytes, b"\n"))
    assert (info := new.env.store.head(key)) is not None
    assert info.size_bytes == found.size_bytes
    assert another(new).to_arrow().column_names == ["name"]


def test_the_checkpoint_of_a_copied_table_is_read(tmp_path):
    table = make()
    table.append(rows(1))
    write_checkpoint(table.snapshot())
    copied = on_disk(tmp_path)
    drop(copied)
    for key, data in content(table).items():
        copied.env.store.put(key, data)
    copied.env.store.delete(commit_key(0))
    assert ids(another(copied)) == [0, 1]


def test_the_commit_of_a_checkpoint_is_recognised_by_the_listing():
    """A request more for each table that is opened would be slow on object stores."""
    table = make()
    table.append(rows(1))
    write_checkpoint(table.snapshot())
    asked: list[str] = []

    class Watched(MemoryStore):
        def get(self, key: str) -> bytes:
            asked.append(key)
            return super().get(key)

        def head(self, key: str) -> FileInfo | None:
            asked.append(key)
            return super().head(key)

    store = Watched(table.url, clock_ms=table.env.clock_ms)
    assert ids(Table(table.url, env=replace(table.env, store=store))) == [0, 1]
    assert commit_key(1) not in asked


def test_a_late_checkpoint_does_not_replace_that_of_the_new_table():
    table = make()
    table.append(rows(1))
    snapshot, store = table.snapshot(), Late(table.url, clock_ms=table.env.clock_ms)
    store.others = lambda: (make_anew(table, 2), write_checkpoint(another(table).snapshot()))
    with pytest.raises(MissingVersionError, match="no longer exists"):
        write_checkpoint(replace(snapshot, log=replace(snapshot.log, env=replace(table.env, store=store))))
    table.env.store.delete(commit_key(0))
    assert another(table).to_arrow().column("name").to_pylist() == ["row 1", "row 0"]


@pytest.mark.parametrize("writer", WRITERS)
def test_another_commit_of_the_same_size_is_another_version(writer):
    """A table that was restored to an earlier version and went another way has the same id, and a commit of as many
    bytes.
    """
    table = make()
    table.append(rows(1))
    commit = writer(table)
    data = table.env.store.get(commit_key(1))
    path = next(add.path for add in another(table).snapshot().live.adds() if add.path.encode() in data)
    table.env.store.put(commit_key(1), data.replace(path.encode(), path[:-9].encode() + b"z.parquet"[-9:]))
    with pytest.raises(MetadataChangedException, match="version 1 was replaced"):
        commit()
    assert table.env.store.head(commit_key(2)) is None


def replace_snapshot(table: Table) -> Table:
    """A handle that began before all that happened since."""
    table.snapshot = lambda: table._newest  # type: ignore[method-assign, return-value, assignment]
    return table


@pytest.mark.parametrize(
    ("nth", "failures", "error", "told", "left"),
    [
        pytest.param(2, 1, None, None, [0, 1], id="repeated once"),
        pytest.param(2, 2, None, None, [0, 1], id="repeated twice"),
        pytest.param(
            2, 100, CommitOutcomeUnknownError, "whether version 0 still exists", [0, 1], id="in doubt behind the put"
        ),
        pytest.param(1, 100, StorageUnavailableError, None, [0], id="stopped before the put"),
    ],
)
def test_a_look_that_fails_is_repeated_and_stops_the_write_or_leaves_it_in_doubt(nth, failures, error, told, left):
    env = memory_env()
    make(env)
    fault = Fault(effect=Effect.RAISE_BEFORE, operation=Operation.HEAD, nth=nth, times=failures)
    late = Table(env.store.url, env=replace(env, store=MemoryStore(env.store.url, FaultPlan(fault), env.clock_ms)))
    if error is None:
        assert an_append(late)() == 1
    else:
        with pytest.raises(error, match=told):
            an_append(late)()
    assert ids(Table(env.store.url, env=env)) == left


# --- readers


@pytest.mark.parametrize("is_open", [True, False])
def test_a_log_that_is_cleaned_while_it_is_read_is_read_again(is_open):
    """The commits that were listed are gone, and a newer checkpoint is there."""
    table = make()
    table.append(rows(1))

    class Cleaned(MemoryStore):
        others = 0

        def get(self, key: str) -> bytes:
            if key == commit_key(2) and not self.others:
                self.others = 1
                write_and_clean(table)
            return super().get(key)

    late = Table(table.url, env=replace(table.env, store=Cleaned(table.url, clock_ms=table.env.clock_ms)))
    if is_open:
        late.snapshot()
    table.append(rows(2))
    table.append(rows(3))
    table.env.store.delete("_delta_log/00000000000000000003.crc")
    assert ids(late) == [0, 1, 2, 3, *range(100, 109)]


# --- handles that live long


def stats_of(snapshot: Snapshot) -> list[str]:
    return snapshot.files(columns=["stats"]).column("stats").to_pylist()


def checkpointed(**properties: str) -> Table:
    """A handle that was opened from a checkpoint, of which it has read only what is needed at once."""
    table = make(**properties)
    for number in range(1, INTERVAL + 1):
        table.append(rows(number))
    handle = another(table)
    assert handle.version == INTERVAL
    handle.env.store.delete(f"_delta_log/{INTERVAL:020d}.crc")
    fresh = another(table)
    assert fresh.snapshot().live.parts[0].num_rows == INTERVAL + 1
    return fresh


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_a_handle_outlives_the_checkpoint_that_it_was_opened_from(policy):
    table = checkpointed(**{"delta.checkpointPolicy": policy})
    expected = stats_of(another(table).snapshot())
    old = table.snapshot()
    write_and_clean(table)
    assert ids(table) == [0, 1, 2, 3, 4, *range(100, 109)]
    assert sorted(stats_of(table.snapshot())[-5:]) == sorted(expected)
    assert len(table.files(filter="id = 3")) == 1
    if policy == "classic":  # sidecars stay for a day
        with pytest.raises(VersionNotFoundError, match="Version 4"):
            stats_of(old)


def test_statistics_are_not_lost_with_their_checkpoint():
    """No statistics would mean that every file is read."""
    table = checkpointed()
    table.snapshot()
    write_and_clean(table)
    assert len(table.files(filter="id = 3")) == 1


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_checkpoints_are_written_by_who_holds_an_old_one(policy):
    table = checkpointed(**{"delta.checkpointPolicy": policy})
    table.snapshot()
    write_and_clean(table)
    made = table.create_checkpoint()
    handle = another(table)
    handle.env.store.delete(f"_delta_log/{made:020d}.crc")
    assert ids(handle) == [0, 1, 2, 3, 4, *range(100, 109)]
    assert None not in stats_of(handle.snapshot())


def reverse(table: Table, version: int) -> None:
    """Another writer puts the same checkpoint, with its rows in another order."""
    key = f"_delta_log/{classic_checkpoint_name(version)}"
    there = pq.read_table(io.BytesIO(table.env.store.get(key)))
    out = io.BytesIO()
    pq.write_table(there.take(list(range(there.num_rows))[::-1]), out, row_group_size=2)
    table.env.store.put(key, out.getvalue())


def test_a_checkpoint_that_was_replaced_is_not_read_by_the_footer_of_the_one_before():
    table = checkpointed()
    by_path = {row["path"]: row["stats"] for row in another(table).files(columns=["path", "stats"]).to_pylist()}
    snapshot = table.snapshot()
    paths = snapshot.live.column("path").to_pylist()
    reverse(table, INTERVAL)
    assert snapshot.live.column("stats").to_pylist() == [by_path[path] for path in paths]
    assert snapshot.live.column("path").to_pylist() == paths
    assert [add.path for add in snapshot.live.adds()] == paths
    assert len(snapshot.files(filter="id = 3")) == 1
    assert sorted(snapshot.to_arrow().column("id").to_pylist()) == [0, 1, 2, 3, 4]


def test_a_handle_whose_table_was_made_anew_does_not_mix_the_two():
    table = checkpointed()
    old = table.snapshot()
    drop_and_make_anew(table)
    table.create_checkpoint()
    with pytest.raises(MissingVersionError, match="the table was dropped and recreated"):
        stats_of(old)
    assert len(table.to_arrow()) == INTERVAL + 1


def test_a_commit_in_a_gap_that_cannot_be_looked_into_is_in_doubt(monkeypatch):
    """Whatever fails once the version is put, it may be there: its files must stay."""
    table = make()
    late = between(table, write_and_clean)
    commit = an_append(late)
    monkeypatch.setattr(
        "tahoe.table.commit.continuity._take_back", lambda *_: (_ for _ in ()).throw(OSError("no more descriptors"))
    )
    with pytest.raises(CommitOutcomeUnknownError, match="no more descriptors"):
        commit()


def test_a_winner_that_is_gone_before_it_is_looked_at_is_a_conflict():
    """Without its file nobody could tell later whether the version before ours is that one."""
    table = make()
    commit = an_append(table)
    another(table).append(rows(50))

    class Vanished(MemoryStore):
        def head(self, key: str):
            return None if key == commit_key(1) else super().head(key)

    table.env.store.__class__ = Vanished
    with pytest.raises(DeltaConcurrentModificationException):
        commit()
