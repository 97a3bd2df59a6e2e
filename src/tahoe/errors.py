"""Everything that tahoe raises, as one tree.

    DeltaError
    ├── DeltaAnalysisError            what the user asked for cannot be done to this table
    │   ├── TableNotFoundError, NotADeltaTableError, TableExistsError, PathIsNotEmptyError, PathOutsideTableError; below the first
    │   │   TableNameNotFoundError, below the second NameOfAnotherKindError, PathIsFileError
    │   ├── VersionNotFoundError, TimestampOutOfRangeError, InvalidTimeTravelError, SchemaChangedError
    │   ├── ChangeBoundaryNullError, ChangeStartMissingError, ChangeBoundaryTwiceError, ChangeStartTooLateError,
    │   │   InvalidChangeRangeError, ChangesNotRecordedError,
    │   │   IncompatibleChangesError; below it IncompatibleChangeDataError
    │   ├── SchemaMismatchError, DuplicateColumnsError, UnsupportedDataTypeError, ColumnNotFoundError, PartitionMismatchError,
    │   │   NotNullViolationError, CheckConstraintViolatedError, InvalidColumnNameError; below the first ConstraintDependsError,
    │   │   GeneratedColumnDependsError, DropClusteringColumnError, NoColumnsError
    │   ├── ColumnChangeError; below it NewColumnNotNullError, DefaultOfNewColumnError, ParentNotStructError,
    │   │   RenameColumnUnsupportedError, DropColumnUnsupportedError, DropPartitionColumnError, DropLastFieldError,
    │   │   ColumnTypeChangeError, StructTypeChangeError, ArrayTypeChangeError, MapTypeChangeError, IdentityColumnChangeError,
    │   │   IdentityReplaceColumnsError
    │   ├── InvalidClusteringError; below it ClusteredAndPartitionedError, TooManyClusteringColumnsError, ClusteringStatisticsError
    │   ├── NotPartitionedError, ConstraintExistsError, ConstraintNotFoundError, ConstraintNotBooleanError
    │   ├── GeneratedValueMismatchError, GeneratedColumnReferenceError, GeneratedColumnExpressionTypeError, GeneratedColumnTypeError,
    │   │   GeneratedColumnExpressionError; below it AggregateInGeneratedColumnError, FunctionInGeneratedColumnError,
    │   │   NonDeterministicGeneratedColumnError
    │   ├── InvalidIdentityColumnError, NotAnIdentityColumnError, IdentityColumnTypeError, PartitionedByIdentityError,
    │   │   IdentityValueGivenError, IdentityUpdateError, IdentityOverflowError, ColumnDefaultsNotEnabledError
    │   ├── FeatureDropError; below it UnknownFeatureError, PropertyNoFeatureError, FeatureNotPresentError, FeatureNotDroppableError,
    │   │   DependentFeatureError, FeatureInUseError, FeatureInHistoryError, FeatureDropWaitsError, NoHistoryToTruncateError,
    │   │   CheckpointProtectionKeptError
    │   ├── InvalidPropertyError, InvalidOptionError, InvalidPredicateError, ReplaceWhereMismatchError; below the first
    │   │   UnknownFeaturePropertyError
    │   ├── InvalidArgumentError          a method was given a value of another kind
    │   ├── ConflictingAssignmentsError, InvalidMergeError, MultipleSourceRowsError
    │   ├── StatementSyntaxError          the SQL cannot be read
    │   └── UnsupportedOperationError, OperationNotYetSupportedError, AppendOnlyTableError; below the first
    │       OperationNotAllowedError, below the second StreamNotYetSupportedError
    ├── DeltaProtocolError            the table asks for more than this version of tahoe can do
    │   ├── UnsupportedReaderFeatureError, UnsupportedWriterFeatureError, UnsupportedProtocolVersionError,
    │   │   UnsupportedTypeChangeError, UnsupportedFileFormatError, WriteNotImplementedError
    ├── DeltaLogError                 the log breaks the protocol
    │   ├── InvalidLogFileError, InvalidCommitError, MissingVersionError, MissingActionError, CorruptCheckpointError,
    │   │   CorruptCompactedLogError, InvalidActionError, InvalidPathError, InvalidPartitionValueError; below the third CommitGoneError
    ├── DeltaDataError                a file that the log names is not what the log says
    │   ├── DataFileMissingError, InvalidDataFileError, DeletionVectorError
    ├── DeltaConcurrentModificationException   another writer won, and what it did matters to this one
    │   ├── ConcurrentWriteException, MetadataChangedException, ProtocolChangedException, ConcurrentAppendException,
    │   │   ConcurrentDeleteReadException, ConcurrentDeleteDeleteException, ConcurrentTransactionException; below it
    │   │   WriteAlreadyRecordedError
    ├── DeltaStorageError             the storage did not do what it was asked
    │   ├── StorageUnavailableError; below it StorageRefusedError with AtomicCreateUnsupportedError, ConditionalCreateIgnoredError,
    │   │   ForkedProcessError, CommitEntryError, CommitTableMissingError, PackageMissingError
    │   ├── UnsupportedStorageError, CommitOutcomeUnknownError, CommitAttemptsExceededError
    └── DeltaSessionError             the Spark session cannot be used
        └── PySparkMissingError, NoGatewayError, UnsupportedSparkVersionError, ReferenceJarPresentError, SessionNotEnabledError,
            WriteFailedError, CommandCancelledError

A class holds a condition (the reference's name where it has one), an SQLSTATE, and two templates: what happened, and what to do next.
It is raised with the keyword parameters that the templates name. Under Spark it is an exception of PySpark's as well, such as
`AnalysisException`.
"""

from __future__ import annotations

import string as _string
from typing import Any as _Any
from typing import ClassVar as _ClassVar


class DeltaError(Exception):
    """The root of the tree. Catch it to catch whatever tahoe raises.

    Attributes:
        condition: the error's name, stable between versions (``DELTA_TABLE_NOT_FOUND``).
        sqlstate: five characters of the SQL standard.
        pyspark_class: the class of `pyspark.errors` that it is as well where it is raised under Spark; the reference's where it has one.
        parameters: the values that the message was made from, by name.
        next_step: what the reader of the message can do now.
    """

    condition: _ClassVar[str] = "DELTA_ERROR"
    sqlstate: _ClassVar[str] = "XXKDS"
    pyspark_class: _ClassVar[str] = "PySparkException"
    what: _ClassVar[str] = "{detail}"
    todo: _ClassVar[str] = "Please report this with the table's log."

    def __init__(self, **parameters: _Any) -> None:
        expected = self.parameter_names()
        if set(parameters) != expected:
            raise TypeError(f"{type(self).__name__} takes {sorted(expected)}, got {sorted(parameters)}")
        self.parameters: dict[str, _Any] = parameters
        self.next_step: str = self.todo.format(**parameters)
        super().__init__(f"[{self.condition}] {self.what.format(**parameters)} {self.next_step} SQLSTATE: {self.sqlstate}")

    @classmethod
    def parameter_names(cls) -> set[str]:
        """The names that the two templates use, which are the keywords that the constructor takes."""
        used = _string.Formatter().parse(cls.what + cls.todo)
        return {name.split(".")[0].split("[")[0] for _, name, _, _ in used if name}

    def __reduce__(self) -> _Any:
        return (_rebuild, (type(self), self.parameters))


def _rebuild(kind: type[DeltaError], parameters: dict[str, _Any]) -> DeltaError:
    return kind(**parameters)


# --- what the user asked for cannot be done to this table


class DeltaAnalysisError(DeltaError):
    condition = "DELTA_ANALYSIS_ERROR"
    sqlstate = "42000"
    pyspark_class = "AnalysisException"


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


class ChangeStartMissingError(DeltaAnalysisError):
    condition = "DELTA_NO_START_FOR_CDC_READ"
    sqlstate = "42601"
    what = "The changes of {table} were asked for without a start."
    todo = "Give the first version, or the time, from which on they are wanted: startingVersion or startingTimestamp."


class ChangeBoundaryNullError(DeltaAnalysisError):
    condition = "DELTA_CDC_READ_NULL_RANGE_BOUNDARY"
    sqlstate = "22004"
    pyspark_class = "IllegalArgumentException"
    what = "The changes of {table} were asked for with a {boundary} that is null."
    todo = "Give a version or a time, or leave the end out."


class ChangeBoundaryTwiceError(DeltaAnalysisError):
    condition = "DELTA_MULTIPLE_CDC_BOUNDARY"
    sqlstate = "42614"
    what = "The changes of {table} were asked for with two {boundary} points, the version {version} and the time {timestamp}."
    todo = "Give one of the two."


class ChangeStartTooLateError(DeltaAnalysisError):
    condition = "DELTA_CDC_START_VERSION_AFTER_LATEST"
    sqlstate = "22003"
    pyspark_class = "IllegalArgumentException"
    what = "The changes of {table} were asked for from version {start} on, and its newest version is {latest}."
    todo = "Start at a version that is there."


class InvalidChangeRangeError(DeltaAnalysisError):
    condition = "DELTA_INVALID_CDC_RANGE"
    sqlstate = "22003"
    pyspark_class = "IllegalArgumentException"
    what = "The changes of {table} were asked for from {start} to {end}, which is before."
    todo = "Give an end that is not before the start."


class ChangesNotRecordedError(DeltaAnalysisError):
    condition = "DELTA_MISSING_CHANGE_DATA"
    sqlstate = "KD002"
    what = (
        "The changes of {table} from version {start} to {end} cannot be read: the change data feed is not enabled at version {version}; "
        "that takes delta.enableChangeDataFeed=true and the table feature changeDataFeed."
    )
    todo = "Ask for versions at which it is: the table's history tells since when, and changes before that were not recorded."


class IncompatibleChangesError(DeltaAnalysisError):
    condition = "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE"
    sqlstate = "0AKDC"
    what = (
        "The changes of {table} from version {start} to {end} cannot be read by the schema of version {schema_version}: it does not "
        "fit what the table has at version {version}, {changed}."
    )
    todo = "{remedy}"


class IncompatibleChangeDataError(IncompatibleChangesError):
    """It is the schema at the start of the range that does not fit."""

    condition = "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA"


class SchemaMismatchError(DeltaAnalysisError):
    condition = "DELTA_SCHEMA_MISMATCH"
    sqlstate = "42KDG"
    what = "The data does not fit the schema of {table}: {detail}."
    todo = "{remedy}"


class NoColumnsError(SchemaMismatchError):
    condition = "DELTA_EMPTY_DATA"
    sqlstate = "428GU"
    what = "The data for {table} has no columns, and so there is nothing that a file could hold."
    todo = "Write data with at least one column."


class DuplicateColumnsError(DeltaAnalysisError):
    condition = "DELTA_DUPLICATE_COLUMNS_FOUND"
    sqlstate = "42711"
    what = "The schema for {table} has more than one column called {columns}; names are compared without regard to case."
    todo = "Rename columns so that each name is unique."


class UnsupportedDataTypeError(DeltaAnalysisError):
    condition = "DELTA_UNSUPPORTED_DATA_TYPES"
    sqlstate = "0AKDC"
    what = "A Delta table cannot hold column {column} of {table}: its type is {type}."
    todo = (
        "Cast the column to a type that Delta has: string, numbers, boolean, binary, date, timestamp, timestamp_ntz, struct, array, "
        "map, variant."
    )


class ColumnNotFoundError(DeltaAnalysisError):
    condition = "DELTA_COLUMN_NOT_FOUND"
    sqlstate = "42703"
    what = "There is no column {column} in {table}; it has {columns}."
    todo = "Check the spelling; names are compared without regard to case."


class PartitionMismatchError(DeltaAnalysisError):
    condition = "DELTA_PARTITION_MISMATCH"
    sqlstate = "42KD5"
    what = "{table} is partitioned by {expected}, and the write asked for {found}."
    todo = "Leave out partitionBy, or replace the table with overwriteSchema and mode overwrite."


class NotPartitionedError(DeltaAnalysisError):
    condition = "DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE"
    sqlstate = "42809"
    what = "{table} is not partitioned, and so has no partitions to show."
    todo = "Look at its columns with DESCRIBE TABLE."


class NotNullViolationError(DeltaAnalysisError):
    condition = "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
    sqlstate = "23502"
    what = "Column {column} of {table} is NOT NULL, and the data holds a null in it."
    todo = "Filter or fill the nulls."


class CheckConstraintViolatedError(DeltaAnalysisError):
    condition = "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
    sqlstate = "23001"
    what = "A row of {table} does not satisfy {constraint} ({expression}): it has {values}."
    todo = "Filter or mend such rows, or drop the constraint; a condition that is null is not satisfied."


class GeneratedValueMismatchError(DeltaAnalysisError):
    condition = "DELTA_VIOLATE_GENERATED_COLUMN_WITH_VALUES"
    sqlstate = "23001"
    what = "Column {column} of {table} is generated as {expression}, and a row has another value in it: it has {values}."
    todo = "Leave the column out of the data, so that it is computed, or give that value."


class GeneratedColumnReferenceError(DeltaAnalysisError):
    condition = "DELTA_INVALID_GENERATED_COLUMN_REFERENCES"
    sqlstate = "42621"
    what = "The generated column {column} of {table} cannot be {expression}: {detail}."
    todo = "Name columns of the table that are not generated themselves."


class GeneratedColumnExpressionTypeError(DeltaAnalysisError):
    condition = "DELTA_GENERATED_COLUMNS_EXPR_TYPE_MISMATCH"
    sqlstate = "42K09"
    what = "The generated column {column} of {table} is {type}, and its expression {expression} is {found}."
    todo = "Cast the expression to the column's type."


class GeneratedColumnTypeError(DeltaAnalysisError):
    condition = "DELTA_UNSUPPORTED_DATA_TYPE_IN_GENERATED_COLUMN"
    sqlstate = "42621"
    what = "The generated column {column} of {table} cannot be {type}, whose values cannot be compared."
    todo = "Give the column another type."


class GeneratedColumnExpressionError(DeltaAnalysisError):
    condition = "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN"
    sqlstate = "42621"
    what = "The generated column {column} of {table} cannot be {expression}: {detail}."
    todo = "Use an expression that gives one value for a row, and the same one every time."


class AggregateInGeneratedColumnError(GeneratedColumnExpressionError):
    condition = "DELTA_AGGREGATE_IN_GENERATED_COLUMN"


class FunctionInGeneratedColumnError(GeneratedColumnExpressionError):
    condition = "DELTA_UDF_IN_GENERATED_COLUMN"


class NonDeterministicGeneratedColumnError(GeneratedColumnExpressionError):
    condition = "DELTA_NON_DETERMINISTIC_EXPRESSION_IN_GENERATED_COLUMN"


class InvalidIdentityColumnError(DeltaAnalysisError):
    condition = "DELTA_IDENTITY_COLUMN_INCONSISTENT_METADATA"
    sqlstate = "42000"
    what = "Column {column} of {table} cannot be an identity column: {detail}."
    todo = "Give an identity column a start, a step other than 0, and nothing else that makes its values."


class NotAnIdentityColumnError(DeltaAnalysisError):
    condition = "DELTA_IDENTITY_COLUMNS_ALTER_NON_IDENTITY_COLUMN"
    sqlstate = "429BQ"
    what = "Column {column} of {table} is no identity column, and has no mark to be synchronised."
    todo = "Name an identity column; the table's schema tells which they are."


class IdentityColumnTypeError(DeltaAnalysisError):
    condition = "DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE"
    sqlstate = "428H2"
    pyspark_class = "UnsupportedOperationException"
    what = "The identity column {column} of {table} cannot be {type}."
    todo = "Give it the type long (BIGINT in SQL)."


class PartitionedByIdentityError(DeltaAnalysisError):
    condition = "DELTA_IDENTITY_COLUMNS_PARTITION_NOT_SUPPORTED"
    sqlstate = "42601"
    what = "{table} cannot be partitioned by its identity column {column}: each row would be a partition."
    todo = "Partition by another column, or by none."


class IdentityValueGivenError(DeltaAnalysisError):
    condition = "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED"
    sqlstate = "42808"
    what = "The data for {table} has values for its identity column {column}, which always generates them."
    todo = "Leave the column out of the data; only columns generated by default take values (generatedByDefaultAs)."


class IdentityUpdateError(DeltaAnalysisError):
    condition = "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED"
    sqlstate = "42808"
    what = "The identity column {column} of {table} cannot be updated."
    todo = "Leave it out of the assignments; delete the row and insert it again if it must get another number."


class IdentityOverflowError(DeltaAnalysisError):
    condition = "DELTA_IDENTITY_COLUMN_OVERFLOW"
    sqlstate = "22003"
    what = "The identity column {column} of {table} has no values left: its mark is at {mark}, and {step} further is no long."
    todo = "Write the rows to a new table whose identity column starts anew."


class ColumnDefaultsNotEnabledError(DeltaAnalysisError):
    condition = "WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED"
    sqlstate = "0AKDE"
    what = "Columns of {table} cannot have default values ({columns}): the table does not support allowColumnDefaults."
    todo = "Set the table property delta.feature.allowColumnDefaults = supported."


class InvalidColumnNameError(DeltaAnalysisError):
    condition = "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"
    sqlstate = "42K05"
    what = "Column name {column} of {table} has one of the characters space , ; {{ }} ( ) newline tab =, which its files cannot hold."
    todo = "Rename the column, or create the table with delta.columnMapping.mode = name."


class ConstraintDependsError(SchemaMismatchError):
    condition = "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE"
    sqlstate = "42K09"


class GeneratedColumnDependsError(SchemaMismatchError):
    condition = "DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE"
    sqlstate = "42K09"


class DropClusteringColumnError(SchemaMismatchError):
    condition = "DELTA_UNSUPPORTED_DROP_CLUSTERING_COLUMN"
    sqlstate = "0AKDC"


class ColumnChangeError(DeltaAnalysisError):
    """Base of the refusals to change one column of a table."""

    condition = "DELTA_COLUMN_CHANGE"
    sqlstate = "0AKDC"
    what = "Column {column} of {table} cannot be changed so: {detail}."
    todo = "{remedy}"


class NewColumnNotNullError(ColumnChangeError):
    condition = "DELTA_OPERATION_NOT_ALLOWED"
    what = "Column {column} cannot be added to {table}: {detail}."


class DefaultOfNewColumnError(ColumnChangeError):
    condition = "WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED"
    what = "Column {column} cannot be added to {table} with a default value: {detail}."


class ParentNotStructError(ColumnChangeError):
    condition = "DELTA_ADD_COLUMN_PARENT_NOT_STRUCT"
    sqlstate = "42KD3"


class RenameColumnUnsupportedError(ColumnChangeError):
    condition = "DELTA_UNSUPPORTED_RENAME_COLUMN"
    what = "Column {column} of {table} cannot be renamed: {detail}."


class DropColumnUnsupportedError(ColumnChangeError):
    condition = "DELTA_UNSUPPORTED_DROP_COLUMN"
    what = "Column {column} of {table} cannot be dropped: {detail}."


class DropPartitionColumnError(ColumnChangeError):
    condition = "DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN"
    what = "Column {column} of {table} cannot be dropped: {detail}."


class DropLastFieldError(ColumnChangeError):
    condition = "DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA"
    what = "Column {column} of {table} cannot be dropped: {detail}."


class ColumnTypeChangeError(ColumnChangeError):
    condition = "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP"


class StructTypeChangeError(ColumnChangeError):
    condition = "DELTA_CANNOT_UPDATE_STRUCT_FIELD"
    sqlstate = "429BQ"


class ArrayTypeChangeError(ColumnChangeError):
    condition = "DELTA_CANNOT_UPDATE_ARRAY_FIELD"
    sqlstate = "429BQ"


class MapTypeChangeError(ColumnChangeError):
    condition = "DELTA_CANNOT_UPDATE_MAP_FIELD"
    sqlstate = "429BQ"


class IdentityColumnChangeError(ColumnChangeError):
    condition = "DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED"
    sqlstate = "429BQ"


class IdentityReplaceColumnsError(ColumnChangeError):
    condition = "DELTA_IDENTITY_COLUMNS_REPLACE_COLUMN_NOT_SUPPORTED"
    sqlstate = "429BQ"


class InvalidClusteringError(DeltaAnalysisError):
    condition = "DELTA_INVALID_CLUSTERING"
    sqlstate = "42000"
    what = "{table} cannot be clustered by {columns}: {detail}."
    todo = "{remedy}"


class ClusteredAndPartitionedError(InvalidClusteringError):
    condition = "DELTA_CLUSTER_BY_WITH_PARTITIONED_BY"
    sqlstate = "42613"


class TooManyClusteringColumnsError(InvalidClusteringError):
    condition = "DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS"
    sqlstate = "54000"


class ClusteringStatisticsError(InvalidClusteringError):
    condition = "DELTA_CLUSTERING_COLUMN_MISSING_STATS"
    sqlstate = "22000"


class ConstraintExistsError(DeltaAnalysisError):
    condition = "DELTA_CONSTRAINT_ALREADY_EXISTS"
    sqlstate = "42710"
    what = "{table} has a constraint {constraint} already: {expression}."
    todo = "Choose another name, or drop that one first."


class ConstraintNotFoundError(DeltaAnalysisError):
    condition = "DELTA_CONSTRAINT_DOES_NOT_EXIST"
    sqlstate = "42704"
    what = "{table} has no constraint {constraint}; it has {constraints}."
    todo = "Check the spelling, or use DROP CONSTRAINT IF EXISTS."


class ConstraintNotBooleanError(DeltaAnalysisError):
    condition = "DELTA_NON_BOOLEAN_CHECK_CONSTRAINT"
    sqlstate = "42621"
    what = "{expression} cannot be the constraint {constraint} of {table}: it is {type} and no condition."
    todo = "Give an expression that is true or false."


class InvalidPropertyError(DeltaAnalysisError):
    condition = "DELTA_INVALID_TABLE_PROPERTY"
    sqlstate = "42616"
    what = "The table property {property} of {table} cannot be {value}: {detail}."
    todo = "Give a value that the property takes, or leave it out."


class UnknownFeaturePropertyError(InvalidPropertyError):
    condition = "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG"
    sqlstate = "56038"
    what = "{property} asks for a feature of {table} that tahoe {tahoe_version} does not know."
    todo = "It knows {known}."


class FeatureDropError(DeltaAnalysisError):
    """A table feature cannot leave the table."""

    condition = "DELTA_FEATURE_DROP_ERROR"
    sqlstate = "0AKDE"
    what = "The feature {feature} cannot be dropped from {table}: {detail}."
    todo = "{remedy}"


class UnknownFeatureError(FeatureDropError):
    condition = "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"
    sqlstate = "0AKDC"


class PropertyNoFeatureError(FeatureDropError):
    condition = "DELTA_FEATURE_DROP_FEATURE_IS_DELTA_PROPERTY"
    sqlstate = "42000"


class FeatureNotPresentError(FeatureDropError):
    condition = "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"
    sqlstate = "55000"


class FeatureNotDroppableError(FeatureDropError):
    condition = "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE"
    sqlstate = "0AKDC"


class DependentFeatureError(FeatureDropError):
    condition = "DELTA_FEATURE_DROP_DEPENDENT_FEATURE"
    sqlstate = "55000"


class FeatureInUseError(FeatureDropError):
    condition = "DELTA_FEATURE_DROP_FEATURE_IN_USE"


class FeatureInHistoryError(FeatureDropError):
    condition = "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST"
    sqlstate = "22KD0"


class FeatureDropWaitsError(FeatureDropError):
    condition = "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD"
    sqlstate = "22KD0"


class NoHistoryToTruncateError(FeatureDropError):
    condition = "DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED"
    sqlstate = "42000"


class CheckpointProtectionKeptError(FeatureDropError):
    condition = "DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION"
    sqlstate = "55000"


class InvalidArgumentError(DeltaAnalysisError):
    """A method was given a value of a kind that it does not take."""

    condition = "DELTA_INVALID_ARGUMENT"
    sqlstate = "22023"
    pyspark_class = "IllegalArgumentException"
    what = "The argument {argument} cannot be {found} for {table}: it takes {expected}."
    todo = "{remedy}"


class InvalidOptionError(DeltaAnalysisError):
    condition = "DELTA_ILLEGAL_OPTION"
    sqlstate = "42616"
    pyspark_class = "IllegalArgumentException"
    what = "The option {option} cannot be {value} for {table}: {detail}."
    todo = "Give a value that the option takes, or leave it out."


class InvalidPredicateError(DeltaAnalysisError):
    condition = "DELTA_INVALID_PREDICATE"
    sqlstate = "42601"
    what = "The predicate {predicate} cannot be used on {table}: {detail}."
    todo = "Write it as SQL over the table's columns, with comparisons, IN, LIKE 'prefix%', IS NULL, AND, OR, NOT."


class ReplaceWhereMismatchError(DeltaAnalysisError):
    condition = "DELTA_REPLACE_WHERE_MISMATCH"
    sqlstate = "44000"
    what = "Data written to {table} with replaceWhere {predicate} has rows that the predicate does not hold for: {detail}."
    todo = "Filter the data by the predicate, or widen the predicate."


class ConflictingAssignmentsError(DeltaAnalysisError):
    condition = "DELTA_CONFLICT_SET_COLUMN"
    sqlstate = "42701"
    what = "{first} and {second} of {table} both get a value, and they are one column, or a struct and a field of it."
    todo = "Assign once to each: to the struct as a whole, or to its fields."


class InvalidMergeError(DeltaAnalysisError):
    condition = "DELTA_MERGE_INVALID_CLAUSES"
    sqlstate = "42601"
    what = "This MERGE into {table} cannot be run: {detail}."
    todo = "Nothing was read. Change the clauses."


class MultipleSourceRowsError(DeltaAnalysisError):
    condition = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
    sqlstate = "21506"
    pyspark_class = "UnsupportedOperationException"
    what = "Several rows of the source match one row of {table} by {condition} and would change it, for example that with {keys}."
    todo = "Leave one row for each key in the source, with dropDuplicates or an aggregate, or a narrower condition. Nothing was changed."


class UnsupportedOperationError(DeltaAnalysisError):
    condition = "DELTA_UNSUPPORTED_OPERATION"
    sqlstate = "0A000"
    what = "{operation} is not possible on the Delta table {table}: {detail}."
    todo = "{remedy}"


# What Arrow leaves to Spark's engine is left to it over Spark Connect as well, where rows pass through Arrow.
WITH_SPARKS_ENGINE = (
    'Do it with format("delta") in a Spark session with a JVM of its own, SparkSession.builder.master(...), after tahoe.enable(spark).'
)


class OperationNotAllowedError(UnsupportedOperationError):
    condition = "DELTA_OPERATION_NOT_ALLOWED_DETAIL"
    sqlstate = "0AKDC"


class OperationNotYetSupportedError(DeltaAnalysisError):
    """What was asked for is understood, and a later version of tahoe will do it."""

    condition = "DELTA_OPERATION_NOT_YET_SUPPORTED"
    sqlstate = "0A000"
    what = "tahoe {tahoe_version} cannot do {operation} yet, and has not touched {table}."
    todo = "Leave it out, or do it with another writer: the table stays one that tahoe reads and writes."


class StreamNotYetSupportedError(OperationNotYetSupportedError):
    condition = "DELTA_STREAM_NOT_YET_SUPPORTED"
    what = "tahoe {tahoe_version} cannot {operation} {table} as a stream yet, and has not touched it."
    todo = "{remedy}"


class StatementSyntaxError(DeltaAnalysisError):
    condition = "PARSE_SYNTAX_ERROR"
    sqlstate = "42601"
    pyspark_class = "ParseException"
    what = "Syntax error at or near {near}: expected {expected}."
    todo = "Mend it at line {line}, pos {position}.\n\n== SQL ==\n{excerpt}\n"

    @classmethod
    def at(cls, text: str, start: int, near: str, expected: str) -> StatementSyntaxError:
        """The error at a place in a text; `near` is what stands there, and nothing at its end."""
        before = text[:start]
        line, position = before.count("\n") + 1, start - (before.rfind("\n") + 1)
        lines = text.split("\n")
        caret = "-" * position + "^^^"
        excerpt = "\n".join([*lines[:line], caret, *lines[line:]])
        return cls(near=f"'{near}'" if near else "end of input", expected=expected, line=line, position=position, excerpt=excerpt)


class AppendOnlyTableError(DeltaAnalysisError):
    condition = "DELTA_CANNOT_MODIFY_APPEND_ONLY"
    sqlstate = "42809"
    pyspark_class = "UnsupportedOperationException"
    what = "{table} takes appends only (delta.appendOnly = true), and this write would remove or change rows."
    todo = "Use mode append, or set the table property delta.appendOnly to false first."


# --- the table asks for more than this version of tahoe can do


class DeltaProtocolError(DeltaError):
    condition = "DELTA_PROTOCOL_ERROR"
    sqlstate = "0A000"


class UnsupportedReaderFeatureError(DeltaProtocolError):
    condition = "DELTA_UNSUPPORTED_FEATURES_FOR_READ"
    sqlstate = "56038"
    what = "{table} cannot be read: it uses {features}, which tahoe {tahoe_version} does not know."
    todo = "Upgrade tahoe, or drop the feature with a writer that knows it."


class UnsupportedFileFormatError(DeltaProtocolError):
    condition = "DELTA_UNSUPPORTED_FILE_FORMAT"
    sqlstate = "0A000"
    what = "{table} cannot be read or written: its metadata says that its data files are {provider}, and tahoe knows only Parquet."
    todo = "Read it with the engine that made it, and copy the rows to a new table."


class UnsupportedWriterFeatureError(DeltaProtocolError):
    condition = "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"
    sqlstate = "56038"
    what = "{table} can be read but not written: it uses {features}, which tahoe {tahoe_version} does not know."
    todo = "Upgrade tahoe, or write with a writer that knows the feature."


class UnsupportedProtocolVersionError(DeltaProtocolError):
    condition = "DELTA_INVALID_PROTOCOL_VERSION"
    sqlstate = "KD004"
    what = "{table} asks for reader version {reader}, writer version {writer}; tahoe {tahoe_version} knows readers 1 to 3, writers 1 to 7."
    todo = "Upgrade tahoe."


class UnsupportedTypeChangeError(DeltaProtocolError):
    condition = "DELTA_UNSUPPORTED_TYPE_CHANGE_IN_PREVIEW"
    sqlstate = "0AKDC"
    what = "{table} cannot be read: column {column} was changed from {from_type} to {to_type}, which type widening does not allow."
    todo = "Read it with the writer that made the change, or upgrade tahoe."


class WriteNotImplementedError(DeltaProtocolError):
    condition = "DELTA_WRITE_NOT_IMPLEMENTED"
    sqlstate = "0A000"
    what = "{table} cannot be written: {rule} ({feature}) is active on it, and tahoe {tahoe_version} does not enforce it yet."
    todo = "Write with a writer that does, or upgrade tahoe; reading is not affected."


# --- the log breaks the protocol


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


# --- a file that the log names is not what the log says


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


# --- another writer won, and what it did matters


class DeltaConcurrentModificationException(DeltaError):
    """Base of the conflicts. ``winner`` says which commit was in the way: version, operation, time."""

    condition = "DELTA_CONCURRENT_MODIFICATION"
    sqlstate = "2D521"
    what = "{table}: another writer committed first ({winner}), and {detail}."
    todo = "Nothing of this write was committed: run it again on the newest version."


class ConcurrentWriteException(DeltaConcurrentModificationException):
    condition = "DELTA_CONCURRENT_WRITE"


class MetadataChangedException(DeltaConcurrentModificationException):
    condition = "DELTA_METADATA_CHANGED"


class ProtocolChangedException(DeltaConcurrentModificationException):
    condition = "DELTA_PROTOCOL_CHANGED"


class ConcurrentAppendException(DeltaConcurrentModificationException):
    condition = "DELTA_CONCURRENT_APPEND"


class ConcurrentDeleteReadException(DeltaConcurrentModificationException):
    condition = "DELTA_CONCURRENT_DELETE_READ"


class ConcurrentDeleteDeleteException(DeltaConcurrentModificationException):
    condition = "DELTA_CONCURRENT_DELETE_DELETE"


class ConcurrentTransactionException(DeltaConcurrentModificationException):
    condition = "DELTA_CONCURRENT_TRANSACTION"


class WriteAlreadyRecordedError(ConcurrentTransactionException):
    """Another writer has committed this very write (``txnAppId``, ``txnVersion``) meanwhile: there is nothing left to do."""

    condition = "DELTA_WRITE_ALREADY_RECORDED"


# --- the storage did not do what it was asked


class DeltaStorageError(DeltaError):
    condition = "DELTA_STORAGE_ERROR"
    sqlstate = "58030"


class StorageUnavailableError(DeltaStorageError):
    """A write that ends so may have landed, or may land yet."""

    condition = "DELTA_STORAGE_UNAVAILABLE"
    what = "{table}: the storage did not {operation}: {detail}."
    todo = "Check that the place exists and can be reached."


class StorageRefusedError(StorageUnavailableError):
    """The storage has decided: what it was asked has not been done, and never will be."""

    condition = "DELTA_STORAGE_REFUSED"
    what = "{table}: the storage refused to {operation}: {detail}."
    todo = "Check that the place exists and that you may write to it."


class AtomicCreateUnsupportedError(StorageRefusedError):
    condition = "DELTA_ATOMIC_CREATE_UNSUPPORTED"
    sqlstate = "0A000"
    what = "{table}: the storage cannot {operation} so that two writers never both do: {detail}."
    todo = (
        "Reading works. To write, keep the table on a local disk or in an object store with conditional puts, or give all its writers a "
        "commit service (storage option AWS_S3_LOCKING_PROVIDER=dynamodb)."
    )


class ConditionalCreateIgnoredError(StorageRefusedError):
    """Nothing was committed: the storage was tried out before."""

    condition = "DELTA_CONDITIONAL_CREATE_IGNORED"
    sqlstate = "0A000"
    what = "{table}: two writers could both commit one version here. {key} was created twice, only if it did not exist, and {detail}."
    todo = (
        "Reading works. To write, use a version of the storage that obeys If-None-Match, or give all writers of the table a commit service "
        "(storage option AWS_S3_LOCKING_PROVIDER=dynamodb)."
    )


class ForkedProcessError(StorageRefusedError):
    condition = "DELTA_FORKED_PROCESS"
    what = "{table}: cannot {operation}: this process was forked from one ({detail}) that had already used an object store, and would hang."
    todo = "Start it with multiprocessing's method spawn, or open object stores only after the fork."


class CommitEntryError(StorageRefusedError):
    condition = "DELTA_COMMIT_ENTRY_INVALID"
    sqlstate = "XXKDS"
    what = "{table}: the commit service has an entry for {file} that does not fit what is in the log: {detail}."
    todo = "If it is of an earlier table that was at this place, delete that table's entries in the service; if not, restore the file."


class CommitTableMissingError(StorageRefusedError):
    condition = "DELTA_COMMIT_TABLE_MISSING"
    what = "{table}: there is no table {name} in DynamoDB in {region} for the commit service, and it could not be created: {detail}."
    todo = (
        "Create it: aws dynamodb create-table --region {region} --table-name {name} --billing-mode PAY_PER_REQUEST --attribute-definitions "
        "AttributeName=tablePath,AttributeType=S AttributeName=fileName,AttributeType=S --key-schema "
        "AttributeName=tablePath,KeyType=HASH AttributeName=fileName,KeyType=RANGE"
    )


class PackageMissingError(StorageRefusedError):
    condition = "DELTA_PACKAGE_MISSING"
    sqlstate = "0A000"
    what = "{table}: {what} needs the package {package}, which is not installed."
    todo = "pip install 'tahoe[{extra}]'."


class UnsupportedStorageError(DeltaStorageError):
    condition = "DELTA_UNSUPPORTED_STORAGE"
    sqlstate = "0A000"
    what = "{table}: there is no storage for the scheme {scheme}."
    todo = "Use one of {schemes}; a file system of Hadoop's is reached through Spark, where Hadoop is configured for it."


class CommitOutcomeUnknownError(DeltaStorageError):
    condition = "DELTA_COMMIT_OUTCOME_UNKNOWN"
    what = "{table}: version {version} was sent to the storage, and whether it arrived could not be found out: {detail}."
    todo = "Look at the table's history for transaction {txn_id} before you write again."


class CommitAttemptsExceededError(DeltaStorageError):
    condition = "DELTA_MAX_COMMIT_RETRIES_EXCEEDED"
    sqlstate = "40000"
    what = "{table}: {attempts} attempts to commit were lost to other writers, the last at version {version}."
    todo = "Nothing of this write was committed: run it again when fewer writers are active."


# --- the Spark session cannot be used


class DeltaSessionError(DeltaError):
    condition = "DELTA_SESSION_ERROR"
    sqlstate = "0A000"


class PySparkMissingError(DeltaSessionError, ImportError):
    condition = "DELTA_PYSPARK_MISSING"
    what = "PySpark is not installed, and this part of tahoe needs it."
    todo = "pip install 'pyspark>=4.1,<4.4'. tahoe.Table reads and appends without Spark."


class NoGatewayError(DeltaSessionError):
    condition = "DELTA_NO_GATEWAY"
    what = "This needs a Spark session with a JVM of its own, and the one that was given ({session}) has none."
    todo = (
        "Use SparkSession.builder.master(...).getOrCreate(). Without a JVM, a Spark Connect session reads and writes with "
        'format("delta"), and tahoe.Table(path) without Spark.'
    )


class UnsupportedSparkVersionError(DeltaSessionError):
    condition = "DELTA_UNSUPPORTED_SPARK_VERSION"
    what = "tahoe works with PySpark 4.1 to 4.3, and this session runs Spark {version}{detail}."
    todo = "Install a supported one: pip install 'pyspark>=4.1,<4.4'. tahoe.Table reads and appends without Spark meanwhile."


class ReferenceJarPresentError(DeltaSessionError):
    condition = "DELTA_REFERENCE_JAR_PRESENT"
    what = "The class path already has a data source called delta ({location}), which Spark would find before tahoe."
    todo = "Remove delta-spark from spark.jars and spark.jars.packages (and its configure_spark_with_delta_pip), and start a new session."


class SessionNotEnabledError(DeltaSessionError):
    condition = "DELTA_SESSION_NOT_ENABLED"
    what = "This Spark session does not know Delta tables yet."
    todo = "Call tahoe.enable(spark) once, before the first use."


class CommandCancelledError(DeltaSessionError):
    condition = "OPERATION_CANCELED"  # Spark's own
    sqlstate = "HY008"
    what = "The command was cancelled before it committed: {reason}."
    todo = "The table is as it was; run the command again if that was not meant."


class WriteFailedError(DeltaSessionError):
    condition = "DELTA_WRITE_FAILED"
    sqlstate = "58030"
    what = "The Spark job that writes data files for {table} failed, and nothing was committed: {detail}"
    todo = "The table is as it was; mend the cause and write again."


__all__ = [_name for _name, _class in list(globals().items()) if isinstance(_class, type) and issubclass(_class, DeltaError)]


def __dir__() -> list[str]:
    return __all__
