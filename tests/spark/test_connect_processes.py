"""The Python data source of Spark Connect, whose reads and writes are planned in one process and run in others. No
server is asked.
"""

from __future__ import annotations

import multiprocessing
import pickle
import shutil
from collections.abc import Iterator, Sequence
from multiprocessing.pool import Pool
from pathlib import Path

import pyarrow as pa
import pyspark.sql.datasource as ds
import pytest

import tahoe
from tahoe.errors import DataFileMissingError, InvalidTimeTravelError, MetadataChangedException
from tahoe.protocol.log.deletion_vector import inline_descriptor
from tahoe.protocol.types.schema import LONG, Field, Struct
from tahoe.spark.api.connect.data_source import DeltaSource, _Reader
from tahoe.spark.jvm.types import spark_schema
from tahoe.storage import system_env
from tahoe.storage.background import finish_background
from tests.table.feeds import Fed, gone, metadata

FEED = {"readChangeFeed": "true", "startingVersion": "1"}


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Pool]:
    """Another process, which is used again as Spark uses its Python workers."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        yield pool


def drop(path: str | Path) -> None:
    finish_background()  # it may be writing a checksum there
    shutil.rmtree(path)


def planned(path: str, options: dict[str, str], filters: Sequence[ds.Filter] = ()) -> bytes:
    """What Spark sends to its tasks."""
    reader = DeltaSource({"path": path, **options}).reader(None)
    list(reader.pushFilters(list(filters)))
    return pickle.dumps((reader, reader.partitions()))


def read(sent: bytes) -> pa.Table:
    reader, partitions = pickle.loads(sent)
    return pa.Table.from_batches([batch for partition in partitions for batch in reader.read(partition)])


def ids(found: pa.Table) -> list[int]:
    return sorted(found["id"].to_pylist())


def append(table: tahoe.Table, *values: int) -> None:
    table.append(pa.table({"id": pa.array(values, pa.int64())}))


@pytest.fixture
def table(tmp_path: Path) -> tahoe.Table:
    """A table of three files with one row each."""
    table = tahoe.Table(str(tmp_path / "t"))
    for value in (1, 2, 3):
        append(table, value)
    return table


def test_a_task_reads_the_planned_files_in_whatever_order_the_log_lists_them(
    table: tahoe.Table, elsewhere: Pool
) -> None:
    url = str(table.url)
    assert ids(elsewhere.apply(read, (elsewhere.apply(planned, (url, {})),))) == [1, 2, 3]
    table.compact_logs(0, 2)  # lists the files the other way round
    for value in (1, 2, 3):
        sent = planned(url, {}, [ds.EqualTo(("id",), value)])
        assert ids(elsewhere.apply(read, (sent,))) == [value]
        assert ids(read(elsewhere.apply(planned, (url, {}, [ds.EqualTo(("id",), value)])))) == [value]


def test_a_table_in_the_place_of_another_is_read_for_itself(table: tahoe.Table, elsewhere: Pool) -> None:
    url = str(table.url)
    before = planned(url, {})
    assert ids(elsewhere.apply(read, (before,))) == [1, 2, 3]
    drop(url.removeprefix("file://"))
    for value in (10, 20, 30):
        append(tahoe.Table(url), value)
    assert ids(elsewhere.apply(read, (planned(url, {}),))) == [10, 20, 30]
    with pytest.raises(DataFileMissingError):
        read(before)


def test_a_feed_in_the_place_of_another_is_read_for_itself(tmp_path: Path, elsewhere: Pool) -> None:
    path = tmp_path / "fed"
    for first in (1, 10):
        fed = Fed(system_env(str(path)), metadata(Struct((Field(name="id", type=LONG),))).replace(id=f"fed {first}"))
        file = fed.add(f"f{first}", {"id": [first, first + 1, first + 2]})
        fed.commit(file)
        fed.commit(gone(file), file.replace(deletion_vector=inline_descriptor([1])))
        fed.commit(fed.cdc(f"_change_data/c{first}", {"id": [first], "_change_type": ["delete"]}))
        found = elsewhere.apply(read, (planned(str(path), FEED),)).select(["id", "_change_type", "_commit_version"])
        inserted = [(first + n, "insert", 1) for n in range(3)]
        assert sorted(tuple(row.values()) for row in found.to_pylist()) == sorted(
            [*inserted, (first + 1, "delete", 2), (first, "delete", 3)]
        )
        last = planned(str(path), FEED, [ds.EqualTo(("_commit_version",), 3)])
        assert ids(elsewhere.apply(read, (last,))) == [first]
        drop(path)


def test_a_task_is_sent_its_own_files_only(table: tahoe.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    append(table, *range(1000))
    monkeypatch.setattr("tahoe.spark.api.connect.data_source.TASK_BYTES", 1)
    reader, partitions = pickle.loads(planned(str(table.url), {}))
    assert sorted(ids(pa.Table.from_batches(reader.read(part))) for part in partitions) == [
        list(range(1000)),
        [1],
        [2],
        [3],
    ]
    few, many = (tahoe.Table(str(table.url)).snapshot(version) for version in (0, 3))
    assert len(pickle.dumps(_Reader({"rows": few}))) == pytest.approx(len(pickle.dumps(_Reader({"rows": many}))), abs=8)
    assert {part.files.num_rows for part in partitions} == {1}
    assert (
        max(len(pickle.dumps(part)) for part in partitions) < min(len(pickle.dumps(part)) for part in partitions) * 1.1
    )


def test_rows_for_a_table_are_not_committed_to_another_in_its_place(table: tahoe.Table) -> None:
    url = str(table.url)
    sent = pickle.dumps(DeltaSource({"path": url}).writer(spark_schema(table.snapshot().schema), overwrite=False))
    drop(url.removeprefix("file://"))
    for value in (10, 20, 30):
        append(tahoe.Table(url), value)
    writer = pickle.loads(sent)
    written = writer.write(iter([pa.record_batch({"id": pa.array([4], pa.int64())})]))
    with pytest.raises(MetadataChangedException, match="dropped or recreated"):
        writer.commit([written])
    writer.abort([written])
    assert ids(tahoe.Table(url).to_arrow()) == [10, 20, 30]


def test_a_write_to_a_version_of_a_table_is_refused(tmp_path: Path) -> None:
    """It would write to the newest version, which the path does not name."""
    append(tahoe.Table(tmp_path / "t"), 1)
    with pytest.raises(InvalidTimeTravelError, match="only the table itself can be named"):
        DeltaSource({"path": f"{tmp_path}/t@v0"}).writer(
            spark_schema(Struct((Field(name="id", type=LONG),))), overwrite=False
        )
