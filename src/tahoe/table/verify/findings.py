"""The findings of `tahoe.table.verify.check`: one value for each defect. Knows nothing of how it was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from tahoe.errors import DeltaError, DeltaLogError, DeltaProtocolError, DuplicateColumnsError, UnsupportedDataTypeError

# The errors of a table that exists and cannot be read.
UNREADABLE = (DeltaLogError, DeltaProtocolError, DuplicateColumnsError, UnsupportedDataTypeError)


class Severity(Enum):
    """An error makes some reader fail or return wrong rows. A warning costs time or space."""

    ERROR = "error"
    WARNING = "warning"


class Kind(Enum):
    """The kinds of defects of a table."""

    UNREADABLE_TABLE = "unreadable-table"
    ILLEGAL_LOG_FILE = "illegal-log-file"
    WRONG_ROWS = "wrong-rows"
    MISSING_VERSIONS = "missing-versions"
    BROKEN_CHECKPOINT = "broken-checkpoint"
    INCOMPLETE_CHECKPOINT = "incomplete-checkpoint"
    WRONG_CHECKPOINT = "wrong-checkpoint"
    WRONG_COMPACTED_LOG = "wrong-compacted-log"
    WRONG_CHECKSUM_FILE = "wrong-checksum-file"
    BROKEN_HINT = "broken-hint"
    ILLEGAL_PATH = "illegal-path"
    DUPLICATE_FILE = "duplicate-file"
    WRONG_ROW_IDS = "wrong-row-ids"
    MISSING_DATA_FILE = "missing-data-file"
    WRONG_SIZE = "wrong-size"
    UNREADABLE_DATA_FILE = "unreadable-data-file"
    WRONG_STATISTICS = "wrong-statistics"
    UNCHECKED_STATISTICS = "unchecked-statistics"
    WRONG_STATISTICS_COLUMNS = "wrong-statistics-columns"
    BROKEN_BLOOM_FILTER = "broken-bloom-filter"
    WRONG_PARTITION_VALUE = "wrong-partition-value"
    BAD_DELETION_VECTOR = "bad-deletion-vector"
    ORPHAN_TEMPORARY_FILE = "orphan-temporary-file"
    VIOLATED_KEY = "violated-key"
    UNCHECKED_KEY = "unchecked-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One defect.

    Attributes:
        file: its name in the log, or its key below the table; None if no single file is at fault.
        version: the version of the table that has the defect; None if that has no meaning.
        detail: what was expected, and what was found.
        next_step: what to do.
        error: the error that was the reason, if there was one.
    """

    severity: Severity
    kind: Kind
    file: str | None
    version: int | None
    detail: str
    next_step: str
    error: Exception | None = field(default=None, compare=False, repr=False)


_RESTORE_DATA = "Restore the file from a backup, read a version without it, or remove it from the table."
_DROP_CHECKPOINT = (
    "If the commits before it still exist, delete it and _last_checkpoint: the table can be read without it."
)

# The severity and the next step of each kind.
_RULES: Mapping[Kind, tuple[Severity, str]] = {
    Kind.UNREADABLE_TABLE: (
        Severity.ERROR,
        "Restore the missing parts of the log from a backup, or read an older version.",
    ),
    Kind.ILLEGAL_LOG_FILE: (
        Severity.ERROR,
        "This is a bug in the writer of that file. Restore it from a backup, or read an earlier version.",
    ),
    Kind.WRONG_ROWS: (Severity.ERROR, "The version itself created the table so: write it again."),
    Kind.MISSING_VERSIONS: (Severity.WARNING, "Restore the missing commits from a backup if these versions matter."),
    Kind.BROKEN_CHECKPOINT: (Severity.ERROR, _DROP_CHECKPOINT),
    Kind.INCOMPLETE_CHECKPOINT: (
        Severity.WARNING,
        "Its writer did not finish it, and readers ignore it. Its parts can be deleted.",
    ),
    Kind.WRONG_CHECKPOINT: (Severity.ERROR, _DROP_CHECKPOINT),
    Kind.WRONG_COMPACTED_LOG: (Severity.ERROR, "Delete it: the commits that it contains still exist."),
    Kind.WRONG_CHECKSUM_FILE: (Severity.WARNING, "Delete it. It only saves time."),
    Kind.BROKEN_HINT: (
        Severity.WARNING,
        "Delete it. It only shortens listings, and the next checkpoint writes it again.",
    ),
    Kind.ILLEGAL_PATH: (Severity.ERROR, "This is a bug in the writer of that path. Read an earlier version."),
    Kind.DUPLICATE_FILE: (
        Severity.ERROR,
        "Its rows are read more than once: remove the file from the table, and add it once.",
    ),
    Kind.WRONG_ROW_IDS: (
        Severity.ERROR,
        "This is a bug in the writer of that file. Rewrite its rows, and remove the file.",
    ),
    Kind.MISSING_DATA_FILE: (
        Severity.ERROR,
        "Restore the file from a backup, or remove it from the table: tahoe repair.",
    ),
    Kind.WRONG_SIZE: (Severity.ERROR, _RESTORE_DATA),
    Kind.UNREADABLE_DATA_FILE: (Severity.ERROR, _RESTORE_DATA),
    Kind.WRONG_STATISTICS: (
        Severity.ERROR,
        "Queries may be answered wrongly. Compute its statistics again: tahoe repair --statistics.",
    ),
    Kind.UNCHECKED_STATISTICS: (
        Severity.WARNING,
        "Only Spark can read the file, so its statistics were compared with its footer alone.",
    ),
    Kind.WRONG_STATISTICS_COLUMNS: (
        Severity.WARNING,
        "The reference refuses any change of the table. Set delta.dataSkippingStatsColumns to other columns, or "
        "unset it.",
    ),
    Kind.BROKEN_BLOOM_FILTER: (
        Severity.ERROR,
        "Spark leaves out rows of the file that are there. Rewrite it: UPDATE t SET c = c WHERE "
        "_metadata.file_path = '...'.",
    ),
    Kind.WRONG_PARTITION_VALUE: (Severity.ERROR, "Rewrite the rows of its files, and remove the files."),
    Kind.BAD_DELETION_VECTOR: (Severity.ERROR, "Restore the vector's file from a backup, or read an earlier version."),
    Kind.ORPHAN_TEMPORARY_FILE: (
        Severity.WARNING,
        "A writer was interrupted. Nothing refers to the file, so it can be deleted.",
    ),
    Kind.VIOLATED_KEY: (Severity.ERROR, "Delete or change the rows, or drop the key: ALTER TABLE ... DROP CONSTRAINT."),
    Kind.UNCHECKED_KEY: (
        Severity.WARNING,
        "Drop the key and declare it anew, or check it in Spark: DeltaTable.checkKeys().",
    ),
}


def finding(
    kind: Kind, *, file: str | None, version: int | None, detail: str, severity: Severity | None = None
) -> Finding:
    """A finding with the severity and the next step of its kind."""
    usual, next_step = _RULES[kind]
    return Finding(
        severity=severity or usual, kind=kind, file=file, version=version, detail=detail, next_step=next_step
    )


def finding_of_error(kind: Kind, file: str | None, version: int | None, error: DeltaError) -> Finding:
    """A finding from an error. If the error has a detail, its text about the place is left out."""
    detail = str(error.parameters.get("detail") or error.what.format(**error.parameters))
    if "line" in error.parameters:
        detail = f"line {error.parameters['line']}: {detail}"
    return replace(finding(kind, file=file, version=version, detail=detail), next_step=error.next_step, error=error)
