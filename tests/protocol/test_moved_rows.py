"""What a compaction records about the rows that it moved: it is read back as written, and what does not fit is not
used.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from tahoe.protocol.log.actions import Add, CommitInfo, DeletionVectorDescriptor, Remove
from tahoe.protocol.statistics.moved_rows import (
    CopiedRows,
    all_places,
    from_json,
    new_places,
    places_of,
    recorded_places,
    to_json,
)

VECTOR = DeletionVectorDescriptor(
    storage_type="u", path_or_inline="ab^-aqEH.-t@S}K{vb[*k^", offset=4, size_bytes=40, cardinality=2
)
MOVED = {"new": (CopiedRows(path="b", count=3), CopiedRows(path="a", vector=VECTOR, count=2))}
REMOVES = [Remove(path=path, data_change=False) for path in "ab"]
ADD = Add(path="new", size_bytes=1, modification_time_ms=1, data_change=False, stats='{"numRecords": 5}')


def info(value: Any) -> CommitInfo:
    return CommitInfo({"movedRows": value})


def test_it_is_read_as_it_was_written() -> None:
    assert from_json(to_json(MOVED)) == MOVED


def test_a_row_is_where_the_rows_before_it_end() -> None:
    places = recorded_places([info(to_json(MOVED)), *REMOVES, ADD], str)
    assert new_places(places["b"], BitMap64([0, 2]), BitMap64()) == {"new": BitMap64([0, 2])}
    assert new_places(places["a"], BitMap64([1, 3]), BitMap64([0, 2])) == {"new": BitMap64([3, 4])}
    assert all_places(places["a"]) == {"new": BitMap64([3, 4])}


@pytest.mark.parametrize("row", [0, 2, 4, 1000])
def test_a_row_that_was_not_copied_has_no_place(row: int) -> None:
    places = places_of(MOVED, str)
    with pytest.raises(ValueError, match=f"row {row} was not copied"):
        new_places(places["a"], BitMap64([row]), BitMap64([0, 2]))


@pytest.mark.parametrize(
    "actions",
    [
        pytest.param([*REMOVES, ADD], id="nothing recorded"),
        pytest.param(
            [info({"new": [{"path": "a", "first": 0, "count": 4}]}), *REMOVES, ADD], id="another number of rows"
        ),
        pytest.param([info(to_json(MOVED)), *REMOVES, ADD.replace(path="other")], id="another file"),
        pytest.param([info(to_json(MOVED)), *REMOVES, ADD.replace(stats=None)], id="no number of rows"),
        pytest.param([info(to_json(MOVED)), *REMOVES, ADD.replace(data_change=True)], id="an add changes rows"),
        pytest.param([info(to_json(MOVED)), Remove(path="a"), REMOVES[1], ADD], id="a remove changes rows"),
        pytest.param(
            [
                info({"new": [{"path": "a", "first": 0, "count": 3}, {"path": "a", "first": 2, "count": 2}]}),
                *REMOVES,
                ADD,
            ],
            id="a row in two places",
        ),
        pytest.param(
            [
                info(
                    to_json(
                        {"new": [CopiedRows(path="a", count=2), CopiedRows(path="a", vector=VECTOR, first=2, count=3)]}
                    )
                ),
                *REMOVES,
                ADD,
            ],
            id="two vectors of one file",
        ),
        *(
            pytest.param([info(value), *REMOVES, ADD], id=f"malformed: {value}")
            for value in [None, [], {"new": None}, {"new": [1]}, {"new": [{"path": "a", "count": 5}]}]
        ),
        pytest.param([info({"new": [{"path": "a", "first": -1, "count": 5}]}), *REMOVES, ADD], id="a negative rank"),
        pytest.param(
            [info({"new": [{"path": "a", "first": 0, "count": 5, "vector": {"storageType": "u"}}]}), *REMOVES, ADD],
            id="vector",
        ),
    ],
)
def test_what_does_not_fit_is_not_used(actions: list[Any]) -> None:
    assert not recorded_places(actions, str)


@given(st.data(), st.lists(st.integers(1, 20), min_size=1, max_size=4))
def test_places_are_those_of_a_copy(data: st.DataObject, sizes: list[int]) -> None:
    """The rows of files, copied one after the other without the dead ones, and looked up again."""
    dead = [BitMap64(data.draw(st.sets(st.integers(0, size - 1)))) for size in sizes]
    rows = [(file, row) for file, size in enumerate(sizes) for row in range(size) if row not in dead[file]]
    cut = data.draw(st.integers(0, len(rows)))
    copies = {"one": rows[:cut], "two": rows[cut:]}
    moved = {target: _ranges(copied, rows) for target, copied in copies.items()}
    places = places_of(moved, str)
    for file, size in enumerate(sizes):
        for row in set(range(size)) - set(dead[file]):
            ((target, at),) = new_places(places[str(file)], BitMap64([row]), dead[file]).items()
            assert [copies[target][index] for index in at] == [(file, row)]


def _ranges(copied: list[tuple[int, int]], rows: list[tuple[int, int]]) -> list[CopiedRows]:
    found = []
    for file in sorted({file for file, _ in copied}):
        mine = [row for other, row in copied if other == file]
        before = [row for other, row in rows if other == file and row < mine[0]]
        found.append(CopiedRows(path=str(file), first=len(before), count=len(mine)))
    return found
