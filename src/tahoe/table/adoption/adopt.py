"""Adopts files: commits a version whose files come from elsewhere, such as an earlier version, another table or a
folder.

Protocol: "Action Reconciliation", "Add File and Remove File". What is adopted is planned on one version of the table.
If another commit wins, it is planned anew on the newest version, so that the version that is made has exactly the files
that it should have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import DeltaConcurrentModificationException, UnsupportedOperationError
from tahoe.protocol.changes.conflict import EVERYTHING
from tahoe.protocol.configuration.features import keeps_partitions_in_files, setting
from tahoe.protocol.configuration.properties import PROTECTED_CHECKPOINTS_BEFORE
from tahoe.protocol.configuration.row_tracking import assigns_row_ids
from tahoe.protocol.log.actions import Add, DomainMetadata, Metadata, Protocol
from tahoe.table.arrow.chunks import is_in, one_array, taken
from tahoe.table.commit.draft import Draft, OperationInfo
from tahoe.table.commit.row_deletions import with_counted_rows
from tahoe.table.log.delta_log import Log
from tahoe.table.log.file_keys import file_keys
from tahoe.table.log.live_files import LiveFiles
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.versions.table_reader import TableReader

# The maximum number of plans when other writers commit first; they may commit faster than a large table is planned.
PLANS_MAX = 100

Result = TypeVar("Result")

Positions: TypeAlias = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """A version that adopts files, as planned on one version of the table, or on none.

    Attributes:
        protocol, metadata: of the table after the commit.
        domains: the domains that the commit sets or removes, by name.
        txns: application versions that the commit records.
        removed: entries of the table that are removed.
        added: entries that are added, with new rows.
        restated: new entries of files that keep their rows and their deletion vectors.
        info: what the history records.
    """

    protocol: Protocol
    metadata: Metadata
    info: OperationInfo
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    txns: dict[str, int] = field(default_factory=dict)
    removed: Sequence[Add] = ()
    added: Sequence[Add] = ()
    restated: Sequence[Add] = ()

    def draft(self, log: Log, base: Snapshot | None) -> Draft:
        """The commit. It depends on every file of the table, so no other commit may come first. Compactions leave its
        files as they are.
        """
        version = 0 if base is None else base.version
        counted = assigns_row_ids(self.protocol, self.metadata)
        added, restated = (
            with_counted_rows(log, adds, version) if counted else list(adds) for adds in (self.added, self.restated)
        )
        draft = Draft(
            log=log,
            base=base,
            protocol=self.protocol,
            metadata=self.metadata,
            domains=dict(self.domains),
            txns=dict(self.txns),
            adds=added,
            carries=False,
            reads=EVERYTHING,
            is_alone=True,
            compacts=False,
        )
        draft.remove(self.removed)
        draft.restate(restated)
        return draft


def adopt(table: TableReader, plan: Callable[[Snapshot | None], Adoption | None]) -> int | None:
    """Commit a version that adopts files. Behind every commit of another writer it is planned anew.

    Args:
        plan: makes the plan for the newest version of the table, None if there is no table. It may be called several
            times. If it returns None, there is nothing to do.

    Returns:
        the version that was committed; None if there was nothing to do.

    Raises:
        what `plan` raises.
        DeltaConcurrentModificationException: the table was dropped or recreated, or other writers were first
            `PLANS_MAX` times.
        CommitOutcomeUnknownError: the storage did not tell whether the commit was written.
    """

    def attempt(newest: Snapshot | None) -> Callable[[], int | None]:
        planned = plan(newest)
        return lambda: None if planned is None else _commit_adoption(planned, table.log, newest)

    table.env.watch.begin(table.url)
    return planned_anew(table, attempt)


def _commit_adoption(planned: Adoption, log: Log, newest: Snapshot | None) -> int | None:
    with planned.draft(log, newest) as draft:
        return draft.commit(planned.info)


def planned_anew(table: TableReader, plan: Callable[[Snapshot | None], Callable[[], Result]]) -> Result:
    """Plan a commit on the newest version, and make it; behind a commit of another writer that conflicts, plan it anew.

    Args:
        plan: checks and plans on the newest version of the table, None if there is no table, and returns what makes the
            commit. It may be called several times.

    Raises:
        what `plan` raises.
        DeltaConcurrentModificationException: the table was dropped or recreated, or other writers were first
            `PLANS_MAX` times.
        CommitOutcomeUnknownError: the storage did not tell whether the commit was written.
    """
    for left in reversed(range(PLANS_MAX)):
        newest = table.snapshot_if_exists()
        commit = plan(newest)
        try:
            return commit()
        except DeltaConcurrentModificationException:
            if not left or _version(table.snapshot_if_exists()) == _version(newest):
                raise
    raise AssertionError("the last attempt has raised its error")


def _version(snapshot: Snapshot | None) -> int | None:
    return None if snapshot is None else snapshot.version


def check_partitions_in_files(
    adopted: Snapshot, protocol: Protocol, metadata: Metadata, *, table: str, operation: str
) -> None:
    """Refuse to adopt files without the partition columns into a table whose files must have them.

    Args:
        adopted: the version that the files are from.

    Raises:
        UnsupportedOperationError
    """
    must_have, have = (
        keeps_partitions_in_files(protocol, metadata),
        keeps_partitions_in_files(adopted.protocol, adopted.metadata),
    )
    if must_have and not have and adopted.partition_columns and len(adopted.live):
        raise UnsupportedOperationError(
            operation=f"{operation} of version {adopted.version}",
            table=table,
            detail="data files of the table must contain the partition columns, but those of that version do not",
            remedy="Drop the feature materializePartitionColumns first, or copy the rows instead of the files.",
        )


# --- which files differ


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """How the files of a table differ from those that it should have. A file with another deletion vector differs.

    Attributes:
        removed: the positions, among the table's files, of those that it should not have.
        added: the positions, among the wanted files, of those that it lacks.
        kept: the positions, among the table's files, of the others.
    """

    removed: Positions
    added: Positions
    kept: Positions
    _mine: pa.ChunkedArray
    _wanted: pa.ChunkedArray

    def with_other_row_ids(self, before: LiveFiles, after: LiveFiles) -> Positions:
        """The positions, among the wanted files, of kept files that have no base row id, or another one than the one
        that is wanted.

        They have another one if the table's row ids were dropped, and begun anew. `before` and `after` are what was
        compared.
        """
        had, wanted = before.column("base_row_id"), after.column("base_row_id")
        lacks = self.kept[_mask(had.is_null())[self.kept]]
        is_other = is_in(self._wanted, taken(self._mine, lacks))
        if wanted.null_count < len(wanted):
            other = pc.invert(is_in(_joined(self._wanted, wanted), _joined(self._mine, had)))
            is_other = pc.or_(is_other, pc.and_(pc.and_(wanted.is_valid(), other), is_in(self._wanted, self._mine)))
        return np.flatnonzero(_mask(is_other))


def _joined(keys: pa.ChunkedArray, ids: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(keys, pc.fill_null(ids.cast(pa.string()), ""), "\0")


def protection_of(newest: Snapshot, protocol: Protocol, configuration: Mapping[str, str]) -> dict[str, str]:
    """The property that an adopted version must not lower: otherwise protected checkpoints are deleted.

    Args:
        newest: the version that the adopted one follows.
        protocol, configuration: of the adopted version.
    """
    protected, versions = (
        PROTECTED_CHECKPOINTS_BEFORE,
        ((protocol, configuration), (newest.protocol, newest.properties)),
    )
    if protected.name not in newest.properties:
        return {}
    return {protected.name: str(max(setting(protected, *version, table=newest.url) for version in versions))}


def file_difference(log: Log, before: LiveFiles, after: LiveFiles) -> FileDifference:
    """Compare the files of a table with those that it should have.

    Args:
        log: of the table, to which the paths of both are relative.
    """
    mine, wanted = file_keys(before, log), file_keys(after, log)
    is_kept, is_there = _mask(is_in(mine, wanted)), _mask(is_in(wanted, mine))
    return FileDifference(
        removed=np.flatnonzero(~is_kept),
        added=np.flatnonzero(~is_there),
        kept=np.flatnonzero(is_kept),
        _mine=mine,
        _wanted=wanted,
    )


def _mask(values: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    return np.array(one_array(values).to_numpy(zero_copy_only=False), bool)


def entries_at(snapshot: Snapshot, positions: Positions) -> Iterator[Add]:
    """The entries of some files, by sorted positions."""
    return Scan(snapshot, None, pa.array(positions, pa.uint64())).adds()
