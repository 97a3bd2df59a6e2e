"""A table, a version or a file is not where the user says."""

from __future__ import annotations

from tahoe.errors.root import DeltaAnalysisError


class TableNotFoundError(DeltaAnalysisError):
    condition = "DELTA_TABLE_NOT_FOUND"
    sqlstate = "42P01"
    what = "{table} is not a Delta table: the folder does not exist or is empty."
    todo = 'Check the path, or create the table by writing to it with format("delta").'


class TableNameNotFoundError(TableNotFoundError):
    condition = "TABLE_OR_VIEW_NOT_FOUND"
    what = "The table {table} cannot be found: the catalog has no such name{near}."
    todo = "Check the name and its database, or name the table by its folder: delta.`/path`."


class NotADeltaTableError(DeltaAnalysisError):
    condition = "DELTA_MISSING_DELTA_TABLE"
    sqlstate = "42P01"
    what = "{table} is not a Delta table: the folder is there, but it has no commit or checkpoint in _delta_log."
    todo = "Read it in its own format, or name the folder that holds _delta_log."


class NameOfAnotherKindError(NotADeltaTableError):
    condition = "DELTA_TABLE_ONLY_OPERATION"
    sqlstate = "0AKDD"
    what = "{table} is not a Delta table: the catalog says that it is {kind}."
    todo = "Name a table that was created USING delta, or one by its folder: delta.`/path`."


class PathIsFileError(NotADeltaTableError):
    condition = "DELTA_PATH_IS_FILE"
    what = "{table} is not a Delta table: it is a file, and a table is a folder."
    todo = "Name the folder that holds _delta_log, or read the file in its own format."


class TableExistsError(DeltaAnalysisError):
    condition = "DELTA_TABLE_ALREADY_EXISTS"
    sqlstate = "42P07"
    what = "The Delta table {table} already exists, and it was asked to be made only if it does not."
    todo = "Append to it or replace it, or choose another place."


class PathIsNotEmptyError(DeltaAnalysisError):
    condition = "DELTA_PATH_EXISTS"
    sqlstate = "42K04"
    what = "{table} holds files but no Delta table."
    todo = "Write to an empty folder, or convert what is there to a Delta table first."


class PathOutsideTableError(DeltaAnalysisError):
    condition = "DELTA_PATH_OUTSIDE_TABLE"
    sqlstate = "42K03"
    what = "The relative path {path} in the log of {table} leads outside the table's folder."
    todo = "The log was not written by a compliant writer; do not trust it before you know who wrote it."


class VersionNotFoundError(DeltaAnalysisError):
    condition = "DELTA_VERSION_NOT_FOUND"
    sqlstate = "22003"
    what = "Version {version} of {table} cannot be read: versions {earliest} to {latest} are available."
    todo = "Choose a version in that range."


class TimestampOutOfRangeError(DeltaAnalysisError):
    condition = "DELTA_TIMESTAMP_OUT_OF_RANGE"
    sqlstate = "22003"
    what = "{table} cannot be read as of {timestamp}: its commits are from {earliest} to {latest}."
    todo = "Choose a timestamp in that range."


class InvalidTimeTravelError(DeltaAnalysisError):
    condition = "DELTA_INVALID_TIME_TRAVEL"
    sqlstate = "42000"
    what = "Time travel on {table} was asked for in a way that has no meaning: {detail}."
    todo = 'Give one of a version (a whole number from 0) or a timestamp ("2026-01-31" or "2026-01-31 12:00:00").'


class SchemaChangedError(DeltaAnalysisError):
    condition = "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"
    sqlstate = "KD007"
    what = "The schema of {table} was changed after this DataFrame was made: {changed} is not in version {version} as it was then."
    todo = "Make the DataFrame again with spark.read or spark.table, or read the version that it was made for with versionAsOf."
