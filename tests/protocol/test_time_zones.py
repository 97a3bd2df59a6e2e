"""Time zones have the meaning that Spark gives to their names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.errors import InvalidOptionError
from tahoe.protocol.types.partitions import parse_timestamp
from tahoe.protocol.types.time_zones import SHORT_IDS, zone_asked_for, zone_of


def offset(name: str, year: int, month: int) -> timedelta | None:
    return zone_of(name).utcoffset(datetime(year, month, 1, 12))


def test_a_short_name_of_javas_has_its_summer_time() -> None:
    assert [offset("PST", 2026, month) for month in (1, 7)] == [timedelta(hours=-8), timedelta(hours=-7)]
    assert [offset("CST", 2026, month) for month in (1, 7)] == [timedelta(hours=-6), timedelta(hours=-5)]


def test_a_short_name_that_is_an_offset_never_had_one() -> None:
    assert [offset("MST", year, 7) for year in (1918, 1967, 2026)] == [timedelta(hours=-7)] * 3


@pytest.mark.parametrize("name", ["Z", "UTC", "GMT", "UT", "+00:00", "GMT+0", "+0"])
def test_names_of_universal_time(name: str) -> None:
    assert zone_of(name).utcoffset(None) == timedelta()


@pytest.mark.parametrize("name", ["+7:30", "+07:30", "+0730", "UTC+7:30", "GMT+07:30", "UT+07:30:00", "+073000"])
def test_spellings_of_an_offset(name: str) -> None:
    assert zone_of(name).utcoffset(None) == timedelta(hours=7, minutes=30)


def test_the_minutes_of_an_offset_may_have_one_digit() -> None:
    assert zone_of("-08:5").utcoffset(None) == -timedelta(hours=8, minutes=5)


@pytest.mark.parametrize(
    "name", ["", "Nowhere", "America", "../etc/localtime", "+19", "+18:01", "+07:60", "+730", "GMT+", "pst"]
)
def test_what_java_has_no_zone_for_is_none_here(name: str) -> None:
    with pytest.raises(ValueError, match="time zone"):
        zone_of(name)


def test_a_zone_that_is_none_is_told_with_the_setting_that_names_it() -> None:
    with pytest.raises(InvalidOptionError, match=r"the\.zone cannot be Nowhere for t"):
        zone_asked_for("the.zone", "Nowhere", table="t")


def test_a_zone_in_the_text_of_a_value_is_read_alike() -> None:
    assert parse_timestamp("2026-07-01 00:00:00 PST", UTC) == datetime(2026, 7, 1, 7, tzinfo=UTC)


@given(st.sampled_from(sorted(SHORT_IDS)), st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)))
def test_the_text_of_a_zone_names_the_same_zone(name: str, moment: datetime) -> None:
    """It is how a zone gets to another process."""
    zone = zone_of(name)
    assert zone_of(str(zone)).utcoffset(moment) == zone.utcoffset(moment)


@given(st.integers(-18 * 3600, 18 * 3600))
def test_the_text_of_an_offset_names_the_same_offset(seconds: int) -> None:
    zone = timezone(timedelta(seconds=seconds))
    assert zone_of(str(zone)).utcoffset(None) == zone.utcoffset(None)
