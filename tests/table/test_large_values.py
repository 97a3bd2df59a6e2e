"""Values that are too large for one Arrow array, or for memory: files are read in pieces of bounded size, whatever they
contain.

The limits are made small, and Arrow's refusals are imitated. `make large` proves the same with more than 2 GiB in one
file, in one row group and in one array, which takes half an hour, 6 GB of disk and 9 GB of memory.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.table.arrow import row_stream
from tahoe.table.reading import physical_rows, rows
from tahoe.table.verify.check import check_version
from tests import sample
from tests.table.builders import memory_env

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
TRACKED = {"delta.enableRowTracking": "true"}
PIECE_BYTES = 2000
COUNT = 60


def data(first: int = 0, count: int = COUNT) -> pa.Table:
    numbers = range(first, first + count)
    nested = [{"t": ["y" * 300, None], "m": [("k", "z" * 100)]} for _ in numbers]
    kind = pa.struct({"t": pa.list_(pa.string()), "m": pa.map_(pa.string(), pa.string())})
    texts = ["x" * (10 + 900 * (number % 7 == 0)) for number in numbers]
    return pa.table({"id": pa.array(numbers, pa.int64()), "t": texts, "n": pa.array(nested, kind)})


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Pieces so small that each file has many, and nothing is kept. The sizes of all pieces that were read."""
    monkeypatch.setattr(row_stream, "GROUP_BYTES", PIECE_BYTES)
    monkeypatch.setattr(row_stream, "_PIECE_BYTES", 10 * PIECE_BYTES)
    monkeypatch.setattr(physical_rows, "_KEPT_BYTES_MAX", PIECE_BYTES)
    sizes: list[int] = []
    read = physical_rows.PhysicalRows.pieces

    def pieces(*arguments: Any) -> Iterator[tuple[int, pa.Table]]:
        for start, piece in read(*arguments):
            sizes.append(piece.nbytes)
            yield start, piece

    monkeypatch.setattr(physical_rows.PhysicalRows, "pieces", pieces)
    return sizes


@pytest.fixture
def overflowing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow refuses to read row groups and files at once, as it does if nested texts of one have more than 2 GiB."""

    def refused(*_: Any, **__: Any) -> pa.Table:
        raise pa.ArrowNotImplementedError("Nested data conversions not implemented for chunked array outputs")

    monkeypatch.setattr(pq.ParquetFile, "read", refused)
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", refused)


def changed(table: tahoe.Table) -> dict[int, str]:
    """Change a table in every way that reads its files."""
    expected = dict(zip(data()["id"].to_pylist(), data()["t"].to_pylist(), strict=True))
    assert table.delete("id IN (3, 50) OR t = 'none'").deleted == 2
    assert table.update({"t": "concat('u', t)"}, "id = 7 OR id > 55").updated == 5
    merge = table.merge(data(58, 4).set_column(1, "t", pa.array(["m"] * 4)), on="id")
    found = (
        merge.when_matched_update_all()
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete("target.id = 1")
        .execute()
    )
    assert (found.updated, found.inserted, found.deleted) == (2, 2, 1)
    assert table.merge(data(10, 5), on="id").when_matched_delete("source.id < 12").execute().deleted == 2
    table.overwrite(data(20, 2), "id IN (20, 21)")
    with table.transaction() as changes:
        changes.add_constraint("positive", "id >= 0")
    expected = {number: f"u{text}" if number == 7 or number > 55 else text for number, text in expected.items()}
    expected.update(dict.fromkeys((58, 59, 60, 61), "m"))
    return {number: text for number, text in expected.items() if number not in (3, 50, 1, 10, 11)}


@pytest.mark.parametrize(
    "properties", [{}, VECTORS, FEED, {**VECTORS, **FEED, **TRACKED}], ids=["copies", "vectors", "feed", "all"]
)
@pytest.mark.parametrize("is_refused", [False, True], ids=["in pieces", "in batches"])
def test_files_are_changed_in_pieces(
    properties: dict[str, str], is_refused: bool, small: list[int], request: pytest.FixtureRequest
) -> None:
    table = tahoe.Table("/t", env=memory_env())
    table.append(data(), properties=properties)
    if is_refused:
        request.getfixturevalue("overflowing")
    expected = changed(table)
    assert dict(zip(*(column.to_pylist() for column in table.to_arrow(["id", "t"]).columns), strict=True)) == expected
    nested = {row["id"]: row["n"] for row in table.to_arrow(["id", "n"]).to_pylist()}
    assert nested == {number: data()["n"][0].as_py() for number in expected}
    assert max(small) <= 2 * PIECE_BYTES or is_refused
    assert len(small) > 50
    assert list(check_version(table.snapshot())) == []
    if FEED.items() <= properties.items():
        kinds = table.changes(start_version=1)["_change_type"].to_pylist()
        assert [kinds.count(kind) for kind in ("delete", "update_preimage", "update_postimage", "insert")] == [
            7,
            7,
            7,
            4,
        ]
    assert table.optimize(z_order_by=["id"]) is not None
    assert table.count() == len(expected)


def test_row_groups_without_a_changed_row_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_stream, "_PIECE_BYTES", 10 * PIECE_BYTES)
    monkeypatch.setattr(physical_rows, "_KEPT_BYTES_MAX", 0)
    table = tahoe.Table("/t", env=memory_env())
    table.append(data(), properties=VECTORS)
    assert table.inspect.row_groups().num_rows > 1
    groups: list[tuple[int, list[str]]] = []
    read = pq.ParquetFile.read_row_group

    def noted(file: pq.ParquetFile, group: int, columns: list[str]) -> pa.Table:
        groups.append((group, columns))
        return read(file, group, columns=columns)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)
    table.update({"t": "'u'"}, "id = 2")
    assert [group for group, columns in groups if "t" in columns] == [0]


def test_a_data_set_gives_rows_at_positions_in_any_order() -> None:
    table = tahoe.Table("/t", env=memory_env())
    table.append(data())
    assert table.to_pyarrow_dataset().take([5, 1, 1]).column("id").to_pylist() == [5, 1, 1]


@pytest.mark.parametrize("kind", ["text", "list"])
def test_a_slice_far_behind_in_a_large_array_is_taken(kind: str, tmp_path: Path) -> None:
    """Offsets of 64 bits stay beyond 2 GiB in a slice, however small it is. The bytes before it are a hole in a
    file.
    """
    place = 1 << 31
    with open(tmp_path / "bytes", "wb") as file:
        file.seek(place)
        file.write(b"abcde")
    content = pa.memory_map(str(tmp_path / "bytes")).read_buffer()
    offsets = pa.py_buffer(np.array([place, place + 3, place + 5], np.int64).tobytes())
    texts = pa.Array.from_buffers(pa.large_string(), 2, [None, offsets, content])
    column = texts if kind == "text" else pa.LargeListArray.from_arrays(pa.array([0, 1, 2], pa.int64()), texts)
    table = tahoe.Table("/t", env=memory_env())
    table.append(pa.table({"v": column}))
    assert table.to_arrow()["v"].to_pylist() == (["abc", "de"] if kind == "text" else [["abc"], ["de"]])


# --- the proof

TEXT_BYTES = 10 << 20
GROUPS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "texts": lambda texts: texts,
    "binaries": lambda texts: texts.cast(pa.large_binary()),
    "views": lambda texts: pa.concat_arrays(
        [pa.array([text.as_py()], pa.string_view()) for text in texts]
    ),  # Arrow casts less
    "lists": lambda texts: pa.LargeListArray.from_arrays(pa.array(range(len(texts) + 1), pa.int64()), texts),
    "structs": lambda texts: pa.StructArray.from_arrays([texts], ["t"]),
    "maps": lambda texts: pa.MapArray.from_arrays(
        pa.array(range(len(texts) + 1), pa.int32()), pa.array(["k"] * len(texts)), texts
    ),
}


def large_texts(count: int) -> pa.Array:
    return pa.array([chr(97 + number % 26) * TEXT_BYTES for number in range(count)], pa.large_string())


@pytest.mark.skipif(not sample.IS_PROOF, reason="needs 9 GB of memory and 6 GB of disk: make large")
@pytest.mark.parametrize("kind", GROUPS)
@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["copies", "vectors"])
def test_more_than_two_gigabytes(kind: str, properties: dict[str, str], tmp_path: Path) -> None:
    """One array of a frame; then one file of several row groups, and one row group of another writer."""
    count = 230
    frame = pa.table({"id": pa.array(range(count), pa.int64()), "v": GROUPS[kind](large_texts(count))})
    table = tahoe.Table(tmp_path / "t")
    table.append(frame, properties=properties)
    one = tmp_path / "one"
    one.mkdir()
    pq.write_table(frame, one / "a.parquet", row_group_size=count, write_batch_size=8)  # a page has less than 2 GiB
    first = frame.slice(3, 1)
    del frame
    tahoe.Table(one).convert()
    for each in (table, tahoe.Table(one)):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert each.delete("id = 1").deleted == 1
        assert each.update({"v": None}, "id = 2").updated == 1
        merge = each.merge(first.set_column(0, "id", pa.array([900])).slice(0, 1), on="id")
        assert merge.when_matched_update_all().when_not_matched_insert_all().execute().inserted == 1
        assert each.count("id >= 0 AND v IS NOT NULL") == count - 1
        each.optimize()
        assert sum(batch.num_rows for batch in each.to_batches()) == count
        assert list(check_version(each.snapshot())) == []
        print(kind, each.url, before >> 10, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, "MB")


@pytest.mark.skipif(not sample.IS_PROOF, reason="needs 9 GB of memory and 6 GB of disk: make large")
def test_more_than_two_gigabytes_in_the_calls_that_take_or_give_all_rows(tmp_path: Path) -> None:
    """A frame that replaces rows, the changes of all rows, a layout of all rows, copies, and a frame of pandas."""
    count = 230
    table = tahoe.Table(tmp_path / "t")
    table.append(pa.table({"id": pa.array(range(count), pa.int64()), "v": large_texts(count)}), properties=FEED)
    assert table.update({"v": "upper(v)"}).updated == count
    feed = table.changes(
        start_version=0, columns=["id", "v", "_change_type"], filter="_change_type <> 'update_preimage'"
    )
    assert (feed.num_rows, feed.nbytes > 1 << 32) == (2 * count, True)
    del feed
    table.optimize(z_order_by=["id"])
    table.clone(tmp_path / "clone")
    table.overwrite(pa.table({"id": pa.array(range(count), pa.int64()), "v": large_texts(count)}))
    assert (
        table.overwrite(pa.table({"id": pa.array(range(count), pa.int64()), "v": large_texts(count)}), "id >= 0")
        is not None
    )
    assert table.count("v = upper(v)") == 0
    for each, letter in ((table, "b"), (tahoe.Table(tmp_path / "clone"), "B")):
        frame = each.to_pandas()
        assert len(frame) == count
        assert set(frame["v"].str.len()) == {TEXT_BYTES}
        assert frame["v"][frame["id"] == 1].iloc[0][-1] == letter
        del frame


def test_the_batches_of_a_row_group_are_of_bounded_rows() -> None:
    """So that nested values of 100 MB still fit into one array."""
    assert rows._BATCH_ROWS * (100 << 20) < 1 << 31
