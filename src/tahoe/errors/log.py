"""The log violates the protocol, or a file does not match what the log says about it."""

from __future__ import annotations

import re
from urllib.parse import unquote

from tahoe.errors.root import DeltaError


class DeltaLogError(DeltaError):
    condition = "DELTA_LOG_ERROR"
    sqlstate = "XXKDS"


class InvalidLogFileError(DeltaLogError):
    condition = "DELTA_INVALID_LOG_FILE"
    sqlstate = "22032"
    what = "{table}: {file}, line {line}, is not a valid log entry: {detail}."
    todo = "Restore the file from a backup, or read an older version with versionAsOf."


class InvalidCommitError(DeltaLogError):
    condition = "DELTA_INVALID_COMMIT"
    sqlstate = "XXKDS"
    what = "{table}: {file} violates the protocol: {detail}."
    todo = "This is a bug in the writer of that commit. Read an older version with versionAsOf."


class MissingVersionError(DeltaLogError):
    condition = "DELTA_VERSIONS_NOT_CONTIGUOUS"
    sqlstate = "KD00C"
    what = "{table}: the log for version {version} is incomplete: {detail}."
    todo = "Restore the missing file from a backup, or read a version that the log can still reconstruct."


class CommitGoneError(MissingVersionError):
    """A commit was deleted between listing and reading it: by metadata cleanup, or because the table was dropped."""

    condition = "DELTA_COMMIT_FILE_GONE"
    todo = "Read the table again: metadata cleanup deleted the commit, or the table was dropped."


class MissingActionError(DeltaLogError):
    condition = "DELTA_STATE_RECOVER_ERROR"
    sqlstate = "XXKDS"
    what = "{table}: version {version} has no {action} action, which every version must have ({file})."
    todo = "This is a bug in the writer of the log. Restore the log from a backup."


class InvalidActionError(DeltaLogError):
    condition = "DELTA_INVALID_ACTION"
    sqlstate = "XXKDS"
    what = "{table}: the log contains an invalid {action} action: {detail}."
    todo = (
        "This is a bug in the writer of that action. Restore the log from a backup, or read an older version with "
        "versionAsOf."
    )


class InvalidPathError(DeltaLogError):
    condition = "DELTA_INVALID_PATH_IN_LOG"
    sqlstate = "XXKDS"
    what = "{table}: the log contains the path {path!r}, which is not a valid file name: {detail}."
    todo = (
        "This is a bug in the writer of that path. Read an older version with versionAsOf, or remove the file from "
        "the table."
    )


class CorruptCheckpointError(DeltaLogError):
    condition = "DELTA_CORRUPT_CHECKPOINT"
    sqlstate = "XXKDS"
    what = "{table}: the checkpoint {file} cannot be used: {detail}."
    todo = "If the commits before the checkpoint still exist, delete it: the table can be read without it."


class CorruptCompactedLogError(DeltaLogError):
    condition = "DELTA_CORRUPT_COMPACTED_LOG"
    sqlstate = "XXKDS"
    what = "{table}: the compacted file {file} cannot be used: {detail}."
    todo = "If the commits that it contains still exist, delete it: the table can be read without it."


class InvalidPartitionValueError(DeltaLogError):
    condition = "DELTA_INVALID_PARTITION_VALUE"
    sqlstate = "22018"
    what = "{table}: the log contains the partition value {value!r}, which is not a valid {type}."
    todo = "This is a bug in the writer of that file. Read an older version with versionAsOf, or rewrite the file."


class DeltaDataError(DeltaError):
    condition = "DELTA_DATA_ERROR"
    sqlstate = "XXKDS"


class DataFileMissingError(DeltaDataError):
    condition = "DELTA_FILE_NOT_FOUND"
    sqlstate = "42K03"
    what = "{table}: the data file {file} belongs to version {version} but does not exist in the storage."
    todo = (
        "It was deleted, for example by VACUUM. If this is an older version, read a newer one. If it is the newest, "
        "restore the file from a copy, or remove it from the table: FSCK REPAIR TABLE, or tahoe repair. A stream "
        "that needs it begins with a new checkpoint."
    )

    @staticmethod
    def of(*, table: str, file: str, version: int) -> DataFileMissingError:
        """The error for a file, which is that of a shallow clone if the file is outside the table's folder."""
        path = unquote(file)
        is_absolute = path.startswith("/") or _SCHEME.match(path) is not None
        is_elsewhere = is_absolute and not _without_scheme(path).startswith(f"{_without_scheme(table)}/")
        return (ClonedFileMissingError if is_elsewhere else DataFileMissingError)(
            table=table, file=file, version=version
        )


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def _without_scheme(url: str) -> str:
    """A url for comparison: `file:/t`, `file:///t` and `/t` are one folder, and so are `s3://b/t` and `s3a://b/t`."""
    return url[url.index(":") + 1 :].lstrip("/") if _SCHEME.match(url) else url.lstrip("/")


class ClonedFileMissingError(DataFileMissingError):
    condition = "DELTA_CLONED_FILE_NOT_FOUND"
    what = (
        "{table}, version {version}: the data file {file} is in the folder of another table, and does not exist in "
        "the storage."
    )
    todo = (
        "This table is a shallow clone, and a VACUUM of the other table may have deleted the file. Clone that table "
        "again, with CREATE OR REPLACE TABLE, restore the file from a backup, or remove it from this table: FSCK "
        "REPAIR TABLE, or tahoe repair. A deep clone has files of its own."
    )


class InvalidDataFileError(DeltaDataError):
    condition = "DELTA_INVALID_DATA_FILE"
    sqlstate = "XXKDS"
    what = "{table}: the data file {file} cannot be read: {detail}."
    todo = "Restore the file from a backup, or read a version without it."


class TextNotUtf8Error(InvalidDataFileError):
    condition = "DELTA_TEXT_NOT_UTF8"
    sqlstate = "22029"
    what = "{table}: the data file {file} has text that is not UTF-8, which Comet does not read: {detail}."
    todo = (
        "Read it with Spark's own engine: spark.conf.set('spark.comet.enabled', 'false'). A column of bytes has the "
        "type BINARY."
    )


class DeletionVectorError(DeltaDataError):
    condition = "DELTA_DELETION_VECTOR_INVALID"
    sqlstate = "XXKDS"
    what = "{table}: the deletion vector {vector} of {file} is invalid: {detail}."
    todo = "Restore the vector's file from a backup; without it, deleted rows would reappear."


class DeletionVectorMissingError(DeletionVectorError):
    condition = "DELTA_FILE_NOT_FOUND.DELETION_VECTOR"
    sqlstate = "42K03"
    what = "{table}: the deletion vector {vector} of {file} is in the file {url}, which does not exist in the storage."
    todo = (
        "It was deleted, for example by VACUUM{where}. If this is an older version, read a newer one. If it is the "
        "newest, restore the file from a copy; without it, deleted rows would reappear. A stream that needs it "
        "begins with a new checkpoint."
    )
