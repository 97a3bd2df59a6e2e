"""The law of repair: an intact table stays as it is, and of a table that lost files exactly the rows of the other files
are left.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import tahoe
from tahoe.table.reading.rows import read_rows
from tahoe.table.verify.check import Severity, check_table
from tests.examples import fewer
from tests.table.builders import memory_env

PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "delta.enableDeletionVectors": st.just("true"),
        "delta.columnMapping.mode": st.sampled_from(["name", "id"]),
        "delta.enableRowTracking": st.just("true"),
        "delta.enableChangeDataFeed": st.just("true"),
        "delta.checkpointInterval": st.sampled_from(["1", "2"]),
    },
)
STEPS = st.lists(
    st.tuples(st.just("append"), st.integers(1, 5))
    | st.tuples(st.just("delete"), st.integers(2, 5))
    | st.just(("optimize", 0)),
    min_size=1,
    max_size=5,
)


@st.composite
def tables(draw: st.DrawFn) -> tahoe.Table:
    table = tahoe.Table("memory://t", env=memory_env())
    partition_by = draw(st.sampled_from([None, ["p"]]))
    properties, first = draw(PROPERTIES), 0
    for step, number in [("append", 4), *draw(STEPS)]:
        if step == "append":
            ids = range(first, first + number)
            rows = pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array([f"a {i % 2}%" for i in ids])})
            table.append(rows, partition_by=partition_by, properties=properties if first == 0 else {})
            first += number
        elif step == "delete":
            with table.transaction() as changes:
                changes.delete(f"id in ({', '.join(str(i) for i in range(0, first, number))})")
        else:
            table.optimize(max_deleted_share=0.9)
    return table


def content(table: tahoe.Table) -> dict[str, Any]:
    return {info.key: info.identity for info in table.env.store.walk()}


@given(tables(), st.sets(st.integers(0, 9)), st.booleans())
@fewer(3)
def test_repair_leaves_exactly_the_rows_of_the_files_that_exist(
    table: tahoe.Table, lost: set[int], verify_all_files: bool
) -> None:
    before = content(table)
    report = tahoe.Table(table.url, env=table.env).repair(verify_all_files=verify_all_files)
    assert (report.repairs, report.left, content(table)) == ((), (), before)
    snapshot = table.snapshot()
    paths = snapshot.live.column("path").to_pylist()
    gone = [number for number in range(len(paths)) if number in lost]
    kept = snapshot.scan().within([number for number in range(len(paths)) if number not in lost])
    expected = sorted(row["id"] for number in kept.file_positions.to_pylist() for row in _rows(table, number))
    for number in gone:
        table.env.store.delete(snapshot.full_scan.urls[number].as_py().removeprefix(table.url + "/"))
    report = tahoe.Table(table.url, env=table.env).repair(verify_all_files=verify_all_files)
    assert sorted(report.removed_files) == sorted(paths[number] for number in gone)
    assert sorted(tahoe.Table(table.url, env=table.env).to_arrow()["id"].to_pylist()) == expected
    assert [found for found in check_table(table.log) if found.severity is Severity.ERROR] == []
    assert report.version == (snapshot.version + 1 if gone else None)


def _rows(table: tahoe.Table, number: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_rows(table.snapshot().scan().within([number])).to_pylist()
    return rows
