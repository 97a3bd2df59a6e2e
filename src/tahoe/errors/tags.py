"""A version cannot be tagged, or a tag is not what is expected."""

from __future__ import annotations

from tahoe.errors.root import DeltaAnalysisError, DeltaError
from tahoe.errors.tables import InvalidTimeTravelError


class InvalidTagNameError(DeltaAnalysisError):
    condition = "DELTA_INVALID_TAG_NAME"
    sqlstate = "42602"
    what = "{tag} cannot be the name of a tag of {table}: {detail}."
    todo = "Choose a name such as 2026-q3 or before_migration."


class TagNotFoundError(InvalidTimeTravelError):
    condition = "DELTA_TAG_NOT_FOUND"
    sqlstate = "42704"
    what = "{table} has no tag {tag}; it has {known}."
    todo = "Give one of these names (upper and lower case matter), or a version, a non-negative integer."


class TagExistsError(DeltaAnalysisError):
    condition = "DELTA_TAG_ALREADY_EXISTS"
    sqlstate = "42710"
    what = "{table} has a tag {tag} already, of version {version}."
    todo = (
        "Choose another name, or replace the tag: with CREATE OR REPLACE TAG in SQL, replace=True in Python, --replace in the command line."
    )


class TagExpiryError(DeltaAnalysisError):
    condition = "DELTA_TAG_EXPIRES_IN_THE_PAST"
    sqlstate = "22023"
    what = "The tag {tag} of {table} was not made: its end of life, {expires}, is not after the present time, {now}."
    todo = "Give a later time, or none: the tag then holds its version until it is dropped."


class TagRetentionError(DeltaAnalysisError):
    condition = "DELTA_TAG_VERSION_EXPIRED"
    sqlstate = "55000"
    what = (
        "Version {version} of {table} cannot be tagged: it has expired. Since {hours} hours, the shorter one of "
        "delta.deletedFileRetentionDuration and delta.logRetentionDuration, the table has had later versions only, so VACUUM or log "
        "cleanup may be deleting what it needs."
    )
    todo = (
        "Tag a later version, or, if no VACUUM and no log cleanup runs meanwhile, switch the check off: by retention_check=False in "
        "Python, by --no-retention-check in the command line, by the session setting "
        "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration = false in Spark. Files are checked in any case."
    )


class TagFilesMissingError(DeltaAnalysisError):
    condition = "DELTA_TAG_FILES_MISSING"
    sqlstate = "42K03"
    what = "Version {version} of {table} cannot be tagged: {count} of its files do not exist: {files}."
    todo = "Tag a later version, or bring the files back from a copy."


class TagLostError(DeltaError):
    condition = "DELTA_TAG_LOST"
    sqlstate = "55000"
    what = "{table}: the tag {tag} names version {version}, which cannot be read any more: {detail}."
    todo = (
        "Log cleanup by another writer, which does not know tags, may have deleted what it needs. Bring it back from a copy, or drop the "
        "tag: ALTER TABLE ... DROP TAG, Table.untag, tahoe untag."
    )
