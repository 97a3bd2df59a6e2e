"""The change data feed of a table over a range of versions: the files to read, their schema, and the rows in Arrow.

A feed is read as three in-memory tables, its parts. Their files contain the changes. Their partition columns are those
of the table, and the values that are constant for a file: version, time and, if the rows do not contain it, the change
type. So everything that works on tables (typed partition values, skipping, column mapping, deletion vectors, Spark's
plans) works on feeds, and a feed over a thousand versions is three scans.

Protocol: "Change Data Files", "Reader Requirements for AddCDCFile". Ranges and schemas follow the rules of the
reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal, TypeAlias, TypeGuard

import pyarrow as pa

from tahoe._cached import cached_property
from tahoe.errors import (
    ChangeBoundaryTwiceError,
    ChangesNotComputedError,
    ChangeStartMissingError,
    ChangeStartTooLateError,
    ColumnNotFoundError,
    InvalidChangeRangeError,
    InvalidCommitError,
    UnsupportedOperationError,
    VersionNotFoundError,
)
from tahoe.protocol.configuration.change_feed import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    FIELDS,
    Change,
    DeletionVectorChange,
    Recorded,
    Whole,
    changes_of,
)
from tahoe.protocol.configuration.row_tracking import METADATA, preserves_row_ids
from tahoe.protocol.log.actions import Action, Add, CommitInfo, FileAction, Remove
from tahoe.protocol.log.deletion_vector import inline_descriptor
from tahoe.protocol.log.log_files import LogFile, commit_name
from tahoe.protocol.types.moments import moment_of
from tahoe.protocol.types.partitions import format_partition_value
from tahoe.protocol.types.predicate import And, Predicate, columns_of, conjuncts, has_computed
from tahoe.protocol.types.schema import TIMESTAMP, Struct
from tahoe.storage.threads import load_all
from tahoe.table.arrow.chunks import sorted_table
from tahoe.table.arrow.types import arrow_schema
from tahoe.table.log.deletion_vectors import load_bitmap
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.evaluation import evaluate
from tahoe.table.reading.filters import Filter, predicate_of
from tahoe.table.reading.rows import read_rows
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tahoe.table.versions.computed_changes import CHANGED_AT, ID, computed_changes
from tahoe.table.versions.feed_columns import FeedColumns
from tahoe.table.versions.file_tables import table_of
from tahoe.table.versions.history import Timeline, newest_is_before, parse_timestamp, timeline, version_at, version_from
from tahoe.table.versions.tags import version_named

SchemaMode: TypeAlias = Literal["endVersion", "latest", "legacy"]
"""Whose schema the feed of a table with column mapping has: that of the last version of the range, or of the newest
version (`legacy` is the same here). Without column mapping it is always the newest, as in the reference.
"""

SCHEMA_MODES: tuple[SchemaMode, ...] = ("endVersion", "latest", "legacy")

PartName: TypeAlias = Literal["recorded", "whole", "remarked"]
"""A part of a feed.

- `recorded`: change data files.
- `whole`: data files that were added or removed, with the rows that their deletion vectors do not delete.
- `remarked`: data files whose deletion vectors changed. The changed rows are those that the vectors in this part mark.
"""

PART_NAMES: tuple[PartName, ...] = ("recorded", "whole", "remarked")


FeedKind: TypeAlias = Literal["recorded", "computed", "unpaired", "net"]
"""How a feed finds the changes.

- `recorded`: as writers recorded them, with the change data feed enabled.
- `computed`: from the data files that commits add and remove. The ids of rows, which they have with row tracking, tell
  which of them a commit only copied, and which it updated.
- `unpaired`: the same, with a delete and an insert for each update. That needs no ids where no rows were copied.
- `net`: what remains of all changes of a row in the range.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRange:
    """The range that a user asks for. Boundaries are inclusive. A missing end is the newest version when the feed is
    planned.
    """

    start_version: int | str | None = None
    end_version: int | str | None = None
    start_timestamp: str | date | None = None
    end_timestamp: str | date | None = None
    kind: FeedKind = "recorded"


@dataclass(frozen=True, slots=True)
class FeedRange:
    """The versions of a feed, both inclusive, and the version whose schema it has. The range is empty if `end` is
    before `start`.
    """

    start: int
    end: int
    schema_version: int
    kind: FeedKind = "recorded"

    @property
    def is_empty(self) -> bool:
        return self.end < self.start


@dataclass(frozen=True, slots=True)
class FeedPart:
    """Identifies one part of a feed, for callers that do not keep the feed."""

    versions: FeedRange
    name: PartName


@dataclass(frozen=True, slots=True)
class CommitChanges:
    """The changes of one version.

    Attributes:
        timestamp_ms: None if the log no longer has the commit.
        has_row_ids: whether all rows of its files have ids, if the changes are computed.
    """

    version: int
    timestamp_ms: int | None
    changes: tuple[Change, ...]
    has_row_ids: bool = False

    @property
    def is_mixed(self) -> bool:
        """Whether it both removes rows and adds some, of which a part may be copies."""
        return len({change.kind for change in self.changes if not isinstance(change, Recorded)}) > 1


@dataclass(frozen=True)
class ChangeFeed:
    """The changes of a range of versions. Immutable; made by `plan_feed`.

    Attributes:
        snapshot: the version whose columns the feed has.
        columns: these, with the widest types that they have had for the rows of the feed; None for those of the
            version.
    """

    snapshot: Snapshot
    range: FeedRange
    commits: tuple[CommitChanges, ...]
    columns: Struct | None = None

    @property
    def url(self) -> str:
        return self.snapshot.url

    @property
    def schema(self) -> Struct:
        """The table's columns, then `_change_type`, `_commit_version` and `_commit_timestamp`."""
        return feed_schema(self.snapshot, self.columns)

    @cached_property
    def size_bytes(self) -> int:
        """The total size of the files to read; a file that is read several times counts several times."""
        return sum(change.file.size_bytes or 0 for commit in self.commits for change in commit.changes)

    def part(self, name: PartName) -> Snapshot:
        """One part of the feed as a table; see `PartName`.

        Raises:
            DeletionVectorError: a vector is missing or damaged.
        """
        return {"recorded": self._recorded, "whole": self._whole, "remarked": self._changed_vectors}[name]

    def to_arrow(self, columns: Sequence[str] | None = None, filter: Filter | None = None) -> pa.Table:
        """The changed rows, in the order of versions.

        Args:
            columns: names of columns of `schema`, in the wanted order; all if None.
            filter: as in `Snapshot.scan`, over the columns of `schema`. It is exact. Files are skipped by version,
                change type, time, partition values and statistics.

        Raises:
            ColumnNotFoundError, InvalidPredicateError: a column or the filter does not fit the schema.
            DeltaDataError: a file is not what the log says, or is gone.
        """
        zone = self.snapshot.log.zone
        predicate = None if filter is None else predicate_of(filter, self.schema, zone=zone, table=self.url)
        wanted = self.schema.names if columns is None else [self._name(column) for column in columns]
        order = [*wanted, *(() if COMMIT_VERSION in wanted else (COMMIT_VERSION,))]
        rows = self._computed(predicate, order) if self.needs_row_ids else self._read(predicate, order)
        return sorted_table(rows, [COMMIT_VERSION]).select(wanted)

    def _read(self, predicate: Predicate | None, columns: Sequence[str]) -> pa.Table:
        fields = tuple(field for name in columns if (field := self.schema.find(name)) is not None)
        rows = [arrow_schema(Struct(fields)).empty_table()] if len(fields) == len(columns) else []
        return pa.concat_tables([*rows, *(self._rows(name, predicate, columns) for name in self._part_names)])

    def _computed(self, predicate: Predicate | None, columns: Sequence[str]) -> pa.Table:
        """The rows that changed, among those of the files. A condition may hold for one side of an update alone, so
        only those on versions and times leave files out.
        """
        is_net = self.range.kind == "net"
        asked = [] if predicate is None else [self._name(column.path[0]) for column in columns_of(predicate)]
        known = None if predicate is None or is_net else _of_commits(predicate)
        needed = dict.fromkeys([*columns, *asked, CHANGE_TYPE, COMMIT_VERSION, ID, CHANGED_AT])
        changes = computed_changes(self._read(known, [*needed]), is_net=is_net)
        return changes if predicate is None else changes.filter(evaluate(predicate, changes, table=self.url))

    @property
    def _part_names(self) -> tuple[PartName, ...]:
        return PART_NAMES if self.range.kind == "recorded" else ("whole", "remarked")

    def _rows(self, name: PartName, predicate: Predicate | None, columns: Sequence[str]) -> pa.Table:
        return read_rows(self.part(name).scan(predicate), columns, marked=name == "remarked")

    def _name(self, column: str) -> str:
        field = self.schema.find(column)
        if field is None:
            raise ColumnNotFoundError(table=self.url, column=column, columns=", ".join(self.schema.names))
        return field.name

    @cached_property
    def paired_versions(self) -> list[int]:
        """The versions in which the ids of rows tell copies and updates."""
        return [commit.version for commit in self.commits if commit.has_row_ids and commit.is_mixed]

    @property
    def needs_row_ids(self) -> bool:
        """Whether the changes follow from the ids of rows."""
        is_net = self.range.kind == "net" and any(commit.changes for commit in self.commits)
        return is_net or bool(self.paired_versions)

    # --- the parts

    @cached_property
    def _recorded(self) -> Snapshot:
        files = [
            _file(commit, change.file.path, change.file.partition_values, change.file.size_bytes)
            for commit in self.commits
            for change in commit.changes
            if isinstance(change, Recorded)
        ]
        return self._table("recorded", files)

    @cached_property
    def _whole(self) -> Snapshot:
        """The files of which all rows are changes, as a table: those added or removed without a change file."""
        files = [
            _file(
                commit, change.file.path, change.file.partition_values, change.file.size_bytes, kind=change.kind
            ).replace(
                deletion_vector=change.file.deletion_vector,
                stats=change.file.stats,
                **_row_ids(change.file),
            )
            for commit in self.commits
            for change in commit.changes
            if isinstance(change, Whole)
        ]
        return self._table("whole", files)

    @cached_property
    def _changed_vectors(self) -> Snapshot:
        changes = [
            (commit, change)
            for commit in self.commits
            for change in commit.changes
            if isinstance(change, DeletionVectorChange)
        ]
        files = load_all(lambda given: _remarked_file(self.snapshot.log, *given), changes)
        return self._table("remarked", [file for file in files if file is not None])

    def _table(self, name: PartName, files: Sequence[Add]) -> Snapshot:
        metadata, here = self.snapshot.metadata, self.range
        constants = [f.name for f in FIELDS if name != "recorded" or f.name != CHANGE_TYPE]
        named = metadata.replace(
            id=f"{metadata.id}/changes/{here.kind}/{here.start}/{here.end}/{name}",
            schema_string=self.schema.to_json(),
            partition_columns=(*metadata.partition_columns, *constants),
        )
        return table_of(files, self.snapshot, here.end, named)


def _of_commits(predicate: Predicate) -> Predicate | None:
    """The conditions of a conjunction that are on versions and times alone; None if there are none."""
    own = (COMMIT_VERSION, COMMIT_TIMESTAMP)
    parts = tuple(
        part
        for part in conjuncts(predicate)
        if not has_computed(part) and all(column.path[0].lower() in own for column in columns_of(part))
    )
    return And(parts) if parts else None


def _file(
    commit: CommitChanges, path: str, values: Mapping[str, str | None] | None, size: int | None, kind: str | None = None
) -> Add:
    """The add action for a file of a part. Planning has ensured that the size is known."""
    time_ms = commit.timestamp_ms
    moment = None if time_ms is None else format_partition_value(moment_of(time_ms), TIMESTAMP)
    constants = {
        COMMIT_VERSION: str(commit.version),
        COMMIT_TIMESTAMP: moment,
        **({} if kind is None else {CHANGE_TYPE: kind}),
    }
    assert size is not None
    return Add(
        path=path, partition_values={**(values or {}), **constants}, size_bytes=size, modification_time_ms=time_ms or 0
    )


def _remarked_file(log: Log, commit: CommitChanges, change: DeletionVectorChange) -> Add | None:
    """The file with a vector that marks the changed rows; None if there are none."""
    vector = change.marked
    if change.unless is not None:
        rows = load_bitmap(log, change.marked, change.file.path) - load_bitmap(log, change.unless, change.file.path)
        if not rows:
            return None
        vector = inline_descriptor(rows)
    file = _file(commit, change.file.path, change.file.partition_values, change.file.size_bytes, kind=change.kind)
    return file.replace(deletion_vector=vector, stats=change.file.stats, **_row_ids(change.file))


def _row_ids(file: FileAction) -> dict[str, int | None]:
    return {"base_row_id": file.base_row_id, "default_row_commit_version": file.default_row_commit_version}


# --- planning


def plan_feed(
    newest: Snapshot, asked: AskedRange, *, mode: SchemaMode = "endVersion", clip: bool = False
) -> ChangeFeed:
    """Plan the feed that a user asks for.

    Args:
        newest: the newest version of the table.
        mode: whose schema the feed of a table with column mapping has.
        clip: a start after the newest version gives an empty feed, and an end after the newest commit's time means the
            newest version; otherwise both are errors.

    Raises:
        ChangeStartMissingError, ChangeBoundaryTwiceError, ChangeStartTooLateError, InvalidChangeRangeError,
        TimestampOutOfRangeError,
            InvalidTimeTravelError: the arguments are not a range of the table's versions.
        VersionNotFoundError, MissingVersionError: the log no longer has the versions.
        ChangesNotRecordedError: the change data feed was not enabled at one of them.
        ChangesNotComputedError: the changes are to be computed, and rows had no ids at one of them.
        IncompatibleChangesError: rows of one of them cannot be read with the feed's schema.
    """
    found = _version_range(newest, asked, clip=clip)
    if found is None:
        return ChangeFeed(newest, FeedRange(newest.version + 1, newest.version, newest.version, asked.kind), ())
    start, end = _snapshot(newest, found[0]), _snapshot(newest, found[1])
    is_mapped = any(version.column_mapping_mode != "none" for version in (newest, start, end))
    read = end if is_mapped and mode == "endVersion" else newest
    return _plan_feed(FeedRange(start.version, end.version, read.version, asked.kind), start, read)


def load_feed(newest: Snapshot, versions: FeedRange) -> ChangeFeed:
    """Load a feed that was planned before from the log again.

    Args:
        newest: any version of the table.

    Raises:
        DeltaError: see `plan_feed`.
    """
    read = _snapshot(newest, versions.schema_version)
    return (
        ChangeFeed(read, versions, ())
        if versions.is_empty
        else _plan_feed(versions, _snapshot(newest, versions.start), read)
    )


def _snapshot(known: Snapshot, version: int) -> Snapshot:
    return known if version == known.version else load_snapshot(known.log, version)


def _version_range(newest: Snapshot, asked: AskedRange, *, clip: bool) -> tuple[int, int] | None:
    """The first and the last version; None if the range is empty."""
    url, start, end = newest.url, version_named(newest, asked.start_version), version_named(newest, asked.end_version)
    for boundary, version, timestamp in (
        ("starting", start, asked.start_timestamp),
        ("ending", end, asked.end_timestamp),
    ):
        if version is not None and timestamp is not None:
            raise ChangeBoundaryTwiceError(table=url, boundary=boundary, version=version, timestamp=timestamp)
    start_ms = _moment(asked.start_timestamp, url)
    if start is None:
        if start_ms is None:
            raise ChangeStartMissingError(table=url)
        start = version_from(newest, start_ms)
        if start > newest.version and not clip:
            version_at(newest, start_ms)  # raises an error with the range of commit times
    if start > newest.version:
        if clip:
            return None
        raise ChangeStartTooLateError(table=url, start=start, latest=newest.version)
    end_ms = _moment(asked.end_timestamp, url)
    if end_ms is not None:
        is_late = clip and newest_is_before(newest, end_ms)
        end = newest.version if is_late else version_at(newest, end_ms)
    if end is None:
        return start, newest.version
    if start_ms is not None and end_ms is not None and start_ms <= end_ms and end == start - 1:
        return None  # both times are between the same two commits
    if end < start:
        raise InvalidChangeRangeError(
            table=url, start=_end_text(start, asked.start_timestamp), end=_end_text(end, asked.end_timestamp)
        )
    return start, min(end, newest.version)


def _moment(timestamp: str | date | None, url: str) -> int | None:
    return None if timestamp is None else parse_timestamp(timestamp, table=url)


def _end_text(version: int, timestamp: str | date | None) -> str:
    return f"version {version}" if timestamp is None else f"{timestamp} (version {version})"


def _plan_feed(versions: FeedRange, start: Snapshot, read: Snapshot) -> ChangeFeed:
    """The feed of some versions: the changes and the time of each commit, and the schema in which all of them can be
    read.
    """
    _check_no_feed_columns(read)
    computed = versions.kind != "recorded"
    columns = FeedColumns(read, versions.start, versions.end, start.protocol, start.metadata, computed=computed)
    times, commits = timeline(read), []
    files = _commit_files(times, versions)
    for file, actions in zip(files, load_all(read.log.read, files), strict=True):
        columns.commit(file.version, actions)
        info = next((a for a in actions if isinstance(a, CommitInfo)), CommitInfo({}))
        own_ms = info.in_commit_timestamp_ms
        timestamp_ms = times.file_time_ms(file.version) if own_ms is None else own_ms
        has_ids = computed and read.row_tracking is not None and columns.row_tracking == read.row_tracking
        changes = changes_in(read, file.version, actions, recorded=not computed, with_ids=has_ids)
        has_ids = has_ids and all(change.file.base_row_id is not None for change in changes if _is_data(change))
        commits.append(CommitChanges(file.version, timestamp_ms, changes, has_ids))
        obstacle = _obstacle(versions.kind, commits[-1], info) if computed else None
        if obstacle is not None:
            raise ChangesNotComputedError(
                table=read.url, start=versions.start, end=versions.end, version=file.version, detail=obstacle
            )
    feed = ChangeFeed(read, versions, tuple(commits), columns.widest())
    if feed.needs_row_ids:
        _check_no_id_columns(read)
    return feed


def _is_data(change: Change) -> TypeGuard[Whole | DeletionVectorChange]:
    return not isinstance(change, Recorded)


def _obstacle(kind: FeedKind, commit: CommitChanges, info: CommitInfo) -> str | None:
    """Why the changes of a commit do not follow from its files; None if they do."""
    replaces_files = len({change.kind for change in commit.changes if isinstance(change, Whole)}) > 1
    if commit.has_row_ids:
        has_copies = replaces_files and not preserves_row_ids(info)
        return "its writer did not keep the ids of the rows that it copied" if has_copies else None
    if kind == "net" and commit.changes:
        return "rows have no ids by which the changes of one row are put together"
    if replaces_files:
        return "rows have no ids by which changes are told from copies"
    if kind == "computed" and commit.is_mixed:
        return "rows have no ids by which updates are told from deletes and inserts"
    return None


def _commit_files(times: Timeline, versions: FeedRange) -> list[LogFile]:
    """The commit files of a range. A version that a checkpoint makes readable may have lost its commit file."""
    files = [file for file in times.commits if versions.start <= file.version <= versions.end]
    if len(files) <= versions.end - versions.start:
        earliest, latest = (times.commits[0].version, times.commits[-1].version) if times.commits else ("none", "none")
        raise VersionNotFoundError(table=times.log.url, version=versions.start, earliest=earliest, latest=latest)
    return files


def changes_in(
    read: Snapshot, version: int, actions: Sequence[Action], *, recorded: bool = True, with_ids: bool = False
) -> tuple[Change, ...]:
    """The changes of a commit, from all of its actions or some; see `changes_of`.

    Sizes, partition values and, if asked for, row ids that writers left out of tombstones come from the previous
    version.
    """
    log = read.log
    changes = changes_of(actions, log.canonical, recorded=recorded)
    bare = {log.canonical(change.file.path) for change in changes if _is_bare(change, with_ids=with_ids)}
    if not bare:
        return tuple(changes)
    known = {
        path: add for add in load_snapshot(log, version - 1).live.adds() if (path := log.canonical(add.path)) in bare
    }
    completed: list[Change] = []
    for change in changes:
        if not isinstance(change, Recorded) and _is_bare(change, with_ids=with_ids):
            add = known.get(log.canonical(change.file.path))
            if add is None:
                detail = f"it removes {change.file.path}, which is not in the previous version"
                raise InvalidCommitError(table=log.url, file=commit_name(version), detail=detail)
            change = replace(
                change,
                file=change.file.replace(
                    partition_values=add.partition_values, size_bytes=add.size_bytes, **_row_ids(add)
                ),
            )
        completed.append(change)
    return tuple(completed)


def _is_bare(change: Change, *, with_ids: bool) -> bool:
    if isinstance(change, Recorded):
        return False
    if with_ids and isinstance(change.file, Remove) and change.file.base_row_id is None:
        return True
    return isinstance(change, Whole) and (change.file.size_bytes is None or change.file.partition_values is None)


# --- the schema


def feed_schema(read: Snapshot, columns: Struct | None = None) -> Struct:
    """The schema of a feed that has the columns of a version.

    Args:
        columns: these, with other types.

    Raises:
        UnsupportedOperationError: the table has a column with the name of one of the feed's.
    """
    _check_no_feed_columns(read)
    return Struct((*(columns or read.schema).fields, *FIELDS))


def _check_no_feed_columns(read: Snapshot) -> None:
    """Refuse a table with columns of the same names as the feed's. Writers that know the change data feed do not create
    such columns.
    """
    taken = [f.name for f in FIELDS if read.schema.find(f.name) is not None]
    if taken:
        detail = f"the table itself has a column {taken[0]}"
        remedy = "Rename the column, or read the table at each version with time travel."
        raise UnsupportedOperationError(
            operation="Reading the change data feed", table=read.url, detail=detail, remedy=remedy
        )


def _check_no_id_columns(read: Snapshot) -> None:
    """Refuse a table in which a column has the name by which the ids of rows are read."""
    taken = next((name for name in read.schema.names if name.lower() in (METADATA, ID, CHANGED_AT)), None)
    if taken is not None:
        detail = f"the table itself has a column {taken}, where the ids of rows are read"
        remedy = "Rename the column, or enable the change data feed."
        raise UnsupportedOperationError(operation="Computing changes", table=read.url, detail=detail, remedy=remedy)
