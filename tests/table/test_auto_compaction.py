"""Auto compaction without Spark: which files, after which writes, and that no write ever suffers from it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import DataFileMissingError
from tahoe.protocol.log.actions import Add
from tahoe.protocol.types.schema import INTEGER, LONG, Field, Struct
from tahoe.table.commit.new_files import NewFiles
from tahoe.table.layout import auto_compaction
from tahoe.table.layout.auto_compaction import AutoCompaction, compact_after, compacts_itself, small_files
from tahoe.table.layout.optimize import rewritten_in_threads
from tahoe.table.reading.snapshot import load_snapshot
from tests.table.builders import METADATA, PROTOCOL, add, memory_env, put_commit

ON = {"delta.autoOptimize.autoCompact": "true"}
SMALL = AutoCompaction(min_files=3, max_file_bytes=100)

PARTITIONED = METADATA.replace(
    schema_string=Struct((Field(name="id", type=LONG), Field(name="p", type=INTEGER))).to_json(),
    partition_columns=("p",),
)


def files(p: str | None, *sizes: int, name: str = "f", **fields: Any) -> list[Add]:
    return [
        add(f"{name}-{p}-{n}", size_bytes=size, partition_values={"p": p}, **fields) for n, size in enumerate(sizes)
    ]


def chosen(adds: Sequence[Add], added: Sequence[str], settings: AutoCompaction = SMALL) -> list[str]:
    env = memory_env()
    put_commit(env, 0, [PROTOCOL, PARTITIONED, *adds])
    scan = load_snapshot(tahoe.Table("memory://t", env=env).log).scan()
    return sorted(small_files(scan, frozenset(added), settings).column("path").to_pylist())


def test_small_files_of_the_partitions_of_the_write() -> None:
    adds = [*files("1", 10, 49, 50, 51, 10), *files("2", 10, 10, 10), *files("3", 10, 10, 80)]
    assert chosen(adds, ["f-1-0", "f-3-0"]) == ["f-1-0", "f-1-1", "f-1-4"], (
        "partition 2 was not written, and 3 has two small files"
    )
    assert chosen(adds, ["f-1-3"]) == ["f-1-0", "f-1-1", "f-1-4"], (
        "the partition counts, not whether the new file is small"
    )
    assert chosen(adds, []) == []
    assert chosen(adds, ["f-1-0"], replace(SMALL, min_files=4)) == []
    assert chosen(adds, ["f-1-0"], replace(SMALL, min_file_bytes=11)) == []
    assert len(chosen(adds, ["f-1-0"], replace(SMALL, max_file_bytes=1000))) == 5


def test_one_partition_in_several_spellings() -> None:
    adds = [*files("1", 10), *files("01", 10, 10), *files(None, 10, 10), *files("", 10, name="g")]
    assert chosen(adds, ["f-1-0"]) == ["f-01-0", "f-01-1", "f-1-0"]
    assert chosen(adds, ["g--0"]) == ["f-None-0", "f-None-1", "g--0"]


def test_partitions_that_the_write_did_not_touch_may_be_asked_for() -> None:
    adds = [*files("1", 10, 10), *files("2", 10, 10, 10, 10), *files("3", 10, 10, 10)]
    everywhere = replace(SMALL, only_modified=False)
    assert chosen(adds, ["f-1-0"], everywhere) == [f"f-2-{n}" for n in range(4)] + [f"f-3-{n}" for n in range(3)]
    assert chosen(adds, ["f-1-0"], replace(everywhere, max_partitions=1)) == [f"f-2-{n}" for n in range(4)], (
        "the one with most files"
    )


def test_files_that_were_laid_out_together_stay_together() -> None:
    adds = [*files("1", 10, 10), *files("1", 10, 10, name="cube", clustering_provider="liquid")]
    assert chosen(adds, ["f-1-0"]) == []
    assert chosen([*adds, *files("1", 10, name="g")], ["f-1-0"]) == ["f-1-0", "f-1-1", "g-1-0"]


def test_a_file_is_rewritten_when_most_of_its_rows_are_deleted() -> None:
    table = tahoe.Table("memory://worn", env=memory_env())
    for start in (0, 10):
        table.append(
            pa.table({"id": pa.array(range(start, start + 10))}),
            properties=ON | {"delta.enableDeletionVectors": "true"},
        )

    def delete(condition: str) -> list[int]:
        with table.transaction() as changes:
            changes.delete(condition)
        return sorted(table.files()["deleted_records"].to_pylist())

    assert delete("id < 5") == [0, 5], "half of a file is not most of it"
    assert delete("id = 5") == [0, 0]
    assert [entry["operation"] for entry in table.history(2)] == ["OPTIMIZE", "DELETE"]
    assert delete("id in (10, 6)") == [1, 1]
    assert sorted(table.to_arrow()["id"].to_pylist()) == [7, 8, 9, *range(11, 20)]


@pytest.mark.parametrize(
    ("properties", "is_on"),
    [
        ({}, False),
        (ON, True),
        ({"delta.autoOptimize.autoCompact": "FALSE"}, False),
        ({"delta.autoOptimize.autoCompact": "auto"}, True),
        ({"delta.autoOptimize": "true"}, True),
        ({"delta.autoOptimize": "true", "delta.autoOptimize.autoCompact": "false"}, True),
        ({"delta.autoOptimize": "false", "delta.autoOptimize.autoCompact": "true"}, True),
    ],
)
def test_the_properties_that_enable_it(properties: dict[str, str], is_on: bool) -> None:
    assert compacts_itself(properties, table="t") == is_on
    log = tahoe.Table("memory://t", env=memory_env()).log
    new = NewFiles(log=log, base=None, version=0, properties=properties, paths=frozenset(), is_blind_append=True)
    assert AutoCompaction().follows(new) == is_on
    assert AutoCompaction(is_on=True).follows(new), "the session goes before the table"
    assert not AutoCompaction(is_on=False).follows(new)
    assert not AutoCompaction(is_on=True, skips_blind_appends=True).follows(new)
    assert AutoCompaction(is_on=True, skips_blind_appends=True).follows(replace(new, is_blind_append=False))
    assert AutoCompaction(is_on=True, skips_blind_appends=True, only_modified=False).follows(new)


# --- after writes without Spark


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array([i % 2 for i in ids], pa.int32())})


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four small files suffice."""
    monkeypatch.setattr(auto_compaction, "AutoCompaction", lambda: replace(AutoCompaction(), min_files=4))


def operations(table: tahoe.Table) -> list[str]:
    return [entry["operation"] for entry in reversed(table.history())]


@pytest.mark.usefixtures("few")
def test_appends_compact_a_table_that_asks_for_it() -> None:
    table = tahoe.Table("memory://t", env=memory_env())
    assert [table.append(rows(i), properties=ON) for i in range(8)] == [0, 1, 2, 3, 5, 6, 7, 9], (
        "the version of the append itself"
    )
    assert operations(table) == ["WRITE"] * 4 + ["OPTIMIZE"] + ["WRITE"] * 3 + ["OPTIMIZE"] + ["WRITE"]
    assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(8))
    assert table.files().num_rows == 2
    entry = table.history()[1]
    assert (entry["operationParameters"]["auto"], entry["isolationLevel"]) == ("true", "SnapshotIsolation")


@pytest.mark.usefixtures("few")
def test_a_table_that_does_not_ask_is_left_alone() -> None:
    table = tahoe.Table("memory://t", env=memory_env())
    for i in range(8):
        table.append(rows(i))
    assert table.files().num_rows == 8


@pytest.mark.usefixtures("few")
def test_a_transaction_compacts_the_partition_that_it_wrote() -> None:
    table = tahoe.Table("memory://t", env=memory_env())
    for i in range(3):
        table.append(rows(2 * i, 2 * i + 1), partition_by=["p"], properties=ON)
    with table.transaction() as changes:
        changes.append(rows(8))
    assert changes.version == 3
    assert table.version == 4
    assert [table.files(f"p = {p}").num_rows for p in (0, 1)] == [1, 3]
    with table.transaction() as changes:
        changes.set_properties({"a": "b"})
        changes.delete("id = 1")
    assert operations(table)[-1] != "OPTIMIZE", "it added no file"


@pytest.mark.usefixtures("few")
def test_a_failure_is_a_warning_and_the_write_stands(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise DataFileMissingError.of(table="t", file="f", version=3)

    monkeypatch.setattr(auto_compaction, "optimize", failing)
    table = tahoe.Table("memory://t", env=memory_env())
    with caplog.at_level(logging.WARNING, "tahoe"):
        assert [table.append(rows(i), properties=ON) for i in range(4)] == [0, 1, 2, 3]
    assert table.to_arrow().num_rows == 4
    assert "version 3 is committed, but auto compaction failed" in caplog.text


def test_the_loser_of_two_compactions_drops_its_bins_quietly(caplog: pytest.LogCaptureFixture) -> None:
    table = tahoe.Table("memory://t", env=memory_env())
    for i in range(8):
        table.append(rows(i % 2 + 2 * i), partition_by=["p"], properties=ON)
    settings = replace(AutoCompaction(), min_files=4)
    new = NewFiles(
        log=table.log,
        base=None,
        version=7,
        properties=ON,
        paths=frozenset(table.files()["path"].to_pylist()),
        is_blind_append=True,
    )

    def after_another(plan: Any, bins: Any) -> Any:
        written = list(rewritten_in_threads(plan, bins))
        tahoe.Table("memory://t", env=table.env).optimize()
        return written

    before = {file for file in (info.key for info in table.env.store.walk()) if file.endswith(".parquet")}
    with caplog.at_level(logging.INFO, "tahoe"):
        assert compact_after(table, new, settings, rewriter=after_another) is None
    assert {record.name for record in caplog.records} == {"tahoe.events.commit", "tahoe.events.conflict"}
    assert table.version == 8
    live = set(table.files()["path"].to_pylist())
    assert {i.key for i in table.env.store.walk() if i.key.endswith(".parquet")} - before == live, (
        "its files are deleted"
    )
    assert sorted(table.to_arrow()["id"].to_pylist()) == sorted(i % 2 + 2 * i for i in range(8))
