"""`check` tells of rows that another writer doubled or lost, as long as they are in the table, and of nothing that ours
do.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tahoe
from tahoe.errors import InvalidDataFileError
from tahoe.protocol.log.actions import Action, Add, CommitInfo, remove_of
from tahoe.storage.memory import MemoryStore, Operation
from tahoe.table.log.delta_log import Log
from tahoe.table.verify.check import Finding, Kind, check_table
from tests.table.builders import memory_env, put_commit
from tests.table.damage import with_statistics

DOUBLED = [0, 1, 2, 3, 4, 5, 2, 3]


def rows(first: int, count: int = 2) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + count), pa.int64())})


def optimized(table: tahoe.Table, files: list[Add], added: Add, engine: str = "delta-rs:1.6.6") -> None:
    """Commit an OPTIMIZE as a writer does that does not see the commits since it read."""
    info = CommitInfo({"operation": "OPTIMIZE", "engineInfo": engine})
    actions: list[Action] = [
        *(remove_of(file, 1, data_change=False) for file in files),
        added.replace(data_change=False),
    ]
    put_commit(table.env, Log(table.env).list_files()[-1].version + 1, [info, *actions])
    table.forget()


def doubled(**properties: str) -> tahoe.Table:
    """Three files with two rows each; ours compacts the first two, and another writer the last two."""
    table = tahoe.Table("memory://t", env=memory_env())
    for first in (0, 2, 4):
        table.append(
            rows(first),
            properties={name.replace("__", "."): value for name, value in properties.items()} if not first else {},
        )
    files = sorted(table.snapshot().live.adds(), key=lambda add: add.stats or "")
    other = tahoe.Table("memory://other", env=memory_env())
    other.append(rows(2, 4))
    (made,) = other.snapshot().live.adds()
    table.env.store.put(made.path, other.env.store.get(made.path))
    optimized(table, files[:2], _compacted(table), "tahoe")
    optimized(table, files[1:], made)
    assert sorted(table.to_arrow()["id"].to_pylist()) == sorted(DOUBLED)
    return table


def _compacted(table: tahoe.Table) -> Add:
    other = tahoe.Table("memory://compacted", env=memory_env())
    other.append(rows(0, 4))
    (made,) = other.snapshot().live.adds()
    path = "compacted.parquet"
    table.env.store.put(path, other.env.store.get(made.path))
    return made.replace(path=path)


def findings(table: tahoe.Table, version: int | None = None) -> list[Finding]:
    return list(check_table(table.log, version))


def test_two_compactions_of_one_file_are_told_with_version_engine_rows_and_what_to_restore() -> None:
    (found,) = findings(doubled())
    assert (found.kind, found.version) == (Kind.WRONG_ROWS, 4)
    for said in (
        "version 4 (OPTIMIZE by delta-rs:1.6.6)",
        "removed by version 3 (OPTIMIZE by tahoe)",
        "2 rows stand twice",
    ):
        assert said in found.detail
    assert "tahoe restore --version 3" in found.next_step


def test_a_checkpoint_in_between_changes_nothing() -> None:
    """The files before the commit then come from the checkpoint, with their numbers of rows."""
    table = doubled(delta__checkpointInterval="2")
    for version in (0, 1):
        table.env.store.delete(f"_delta_log/{version:020d}.json")
    table.snapshot(2)
    assert [(f.kind, f.version) for f in findings(table) if f.kind is Kind.WRONG_ROWS] == [(Kind.WRONG_ROWS, 4)]


ENDS: dict[str, Callable[[tahoe.Table], object]] = {
    "restored": lambda table: table.restore(3),
    "overwritten": lambda table: table.overwrite(rows(0)),
    "all rows deleted": lambda table: table.delete(),
}
GOES_ON: dict[str, Callable[[tahoe.Table], object]] = {
    "appended": lambda table: table.append(rows(9)),
    "compacted": lambda table: table.optimize(),
    "some rows deleted": lambda table: table.delete("id = 2"),
}


@pytest.mark.parametrize("then", ENDS.values(), ids=ENDS)
def test_it_is_told_until_the_rows_are_gone(then: Callable[[tahoe.Table], object]) -> None:
    table = doubled()
    then(table)
    assert findings(table) == []
    assert [f.kind for f in findings(table, 4)] == [Kind.WRONG_ROWS], "the version itself still has them"


@pytest.mark.parametrize("then", GOES_ON.values(), ids=GOES_ON)
def test_it_is_told_after_other_writes(then: Callable[[tahoe.Table], object]) -> None:
    """A compaction moves the doubled rows to another file; they stay doubled."""
    table = doubled()
    then(table)
    assert [(f.kind, f.version) for f in findings(table)] == [(Kind.WRONG_ROWS, 4)]


def test_lost_rows_are_told_until_they_are_restored() -> None:
    table = tahoe.Table("memory://t", env=memory_env())
    table.append(rows(0))
    table.append(rows(2))
    (lost,) = table.snapshot(0).live.adds()
    put_commit(table.env, 2, [remove_of(lost, 1, data_change=False)])
    assert [(f.kind, f.version) for f in findings(table)] == [(Kind.WRONG_ROWS, 2)]
    table.forget()
    table.restore(1)
    assert findings(table) == []


def test_a_compaction_of_a_file_whose_number_of_rows_was_wrong_lost_nothing() -> None:
    """The footers decide, not the statistics."""
    table = tahoe.Table("memory://t", env=memory_env())
    table.append(rows(0))
    table.append(rows(2))
    with_statistics(table.env, 0, '{"numRecords":5}')
    table.forget()
    table.optimize()
    assert [f.kind for f in findings(table)] == []


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_rows_that_statistics_do_not_count_are_not_lost_by_a_delete(vectors: str, count: int) -> None:
    """Which rows a rewrite keeps, and whether all are deleted, is counted by the statistics."""
    table = tahoe.Table("memory://t", env=memory_env())
    table.append(rows(0), properties={"delta.enableDeletionVectors": vectors})
    with_statistics(table.env, 0, json.dumps({"numRecords": count}))
    table.forget()
    with pytest.raises(InvalidDataFileError, match=f"its statistics tell {count} rows, but it has 2"):
        table.delete("id = 0")
    table.repair(verify_all_files=True)
    table.delete("id = 0")
    assert table.to_arrow()["id"].to_pylist() == [1]


def test_each_file_of_the_log_is_read_once() -> None:
    """The cost of a check follows the log, not its square."""
    table = tahoe.Table("memory://t", env=memory_env())
    for first in range(12):
        table.append(rows(first))
    assert isinstance(table.env.store, MemoryStore)
    table.env.store.calls.clear()
    assert findings(table) == []
    log_files = len(table.log.list_files())
    assert table.env.store.calls[Operation.GET] <= 2 * log_files + 5, "once to load the version, once to check it"


# --- what delta-rs does


def with_delta_rs(path: Path, *, mode: Literal["append", "overwrite"] = "append", **properties: str) -> None:
    write_deltalake(
        str(path),
        DELTA_RS_ROWS,
        mode=mode,
        partition_by=["p"],
        configuration={"delta." + k: v for k, v in properties.items()},
    )


DELTA_RS_ROWS = pa.table(
    {"id": [1, 2, 3], "p": ["a", None, "a"], "d": [1.5, None, float("nan")], "b": [True, None, False]}
)


def test_two_compactions_of_delta_rs_beside_each_other_are_told(tmp_path: Path) -> None:
    """delta-rs commits an OPTIMIZE whose files another OPTIMIZE has removed since it read."""
    for _ in range(3):
        with_delta_rs(tmp_path / "t")
    one, other = DeltaTable(str(tmp_path / "t")), DeltaTable(str(tmp_path / "t"))
    one.optimize.compact()
    other.optimize.compact()
    table = tahoe.Table(str(tmp_path / "t"))
    twice = table.count() - 9
    assert twice, "this version of delta-rs sees the other compaction; then this test has nothing to show"
    (found,) = findings(table)
    assert (found.kind, f"{twice} rows stand twice" in found.detail) == (Kind.WRONG_ROWS, True)


@pytest.mark.parametrize(
    "properties", [{}, {"enableChangeDataFeed": "true"}, {"enableDeletionVectors": "true"}], ids=str
)
def test_of_a_table_of_delta_rs_nothing_is_told(tmp_path: Path, properties: dict[str, str]) -> None:
    for _ in range(3):
        with_delta_rs(tmp_path / "t", **properties)
    table = DeltaTable(str(tmp_path / "t"))
    table.delete("id = 1")
    table.update(updates={"d": "9.0"}, predicate="id = 2")
    merge = table.merge(DELTA_RS_ROWS, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update({"b": "s.b"}).when_not_matched_insert_all().execute()
    table.optimize.compact()
    table.optimize.z_order(["id"])
    with_delta_rs(tmp_path / "t", mode="overwrite")
    DeltaTable(str(tmp_path / "t")).restore(1)
    DeltaTable(str(tmp_path / "t")).create_checkpoint()
    assert findings(tahoe.Table(str(tmp_path / "t"))) == []
