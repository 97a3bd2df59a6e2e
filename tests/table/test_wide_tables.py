"""What is done for each column of a table does not look at all columns: counted, for many columns."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.protocol.types.schema import LONG, Field, Struct
from tahoe.table.arrow.chunks import with_columns
from tahoe.table.arrow.file_columns import FIELD_ID, FileColumns
from tests.table.builders import memory_env

COLUMNS = 300


class CountedName(str):
    """A name that counts how often its case is folded."""

    __slots__ = ()
    folded = 0

    def lower(self) -> str:
        CountedName.folded += 1
        return super().lower()


def test_every_column_of_a_schema_is_found_by_looking_at_each_once() -> None:
    schema = Struct(tuple(Field(name=CountedName(f"Column_{n}"), type=LONG) for n in range(COLUMNS)))
    CountedName.folded = 0
    assert [schema.find(f"column_{n}") for n in range(COLUMNS)] == list(schema.fields)
    assert CountedName.folded <= 2 * COLUMNS


def test_an_exact_name_goes_before_one_in_another_case() -> None:
    upper, lower = Field(name="A", type=LONG), Field(name="a", type=LONG)
    assert Struct((upper, lower)).find("a") is lower
    assert Struct((lower, upper)).find("A") is upper
    assert Struct((upper,)).find("a") is upper
    assert Struct().find("a") is None


def test_schemas_are_equal_whether_they_were_searched_or_not() -> None:
    searched, other = Struct((Field(name="a", type=LONG),)), Struct((Field(name="a", type=LONG),))
    searched.find("a")
    assert searched == other
    assert repr(searched) == repr(other)


def test_columns_of_a_file_by_name_and_by_id() -> None:
    def field(name: str, number: int | None = None) -> pa.Field:
        return pa.field(name, pa.int64(), metadata=None if number is None else {FIELD_ID: str(number)})

    columns = FileColumns(pa.schema([field("a", 7), field("B"), field("c", 7), field("d"), field("D")]))
    assert [found and found.name for found in map(columns.named, ["a", "A", "b", "e", "d"])] == [
        "a",
        "a",
        "B",
        None,
        "d",
    ]
    assert [found and found.name for found in map(columns.with_id, [7, 8])] == ["a", None]
    twice = FileColumns(pa.schema([field("De"), field("dE")]))
    with pytest.raises(pa.ArrowInvalid, match="several"):
        twice.named("de")


def test_the_schema_of_a_file_is_taken_once_however_many_columns_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    table = tahoe.Table("memory://wide", env=memory_env())
    table.append(pa.table({f"column_{n}": [1] for n in range(COLUMNS)}))
    taken = 0
    original = pq.ParquetFile.schema_arrow.fget

    def counted(file: pq.ParquetFile) -> pa.Schema:
        nonlocal taken
        taken += 1
        return original(file)

    monkeypatch.setattr(pq.ParquetFile, "schema_arrow", property(counted))
    assert table.to_arrow().num_columns == COLUMNS
    assert taken <= 2


def test_columns_are_set_in_their_places_and_new_ones_come_last() -> None:
    kept = pa.field("kept", pa.int64(), nullable=False, metadata={"key": "value"})
    rows = pa.table([pa.array([1]), pa.array([2])], schema=pa.schema([pa.field("changed", pa.int64()), kept]))
    found = with_columns(rows, {"new": pa.array([3]), "changed": pa.array(["x"])})
    assert found.to_pydict() == {"changed": ["x"], "kept": [2], "new": [3]}
    assert found.schema.field("kept").equals(kept, check_metadata=True)
    assert with_columns(rows.select([]), {}).num_rows == 1
    assert with_columns(rows.select([]), {"new": pa.array([3])}).to_pydict() == {"new": [3]}
