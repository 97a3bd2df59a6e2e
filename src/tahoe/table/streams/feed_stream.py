"""The change data feed of a table as the source of a stream: where a batch ends, and which changed rows it reads.

A stream begins with the rows of a version, its initial snapshot, as inserted rows, and goes on with the changes of each
commit; or it begins at a commit. A batch is a feed of its own, see `change_feed`. Limits and numbers of files are the
reference's in every detail, because a query may go from one implementation to the other with its checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from tahoe.errors import DeltaError, MissingVersionError, VersionNotFoundError
from tahoe.protocol.configuration.change_feed import Whole, changed_files, changed_nothing
from tahoe.protocol.log.actions import Action, Add, Cdc, CommitInfo, Metadata, Protocol, Remove
from tahoe.protocol.streams.stream_offset import BASE, StreamOffset
from tahoe.table.arrow.chunks import taken
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tahoe.table.streams.event_time import TimeRange
from tahoe.table.streams.stream import AdmissionLimit, Portion, Span, Stream, StreamStart, following
from tahoe.table.streams.stream_commits import StreamCommit
from tahoe.table.versions.change_feed import PART_NAMES, ChangeFeed, CommitChanges, FeedRange, changes_in
from tahoe.table.versions.feed_columns import check_recorded
from tahoe.table.versions.history import file_times

Unit: TypeAlias = Literal["file", "commit", "changes"]
"""What a batch takes of a commit: single files; or, so that both images of an update come together, all of it.

The reference counts the begin and the end of a `commit` as files; it does not for `changes`, which are change data
files.
"""

# The index after the last file of a version.
_END = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class FeedCommit(StreamCommit[Add | Remove | Cdc]):
    """What a feed reads of a version."""

    unit: Unit
    in_commit_ms: int | None


def changed(version: int, actions: Sequence[Action], *, snapshot: Snapshot) -> FeedCommit:
    """What a feed reads of a commit.

    Args:
        snapshot: the newest version when the query was started.

    Raises:
        ChangesNotRecordedError: the commit disables the feed.
    """
    metadata = next((a for a in actions if isinstance(a, Metadata)), None)
    if metadata is not None:
        protocol = next((a for a in actions if isinstance(a, Protocol)), snapshot.protocol)
        check_recorded(
            protocol, metadata.configuration, version, (version, max(version, snapshot.version)), table=snapshot.url
        )
    files = changed_files(actions)
    unit: Unit = "file"
    if any(isinstance(file, Cdc) for file in files):
        unit = "changes"
    elif any(not isinstance(file, Cdc) and file.deletion_vector is not None for file in files):
        unit = "commit"
    if unit != "changes" and changed_nothing(actions):
        files = ()
    info = next((a for a in actions if isinstance(a, CommitInfo)), CommitInfo({}))
    sizes = np.array([file.size_bytes or 0 for file in files], np.int64)
    return FeedCommit(version, files, sizes, unit, info.in_commit_timestamp_ms)


@dataclass(slots=True)
class _Batch:
    """A batch whose end is looked for. `has_begun`: whether it has taken anything, also the begin or the end of a
    version.
    """

    limit: AdmissionLimit
    last: StreamOffset | None
    has_begun: bool = False

    @property
    def is_limited(self) -> bool:
        return self.limit.files is not None or self.limit.bytes is not None

    @property
    def is_full(self) -> bool:
        return any(left is not None and left <= 0 for left in (self.limit.files, self.limit.bytes))

    def end_in(self, commit: FeedCommit, first: int, indexes: npt.NDArray[np.int64]) -> int | None:
        """The last index that the batch reads of this commit; None if it reads none of it.

        Args:
            first: the first index after the last batch; `BASE` for the whole commit.
            indexes: of the files to read.
        """
        sizes = commit.sizes[indexes]
        readable = [
            *([BASE] if first == BASE else []),
            *indexes.tolist(),
            *([_END] if self._may_leave(commit.version) else []),
        ]
        if commit.unit == "file":
            count = self.limit.take(sizes)
            read_indexes = readable if count == len(sizes) else [index for index in readable if index < indexes[count]]
            self.has_begun |= bool(readable)
        else:
            read_indexes = indexes.tolist() if commit.unit == "changes" and self.is_limited else readable
            if read_indexes and not self._takes(len(read_indexes), int(sizes.sum())):
                read_indexes = []
        return read_indexes[-1] if read_indexes else None

    def _may_leave(self, version: int) -> bool:
        return self.last is None or version < self.last.version

    def _takes(self, files: int, size: int) -> bool:
        """Take several files at once, if they fit, or the batch has nothing yet. A batch that has refused files is
        full.
        """
        is_first, self.has_begun = not self.has_begun, True
        limit = self.limit
        limit.files = None if limit.files is None else limit.files - files
        limit.bytes = None if limit.bytes is None else limit.bytes - size
        return is_first or all(left is None or left >= 0 for left in (limit.files, limit.bytes))


class FeedStream(Stream[FeedCommit]):
    """The change data feed of a table as the source of one query."""

    def __init__(self, snapshot: Snapshot, start: StreamStart, newest: Snapshot | None = None) -> None:
        super().__init__(snapshot, start, partial(changed, snapshot=(newest or snapshot).without_files()), newest)

    def _check_start(self, after: StreamOffset, end: StreamOffset | None = None) -> None:
        """Also check that changes are recorded where the stream begins. `changed` checks later versions."""
        if not self._is_checked:
            self._check_recorded(min(after.version, self._newest.version), is_initial=after.is_initial)
            if not after.is_initial:
                self._check_removed(after.version)
        super()._check_start(after, end)

    def _check_recorded(self, version: int, *, is_initial: bool) -> None:
        """Check that the change data feed was enabled at a version. With `failOnDataLoss=false`, a version that is gone
        is not checked.
        """
        newest, load = self._newest, self._load_initial if is_initial else partial(load_snapshot, self._newest.log)
        try:
            here = newest if version == newest.version else load(version)
        except DeltaError:
            if not self._start.tolerance.loses_data:
                raise
            return
        check_recorded(here.protocol, here.metadata.configuration, version, (version, newest.version), table=here.url)

    def _check_removed(self, version: int) -> None:
        """Check that rows which the first commit removes can be read, although it may be a RESTORE that changes their
        types. Before later commits, the schema of the version before is known to fit.
        """
        log = self._newest.log
        try:
            actions = log.read_version(version)
            if (
                version
                and any(isinstance(a, Metadata) for a in actions)
                and any(isinstance(a, Remove) and a.data_change for a in actions)
            ):
                self.schema.check_removed(version - 1, load_snapshot(log, version - 1).metadata)
        except (VersionNotFoundError, MissingVersionError):  # it is not there yet, or the log begins here
            return

    # --- where a batch ends

    def _ends(self, after: StreamOffset, limit: AdmissionLimit, last: StreamOffset | None) -> Iterator[StreamOffset]:
        """See `Stream._ends`. The end of a whole commit is the begin of the next version."""
        batch, end = _Batch(limit, last), after
        if after.is_initial:
            yield (end := self._end_in_initial(after, batch))
            if end.is_initial or batch.is_full or (self._start.orders_by_event_time and batch.is_limited):
                return
        for commit in self.commits.since(end.version):
            if last is not None and (commit.version, BASE) > last.place:
                return
            first = following(after.index) if commit.version == after.version and not after.is_initial else BASE
            index = batch.end_in(commit, first, self._indexes(commit, max(first, 0), last))
            if index is not None:
                place = (commit.version + 1, BASE) if index == _END else (commit.version, index)
                yield StreamOffset(table_id=after.table_id, version=place[0], index=place[1])
            if batch.is_full:
                return  # before a change of the schema, too

    def _end_in_initial(self, after: StreamOffset, batch: _Batch) -> StreamOffset:
        """Where a batch ends in the initial snapshot; the begin of the next version if it has read all files."""
        if self._start.orders_by_event_time:
            batch.has_begun = True
            return self._end_in_order(after, batch.limit)
        initial, first = self._initial(after.version), following(after.index)
        indexes = np.arange(first, len(initial.numbers))
        if self._start.exclude is not None:
            paths = taken(initial.snapshot.live.column("path"), initial.numbers[first:]).to_pylist()
            indexes = indexes[[self._reads(path) for path in paths]]
        count = batch.limit.take(initial.sizes[indexes])
        batch.has_begun = True
        if count < len(indexes):
            return replace(after, index=int(indexes[count - 1])) if count else after
        return StreamOffset(table_id=after.table_id, version=after.version + 1)

    def _indexes(self, commit: FeedCommit, first: int, last: StreamOffset | None) -> npt.NDArray[np.int64]:
        """The indexes of the files to read from an index on."""
        stop = following(last.index) if last is not None and commit.version == last.version else len(commit.files)
        files = enumerate(commit.files[first:stop], first)
        return np.array([index for index, file in files if self._reads(file.path)], np.int64)

    # --- which rows a batch reads

    def portions(self, start: StreamOffset | None, end: StreamOffset) -> list[Portion]:
        span = self._span(start, end)
        inserted, changes = list(self._inserted(span)), list(self._changes(span))
        if span.times is None:
            return self._portions([*inserted, *changes], end)
        return [*self._portions(inserted, end, span.times), *self._portions(changes, end)]

    def _portions(
        self, commits: Sequence[CommitChanges], end: StreamOffset, rows: TimeRange | None = None
    ) -> list[Portion]:
        feed = self._feed(commits, end)
        parts = ((name, feed.part(name)) for name in PART_NAMES)
        return [Portion(part, marked=name == "remarked", rows=rows) for name, part in parts if len(part.live)]

    def nothing(self, end: StreamOffset) -> Portion:
        return Portion(self._feed([], end).part(PART_NAMES[0]))

    def _feed(self, commits: Sequence[CommitChanges], end: StreamOffset) -> ChangeFeed:
        version = max(end.version - (end.index < 0), 0)
        first = commits[0].version if commits else version
        return ChangeFeed(self.snapshot, FeedRange(first, version, self.snapshot.version), tuple(commits))

    def _inserted(self, span: Span[FeedCommit]) -> Iterator[CommitChanges]:
        """The rows of the initial snapshot."""
        if span.initial is not None and len(span.initial[1]):
            snapshot, numbers = span.initial
            inserts = tuple(Whole("insert", file) for file in snapshot.full_scan.within(numbers.tolist()).adds())
            yield CommitChanges(snapshot.version, _time_ms(self.snapshot.log, snapshot.version), inserts)

    def _changes(self, span: Span[FeedCommit]) -> Iterator[CommitChanges]:
        commits = [
            (commit, [file for file in commit.files[part] if self._reads(file.path)]) for commit, part in span.commits
        ]
        untimed = next((commit.version for commit, files in commits if files and commit.in_commit_ms is None), None)
        times = {} if untimed is None else file_times(self.snapshot.log, untimed)
        for commit, files in commits:
            if files:
                time_ms = times.get(commit.version) if commit.in_commit_ms is None else commit.in_commit_ms
                yield CommitChanges(commit.version, time_ms, changes_in(self.snapshot, commit.version, files))


def _time_ms(log: Log, version: int) -> int | None:
    """When a version was committed; None if the log no longer has the commit."""
    info = log.commit_info(version) or CommitInfo({})
    return file_times(log, version).get(version) if info.in_commit_timestamp_ms is None else info.in_commit_timestamp_ms
