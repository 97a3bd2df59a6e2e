"""VACUUM, OPTIMIZE, RESTORE or repair cannot run as it was asked for."""

from __future__ import annotations

from tahoe.errors.root import DeltaAnalysisError, DeltaError
from tahoe.errors.tables import TimestampOutOfRangeError, VersionNotFoundError


class VacuumRetentionNegativeError(DeltaAnalysisError):
    condition = "DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE"
    sqlstate = "22003"
    pyspark_class = "IllegalArgumentException"
    what = "VACUUM of {table}: the retention is {hours} h, but it cannot be negative."
    todo = (
        "Give a number of hours from 0, or leave it out to use the table property delta.deletedFileRetentionDuration."
    )


class VacuumRetentionTooShortError(DeltaAnalysisError):
    condition = "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"
    sqlstate = "22003"
    pyspark_class = "IllegalArgumentException"
    what = (
        "VACUUM of {table}: the retention of {hours} h is shorter than that of the table, "
        "{configuredRetentionHours} h. It could delete files that a running writer has not committed yet, or that a "
        "running query still reads. Nothing was deleted."
    )
    todo = (
        "Give at least {configuredRetentionHours} h, or change the table property "
        "delta.deletedFileRetentionDuration. If nobody else uses the table, disable the check: "
        "spark.databricks.delta.retentionDurationCheck.enabled = false in Spark, retention_check=False in Python, "
        "--no-retention-check on the command line."
    )


class CannotVacuumLiteError(DeltaAnalysisError):
    condition = "DELTA_CANNOT_VACUUM_LITE"
    sqlstate = "55000"
    what = (
        "VACUUM LITE of {table}: {detail}, so the log alone does not tell which files are no longer needed. Nothing "
        "was deleted."
    )
    todo = "Run VACUUM FULL once; later runs can be LITE."


class InvalidInventoryError(DeltaAnalysisError):
    condition = "DELTA_INVALID_INVENTORY_SCHEMA"
    sqlstate = "42000"
    what = "VACUUM of {table}: the inventory needs the columns {expectedSchema}, but {detail}. Nothing was deleted."
    todo = "Select these columns with these types; more columns are allowed."


class VacuumPartitionError(DeltaAnalysisError):
    condition = "DELTA_UNSUPPORTED_VACUUM_SPECIFIC_PARTITION"
    sqlstate = "0AKDC"
    what = "{table} is a partition of the Delta table {baseDeltaPath}: VACUUM deletes files of whole tables only."
    todo = "Run it on {baseDeltaPath}."


class ErasureIncompleteError(DeltaAnalysisError):
    condition = "DELTA_ERASURE_INCOMPLETE"
    sqlstate = "55000"
    what = (
        "{table}: the rows are deleted, but files of earlier versions that still have them are not: {detail}, so "
        "the log does not tell these files from those that a writer is about to commit."
    )
    todo = (
        "When no writer is at work, erase again with retention_check=False in Python or --no-retention-check on the "
        "command line."
    )


class RepairUncertainError(DeltaError):
    condition = "DELTA_REPAIR_UNCERTAIN"
    sqlstate = "58030"
    what = "{table}: repair cannot look at every file, so it cannot tell which files are gone: {detail}. {done}"
    todo = "Make sure that the storage answers and that you may read every file, and repair again."


class ZOrderPartitionColumnError(DeltaAnalysisError):
    condition = "DELTA_ZORDERING_ON_PARTITION_COLUMN"
    sqlstate = "42P10"
    what = (
        "{table} cannot be ordered by {colName}, because it is partitioned by it: all rows of a file have the same "
        "value."
    )
    todo = "Leave the column out of ZORDER BY. To rewrite some partitions only, use WHERE."


class ZOrderColumnNotFoundError(DeltaAnalysisError):
    condition = "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST"
    sqlstate = "42703"
    what = "{table} cannot be ordered by {columnName}, because it has no such column. Its columns are {columns}."
    todo = "Use one of these columns, or a field of one of them such as column.field."


class ZOrderStatisticsError(DeltaAnalysisError):
    condition = "DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS"
    sqlstate = "KD00D"
    what = "{table} cannot be ordered by {cols}: {detail}."
    todo = "{remedy}"


class ClusteringWithPredicateError(DeltaAnalysisError):
    condition = "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE"
    sqlstate = "0A000"
    what = (
        "OPTIMIZE of the clustered table {table} chooses the files itself, and does not accept the condition "
        "{predicates}."
    )
    todo = (
        "Leave out the condition. OPTIMIZE rewrites only what was added since the last time, and what must be merged "
        "with it."
    )


class ClusteringWithZOrderError(DeltaAnalysisError):
    condition = "DELTA_CLUSTERING_WITH_ZORDER_BY"
    sqlstate = "42613"
    what = (
        "{table} is a clustered table: OPTIMIZE orders its rows by the clustering columns, and does not accept ZORDER "
        "BY ({zOrderBy})."
    )
    todo = (
        "Leave out ZORDER BY, or change the columns with ALTER TABLE ... CLUSTER BY ({zOrderBy}) and run OPTIMIZE FULL."
    )


class OptimizeFullNotSupportedError(DeltaAnalysisError):
    condition = "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED"
    sqlstate = "42601"
    what = "OPTIMIZE FULL lays out all rows of a clustered table by its clustering columns, but {table} has none."
    todo = "Leave out FULL, or choose the columns with ALTER TABLE ... CLUSTER BY (...)."


class RestoreVersionError(VersionNotFoundError):
    condition = "DELTA_CANNOT_RESTORE_TABLE_VERSION"
    what = "{table} cannot be restored to version {version}: versions {startVersion} to {endVersion} are available."
    todo = "Choose a version in that range; DESCRIBE HISTORY lists them."
    bounds = ("startVersion", "endVersion")
    single = (
        "{table} cannot be restored to version {version}: only version {endVersion} is available.",
        "There is nothing to restore.",
    )


class RestoreTimestampTooEarlyError(TimestampOutOfRangeError):
    condition = "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER"
    what = (
        "{table} cannot be restored to {requestedTimestamp}: the earliest version that can be read is "
        "{earliestTimestamp}."
    )
    todo = "Choose a later timestamp, or a version; DESCRIBE HISTORY lists them."


class RestoreTimestampTooLateError(TimestampOutOfRangeError):
    condition = "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER"
    what = "{table} cannot be restored to {requestedTimestamp}: the latest version is {latestTimestamp}."
    todo = "Choose an earlier timestamp, or a version; DESCRIBE HISTORY lists them."


class RestoreRetentionError(DeltaAnalysisError):
    condition = "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION"
    sqlstate = "0AKDC"
    what = (
        "{table} cannot be restored to version {version}, which is older than delta.deletedFileRetentionDuration, "
        "{deletedFileRetention} h: VACUUM may have deleted its files, or may be about to."
    )
    todo = (
        "Raise that property of the table. Or, if no VACUUM runs at the same time, disable the check: "
        "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration = false in Spark, "
        "retention_check=False in Python, --no-retention-check on the command line. RESTORE then still verifies "
        "that the files exist."
    )


class RestoreBesideVacuumError(DeltaAnalysisError):
    condition = "DELTA_RESTORE_BESIDE_VACUUM"
    sqlstate = "55006"
    what = (
        "{table} was not restored to version {version}: by the log, the VACUUM that began at version "
        "{vacuumVersion} has not ended. It keeps versions from {kept} on, and may be deleting files of earlier ones."
    )
    todo = (
        "Restore again when the VACUUM has ended. If it was killed, disable the check: "
        "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration = false in Spark, "
        "retention_check=False in Python, --no-retention-check on the command line. RESTORE then still verifies "
        "that the files exist."
    )


class RestoreFilesMissingError(DeltaError):
    condition = "DELTA_RESTORE_FILES_MISSING"
    sqlstate = "42K03"
    pyspark_class = "IllegalArgumentException"
    what = (
        "{table} was not restored. Not all files from version {version} are available in file system, {count} are "
        "missing: {files}."
    )
    todo = (
        "Restore a more recent version, or bring the files back from a backup. To restore what is left, set "
        "spark.sql.files.ignoreMissingFiles = true in Spark, ignore_missing_files=True in Python, "
        "--ignore-missing-files in the command line, and then remove the missing files with FSCK REPAIR TABLE."
    )
