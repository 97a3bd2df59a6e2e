"""Which entries of a table are removed or replaced because of findings about their files, and the commit.

Protocol: "Add File and Remove File", "Action Reconciliation". A file that is gone is removed with all its entries. Of
two entries of a file that exists, one is removed only if both delete the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import (
    DeletionVectorError,
    DeltaConcurrentModificationException,
    DeltaStorageError,
    RepairUncertainError,
)
from tahoe.errors.root import cause_text
from tahoe.protocol.log.actions import Add
from tahoe.protocol.log.replay import FileKey, file_key
from tahoe.storage.env import is_temporary
from tahoe.storage.threads import in_threads
from tahoe.table.commit.continuity import check_same_table
from tahoe.table.commit.draft import Draft, OperationInfo
from tahoe.table.layout.statistics import with_statistics
from tahoe.table.log.deletion_vectors import deleted_rows_of
from tahoe.table.log.file_keys import canonical_paths
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.verify.findings import Finding, Kind
from tahoe.table.verify.repairs import Repair, RepairKind, Unrepaired, unrepaired
from tahoe.table.versions.table_reader import TableReader
from tahoe.table.writing.planning import plan_existing
from tahoe.table.writing.write_request import WriteRequest

FSCK = "FSCK"

UnreadableVectors: TypeAlias = Literal["report", "restore_rows", "remove_files"]
"""What is done about a file whose deletion vector is missing or damaged."""

# The removes of one commit. As text they take some megabytes.
_ENTRIES_PER_COMMIT_MAX = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An entry to remove.

    Attributes:
        is_gone: its file does not exist.
        restores: the file stays in the table, without a deletion vector.
    """

    entry: Add
    is_gone: bool = False
    restores: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRepairs:
    """Decisions about findings, in their order, and what follows from them.

    Attributes:
        changes: by path and deletion vector.
        paths: the files whose statistics are computed again.
    """

    decisions: list[Repair | Unrepaired] = field(default_factory=list)
    changes: dict[FileKey, Change] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)


def plan_file_repairs(snapshot: Snapshot, findings: Sequence[Finding], vectors: UnreadableVectors) -> FileRepairs:
    """Decide about the findings of a version's files.

    Raises:
        DeltaStorageError: a deletion vector cannot be looked at.
    """
    planned = FileRepairs()
    entries = _entries(snapshot, findings)
    gone = {snapshot.log.canonical(f.file) for f in findings if f.kind is Kind.MISSING_DATA_FILE and f.file is not None}
    for finding in findings:
        path = None if finding.file is None else snapshot.log.canonical(finding.file)
        mine = entries.get(path, []) if path is not None else []
        changes, decision = _about_gone(finding, mine) if path in gone else _decide(snapshot, finding, mine, vectors)
        planned.decisions.append(decision)
        planned.changes.update({file_key(change.entry, snapshot.log.canonical): change for change in changes})
        if isinstance(decision, Repair) and decision.action is RepairKind.COMPUTE_STATISTICS:
            planned.paths.update(entry.path for entry in mine)
    return planned


def _decide(
    snapshot: Snapshot, finding: Finding, entries: Sequence[Add], vectors: UnreadableVectors
) -> tuple[list[Change], Repair | Unrepaired]:
    """What is done about a finding of a file that exists, and the changes of entries that this needs. Statistics are
    computed again later, from the rows, so they need none here.
    """
    if finding.kind is Kind.DUPLICATE_FILE:
        return _about_duplicate(snapshot, finding, entries)
    if finding.kind is Kind.BAD_DELETION_VECTOR:
        return _about_vector(finding, entries, vectors)
    if finding.kind is Kind.WRONG_STATISTICS and len(entries) == 1:
        return [], _repaired(finding, RepairKind.COMPUTE_STATISTICS)
    if finding.kind is Kind.ORPHAN_TEMPORARY_FILE and finding.file is not None and is_temporary(finding.file):
        return [], Repair(finding=finding, action=RepairKind.DELETE_TEMPORARY_FILE, keys=(finding.file,))
    return [], unrepaired(
        finding, "it is in the table more than once" if finding.kind is Kind.WRONG_STATISTICS else None
    )


def _about_gone(finding: Finding, entries: Sequence[Add]) -> tuple[list[Change], Repair | Unrepaired]:
    return [Change(entry=entry, is_gone=True) for entry in entries], _repaired(finding, RepairKind.REMOVE_ENTRY)


def _about_duplicate(
    snapshot: Snapshot, finding: Finding, entries: Sequence[Add]
) -> tuple[list[Change], Repair | Unrepaired]:
    try:
        rows = deleted_rows_of(snapshot.log, entries)
    except DeletionVectorError:
        return [], unrepaired(finding)
    if any(other != rows[0] for other in rows[1:]):
        return [], unrepaired(finding)
    return [Change(entry=entry) for entry in entries[1:]], _repaired(finding, RepairKind.REMOVE_DUPLICATE)


def _about_vector(
    finding: Finding, entries: Sequence[Add], vectors: UnreadableVectors
) -> tuple[list[Change], Repair | Unrepaired]:
    if vectors == "report" or len(entries) != 1:
        return [], unrepaired(finding)
    restores = vectors == "restore_rows"
    return [Change(entry=entries[0], restores=restores)], _repaired(
        finding, RepairKind.RESTORE_ROWS if restores else RepairKind.REMOVE_ENTRY
    )


def _repaired(finding: Finding, action: RepairKind) -> Repair:
    return Repair(finding=finding, action=action)


def _entries(snapshot: Snapshot, findings: Iterable[Finding]) -> Mapping[str, list[Add]]:
    """The entries of the files in findings, by canonical path."""
    log = snapshot.log
    wanted = {log.canonical(finding.file) for finding in findings if finding.file is not None}
    found = pc.is_in(
        canonical_paths(snapshot.live.column("path"), log), value_set=pa.array(sorted(wanted), pa.string())
    )
    entries: dict[str, list[Add]] = {}
    for entry in Scan(snapshot, None, pc.indices_nonzero(found)).adds():
        entries.setdefault(log.canonical(entry.path), []).append(entry)
    return entries


# --- commit


def check_repairable(table: TableReader, snapshot: Snapshot, *, removes: bool) -> None:
    """Refuse to repair a version that tahoe must not write.

    Args:
        removes: whether entries of files are removed.

    Raises:
        DeltaProtocolError: see `plan_existing`.
    """
    plan_existing(
        table, WriteRequest(mode="overwrite" if removes else "append", schema=snapshot.schema, operation=FSCK), snapshot
    )


def commit_changes(table: TableReader, checked: Snapshot, changes: Sequence[Change], info: OperationInfo) -> int | None:
    """Remove entries in one version, or in several if there are many, or two of one file.

    An entry that is no longer live by then is left out, and so is a file that is back. Returns the last version; None
    if nothing was left.

    Args:
        checked: the version in which the changes were decided.

    Raises:
        RepairUncertainError: a file cannot be looked at again. It says which version was committed before, if there are
            several.
        DeltaStorageError: the commit failed, or its outcome is not known.
        DeltaConcurrentModificationException: the table was replaced.
        DeltaProtocolError: the table must not be written, or is append-only, by now.
    """
    last = None
    for batch in _batches(table, changes):
        last = _commit_batch(table, checked, batch, info, last) or last
    return last


def _batches(table: TableReader, changes: Sequence[Change]) -> Iterator[list[Change]]:
    """A commit has at most one remove for each path."""
    by_path: dict[str, list[Change]] = {}
    for change in changes:
        by_path.setdefault(table.log.canonical(change.entry.path), []).append(change)
    for some in zip_longest(*by_path.values()):
        batch = [change for change in some if change is not None]
        for start in range(0, len(batch), _ENTRIES_PER_COMMIT_MAX):
            yield batch[start : start + _ENTRIES_PER_COMMIT_MAX]


def _commit_batch(
    table: TableReader, checked: Snapshot, changes: Sequence[Change], info: OperationInfo, before: int | None
) -> int | None:
    """Commit some changes, as far as their entries are still live, and repeat that while other writers win. Nothing is
    committed if none is left.
    """
    while True:
        newest = table.snapshot()
        check_same_table(checked, newest)
        try:
            live = _still_live(newest, changes)
        except DeltaStorageError as error:
            done = (
                "No entry of a file was changed."
                if before is None
                else f"Version {before} is committed, the rest is not."
            )
            raise RepairUncertainError(table=table.url, detail=cause_text(error), done=done) from error
        removed = [entry for entry, _ in live]
        if not removed:
            return None
        check_repairable(table, newest, removes=True)
        restored = _restored(newest, [entry for entry, change in live if change.restores])
        metrics = {
            "numRemovedFiles": len(removed) - len(restored),
            "numRemovedBytes": sum(entry.size_bytes for entry, change in live if not change.restores),
            "numDeletionVectorsRemoved": sum(entry.deletion_vector is not None for entry in removed),
        }
        try:
            # carries: rows that a compaction has committed before, and read before their file was gone, stay
            with Draft(
                log=table.log, base=newest, protocol=newest.protocol, metadata=newest.metadata, carries=False
            ) as draft:
                draft.remove(removed)
                draft.adds += restored
                return draft.commit(replace(info, metrics=metrics))
        except DeltaConcurrentModificationException:
            if table.snapshot().version == newest.version:
                raise


def _restored(newest: Snapshot, entries: Sequence[Add]) -> list[Add]:
    """The entries without their deletion vectors. Tight statistics would hide the restored rows, so they are computed
    again.
    """
    bare = [entry.replace(deletion_vector=None, stats=None, data_change=True) for entry in entries]
    return with_statistics(newest, bare) if bare else []


def _still_live(newest: Snapshot, changes: Sequence[Change]) -> list[tuple[Add, Change]]:
    """The live entries of the changes. Entries that are no longer live, and those whose missing file exists again, are
    left out.

    Raises:
        DeltaStorageError: a file cannot be looked at.
    """
    log = newest.log
    by_key = {file_key(change.entry, log.canonical): change for change in changes}
    paths = pa.array(sorted({path for path, _ in by_key}), pa.string())
    there = Scan(
        newest, None, pc.indices_nonzero(pc.is_in(canonical_paths(newest.live.column("path"), log), value_set=paths))
    )
    live = [(entry, by_key[key]) for entry in there.adds() if (key := file_key(entry, log.canonical)) in by_key]
    is_back = list(in_threads(lambda found: found[1].is_gone and log.has_file(found[0].path), live))
    return [found for found, back in zip(live, is_back, strict=True) if not back]
