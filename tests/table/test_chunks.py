"""More text than one Arrow array can hold: lists of files, scans and checks go chunk by chunk."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tahoe
from tahoe.protocol.log.actions import Remove
from tahoe.table.arrow import chunks, statistics
from tahoe.table.arrow.chunks import one_array, replaced, sorted_table, taken
from tahoe.table.log import checkpoint, file_parts
from tahoe.table.log.file_entries import to_table
from tahoe.table.log.file_parts import COLUMNS, MemoryPart
from tahoe.table.log.live_files import LiveFiles
from tahoe.table.verify.check import check_table
from tests.table.builders import add, make_log, memory_env

SOURCES = Path(tahoe.__file__).parent


# --- the steps


@given(st.lists(st.lists(st.text(max_size=3), max_size=5), max_size=6), st.data())
def test_rows_are_taken_from_chunks_as_from_one_array(parts, data):
    column = pa.chunked_array([pa.array(part, pa.string()) for part in parts], pa.string())
    texts = column.to_pylist()
    rows = sorted(data.draw(st.sets(st.integers(0, len(texts) - 1)) if texts else st.just(set())))
    assert taken(column, np.array(rows, np.int64)).to_pylist() == [texts[row] for row in rows]


@given(st.lists(st.tuples(st.integers(0, 3), st.text(max_size=2)), max_size=20), st.integers(1, 60))
def test_a_table_is_sorted_piece_by_piece_as_at_once(rows, limit):
    table = pa.table(
        {"n": pa.array([n for n, _ in rows], pa.int64()), "t": pa.array([t for _, t in rows], pa.string())}
    )
    before, chunks.TEXT_BYTES_MAX = chunks.TEXT_BYTES_MAX, limit
    try:
        found = sorted_table(table, ["n"])
    finally:
        chunks.TEXT_BYTES_MAX = before
    assert found.to_pylist() == sorted(table.to_pylist(), key=lambda row: row["n"])


def test_texts_under_a_mask_are_changed_whatever_the_chunks_of_the_mask():
    column = pa.chunked_array([["a", "b"], [], ["c"]])
    mask = pa.chunked_array([[True], [False, True]])
    assert replaced(column, mask, str.upper).to_pylist() == ["A", "b", "C"]


# --- the whole


@pytest.fixture
def huge() -> pa.ChunkedArray:
    """2.5 GiB of text as Arrow sees it: one array of 16 MiB, 160 times."""
    one = pa.array(["x" * (16 << 20)])
    return pa.chunked_array([one] * 160)


def test_more_text_than_an_array_holds_is_taken_and_left_out(huge):
    table = to_table([add(f"f{n}") for n in range(160)]).set_column(
        list(COLUMNS).index("clustering_provider"), "clustering_provider", huge
    )
    live = LiveFiles([MemoryPart(table)]).after([[Remove(path=f"f{n}") for n in range(2, 160)]], str)
    assert live.column("path").to_pylist() == ["f0", "f1"]
    assert [len(text.as_buffer()) for text in live.column("clustering_provider")] == [16 << 20] * 2
    with pytest.raises(OverflowError):
        one_array(huge)


def test_lists_scans_and_checks_put_no_texts_of_all_files_together(monkeypatch):
    """The limit is lowered below what a few files have."""
    monkeypatch.setattr(chunks, "TEXT_BYTES_MAX", 600)
    monkeypatch.setattr(chunks, "_PIECE_ROWS", 2)
    monkeypatch.setattr(chunks, "_SORTED_ROWS", 4)
    monkeypatch.setattr(statistics, "_SLICE_ROWS", 2)
    monkeypatch.setattr(file_parts, "BATCH_ROWS", 1)
    monkeypatch.setattr(checkpoint, "BATCH_ROWS", 1)
    env = memory_env()
    table = tahoe.Table("memory://given", env=env)
    for number in range(5):
        rows = {"p": [f"{'p' * 100}{number}", "50% of it"] * 2, "t": [f"some text {number}"] * 4}
        table.append(pa.table(rows), partition_by=["p"], properties={"delta.checkpointInterval": "3"})
    fresh = tahoe.Table("memory://given", env=env)
    assert fresh.files().num_rows == 10
    assert fresh.files("p = '50% of it' AND t >= 'some text 3'").num_rows == 2
    assert fresh.to_arrow(filter=f"p = '{'p' * 100}4'").num_rows == 2
    assert list(check_table(fresh.log)) == []
    with fresh.transaction() as changes:
        changes.set_properties({"delta.enableDeletionVectors": "true"})
        for path in fresh.files().column("path").to_pylist():
            changes.mark_deleted(path, [0])
    assert {
        name: getattr(fresh.inspect, name)().num_rows
        for name in ("files", "statistics", "vectors", "partitions", "sizes")
    } == {
        **dict.fromkeys(("files", "statistics", "vectors"), 10),
        **dict.fromkeys(("partitions", "sizes"), 6),
    }
    assert len(make_log([[add("a")]]).list_files()) == 1


def test_only_one_module_puts_chunks_together():
    """Elsewhere it would fail on a table with many files. A data set hands `sort_by` of a user's rows to pyarrow."""
    found = [
        f"{path.name}: {line.strip()}"
        for path in sorted(SOURCES.rglob("*.py"))
        for line in path.read_text().splitlines()
        if re.search(r"\.combine_chunks\(|\.sort_by\(|_?column\([^()]*\)\.take\(", line)
        and path.name not in ("chunks.py", "dataset.py")
    ]
    assert found == []
