"""Which scans a native engine reads as Spark's own reader does.

Comet reads dates and times of files with the hybrid calendar of old writers as if they had Spark's, and does not see
from a footer which it is. Both calendars agree on what a table's statistics show to be later than their difference.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Container, Iterator

from tahoe.protocol.types.predicate import And, Column, Comparison, Literal, Or, Predicate
from tahoe.protocol.types.schema import DATE, TIMESTAMP, TIMESTAMP_NTZ, Struct, parse_schema, types_in
from tahoe.spark.jvm.table_cache import scan_of
from tahoe.spark.reading.scan import Reader

# The calendars have the same days from this one on.
GREGORIAN = dt.date(1582, 10, 15)

# Time zones have the same offsets in both from this time on: before, some had the mean solar time of a place.
STANDARD_TIME = dt.datetime(1900, 1, 2, tzinfo=dt.UTC)

_FIRST = {DATE: GREGORIAN, TIMESTAMP: STANDARD_TIME, TIMESTAMP_NTZ: STANDARD_TIME.replace(tzinfo=None)}


def fallback(reader: Reader, names: Container[str]) -> str:
    """Why Spark's own reader must read the files of a query, for EXPLAIN; empty if a native engine reads the same rows.

    It does, if no row that the query may use has a date or time in which the calendars differ, as far as statistics
    show.

    Args:
        names: of the columns that the query uses.
    """
    columns = list(_old_times(Struct(tuple(field for field in parse_schema(reader.data) if field.name in names)), ()))
    old = tuple(column for column in columns if column is not None)
    if len(old) < len(columns):
        return "dates or times in arrays or maps may be of the hybrid calendar"
    if old and scan_of(reader.snapshot, And((reader.predicate, Or(old)))).kept_files:
        return (
            "dates before 1582-10-15 or times before 1900 may be of the hybrid calendar: statistics do not rule them "
            "out"
        )
    return ""


def _old_times(schema: Struct, path: tuple[str, ...]) -> Iterator[Predicate | None]:
    """For each column with dates or times, the condition that a value is old; None for one inside of an array or a
    map.
    """
    for field in schema:
        match field.type:
            case Struct():
                yield from _old_times(field.type, (*path, field.name))
            case primitive if primitive in _FIRST:
                yield Comparison("<", Column((*path, field.name)), Literal(_FIRST[primitive]))
            case nested if any(part in _FIRST for part in types_in(nested)):
                yield None
