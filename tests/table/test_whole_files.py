"""DELETE of whole partitions, and counts of them, are answered by the log: no data file is opened, so that a partition
of missing files can be dropped, and its rows can be counted.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import DataFileMissingError
from tahoe.protocol.log.actions import Cdc, Remove
from tests.table.builders import memory_env
from tests.table.damage import with_statistics

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MODES = [{}, VECTORS, FEED, VECTORS | FEED, {"delta.enableRowTracking": "true"}, {"delta.columnMapping.mode": "name"}]

DAY = "day = DATE '2024-01-01'"


def made(properties: Mapping[str, str] = {}) -> tahoe.Table:
    """Two files of two rows in each of three partitions; ids count from 0."""
    table = tahoe.Table("/t", env=memory_env())
    table.append(rows(0), partition_by=["p", "day"], properties=properties)
    table.append(rows(6))
    return table


def rows(first: int) -> pa.Table:
    days = pa.array(["2024-01-01", "2024-01-01", "2024-01-02", "2024-01-02", None, None]).cast(pa.date32())
    return pa.table({"id": range(first, first + 6), "p": [1, 1, 2, 2, None, None], "day": days})


def lose(table: tahoe.Table, where: str | None = None) -> None:
    for path in table.scan(where).column("path").to_pylist():
        table.env.store.delete(path)


def ids(table: tahoe.Table) -> list[int]:
    return sorted(table.to_arrow(["id"])["id"].to_pylist())


P1, P2, NULLS = [0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]
# a condition, and the ids of the rows for which it is true
DECIDED = [
    (None, [*P1, *P2, *NULLS]),
    ("true", [*P1, *P2, *NULLS]),
    ("false", []),
    ("p = 1", P1),
    ("P = 1", P1),
    ("p IN (1, 2)", [*P1, *P2]),
    ("p < 2 AND day IS NOT NULL", P1),
    ("p IS NULL", NULLS),
    ("NOT (p = 1)", P2),
    ("p <=> NULL OR p = 2", [*P2, *NULLS]),
    (DAY, P1),
    ("p + 1 = 2", P1),
    ("p = 1 OR 1 / p > 0.9", P1),
    ("p = 1 OR (p = 2 AND day = DATE '2024-01-01')", P1),
]


@pytest.mark.parametrize(("where", "matching"), DECIDED)
@pytest.mark.parametrize("properties", MODES)
def test_files_that_partition_values_decide_are_not_opened(
    properties: Mapping[str, str], where: str | None, matching: list[int]
) -> None:
    table = made(properties)
    every, other = ids(table), made(properties)
    other.delete(where)
    assert ids(other) == sorted({*every} - {*matching})
    lose(table)
    assert table.count(where) == len(matching)
    found = table.delete(where)
    assert found.deleted == len(matching)
    assert table.count() == len(every) - len(matching)
    if matching:
        assert table.history()[0]["operationMetrics"]["numDeletedRows"] == str(len(matching))
        actions = table.log.read_version(table.version)
        assert not any(isinstance(action, Cdc) for action in actions), "a removed whole file needs no change data file"
        removes = [action for action in actions if isinstance(action, Remove)]
        assert len(removes) == len(matching) / 2
        if "delta.enableRowTracking" in properties:
            assert all(remove.base_row_id is not None for remove in removes)


# conditions of which a part needs the rows, and the partition whose files it deletes whole
MIXED = [
    ("p = 1 OR id = 3", "p = 1"),
    ("p = 1 OR id IS NULL", "p = 1"),
    ("p = 1 OR NOT (id > 2)", "p = 1"),
    ("id >= 0 OR p IS NULL", "p IS NULL"),
]


@pytest.mark.parametrize(("where", "whole"), MIXED)
@pytest.mark.parametrize("properties", MODES[:2])
def test_only_files_that_partition_values_do_not_decide_are_opened(
    properties: Mapping[str, str], where: str, whole: str
) -> None:
    table = made(properties)
    matching, every = table.to_arrow(filter=where).num_rows, table.count()
    lose(table, whole)
    assert table.count(where) == matching
    assert table.delete(where).deleted == matching
    assert table.count() == every - matching == len(ids(table)), "no missing file is left"


@pytest.mark.parametrize("where", ["p = 1 AND id >= 0", "id >= 0", "p = id", "p = 1 OR p IS NULL AND id = 4"])
def test_statistics_alone_remove_no_file(where: str) -> None:
    """Those of another writer may be wrong."""
    table = made()
    lose(table)
    with pytest.raises(DataFileMissingError):
        table.delete(where)


def test_deleted_rows_are_counted_once() -> None:
    """By vectors of earlier versions, and by this transaction."""
    table = made(VECTORS)
    assert table.delete("id = 0").deleted == 1
    assert (table.count("p = 1"), table.count("p = 2")) == (3, 4)
    with table.transaction() as changes:
        assert changes.delete("id = 1") == 1
        assert changes.delete("p = 1") == 2
        assert changes.delete("p = 1") == 0
        assert changes.delete("id <= 2") == 1
    assert ids(table) == [3, 4, 5, 8, 9, 10, 11]
    metrics = table.history()[0]["operationMetrics"]
    assert (metrics["numDeletedRows"], metrics["numRemovedFiles"], metrics["numDeletionVectorsRemoved"]) == (
        "4",
        "2",
        "1",
    )


def test_without_statistics_the_footer_tells_the_number_of_deleted_rows() -> None:
    table = made()
    with_statistics(table.env, 0, None)
    table = tahoe.Table(table.url, env=table.env)
    assert (table.count("p = 1"), table.delete("p = 1").deleted, table.count()) == (4, 4, 8)


def test_a_number_of_deleted_rows_that_nothing_tells_is_no_number() -> None:
    """A sum without the rows of one file would be wrong."""
    table = made()
    with_statistics(table.env, 0, None)
    table = tahoe.Table(table.url, env=table.env)
    lose(table, "p = 1")
    with pytest.raises(DataFileMissingError):
        table.count("p = 1")
    assert table.delete("p = 1").deleted == -1
    metrics = table.history()[0]["operationMetrics"]
    assert "numDeletedRows" not in metrics
    assert metrics["numRemovedFiles"] == "2"
    assert ids(table) == sorted([*P2, *NULLS])


def test_a_partition_of_missing_files_is_replaced() -> None:
    table = made()
    lose(table, "p = 1")
    table.overwrite(rows(20).slice(0, 2), filter="p = 1")
    assert ids(table) == sorted([*P2, *NULLS, 20, 21])


def test_change_data_files_have_the_rows_of_whole_files_too() -> None:
    """Readers of a commit that has such files use nothing else: beside rows of a file that is written again, all
    changes are in them.
    """
    table = made(FEED)
    table.delete("p = 1 OR id = 3")
    feed = table.changes(start_version=table.version)
    assert sorted(feed["id"].to_pylist()) == sorted([*P1, 3])
