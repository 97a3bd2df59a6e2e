"""Table-valued functions: table_changes('name', start [, end]), table_changes_by_path('path', start [, end]),
delta_files('name' [, at]).

Start, end and at are versions, or times as strings, dates or timestamps; at may also be a tag. Arguments may be named,
as in table_changes(table_str => 't', start => 1). The rows of changes are those of the option readChangeFeed. There is
a function for each inspection of a table: delta_files, delta_history, ...
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import IntegralType, StringType

from tahoe.errors import ChangeBoundaryNullError, InvalidOptionError, InvalidTimeTravelError
from tahoe.protocol.log.tags import can_be_tag
from tahoe.spark.ddl.catalog import location_of, name_within, path_in
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.local_rows import local_rows
from tahoe.spark.jvm.plans import kind_of
from tahoe.spark.jvm.statements.time_travel import (
    MomentOf,
    TimeTravelTarget,
    path_ending,
    session_moment,
    target_of_path,
)
from tahoe.spark.jvm.table_cache import open_table, table_finder
from tahoe.spark.jvm.values import Value, depends_on_rows, values
from tahoe.spark.reading.change_feed import ENABLED_OPTIONS, END_TIMESTAMP, END_VERSION, START_TIMESTAMP, START_VERSION
from tahoe.table.inspection.inspector import INSPECTIONS

TABLE_CHANGES, TABLE_CHANGES_BY_PATH = CHANGES = ("table_changes", "table_changes_by_path")
INSPECTED = {f"delta_{name}": inspection for name, inspection in INSPECTIONS.items()}
FUNCTIONS = (*CHANGES, *INSPECTED)

_BOUNDARIES = (("start", START_VERSION, START_TIMESTAMP), ("end", END_VERSION, END_TIMESTAMP))
_PATH = re.compile(r"/|[a-z][a-z0-9+.-]*:/", re.IGNORECASE)  # no name begins like this
_TIMES = ("timestamp", "timestamp_ntz", "date")


def rows_of(gateway: Gateway, function: str, within: Sequence[str], arguments: JavaObject) -> DataFrame:
    """The rows of a function.

    Args:
        within: the catalog and database of the view that calls the function; empty outside of a view.
        arguments: resolved expressions.

    Raises:
        InvalidOptionError, ChangeBoundaryNullError, InvalidTimeTravelError: the arguments are invalid.
        DeltaAnalysisError: there is no such table, or it does not have the versions; or no change data for them.
    """
    given = _in_order(function, list(gateway.items(arguments.iterator())))
    for name, expression in given.items():
        if depends_on_rows(gateway, expression):  # as in LATERAL: the function is evaluated when the query is analysed
            detail = "it must be a constant, and cannot depend on rows"
            raise _invalid(f"argument {name} of {function}", str(expression.sql()), detail)
    table, *times = values(gateway, [_readable(gateway, expression) for expression in given.values()])
    if not isinstance(table.type, StringType) or table.value is None:
        raise _invalid(f"table of {function}", str(table.value), "it must be the name or path of a table, as a string")
    is_path = function == TABLE_CHANGES_BY_PATH or _PATH.match(table.value) is not None
    name = table.value if is_path else name_within(gateway, table.value, within)
    if function in INSPECTED:
        return _inspection_rows(gateway, function, name, times)
    return _changes(gateway, function, name, times, is_path=is_path)


# The parameters of a function by whether it is an inspection, how many of them it needs, and what they are. The names
# are those of Databricks' table_changes.
_PARAMETERS = {
    False: (("table_str", "start", "end"), 2, "2 or 3: a table, a start, and an optional end"),
    True: (("table_str", "at"), 1, "1 or 2: a table, and a version, a time or a tag"),
}


def _in_order(function: str, expressions: Sequence[JavaObject]) -> dict[str, JavaObject]:
    """The arguments by the names of their parameters, in the order of the parameters."""
    names, required_count, expected = _PARAMETERS[function in INSPECTED]
    if not required_count <= len(expressions) <= len(names):
        raise _invalid(f"number of arguments of {function}", str(len(expressions)), f"it must be {expected}")
    arguments, is_named = dict[str, JavaObject](), False
    for position, expression in zip(names, expressions, strict=False):
        has_name = kind_of(expression) == "NamedArgumentExpression"
        name = str(expression.key()).lower() if has_name else position
        if name not in names:
            raise _invalid(f"name of an argument of {function}", name, f"its parameters are {', '.join(names)}")
        if name in arguments or (is_named and not has_name):
            raise _invalid(f"arguments of {function}", name, "each is given once, and those with names come last")
        arguments[name], is_named = expression.value() if has_name else expression, has_name
    missing = next((name for name in names[:required_count] if name not in arguments), None)
    if missing is not None:
        raise _invalid(f"argument {missing} of {function}", "missing", f"the number of arguments must be {expected}")
    return {name: arguments[name] for name in names if name in arguments}


def _changes(gateway: Gateway, function: str, table: str, boundaries: Sequence[Value], *, is_path: bool) -> DataFrame:
    """The change data feed of a table."""
    options = {ENABLED_OPTIONS[0]: "true"}
    for value, names in zip(boundaries, _BOUNDARIES, strict=False):
        options[_option(function, table, value, *names)] = str(value.value)
    reader = gateway.spark.read.format("delta").options(**options)
    path = table if is_path else path_in(table)
    if path is not None:
        return reader.load(path)
    location_of(gateway.spark, table)  # of a view or of a table of another format, Spark would return all rows
    return reader.table(table)


def _inspection_rows(gateway: Gateway, function: str, table: str, at: Sequence[Value]) -> DataFrame:
    """What an inspection tells of a table, in the version that was the newest when the query was analysed, or in
    another one.
    """
    moment_of, spark = session_moment(gateway), gateway.spark
    path = table if _PATH.match(table) else path_in(table)
    target = (
        TimeTravelTarget(location=location_of(spark, table))
        if path is None
        else target_of_path(moment_of, table_finder(spark), path)
    )
    for value in at:
        if target.is_pinned:
            raise InvalidTimeTravelError(
                table=target.location, detail=f"{path_ending(path or table)} and {value.value} cannot be combined"
            )
        target = _at(function, target.location, value, moment_of)
    return local_rows(spark, INSPECTED[function].of(target.snapshot(open_table(spark, target.location))))


def _at(function: str, location: str, at: Value, moment_of: MomentOf) -> TimeTravelTarget:
    """The target of a version, a time or a tag."""
    if isinstance(at.type, IntegralType) and at.value is not None:
        return TimeTravelTarget(location=location, version=at.value)
    if (
        isinstance(at.type, StringType) and at.value is not None and at.value.isdecimal()
    ):  # a string that VERSION AS OF takes for a version
        return TimeTravelTarget(location=location, version=int(at.value))
    if not isinstance(at.type, StringType) or at.value is None:
        raise _invalid(
            f"version of {function}",
            str(at.value),
            "it must be a version, the name of a tag, a time as a string, or a timestamp",
        )
    try:
        return TimeTravelTarget(location=location, timestamp=moment_of(at.value, location))
    except InvalidTimeTravelError:
        if not can_be_tag(at.value):
            raise
        return TimeTravelTarget(location=location, version=at.value)


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
    raise _invalid(
        f"{boundary} of {function}",
        str(value.value),
        "it must be a version, or a time as a string, a date or a timestamp",
    )


def _invalid(argument: str, value: str, detail: str) -> InvalidOptionError:
    return InvalidOptionError(option=argument, value=value, table="the query", detail=detail)
