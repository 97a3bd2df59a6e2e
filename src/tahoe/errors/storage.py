"""The storage did not do what it was asked."""

from __future__ import annotations

from tahoe.errors.root import DeltaError


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
