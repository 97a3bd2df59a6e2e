"""What repair does about a finding, as values: the repair, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tahoe.table.verify.findings import Finding, Kind


class RepairKind(Enum):
    """What is done about a finding, in the words of the report."""

    REMOVE_ENTRY = "remove the file from the table"
    REMOVE_DUPLICATE = "remove the second entry of the file, which deletes the same rows"
    RESTORE_ROWS = "remove the deletion vector: the rows that it deleted are in the table again"
    COMPUTE_STATISTICS = "compute its statistics again"
    DELETE_LOG_FILE = "delete it: its content can be rebuilt from the other log files"
    DELETE_TEMPORARY_FILE = "delete it: no version refers to it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A finding that is repaired.

    Attributes:
        keys: the files that are deleted. No version needs them.
    """

    finding: Finding
    action: RepairKind
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrepaired:
    """A finding that is left, and why."""

    finding: Finding
    reason: str


# Why findings of some kinds are never repaired.
_REASONS: Mapping[Kind, str] = {
    Kind.UNREADABLE_TABLE: "the log does not tell what the table is; nothing else was looked at",
    Kind.ILLEGAL_LOG_FILE: "its correct content cannot be rebuilt from other log files",
    Kind.WRONG_ROWS: "only its users know what was written since. Restore the version before, or correct the rows",
    Kind.MISSING_VERSIONS: "no other file of the log has what those commits said",
    Kind.ILLEGAL_PATH: "the path does not tell which file is meant",
    Kind.WRONG_ROW_IDS: "other row ids would break references to rows",
    Kind.WRONG_SIZE: "the file may be damaged or another one, and its rows may still be recovered",
    Kind.UNREADABLE_DATA_FILE: (
        "the file exists, and its rows may still be recovered; if they are lost, delete the file and repair again"
    ),
    Kind.UNCHECKED_STATISTICS: "nothing is known to be wrong with it",
    Kind.VIOLATED_KEY: "the log does not tell which of the rows is right",
    Kind.UNCHECKED_KEY: "nothing is known to be wrong with it",
    Kind.WRONG_STATISTICS_COLUMNS: "only its users know which columns queries need statistics of",
    Kind.BROKEN_BLOOM_FILTER: "only a new file can have another filter, and its rows need a commit of their own",
    Kind.WRONG_PARTITION_VALUE: "the log has the only record of the value",
    Kind.BAD_DELETION_VECTOR: (
        "without the vector deleted rows would come back, and without the file all its rows would be lost. "
        "Restore the vector's file from "
        'a copy, or decide: unreadable_vectors="restore_rows" or "remove_files" (tahoe repair --unreadable-vectors)'
    ),
    Kind.DUPLICATE_FILE: (
        "nothing tells which of its deletion vectors is right. Compare the versions that added them, and rewrite "
        "the rows of one of them"
    ),
    Kind.ORPHAN_TEMPORARY_FILE: "a job of another program may still be writing it",
}


def unrepaired(finding: Finding, reason: str | None = None) -> Unrepaired:
    """A finding that is left, with the reason of its kind if no other is given."""
    return Unrepaired(finding=finding, reason=reason or _REASONS[finding.kind])
