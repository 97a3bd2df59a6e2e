"""A table, version or path cannot be found, or is not what was expected."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from tahoe.errors.root import DeltaAnalysisError

# A path that names a version, which only Spark's readers take.
_AT_VERSION = re.compile(r".*[^/]@(?P<version>[^/@:]+)/*")


class TableNotFoundError(DeltaAnalysisError):
    condition = "DELTA_TABLE_NOT_FOUND"
    sqlstate = "42P01"
    what = "{table} is not a Delta table: the folder does not exist or is empty."
    todo = (
        'Check the path, or create the table by writing to it: with format("delta") in Spark, or '
        "tahoe.Table(path).append(rows)."
    )

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        if found := _AT_VERSION.fullmatch(str(parameters["table"])):
            where = "give version=... in Python, --version on the command line."
            self._begin(f"If @{found['version']} names a version, leave it out of the path: {where}")


class TableNameNotFoundError(TableNotFoundError):
    condition = "TABLE_OR_VIEW_NOT_FOUND"
    what = "The table {table} cannot be found: the catalog has no table of that name{near}."
    todo = "Check the name and its database, or give the table's path: delta.`/path`."


class NotADeltaTableError(DeltaAnalysisError):
    condition = "DELTA_MISSING_DELTA_TABLE"
    sqlstate = "42P01"
    what = "{table} is not a Delta table: the folder exists, but it has no _delta_log with a commit or checkpoint."
    todo = "Read it in its own format, or give the path of the folder that contains _delta_log."


class NameOfAnotherKindError(NotADeltaTableError):
    condition = "DELTA_TABLE_ONLY_OPERATION"
    sqlstate = "0AKDD"
    what = "{table} is not a Delta table: according to the catalog it is {kind}."
    todo = "Use a table that was created USING delta, or give a path: delta.`/path`."


class PathIsFileError(NotADeltaTableError):
    condition = "DELTA_PATH_IS_FILE"
    what = "{table} is not a Delta table: it is a file, not a folder."
    todo = "Give the path of the folder that contains _delta_log, or read the file in its own format."


class TableExistsError(DeltaAnalysisError):
    condition = "DELTA_TABLE_ALREADY_EXISTS"
    sqlstate = "42P07"
    what = "The Delta table {table} already exists, but the write requires that it does not."
    todo = "Append to it, overwrite or replace it, or choose another path."


class PipelineTableUnknownError(TableExistsError):
    condition = "DELTA_PIPELINE_TABLE_NOT_IN_CATALOG"
    what = (
        "The pipeline makes the table {name} anew, but {table} is a Delta table already, which an earlier update has "
        "made: the session's catalog has forgotten it. Writing a materialised view into it would double its rows."
    )
    todo = (
        "Run updates with a catalog that outlives them: a metastore, or spark-pipelines run --conf "
        "spark.sql.catalogImplementation=hive. CREATE TABLE {name} USING delta LOCATION '{table}' enters it there."
    )


class PathIsNotEmptyError(DeltaAnalysisError):
    condition = "DELTA_PATH_EXISTS"
    sqlstate = "42K04"
    what = "{table} is not empty and contains no Delta table."
    todo = (
        "Write to an empty folder, or convert the existing files to a Delta table first (CONVERT TO DELTA). If "
        "another writer is making the table, write again when it has committed. If a writer that was killed has "
        "left the files and no other is at work, delete them; streams, and writes with txnAppId and txnVersion, go "
        "on as they are."
    )


class PathOutsideTableError(DeltaAnalysisError):
    condition = "DELTA_PATH_OUTSIDE_TABLE"
    sqlstate = "42K03"
    what = "The relative path {path} in the log of {table} points outside the table's folder."
    todo = "No compliant writer writes such a path: do not trust the log until you know who wrote it."


class _Range:
    """An error that tells the range of what there is.

    Attributes:
        bounds: the names of its parameters.
        single: the two templates if there is only one; `none`: if there is nothing, and the bounds are None.
    """

    bounds: ClassVar[tuple[str, str]] = ("earliest", "latest")
    single: ClassVar[tuple[str, str]]
    none: ClassVar[tuple[str, str] | None] = None

    def __init__(self, **parameters: Any) -> None:
        first, last = (parameters.get(name) for name in self.bounds)
        templates = None if first != last else self.none if first is None else self.single
        if templates is not None:
            vars(self).update(what=templates[0], todo=templates[1])
        super().__init__(**parameters)


class VersionNotFoundError(_Range, DeltaAnalysisError):
    condition = "DELTA_VERSION_NOT_FOUND"
    sqlstate = "22003"
    what = "Version {version} of {table} cannot be read: versions {earliest} to {latest} are available."
    todo = "Choose a version in that range."
    single = (
        "Version {version} of {table} cannot be read: only version {latest} is available.",
        "Choose this version.",
    )
    none = (
        "Version {version} of {table} cannot be read: its log has no commit whose time is known.",
        "Choose a version by its number. `tahoe check` tells what the log lacks.",
    )


class TimestampOutOfRangeError(_Range, DeltaAnalysisError):
    condition = "DELTA_TIMESTAMP_OUT_OF_RANGE"
    sqlstate = "22003"
    what = "{table} cannot be read as of {timestamp}: its commits range from {earliest} to {latest}."
    todo = "Choose a timestamp in that range."
    single = (
        "{table} cannot be read as of {timestamp}: its only commit is of {latest}.",
        "Choose this timestamp, or read the newest version.",
    )


class InvalidTimeTravelError(DeltaAnalysisError):
    condition = "DELTA_INVALID_TIME_TRAVEL"
    sqlstate = "42000"
    what = "Invalid time travel on {table}: {detail}."
    todo = (
        'Give either a version (a non-negative integer, or the name of a tag) or a timestamp ("2026-01-31" or '
        '"2026-01-31 12:00:00").'
    )


class SchemaChangedError(DeltaAnalysisError):
    condition = "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"
    sqlstate = "KD007"
    what = (
        "The schema of {table} changed after this DataFrame was created: {changed} is different or missing in version "
        "{version}."
    )
    todo = "Create the DataFrame again, or read the version that it was created from with versionAsOf."


class TableReplacedError(DeltaAnalysisError):
    condition = "DELTA_TABLE_ID_MISMATCH"
    sqlstate = "KD007"
    what = (
        "{table}: the table was replaced after this query was planned: version {version} is no longer the one that "
        "the query reads."
    )
    todo = "Create the DataFrame again to read the new table."
