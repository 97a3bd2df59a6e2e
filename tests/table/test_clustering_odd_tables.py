"""ZORDER BY of tables with names and values that nobody expects."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

import tahoe
from tahoe.protocol.types.names import unused_name
from tahoe.table.layout import laying_out
from tests.table.builders import memory_env

_names = itertools.count()


def made(*commits: pa.Table) -> tahoe.Table:
    table = tahoe.Table(f"memory://any-{next(_names)}", env=memory_env())
    for rows in commits:
        table.append(rows)
    return table


def test_an_unused_name_is_none_of_the_names_in_any_case() -> None:
    assert unused_name("a", ["b"]) == "a"
    assert unused_name("a", ["A", "a_", "b"]) == "a__"


@pytest.mark.parametrize("column", ["id", laying_out.PART])
def test_a_column_of_the_name_that_layouts_use_keeps_its_values(column: str) -> None:
    names = ["id", laying_out.PART, laying_out.PART + "_"]
    table = made(*(pa.table({name: pa.array([7 * n, 7 * n + 1], pa.float64()) for name in names}) for n in range(3)))
    before = table.to_arrow().sort_by("id")
    table.optimize(z_order_by=[column])
    assert table.files().num_rows == 1
    assert table.to_arrow().sort_by("id").equals(before)


@pytest.mark.parametrize("columns", [["s"], ["s", "id"], ["id", "s"]], ids="-".join)
def test_strings_that_are_not_valid_utf8_are_ordered_by_their_bytes(columns: list[str]) -> None:
    """Spark writes such strings, and orders them so."""
    values = [b"\xff\xfe", None, b"a\xc3", "é".encode() * 40, b"", b"z", b"\xa9b", b"a" * 33 + b"\xff"]
    texts = pa.array(values, pa.binary()).view(pa.string())
    ids = pa.array(range(len(values)), pa.int64())
    table = made(*(pa.table({"id": ids.slice(n, 4), "s": texts.slice(n, 4)}) for n in (0, 4)))
    table.optimize(z_order_by=columns)
    rows = table.to_arrow()
    found = dict(zip(rows["id"].to_pylist(), rows["s"].cast(pa.binary()).to_pylist(), strict=True))
    assert found == dict(enumerate(values))
    if len(columns) == 1:
        assert list(found.values()) == sorted(values, key=lambda value: (value is not None, value or b""))
