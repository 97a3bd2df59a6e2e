"""Which files a task reads, and in which order: Spark's packing by sizes, told in advance. `test_native.py` runs it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tahoe.spark.reading import counted_rows
from tahoe.spark.reading.counted_rows import START, in_tasks, of_single_files, task_bytes

MIB = 1 << 20


def listing(*files: tuple[int, int]) -> pa.Table:
    sizes, counts = zip(*files, strict=True)
    return pa.table({"size_bytes": pa.chunked_array([sizes]), "num_records": pa.chunked_array([counts]), "n": range(len(files))})


@pytest.mark.parametrize(
    ("files", "bytes_max", "order", "before"),
    [
        ([(5, 50), (9, 90), (5, 51), (3, 30)], 16, [1, 0, 2, 3], [0, 90, 0, 51]),
        ([(5, 50), (9, 90), (5, 51), (3, 30)], 100, [1, 0, 2, 3], [0, 90, 140, 191]),
        ([(4, 7)] * 4, 8, [0, 1, 2, 3], [0, 7, 0, 7]),
        ([(4, 7), (5, 0), (3, 2)], 5, [1, 0, 2], [0, 0, 0]),
        ([(4, 7)], 4, [0], [0]),
    ],
)
def test_rows_before_a_file(files: list[tuple[int, int]], bytes_max: int, order: list[int], before: list[int]) -> None:
    """Of another order, or of rows before a file that are not in its task, other rows than the deleted ones would be left out."""
    tasks = in_tasks(listing(*files), bytes_max)
    assert tasks["n"].to_pylist() == order
    starts = tasks[START].to_pylist()
    assert [start & ((1 << 33) - 1) for start in starts] == before
    assert [start >> 33 for start in starts] == list(range(len(files))), "files with equal values would be put together"
    assert of_single_files(tasks[START]).to_pylist() == [number << 33 for number in range(len(files))]


def session(cores: int, **settings: str) -> Any:
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return SimpleNamespace(settings=lambda: named, spark=SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=cores)))


def test_tasks_are_as_many_as_cores_and_hold_every_file() -> None:
    hundred = pa.chunked_array([[8 * MIB] * 100]), pa.chunked_array([[1] * 100])
    assert task_bytes(session(2), *hundred) == 128 * MIB
    for cores in (4, 10, 64):
        assert 400 / cores <= (task_bytes(session(cores), *hundred) or 0) / MIB <= max(8, 800 / cores)
    assert task_bytes(session(1000), *hundred) == 8 * MIB
    assert task_bytes(session(2), pa.chunked_array([[10]]), pa.chunked_array([[1]])) == counted_rows.TASK_BYTES_MIN


def test_rows_that_cannot_be_counted() -> None:
    one, rows = pa.chunked_array([[10]]), pa.chunked_array([[3]])
    assert task_bytes(session(2), pa.chunked_array([[129 * MIB]]), rows) is None
    assert task_bytes(session(2), one, pa.chunked_array([[None]], pa.int64())) is None
    assert task_bytes(session(2, spark__sql__files__ignoreMissingFiles="TRUE"), one, rows) is None
    assert task_bytes(session(2, spark__sql__files__ignoreCorruptFiles="false"), one, rows) is not None
