"""Statistics that cannot be true are unknown: rows are found and counted whatever a writer put there, from JSON and
from checkpoints.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import tahoe
from tahoe.storage.env import Env
from tests.table.builders import memory_env

ROWS = pa.table(
    {
        "l": pa.array([1, 2, None]),
        "b": pa.array([1, 2, None], pa.int8()),
        "x": [1.0, 2.0, None],
        "f": pa.array([1, 2, None], pa.float32()),
        "d": pa.array([1, 2, None], pa.decimal128(38, 0)),
        "t": ["a", "b", None],
        "ts": pa.array([1, 2, None], pa.timestamp("us", "UTC")),
    }
)
NONSENSE = {
    '{"numRecords":-1}': "l = 2",
    '{"numRecords":9223372036854775808}': "l = 2",
    '{"numRecords":1e400}': "l = 2",
    '{"numRecords":-3,"nullCount":{"l":-3}}': "l = 2",
    '{"numRecords":3,"nullCount":{"l":4}}': "l = 2",
    '{"nullCount":{"l":-1}}': "l = 2",
    '{"numRecords":3,"minValues":{"l":1e400}}': "l = 2",
    '{"numRecords":3,"maxValues":{"l":-1e400}}': "l = 2",
    '{"numRecords":3,"minValues":{"l":9223372036854775808}}': "l = 2",
    '{"numRecords":3,"minValues":{"b":300}}': "b = 2",
    '{"numRecords":3,"maxValues":{"b":-129}}': "b = 2",
    '{"numRecords":3,"minValues":{"x":1e400}}': "x = 2",
    '{"numRecords":3,"minValues":{"f":1e300}}': "f = 2",
    '{"numRecords":3,"maxValues":{"f":-1e300}}': "f = 2",
    '{"numRecords":3,"minValues":{"d":999999999999999999999999999999999999999}}': "d = 2",
    '{"numRecords":3,"maxValues":{"d":-1e400}}': "d = 2",
    '{"numRecords":3,"minValues":{"l":3},"maxValues":{"l":1}}': "l = 2",
    '{"numRecords":3,"minValues":{"x":3.0},"maxValues":{"x":1.0}}': "x = 2",
    '{"numRecords":3,"minValues":{"t":"c"},"maxValues":{"t":"a"}}': "t = 'b'",
    '{"numRecords":3,"minValues":{"ts":"1970-01-01T00:00:01.000Z"},"maxValues":{"ts":"1970-01-01T00:00:00.000Z"}}': "ts > '1960-01-01'",
}


def with_statistics(text: str) -> tahoe.Table:
    """A table of one file, with another text in the log instead of its statistics."""
    plain, env = tahoe.Table("memory://plain", env=memory_env()), memory_env()
    plain.append(ROWS)
    key = "_delta_log/00000000000000000000.json"
    actions = [json.loads(line) for line in plain.env.store.get(key).splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["stats"] = text
            copied(action["add"]["path"], plain.env, env)
    assert env.store.put_if_absent(key, "\n".join(map(json.dumps, actions)).encode())
    return tahoe.Table("memory://nonsense", env=env)


def copied(path: str, source: Env, target: Env) -> None:
    assert target.store.put_if_absent(path, source.store.get(path))


@pytest.mark.parametrize("has_checkpoint", [False, True])
@pytest.mark.parametrize("text", NONSENSE)
def test_rows_are_found_and_counted(text: str, has_checkpoint: bool) -> None:
    table, condition = with_statistics(text), NONSENSE[text]
    if has_checkpoint:
        table.create_checkpoint()
        table = tahoe.Table(table.url, env=table.env)
    assert table.count() == 3
    assert table.count(condition) == table.to_arrow(filter=condition).num_rows == (2 if ">" in condition else 1)
    assert table.count("l IS NULL") == 1
    assert table.count(f"{condition.split()[0]} IS NOT NULL") == 2
    table.delete(condition)
    assert tahoe.Table(table.url, env=table.env).count() == (1 if ">" in condition else 2)


def test_a_maximum_that_may_be_cut_is_not_less_than_its_minimum() -> None:
    stem = "a" * 16
    text = json.dumps({"numRecords": 3, "minValues": {"t": stem + "b"}, "maxValues": {"t": stem}})
    assert with_statistics(text).snapshot().scan("t = 'b'").kept_files == 0


def test_rows_that_statistics_do_not_count_stay_when_all_counted_rows_are_marked() -> None:
    """A file of three rows, of which its statistics tell two: two writers who mark one row each must not remove the
    third.
    """
    table = with_statistics('{"numRecords":2}')
    with table.transaction() as change:
        change.set_properties({"delta.enableDeletionVectors": "true"})
    (path,) = (file["path"] for file in table.snapshot().scan().listing(["path"]).to_pylist())
    with table.transaction() as slow:
        slow.mark_deleted(path, [0])
        with table.transaction() as fast:
            fast.mark_deleted(path, [1])
    assert table.to_arrow(["l"])["l"].to_pylist() == [None]
    (add,) = table.snapshot().full_scan.adds()
    assert json.loads(add.stats or "")["numRecords"] == 3
