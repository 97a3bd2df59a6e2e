"""CHANGES: `SELECT * FROM t CHANGES FROM VERSION 1 TO VERSION 3`, and `spark.read.changes("t")`, since Spark 4.2.

Spark parses both into a `RelationChanges`: a name, a range and what the rows should say. It is replaced with a read of
the change data feed before Spark looks for the catalog's changelog, so columns and conditions reach the feed's files,
and a stream is the feed's stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe.errors import InvalidChangeRangeError, InvalidOptionError, UnsupportedOperationError
from tahoe.protocol.configuration.change_feed import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION
from tahoe.protocol.types.names import quoted
from tahoe.spark.ddl.catalog import location_of, name_parts, name_within, names_delta_table, path_of, qualified_name
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.plans import kind_of
from tahoe.spark.jvm.table_cache import open_table
from tahoe.spark.reading.change_feed import (
    COMPUTED_OPTION,
    ENABLED_OPTIONS,
    END_TIMESTAMP,
    END_VERSION,
    START_TIMESTAMP,
    START_VERSION,
    feed_kind,
)
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.versions.history import newest_is_before, newest_time_ms

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS_MIN, _MILLISECONDS_MAX = -62_135_596_800_000, 253_402_300_799_000
_NET = "netChanges"

# Options that Spark has put into the context, and those that it has no use for.
_OF_THE_CLAUSE = frozenset(
    name.lower()
    for name in (
        *(START_VERSION, END_VERSION, START_TIMESTAMP, END_TIMESTAMP),
        *("startingBoundInclusive", "endingBoundInclusive", "deduplicationMode", "computeUpdates"),
    )
)

# What an update is where updates are not asked for.
_WITHOUT_UPDATES = {"update_preimage": "delete", "update_postimage": "insert"}


class _Bound(NamedTuple):
    """A start or an end: a version, or a moment in microseconds since 1970."""

    version: str | None
    micros: int | None
    is_inclusive: bool


def rows_of(gateway: Gateway, changes: JavaObject, within: Sequence[str]) -> DataFrame | None:
    """The rows of a CHANGES clause; None if it is not about a Delta table.

    Args:
        changes: Spark's `RelationChanges`.
        within: the catalog and database of the view that has the clause; empty outside of a view.

    Raises:
        UnsupportedOperationError: net changes of a stream are asked for.
        DeltaAnalysisError: the table does not have the versions, or no change data for them.
    """
    relation, context = changes.relation(), changes.changelogContext()
    if kind_of(relation) != "UnresolvedRelation":
        return None
    written = (quoted(str(part)) for part in gateway.items(relation.multipartIdentifier().iterator()))
    table = name_within(gateway, ".".join(written), within)
    if not names_delta_table(gateway, name_parts(gateway, table)):
        if not gateway.spark.catalog.tableExists(table):
            gateway.spark.table(table)  # raises Spark's error
        return None
    given = {name.lower(): value for name, value in gateway.texts(relation.options().asCaseSensitiveMap()).items()}
    options = {COMPUTED_OPTION if name == COMPUTED_OPTION.lower() else name: value for name, value in given.items()}
    options = {name: value for name, value in options.items() if name not in _OF_THE_CLAUSE}
    if str(context.deduplicationMode().value()) == _NET:
        if relation.isStreaming():
            detail = "what remains of the changes of a row is known at the end of a range, which a stream does not have"
            remedy = "Leave out deduplicationMode, or read a range of versions as a batch."
            raise UnsupportedOperationError(
                operation="CHANGES with netChanges in a stream", table=table, detail=detail, remedy=remedy
            )
        options[COMPUTED_OPTION] = "net"
    elif not context.computeUpdates() and feed_kind(options.get(COMPUTED_OPTION, "false"), table) == "computed":
        options[COMPUTED_OPTION] = "unpaired"
    start, end = _bounds(context.range())
    read = _stream if relation.isStreaming() else _batch
    rows = read(gateway, table, start, end, options)
    rows = rows if context.computeUpdates() else rows.withColumn(CHANGE_TYPE, _without_updates())
    name = qualified_name(gateway.spark, table)
    return gateway.aliased(rows, name[-1], name[:-1]) if name else rows


def _without_updates() -> Column:
    kind = F.col(CHANGE_TYPE)
    for update, name in _WITHOUT_UPDATES.items():
        kind = F.when(F.col(CHANGE_TYPE) == update, name).otherwise(kind)
    return kind


def _batch(
    gateway: Gateway, table: str, start: _Bound | None, end: _Bound | None, options: Mapping[str, str]
) -> DataFrame:
    newest = _newest(gateway, table, options)
    first = start or _Bound("0", None, is_inclusive=True)
    asked = _of_versions(table, first, end, newest) if first.micros is None else _of_times(table, first, end, newest)
    reader = gateway.spark.read.format("delta").options(**options, **asked.options, **{ENABLED_OPTIONS[0]: "true"})
    path = path_of(name_parts(gateway, table))
    rows = reader.table(table) if path is None else reader.load(path)
    return rows.where(F.lit(False)) if asked.is_empty else rows


def _newest(gateway: Gateway, table: str, options: Mapping[str, str]) -> Callable[[], Snapshot]:
    return lambda: open_table(gateway.spark, location_of(gateway.spark, table), options).snapshot()


def _stream(
    gateway: Gateway, table: str, start: _Bound | None, end: _Bound | None, options: Mapping[str, str]
) -> DataFrame:
    """The feed as a stream; without a start, first all rows that the table has now."""
    if end is not None:
        detail = "a stream goes on with each new version"
        raise InvalidOptionError(option=END_VERSION, value=end.version or end.micros, table=table, detail=detail)
    started = {} if start is None else _of_stream(table, start, _newest(gateway, table, options))
    reader = gateway.spark.readStream.format("delta").options(**options, **started, **{ENABLED_OPTIONS[0]: "true"})
    path = path_of(name_parts(gateway, table))
    rows = reader.table(table) if path is None else reader.load(path)
    return rows if start is None or start.is_inclusive else rows.where(_is_behind(start, table))


def _is_behind(start: _Bound, table: str) -> Column:
    if start.micros is None:
        return F.col(COMMIT_VERSION) > _version(start, START_VERSION, table)
    return F.col(COMMIT_TIMESTAMP) > F.timestamp_micros(F.lit(start.micros))


# --- the range


def _bounds(asked: JavaObject) -> tuple[_Bound | None, _Bound | None]:
    """The start and the end of a `ChangelogRange`; None if it has none."""
    match kind_of(asked):
        case "VersionRange":
            end = asked.endingVersion().orElse(None)
            return (
                _Bound(str(asked.startingVersion()), None, asked.startingBoundInclusive()),
                None if end is None else _Bound(str(end), None, asked.endingBoundInclusive()),
            )
        case "TimestampRange":
            end = asked.endingTimestamp().orElse(None)
            return (
                _Bound(None, int(asked.startingTimestamp()), asked.startingBoundInclusive()),
                None if end is None else _Bound(None, int(end), asked.endingBoundInclusive()),
            )
        case _:
            return None, None


class _Asked(NamedTuple):
    """A range as options of the feed. One without versions, as its bounds are not inclusive, is a version next to it,
    of which there are no rows.
    """

    options: dict[str, str]
    is_empty: bool = False

    @classmethod
    def nothing_at(cls, version: int) -> Self:
        return cls({START_VERSION: str(version), END_VERSION: str(version)}, is_empty=True)


def _of_versions(table: str, start: _Bound, end: _Bound | None, newest: Callable[[], Snapshot]) -> _Asked:
    asked = _start_options(start, table)
    if end is not None:
        first, last = _version(start, START_VERSION, table), _version(end, END_VERSION, table)
        if last < first:
            raise InvalidChangeRangeError(table=table, start=f"version {first}", end=f"version {last}")
        if first + (not start.is_inclusive) > last - (not end.is_inclusive):
            return _Asked.nothing_at(first)
        asked[END_VERSION] = str(last - (not end.is_inclusive))
    if not start.is_inclusive and _is_newest(start, snapshot := newest(), table):
        return _Asked.nothing_at(snapshot.version)
    return _Asked(asked)


def _of_times(table: str, start: _Bound, end: _Bound | None, newest: Callable[[], Snapshot]) -> _Asked:
    """A range by time. Its end may be in the future, as that of a range of versions may be behind the newest."""
    asked, first_ms = _start_options(start, table), _first_ms(start)
    if end is None and start.is_inclusive:
        return _Asked(asked)
    snapshot = newest()
    if not start.is_inclusive and _is_newest(start, snapshot, table):
        return _Asked.nothing_at(snapshot.version)
    if end is not None:
        if _micros(end) < _micros(start):
            raise InvalidChangeRangeError(
                table=table, start=_time(_micros(start) // 1000), end=_time(_micros(end) // 1000)
            )
        last_ms = _last_ms(end)
        if last_ms < first_ms:
            return _Asked.nothing_at(snapshot.version)
        is_late = newest_is_before(snapshot, last_ms)
        asked |= {END_VERSION: str(snapshot.version)} if is_late else {END_TIMESTAMP: _time(last_ms)}
    return _Asked(asked)


def _of_stream(table: str, start: _Bound, newest: Callable[[], Snapshot]) -> dict[str, str]:
    """The start of a stream. Behind the newest version it starts with this version, whose rows are left out, and waits
    for the next.
    """
    if not start.is_inclusive and _is_newest(start, snapshot := newest(), table):
        return {START_VERSION: str(snapshot.version)}
    return _start_options(start, table)


def _is_newest(start: _Bound, newest: Snapshot, table: str) -> bool:
    """Whether a start is the newest version, or the time of its commit."""
    if start.micros is None:
        return _version(start, START_VERSION, table) == newest.version
    return newest_time_ms(newest) == _micros(start) // 1000


def _start_options(start: _Bound, table: str) -> dict[str, str]:
    """The options of the feed for a start."""
    if start.micros is None:
        return {START_VERSION: str(_version(start, START_VERSION, table) + (not start.is_inclusive))}
    return {START_TIMESTAMP: _time(_first_ms(start))}


def _first_ms(start: _Bound) -> int:
    """The first millisecond of a range by time. Commits have times in milliseconds."""
    return -(-_micros(start) // 1000) if start.is_inclusive else _micros(start) // 1000 + 1


def _last_ms(end: _Bound) -> int:
    return _micros(end) // 1000 if end.is_inclusive else -(-_micros(end) // 1000) - 1


def _micros(bound: _Bound) -> int:
    assert bound.micros is not None
    return bound.micros


def _version(bound: _Bound, option: str, table: str) -> int:
    text = str(bound.version).strip()
    if not (text.isascii() and text.isdigit()):
        detail = "it must be a version, a non-negative integer"
        raise InvalidOptionError(option=option, value=text, table=table, detail=detail)
    return int(text)


def _time(milliseconds: int) -> str:
    """A time as an option's text; one that no commit can have is the first or last one that has a text."""
    milliseconds = min(max(milliseconds, _MILLISECONDS_MIN), _MILLISECONDS_MAX)
    return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")
