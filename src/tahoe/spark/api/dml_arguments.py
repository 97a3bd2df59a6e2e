"""Converts the arguments of DML methods to columns and assignments, with the reference's checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe.spark.dml.row_changes import DmlTarget
from tahoe.spark.dml.set_clauses import Assignment, assignment
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.plans import dataset, java_column


def condition_column(given: Any) -> Column:
    """Convert a condition, which is a Column or SQL, to a Column.

    Raises:
        TypeError: the condition is neither.
    """
    if type(given) is str:
        return F.expr(given)
    if not isinstance(given, Column):
        raise TypeError(
            f"'condition' must be a Spark SQL Column or a string (expression in SQL syntax), found to be of type "
            f"{type(given)}"
        )
    return given


def own_columns(target: DmlTarget, column: Column, source: DataFrame | None = None) -> Column:
    """Replace the columns of the table's DataFrames in a user's condition or value by names, so that they resolve in
    the command.

    Args:
        source: the source of a MERGE. A column that the source has too, because it was derived from the table, is not
            replaced.
    """
    if not target.frames:
        return column
    gateway = Gateway(target.spark)
    named = gateway.java_class("delta.Columns").byName(
        java_column(column),
        gateway.list(dataset(frame) for frame in target.frames),
        None if source is None else dataset(source),
        gateway.list([] if target.alias is None else [target.alias]),
    )
    return gateway.column_of(named)


def assignments_of(target: DmlTarget, given: Any, name: str, source: DataFrame | None = None) -> tuple[Assignment, ...]:
    """Convert a dictionary of values by column to assignments.

    Args:
        name: the dictionary's name in errors.
        source: the source of a MERGE.

    Raises:
        ValueError: the dictionary is None.
        TypeError: it is not a mapping, or a key or a value has the wrong type.
    """
    if given is None:
        raise ValueError(f"{name} cannot be None")
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} must be a dict, found to be {type(given)}")
    for column, value in given.items():
        if type(column) is not str:
            raise TypeError(
                f"Keys of dict in {name} must contain only strings with column names, found '{column}' of type "
                f"'{type(column)}"
            )
        if type(value) is not str and not isinstance(value, Column):
            wanted = "Spark SQL Columns or strings (expressions in SQL syntax) as values"
            raise TypeError(
                f"Values of dict in {name} must contain only {wanted}, found '{value}' of type '{type(value)}'"
            )
    gateway = Gateway(target.spark)
    values = {
        column: F.expr(value) if type(value) is str else own_columns(target, value, source)
        for column, value in given.items()
    }
    return tuple(assignment(gateway, column, value) for column, value in values.items())
