"""Table-valued functions: table_changes('name', start [, end]) and table_changes_by_path('path', start [, end]).

Start and end are versions, or times as strings, dates or timestamps. The rows are those of the option readChangeFeed.
"""

from __future__ import annotations

import re

from pyspark.sql import DataFrame
from pyspark.sql.types import IntegralType, StringType

from tahoe.errors import ChangeBoundaryNullError, InvalidOptionError
from tahoe.spark.ddl.catalog import path_in
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.values import Value, values
from tahoe.spark.reading.change_feed import ENABLED_OPTIONS, END_TIMESTAMP, END_VERSION, START_TIMESTAMP, START_VERSION

TABLE_CHANGES, TABLE_CHANGES_BY_PATH = FUNCTIONS = ("table_changes", "table_changes_by_path")

_BOUNDARIES = (("start", START_VERSION, START_TIMESTAMP), ("end", END_VERSION, END_TIMESTAMP))
_PATH = re.compile(r"/|[a-z][a-z0-9+.-]*:/", re.IGNORECASE)  # no name begins like this
_TIMES = ("timestamp", "timestamp_ntz", "date")


def rows_of(gateway: Gateway, function: str, arguments: JavaObject) -> DataFrame:
    """The rows of a table's change data feed.

    Args:
        arguments: resolved expressions.

    Raises:
        InvalidOptionError, ChangeBoundaryNullError: the arguments are invalid.
        DeltaAnalysisError: the table has no change data for the range.
    """
    given = list(gateway.items(arguments.iterator()))
    if len(given) not in (2, 3):
        raise _invalid(f"number of arguments of {function}", str(len(given)), "it must be 2 or 3: a table, a start, and an optional end")
    table, *boundaries = values(gateway, [_readable(gateway, expression) for expression in given])
    if not isinstance(table.type, StringType) or table.value is None:
        raise _invalid(f"table of {function}", str(table.value), "it must be the name or path of a table, as a string")
    options = {ENABLED_OPTIONS[0]: "true"}
    for value, names in zip(boundaries, _BOUNDARIES, strict=False):
        options[_option(function, table.value, value, *names)] = str(value.value)
    reader = gateway.spark.read.format("delta").options(**options)
    is_path = function == TABLE_CHANGES_BY_PATH or _PATH.match(table.value) is not None
    path = table.value if is_path else path_in(table.value)
    return reader.table(table.value) if path is None else reader.load(path)


def _readable(gateway: Gateway, expression: JavaObject) -> JavaObject:
    """Convert dates and timestamps to strings in the session's time zone."""
    if expression.dataType().catalogString() in _TIMES:
        return gateway.expression(gateway.column(expression).cast("string"))
    return expression


def _option(function: str, table: str, value: Value, boundary: str, version: str, timestamp: str) -> str:
    """The reader option for a start or an end."""
    if value.value is None:
        raise ChangeBoundaryNullError(table=table, boundary=boundary)
    if isinstance(value.type, IntegralType):
        return version
    if isinstance(value.type, StringType):
        return timestamp
    raise _invalid(f"{boundary} of {function}", str(value.value), "it must be a version, or a time as a string, a date or a timestamp")


def _invalid(argument: str, value: str, detail: str) -> InvalidOptionError:
    return InvalidOptionError(option=argument, value=value, table="the query", detail=detail)
