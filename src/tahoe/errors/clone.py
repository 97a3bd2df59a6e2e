"""A table cannot be cloned as it was asked for."""

from __future__ import annotations

from tahoe.errors.root import DeltaAnalysisError
from tahoe.errors.tables import TableNotFoundError


class CloneAmbiguousTargetError(DeltaAnalysisError):
    condition = "DELTA_CLONE_AMBIGUOUS_TARGET"
    sqlstate = "42613"
    what = "The target of CLONE is given twice: as the path {location}, and as LOCATION {externalLocation}."
    todo = "Leave out LOCATION, or clone to a name."


class InvalidClonePathError(DeltaAnalysisError):
    condition = "DELTA_INVALID_CLONE_PATH"
    sqlstate = "22KD1"
    what = "The target of CLONE must be a table name or an absolute path, but {location} is a relative path."
    todo = "Give an absolute path, or a name without slashes."


class CloneUnsupportedSourceError(DeltaAnalysisError):
    condition = "DELTA_CLONE_UNSUPPORTED_SOURCE"
    sqlstate = "0AKDC"
    what = "{table} cannot be cloned: it is {format}, not a table of the format delta, parquet or iceberg."
    todo = "Use CREATE TABLE ... USING delta AS SELECT * FROM {table}."


class CloneIncompatibleSourceError(DeltaAnalysisError):
    condition = "DELTA_CLONE_INCOMPATIBLE_SOURCE"
    sqlstate = "0AKDC"
    what = "{table} cannot be cloned: {detail}."
    todo = "{remedy}"


class CloneOntoItselfError(DeltaAnalysisError):
    condition = "DELTA_UNSUPPORTED_CLONE_REPLACE_SAME_TABLE"
    sqlstate = "0AKDC"
    what = "{table} cannot be replaced by a clone of its own version {version}."
    todo = "Use RESTORE TABLE ... TO VERSION AS OF {version}."


class CloneNestedError(DeltaAnalysisError):
    condition = "DELTA_CLONE_NESTED_TABLE"
    sqlstate = "42K04"
    what = (
        "{table} cannot be the target of CLONE, because {relation} the table {other}: files of one would count as "
        "those of the other."
    )
    todo = "Choose a folder of its own."


class CloneFilesMissingError(DeltaAnalysisError):
    condition = "DELTA_CLONE_FILES_MISSING"
    sqlstate = "42K03"
    what = (
        "{table} was not cloned, because files of version {version} are gone, for example by VACUUM. {count} are "
        "missing: {files}."
    )
    todo = "Clone a newer version, or bring the files back from a backup."


class VectorsDisallowedError(DeltaAnalysisError):
    condition = "DELTA_ADDING_DELETION_VECTORS_DISALLOWED"
    sqlstate = "0A000"
    what = (
        "{table}: {count} files of the source have deletion vectors, but delta.enableDeletionVectors is set to false "
        "for the clone."
    )
    todo = "Leave out this property, or run REORG TABLE ... APPLY (PURGE) on the source first."


class ReplacedTableMissingError(TableNotFoundError):
    condition = "DELTA_CANNOT_REPLACE_MISSING_TABLE"
    what = "{table} cannot be replaced, because it does not exist."
    todo = "Create it with CREATE TABLE, or use CREATE OR REPLACE TABLE."
