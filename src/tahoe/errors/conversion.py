"""CONVERT TO DELTA, and manifests for other engines."""

from __future__ import annotations

from tahoe.errors.root import DeltaAnalysisError, DeltaError
from tahoe.errors.table_changes import InvalidPropertyError

_NOTHING = "Nothing was changed."


class NoProviderToConvertError(DeltaAnalysisError):
    condition = "DELTA_MISSING_PROVIDER_FOR_CONVERT"
    sqlstate = "0AKDC"
    what = "CONVERT TO DELTA {table}: a path needs the format of its files, and only Parquet files can be converted."
    todo = "Write parquet.`{table}`."


class NotParquetTableError(DeltaAnalysisError):
    condition = "DELTA_CONVERT_NON_PARQUET_TABLE"
    sqlstate = "0AKDC"
    what = "CONVERT TO DELTA converts only Parquet tables, but {table} is a table of the format {sourceName}."
    todo = "{remedy}"


class EmptyFolderError(DeltaAnalysisError):
    condition = "DELTA_EMPTY_DIRECTORY"
    sqlstate = "42K03"
    what = "There is no data file in {table}. Files and folders whose names begin with _ or . are ignored."
    todo = "Check the path. For a new table without rows, use CREATE TABLE."


class UnexpectedPartitionCountError(DeltaAnalysisError):
    condition = "DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME"
    sqlstate = "KD009"
    what = (
        "{table}: {expectedColsSize} partition columns were given ({expectedCols}), but the folders of {path} have "
        f"{{parsedColsSize}} ({{parsedCols}}). {_NOTHING}"
    )
    todo = (
        "Give all partition columns with their types in the order of the folders: PARTITIONED BY (name TYPE, ...) "
        "in SQL, partition_schema in Python, --partition name:type on the command line."
    )


class UnexpectedPartitionColumnError(DeltaAnalysisError):
    condition = "DELTA_UNEXPECTED_PARTITION_COLUMN_FROM_FILE_NAME"
    sqlstate = "KD009"
    what = f"{{table}}: expected the partition column {{expectedCol}}, but found {{parsedCol}} in {{path}}. {_NOTHING}"
    todo = "Give the partition columns in the order of the folders."


class PartitionCastFailedError(DeltaAnalysisError):
    condition = "DELTA_FAILED_CAST_PARTITION_VALUE"
    sqlstate = "22018"
    what = (
        "{table}: {value} in the path {path} is not a value of type {dataType}, the type of the partition column "
        f"{{columnName}}. {_NOTHING}"
    )
    todo = (
        "Give the column another type, such as STRING. To read such values as null, set "
        "spark.databricks.delta.convert.partitionValues.ignoreCastFailure = true."
    )


class PartitionSchemaOfCatalogError(DeltaAnalysisError):
    condition = "DELTA_UNEXPECTED_PARTITION_SCHEMA_FROM_USER"
    sqlstate = "KD009"
    what = (
        "CONVERT TO DELTA of {table}: the statement's partition columns ({userPartitionSchema}) differ from "
        f"those in the catalog ({{catalogPartitionSchema}}). {_NOTHING}"
    )
    todo = "Leave PARTITIONED BY out: the catalog knows the partition columns."


class CatalogPropertiesMismatchError(DeltaAnalysisError):
    condition = "DELTA_CONVERT_METASTORE_METADATA_MISMATCH"
    sqlstate = "42K03"
    what = (
        "CONVERT TO DELTA of {table}: its folder is a Delta table already, whose properties ({configuration}) "
        f"differ from those in the catalog ({{tableProperties}}). {_NOTHING}"
    )
    todo = "To merge them, with the catalog's values first, set {metadataCheckSqlConf} = false."


class NoCatalogPartitionError(DeltaAnalysisError):
    condition = "DELTA_CONVERSION_NO_PARTITION_FOUND"
    sqlstate = "42KD6"
    what = f"{{table}}: the catalog knows no partition of the table. {_NOTHING}"
    todo = "Run MSCK REPAIR TABLE {table} first, or set spark.databricks.delta.convert.useCatalogPartitions = false."


class ConversionColumnMappingError(DeltaAnalysisError):
    condition = "DELTA_CONVERSION_UNSUPPORTED_COLUMN_MAPPING"
    sqlstate = "0AKDC"
    what = (
        f"CONVERT TO DELTA of {{table}}: {{config}} cannot be {{mode}}, because the files have no physical names. "
        f"{_NOTHING}"
    )
    todo = "Convert the table without column mapping, and enable it afterwards with ALTER TABLE ... SET TBLPROPERTIES."


class ConversionWithoutStatisticsError(DeltaAnalysisError):
    condition = "DELTA_CONVERT_TO_DELTA_ROW_TRACKING_WITHOUT_STATS"
    sqlstate = "22000"
    what = (
        f"CONVERT TO DELTA of {{table}}: row tracking numbers the rows, so it needs their counts from the statistics. "
        f"{_NOTHING}"
    )
    todo = (
        "Leave NO STATISTICS out and set {statisticsCollectionPropertyKey} = true, or set "
        "{rowTrackingDefaultPropertyKey} = false."
    )


class FileSchemaMismatchError(DeltaAnalysisError):
    condition = "DELTA_FAILED_MERGE_SCHEMA_FILE"
    sqlstate = "42KDA"
    what = f"{{table}}: the schema of {{file}} cannot be merged with that of other files: {{detail}}. {_NOTHING}"
    todo = (
        "Rewrite the file with the type of the other files, or move it out of the folder. The file's columns are "
        "{schema}."
    )


class UnreadableFooterError(DeltaError):
    condition = "DELTA_FAILED_READ_FILE_FOOTER"
    sqlstate = "KD001"
    what = f"{{table}}: {{file}} cannot be read as a Parquet file: {{detail}}. {_NOTHING}"
    todo = "Move the file out of the folder, or give it a name that begins with _ or . , and convert again."


class FilesChangedError(DeltaError):
    condition = "DELTA_CONVERT_FILES_CHANGED"
    sqlstate = "40001"
    what = "{table}: another program adds, replaces or deletes files while they are examined, last {file}. " + _NOTHING
    todo = "Stop the program that writes to the folder, and convert again."


class ManifestModeError(DeltaAnalysisError):
    condition = "DELTA_MODE_NOT_SUPPORTED"
    sqlstate = "0AKDC"
    pyspark_class = "IllegalArgumentException"
    what = "GENERATE for {table}: the mode {mode} is not supported. Supported modes are: {supportedModes}."
    todo = "Write GENERATE symlink_format_manifest FOR TABLE ..."


class ManifestsWithVectorsError(DeltaAnalysisError):
    condition = "DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS"
    sqlstate = "0A000"
    what = "{table} has deletion vectors: a reader of manifests would return deleted rows."
    todo = (
        "Set the table property delta.enableDeletionVectors = false, remove the vectors with REORG TABLE ... APPLY "
        "(PURGE), and generate again."
    )


class ManifestsWithColumnMappingError(DeltaAnalysisError):
    condition = "DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING"
    sqlstate = "0AKDC"
    what = "{table} uses column mapping: a reader of manifests would not find its columns in the files."
    todo = "Drop the feature columnMapping first, or read the table with an engine that reads Delta."


class ManifestsWithNullTextError(DeltaAnalysisError):
    condition = "DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_NULL_TEXT"
    sqlstate = "0A000"
    what = "Partition column {column} of {table} has the text {text}: a reader of manifests would return NULL for it."
    todo = "Change the text, or read the table with an engine that reads Delta."


class ManifestPropertyError(InvalidPropertyError):
    condition = "DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED"
    sqlstate = "0A000"
    todo = "{remedy}"


class PostCommitHookFailedError(DeltaError):
    condition = "DELTA_POST_COMMIT_HOOK_FAILED"
    sqlstate = "2DKD0"
    what = "{table}: version {version} is committed, but the post-commit hook {name} failed: {message}"
    todo = (
        "Do not repeat the write. Remove the cause, and bring the manifests up to date with GENERATE "
        "symlink_format_manifest FOR TABLE."
    )
