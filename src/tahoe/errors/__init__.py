"""Everything that tahoe raises, as one tree.

    DeltaError
    ├── DeltaAnalysisError            the request is not valid for this table
    │   ├── TableNotFoundError, NotADeltaTableError, TableExistsError, PathIsNotEmptyError, PathOutsideTableError; below the first
    │   │   TableNameNotFoundError, below the second NameOfAnotherKindError, PathIsFileError
    │   ├── VersionNotFoundError, TimestampOutOfRangeError, InvalidTimeTravelError, SchemaChangedError, TableReplacedError; below the first
    │   │   two RestoreVersionError, RestoreTimestampTooEarlyError, RestoreTimestampTooLateError; RestoreRetentionError
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
    │   │   UnknownFeaturePropertyError, ManifestPropertyError
    │   ├── InvalidArgumentError          a method was called with an invalid argument
    │   ├── VacuumRetentionNegativeError, VacuumRetentionTooShortError, CannotVacuumLiteError, InvalidInventoryError, VacuumPartitionError
    │   ├── ZOrderPartitionColumnError, ZOrderColumnNotFoundError, ZOrderStatisticsError, ClusteringWithPredicateError,
    │   │   ClusteringWithZOrderError, OptimizeFullNotSupportedError
    │   ├── CloneAmbiguousTargetError, InvalidClonePathError, CloneUnsupportedSourceError, CloneOntoItselfError, CloneNestedError,
    │   │   CloneFilesMissingError, VectorsDisallowedError
    │   ├── NoProviderToConvertError, NotParquetTableError, EmptyFolderError, UnexpectedPartitionCountError,
    │   │   UnexpectedPartitionColumnError, PartitionCastFailedError, PartitionSchemaOfCatalogError, CatalogPropertiesMismatchError,
    │   │   NoCatalogPartitionError, ConversionColumnMappingError, ConversionWithoutStatisticsError, FileSchemaMismatchError
    │   ├── ManifestModeError, ManifestsWithVectorsError, ManifestsWithColumnMappingError
    │   ├── StreamOffsetFormatError, StreamOffsetVersionError, OtherTableInStreamError, StreamSourceDeleteError,
    │   │   StreamSourceChangeError, StreamCommitsMissingError, StreamTrailingCommitError, StreamStartGoneError,
    │   │   StreamOptionsConflictError, StreamOutputModeError, StreamVoidColumnError
    │   ├── StreamSchemaChangedError, StreamSchemaUntrackedError, StreamStartUncheckedError, StreamSchemaMismatchError; below the first
    │   │   StreamStartSchemaChangedError
    │   ├── StreamSchemaEvolvedError, SchemaChangeNotAcknowledgedError, SchemaLocationOutsideError, SchemaLocationConflictError,
    │   │   SchemaLogUnreadableError, SchemaLogSchemaError, SchemaLogOtherTableError, SchemaLogStartError
    │   ├── ConflictingAssignmentsError, InvalidMergeError, MultipleSourceRowsError
    │   ├── StatementSyntaxError          the SQL cannot be parsed; below it MutuallyExclusiveClausesError
    │   └── UnsupportedOperationError, OperationNotYetSupportedError, AppendOnlyTableError; below the first
    │       OperationNotAllowedError, StreamTimeTravelError
    ├── DeltaProtocolError            the table requires features that this version of tahoe does not support
    │   ├── UnsupportedReaderFeatureError, UnsupportedWriterFeatureError, UnsupportedProtocolVersionError,
    │   │   UnsupportedTypeChangeError, UnsupportedFileFormatError, WriteNotImplementedError
    ├── DeltaLogError                 the log violates the protocol
    │   ├── InvalidLogFileError, InvalidCommitError, MissingVersionError, MissingActionError, CorruptCheckpointError,
    │   │   CorruptCompactedLogError, InvalidActionError, InvalidPathError, InvalidPartitionValueError; below the third CommitGoneError
    ├── DeltaDataError                a file does not match what the log says about it
    │   ├── DataFileMissingError, InvalidDataFileError, DeletionVectorError; below the first ClonedFileMissingError
    ├── DeltaConcurrentModificationException   a concurrent commit conflicts with this one
    │   ├── ConcurrentWriteException, MetadataChangedException, ProtocolChangedException, ConcurrentAppendException,
    │   │   ConcurrentDeleteReadException, ConcurrentDeleteDeleteException, ConcurrentTransactionException; below it
    │   │   WriteAlreadyRecordedError
    ├── RepairUncertainError          a repair cannot look at every file
    ├── UnreadableFooterError         a file cannot be converted, because it is no Parquet file
    ├── FilesChangedError             files cannot be converted, because other programs keep changing them
    ├── PostCommitHookFailedError     a version is committed, but what follows a commit failed
    ├── RestoreFilesMissingError      files of the version to restore are gone
    ├── DeltaStorageError             a storage request failed
    │   ├── StorageUnavailableError; below it StorageRefusedError with AtomicCreateUnsupportedError, ConditionalCreateIgnoredError,
    │   │   ForkedProcessError, CommitEntryError, CommitTableMissingError, PackageMissingError
    │   ├── UnsupportedStorageError, CommitOutcomeUnknownError, CommitAttemptsExceededError
    └── DeltaSessionError             the Spark session cannot be used
        └── PySparkMissingError, NoGatewayError, UnsupportedSparkVersionError, ReferenceJarPresentError, SessionNotEnabledError,
            WriteFailedError, CommandCancelledError

Each class has a condition (the reference's name where it has one), an SQLSTATE, and two templates: what happened, and what to do next.
Its keyword parameters are the names in the templates. Under Spark, an error is also an instance of a PySpark exception such as
`AnalysisException`.
"""

# ruff: noqa: I001  one list of names for each module; `as` says to type checkers that they are exported

from __future__ import annotations

from tahoe.errors.change_feed import (
    ChangeBoundaryNullError as ChangeBoundaryNullError,
    ChangeBoundaryTwiceError as ChangeBoundaryTwiceError,
    ChangesNotRecordedError as ChangesNotRecordedError,
    ChangeStartMissingError as ChangeStartMissingError,
    ChangeStartTooLateError as ChangeStartTooLateError,
    IncompatibleChangeDataError as IncompatibleChangeDataError,
    IncompatibleChangesError as IncompatibleChangesError,
    InvalidChangeRangeError as InvalidChangeRangeError,
)
from tahoe.errors.clone import (
    CloneAmbiguousTargetError as CloneAmbiguousTargetError,
    CloneFilesMissingError as CloneFilesMissingError,
    CloneNestedError as CloneNestedError,
    CloneOntoItselfError as CloneOntoItselfError,
    CloneUnsupportedSourceError as CloneUnsupportedSourceError,
    InvalidClonePathError as InvalidClonePathError,
    ReplacedTableMissingError as ReplacedTableMissingError,
    VectorsDisallowedError as VectorsDisallowedError,
)
from tahoe.errors.column_values import (
    AggregateInGeneratedColumnError as AggregateInGeneratedColumnError,
    ColumnDefaultsNotEnabledError as ColumnDefaultsNotEnabledError,
    FunctionInGeneratedColumnError as FunctionInGeneratedColumnError,
    GeneratedColumnExpressionError as GeneratedColumnExpressionError,
    GeneratedColumnExpressionTypeError as GeneratedColumnExpressionTypeError,
    GeneratedColumnReferenceError as GeneratedColumnReferenceError,
    GeneratedColumnTypeError as GeneratedColumnTypeError,
    GeneratedValueMismatchError as GeneratedValueMismatchError,
    IdentityColumnTypeError as IdentityColumnTypeError,
    IdentityOverflowError as IdentityOverflowError,
    IdentityUpdateError as IdentityUpdateError,
    IdentityValueGivenError as IdentityValueGivenError,
    InvalidIdentityColumnError as InvalidIdentityColumnError,
    NonDeterministicGeneratedColumnError as NonDeterministicGeneratedColumnError,
    NotAnIdentityColumnError as NotAnIdentityColumnError,
    PartitionedByIdentityError as PartitionedByIdentityError,
)
from tahoe.errors.conflicts import (
    ConcurrentAppendException as ConcurrentAppendException,
    ConcurrentDeleteDeleteException as ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException as ConcurrentDeleteReadException,
    ConcurrentTransactionException as ConcurrentTransactionException,
    ConcurrentWriteException as ConcurrentWriteException,
    DeltaConcurrentModificationException as DeltaConcurrentModificationException,
    MetadataChangedException as MetadataChangedException,
    ProtocolChangedException as ProtocolChangedException,
    WriteAlreadyRecordedError as WriteAlreadyRecordedError,
)
from tahoe.errors.conversion import (
    CatalogPropertiesMismatchError as CatalogPropertiesMismatchError,
    ConversionColumnMappingError as ConversionColumnMappingError,
    ConversionWithoutStatisticsError as ConversionWithoutStatisticsError,
    EmptyFolderError as EmptyFolderError,
    FileSchemaMismatchError as FileSchemaMismatchError,
    FilesChangedError as FilesChangedError,
    ManifestModeError as ManifestModeError,
    ManifestPropertyError as ManifestPropertyError,
    ManifestsWithColumnMappingError as ManifestsWithColumnMappingError,
    ManifestsWithVectorsError as ManifestsWithVectorsError,
    NoCatalogPartitionError as NoCatalogPartitionError,
    NoProviderToConvertError as NoProviderToConvertError,
    NotParquetTableError as NotParquetTableError,
    PartitionCastFailedError as PartitionCastFailedError,
    PartitionSchemaOfCatalogError as PartitionSchemaOfCatalogError,
    PostCommitHookFailedError as PostCommitHookFailedError,
    UnexpectedPartitionColumnError as UnexpectedPartitionColumnError,
    UnexpectedPartitionCountError as UnexpectedPartitionCountError,
    UnreadableFooterError as UnreadableFooterError,
)
from tahoe.errors.feature_drop import (
    CheckpointProtectionKeptError as CheckpointProtectionKeptError,
    DependentFeatureError as DependentFeatureError,
    FeatureDropError as FeatureDropError,
    FeatureDropWaitsError as FeatureDropWaitsError,
    FeatureInHistoryError as FeatureInHistoryError,
    FeatureInUseError as FeatureInUseError,
    FeatureNotDroppableError as FeatureNotDroppableError,
    FeatureNotPresentError as FeatureNotPresentError,
    NoHistoryToTruncateError as NoHistoryToTruncateError,
    PropertyNoFeatureError as PropertyNoFeatureError,
    UnknownFeatureError as UnknownFeatureError,
)
from tahoe.errors.log import (
    ClonedFileMissingError as ClonedFileMissingError,
    CommitGoneError as CommitGoneError,
    CorruptCheckpointError as CorruptCheckpointError,
    CorruptCompactedLogError as CorruptCompactedLogError,
    DataFileMissingError as DataFileMissingError,
    DeletionVectorError as DeletionVectorError,
    DeltaDataError as DeltaDataError,
    DeltaLogError as DeltaLogError,
    InvalidActionError as InvalidActionError,
    InvalidCommitError as InvalidCommitError,
    InvalidDataFileError as InvalidDataFileError,
    InvalidLogFileError as InvalidLogFileError,
    InvalidPartitionValueError as InvalidPartitionValueError,
    InvalidPathError as InvalidPathError,
    MissingActionError as MissingActionError,
    MissingVersionError as MissingVersionError,
)
from tahoe.errors.maintenance import (
    CannotVacuumLiteError as CannotVacuumLiteError,
    ClusteringWithPredicateError as ClusteringWithPredicateError,
    ClusteringWithZOrderError as ClusteringWithZOrderError,
    InvalidInventoryError as InvalidInventoryError,
    OptimizeFullNotSupportedError as OptimizeFullNotSupportedError,
    RepairUncertainError as RepairUncertainError,
    RestoreFilesMissingError as RestoreFilesMissingError,
    RestoreRetentionError as RestoreRetentionError,
    RestoreTimestampTooEarlyError as RestoreTimestampTooEarlyError,
    RestoreTimestampTooLateError as RestoreTimestampTooLateError,
    RestoreVersionError as RestoreVersionError,
    VacuumPartitionError as VacuumPartitionError,
    VacuumRetentionNegativeError as VacuumRetentionNegativeError,
    VacuumRetentionTooShortError as VacuumRetentionTooShortError,
    ZOrderColumnNotFoundError as ZOrderColumnNotFoundError,
    ZOrderPartitionColumnError as ZOrderPartitionColumnError,
    ZOrderStatisticsError as ZOrderStatisticsError,
)
from tahoe.errors.protocol import (
    DeltaProtocolError as DeltaProtocolError,
    UnsupportedFileFormatError as UnsupportedFileFormatError,
    UnsupportedProtocolVersionError as UnsupportedProtocolVersionError,
    UnsupportedReaderFeatureError as UnsupportedReaderFeatureError,
    UnsupportedTypeChangeError as UnsupportedTypeChangeError,
    UnsupportedWriterFeatureError as UnsupportedWriterFeatureError,
    WriteNotImplementedError as WriteNotImplementedError,
)
from tahoe.errors.root import DeltaAnalysisError as DeltaAnalysisError, DeltaError as DeltaError
from tahoe.errors.rows import (
    CheckConstraintViolatedError as CheckConstraintViolatedError,
    ColumnNotFoundError as ColumnNotFoundError,
    ConstraintDependsError as ConstraintDependsError,
    DropClusteringColumnError as DropClusteringColumnError,
    DuplicateColumnsError as DuplicateColumnsError,
    GeneratedColumnDependsError as GeneratedColumnDependsError,
    InvalidColumnNameError as InvalidColumnNameError,
    NoColumnsError as NoColumnsError,
    NotNullViolationError as NotNullViolationError,
    NotPartitionedError as NotPartitionedError,
    PartitionMismatchError as PartitionMismatchError,
    SchemaMismatchError as SchemaMismatchError,
    UnsupportedDataTypeError as UnsupportedDataTypeError,
)
from tahoe.errors.session import (
    CommandCancelledError as CommandCancelledError,
    DeltaSessionError as DeltaSessionError,
    NoGatewayError as NoGatewayError,
    PySparkMissingError as PySparkMissingError,
    ReferenceJarPresentError as ReferenceJarPresentError,
    SessionNotEnabledError as SessionNotEnabledError,
    UnsupportedSparkVersionError as UnsupportedSparkVersionError,
    WriteFailedError as WriteFailedError,
)
from tahoe.errors.statements import (
    AppendOnlyTableError as AppendOnlyTableError,
    ConflictingAssignmentsError as ConflictingAssignmentsError,
    InvalidArgumentError as InvalidArgumentError,
    InvalidMergeError as InvalidMergeError,
    InvalidOptionError as InvalidOptionError,
    InvalidPredicateError as InvalidPredicateError,
    MutuallyExclusiveClausesError as MutuallyExclusiveClausesError,
    MultipleSourceRowsError as MultipleSourceRowsError,
    OperationNotAllowedError as OperationNotAllowedError,
    OperationNotYetSupportedError as OperationNotYetSupportedError,
    ReplaceWhereMismatchError as ReplaceWhereMismatchError,
    StatementSyntaxError as StatementSyntaxError,
    UnsupportedOperationError as UnsupportedOperationError,
)
from tahoe.errors.storage import (
    AtomicCreateUnsupportedError as AtomicCreateUnsupportedError,
    CommitAttemptsExceededError as CommitAttemptsExceededError,
    CommitEntryError as CommitEntryError,
    CommitOutcomeUnknownError as CommitOutcomeUnknownError,
    CommitTableMissingError as CommitTableMissingError,
    ConditionalCreateIgnoredError as ConditionalCreateIgnoredError,
    DeltaStorageError as DeltaStorageError,
    ForkedProcessError as ForkedProcessError,
    PackageMissingError as PackageMissingError,
    StorageRefusedError as StorageRefusedError,
    StorageUnavailableError as StorageUnavailableError,
    UnsupportedStorageError as UnsupportedStorageError,
)
from tahoe.errors.stream_schema import (
    SchemaChangeNotAcknowledgedError as SchemaChangeNotAcknowledgedError,
    SchemaLocationConflictError as SchemaLocationConflictError,
    SchemaLocationOutsideError as SchemaLocationOutsideError,
    SchemaLogOtherTableError as SchemaLogOtherTableError,
    SchemaLogSchemaError as SchemaLogSchemaError,
    SchemaLogStartError as SchemaLogStartError,
    SchemaLogUnreadableError as SchemaLogUnreadableError,
    StreamSchemaChangedError as StreamSchemaChangedError,
    StreamSchemaEvolvedError as StreamSchemaEvolvedError,
    StreamSchemaMismatchError as StreamSchemaMismatchError,
    StreamSchemaUntrackedError as StreamSchemaUntrackedError,
    StreamStartSchemaChangedError as StreamStartSchemaChangedError,
    StreamStartUncheckedError as StreamStartUncheckedError,
)
from tahoe.errors.streams import (
    OtherTableInStreamError as OtherTableInStreamError,
    StreamCommitsMissingError as StreamCommitsMissingError,
    StreamOffsetFormatError as StreamOffsetFormatError,
    StreamOffsetVersionError as StreamOffsetVersionError,
    StreamOptionsConflictError as StreamOptionsConflictError,
    StreamOutputModeError as StreamOutputModeError,
    StreamSourceChangeError as StreamSourceChangeError,
    StreamSourceDeleteError as StreamSourceDeleteError,
    StreamStartGoneError as StreamStartGoneError,
    StreamTimeTravelError as StreamTimeTravelError,
    StreamTrailingCommitError as StreamTrailingCommitError,
    StreamVoidColumnError as StreamVoidColumnError,
)
from tahoe.errors.table_changes import (
    ArrayTypeChangeError as ArrayTypeChangeError,
    ClusteredAndPartitionedError as ClusteredAndPartitionedError,
    ClusteringStatisticsError as ClusteringStatisticsError,
    ColumnChangeError as ColumnChangeError,
    ColumnTypeChangeError as ColumnTypeChangeError,
    ConstraintExistsError as ConstraintExistsError,
    ConstraintNotBooleanError as ConstraintNotBooleanError,
    ConstraintNotFoundError as ConstraintNotFoundError,
    DefaultOfNewColumnError as DefaultOfNewColumnError,
    DropColumnUnsupportedError as DropColumnUnsupportedError,
    DropLastFieldError as DropLastFieldError,
    DropPartitionColumnError as DropPartitionColumnError,
    IdentityColumnChangeError as IdentityColumnChangeError,
    IdentityReplaceColumnsError as IdentityReplaceColumnsError,
    InvalidClusteringError as InvalidClusteringError,
    InvalidPropertyError as InvalidPropertyError,
    MapTypeChangeError as MapTypeChangeError,
    NewColumnNotNullError as NewColumnNotNullError,
    ParentNotStructError as ParentNotStructError,
    RenameColumnUnsupportedError as RenameColumnUnsupportedError,
    StructTypeChangeError as StructTypeChangeError,
    TooManyClusteringColumnsError as TooManyClusteringColumnsError,
    UnknownFeaturePropertyError as UnknownFeaturePropertyError,
)
from tahoe.errors.tables import (
    InvalidTimeTravelError as InvalidTimeTravelError,
    NameOfAnotherKindError as NameOfAnotherKindError,
    NotADeltaTableError as NotADeltaTableError,
    PathIsFileError as PathIsFileError,
    PathIsNotEmptyError as PathIsNotEmptyError,
    PathOutsideTableError as PathOutsideTableError,
    SchemaChangedError as SchemaChangedError,
    TableExistsError as TableExistsError,
    TableNameNotFoundError as TableNameNotFoundError,
    TableNotFoundError as TableNotFoundError,
    TableReplacedError as TableReplacedError,
    TimestampOutOfRangeError as TimestampOutOfRangeError,
    VersionNotFoundError as VersionNotFoundError,
)

__all__ = sorted(name for name, value in list(globals().items()) if isinstance(value, type))


def __dir__() -> list[str]:
    return __all__
