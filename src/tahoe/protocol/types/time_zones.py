"""Time zones by the names that Spark accepts: Java's names, which include more than the IANA time zone database.

Protocol: "Partition Value Serialization" (timestamps without a time zone). Uses Python's time zone database, and no
session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tahoe.errors import InvalidOptionError

# Java's ZoneId.SHORT_IDS. The first three have no daylight saving time, although zones of those names in the IANA
# database may.
SHORT_IDS: Mapping[str, str] = {
    "EST": "-05:00",
    "HST": "-10:00",
    "MST": "-07:00",
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}

# Java accepts +h, +hh, +hhmm, +hhmmss, +hh:mm and +hh:mm:ss; with colons, Spark also accepts single-digit hours and
# minutes.
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(?:(\d\d)(\d\d)(\d\d)?|(\d{1,2})(?::(\d{1,2})(?::(\d\d))?)?)")

# Java's largest offset.
_OFFSET_MAX = timedelta(hours=18)


def zone_of(name: str) -> tzinfo:
    """The time zone of that name in Spark: America/Los_Angeles, PST, GMT+8, +05:30, Z, ...

    `str` of the result is a name of the same zone.

    Raises:
        ValueError: there is no such zone, or Python's time zone database does not contain it.
    """
    name = SHORT_IDS.get(name, name)
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    if found := _OFFSET.fullmatch(name):
        return timezone(_offset(*found.groups()))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError) as error:
        raise ValueError(f"{name} is not a time zone") from error


def _offset(sign: str, *parts: str | None) -> timedelta:
    numbers = [int(part) for part in parts if part is not None]
    hours, minutes, seconds = (*numbers, 0, 0)[:3]
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if minutes > 59 or seconds > 59 or offset > _OFFSET_MAX:
        raise ValueError(f"{sign}{offset} is not a valid time zone offset")
    return offset if sign == "+" else -offset


def zone_asked_for(option: str, name: str, *, table: str) -> tzinfo:
    """The time zone that an option or a setting specifies.

    Raises:
        InvalidOptionError: there is no such zone.
    """
    try:
        return zone_of(name)
    except ValueError as error:
        detail = "Python's time zone database has no such time zone"
        raise InvalidOptionError(option=option, value=name, table=table, detail=detail) from error
