"""A storage request failed."""

from __future__ import annotations

from tahoe.errors.root import DeltaError


class DeltaStorageError(DeltaError):
    condition = "DELTA_STORAGE_ERROR"
    sqlstate = "58030"


class StorageUnavailableError(DeltaStorageError):
    """The request failed with an unknown outcome: a write may have succeeded, or may still succeed."""

    condition = "DELTA_STORAGE_UNAVAILABLE"
    what = "{table}: the storage failed to {operation}: {detail}."
    todo = "Check that the location exists and can be reached."


class StorageRefusedError(StorageUnavailableError):
    """The storage rejected the request: it had no effect and never will."""

    condition = "DELTA_STORAGE_REFUSED"
    what = "{table}: the storage refused to {operation}: {detail}."
    todo = "Check that the location exists, that it has space left, and that you have the permissions for this."


class CredentialsMissingError(StorageRefusedError):
    condition = "DELTA_STORAGE_CREDENTIALS_MISSING"
    sqlstate = "28000"
    what = "{table}: there are no credentials to {operation}. The last place to look for them failed as well: {detail}."
    todo = "Give them: {where}."


class AtomicCreateUnsupportedError(StorageRefusedError):
    condition = "DELTA_ATOMIC_CREATE_UNSUPPORTED"
    sqlstate = "0A000"
    what = "{table}: the storage cannot {operation} atomically, so two writers could both succeed: {detail}."
    todo = (
        "Reading works. To write, keep the table on a local disk or in an object store with conditional puts, or "
        "configure a commit service for all its writers (storage option AWS_S3_LOCKING_PROVIDER=dynamodb)."
    )


class ConditionalCreateIgnoredError(StorageRefusedError):
    """The storage failed a probe before the first commit; nothing was committed."""

    condition = "DELTA_CONDITIONAL_CREATE_IGNORED"
    sqlstate = "0A000"
    what = (
        "{table}: two writers could both commit the same version here. {key} was created twice with put-if-absent, "
        "and {detail}."
    )
    todo = (
        "Reading works. To write, use a version of the storage that supports If-None-Match, or configure a commit "
        "service for all writers (storage option AWS_S3_LOCKING_PROVIDER=dynamodb)."
    )


class ForkedProcessError(StorageRefusedError):
    condition = "DELTA_FORKED_PROCESS"
    what = (
        "{table}: cannot {operation}: this process was forked from one that had used an object store ({detail}), and "
        "would hang."
    )
    todo = "Use the multiprocessing start method spawn, or open object stores only after the fork."


class CommitEntryError(StorageRefusedError):
    condition = "DELTA_COMMIT_ENTRY_INVALID"
    sqlstate = "XXKDS"
    what = "{table}: the commit service's entry for {file} does not match the log: {detail}."
    todo = (
        "If the entry belongs to an earlier table at this path, delete that table's entries in the service; otherwise "
        "restore the file."
    )


class CommitTableMissingError(StorageRefusedError):
    condition = "DELTA_COMMIT_TABLE_MISSING"
    what = (
        "{table}: the commit service needs the DynamoDB table {name} in {region}; it does not exist and could not be "
        "created: {detail}."
    )
    todo = (
        "Create it: aws dynamodb create-table --region {region} --table-name {name} --billing-mode PAY_PER_REQUEST "
        "--attribute-definitions AttributeName=tablePath,AttributeType=S AttributeName=fileName,AttributeType=S "
        "--key-schema AttributeName=tablePath,KeyType=HASH AttributeName=fileName,KeyType=RANGE"
    )


class PackageMissingError(StorageRefusedError):
    condition = "DELTA_PACKAGE_MISSING"
    sqlstate = "0A000"
    what = "{table}: {what} needs the package {package}, which is not installed."
    todo = "Install it: pip install {package}."


class UnsupportedStorageError(DeltaStorageError):
    condition = "DELTA_UNSUPPORTED_STORAGE"
    sqlstate = "0A000"
    what = "{table}: the scheme {scheme} is not supported."
    todo = (
        "Use one of {schemes}, or register a store of your own: tahoe.storage.register({scheme!r}, factory). Under "
        "Spark, any file system that Hadoop is configured for works too."
    )


class StoreNotOpenedError(DeltaStorageError):
    """A store of one's own, which was registered, cannot be used."""

    condition = "DELTA_STORE_NOT_OPENED"
    sqlstate = "58000"
    what = "{table}: the store that is registered for its scheme, {value}, cannot be opened: {detail}."
    todo = "Give the storage options that it needs, or correct what registers it."


class UnknownLogStoreError(DeltaStorageError):
    """The session commits by a class of its own, which cannot be called."""

    condition = "DELTA_UNKNOWN_LOG_STORE"
    sqlstate = "0A000"
    what = (
        "{table}: by the setting {setting}, commits go through the class {value}, which cannot be used: {detail}. "
        "Without it two writers might both win a version."
    )
    todo = (
        "Name a class that extends io.delta.storage.LogStore, and start Spark with its JAR and with that of "
        "io.delta:delta-storage (spark.jars). If the storage creates files atomically, unset {setting} for all writers "
        "instead."
    )


class CommitOutcomeUnknownError(DeltaStorageError):
    condition = "DELTA_COMMIT_OUTCOME_UNKNOWN"
    what = "{table}: version {version} was sent to the storage, but whether it was written is unknown: {detail}."
    todo = "Check the table's history for transaction {txn_id} before you write again."


class CommitAttemptsExceededError(DeltaStorageError):
    condition = "DELTA_MAX_COMMIT_RETRIES_EXCEEDED"
    sqlstate = "40000"
    what = "{table}: all {attempts} commit attempts lost to concurrent writers, the last one at version {version}."
    todo = "Nothing was committed: retry when fewer writers are active."
