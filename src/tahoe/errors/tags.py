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
    todo = (
        "Give the name of a tag that exists (upper and lower case differ), or a version, a non-negative integer. A "
        "time is given as a timestamp."
    )


class TagExistsError(DeltaAnalysisError):
    condition = "DELTA_TAG_ALREADY_EXISTS"
    sqlstate = "42710"
    what = "{table} already has a tag {tag}, of version {version}."
    todo = (
        "Choose another name, or replace the tag: with CREATE OR REPLACE TAG in SQL, replace=True in Python, "
        "--replace on the command line."
    )


class TagExpiryError(DeltaAnalysisError):
    condition = "DELTA_TAG_EXPIRES_IN_THE_PAST"
    sqlstate = "22023"
    what = (
        "The tag {tag} of {table} was not created: it would expire at {expires}, which is not in the future; it is "
        "{now} now."
    )
    todo = "Give a later time, or none: the tag then protects its version until it is dropped."


class TagRetentionError(DeltaAnalysisError):
    condition = "DELTA_TAG_VERSION_EXPIRED"
    sqlstate = "55000"
    what = (
        "Version {version} of {table} cannot be tagged: it has expired. A later version replaced it more than "
        "{hours} h ago (the shorter of delta.deletedFileRetentionDuration and delta.logRetentionDuration), so "
        "VACUUM or log cleanup may be deleting its files."
    )
    todo = (
        "Tag a later version. Or, if neither VACUUM nor log cleanup runs at the same time, disable the check: "
        "retention_check=False in Python, --no-retention-check on the command line, "
        "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration = false in Spark. tahoe "
        "still verifies that the files exist."
    )


class TagBesideVacuumError(DeltaAnalysisError):
    condition = "DELTA_TAG_BESIDE_VACUUM"
    sqlstate = "55006"
    what = (
        "Version {version} of {table} was not tagged: by the log, the VACUUM that began at version {vacuumVersion} "
        "has not ended. It keeps versions from {kept} on, and may be deleting files of earlier ones."
    )
    todo = (
        "Tag it when the VACUUM has ended. If it was killed, disable the check: retention_check=False in Python, "
        "--no-retention-check on the command line, "
        "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration = false in Spark. tahoe "
        "still verifies that the files exist."
    )


class TagFilesMissingError(DeltaAnalysisError):
    condition = "DELTA_TAG_FILES_MISSING"
    sqlstate = "42K03"
    what = "Version {version} of {table} cannot be tagged: {count} of its files do not exist: {files}."
    todo = "Tag a later version, or bring the files back from a backup."


class TagLostError(DeltaError):
    condition = "DELTA_TAG_LOST"
    sqlstate = "55000"
    what = "{table}: the tag {tag} names version {version}, which cannot be read any more: {detail}."
    todo = (
        "Log cleanup by another writer, which does not know tags, may have deleted what it needs. Bring it back "
        "from a backup, or drop the tag: ALTER TABLE ... DROP TAG, Table.untag, tahoe untag."
    )


class ErasureHeldByTagsError(DeltaAnalysisError):
    condition = "DELTA_ERASURE_HELD_BY_TAGS"
    sqlstate = "55000"
    what = "{table}: rows cannot be erased while tags hold versions: {tags}."
    todo = "Drop these tags, with ALTER TABLE ... DROP TAG, Table.untag or tahoe untag, and erase again."
