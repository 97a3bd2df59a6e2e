"""One version of a table: protocol, metadata, application transactions, domains and live files.

Protocol: "Action Reconciliation". A snapshot is immutable; a later one is made from it and the commits in between.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tahoe._cached import cached_property
from tahoe._progress import showing
from tahoe.errors import (
    CatalogManagedTableError,
    CommitGoneError,
    CorruptCheckpointError,
    DeltaAnalysisError,
    DeltaLogError,
    InvalidActionError,
    MissingActionError,
    MissingVersionError,
    OperationNotAllowedError,
    UnsupportedDataTypeError,
    VersionNotFoundError,
)
from tahoe.errors.root import cause_text
from tahoe.events.listeners import now
from tahoe.protocol.configuration.features import check_readable, supported_features, supports
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import Action, Add, CommitInfo, DomainMetadata, Metadata, Protocol, Remove, Txn
from tahoe.protocol.log.log_files import LogFile, Segment
from tahoe.protocol.log.replay import State, apply_actions
from tahoe.protocol.log.version_checksum import VersionChecksum, parse_version_checksum
from tahoe.protocol.types.schema import check_readable_names
from tahoe.storage.env import is_managed, may_be_described
from tahoe.table.arguments import COUNT, FILTER, NAMES, takes
from tahoe.table.arrow.chunks import sorted_table
from tahoe.table.calls import of_objects
from tahoe.table.log.checkpoint import read_checkpoint
from tahoe.table.log.delta_log import Log
from tahoe.table.log.file_entries import to_table
from tahoe.table.log.file_parts import GONE, MemoryPart
from tahoe.table.log.live_files import LiveFiles, Origin, Totals
from tahoe.table.reading.filters import Filter, predicate_of
from tahoe.table.reading.notebook import html_of, html_or_reason
from tahoe.table.reading.scan import Scan, plan_scan, told_plan
from tahoe.table.reading.snapshot_state import SnapshotState

if TYPE_CHECKING:  # optional packages
    import pandas as pd
    import polars as pl

    from tahoe.table.reading.dataset import TableDataset  # imported when it is used

_SERIALS = itertools.count(1)

# The checksum is read if it takes the place of so many log files.
_LOG_FILES_MIN = 3


@of_objects("table.snapshot()")
@dataclass(frozen=True, kw_only=True)
class Snapshot(SnapshotState):
    """A table at one version. Made by `load_snapshot`, or by `Table.snapshot`."""

    def __repr__(self) -> str:
        return f"Snapshot({self.url!r}, version={self.version})"

    def _repr_html_(self, name: str | None = None) -> str:
        """In a notebook: location, name, version, rows, files, size, columns and the last commits."""
        return html_or_reason(self.url, lambda: html_of(self, self.full_scan, name))

    @cached_property
    def serial(self) -> int:
        """A number that no other snapshot in this process has."""
        return next(_SERIALS)

    @cached_property
    def full_scan(self) -> Scan:
        """The scan of all files. Its cached results live as long as the snapshot."""
        return Scan(self, None, None)

    @takes(filter=FILTER)
    def scan(self, filter: Filter | None = None) -> Scan:
        """The files that may contain rows for which a filter is true.

        Args:
            filter: SQL text (`"n > 990 AND upper(name) LIKE '%X'"`); a condition of `pyarrow.compute` (`pc.field("n") >
                990`); or tuples, which are joined by AND (`[("n", ">", 990)]`), and lists of tuples, which are joined
                by OR.

        Raises:
            InvalidPredicateError, ColumnNotFoundError: the text is not a valid predicate over the table's columns.
        """
        begun, scan = now(), chosen_files(self, filter)
        told_plan(self.version, [scan], begun)
        return scan

    @takes(filter=FILTER, columns=NAMES)
    def files(self, filter: Filter | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """The live files that may contain rows for which the filter is true; see `Scan.listing` for the columns."""
        return self.scan(filter).listing(columns)

    @takes(columns=NAMES, filter=FILTER)
    def to_arrow(self, columns: Sequence[str] | None = None, filter: Filter | None = None) -> pa.Table:
        """The rows, with deletion vectors and column mapping applied.

        Args:
            columns: logical names, in the wanted order; all if None. With row tracking also `_metadata.row_id`,
                `_metadata.row_commit_version`, `_metadata.base_row_id` and `_metadata.default_row_commit_version`.
            filter: see `scan`; exact, with files skipped by their statistics.

        Raises:
            ColumnNotFoundError, InvalidPredicateError: a column or the filter does not fit the schema.
            DeltaDataError: a file is not what the log says.
        """
        return self.scan(filter).to_arrow(columns)

    @takes(columns=NAMES, filter=FILTER, limit=COUNT)
    def to_batches(
        self, columns: Sequence[str] | None = None, filter: Filter | None = None, *, limit: int | None = None
    ) -> pa.RecordBatchReader:
        """The rows of `to_arrow` as a stream of record batches, at most `limit` of them.

        Files are read when their rows are asked for, one row group at a time, so that memory is bounded whatever the
        size of the table.

        Raises:
            ColumnNotFoundError, InvalidPredicateError: at once.
            DeltaDataError: a file is not what the log says; while the batches are read.
        """
        return self.scan(filter).to_batches(columns, limit=limit)

    @takes(columns=NAMES, filter=FILTER)
    def to_pandas(self, columns: Sequence[str] | None = None, filter: Filter | None = None) -> pd.DataFrame:
        """The rows of `to_arrow` as a `pandas.DataFrame`."""
        return self.scan(filter).to_pandas(columns)

    @takes(columns=NAMES, filter=FILTER)
    def to_polars(self, columns: Sequence[str] | None = None, filter: Filter | None = None) -> pl.DataFrame:
        """The rows of `to_arrow` as a `polars.DataFrame`."""
        return self.scan(filter).to_polars(columns)

    @takes(filter=FILTER)
    def count(self, filter: Filter | None = None) -> int:
        """The number of rows for which the filter is true: without a filter from the log, if it has the counts of all
        files.
        """
        return self.scan(filter).count()

    @takes(rows=COUNT, columns=NAMES, filter=FILTER)
    def head(self, rows: int = 5, columns: Sequence[str] | None = None, filter: Filter | None = None) -> pa.Table:
        """The first rows, in the order of the files; no further file is read."""
        return self.scan(filter).head(rows, columns)

    def to_pyarrow_dataset(self) -> TableDataset:
        """This version as a `pyarrow.dataset.Dataset`, to which DuckDB and Polars hand down columns and conditions of
        their queries.
        """
        from tahoe.table.reading.dataset import TableDataset  # noqa: PLC0415 - pyarrow.dataset imports pandas, where that is installed

        return TableDataset(self.full_scan)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows for any library that takes Arrow data: `polars.DataFrame(snapshot)`, `duckdb.sql("from
        snapshot")`.
        """
        return self.full_scan.__arrow_c_stream__(requested_schema)

    def without_files(self) -> Snapshot:
        """The same version without its files, small enough to be sent to another process."""
        return replace(self, live=LiveFiles(()))

    def after(self, commits: Iterable[tuple[LogFile, list[Action]]]) -> Snapshot:
        """The snapshot after further commits, oldest first."""
        newer = list(commits)
        if not newer:
            return self
        state = State(protocol=self.protocol, metadata=self.metadata, txns=dict(self.txns), domains=dict(self.domains))
        for _, actions in newer:
            apply_actions(state, _without_files(actions), self.log.canonical)
        last = newer[-1][0]
        live = self.live.after([actions for _, actions in reversed(newer)], self.log.canonical)
        checkpoint = frozenset[str]() if self.live.origin is None else self.live.origin.checkpoint
        return _checked_snapshot(self.log, state, live, last.end_version, last, checkpoint)


def chosen_files(snapshot: Snapshot, filter: Filter | None) -> Scan:
    """As `Snapshot.scan`, for decisions that read no rows: nobody is told of a query."""
    if filter is None:
        return snapshot.full_scan
    predicate = predicate_of(filter, snapshot.schema, zone=snapshot.log.zone, table=snapshot.url)
    return plan_scan(predicate, snapshot.full_scan)


def load_snapshot(
    log: Log,
    version: int | None = None,
    *,
    by_checksum: bool = True,
    unusable: frozenset[str] = frozenset(),
    listed: Sequence[LogFile] | None = None,
) -> Snapshot:
    """Load a version from the log; the newest version if None.

    A broken checkpoint or compacted file is not used: this costs time but never correctness.

    Args:
        by_checksum: allow a small version to be loaded from its version checksum instead of the log files before it.
        unusable: the names of checkpoints and compacted files that are not used.
        listed: the whole log, if the caller has listed it.

    Raises:
        TableNotFoundError, NotADeltaTableError, VersionNotFoundError: there is no such table or version.
        DeltaLogError: the log breaks the protocol or has lost a file.
        DeltaProtocolError: the table needs a reader feature that tahoe does not support.
    """
    return log.from_segment(
        version,
        lambda segment: (
            (_from_checksum(log, segment) if by_checksum else None) or _from_log_files(log, segment, unusable)
        ),
        unusable=unusable,
        listed=listed,
    )


def _from_log_files(log: Log, segment: Segment, unusable: frozenset[str]) -> Snapshot:
    """The snapshot of a segment, from its checkpoint and the commits behind it. A checkpoint with an illegal schema
    counts as broken, so that an older one is used; one without protocol or metadata does not: see `_check_complete`.

    Args:
        unusable: the names of files that are not used when the version is loaded again either.
    """
    state, live = State(), LiveFiles(())
    if segment.checkpoint is not None:
        actions, parts = read_checkpoint(log, segment.checkpoint)
        apply_actions(state, actions, log.canonical)
        live = LiveFiles(parts)
        names = ", ".join(f.name for f in segment.checkpoint.files)
        _check_complete(log, state, segment.checkpoint.version, names)
        try:
            _check_schema(log, state)
        except InvalidActionError as error:
            raise CorruptCheckpointError(table=log.url, file=names, detail=cause_text(error)) from error
    commits = []
    with showing("reading the log", "commits") as show_progress:
        for number, file in enumerate(segment.deltas, start=1):
            actions = log.read(file)
            apply_actions(state, _without_files(actions), log.canonical)
            commits.append([action for action in actions if isinstance(action, (Add, Remove))])
            show_progress(number, len(segment.deltas))
    checkpoint = frozenset(f.name for f in segment.checkpoint.files) if segment.checkpoint else frozenset[str]()
    return _checked_snapshot(
        log, state, live.after(commits[::-1], log.canonical), segment.version, segment.commit, checkpoint, unusable
    )


def _from_checksum(log: Log, segment: Segment) -> Snapshot | None:
    """Load a version from its checksum alone, if that lists all of its files; None if it saves too few reads."""
    log_files_read = len(segment.deltas) + (segment.checkpoint is not None)
    if segment.checksum is None or segment.commit is None or log_files_read < _LOG_FILES_MIN:
        return None
    found = _trusted_checksum(log, segment.commit, with_files=True)
    if found is None or found.files is None or found.txns is None or found.domains is None:
        return None
    state = State(
        protocol=found.protocol,
        metadata=found.metadata,
        txns={txn.app_id: txn for txn in found.txns},
        domains={domain.domain: domain for domain in found.domains},
    )
    return _checked_snapshot(
        log, state, LiveFiles([MemoryPart(to_table(found.files))]), segment.version, segment.commit
    )


def _trusted_checksum(log: Log, commit: LogFile, *, with_files: bool = False) -> VersionChecksum | None:
    """The version checksum beside a commit, if it may be relied upon, and lists the files if that is asked for; None
    otherwise.

    Only checksums written by tahoe are used, and only if checksum and commit have the same `txnId`. Checksums of other
    writers are compared by `tahoe check`, but not relied upon.
    """
    try:
        found = parse_version_checksum(log.env.store.get(log_files.checksum_key(commit.version)))
    except FileNotFoundError:
        return None
    if found is None or not found.is_whole or (with_files and found.files is None):
        return None
    info = next((a for a in log.read(commit) if isinstance(a, CommitInfo)), CommitInfo({}))
    is_ours = info.txn_id is not None and info.txn_id == found.txn_id and "tahoe/" in str(info.fields.get("engineInfo"))
    return found if is_ours else None


def _totals(log: Log, commit: LogFile | None) -> Totals | None:
    """The totals of a version by its checksum, if it may be relied upon."""
    if commit is None or commit.kind is not log_files.Kind.COMMIT:
        return None
    try:
        found = _trusted_checksum(log, commit)
    except DeltaLogError:
        return None
    return None if found is None else Totals(found.num_files, found.table_size_bytes)


def _without_files(actions: Iterable[Action]) -> list[Action]:
    """The actions other than files: `LiveFiles` replays files as columns."""
    return [a for a in actions if isinstance(a, (Protocol, Metadata, Txn, DomainMetadata))]


def check_may_open(log: Log, protocol: Protocol, version: int | None = None) -> None:
    """Refuse a catalog-managed table without its catalog. A table that was given back to its path has its old versions
    in the log.

    Args:
        version: which is read; None is the newest one.

    Raises:
        CatalogManagedTableError: it was opened by its path.
    """
    if is_managed(log.env.store) or not supports(protocol, "catalogManaged"):
        return
    if version is None or not any(file.version > version for file in log.list_files(version)):
        raise CatalogManagedTableError(table=log.url)
    load_snapshot(log)  # the newest version says who has the commits now


def check_may_delete(log: Log, operation: str) -> None:
    """Refuse to delete files in a transaction over several tables: they do not come back if it is undone.

    Raises:
        OperationNotAllowedError: the table was opened in such a transaction.
    """
    log.env.watch.begin(log.url)
    if not may_be_described(log.env.store, log_files.VERSION_MAX):
        detail = "it deletes files, which do not come back if the transaction over several tables is undone"
        raise OperationNotAllowedError(
            operation=operation, table=log.url, detail=detail, remedy="Do it outside of the transaction."
        )


def _checked_snapshot(
    log: Log,
    state: State,
    live: LiveFiles,
    version: int,
    commit: LogFile | None,
    checkpoint: frozenset[str] = frozenset(),
    unusable: frozenset[str] = frozenset(),
) -> Snapshot:
    """The snapshot of a state, if the state is complete and this version of tahoe can read it. Its files know how to
    find themselves again when a checkpoint is deleted while they are read.
    """
    _check_complete(log, state, version, log_files.commit_name(version))
    _check_schema(log, state)
    assert state.protocol is not None
    assert state.metadata is not None
    check_readable(state.protocol, state.metadata, table=log.url)
    check_may_open(log, state.protocol, version)
    origin = Origin(
        table=log.url,
        version=version,
        checkpoint=checkpoint,
        find_again=partial(_find_again, log, version, state.metadata.id, checkpoint, unusable),
        totals=partial(_totals, log, commit),
    )
    return Snapshot(
        log=log,
        version=version,
        protocol=state.protocol,
        metadata=state.metadata,
        txns=state.txns,
        domains=state.domains,
        live=live.of(origin),
        commit=commit,
    )


def _find_again(
    log: Log,
    version: int,
    table_id: str,
    checkpoint: frozenset[str],
    unusable: frozenset[str],
    error: Exception,
) -> LiveFiles:
    """Find the files of a version again in the present log, because its checkpoint no longer exists or turned out to be
    broken.

    Args:
        unusable: the names of files that turned out to be broken before: two checkpoints may share a sidecar.

    Raises:
        VersionNotFoundError, DeltaLogError: the version can no longer be read, or is of another table by now.
    """
    is_broken = isinstance(error, CorruptCheckpointError)
    try:
        found = load_snapshot(log, version, unusable=unusable | checkpoint if is_broken else unusable)
    except (DeltaLogError, VersionNotFoundError) as failure:
        if is_broken:
            raise error from failure
        raise
    if found.metadata.id != table_id:
        raise MissingVersionError(table=log.url, version=version, detail="the table was dropped and recreated")
    return found.live


def _check_complete(log: Log, state: State, version: int, file: str) -> None:
    """Refuse a state without protocol or metadata. No other checkpoint is tried: the file is readable, so its writer is
    at fault.
    """
    for name, found in (("protocol", state.protocol), ("metaData", state.metadata)):
        if found is None:
            raise MissingActionError(table=log.url, version=version, action=name, file=file)


def _check_schema(log: Log, state: State) -> None:
    """Parse the schema now instead of at first use, so that an error names the table."""
    assert state.metadata is not None
    try:
        check_readable_names(state.metadata.schema, table=log.url)
    except (InvalidActionError, UnsupportedDataTypeError) as error:
        raise type(error)(**{**error.parameters, "table": log.url}) from error


def refresh(snapshot: Snapshot) -> Snapshot:
    """The newest snapshot, made from an earlier one and the commits since; loaded from scratch if the log does not
    continue it.
    """
    log = snapshot.log
    files = log.list_files(snapshot.version)
    commits = {f.version: f for f in files if f.kind is log_files.Kind.COMMIT}
    known = commits.get(snapshot.version)
    if known is None or snapshot.commit is None or known.identity != snapshot.commit.identity:
        return load_snapshot(log)
    newest = max(commits)
    wanted = range(snapshot.version + 1, newest + 1)
    if any(version not in commits for version in wanted):
        return load_snapshot(log)
    try:
        return snapshot.after([(commits[v], log.read(commits[v])) for v in wanted])
    except CommitGoneError:
        return load_snapshot(log)


def is_current(snapshot: Snapshot) -> bool:
    """Whether the log still has the version of a snapshot, and the table was not dropped and recreated.

    A table that was copied, restored or moved to another disk is still the same, although the identities of its files
    in the storage differ.

    Raises:
        DeltaStorageError: the storage does not answer.
    """
    known, same = snapshot.commit, _is_the_same_table  # without a commit file: its checkpoint may be rewritten any time
    if known is not None:
        found, same = snapshot.log.commit_file(snapshot.version), _has_the_same_files
        if found is None or found.size_bytes != known.size_bytes:
            return False
        if found.identity == known.identity:
            return True
    try:
        return same(load_snapshot(snapshot.log, snapshot.version, by_checksum=False), snapshot)
    except (DeltaLogError, DeltaAnalysisError, *GONE):
        return False


def _is_the_same_table(one: Snapshot, other: Snapshot) -> bool:
    return one.metadata.id == other.metadata.id


def _has_the_same_files(one: Snapshot, other: Snapshot) -> bool:
    """Compare by content, because one snapshot may be from commits and the other from a checkpoint, which keeps fewer
    fields.
    """
    return (
        _definition(one) == _definition(other)
        and len(one.live) == len(other.live)
        and _telling(one.live).equals(_telling(other.live))
    )


def _definition(snapshot: Snapshot) -> tuple[object, ...]:
    metadata = snapshot.metadata
    named = metadata.id, metadata.schema, metadata.partition_columns, dict(metadata.configuration)
    return *named, supported_features(snapshot.protocol), dict(snapshot.domains)


# The columns that decide which rows a version has.
_TELLING = ("path", "size_bytes", "modification_time_ms", "base_row_id", "default_row_commit_version")


def _telling(live: LiveFiles) -> pa.Table:
    """The columns that distinguish the files of two versions, sorted."""
    vectors = live.column("deletion_vector")
    marked = {name: pc.struct_field(vectors, name) for name in ("pathOrInlineDv", "offset")}
    return sorted_table(pa.table({name: live.column(name) for name in _TELLING} | marked), ("path", *marked))
