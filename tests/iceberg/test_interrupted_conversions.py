"""A converter that dies at any storage call, or meets another one there, leaves metadata that the next one completes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

import tahoe
from tahoe.iceberg import conversion
from tahoe.iceberg.conversion import convert
from tahoe.iceberg.metadata_folder import MetadataFolder
from tahoe.iceberg.verification import verify
from tests.iceberg.tables import MARKED_V3, UNIFORM, many
from tests.table.between import interrupted
from tests.table.builders import memory_env

_DAY_MS = 86_400_000

# More calls than a conversion makes.
CALLS = 60


class Killed(BaseException):
    """What ends a converter; nothing may catch it."""


@pytest.fixture(params=[UNIFORM, MARKED_V3], ids=["v2", "marked"])
def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tahoe.Table:
    """A table with old snapshots that expire, of which two versions are not converted."""
    monkeypatch.setattr(conversion, "after_commit", lambda _: None)
    made = tahoe.Table("memory://given", env=memory_env())
    made.append(many(1000), properties=request.param)
    made.delete("id = 1001")
    for number in range(11):
        made.append(many(number * 10, 10))
        convert(made.snapshot())
    made.append(many(2000))
    made.delete("id = 3 or id = 1002 or id = 2002")
    return made


def later(table: tahoe.Table) -> tahoe.Table:
    """The table when the older snapshots are past the retention."""
    now_ms = table.env.clock_ms()
    return tahoe.Table(table.url, env=replace(table.env, clock_ms=lambda: now_ms + 40 * _DAY_MS))


def complete(table: tahoe.Table) -> None:
    convert(table.snapshot())
    found = verify(table.snapshot())
    assert found.differences == ()
    assert found.version == table.version
    assert found.rows == table.to_arrow().num_rows
    table.append(many(70))
    convert(table.snapshot())
    assert verify(table.snapshot()).differences == ()


def die() -> None:
    raise Killed


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("calls", range(1, CALLS, 2))
def test_what_a_killed_converter_left_is_completed(table: tahoe.Table, calls: int, after: bool) -> None:
    mine = later(table)
    with suppress(Killed):
        convert(tahoe.Table(table.url, env=interrupted(mine.env, calls, die, after=after)).snapshot())
    complete(mine)


@pytest.mark.parametrize("calls", range(1, CALLS, 2))
def test_another_converter_at_any_moment_does_no_harm(table: tahoe.Table, calls: int) -> None:
    mine, done = later(table), []

    def other() -> None:
        theirs = later(table)
        theirs.append(many(50))
        done.append(convert(theirs.snapshot()))

    convert(tahoe.Table(table.url, env=interrupted(mine.env, calls, other)).snapshot())
    complete(mine)


def metadata_files(table: tahoe.Table) -> set[str]:
    return {info.key for info in table.env.store.list_from("metadata")}


def vacuumed(table: tahoe.Table, hours: float, **request: object) -> set[str]:
    """What a VACUUM deletes after so many hours."""
    now_ms = table.env.clock_ms()
    later = tahoe.Table(table.url, env=replace(table.env, clock_ms=lambda: now_ms + int(hours * 3_600_000)))
    return set(later.vacuum(retention_hours=0, retention_check=False, **request).files)


def test_vacuum_deletes_what_killed_converters_left(table: tahoe.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    complete(table)
    before = metadata_files(table)
    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(MetadataFolder, "put_metadata", lambda *_, **__: die())
        table.delete("id = 2001")
        convert(table.snapshot())
    left = metadata_files(table) - before
    assert len(left) >= 2
    convert(table.snapshot())
    kept = metadata_files(table) - left
    vacuumed(table, 23)
    assert metadata_files(table) == kept | left  # a converter at work may need them
    assert left <= vacuumed(table, 25, dry_run=True)
    assert left <= vacuumed(table, 25)
    assert metadata_files(table) == kept
    complete(table)


def test_vacuum_keeps_them_if_it_is_unknown_what_is_needed(table: tahoe.Table) -> None:
    complete(table)
    (first, *_) = [key for key in sorted(metadata_files(table)) if "-snap-" in key]
    table.env.store.delete(first)
    before = metadata_files(table)
    vacuumed(table, 25)
    assert metadata_files(table) == before


def test_a_conversion_makes_fewer_calls_than_are_tried(table: tahoe.Table) -> None:
    seen: list[int] = []
    mine = later(table)
    convert(tahoe.Table(table.url, env=interrupted(mine.env, CALLS, lambda: seen.append(1))).snapshot())
    assert seen == []
