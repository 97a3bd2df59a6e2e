"""A time without a zone in a condition is in the table's zone, whoever asks: what a filter shows is what it deletes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import CheckConstraintViolatedError
from tahoe.protocol.actions import Metadata, Protocol
from tahoe.protocol.schema import DATE, INTEGER, TIMESTAMP, Field, Struct
from tests.table.builders import memory_env, put_commit

PROTOCOL = Protocol(reader_version=1, writer_version=7, writer_features=frozenset({"changeDataFeed", "checkConstraints"}))
SCHEMA = Struct((Field(name="id", type=INTEGER), Field(name="at", type=TIMESTAMP), Field(name="day", type=DATE)))
MIDNIGHT = datetime(2026, 1, 31, tzinfo=UTC)
HOURS = range(-12, 13, 2)


def make(zone: str, partition_by: tuple[str, ...], **properties: str) -> tahoe.Table:
    env = memory_env()
    configuration = {"delta.enableChangeDataFeed": "true", **properties}
    metadata = Metadata(id="t", schema_string=SCHEMA.to_json(), partition_columns=partition_by, configuration=configuration)
    put_commit(env, 0, [PROTOCOL, metadata])
    return tahoe.Table(env.store.url, env=env, time_zone=zone)


def rows(*hours: int) -> pa.Table:
    times = [MIDNIGHT + timedelta(hours=hour) for hour in hours]
    columns = [pa.array(hours, pa.int32()), pa.array(times, pa.timestamp("us", "UTC")), pa.array([t.date() for t in times], pa.date32())]
    return pa.table(columns, names=["id", "at", "day"])


@pytest.mark.parametrize("partition_by", [(), ("at",)])
@pytest.mark.parametrize("condition", ["at < '2026-01-31 00:00:00'", "at IN ('2026-01-31', '2026-01-30 22:00')", "at >= DATE '2026-01-31'"])
@pytest.mark.parametrize(("zone", "midnight"), [("UTC", 0), ("America/New_York", 5), ("Asia/Tokyo", -9)])
def test_what_a_filter_shows_is_what_it_deletes(zone, midnight, condition, partition_by):
    table = make(zone, partition_by)
    for hour in HOURS:
        table.append(rows(hour - hour % 2 + midnight % 2))
    shown = table.to_arrow(filter=condition).column("id").to_pylist()
    assert min(shown, key=lambda hour: abs(hour - midnight)) in (midnight, midnight - 2), "the zone's midnight"
    fed = table.changes(start_version=1, filter=condition).column("id").to_pylist()
    by_time = {add.path for add in table.scan(condition).adds()}
    with table.transaction() as changes:
        read = changes.to_arrow(filter=condition).column("id").to_pylist()
        assert changes.delete(condition) == len(shown)
    left = table.to_arrow().column("id").to_pylist()
    assert sorted(shown) == sorted(fed) == sorted(read)
    assert len(by_time) == len(shown)
    assert not set(left) & set(shown)
    assert len(left) + len(shown) == len(HOURS)


@pytest.mark.parametrize(("zone", "is_let_in"), [("UTC", True), ("America/New_York", False)])
def test_a_constraint_is_in_the_same_zone(zone, is_let_in):
    condition = "at >= '2026-01-31 00:00:00'"
    table = make(zone, (), **{"delta.constraints.c": condition})
    if is_let_in:
        table.append(rows(0))
        assert table.to_arrow(filter=condition).num_rows == 1
    else:
        with pytest.raises(CheckConstraintViolatedError):
            table.append(rows(0))
