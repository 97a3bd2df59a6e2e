"""Everything that tahoe raises, as one tree.

    DeltaError
    ├── DeltaAnalysisError            the request is not valid for this table
    │   ├── TableNotFoundError, NotADeltaTableError, TableExistsError, PathIsNotEmptyError, PathOutsideTableError; below
    │   │   the first TableNameNotFoundError, ReplacedTableMissingError, below the second NameOfAnotherKindError,
    │   │   PathIsFileError, below the third PipelineTableUnknownError
    │   ├── VersionNotFoundError, TimestampOutOfRangeError, InvalidTimeTravelError, SchemaChangedError,
    │   │   TableReplacedError; below the first two RestoreVersionError, RestoreTimestampTooEarlyError,
    │   │   RestoreTimestampTooLateError; RestoreRetentionError, RestoreBesideVacuumError; below the third
    │   │   TagNotFoundError
    │   ├── InvalidTagNameError, TagExistsError, TagExpiryError, TagRetentionError, TagBesideVacuumError,
    │   │   TagFilesMissingError, ErasureHeldByTagsError, ErasureIncompleteError
    │   ├── ChangeBoundaryNullError, ChangeStartMissingError, ChangeBoundaryTwiceError, ChangeStartTooLateError,
    │   │   InvalidChangeRangeError, ChangesNotRecordedError, ChangesNotComputedError, IncompatibleChangesError; below
    │   │   it IncompatibleChangeDataError
    │   ├── SchemaMismatchError, DuplicateColumnsError, UnsupportedDataTypeError with MixedReferenceSystemsError below
    │   │   it, GeospatialUnsupportedError, ColumnNotFoundError with UnresolvedMergeColumnError below it,
    │   │   NotNullViolationError, CheckConstraintViolatedError with NewConstraintViolatedError below it,
    │   │   InvalidColumnNameError; below the first FieldsNotMergedError, PartitionMismatchError,
    │   │   ConstraintTypeMismatchError, GeneratedColumnTypeMismatchError, ColumnCountMismatchError,
    │   │   StructMismatchError, MissingNotNullColumnError with MissingInsertColumnError below it, NoCastError,
    │   │   NoCastButFunctionError, NoCastButSettingError, NoSafeCastError, ConstraintDependsError,
    │   │   GeneratedColumnDependsError, DropClusteringColumnError, NoColumnsError; below the second
    │   │   DuplicateDataColumnsError, DuplicateExistingColumnsError, DuplicateNewColumnsError,
    │   │   DuplicateReplacedColumnsError, DuplicateMetadataColumnsError, DuplicatePartitionColumnsError
    │   ├── ColumnChangeError; below it NewColumnNotNullError, DefaultOfNewColumnError, ParentNotStructError,
    │   │   RenameColumnUnsupportedError, DropColumnUnsupportedError, DropPartitionColumnError, DropLastFieldError,
    │   │   ColumnTypeChangeError, StructTypeChangeError, ArrayTypeChangeError, MapTypeChangeError,
    │   │   IdentityColumnChangeError, IdentityReplaceColumnsError
    │   ├── InvalidClusteringError; below it ClusteredAndPartitionedError, TooManyClusteringColumnsError,
    │   │   ClusteringStatisticsError
    │   ├── BloomFilterColumnError, BloomFilterOptionError, NoBloomFilterError
    │   ├── NotPartitionedError, ConstraintExistsError, ConstraintNotFoundError, ConstraintNotBooleanError,
    │   │   InvalidKeyError
    │   ├── GeneratedValueMismatchError, GeneratedColumnReferenceError, GeneratedColumnExpressionTypeError,
    │   │   GeneratedColumnTypeError, GeneratedColumnExpressionError; below it AggregateInGeneratedColumnError,
    │   │   FunctionInGeneratedColumnError, NonDeterministicGeneratedColumnError
    │   ├── InvalidIdentityColumnError, NotAnIdentityColumnError, IdentityColumnTypeError, PartitionedByIdentityError,
    │   │   IdentityValueGivenError, IdentityUpdateError, IdentityOverflowError, ColumnDefaultsNotEnabledError
    │   ├── FeatureDropError; below it UnknownFeatureError, PropertyNoFeatureError, FeatureNotPresentError,
    │   │   FeatureNotDroppableError, DependentFeatureError, FeatureInUseError, FeatureInHistoryError,
    │   │   FeatureDropWaitsError, NoHistoryToTruncateError, CheckpointProtectionKeptError
    │   ├── InvalidPropertyError, InvalidOptionError, InvalidPredicateError, QueryFailedError,
    │   │   ReplaceWhereMismatchError, ExpressionFailedError; below the first UnknownPropertyError,
    │   │   InternalPropertyError, PropertyNotSetError, UnknownFeaturePropertyError, ManifestPropertyError,
    │   │   StatisticsColumnError with StatisticsColumnNotFoundError, StatisticsColumnTypeError,
    │   │   PartitionStatisticsColumnError and DuplicateStatisticsColumnsError below it; below the third
    │   │   NeedsSparkError; below the last DivisionByZeroError, RemainderByZeroError, ResultOverflowError,
    │   │   SmallResultOverflowError, DecimalResultOverflowError, CastResultOverflowError, UncastTextError
    │   ├── InvalidArgumentError          a method was called with an invalid argument
    │   ├── UnknownArgumentError          a method was called with an argument that it does not have
    │   ├── MissingArgumentError          a method was called without an argument that it needs
    │   ├── UnknownNameError, UnknownImportError   a name of another library for Delta tables, which has another name
    │   │   here
    │   ├── SurplusArgumentError          a method was called with more arguments by position than it takes
    │   ├── CalledOnClassError            a method of an object was called on its class
    │   ├── CopySourceMissingError, CopySourceGlobError, CopyFormatError, CopyOptionError, CopyColumnsError,
    │   │   CopyUnsupportedError, CopyFileError
    │   ├── VacuumRetentionNegativeError, VacuumRetentionTooShortError, CannotVacuumLiteError, InvalidInventoryError,
    │   │   VacuumPartitionError
    │   ├── ZOrderPartitionColumnError, ZOrderColumnNotFoundError, ZOrderStatisticsError, ClusteringWithPredicateError,
    │   │   ClusteringWithZOrderError, OptimizeFullNotSupportedError
    │   ├── CloneAmbiguousTargetError, InvalidClonePathError, CloneUnsupportedSourceError, CloneIncompatibleSourceError,
    │   │   CloneOntoItselfError, CloneNestedError, CloneFilesMissingError, VectorsDisallowedError
    │   ├── NoProviderToConvertError, NotParquetTableError, EmptyFolderError, UnexpectedPartitionCountError,
    │   │   UnexpectedPartitionColumnError, PartitionCastFailedError, PartitionSchemaOfCatalogError,
    │   │   CatalogPropertiesMismatchError, NoCatalogPartitionError, ConversionColumnMappingError,
    │   │   ConversionWithoutStatisticsError, FileSchemaMismatchError
    │   ├── ManifestModeError, ManifestsWithVectorsError, ManifestsWithColumnMappingError, ManifestsWithNullTextError
    │   ├── StreamOffsetFormatError, StreamOffsetVersionError, OtherTableInStreamError, StreamSourceDeleteError,
    │   │   StreamSourceChangeError, StreamCommitsMissingError, StreamTrailingCommitError, StreamStartGoneError,
    │   │   StreamOrderChangedError, StreamOptionsConflictError, StreamOutputModeError, StreamVoidColumnError
    │   ├── StreamSchemaChangedError, StreamSchemaUntrackedError, StreamStartUncheckedError, StreamSchemaMismatchError;
    │   │   below the first StreamStartSchemaChangedError
    │   ├── StreamSchemaEvolvedError, SchemaChangeNotAcknowledgedError, SchemaLocationOutsideError,
    │   │   SchemaLocationConflictError, SchemaLogUnreadableError, SchemaLogSchemaError, SchemaLogOtherTableError,
    │   │   SchemaLogStartError
    │   ├── ConflictingAssignmentsError, InvalidMergeError, MultipleSourceRowsError; below the second MissingWhenError
    │   ├── StatementSyntaxError          the SQL cannot be parsed; below it MutuallyExclusiveClausesError
    │   ├── TransactionClosedError          a block of changes over several tables has ended
    │   └── UnsupportedOperationError, OperationNotYetSupportedError, AppendOnlyTableError; below the first
    │       OperationNotAllowedError, StreamTimeTravelError, IncompatibleFormatError
    ├── DeltaCatalogError             a catalog cannot be used, or does not have a name
    │   └── CatalogUrlError, CatalogUnavailableError, NewerCatalogError, CatalogNameError, SchemaNotFoundError,
    │       CatalogTableNotFoundError, CatalogViewNotFoundError, TableNotManagedError, CatalogNameTakenError,
    │       SchemaNotEmptyError, ExternalTableError, CatalogNotChosenError, TransactionStateError,
    │       PrincipalNotFoundError, PrivilegeError, CatalogServerError, CatalogRefusedError
    ├── DeltaProtocolError            the table requires features that this version of tahoe does not support
    │   ├── UnsupportedReaderFeatureError, UnsupportedWriterFeatureError, UnsupportedProtocolVersionError,
    │   │   UnsupportedTypeChangeError, UnsupportedFileFormatError, WriteNotImplementedError, CatalogManagedTableError
    ├── DeltaLogError                 the log violates the protocol
    │   ├── InvalidLogFileError, InvalidCommitError, MissingVersionError, MissingActionError, CorruptCheckpointError,
    │   │   CorruptCompactedLogError, InvalidActionError, InvalidPathError, InvalidPartitionValueError; below the third
    │   │   CommitGoneError
    ├── DeltaDataError                a file does not match what the log says about it
    │   ├── DataFileMissingError, InvalidDataFileError, DeletionVectorError; below the first ClonedFileMissingError,
    │   │   below the second TextNotUtf8Error, below the last DeletionVectorMissingError
    ├── DeltaConcurrentModificationException   a concurrent commit conflicts with this one
    │   ├── ConcurrentWriteException, MetadataChangedException, ProtocolChangedException, ConcurrentAppendException,
    │   │   ConcurrentDeleteReadException, ConcurrentDeleteDeleteException, TransactionConflictError,
    │   │   ConcurrentTransactionException; below it WriteAlreadyRecordedError
    ├── RepairUncertainError          a repair cannot look at every file
    ├── ArrowFailedError              Arrow refused the data of a call
    ├── UnreadableFooterError         a file cannot be converted, because it is not a Parquet file
    ├── FilesChangedError             files cannot be converted, because other programs keep changing them
    ├── PostCommitHookFailedError     a version is committed, but what follows a commit failed
    ├── RestoreFilesMissingError      files of the version to restore are gone
    ├── CopiedFilesLostError          it is unknown which files COPY INTO has loaded
    ├── TagLostError                  the version of a tag can no longer be read
    ├── DeltaStorageError             a storage request failed
    │   ├── StorageUnavailableError; below it StorageRefusedError with CredentialsMissingError,
    │   │   AtomicCreateUnsupportedError, ConditionalCreateIgnoredError, ForkedProcessError, CommitEntryError,
    │   │   CommitTableMissingError, PackageMissingError
    │   ├── UnsupportedStorageError, StoreNotOpenedError, UnknownLogStoreError, CommitOutcomeUnknownError,
    │   │   CommitAttemptsExceededError
    ├── DeltaProgramError             a program cannot be run by `tahoe run`, or the name `delta` is taken
    │   └── DeltaAlreadyImportedError, OwnDeltaModuleError, ProgramNotFoundError, ProgramNotExecutableError,
    │       ProgramWithoutTahoeError, ProgramWithoutPythonError, PythonOptionError, ClusterModeError
    └── DeltaSessionError             the Spark session cannot be used
        └── PySparkMissingError, OtherPackageError, NoGatewayError, UnsupportedSparkVersionError,
            ReferenceJarPresentError, SessionNotEnabledError, WriteFailedError, CommandCancelledError,
            ConnectServerError, ClientCallError, NativeEngineError, StorageOptionsForgottenError, TableNotCachedError;
            below the seventh UnfitValueError with CastOverflowError, AssignedOverflowError, InvalidInputError,
            InvalidNumberError, InvalidTimeError, VariantCastError, TextTooLongError

Each class has a condition (the reference's name where it has one), an SQLSTATE, and two templates: what happened, and
what to do next.
Its keyword parameters are the names in the templates. Under Spark, an error is also an instance of a PySpark exception
such as
`AnalysisException`.
"""

# ruff: noqa: F403  each module has the errors of one area

from __future__ import annotations

from tahoe.errors.catalog import *
from tahoe.errors.change_feed import *
from tahoe.errors.clone import *
from tahoe.errors.column_values import *
from tahoe.errors.conflicts import *
from tahoe.errors.conversion import *
from tahoe.errors.copy_into import *
from tahoe.errors.feature_drop import *
from tahoe.errors.log import *
from tahoe.errors.maintenance import *
from tahoe.errors.programs import *
from tahoe.errors.protocol import *
from tahoe.errors.root import *
from tahoe.errors.root import DeltaError
from tahoe.errors.rows import *
from tahoe.errors.session import *
from tahoe.errors.statements import *
from tahoe.errors.storage import *
from tahoe.errors.stream_schema import *
from tahoe.errors.streams import *
from tahoe.errors.table_changes import *
from tahoe.errors.tables import *
from tahoe.errors.tags import *

__all__ = sorted(
    name for name, value in list(globals().items()) if isinstance(value, type) and issubclass(value, DeltaError)
)


def __dir__() -> list[str]:
    return __all__
