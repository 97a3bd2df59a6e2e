"""When versions were committed, and by whom: history and time travel by timestamp.

Protocol: "Commit Provenance Information", "Recommendations for Readers of Tables with In-Commit Timestamps". Without
in-commit timestamps, a commit's time is the modification time of its file. It is moved forward if the clock went back,
so that times increase with versions.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from tahoe._cached import cached_property
from tahoe.errors import (
    CommitGoneError,
    InvalidTimeTravelError,
    MissingActionError,
    TimestampOutOfRangeError,
    VersionNotFoundError,
)
from tahoe.protocol.configuration.properties import IN_COMMIT_TIMESTAMPS_FROM_TIME as FROM_TIME
from tahoe.protocol.configuration.properties import IN_COMMIT_TIMESTAMPS_FROM_VERSION as FROM_VERSION
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import CommitInfo
from tahoe.protocol.log.log_files import LogFile
from tahoe.protocol.types.moments import moment_of
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tahoe.table.reading.snapshot_state import in_commit_timestamps_enabled

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parameter_text(value: Any) -> str | None:
    """A parameter of an operation as text. Lists and maps are JSON, as other writers have them."""
    return value if value is None or isinstance(value, str) else json.dumps(value, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSummary:
    """A commit in the table's history."""

    version: int
    timestamp_ms: int
    info: CommitInfo


@dataclass(frozen=True)
class Timeline:
    """The commits that are still in the log, oldest first, and their times.

    Attributes:
        oldest: the oldest version that can be read; None if there is none.
        in_commit_from: the first version with an in-commit timestamp; None if there is none.
        in_commit_since_ms: the time at which in-commit timestamps were enabled.
    """

    log: Log
    commits: Sequence[LogFile]
    oldest: int | None
    in_commit_from: int | None = None
    in_commit_since_ms: int = 0

    def timestamp_ms(self, position: int) -> int:
        """The time of the commit at a position of `commits`."""
        commit = self.commits[position]
        if self.in_commit_from is not None and commit.version >= self.in_commit_from:
            info = self.log.commit_info(commit.version)
            if info is None and self.log.commit_file(commit.version) is None:
                raise CommitGoneError(
                    table=self.log.url, version=commit.version, detail=f"{commit.name} was deleted during the read"
                )
            if info is None or info.in_commit_timestamp_ms is None:
                action = "commitInfo (with inCommitTimestamp)"
                raise MissingActionError(table=self.log.url, version=commit.version, action=action, file=commit.name)
            return info.in_commit_timestamp_ms
        return self._file_times[position]

    def file_time_ms(self, version: int) -> int:
        """The time of a version's commit file, adjusted as in `timestamp_ms`; for commits without an in-commit
        timestamp.
        """
        return self._file_times[version - self.commits[0].version]

    @cached_property
    def _file_times(self) -> list[int]:
        return _increasing(self.commits)


def _increasing(commits: Sequence[LogFile]) -> list[int]:
    """The modification times of files, moved forward so that they increase."""
    times: list[int] = []
    for commit in commits:
        times.append(commit.modified_ms if not times else max(commit.modified_ms, times[-1] + 1))
    return times


# By how many commits the clock may have gone back for `file_times` and `Timeline` to agree.
_LOOK_BACK = 100


def file_times(log: Log, version: int) -> dict[int, int]:
    """The times of the commit files from a version on, as in `Timeline`, by version. In contrast to `timeline`, lists a
    part of the log.
    """
    files = (file for file in log.list_files(max(version - _LOOK_BACK, 0)) if file.kind is log_files.Kind.COMMIT)
    commits = sorted(files, key=lambda file: file.version)
    return dict(zip((commit.version for commit in commits), _increasing(commits), strict=True))


def timeline(snapshot: Snapshot, listed: Sequence[LogFile] | None = None) -> Timeline:
    """The commits that the log has without a gap up to the newest, and from which version on they have in-commit
    timestamps.

    Args:
        listed: the whole log, if the caller has listed it.
    """
    line, properties = (
        _timeline_by_file_times(snapshot.log, snapshot.log.list_files() if listed is None else listed),
        snapshot.properties,
    )
    if not in_commit_timestamps_enabled(snapshot.protocol, snapshot.metadata):
        return line
    from_version, since_ms = (entry.get(properties, table=snapshot.url) or 0 for entry in (FROM_VERSION, FROM_TIME))
    return replace(line, in_commit_from=from_version, in_commit_since_ms=since_ms)


def _timeline_by_file_times(log: Log, files: Sequence[LogFile]) -> Timeline:
    """The commits that the log has without a gap up to the newest, as if none had an in-commit timestamp."""
    commits = sorted((f for f in files if f.kind is log_files.Kind.COMMIT), key=lambda f: f.version)
    start = len(commits) - 1
    while start > 0 and commits[start - 1].version == commits[start].version - 1:
        start -= 1
    readable = log_files.readable_versions(files)
    return Timeline(log, commits[max(start, 0) :], None if readable is None else readable[0])


def history(snapshot: Snapshot, limit: int | None = None) -> Iterator[CommitSummary]:
    """The commits, newest first, including those after the snapshot. Stops at commits that metadata cleanup deletes
    meanwhile.
    """
    line = timeline(snapshot)
    positions = range(len(line.commits) - 1, -1, -1)
    for position in positions if limit is None else positions[:limit]:
        version = line.commits[position].version
        try:
            timestamp_ms = line.timestamp_ms(position)
        except CommitGoneError:
            return
        yield CommitSummary(
            version=version, timestamp_ms=timestamp_ms, info=snapshot.log.commit_info(version) or CommitInfo({})
        )


def version_at(snapshot: Snapshot, timestamp_ms: int) -> int:
    """The newest version that was committed at or before a time.

    The time at which in-commit timestamps were enabled decides which of two ranges is searched: the versions with them,
    or those before. The search is binary, so few commits are read.

    Raises:
        TimestampOutOfRangeError: the time is before the first commit that can be read, or after the last.
    """
    return _version_at(timeline(snapshot), timestamp_ms)


def snapshot_by_file_times(log: Log, timestamp_ms: int) -> Snapshot | None:
    """The version that `version_at` returns if none has in-commit timestamps, by one listing of the log; None if this
    cannot be told.

    The newest commit tells: in-commit timestamps are in every commit since they were enabled.

    Raises:
        TimestampOutOfRangeError: see `version_at`.
    """
    listed = log.list_files()
    line = _timeline_by_file_times(log, listed)
    if not line.commits:
        return None
    newest = line.commits[-1].version
    info = log.commit_info(newest)
    is_stamped = log.commit_file(newest) is None if info is None else info.in_commit_timestamp_ms is not None
    return None if is_stamped else load_snapshot(log, _version_at(line, timestamp_ms), listed=listed)


def _version_at(line: Timeline, timestamp_ms: int) -> int:
    if line.oldest is None or not line.commits:
        raise VersionNotFoundError(
            table=line.log.url, version=f"as of {_text(timestamp_ms)}", earliest=None, latest=None
        )
    first = next(i for i, commit in enumerate(line.commits) if commit.version >= line.oldest)
    last = len(line.commits) - 1
    earliest, _ = _considered(line, first, timestamp_ms)
    if not line.timestamp_ms(earliest) <= timestamp_ms <= line.timestamp_ms(last):
        raise _out_of_range(line, first, timestamp_ms)
    return line.commits[_position_at(line, first, timestamp_ms)].version


def version_before(snapshot: Snapshot, timestamp_ms: int, listed: Sequence[LogFile] | None = None) -> int | None:
    """The newest version that was committed at or before a time, if the log still has a commit of that time; None if it
    has not.

    Args:
        listed: the whole log, if the caller has listed it.
    """
    line = timeline(snapshot, listed)
    if not line.commits or line.timestamp_ms(_considered(line, 0, timestamp_ms)[0]) > timestamp_ms:
        return None
    return line.commits[_position_at(line, 0, timestamp_ms)].version


def version_from(snapshot: Snapshot, timestamp_ms: int) -> int:
    """The oldest version that was committed at or after a time. If there is none, the version after the newest one.

    Raises:
        VersionNotFoundError: the log has no commit.
    """
    line = timeline(snapshot)
    if not line.commits:
        raise VersionNotFoundError(
            table=snapshot.url, version=f"from {_text(timestamp_ms)} on", earliest=None, latest=None
        )
    earliest, _ = _considered(line, 0, timestamp_ms)
    if timestamp_ms <= line.timestamp_ms(earliest):
        return line.commits[earliest].version
    position = _position_at(line, 0, timestamp_ms)
    return line.commits[position].version + (line.timestamp_ms(position) < timestamp_ms)


def _position_at(line: Timeline, first: int, timestamp_ms: int) -> int:
    """The position of the last commit at or before a time. The time is not before the commit at `first`."""
    low, high = _considered(line, first, timestamp_ms)
    found = bisect_right(range(low, high + 1), timestamp_ms, key=line.timestamp_ms) - 1
    return low + max(found, 0)


def _considered(line: Timeline, first: int, timestamp_ms: int) -> tuple[int, int]:
    """The positions of the first and the last commit that a time may mean, among those from `first` on.

    From the time on at which in-commit timestamps were enabled, only commits with them count: of a table that was
    copied, the files of earlier commits are newer.
    """
    last = len(line.commits) - 1
    if line.in_commit_from is None or line.in_commit_from <= line.commits[first].version:
        return first, last
    split = next((i for i, commit in enumerate(line.commits) if commit.version >= line.in_commit_from), last + 1)
    return (split, last) if timestamp_ms >= line.in_commit_since_ms and split <= last else (first, split - 1)


def newest_time_ms(snapshot: Snapshot) -> int | None:
    """When the newest commit was made; None if the log has no commit."""
    line = timeline(snapshot)
    return line.timestamp_ms(len(line.commits) - 1) if line.commits else None


def newest_is_before(snapshot: Snapshot, timestamp_ms: int) -> bool:
    """Whether all commits were made before a time."""
    newest_ms = newest_time_ms(snapshot)
    return newest_ms is None or newest_ms < timestamp_ms


def _out_of_range(line: Timeline, first: int, timestamp_ms: int) -> TimestampOutOfRangeError:
    last = len(line.commits) - 1
    return TimestampOutOfRangeError(
        table=line.log.url,
        timestamp=_text(timestamp_ms),
        earliest=f"version {line.commits[first].version} at {_text(line.timestamp_ms(first))}",
        latest=f"version {line.commits[last].version} at {_text(line.timestamp_ms(last))}",
    )


def parse_timestamp(value: str | date, *, table: str) -> int:
    """A user's timestamp in milliseconds since the epoch. A timestamp without a zone is in UTC, and a date begins at
    midnight.

    Raises:
        InvalidTimeTravelError: the text is not a timestamp.
    """
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value.strip())
        moment = value if isinstance(value, datetime) else datetime.combine(value, time())
        since_epoch = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone(UTC) - _EPOCH
        return since_epoch // timedelta(milliseconds=1)  # exact, unlike a float
    except (ValueError, OverflowError) as error:
        raise InvalidTimeTravelError(table=table, detail=f"{value!r} is not a timestamp") from error


def _text(timestamp_ms: int) -> str:
    return moment_of(timestamp_ms).isoformat(sep=" ", timespec="milliseconds")
