"""Parses the options of a streaming reader into a record. Names and defaults are the reference's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tahoe.errors import (
    InvalidOptionError,
    StreamOptionsConflictError,
    StreamTimeTravelError,
    UnsupportedOperationError,
)
from tahoe.protocol.configuration.properties import parse_size
from tahoe.protocol.streams.stream_schema import ACKNOWLEDGING, ALWAYS
from tahoe.spark.configuration.flags import parse_flag
from tahoe.spark.configuration.option_names import OptionContext, warn_of_unknown
from tahoe.spark.reading.change_feed import (
    COMPUTED_OPTION,
    START_TIMESTAMP,
    START_VERSION,
    feed_kind,
    is_asked_for,
)
from tahoe.table.streams.stream_commits import ChangeTolerance

Value = TypeVar("Value")

LATEST = "latest"

EVENT_TIME_ORDER = "withEventTimeOrder"

# Without any limit, a batch has so many files.
FILES_DEFAULT = 1000

_ACKNOWLEDGED = "it must be always, or the version of a change"
_TIME_TRAVEL = ("versionAsOf", "timestampAsOf")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of a streaming reader.

    Attributes:
        feed: whether the change data feed is read, instead of rows.
        start: the first version, or `latest` for the version after the newest, or None.
        start_timestamp: as the user gave it.
        max_files, max_bytes: limits of a batch; None if there are none.
        exclude: files whose paths match are not read.
        schema_location: where the stream tracks its schema; None if it does not.
        tracking_id: distinguishes streams of one table in one query.
        event_time_order: whether a watermark decides in which order the rows of the initial snapshot are read; None to
            ask the session.
        acknowledged: which changes of a tracked schema the user accepts: options of `protocol.streams.stream_schema`
            and their values.
    """

    feed: bool = False
    start: int | str | None = None
    start_timestamp: str | None = None
    max_files: int | None = FILES_DEFAULT
    max_bytes: int | None = None
    exclude: re.Pattern[str] | None = None
    tolerance: ChangeTolerance = field(default_factory=ChangeTolerance)
    schema_location: str | None = None
    tracking_id: str | None = None
    event_time_order: bool | None = None
    acknowledged: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def has_start(self) -> bool:
        """Whether the user gave a first version or time."""
        return self.start is not None or self.start_timestamp is not None


def parse_source_options(options: Mapping[str, str], *, table: str) -> SourceOptions:
    """
    Args:
        options: as the user gave them; names are case-insensitive.

    Raises:
        InvalidOptionError: an option has an invalid value.
        StreamOptionsConflictError: two starts are given.
        StreamTimeTravelError: the options ask for a version.
        UnsupportedOperationError: they ask for changes that are computed.
    """
    by_name = _Options({name.lower(): value for name, value in options.items()}, table)
    feed = is_asked_for(by_name.values, table)
    warn_of_unknown(options, OptionContext.READ_STREAM_OF_FEED if feed else OptionContext.READ_STREAM, table=table)
    if any(by_name.text(name) is not None for name in _TIME_TRAVEL):
        raise StreamTimeTravelError(table=table)
    if feed_kind(by_name.text(COMPUTED_OPTION) or "false", table) != "recorded":
        detail = "a batch may end within a commit, and then lacks one side of its updates"
        remedy = "Enable the change data feed, or read ranges of versions as batches."
        raise UnsupportedOperationError(
            operation=f"readStream with {COMPUTED_OPTION}", table=table, detail=detail, remedy=remedy
        )
    version, timestamp = by_name.text(START_VERSION), by_name.text(START_TIMESTAMP)
    if version is not None and timestamp is not None:
        raise StreamOptionsConflictError(table=table, version=version, timestamp=timestamp)
    files = by_name.value("maxFilesPerTrigger", _positive, "it must be a positive integer")
    size = by_name.value("maxBytesPerTrigger", parse_size, "it must be a size configuration such as '10g'")
    return SourceOptions(
        feed=feed,
        start=by_name.value(START_VERSION, _version, "it must be greater than or equal to zero, or latest"),
        start_timestamp=timestamp,
        max_files=FILES_DEFAULT if files is None and size is None else files,
        max_bytes=size,
        exclude=by_name.value("excludeRegex", re.compile, "it must be a regular expression"),
        tolerance=ChangeTolerance(
            ignores_deletes=by_name.flag("ignoreDeletes"),
            ignores_changes=by_name.flag("ignoreChanges") or by_name.flag("ignoreFileDeletion"),
            skips_changes=by_name.flag("skipChangeCommits"),
            loses_data=not by_name.flag("failOnDataLoss", default=True),
        ),
        schema_location=_schema_location(by_name),
        tracking_id=by_name.text("streamingSourceTrackingId"),
        event_time_order=by_name.flag(EVENT_TIME_ORDER) if by_name.text(EVENT_TIME_ORDER) is not None else None,
        acknowledged={
            name: value for name in ACKNOWLEDGING if (value := by_name.value(name, _acknowledgement, _ACKNOWLEDGED))
        },
    )


def _schema_location(options: _Options) -> str | None:
    """Where the stream tracks its schema; None if it does not. The option has two names."""
    names = "schemaTrackingLocation", "schemaLocation"
    locations = [text for name in names if (text := options.text(name)) is not None]
    if len(set(locations)) > 1:
        raise InvalidOptionError(
            option=names[1], value=locations[1], table=options.table, detail=f"{names[0]} is {locations[0]}"
        )
    location = next(iter(locations), None)
    if location is not None and not options.flag("failOnDataLoss", default=True):
        detail = (
            "a stream with a schemaTrackingLocation cannot skip missing commits, because they may have changed the "
            "schema"
        )
        raise InvalidOptionError(
            option="failOnDataLoss", value=options.text("failOnDataLoss"), table=options.table, detail=detail
        )
    return location


@dataclass(frozen=True, slots=True)
class _Options:
    """Options by lower-case name."""

    values: Mapping[str, str]
    table: str

    def text(self, name: str) -> str | None:
        return self.values.get(name.lower())

    def value(self, name: str, parse: Callable[[str], Value], detail: str) -> Value | None:
        text = self.text(name)
        try:
            return None if text is None else parse(text.strip())
        except (ValueError, re.error):
            raise InvalidOptionError(option=name, value=text, table=self.table, detail=detail) from None

    def flag(self, name: str, *, default: bool = False) -> bool:
        text = self.text(name)
        return default if text is None else parse_flag(text, name, table=self.table)


def _acknowledgement(text: str) -> str:
    if text.lower() != ALWAYS and not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return text.lower()


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) == 0:
        raise ValueError(text)
    return min(int(text), (1 << 31) - 1)


def _version(text: str) -> int | str:
    if text.lower() == LATEST:
        return LATEST
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)
