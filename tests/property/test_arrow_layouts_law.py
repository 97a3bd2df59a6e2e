"""Every Arrow layout of the same values is the same rows, in every operation that takes rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tahoe.table.arrow.canonical import canonical_array, canonical_type
from tahoe.table.table import Table
from tests.property.arrow_arrays import SHAPES, Shape, array_of, values_of
from tests.table.builders import memory_env

ROWS = 4


@st.composite
def columns(draw: st.DrawFn) -> tuple[Shape, list[Any], pa.ChunkedArray]:
    """A shape, its values, and a column that has them in slices of arrays."""
    shape = draw(SHAPES)
    chunks: list[pa.Array] = []
    values: list[Any] = []
    for _ in range(draw(st.integers(1, 2))):
        of_chunk = draw(st.lists(values_of(shape), min_size=0, max_size=ROWS))
        before, after = ([draw(values_of(shape)) for _ in range(draw(st.integers(0, 2)))] for _ in range(2))
        chunks.append(array_of(shape, [*before, *of_chunk, *after]).slice(len(before), len(of_chunk)))
        values += of_chunk
    return shape, values, pa.chunked_array(chunks, chunks[0].type)


@given(columns())
def test_the_canonical_form_has_the_same_values(case: tuple[Shape, list[Any], pa.ChunkedArray]) -> None:
    _, values, column = case
    canonical = [canonical_array(chunk) for chunk in column.chunks]
    assert [value for chunk in canonical for value in chunk.to_pylist()] == values
    assert {chunk.type for chunk in canonical} == {canonical_type(column.type)}
    for chunk in canonical:
        chunk.validate(full=True)


@given(columns())
def test_rows_in_every_layout_are_taken_by_every_operation(case: tuple[Shape, list[Any], pa.ChunkedArray]) -> None:
    _, values, column = case
    rows = pa.table({"id": pa.array(range(len(values)), pa.int64()), "v": column})
    expected = [{"id": number, "v": value} for number, value in enumerate(values)]
    table = Table("/t", env=memory_env())

    def stored() -> list[dict[str, Any]]:
        return table.to_arrow().sort_by("id").to_pylist()

    table.create(rows.schema, properties={"delta.enableChangeDataFeed": "true"})
    table.append(rows)
    assert stored() == expected
    table.overwrite(rows)
    table.overwrite(rows, "id >= 0")
    assert stored() == expected
    merge = table.merge(rows, on="id").when_matched_update_all().when_not_matched_insert_all()
    assert merge.execute().updated == len(values)
    assert stored() == expected
    table.delete("id >= 1")
    table.merge(rows, on="id").when_not_matched_insert_all().execute()
    assert stored() == expected
    with table.transaction() as changes:
        changes.delete()
        changes.append(rows)
    assert stored() == expected
    if values:
        table.update({"v": pa.scalar(values[0], canonical_type(column.type))})
        assert [row["v"] for row in stored()] == [values[0]] * len(values)
    inserted = table.changes(start_version=1, end_version=1).sort_by("id")
    assert [{"id": row["id"], "v": row["v"]} for row in inserted.to_pylist()] == expected
