"""A time without a zone in a condition is in the table's zone, whoever asks: what a filter shows is what it deletes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import CheckConstraintViolatedError, FieldsNotMergedError
from tahoe.protocol.log.actions import Metadata, Protocol
from tahoe.protocol.types.schema import DATE, INTEGER, TIMESTAMP, Field, Struct
from tests.table.builders import memory_env, put_commit

PROTOCOL = Protocol(
    reader_version=1, writer_version=7, writer_features=frozenset({"changeDataFeed", "checkConstraints"})
)
SCHEMA = Struct((Field(name="id", type=INTEGER), Field(name="at", type=TIMESTAMP), Field(name="day", type=DATE)))
MIDNIGHT = datetime(2026, 1, 31, tzinfo=UTC)
HOURS = range(-12, 13, 2)


def make(zone: str, partition_by: tuple[str, ...], **properties: str) -> tahoe.Table:
    env = memory_env()
    configuration = {"delta.enableChangeDataFeed": "true", **properties}
    metadata = Metadata(
        id="t", schema_string=SCHEMA.to_json(), partition_columns=partition_by, configuration=configuration
    )
    put_commit(env, 0, [PROTOCOL, metadata])
    return tahoe.Table(env.store.url, env=env, time_zone=zone)


def rows(*hours: int) -> pa.Table:
    times = [MIDNIGHT + timedelta(hours=hour) for hour in hours]
    columns = [
        pa.array(hours, pa.int32()),
        pa.array(times, pa.timestamp("us", "UTC")),
        pa.array([t.date() for t in times], pa.date32()),
    ]
    return pa.table(columns, names=["id", "at", "day"])


@pytest.mark.parametrize("partition_by", [(), ("at",)])
@pytest.mark.parametrize(
    "condition", ["at < '2026-01-31 00:00:00'", "at IN ('2026-01-31', '2026-01-30 22:00')", "at >= DATE '2026-01-31'"]
)
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


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_times_that_are_written_without_a_zone_are_in_the_same_zone(zone):
    """A condition finds the time that was written, and Arrow data, values of Python and SQL are the same instants, as
    in Spark.
    """
    table, at = make(zone, ()), datetime(2026, 7, 1, 23, 30)
    table.append(pa.table({"id": [1], "at": [at]}))  # without a zone: neither that of the data nor of this machine
    table.append(pa.table({"id": [2], "at": [None]}))
    table.update({"at": at}, "id = 2")
    table.append(pa.table({"id": [3], "at": [None]}))
    table.update({"at": "TIMESTAMP'2026-07-01 23:30:00'"}, "id = 3")
    assert table.count("at = TIMESTAMP'2026-07-01 23:30:00'") == 3
    assert table.count([("at", "=", at)]) == 3


@pytest.mark.parametrize(("zone", "day"), [("UTC", 31), ("America/New_York", 30), ("Asia/Tokyo", 31)])
def test_the_day_of_an_instant_is_that_of_the_zone(zone, day):
    table = make(zone, ())
    table.append(
        pa.table(
            {
                "id": [1],
                "day": pa.array([datetime(2026, 1, day, tzinfo=ZoneInfo(zone))], pa.timestamp("us", "Asia/Tokyo")),
            }
        )
    )
    table.append(pa.table({"id": [2], "at": [MIDNIGHT]}))
    table.update({"day": "at"}, "id = 2")
    assert [each.day for each in table.to_arrow(filter="day IS NOT NULL")["day"].to_pylist()] == [day, day]
    with pytest.raises(FieldsNotMergedError, match="would become"):
        table.append(pa.table({"id": [3], "day": pa.array([MIDNIGHT + timedelta(hours=1)], pa.timestamp("us", "UTC"))}))


def test_an_instant_stays_the_same_when_clocks_are_put_back():
    twice = [datetime(2026, 10, 25, hour, 30, tzinfo=UTC) for hour in (0, 1)]  # half past two in Berlin, both
    table = make("Europe/Berlin", ())
    table.append(pa.table({"id": [1, 2], "at": pa.array(twice, pa.timestamp("ms", "Europe/Berlin"))}))
    assert table.to_arrow()["at"].to_pylist() == twice


def test_values_inside_of_others_are_in_the_same_zone():
    env, at = memory_env(), datetime(2026, 7, 1, 23, 30)
    table = tahoe.Table(env.store.url, env=env, time_zone="Asia/Tokyo")
    instant, local = pa.timestamp("us", "UTC"), pa.timestamp("us")
    fields = {
        "s": pa.struct([("at", instant), ("local", local)]),
        "l": pa.list_(instant),
        "m": pa.map_(pa.string(), instant),
    }
    table.append(pa.table({"id": [1], **{name: pa.nulls(1, kind) for name, kind in fields.items()}}))
    utc = datetime(2026, 7, 1, 14, 30, tzinfo=UTC)
    table.update({"s": {"at": at, "local": utc}, "l": [at, None], "m": {"a": at}})
    (row,) = table.to_arrow().to_pylist()
    assert row == {"id": 1, "s": {"at": utc, "local": at}, "l": [utc, None], "m": [("a", utc)]}
