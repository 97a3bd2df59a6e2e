"""How well statistics tell the files that have a value of a column: what decides whether a join leaves files out."""

from __future__ import annotations

import json

import pytest

from tahoe.protocol.log.actions import Metadata
from tahoe.protocol.types.schema import DATE, DOUBLE, LONG, STRING, Field, Struct
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.keys import FILES_MAX, share_of_files
from tahoe.table.reading.snapshot import load_snapshot
from tests.table.builders import PROTOCOL, add, memory_env, put_commit

SCHEMA = Struct(
    (
        Field(name="k", type=LONG),
        Field(name="s", type=STRING),
        Field(name="d", type=DATE),
        Field(name="x", type=DOUBLE),
        Field(name="p", type=LONG),
    )
)


def share(ranges: list[tuple[object, object] | None], column: str = "k") -> float:
    """The share for files with these bounds of a column, None for a file without statistics."""
    env = memory_env()
    metadata = Metadata(id="t", schema_string=SCHEMA.to_json(), partition_columns=("p",))
    texts = [
        None
        if r is None
        else json.dumps({"numRecords": 9, "minValues": {column.lower(): r[0]}, "maxValues": {column.lower(): r[1]}})
        for r in ranges
    ]
    adds = [add(f"f{n}", stats=text, partition_values={"p": str(n)}) for n, text in enumerate(texts)]
    put_commit(env, 0, [PROTOCOL, metadata, *adds])
    return share_of_files(load_snapshot(Log(env)).scan(), (column,))


@pytest.mark.parametrize(
    ("ranges", "column", "expected"),
    [
        ([(n * 10, n * 10 + 9) for n in range(10)], "k", 0.1),
        ([(n * 10, n * 10 + 10) for n in range(10)], "k", 0.19),  # neighbours touch
        ([(0, 99)] * 10, "k", 1.0),
        ([(f"{n}a", f"{n}z") for n in range(10)], "s", 0.1),
        ([(f"2026-01-0{n}", f"2026-01-0{n}") for n in range(1, 6)], "d", 0.2),
        ([(0, 4), (5, 9), None, None], "k", 0.75),  # a file without statistics may have any value
        ([None, None], "k", 1.0),
        ([(0, 1), (2, 3)], "p", 1.0),
        ([], "k", 1.0),
        ([(0, 1), (2, 3)], "K", 0.5),
        ([(0, 1), (2, 3)], "nowhere", 1.0),
    ],
)
def test_the_share_of_files_with_a_value(ranges, column, expected):
    assert share(ranges, column) == pytest.approx(expected)


def test_of_many_files_some_are_looked_at():
    files = FILES_MAX * 2
    assert share([(n, n) for n in range(files)]) <= 2 / FILES_MAX
    assert share([(0, n) for n in range(files)]) == 1.0
