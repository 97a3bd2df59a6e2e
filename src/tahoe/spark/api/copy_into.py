"""`tahoe.copy_into(spark, table, path, format=...)`: COPY INTO as a function."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from pyspark.sql import DataFrame, SparkSession

from tahoe.errors import InvalidArgumentError
from tahoe.spark.api.delta_table import DeltaTable
from tahoe.spark.api.sql import sql
from tahoe.spark.maintenance.clone import is_path
from tahoe.spark.maintenance.user_command import raising_for_user
from tahoe.sql.copy_into import written
from tahoe.sql.grammar import parse_name
from tahoe.sql.statements import Name


def copy_into(
    spark: SparkSession,
    table: str | DeltaTable,
    path: str | os.PathLike[str],
    *,
    format: str,
    select: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    by_position: bool = False,
    files: Sequence[str] | None = None,
    pattern: str | None = None,
    format_options: Mapping[str, object] | None = None,
    merge_schema: bool = False,
    force: bool = False,
    allow_overwrites: bool = False,
    validate: bool | int = False,
) -> DataFrame:
    """Load the files of a folder that a table has not loaded yet, as the statement COPY INTO does.

    Which files were loaded is part of the commit: after a crash, or twice at once, nothing is loaded twice.

    >>> tahoe.copy_into(spark, "events", "/landing/events", format="json").first().num_inserted_rows
    2

    Args:
        table: a name in the session's catalog, an absolute path or a url, or a `DeltaTable`. It must exist.
        path: a folder or a file.
        format: csv, json, parquet, avro, orc, text or binaryFile.
        select: SQL expressions that make the columns; the files' own columns without it.
        columns, by_position: assign columns of CSV without a header by position, to these columns or to all.
        files, pattern: names of files in the folder; or a glob for paths below it, such as `2026/*/part-*.csv`.
        format_options: of Spark's reader; also badRecordsPath and rescuedDataColumn, for CSV and JSON.
        merge_schema: add columns that the table does not have.
        force, allow_overwrites: load all files, loaded before or not; or those again that have changed since then.
        validate: check all rows, or so many, and write nothing.

    Returns:
        one row of counts, such as `num_inserted_rows`; with `validate` up to 50 rows as they would be loaded.

    Raises:
        DeltaAnalysisError: the call is wrong, or the rows do not fit the table. Nothing was committed.
    """
    chosen: dict[str, Any] = {"columns": columns, "files": files, "validate": validate}
    chosen["select"] = [select] if isinstance(select, str) else select
    raising_for_user(lambda: _check({**chosen, "format": format, "pattern": pattern, "path": path}))
    text = written(
        table=_named(table),
        format=format,
        by_position=by_position,
        pattern=pattern,
        format_options={name: _option(value) for name, value in (format_options or {}).items() if value is not None},
        copy_options=_flags(mergeSchema=merge_schema, force=force, allowOverwrites=allow_overwrites),
        **chosen,
    )
    return sql(spark, text, {"source": os.fspath(path)})


def _named(table: str | DeltaTable) -> Name:
    if not isinstance(table, str):
        handle = getattr(table, "_handle", None)
        if handle is None:
            raising_for_user(lambda: _refuse_table(table))
        return Name(path=handle.table.url)
    return Name(path=table) if is_path(table) else raising_for_user(lambda: parse_name(table))


def _refuse_table(table: object) -> NoReturn:
    raise InvalidArgumentError(
        argument="table",
        table="tahoe.copy_into",
        found=repr(table),
        expected="a name, a path or a DeltaTable of a session with a JVM",
        remedy="Pass the name or the path of the table.",
    )


def _flags(**flags: bool) -> dict[str, str]:
    return {name: "true" for name, is_on in flags.items() if is_on}


def _option(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# Arguments that are one text.
_TEXTS: Mapping[str, tuple[type, ...]] = {
    "format": (str,),
    "pattern": (str, type(None)),
    "path": (str, os.PathLike),
}


def _check(arguments: Mapping[str, Any]) -> None:
    """Check the arguments whose wrong types would make another statement.

    Raises:
        InvalidArgumentError
    """
    for name, value in arguments.items():
        if name == "validate":
            is_right = isinstance(value, bool) or (isinstance(value, int) and value > 0)
            expected, remedy = "true, false or a positive number of rows", "Pass validate=True to check all rows."
        elif name in _TEXTS:
            is_right = isinstance(value, _TEXTS[name])
            expected, remedy = "a text", f'Pass {name}="...".'
        else:
            listed = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []
            is_right = value is None or bool(listed and all(isinstance(text, str) for text in listed))
            expected, remedy = "a list of texts that is not empty", f'Pass {name}=["..."], or leave it out.'
        if not is_right:
            raise InvalidArgumentError(
                argument=name, table="tahoe.copy_into", found=repr(value), expected=expected, remedy=remedy
            )
