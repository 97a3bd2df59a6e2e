"""Laws of CONVERT TO DELTA over random folders."""

from __future__ import annotations

import datetime as dt
import io
import math
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

import tahoe
from tahoe.protocol.statistics.stats import parse_statistics
from tahoe.protocol.types.partitions import partition_folder
from tahoe.table.verify.check import check_table
from tests.examples import fewer
from tests.table.builders import memory_env

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=80)
FLOATS = st.floats(width=32) | st.sampled_from([0.0, -0.0, math.nan, math.inf])
COLUMNS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.float32(): FLOATS,
    pa.float64(): FLOATS,
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.dictionary(pa.int32(), pa.string()): TEXTS,
    pa.timestamp("us", "Europe/Paris"): st.integers(-(2**50), 2**50),
    pa.timestamp("ms"): st.integers(-(2**40), 2**40),
    pa.date32(): st.integers(-100_000, 100_000),
    pa.decimal128(9, 2): st.decimals(-1000, 1000, places=2),
    pa.struct({"x": pa.float64(), "y": pa.string()}): st.fixed_dictionaries(
        {"x": st.none() | FLOATS, "y": st.none() | TEXTS}
    ),
}


@st.composite
def data_files(draw: st.DrawFn) -> list[tuple[dict[str, str | None], pa.Table, int]]:
    """Rows of several files: the partition, the columns, and the rows of a row group."""
    types = {name: draw(st.sampled_from(list(COLUMNS))) for name in "abc"}
    files = []
    for _ in range(draw(st.integers(1, 4))):
        count = draw(st.integers(0, 5))
        names = draw(st.sets(st.sampled_from(sorted(types)), min_size=1))
        columns = {
            n: pa.array(draw(st.lists(st.none() | COLUMNS[types[n]], min_size=count, max_size=count)), types[n])
            for n in sorted(names)
        }
        files.append(({"p": draw(st.none() | TEXTS.filter(bool))}, pa.table(columns), draw(st.integers(1, 3))))
    return files


def converted(files: list[tuple[dict[str, str | None], pa.Table, int]]) -> tahoe.Table:
    env = memory_env()
    for number, (partition, rows, group) in enumerate(files):
        out = io.BytesIO()
        pq.write_table(rows, out, row_group_size=group)
        env.store.put(f"{partition_folder(['p'], partition)}/part-{number}", out.getvalue())
    table = tahoe.Table(env.store.url, env=env)
    table.convert(pa.schema([("p", pa.string())]))
    return table


def plain(value: Any) -> Any:
    return {name: plain(inner) for name, inner in value.items()} if isinstance(value, dict) else repr(value)


@fewer(4)
@given(data_files())
def test_the_table_has_the_rows_of_the_files_and_of_their_folders(
    files: list[tuple[dict[str, str | None], pa.Table, int]],
) -> None:
    table = converted(files)
    found = table.to_arrow()
    names = [name for name in found.column_names if name != "p"]
    expected = [
        {**dict.fromkeys(names), **row, **partition}
        for partition, rows, _ in files
        for row in as_read(rows).to_pylist()
    ]
    assert sorted(map(repr, map(plain, ordered(found.to_pylist())))) == sorted(map(repr, map(plain, ordered(expected))))
    assert list(check_table(table.log)) == []


def as_read(rows: pa.Table) -> pa.Table:
    """Rows with the types in which a Delta table has them."""

    def kind(given: pa.DataType) -> pa.DataType:
        if pa.types.is_dictionary(given) or pa.types.is_large_string(given):
            return pa.string()
        return pa.timestamp("us", None if given.tz is None else "UTC") if pa.types.is_timestamp(given) else given

    return rows.cast(pa.schema([(field.name, kind(field.type)) for field in rows.schema]))


def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [dict(sorted(row.items())) for row in rows]


@fewer(4)
@given(data_files())
def test_statistics_of_footers_are_those_of_the_rows(files: list[tuple[dict[str, str | None], pa.Table, int]]) -> None:
    table = converted(files)
    by_number = {int(add.path.rpartition("-")[2]): add for add in table.snapshot().live.adds()}
    for number, (_, rows, _) in enumerate(files):
        found = parse_statistics(by_number[number].stats, table.schema)
        assert found is not None
        assert found.num_records == rows.num_rows
        columns = {path: values(as_read(rows), path) for path, field in table.schema.leaves() if path != ("p",)}
        assert {p: c for p, c in found.null_count.items() if p in columns} == {
            path: sum(value is None for value in columns[path]) for path in found.null_count
        }
        for path, low in found.min_values.items():
            there = [in_milliseconds(value) for value in columns[path] if value is not None]
            assert all(low <= value <= found.max_values.get(path, value) for value in there), (path, low, there)


def in_milliseconds(value: Any) -> Any:
    """A timestamp as precisely as statistics have it."""
    return value.replace(microsecond=value.microsecond // 1000 * 1000) if isinstance(value, dt.datetime) else value


def values(rows: pa.Table, path: tuple[str, ...]) -> list[Any]:
    """The values of a column or of a field of a struct; null where the file lacks the column."""
    if path[0] not in rows.column_names:
        return [None] * rows.num_rows
    found: list[Any] = rows.column(path[0]).to_pylist()
    for name in path[1:]:
        found = [None if value is None else value[name] for value in found]
    return found
