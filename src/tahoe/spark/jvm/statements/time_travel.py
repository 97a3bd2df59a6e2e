"""Parses time travel: the version, tag or timestamp in a reader's options, in a path's suffix, or from a catalog.

The suffixes are the reference's, `path@v3` and `path@20260131120000000`, and `path@tag`. If there is a table in a
folder of that name, it is meant. No write makes such a table beside the one whose version the path names. A timestamp
without a zone is in the session's time zone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeAlias

from tahoe.errors import InvalidTimeTravelError
from tahoe.protocol.log.tags import NAME, version_or_tag
from tahoe.protocol.types.time_zones import zone_asked_for
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.table import Table

VERSION_OPTION = "versionAsOf"
TIMESTAMP_OPTION = "timestampAsOf"

_SUFFIX = re.compile(r"(?P<path>.+)@(?:[vV](?P<version>\d+)|(?P<moment>\d{17}))")
_TAGGED = re.compile(rf"(?P<path>(?:.*/)?[^/@]+)@(?P<tag>{NAME})")
_AUTHORITY = re.compile(r"[^:/]+://[^/]*")  # abfss://container@account is no path with a tag
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


MomentOf: TypeAlias = Callable[[str, str], datetime]
"""Parses a timestamp (first argument) for the table at a path (second argument). Raises InvalidTimeTravelError."""


HasTable: TypeAlias = Callable[[str], bool]
"""Whether there is a table at a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeTravelTarget:
    """A table's location, and the requested version (or its tag) or timestamp. If both are None, the newest version is
    requested.
    """

    location: str
    version: int | str | None = None
    timestamp: datetime | None = None

    @property
    def is_pinned(self) -> bool:
        return self.version is not None or self.timestamp is not None

    def snapshot(self, table: Table) -> Snapshot:
        return table.snapshot(self.version, self.timestamp)


def target_of_options(
    moment_of: MomentOf, has_table: HasTable, path: str, options: Mapping[str, str]
) -> TimeTravelTarget:
    """The target of a reader's path and options.

    Raises:
        InvalidTimeTravelError: more than one version or timestamp is given, or one is invalid.
    """
    by_name = {name.lower(): value for name, value in options.items()}
    version, timestamp = by_name.get(VERSION_OPTION.lower()), by_name.get(TIMESTAMP_OPTION.lower())
    version_options = [
        f"{name} {value}"
        for name, value in ((VERSION_OPTION, version), (TIMESTAMP_OPTION, timestamp))
        if value is not None
    ]
    target = target_of_path(moment_of, has_table, path)
    if len(version_options) + target.is_pinned > 1:
        conflict = " and ".join([*version_options, *([path_ending(path)] if target.is_pinned else [])])
        raise InvalidTimeTravelError(table=target.location, detail=f"{conflict} cannot be combined")
    if version is not None:
        return TimeTravelTarget(location=path, version=version_or_tag(version, table=path))
    if timestamp is not None:
        return TimeTravelTarget(location=path, timestamp=moment_of(timestamp, path))
    return target


def path_ending(path: str) -> str:
    """How an error calls a path that names a version: the table itself is named beside it."""
    return f"the ending @{path.rpartition('@')[2]} of the path"


def target_of_path(moment_of: MomentOf, has_table: HasTable, path: str) -> TimeTravelTarget:
    """The target of a path, which may end with a suffix: a version, a timestamp or a tag."""
    suffix = _suffix_match(has_table, path)
    if suffix is None:
        return TimeTravelTarget(location=path)
    if suffix.re is _TAGGED:
        return TimeTravelTarget(location=suffix["path"], version=suffix["tag"])
    if suffix["version"] is not None:
        return TimeTravelTarget(location=suffix["path"], version=int(suffix["version"]))
    digits = suffix["moment"]
    text = f"{digits[:4]}-{digits[4:6]}-{digits[6:8]} {digits[8:10]}:{digits[10:12]}:{digits[12:14]}.{digits[14:]}"
    return TimeTravelTarget(location=suffix["path"], timestamp=moment_of(text, path))


def _suffix_match(has_table: HasTable, path: str) -> re.Match[str] | None:
    """The parts of a path that names a version of a table. A name like that of a tag is one only behind the path of a
    table.
    """
    suffix = _SUFFIX.fullmatch(path) or _TAGGED.fullmatch(path)
    if suffix is None or _AUTHORITY.fullmatch(suffix["path"]) or has_table(path):
        return None
    return suffix if suffix.re is _SUFFIX or has_table(suffix["path"]) else None


def check_names_no_version(has_table: HasTable, path: str) -> None:
    """Refuse the path of a table that is to be written, made or looked into as a whole if it names a version of another
    table.

    Raises:
        InvalidTimeTravelError
    """
    suffix = _suffix_match(has_table, path)
    if suffix is not None and has_table(suffix["path"]):
        raise _only_the_newest(suffix["path"], path)


def target_of_catalog(moment_of: MomentOf, has_table: HasTable, path: str, at: str) -> TimeTravelTarget:
    """The target of a catalog lookup.

    Args:
        at: `version 3` or `version 2026-q3`, `timestamp 1700000000000000` (microseconds), `newest` for a table that is
            written, or empty.

    Raises:
        InvalidTimeTravelError: two versions are asked for, or one is written.
    """
    target = target_of_path(moment_of, has_table, path)
    kind, _, value = at.partition(" ")
    if kind == "newest" and target.is_pinned:
        raise _only_the_newest(target.location, path)
    if not kind or kind == "newest":
        return target
    if target.is_pinned:
        raise InvalidTimeTravelError(
            table=target.location, detail=f"{path_ending(path)} and {kind} {value} cannot be combined"
        )
    if kind == "version":
        return TimeTravelTarget(location=path, version=version_or_tag(value, table=path))
    return TimeTravelTarget(location=path, timestamp=moment_of_micros(int(value), value, path))


def check_newest(gateway: Gateway, target: JavaObject) -> None:
    """Refuse to change a version of a table.

    Args:
        target: a `delta.DefinedTable`.

    Raises:
        InvalidTimeTravelError: the statement names a version, as in delta.`path@v3`.
    """
    if VERSION_OPTION in gateway.dict(target.v1Table().storage().properties()):
        raise _only_the_newest(target.url(), target.v1Table().identifier().table())


def _only_the_newest(url: str, path: str) -> InvalidTimeTravelError:
    return InvalidTimeTravelError(
        table=url, detail=f"{path_ending(path)} names a version, where only the table itself can be named"
    )


def session_moment(gateway: Gateway) -> MomentOf:
    """A parser for timestamps as Spark parses them; without a zone they are in `spark.sql.session.timeZone`."""
    return partial(_session_timestamp, gateway)


def _session_timestamp(gateway: Gateway, text: str, path: str) -> datetime:
    times = gateway.module("org.apache.spark.sql.catalyst.util.DateTimeUtils")
    zone = times.getZoneId(gateway.spark.conf.get("spark.sql.session.timeZone"))
    micros = times.stringToTimestamp(
        gateway.java_class("org.apache.spark.unsafe.types.UTF8String").fromString(text), zone
    )
    if micros.isEmpty():
        raise InvalidTimeTravelError(table=path, detail=f"{text!r} is not a timestamp")
    return moment_of_micros(micros.get(), text, path)


def moment_of_micros(micros: int, text: str, path: str) -> datetime:
    """The time so many microseconds after the epoch; errors call it by its text. Raises InvalidTimeTravelError: no
    datetime can be it.
    """
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError as error:
        raise InvalidTimeTravelError(table=path, detail=f"{text!r} is not between the years 1 and 9999") from error


def iso_moment(zone: str) -> MomentOf:
    """A parser for ISO 8601 timestamps; without a zone they are in the given zone."""
    return partial(_iso_timestamp, zone)


def _iso_timestamp(zone: str, text: str, path: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidTimeTravelError(table=path, detail=f"{text!r} is not a timestamp") from error
    if moment.tzinfo is not None:
        return moment
    return moment.replace(tzinfo=zone_asked_for("spark.sql.session.timeZone", zone, table=path))
