"""A concurrent commit conflicts with this one."""

from __future__ import annotations

from tahoe.errors.root import DeltaError


class DeltaConcurrentModificationException(DeltaError):
    """Base of all conflicts. ``winner`` describes the conflicting commit: version, operation, time.

    Attributes:
        may_rerun: whether running the same command again, on the newest version, has the effect that the caller meant.
        is_of_columns: whether the winner changed names, order or types of columns.
        makes_table: whether this commit was to make the table, which did not exist when it was planned.
        loses_files: whether files that were written for this commit may be gone, so that they must be written again.
        paths: the canonical paths of all files that both commits remove, if that is the conflict.
    """

    may_rerun: bool = False
    is_of_columns: bool = False
    makes_table: bool = False
    loses_files: bool = False
    paths: frozenset[str] = frozenset()

    condition = "DELTA_CONCURRENT_MODIFICATION"
    sqlstate = "2D521"
    what = "{table}: another writer committed first ({winner}), and {detail}."
    todo = "Nothing was committed: retry the operation on the latest version."


class ConcurrentWriteException(DeltaConcurrentModificationException):
    condition = "DELTA_CONCURRENT_WRITE"


class MetadataChangedException(DeltaConcurrentModificationException):
    condition = "DELTA_METADATA_CHANGED"


class ProtocolChangedException(DeltaConcurrentModificationException):
    condition = "DELTA_PROTOCOL_CHANGED"


class ConcurrentAppendException(DeltaConcurrentModificationException):
    may_rerun = True
    condition = "DELTA_CONCURRENT_APPEND"


class ConcurrentDeleteReadException(DeltaConcurrentModificationException):
    may_rerun = True
    condition = "DELTA_CONCURRENT_DELETE_READ"


class ConcurrentDeleteDeleteException(DeltaConcurrentModificationException):
    may_rerun = True
    condition = "DELTA_CONCURRENT_DELETE_DELETE"


class ConcurrentTransactionException(DeltaConcurrentModificationException):
    condition = "DELTA_CONCURRENT_TRANSACTION"


class WriteAlreadyRecordedError(ConcurrentTransactionException):
    """This write (``txnAppId``, ``txnVersion``) has already been committed by a concurrent writer: there is nothing
    left to do.
    """

    condition = "DELTA_WRITE_ALREADY_RECORDED"
