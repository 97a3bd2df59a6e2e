"""Time zones by the names that Spark takes for them: Java's, which are more than those of the time zone database.

Protocol: "Partition Value Serialization" (timestamps that were written without a zone). Knows the time zone database of Python, and nothing
of a session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tahoe.errors import InvalidOptionError

# Java's ZoneId.SHORT_IDS. The first three have no summer time; a zone of the database by that name may have had one once.
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

# +h, +hh, +hhmm, +hhmmss, +hh:mm and +hh:mm:ss are Java's; in those with colons Spark takes hours and minutes of one digit, too.
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(?:(\d\d)(\d\d)(\d\d)?|(\d{1,2})(?::(\d{1,2})(?::(\d\d))?)?)")

# Java knows no offset beyond it.
_OFFSET_MAX = timedelta(hours=18)


def zone_of(name: str) -> tzinfo:
    """The time zone that Spark understands by a name: America/Los_Angeles, PST, GMT+8, +05:30, Z, ...

    The name that `str` gives of the result is one of the same zone.

    Raises:
        ValueError: there is none of that name, or Python's time zone database does not have it.
    """
    name = SHORT_IDS.get(name, name)
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    if found := _OFFSET.fullmatch(name):
        return timezone(_offset(*found.groups()))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError) as error:
        raise ValueError(f"{name} is no time zone") from error


def _offset(sign: str, *parts: str | None) -> timedelta:
    numbers = [int(part) for part in parts if part is not None]
    hours, minutes, seconds = (*numbers, 0, 0)[:3]
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if minutes > 59 or seconds > 59 or offset > _OFFSET_MAX:
        raise ValueError(f"{sign}{offset} is no offset of a time zone")
    return offset if sign == "+" else -offset


def zone_asked_for(option: str, name: str, *, table: str) -> tzinfo:
    """The time zone that an option or a setting names.

    Raises:
        InvalidOptionError: there is none.
    """
    try:
        return zone_of(name)
    except ValueError as error:
        detail = "there is no such time zone in Python's time zone database"
        raise InvalidOptionError(option=option, value=name, table=table, detail=detail) from error
