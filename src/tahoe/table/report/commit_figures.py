"""How a table grew, and which commits it had. Of a long log some commits are read, each of which stands for its
neighbours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tahoe.errors import CommitGoneError, VersionNotFoundError
from tahoe.protocol.log import log_files
from tahoe.protocol.log.log_files import LogFile
from tahoe.protocol.log.version_checksum import parse_version_checksum
from tahoe.storage.threads import load_all
from tahoe.table.inspection.versions import SIZES
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.report.figures import Commits, Period, VersionSize
from tahoe.table.versions.history import Timeline, timeline

# So many commits are read: a second on a disk, some seconds on an object store.
COMMITS_MAX = 2000

# The sizes of all versions follow from what all commits say, as long as these and the table are small.
COMMIT_BYTES_MAX = 64 << 20
FILES_MAX = 100_000

# A line through more points looks the same.
POINTS_MAX = 400

_PERIODS_MAX = 40
_OPERATIONS_MAX = 6
OTHERS = "others"

_MINUTE_MS = 60_000
_DAY_MS = 24 * 60 * _MINUTE_MS
_YEAR_MS = 365 * _DAY_MS
_LENGTHS_MS = (
    *(1000 * n for n in (1, 10)),
    *(_MINUTE_MS * n for n in (1, 10, 60, 360)),
    *(_DAY_MS * n for n in (1, 7, 28, 91)),
    *(_YEAR_MS * 10**n for n in range(9)),  # a log may hold any time
)


@dataclass(frozen=True, slots=True)
class _Read:
    """A commit that was read, and how many commits it stands for."""

    version: int
    timestamp_ms: int
    operation: str
    stands_for: int


def commit_figures(snapshot: Snapshot) -> tuple[Commits | None, list[VersionSize]]:
    """The commits up to a version, and the sizes of its table in some of these versions, oldest first."""
    line = timeline(snapshot)
    known = sum(commit.version <= snapshot.version for commit in line.commits)
    found = list(_read(line, known))
    if not found:
        return None, []
    commits = Commits(
        first_version=line.commits[0].version,
        last_version=line.commits[known - 1].version,
        read=len(found),
        operations=_counts(found),
        periods=_periods(found),
    )
    return commits, _growth(snapshot, line.commits[:known], found)


def _read(line: Timeline, count: int) -> Iterator[_Read]:
    """Some of the first `count` commits: one at a random place in each of as many stretches of the log as may be
    read.
    """
    ends = np.linspace(0, count, min(count, COMMITS_MAX) + 1).astype(int)
    stretches = np.diff(ends)
    positions = ends[:-1] + np.random.default_rng(0).integers(0, np.maximum(stretches, 1))

    def read(position: int, stands_for: int) -> _Read | None:
        version = line.commits[position].version
        try:
            timestamp_ms = line.timestamp_ms(position)
        except CommitGoneError:  # metadata cleanup deletes it meanwhile
            return None
        info = line.log.commit_info(version)
        operation = None if info is None else info.fields.get("operation")
        return _Read(version, timestamp_ms, "unknown" if operation is None else str(operation), stands_for)

    samples = list(zip(positions.tolist(), stretches.tolist(), strict=True))
    yield from (commit for commit in load_all(lambda sample: read(*sample), samples) if commit is not None)


def _counts(commits: Sequence[_Read]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for commit in commits:
        counts[commit.operation] += commit.stands_for
    return dict(counts.most_common())


def _periods(commits: Sequence[_Read]) -> list[Period]:
    """The commits by time, in periods of one round length. Rare operations are counted together."""
    first, last = min(c.timestamp_ms for c in commits), max(c.timestamp_ms for c in commits)
    length = next((n for n in _LENGTHS_MS if last // n - first // n < _PERIODS_MAX), _LENGTHS_MS[-1])
    frequent = list(_counts(commits))[:_OPERATIONS_MAX]
    periods: dict[int, list[_Read]] = {number: [] for number in range(first // length, last // length + 1)}
    for commit in commits:
        periods[commit.timestamp_ms // length].append(commit)
    found = []
    for number, members in periods.items():
        counts = _counts(members)
        operations = {name: counts.pop(name) for name in frequent if name in counts}
        operations |= {OTHERS: sum(counts.values())} if counts else {}
        found.append(Period(start_ms=number * length, end_ms=(number + 1) * length, operations=operations))
    return found


# --- growth


def _growth(snapshot: Snapshot, commits: Sequence[LogFile], read: Sequence[_Read]) -> list[VersionSize]:
    is_short = len(commits) <= COMMITS_MAX and sum(commit.size_bytes for commit in commits) <= COMMIT_BYTES_MAX
    if is_short and len(snapshot.live) <= FILES_MAX:
        with suppress(VersionNotFoundError, CommitGoneError):  # metadata cleanup deletes the first versions meanwhile
            return _from_commits(snapshot)
    return _from_checksums(snapshot, read)


def _from_commits(snapshot: Snapshot) -> list[VersionSize]:
    rows = SIZES.of(snapshot).select(["version", "timestamp", "num_files", "size_bytes"])
    rows = rows.set_column(1, "timestamp", rows.column("timestamp").cast(pa.int64())).to_pylist()
    found = [
        VersionSize(
            version=row["version"], timestamp_ms=row["timestamp"], files=row["num_files"], size_bytes=row["size_bytes"]
        )
        for row in rows
        if row["timestamp"] is not None
    ]
    return [found[at] for at in _spread(len(found))]


def _from_checksums(snapshot: Snapshot, read: Sequence[_Read]) -> list[VersionSize]:
    """From the version checksums beside some commits; versions whose writer has written none are left out."""

    def size(commit: _Read) -> VersionSize | None:
        if commit.version == snapshot.version:
            return None
        try:
            checksum = parse_version_checksum(snapshot.log.env.store.get(log_files.checksum_key(commit.version)))
        except FileNotFoundError:
            return None
        if checksum is None:
            return None
        return VersionSize(
            version=commit.version,
            timestamp_ms=commit.timestamp_ms,
            files=checksum.num_files,
            size_bytes=checksum.table_size_bytes,
        )

    found = [entry for entry in load_all(size, [read[at] for at in _spread(len(read))]) if entry is not None]
    newest = VersionSize(
        version=snapshot.version,
        timestamp_ms=snapshot.timestamp_ms,
        files=len(snapshot.live),
        size_bytes=snapshot.live.size_bytes,
    )
    return [*found, newest]


def _spread(count: int) -> list[int]:
    """Some of so many positions, the first and the last one among them."""
    return sorted({*np.linspace(0, count - 1, min(count, POINTS_MAX)).astype(int).tolist()}) if count else []
