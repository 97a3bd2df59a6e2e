"""A table as the source of a stream: where a batch ends, and which files it reads.

A stream begins with the rows of a version, its initial snapshot, and goes on with the files that commits add; or it
begins at a commit. The rules, limits and numbers of files are the reference's, so that a query may go from one
implementation to the other with its checkpoint.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe._cached import cached_property
from tahoe.errors import (
    ChangesNotRecordedError,
    StreamOrderChangedError,
    StreamSchemaChangedError,
    StreamSchemaUntrackedError,
    StreamStartGoneError,
    StreamTrailingCommitError,
    VersionNotFoundError,
)
from tahoe.protocol.log.actions import Action, Add
from tahoe.protocol.streams.stream_offset import AFTER_SCHEMA_CHANGE, BASE, SCHEMA_CHANGE, EventTime, StreamOffset
from tahoe.protocol.streams.stream_schema import SchemaRules
from tahoe.protocol.types.names import dotted
from tahoe.table.arrow.chunks import one_array, taken
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tahoe.table.streams.event_time import EventTimes, TimeRange, files_with
from tahoe.table.streams.stream_commits import (
    ChangeTolerance,
    Commit,
    StreamCommit,
    StreamCommits,
    added_files,
    check_same_table,
    excluding,
)
from tahoe.table.streams.stream_schema import SchemaTracker, StreamSchema
from tahoe.table.versions.file_tables import protocol_for_files, table_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """What a stream reads, apart from limits.

    Attributes:
        find_version: returns the first commit to read, or None for the rows of the newest version and all commits after
            it. It is called once, and only if no offset is known.
        is_given: whether the user gave the first commit, or a time.
        exclude: files whose paths match are not read.
        rules: which changes of the schema the stream may pass.
        tracker: of a stream that tracks its schema.
        event_time: the path of the column in whose order the rows of the initial snapshot are read; None for the order
            of files.
    """

    find_version: Callable[[], int | None] = lambda: None
    is_given: bool = False
    exclude: re.Pattern[str] | None = None
    tolerance: ChangeTolerance = field(default_factory=ChangeTolerance)
    rules: SchemaRules = field(default_factory=SchemaRules)
    tracker: SchemaTracker | None = None
    event_time: tuple[str, ...] | None = None

    @property
    def orders_by_event_time(self) -> bool:
        return self.event_time is not None


@dataclass(slots=True)
class AdmissionLimit:
    """How many files and bytes a batch may still take; None for any number. A file is taken as long as something is
    left before it.
    """

    files: int | None = None
    bytes: int | None = None

    def take(self, sizes: npt.NDArray[np.int64]) -> int:
        """Take files of these sizes, in order. Returns how many."""
        taken = len(sizes)
        if self.files is not None:
            taken = min(taken, max(self.files, 0))
        if self.bytes is not None:
            before = np.concatenate([[0], np.cumsum(sizes)])[:-1]
            taken = min(taken, int(np.searchsorted(before, self.bytes, side="left")))
            self.bytes -= int(sizes[:taken].sum())
        if self.files is not None:
            self.files -= taken
        return taken


@dataclass(frozen=True, slots=True, eq=False)
class _Initial:
    """The files of an initial snapshot: their positions in the snapshot, and sizes, in the order of their indexes.

    Attributes:
        times: of a stream that reads them in the order of event time.
    """

    snapshot: Snapshot
    numbers: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    times: EventTimes | None


@dataclass(frozen=True, slots=True, eq=False)
class Span(Generic[Commit]):
    """What is between two offsets.

    Attributes:
        initial: the initial snapshot, and the positions of its files that are to be read; None if the stream has read
            it.
        commits: each with the indexes of its files.
        times: the rows of these files that are to be read; None for all.
    """

    initial: tuple[Snapshot, npt.NDArray[np.int64]] | None
    commits: list[tuple[Commit, slice]]
    times: TimeRange | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Portion:
    """Files to read.

    Attributes:
        numbers: their positions in the snapshot; None for all.
        marked: whether the rows to read are those that deletion vectors mark, instead of all others.
        rows: of these files; None for all.
    """

    snapshot: Snapshot
    numbers: npt.NDArray[np.int64] | None = None
    marked: bool = False
    rows: TimeRange | None = None


class Stream(ABC, Generic[Commit]):
    """A table as the source of one query.

    Args:
        snapshot: the version whose schema the stream has.
        content: what the stream reads of a commit.
        newest: the newest version when the query was started, if it is another one.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        start: StreamStart,
        content: Callable[[int, Sequence[Action]], Commit],
        newest: Snapshot | None = None,
    ) -> None:
        self._whole: Snapshot | None = snapshot  # until its files are read; a query may run for months
        self.snapshot, self._newest = snapshot.without_files(), (newest or snapshot).without_files()
        self.schema = StreamSchema(
            self.snapshot, start.rules, self._newest, has_start=start.is_given, tracker=start.tracker
        )
        self.commits = StreamCommits(
            self.snapshot, content, self.schema, loses_data=start.tolerance.loses_data, last=self._newest.commit
        )
        self._start = start
        self._reads = excluding(start.exclude)
        self._initial_files: _Initial | None = None
        self._is_checked = False

    @property
    def table_id(self) -> str:
        return self.snapshot.metadata.id

    # --- where a batch ends

    def first_end(self, limit: AdmissionLimit, last: StreamOffset | None = None) -> StreamOffset | None:
        """The end of the first batch; None if there is nothing to read yet. Arguments, errors: see `next_end`."""
        begin = self._begin()
        end = self.next_end(begin, limit, last)
        return None if end == begin else end

    def next_end(self, after: StreamOffset, limit: AdmissionLimit, last: StreamOffset | None = None) -> StreamOffset:
        """The end of the next batch; the same offset if there is nothing new.

        Args:
            limit: is used up.
            last: an offset beyond which nothing is read.

        Raises:
            StreamStartGoneError: the version of the initial snapshot cannot be loaded any more.
            DeltaError: see `StreamCommits.since` and `StreamSchema.begin`.
        """
        if self.schema.is_tracked and after.index == SCHEMA_CHANGE:
            return replace(
                after, index=AFTER_SCHEMA_CHANGE
            )  # Spark then tells that the batch before the change is processed
        if last is not None and after.place >= last.place:
            return after
        self._check_order(after)
        self._check_start(after)
        end = after
        try:
            for end in self._ends(after, limit, last):  # noqa: B007 - the last one
                pass
        except (StreamSchemaChangedError, StreamSchemaUntrackedError, ChangesNotRecordedError):
            if end == after:
                raise  # what comes before the change is read first
        return self._at_barrier(end, last)

    def _at_barrier(self, end: StreamOffset, last: StreamOffset | None) -> StreamOffset:
        """The end of a batch that comes to a change of a tracked schema: the change itself."""
        version = self.commits.barrier
        if (
            version is None
            or end.place >= (version, SCHEMA_CHANGE)
            or (last is not None and (version, BASE) >= last.place)
        ):
            return end
        return StreamOffset(table_id=end.table_id, version=version, index=SCHEMA_CHANGE)

    @abstractmethod
    def _ends(self, after: StreamOffset, limit: AdmissionLimit, last: StreamOffset | None) -> Iterator[StreamOffset]:
        """Ends of the next batch, each farther than the one before. None of them if there is nothing new. Arguments:
        see `next_end`.
        """

    def _begin(self) -> StreamOffset:
        first = self._first_version
        return StreamOffset(
            table_id=self.table_id, version=self._newest.version if first is None else first, is_initial=first is None
        )

    @cached_property
    def _first_version(self) -> int | None:
        return self._start.find_version()

    def _check_start(self, after: StreamOffset, end: StreamOffset | None = None) -> None:
        """Check where the stream begins, once."""
        if self._is_checked:
            return
        # An offset at the base of a version is the end of the version before.
        self.schema.begin(after.version, None if end is None else end.version - (end.index == BASE))
        self._is_checked = True

    # --- the order of event time

    def _check_order(self, offset: StreamOffset) -> None:
        """Check that the initial snapshot is read on in the order in which it was begun.

        Raises:
            StreamOrderChangedError: the order has changed.
        """
        if not offset.is_initial or (offset.index == BASE and offset.event_time is None):
            return
        begun, asked = None if offset.event_time is None else offset.event_time.column, self._start.event_time
        if begun != asked:
            orders = [
                "of their files" if column is None else f"of the times in {dotted(column)}" for column in (begun, asked)
            ]
            raise StreamOrderChangedError(
                table=self.snapshot.url, version=offset.version, begun=orders[0], asked=orders[1]
            )

    def _end_in_order(self, after: StreamOffset, limit: AdmissionLimit) -> StreamOffset:
        """The end of a batch in an initial snapshot that is read in the order of event time."""
        times, column = self._initial(after.version).times, self._start.event_time
        assert times is not None
        assert column is not None
        end_us = times.end(None if after.event_time is None else after.event_time.before_us, limit.files, limit.bytes)
        if end_us is None:
            return StreamOffset(table_id=after.table_id, version=after.version + 1)
        return replace(after, event_time=EventTime(column=column, before_us=end_us))

    def _time_range(self, begin: StreamOffset, end: StreamOffset) -> TimeRange | None:
        """The event times of a batch of the initial snapshot; None if the snapshot is read in the order of its
        files.
        """
        bounds = begin.event_time, end.event_time
        known = next((bound for bound in bounds if bound is not None), None)
        if known is None:
            return None
        begin_us, end_us = (None if bound is None else bound.before_us for bound in bounds)
        return TimeRange(column=known.column, begin_us=begin_us, end_us=end_us)

    # --- which files a batch reads

    @abstractmethod
    def portions(self, start: StreamOffset | None, end: StreamOffset) -> list[Portion]:
        """The files after one offset, up to and including another.

        Args:
            start: None for the first batch.

        Raises:
            StreamTrailingCommitError: the log ends before the end of the batch.
            DeltaError: see `next_end`.
        """

    @abstractmethod
    def nothing(self, end: StreamOffset) -> Portion:
        """A portion without rows."""

    def _span(self, start: StreamOffset | None, end: StreamOffset) -> Span[Commit]:
        """What a batch reads, from one offset to another: a part of the initial snapshot, commits, or the end of the
        one and the begin of the other.
        """
        begin = self._begin_of(end) if start is None else start
        for offset in (begin, end):
            self._check_order(offset)
        self._check_start(begin, end)
        version, index = begin.place
        if not begin.is_initial:
            return Span(None, self._committed(version, index, end))
        is_inside = end.is_initial and end.version == version
        times = self._time_range(begin, end)
        stop = end.index + 1 if is_inside and times is None else None
        initial = self._initial_portion(version, following(index), stop, times)
        return Span(initial, [] if is_inside else self._committed(version + 1, BASE, end), times)

    def _begin_of(self, end: StreamOffset) -> StreamOffset:
        """A begin for the first batch, of which only the end is known, from an earlier run of the query. Where the
        stream began with a snapshot, that of the version before the end has all of its commits.
        """
        if self._first_version is not None:
            return self._begin()
        return replace(
            end,
            version=end.version if end.is_initial else end.version - 1,
            index=BASE,
            is_initial=True,
            event_time=None,
        )

    def _initial_portion(
        self, version: int, first: int, stop: int | None, times: TimeRange | None
    ) -> tuple[Snapshot, npt.NDArray[np.int64]]:
        """The initial snapshot, and the positions in it of the files that a batch reads.

        Args:
            first, stop: the batch among the files in the order of reading; `stop` None: to the last one.
            times: instead of `first` and `stop`, if the snapshot is read in the order of event time.
        """
        initial = self._initial(version)
        numbers = initial.numbers[first:stop]
        if times is not None:
            chosen = files_with(initial.snapshot, times)
            numbers = numbers if chosen is None else chosen
        if self._start.exclude is not None:
            paths = taken(initial.snapshot.live.column("path"), numbers).to_pylist()
            numbers = numbers[[self._reads(path) for path in paths]]
        return initial.snapshot, numbers

    def _committed(self, version: int, index: int, end: StreamOffset) -> list[tuple[Commit, slice]]:
        """The files of the commits from a place up to the end of the batch, as parts of the commits. The commit after
        the last one is not read: the stream may be unable to follow it.
        """
        last = end.version if end.index >= 0 else end.version - 1
        if (version, index) >= end.place or version > last:
            return []
        found: list[tuple[Commit, slice]] = []
        for commit in self.commits.since(version, is_planned=True):
            if commit.version > last:
                break
            first = following(index) if commit.version == version else 0
            found.append((commit, slice(first, end.index + 1 if commit.version == end.version else None)))
            if commit.version == last:
                break  # the stream may be unable to follow the next commit
        seen = found[-1][0].version if found else version - 1
        if seen < last:
            raise StreamTrailingCommitError(table=self.snapshot.url, expectedVersion=last, seenVersion=seen)
        return found

    # --- the initial snapshot

    def _initial(self, version: int) -> _Initial:
        """The files of the initial snapshot in the order in which the stream reads them: by time, then by path, so that
        an index means the same file after a restart.
        """
        if self._initial_files is None or self._initial_files.snapshot.version != version:
            self.schema.check_initial(version)
            snapshot = (
                self._whole
                if self._whole is not None and version == self._whole.version
                else self._load_initial(version)
            )
            columns = {name: snapshot.live.column(name) for name in ("modification_time_ms", "path")}
            order = np.asarray(
                pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending") for name in columns])
            ).astype(np.int64)
            sizes = np.asarray(one_array(snapshot.live.column("size_bytes"))).astype(np.int64)[order]
            read = snapshot if snapshot is self._whole else self._as_read(snapshot)
            times = None if self._start.event_time is None else EventTimes(read, self._start.event_time)
            self._initial_files = _Initial(read, order, sizes, times)
        return self._initial_files

    def _as_read(self, snapshot: Snapshot) -> Snapshot:
        """A version with the stream's schema and features: row tracking may have been enabled since, and the batches
        have one schema.
        """
        protocol = protocol_for_files(self.snapshot.protocol, has_vectors=snapshot.has_deletion_vectors)
        return replace(snapshot, metadata=self.snapshot.metadata, protocol=protocol)

    def _load_initial(self, version: int) -> Snapshot:
        try:
            found = load_snapshot(self.snapshot.log, version)
        except (VersionNotFoundError, FileNotFoundError) as error:
            raise StreamStartGoneError(table=self.snapshot.url, version=version, reason=str(error)) from error
        check_same_table(self.snapshot, found)
        return found

    def forget_initial(self) -> None:
        """Release the memory of the initial snapshot, which the stream has read."""
        self._whole = self._initial_files = None

    def version_of(self, file: str) -> int | None:
        """The version to which a file belongs that a batch reads, by its path or url; None if the stream does not know
        it any more.
        """
        version = self.commits.version_of(file)
        if version is not None or self._initial_files is None:
            return version
        log, initial = self.snapshot.log, self._initial_files.snapshot
        key = log.canonical(file)
        return (
            initial.version
            if any(log.canonical(path) == key for path in initial.live.column("path").to_pylist())
            else None
        )

    def outstanding(self, after: StreamOffset | None) -> tuple[int, int]:
        """The files and bytes that are known and not read yet: of the initial snapshot, and of the commits that were
        looked at.
        """
        if after is None:
            live = (self._whole or self.snapshot).live
            return len(live), live.size_bytes
        sizes, initial = self.commits.sizes_after(after), self._initial_files if after.is_initial else None
        if initial is not None and after.event_time is not None and initial.times is not None:
            files, size = initial.times.left(after.event_time.before_us)
        else:
            found = np.empty(0, np.int64) if initial is None else initial.sizes[following(after.index) :]
            files, size = len(found), int(found.sum())
        return files + len(sizes), size + int(sizes.sum())


class TableStream(Stream[StreamCommit[Add]]):
    """The rows of a table, and those that commits append, as the source of one query."""

    def __init__(self, snapshot: Snapshot, start: StreamStart, newest: Snapshot | None = None) -> None:
        super().__init__(snapshot, start, partial(added_files, tolerance=start.tolerance, table=snapshot.url), newest)

    def _ends(self, after: StreamOffset, limit: AdmissionLimit, last: StreamOffset | None) -> Iterator[StreamOffset]:
        """See `Stream._ends`. The end of a whole commit is the begin of the next version."""
        if after.is_initial and self._start.orders_by_event_time:
            is_limited = limit.files is not None or limit.bytes is not None
            yield (after := self._end_in_order(after, limit))
            if after.is_initial or is_limited:
                return
        elif after.is_initial:
            left = self._initial(after.version).sizes[following(after.index) :]
            count = limit.take(left)
            if count < len(left):
                if count:
                    yield replace(after, index=following(after.index) + count - 1)
                return
            yield (after := StreamOffset(table_id=after.table_id, version=after.version + 1))
        for commit in self.commits.since(after.version):
            if last is not None and (commit.version, BASE) >= last.place:
                return
            first = following(after.index) if commit.version == after.version else 0
            sizes = commit.sizes[
                first : last.index + 1 if last is not None and commit.version == last.version else None
            ]
            count = limit.take(sizes)
            if first + count < len(commit.sizes):
                if count or commit.version != after.version:
                    yield replace(after, version=commit.version, index=first + count - 1 if first + count else BASE)
                return
            yield (after := replace(after, version=commit.version + 1, index=BASE))

    def portions(self, start: StreamOffset | None, end: StreamOffset) -> list[Portion]:
        span = self._span(start, end)
        found = []
        if span.initial is not None and len(span.initial[1]):
            snapshot, numbers = span.initial
            found.append(Portion(snapshot, None if len(numbers) == len(snapshot.live) else numbers, rows=span.times))
        files = [file for commit, part in span.commits for file in commit.files[part] if self._reads(file.path)]
        return [*found, Portion(self._table_of(files, end))] if files else found

    def nothing(self, end: StreamOffset) -> Portion:
        return Portion(self._table_of([], end))

    def _table_of(self, files: list[Add], end: StreamOffset) -> Snapshot:
        metadata = self.snapshot.metadata.replace(id=f"{self.table_id}/stream/{end.version}/{end.index}")
        return table_of(files, self.snapshot, max(end.version - (end.index < 0), 0), metadata)


def following(index: int) -> int:
    """The index of the file after an index."""
    return max(index + 1, 0)
