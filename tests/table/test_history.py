"""When versions were committed, and time travel by timestamp."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import (
    DeltaConcurrentModificationException,
    InvalidTimeTravelError,
    MissingActionError,
    TimestampOutOfRangeError,
)
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import CommitInfo, Metadata, Protocol, encode_commit
from tahoe.storage.background import finish_background
from tahoe.storage.memory import MemoryStore, Operation
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import load_snapshot
from tahoe.table.versions.history import history, parse_timestamp, version_at, version_before, version_from
from tests.table.builders import METADATA, PROTOCOL, SCHEMA, add, memory_env, put_commit

STAMPED = Protocol(reader_version=1, writer_version=7, writer_features=frozenset({"inCommitTimestamp"}))


def log_with_file_times(*times_ms: int) -> Log:
    times = iter(times_ms)
    env = memory_env()
    store = MemoryStore(env.store.url, clock_ms=lambda: next(times))
    for version in range(len(times_ms)):
        body = [PROTOCOL, METADATA] if version == 0 else [add(f"f{version}")]
        store.put(log_files.commit_key(version), encode_commit(body))
    return Log(env)


def stamped_log(stamps_ms: dict[int, int], versions: int, configuration: dict[str, str]) -> Log:
    """File times are far from the stamps, so that a reader that used them would be found out."""
    env = memory_env(start_ms=5_000)
    metadata = Metadata(
        id="t",
        schema_string=SCHEMA.to_json(),
        configuration={"delta.enableInCommitTimestamps": "true", **configuration},
    )
    for version in range(versions):
        info = CommitInfo(
            {"operation": "WRITE", **({"inCommitTimestamp": stamps_ms[version]} if version in stamps_ms else {})}
        )
        put_commit(env, version, [info, *([STAMPED, metadata] if version == 0 else []), add(f"f{version}")])
    return Log(env)


def test_a_commit_counts_from_its_time_on():
    log = log_with_file_times(1000, 2000, 3000)
    newest = load_snapshot(log)
    assert [version_at(newest, t) for t in (1000, 1999, 2000, 2500, 3000)] == [0, 0, 1, 1, 2]


def test_a_clock_that_went_back_does_not_confuse_the_order():
    log = log_with_file_times(5000, 1000, 1000, 6000)
    times = [c.timestamp_ms for c in history(load_snapshot(log))]
    assert times == [6000, 5002, 5001, 5000]
    assert version_at(load_snapshot(log), 5001) == 1


@pytest.mark.parametrize("timestamp_ms", [999, 3001])
def test_a_time_outside_the_table_s_life_is_refused_with_the_range(timestamp_ms):
    log = log_with_file_times(1000, 2000, 3000)
    with pytest.raises(
        TimestampOutOfRangeError, match=r"version 0 at 1970-01-01 00:00:01.*version 2 at 1970-01-01 00:00:03"
    ):
        version_at(load_snapshot(log), timestamp_ms)


def test_a_history_ends_where_the_log_is_cleaned_meanwhile():
    log = stamped_log({0: 100, 1: 200, 2: 300}, 3, {})
    told = history(load_snapshot(log))
    assert next(told).version == 2
    for version in (0, 1):
        log.env.store.delete(log_files.commit_key(version))
    assert list(told) == []


def test_in_commit_timestamps_go_before_file_times():
    log = stamped_log({0: 100, 1: 200, 2: 300}, 3, {})
    newest = load_snapshot(log)
    assert [version_at(newest, t) for t in (100, 250, 300)] == [0, 1, 2]
    assert load_snapshot(log).timestamp_ms == 300


def test_the_time_of_enablement_tells_in_which_range_to_look():
    """Commits 0 and 1 have file times from 5000 on, 2 and 3 have stamps from 50,000,000 on."""
    enabled = {
        "delta.inCommitTimestampEnablementVersion": "2",
        "delta.inCommitTimestampEnablementTimestamp": "50000000",
    }
    log = stamped_log({2: 50_000_000, 3: 50_000_100}, 4, enabled)
    newest = load_snapshot(log)
    times = [c.timestamp_ms for c in history(newest)][::-1]
    assert times[2:] == [50_000_000, 50_000_100]
    assert version_at(newest, times[0]) == 0
    assert version_at(newest, 49_999_999) == 1
    assert version_at(newest, 50_000_000) == 2


def test_commits_from_before_the_enablement_do_not_count_later_even_if_a_copy_made_their_files_newer():
    """Commits 0 and 1 have file times from 5000 on, 2 and 3 have stamps from 100 on."""
    enabled = {"delta.inCommitTimestampEnablementVersion": "2", "delta.inCommitTimestampEnablementTimestamp": "100"}
    newest = load_snapshot(stamped_log({2: 100, 3: 200}, 4, enabled))
    assert [version_at(newest, t) for t in (100, 150, 200)] == [2, 2, 3]
    assert [version_before(newest, t) for t in (99, 100, 150, 200, 9_000_000)] == [None, 2, 2, 3, 3]
    assert [version_from(newest, t) for t in (99, 100, 101, 200, 201)] == [0, 2, 3, 3, 4]
    for outside in (99, 201):
        with pytest.raises(TimestampOutOfRangeError):
            version_at(newest, outside)


def test_a_missing_in_commit_timestamp_is_an_error_of_the_log():
    log = stamped_log({0: 100}, 2, {})
    with pytest.raises(MissingActionError, match="inCommitTimestamp"):
        version_at(load_snapshot(log), 100)


def test_by_halving_few_commits_are_read():
    log = stamped_log({v: 1000 + v for v in range(200)}, 200, {})
    newest = load_snapshot(log)
    store = log.env.store
    assert isinstance(store, MemoryStore)
    before = store.calls.total()
    assert version_at(newest, 1150) == 150
    assert store.calls.total() - before < 20


def test_history_is_newest_first_and_limited():
    log = stamped_log({v: v for v in range(5)}, 5, {})
    assert [c.version for c in history(load_snapshot(log), limit=2)] == [4, 3]
    assert [c.version for c in history(load_snapshot(log))] == [4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("2026-01-31", 1_769_817_600_000),
        ("2026-01-31 12:00:00", 1_769_860_800_000),
        ("2026-01-31T12:00:00.123Z", 1_769_860_800_123),
        ("2026-01-31 12:00:00+01:00", 1_769_857_200_000),
    ],
)
def test_timestamps_as_users_write_them(text, expected_ms):
    assert parse_timestamp(text, table="t") == expected_ms


def test_a_text_that_is_no_timestamp_is_refused():
    with pytest.raises(InvalidTimeTravelError, match="'yesterday' is not a timestamp"):
        parse_timestamp("yesterday", table="t")


@pytest.mark.parametrize("is_first", [True, False])
def test_of_a_large_commit_only_the_first_line_is_read(is_first: bool):
    """The history of a table reads the names of a million files."""
    env = memory_env()
    log, info = Log(env), CommitInfo({"operation": "WRITE"})
    files = [add(f"{number:0100d}.parquet") for number in range(1000)]
    put_commit(env, 0, [info, PROTOCOL, METADATA, *files] if is_first else [PROTOCOL, METADATA, *files, info])
    store = env.store
    assert isinstance(store, MemoryStore)
    found = log.commit_info(0)
    assert found is not None
    assert found.fields["operation"] == "WRITE"
    assert store.calls[Operation.GET] == (0 if is_first else 1)
    assert log.commit_info(1) is None


def test_a_time_that_no_calendar_has_is_the_last_one() -> None:
    """A clock was wrong, or a writer has put microseconds for milliseconds."""
    table = tahoe.Table("/t", env=memory_env(300_000_000_000_000))
    table.append(pa.table({"id": [1]}), properties={"delta.enableChangeDataFeed": "true"})
    table.append(pa.table({"id": [2]}))
    assert [commit["timestamp"].year for commit in table.history()] == [9999, 9999]
    assert table.changes(start_version=0)["_commit_timestamp"][0].as_py().year == 9999
    assert "9999" in table._repr_html_()
    with pytest.raises(TimestampOutOfRangeError, match="9999"):
        table.snapshot(timestamp="2026-01-01")
    mine = table.transaction()
    mine.delete("id = 1")
    tahoe.Table(table.url, env=table.env).delete("id = 1")
    with pytest.raises(DeltaConcurrentModificationException, match="9999"):
        mine.commit()


def test_time_travel_by_timestamp_reads_no_later_commits_than_it_needs():
    """The whole log was read to find out that the table has no in-commit timestamps."""
    log = log_with_file_times(*range(1000, 1200))
    store = log.env.store
    assert isinstance(store, MemoryStore)
    before = store.calls[Operation.GET]
    assert tahoe.Table(log.url, env=log.env).snapshot(timestamp="1970-01-01 00:00:01.004").version == 4
    assert store.calls[Operation.GET] - before < 10


def test_time_travel_by_timestamp_trusts_in_commit_timestamps_however_the_table_is_asked():
    log = stamped_log({v: 100 * v for v in range(4)}, 4, {})
    assert tahoe.Table(log.url, env=log.env).snapshot(timestamp="1970-01-01 00:00:00.250").version == 2


@pytest.mark.parametrize(
    ("call", "listings"),
    [
        (lambda table, newest: table.snapshot(timestamp=newest), 1),
        (lambda table, _: table.inspect.sizes(), 2),  # for the newest version, and for the versions that can be read
        (lambda table, _: table.vacuum(dry_run=True), 2),  # for the first version, and for what the retention protects
    ],
    ids=["time travel", "sizes", "vacuum"],
)
def test_a_call_does_not_list_the_log_again_and_again(
    call: Callable[[tahoe.Table, datetime], object], listings: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 50,000 versions, a listing takes half a second: it was a half of time travel, and a third of a dry run of
    VACUUM.
    """
    for number in range(3):
        tahoe.Table(tmp_path).append(pa.table({"id": [number]}))
    finish_background()
    newest = tahoe.Table(tmp_path).history(limit=1)[0]["timestamp"]
    whole, real = [], Log.list_files
    monkeypatch.setattr(
        Log, "list_files", lambda log, start=0: (whole.append(log) if not start else None, real(log, start))[1]
    )
    call(tahoe.Table(tmp_path), newest)
    assert len(whole) == listings
