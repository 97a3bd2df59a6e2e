"""The rows that a table has when a stream begins, in the order of their event time: no watermark passes a row that is
still to be read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tahoe.errors import StreamOrderChangedError
from tahoe.protocol.streams.stream_offset import StreamOffset, parse_offset
from tahoe.protocol.types.predicate import evaluate
from tahoe.protocol.types.schema import TIMESTAMP, Field, Struct
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import load_snapshot
from tahoe.table.streams.event_time import EventTimes
from tahoe.table.streams.feed_stream import FeedStream
from tahoe.table.streams.stream import AdmissionLimit, Stream, StreamStart, TableStream
from tests.table.builders import METADATA, PROTOCOL, add, memory_env, put_commit

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE_US = 60_000_000
FEED = {"delta.enableChangeDataFeed": "true"}


@dataclass(frozen=True)
class File:
    """The minutes of a file's rows, None for a row without a time. `wider` is added to both bounds; None if there are
    no statistics.
    """

    minutes: tuple[int | None, ...]
    wider: int | None = 0

    def stats(self) -> str | None:
        known = [minute for minute in self.minutes if minute is not None]
        if self.wider is None:
            return None
        found: dict[str, object] = {"numRecords": len(self.minutes), "nullCount": {"t": len(self.minutes) - len(known)}}
        if known:
            bounds = min(known) - self.wider, max(known) + self.wider
            found |= {key: {"t": _text(minute)} for key, minute in zip(("minValues", "maxValues"), bounds, strict=True)}
        return json.dumps(found)


def _text(minute: int) -> str:
    return (EPOCH + timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def log_of(files: Sequence[File], *, is_partitioned: bool = False) -> Log:
    """A table with these files in version 0. A partitioned one has one row in each file."""
    env = memory_env()
    schema = Struct((Field(name="t", type=TIMESTAMP),))
    metadata = METADATA.replace(
        schema_string=schema.to_json(), partition_columns=("t",) if is_partitioned else (), configuration=FEED
    )
    adds = []
    for number, file in enumerate(files):
        values = {"t": None if file.minutes[0] is None else _text(file.minutes[0])} if is_partitioned else {}
        stats = None if is_partitioned else file.stats()
        adds.append(
            add(f"f{number:03}", size_bytes=100, modification_time_ms=-number, stats=stats, partition_values=values)
        )
    put_commit(env, 0, [PROTOCOL.replace(writer_version=4), metadata, *adds])
    return Log(env)


def stream_of(log: Log, kind: type[Stream] = TableStream, column: tuple[str, ...] | None = ("t",)) -> Stream:  # type: ignore[type-arg]
    return kind(load_snapshot(log), StreamStart(event_time=column))  # type: ignore[call-arg]


def ends(stream: Stream, limit: AdmissionLimit) -> list[StreamOffset]:  # type: ignore[type-arg]
    """The offsets between the batches, as a checkpoint keeps them, up to the end of the initial snapshot."""
    found = [StreamOffset(table_id="test", version=0, is_initial=True)]
    while found[-1].is_initial:
        end = stream.first_end(replace(limit)) if len(found) == 1 else stream.next_end(found[-1], replace(limit))
        assert end is not None
        assert end != found[-1]
        assert len(found) < 2000
        found.append(parse_offset(end.to_json(), "test", table="t"))
    assert found[-1] == StreamOffset(table_id="test", version=1)
    return found


def rows_of(stream: Stream, files: Sequence[File], start: StreamOffset | None, end: StreamOffset) -> list[int | None]:  # type: ignore[type-arg]
    """The minutes of a batch's rows."""
    found: list[int | None] = []
    for portion in stream.portions(start, end):
        paths = portion.snapshot.live.column("path").to_pylist()
        chosen = paths if portion.numbers is None else [paths[number] for number in portion.numbers]
        condition = None if portion.rows is None else portion.rows.predicate()
        for minute in (minute for path in chosen for minute in files[int(path[1:])].minutes):
            row = {"t": None if minute is None else EPOCH + timedelta(minutes=minute)}
            if condition is None or evaluate(condition, row) is True:
                found.append(minute)
    return found


MINUTES = st.none() | st.integers(-50, 50)
FILES = st.lists(
    st.builds(File, st.lists(MINUTES, min_size=1, max_size=6).map(tuple), st.none() | st.integers(0, 5)), max_size=8
)
LIMITS = st.builds(AdmissionLimit, st.none() | st.integers(1, 4), st.none() | st.integers(1, 400))


@given(FILES, LIMITS, st.sampled_from([TableStream, FeedStream]))
@example([File((0, 0)), File((0,)), File((None,)), File((0, 7))], AdmissionLimit(1), TableStream)
def test_no_row_is_late_and_each_is_read_once(files: list[File], limit: AdmissionLimit, kind: type[Stream]) -> None:  # type: ignore[type-arg]
    """Spark drops the rows of a batch that are not later than the latest row of the batches before, less the delay,
    which may be 0.
    """
    log = log_of(files)
    stream = stream_of(log, kind)
    read: list[int | None] = []
    latest = -(1 << 60)
    for number, (start, end) in enumerate(pairwise(ends(stream, limit))):
        rows = rows_of(stream, files, start, end)
        assert sorted(map(str, rows)) == sorted(
            map(str, rows_of(stream_of(log, kind), files, start if number else None, end))
        )
        assert all(minute > latest for minute in rows if minute is not None)
        latest = max([latest, *(minute for minute in rows if minute is not None)])
        read += rows
    assert sorted(map(str, read)) == sorted(str(minute) for file in files for minute in file.minutes)


@given(st.lists(st.lists(st.integers(0, 3000), min_size=2, max_size=2), min_size=1, max_size=12), st.integers(1, 4))
def test_batches_are_bounded(bounds: list[list[int]], files: int) -> None:
    """Of files whose rows are evenly spread over their times, each batch has as many as it may, and little more."""
    log = log_of([File(tuple(sorted(both))) for both in bounds])
    limit, total = AdmissionLimit(files), float(len(bounds))
    widths = [(min(both), max(both)) for both in bounds]

    def read_before(minute: float) -> float:
        return sum(
            0.0 if minute <= low else 1.0 if minute > high else (minute - low) / (high - low) for low, high in widths
        )

    taken = [0.0]
    for offset in ends(stream_of(log), limit)[1:]:
        taken.append(total if offset.event_time is None else read_before(offset.event_time.before_us / MINUTE_US))
    at_one_time = max(sum(low == high == other for low, high in widths) for other, _ in widths)
    assert all(after - before <= max(files, at_one_time) + 0.02 * total for before, after in pairwise(taken))
    assert len(taken) <= 3 + 2 * total / files


def test_files_that_follow_each_other_are_taken_as_they_are() -> None:
    files = [File((10 * number, 10 * number + 9)) for number in (3, 1, 0, 2)]
    log = log_of(files)
    offsets = ends(stream_of(log), AdmissionLimit(files=1))
    assert [rows_of(stream_of(log), files, *both) for both in pairwise(offsets)] == [
        [0, 9],
        [10, 19],
        [20, 29],
        [30, 39],
    ]
    pairs = pairwise(ends(stream_of(log), AdmissionLimit(bytes=200)))
    assert [sorted(rows_of(stream_of(log), files, *both), key=lambda minute: minute or 0) for both in pairs] == [
        [0, 9, 10, 19],
        [20, 29, 30, 39],
    ]
    assert len(ends(stream_of(log), AdmissionLimit())) == 2


def test_the_event_time_may_be_a_partition() -> None:
    files = [File((minute,)) for minute in (5, None, 1, 3)]
    log = log_of(files, is_partitioned=True)
    offsets = ends(stream_of(log), AdmissionLimit(files=1))
    assert [rows_of(stream_of(log), files, *both) for both in pairwise(offsets)] == [[None, 1], [3], [5]]


def test_files_without_statistics_are_read_in_one_batch() -> None:
    files = [File((5,), None), File((1, None), None)]
    assert len(ends(stream_of(log_of(files)), AdmissionLimit(files=1))) == 2


def test_progress_tells_what_is_left() -> None:
    stream = stream_of(log_of([File((10 * number, 10 * number + 9)) for number in range(4)]))
    offsets = ends(stream, AdmissionLimit(files=1))
    assert [stream.outstanding(offset) for offset in offsets] == [(4, 400), (3, 300), (2, 200), (1, 100), (0, 0)]


def test_files_beyond_the_limit_of_points_are_ordered_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tahoe.table.streams.event_time._POINTS_MAX", 3)
    times = EventTimes(load_snapshot(log_of([File((number, number + 1)) for number in range(5)])), ("t",))
    assert times.end(None, 2, None) == 2 * MINUTE_US
    assert times.left(4 * MINUTE_US) == (1, 100)


@pytest.mark.parametrize(("begun", "asked"), [(("t",), None), (None, ("t",))])
def test_the_order_stays_until_the_rows_are_read(begun: tuple[str, ...] | None, asked: tuple[str, ...] | None) -> None:
    """Otherwise rows would be lost, or read twice. Afterwards the offset is one of the reference, and the option has no
    effect.
    """
    log = log_of([File((10 * number, 10 * number + 9)) for number in range(4)])
    first = stream_of(log, column=begun).first_end(AdmissionLimit(files=2))
    assert first is not None
    with pytest.raises(StreamOrderChangedError, match=r"version 0.*times in t|times in t.*of their files"):
        stream_of(log, column=asked).next_end(first, AdmissionLimit())
    with pytest.raises(StreamOrderChangedError):
        stream_of(log, column=asked).portions(None, first)
    end = StreamOffset(table_id="test", version=1)
    put_commit(log.env, 1, [add("later")])
    assert stream_of(log, column=asked).next_end(end, AdmissionLimit()) == StreamOffset(table_id="test", version=2)


def test_a_stream_that_ends_at_what_is_there_reads_later_commits_too() -> None:
    """The initial snapshot may be an old version when the query is started again."""
    log = log_of([File((10 * number, 10 * number + 9)) for number in range(4)])
    first = stream_of(log).first_end(AdmissionLimit(files=2))
    assert first is not None
    put_commit(log.env, 1, [add("later")])
    for kind in (TableStream, FeedStream):
        last = stream_of(log, kind).next_end(first, AdmissionLimit())
        assert last == StreamOffset(table_id="test", version=2)
        portions = stream_of(log, kind).portions(first, last)
        assert [portion.rows is not None for portion in portions] == [True, False]
