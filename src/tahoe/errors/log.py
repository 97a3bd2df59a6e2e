"""The log breaks the protocol, or a file that it names is not what it says."""

from __future__ import annotations

from tahoe.errors.root import DeltaError


class DeltaLogError(DeltaError):
    condition = "DELTA_LOG_ERROR"
    sqlstate = "XXKDS"


class InvalidLogFileError(DeltaLogError):
    condition = "DELTA_INVALID_LOG_FILE"
    sqlstate = "22032"
    what = "{table}: {file}, line {line}, is not a log entry: {detail}."
    todo = "Restore the file from a copy, or read an older version with versionAsOf."


class InvalidCommitError(DeltaLogError):
    condition = "DELTA_INVALID_COMMIT"
    sqlstate = "XXKDS"
    what = "{table}: {file} breaks the protocol: {detail}."
    todo = "The writer of that commit is at fault; read an older version with versionAsOf."


class MissingVersionError(DeltaLogError):
    condition = "DELTA_VERSIONS_NOT_CONTIGUOUS"
    sqlstate = "KD00C"
    what = "{table}: the log of version {version} is incomplete: {detail}."
    todo = "Restore the missing file from a copy, or read a version that the log still covers."


class CommitGoneError(MissingVersionError):
    """A commit that was listed was deleted before it was read: by metadata cleanup, or with the table."""

    condition = "DELTA_COMMIT_FILE_GONE"
    todo = "Read the table again: metadata cleanup has deleted the commit, or the table was dropped."


class MissingActionError(DeltaLogError):
    condition = "DELTA_STATE_RECOVER_ERROR"
    sqlstate = "XXKDS"
    what = "{table}: version {version} has no {action} action, so that the table cannot be understood ({file})."
    todo = "The writer of the log is at fault; restore it from a copy."


class InvalidActionError(DeltaLogError):
    condition = "DELTA_INVALID_ACTION"
    sqlstate = "XXKDS"
    what = "{table}: the {action} action of the log cannot be understood: {detail}."
    todo = "The writer of that action is at fault; restore the log from a copy, or read an older version with versionAsOf."


class InvalidPathError(DeltaLogError):
    condition = "DELTA_INVALID_PATH_IN_LOG"
    sqlstate = "XXKDS"
    what = "{table}: the log names a file {path!r}, which no file can be called: {detail}."
    todo = "The writer of that path is at fault; read an older version with versionAsOf, or remove the file from the table."


class CorruptCheckpointError(DeltaLogError):
    condition = "DELTA_CORRUPT_CHECKPOINT"
    sqlstate = "XXKDS"
    what = "{table}: the checkpoint {file} cannot be used: {detail}."
    todo = "Delete the checkpoint if the commits before it are still there; the table does not need it then."


class CorruptCompactedLogError(DeltaLogError):
    condition = "DELTA_CORRUPT_COMPACTED_LOG"
    sqlstate = "XXKDS"
    what = "{table}: the compacted file {file} cannot be used: {detail}."
    todo = "Delete it if the commits that it stands for are still there; the table does not need it then."


class InvalidPartitionValueError(DeltaLogError):
    condition = "DELTA_INVALID_PARTITION_VALUE"
    sqlstate = "22018"
    what = "{table}: the log holds the partition value {value!r}, which is no value of the column's type {type}."
    todo = "The writer of that file is at fault; read an older version with versionAsOf, or remove the file and write it again."


class DeltaDataError(DeltaError):
    condition = "DELTA_DATA_ERROR"
    sqlstate = "XXKDS"


class DataFileMissingError(DeltaDataError):
    condition = "DELTA_FILE_NOT_FOUND"
    sqlstate = "42K03"
    what = "{table}: the data file {file} is in version {version}, but it is not in the storage."
    todo = "Somebody deleted it (VACUUM with a short retention?): restore it from a copy, or read a version without it."


class InvalidDataFileError(DeltaDataError):
    condition = "DELTA_INVALID_DATA_FILE"
    sqlstate = "XXKDS"
    what = "{table}: the data file {file} cannot be read: {detail}."
    todo = "Restore the file from a copy, or read a version without it."


class DeletionVectorError(DeltaDataError):
    condition = "DELTA_DELETION_VECTOR_INVALID"
    sqlstate = "XXKDS"
    what = "{table}: the deletion vector {vector} of {file} is invalid: {detail}."
    todo = "Restore the vector's file from a copy; reading without it would bring deleted rows back."
