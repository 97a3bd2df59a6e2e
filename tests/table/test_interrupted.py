"""A writer that is interrupted between any two storage calls of a commit leaves no file that nobody needs, and never
deletes one that a version needs, between whichever lines it is interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.errors import CommandCancelledError
from tahoe.protocol.log.deletion_vector import vector_location
from tahoe.storage.env import Watch
from tahoe.table.commit.draft import Draft
from tahoe.table.log import deletion_vectors
from tahoe.table.verify.check import check_version
from tests.table.between import interrupted
from tests.table.builders import memory_env

# So many that the vector has a file of its own.
THIRD = ", ".join(map(str, range(0, 100, 3)))


class Puts(Watch):
    """Whether a commit is being put."""

    def __init__(self) -> None:
        self.is_under_way = False

    def before_put(self) -> None:
        self.is_under_way = True

    def lost(self) -> None:
        self.is_under_way = False


def made() -> tahoe.Table:
    table = tahoe.Table("memory://given", env=memory_env())
    table.append(pa.table({"id": range(100)}), properties={"delta.enableDeletionVectors": "true"})
    return table


def beside(table: tahoe.Table) -> tahoe.Table:
    """The same table as another writer has it."""
    return tahoe.Table(table.url, env=table.env)


def unneeded(table: tahoe.Table) -> set[str]:
    """The data files and deletion vectors that no version refers to."""
    files = [add for version in range(table.version + 1) for add in table.snapshot(version).live.adds()]
    vectors = [vector_location(add.deletion_vector, "") for add in files if add.deletion_vector is not None]
    needed = {add.path for add in files} | {place[0].lstrip("/") for place in vectors if place is not None}
    return {info.key for info in table.env.store.walk() if not info.key.startswith("_delta_log/")} - needed


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def vectors_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_vectors, "INLINE_BYTES_MAX", 0)


@pytest.mark.parametrize("has_winner", [False, True], ids=["alone", "behind a winner"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_interrupt_leaves_no_file_behind_unless_a_commit_is_being_put(after: bool, has_winner: bool) -> None:
    for calls in range(1, 1000):
        table, puts = made(), Puts()
        mine = tahoe.Table(table.url, env=interrupted(replace(table.env, watch=puts), calls, interrupt, after=after))
        try:
            with mine.transaction() as changes:
                changes.delete(f"id in ({THIRD})")
                changes.append(pa.table({"id": [100]}))
                if has_winner:  # the vector is written twice
                    with beside(table).transaction() as winner:
                        winner.delete("id = 1")
        except KeyboardInterrupt:
            assert list(check_version(table.snapshot())) == []
            assert puts.is_under_way or unneeded(table) == set(), f"call {calls}"
        else:
            assert (unneeded(table), calls > 5) == (set(), True)
            return


def test_a_commit_that_is_not_wanted_leaves_no_vector_behind() -> None:
    class Cancelled(Watch):
        def before_put(self) -> None:
            raise CommandCancelledError(reason="nobody wants it")

    table = made()
    mine = tahoe.Table(table.url, env=replace(table.env, watch=Cancelled()))
    with pytest.raises(CommandCancelledError), mine.transaction() as changes:
        changes.delete("id = 1")
    assert unneeded(table) == set()
    assert table.version == 0


def interrupt_at(function: Callable[..., Any], number: int, work: Callable[[], object]) -> bool:
    """Do a work that is interrupted before the n-th line of a function that it runs; returns whether it was."""
    lines = 0

    def on_line(_: FrameType, event: str, __: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        if event == "line" and lines == number:
            raise KeyboardInterrupt
        return on_line

    before = sys.gettrace()
    sys.settrace(lambda frame, *_: on_line if frame.f_code is function.__code__ else None)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interrupt_between_two_lines_of_a_commit_takes_no_file_from_a_version() -> None:
    number, committed = 1, 0

    def change(table: tahoe.Table) -> None:
        with table.transaction() as changes:
            changes.delete(f"id in ({THIRD})")
            changes.append(pa.table({"id": [100]}))

    while True:
        table = made()
        if not interrupt_at(Draft.commit, number, lambda table=table: change(table)):
            break
        assert list(check_version(table.snapshot())) == [], f"line {number}"
        committed += table.version
        number += 1
    assert number > 10
    assert committed, "it was never interrupted after the put"


def test_an_interrupt_within_the_writing_of_a_row_group_stays_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow then says of the file that it is not closed, which must not hide what has ended the write."""

    def unfinished(writer: pq.ParquetWriter) -> None:
        writer.is_open = False
        raise RuntimeError("file metadata is only available after writer close")

    table = made()
    monkeypatch.setattr(pq.ParquetWriter, "write_table", lambda *_, **__: interrupt())
    monkeypatch.setattr(pq.ParquetWriter, "close", unfinished)
    with pytest.raises(KeyboardInterrupt):
        table.append(pa.table({"id": [100]}))
    assert unneeded(table) == set()
