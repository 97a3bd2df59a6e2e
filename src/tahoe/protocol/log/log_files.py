"""The names of the files in `_delta_log`, and which files reconstruct a version.

Protocol: "Delta Log Entries", "Checkpoints", "Log Compaction Files", "Version Checksum File". Works on names only:
nothing is read here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from enum import Enum

import msgspec

from tahoe.errors import MissingVersionError, VersionNotFoundError

LOG_FOLDER = "_delta_log"
SIDECAR_FOLDER = f"{LOG_FOLDER}/_sidecars"
STAGED_FOLDER = f"{LOG_FOLDER}/_staged_commits"
LAST_CHECKPOINT = f"{LOG_FOLDER}/_last_checkpoint"
LAST_VACUUM_INFO = f"{LOG_FOLDER}/_last_vacuum_info"


class Kind(Enum):
    COMMIT = "commit"
    COMPACTED = "compacted"
    CLASSIC_CHECKPOINT = "classic checkpoint"
    MULTI_PART_CHECKPOINT = "multi-part checkpoint"
    UUID_CHECKPOINT = "UUID-named checkpoint"
    CHECKSUM = "checksum"


_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_PATTERNS: Mapping[Kind, re.Pattern[str]] = {
    Kind.COMMIT: re.compile(r"(?P<version>\d{20})\.json"),
    Kind.COMPACTED: re.compile(r"(?P<version>\d{20})\.(?P<end>\d{20})\.compacted\.json"),
    Kind.CLASSIC_CHECKPOINT: re.compile(r"(?P<version>\d{20})\.checkpoint\.parquet"),
    Kind.MULTI_PART_CHECKPOINT: re.compile(
        r"(?P<version>\d{20})\.checkpoint\.(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet"
    ),
    Kind.UUID_CHECKPOINT: re.compile(
        rf"(?P<version>\d{{20}})\.checkpoint\.(?P<uuid>{_UUID})\.(?P<encoding>json|parquet)"
    ),
    Kind.CHECKSUM: re.compile(r"(?P<version>\d{20})\.crc"),
}

# Versions are signed 64-bit integers; twenty digits can hold larger numbers.
VERSION_MAX = (1 << 63) - 1

# If a version has several checkpoints, one that cannot be partially written or overwritten is preferred.
_PREFERENCE = (Kind.UUID_CHECKPOINT, Kind.CLASSIC_CHECKPOINT, Kind.MULTI_PART_CHECKPOINT)


class LogFile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A file of the log, described by its name. A compacted file covers `version` to `end_version`."""

    kind: Kind
    name: str
    version: int
    end_version: int
    part: int = 1
    parts: int = 1
    size_bytes: int = 0
    modified_ms: int = 0
    etag: str = ""

    @property
    def identity(self) -> tuple[int, str]:
        """Identifies the file's content: another file may later have the same name."""
        return self.size_bytes, self.etag or str(self.modified_ms)

    @property
    def key(self) -> str:
        return f"{LOG_FOLDER}/{self.name}"

    @property
    def is_checkpoint(self) -> bool:
        return self.kind in _PREFERENCE


def parse_name(name: str, *, size_bytes: int = 0, modified_ms: int = 0, etag: str = "") -> LogFile | None:
    """The file of `_delta_log` that a name denotes; None for names that the protocol does not define."""
    for kind, pattern in _PATTERNS.items():
        if found := pattern.fullmatch(name):
            groups = found.groupdict()
            version = int(groups["version"])
            if version > VERSION_MAX:
                return None
            return LogFile(
                kind=kind,
                name=name,
                version=version,
                end_version=int(groups.get("end") or version),
                part=int(groups.get("part") or 1),
                parts=int(groups.get("parts") or 1),
                size_bytes=size_bytes,
                modified_ms=modified_ms,
                etag=etag,
            )
    return None


def commit_name(version: int) -> str:
    return f"{version:020d}.json"


def commit_key(version: int) -> str:
    return f"{LOG_FOLDER}/{commit_name(version)}"


def compacted_name(start: int, end: int) -> str:
    return f"{start:020d}.{end:020d}.compacted.json"


# The first line of our compacted files: an action that readers do not know, and so ignore.
KEEPS_TOMBSTONES = b'{"tahoe":{"keepsTombstones":true}}\n'


def checksum_name(version: int) -> str:
    return f"{version:020d}.crc"


def checksum_key(version: int) -> str:
    return f"{LOG_FOLDER}/{checksum_name(version)}"


def classic_checkpoint_name(version: int) -> str:
    return f"{version:020d}.checkpoint.parquet"


def multi_part_checkpoint_name(version: int, part: int, parts: int) -> str:
    return f"{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"


def uuid_checkpoint_name(version: int, uuid: str, encoding: str) -> str:
    return f"{version:020d}.checkpoint.{uuid}.{encoding}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint: a single file, or all parts of a multi-part checkpoint in order.

    Attributes:
        commit: the commit of its version, if the listing has it.
    """

    version: int
    files: tuple[LogFile, ...]
    commit: LogFile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The files that reconstruct a version: a checkpoint, if there is one, and the commits after it, oldest first."""

    version: int
    checkpoint: Checkpoint | None
    deltas: tuple[LogFile, ...]
    commit: LogFile | None  # of the version itself; None if metadata cleanup left only the checkpoint
    checksum: LogFile | None = None  # of the version itself, if it has one


def complete_checkpoints(files: Iterable[LogFile]) -> list[Checkpoint]:
    """All checkpoints without missing parts, best first: by newest version, then by safest kind.

    Protocol: "readers must ignore multi-part checkpoints with missing parts".
    """
    groups: dict[tuple[int, Kind, str | int], list[LogFile]] = defaultdict(list)
    listed = list(files)
    commits = {file.version: file for file in listed if file.kind is Kind.COMMIT}
    for file in listed:
        if file.is_checkpoint:
            identity = file.parts if file.kind is Kind.MULTI_PART_CHECKPOINT else file.name
            groups[(file.version, file.kind, identity)].append(file)
    complete = []
    for (version, kind, identity), members in groups.items():
        members.sort(key=lambda f: f.part)
        # The number of parts in a name is untrusted: do not allocate anything of that size.
        if len(members) == members[0].parts and all(f.part == number for number, f in enumerate(members, start=1)):
            rank = (-version, _PREFERENCE.index(kind), str(identity))
            complete.append((rank, Checkpoint(version=version, files=tuple(members), commit=commits.get(version))))
    return [checkpoint for _, checkpoint in sorted(complete, key=lambda pair: pair[0])]


def expired_files(
    files: Iterable[LogFile], cutoff: int, *, protected_before: int = 0
) -> tuple[Checkpoint | None, list[LogFile]]:
    """The files that metadata cleanup may delete, oldest first. All versions from `cutoff` on stay readable.

    Protocol: "Metadata Cleanup", steps 2 and 3. The commit of the retained checkpoint is kept too, for its commit
    provenance. "Checkpoint Protection": commits come before the checkpoints of their versions.

    Args:
        cutoff: the oldest version that the table's retention keeps readable.
        protected_before: `delta.requireCheckpointProtectionBeforeVersion`; the files before it may only be deleted all
            at once.

    Returns:
        the checkpoint that all retained versions depend on, or None if there is none; and the files.
    """
    listed = list(files)
    kept = next((c for c in complete_checkpoints(listed) if c.version <= cutoff), None)
    if kept is None or kept.version < protected_before:
        return kept, []
    expired = [
        f for f in listed if (f.version <= kept.version if f.kind is Kind.COMPACTED else f.version < kept.version)
    ]
    return kept, sorted(expired, key=lambda f: (f.version, f.is_checkpoint, f.name))


def readable_versions(files: Iterable[LogFile]) -> tuple[int, int] | None:
    """The oldest and newest version that can be read, without a gap between them; None for an empty log."""
    listed = list(files)
    commits = {f.version for f in listed if f.kind is Kind.COMMIT}
    checkpoints = {c.version for c in complete_checkpoints(listed)}
    versions = commits | checkpoints
    if not versions:
        return None
    oldest = latest = max(versions)
    while oldest in commits and oldest - 1 in versions:
        oldest -= 1
    starts = {v for v in checkpoints if oldest <= v <= latest} | ({0} if oldest == 0 else set())
    return (min(starts) if starts else oldest, latest)


def plan_segment(
    files: Iterable[LogFile], version: int | None, *, table: str, unusable: Set[str] = frozenset()
) -> Segment:
    """Choose the files that reconstruct a version (the newest if None).

    Args:
        unusable: names of corrupt checkpoints and compacted files, which are skipped.

    Raises:
        VersionNotFoundError: there is no such version; the error gives the available range.
        MissingVersionError: a commit is missing and no checkpoint covers it.
    """
    listed = [f for f in files if f.name not in unusable]
    commits = {f.version: f for f in listed if f.kind is Kind.COMMIT}
    checkpoints = complete_checkpoints(listed)
    newest = max([*commits, *(c.version for c in checkpoints)], default=None)
    if newest is None:
        raise MissingVersionError(table=table, version="0", detail="it has no commit and no usable checkpoint")
    target = newest if version is None else version
    if not 0 <= target <= newest:
        earliest, latest = readable_versions(listed) or (newest, newest)
        raise VersionNotFoundError(table=table, version=target, earliest=earliest, latest=latest)
    checkpoint = next((c for c in checkpoints if c.version <= target), None)
    start = 0 if checkpoint is None else checkpoint.version + 1
    return Segment(
        version=target,
        checkpoint=checkpoint,
        deltas=_cover(start, target, commits, listed, version, table),
        commit=commits.get(target),
        checksum=next((f for f in listed if f.kind is Kind.CHECKSUM and f.version == target), None),
    )


def _cover(
    start: int, target: int, commits: Mapping[int, LogFile], listed: list[LogFile], asked: int | None, table: str
) -> tuple[LogFile, ...]:
    """The commits, and compacted files where possible, that cover `start` to `target` without a gap."""
    longest: dict[int, LogFile] = {}
    for file in listed:
        if file.kind is Kind.COMPACTED and file.version < file.end_version <= target:
            known = longest.get(file.version)
            longest[file.version] = file if known is None or file.end_version > known.end_version else known
    deltas: list[LogFile] = []
    while start <= target:
        delta = longest.get(start) or commits.get(start)
        if delta is None:
            raise _gap(start, target, commits, listed, asked, table)
        deltas.append(delta)
        start = delta.end_version + 1
    return tuple(deltas)


def _gap(
    missing: int, target: int, commits: Mapping[int, LogFile], listed: list[LogFile], asked: int | None, table: str
) -> MissingVersionError | VersionNotFoundError:
    """The error for a commit that is missing: the version is too old if a user asked for one before all that can be
    read, else the log is damaged.
    """
    earliest, latest = readable_versions(listed) or (target, target)
    if asked is not None and asked < earliest and latest in commits:
        return VersionNotFoundError(table=table, version=asked, earliest=earliest, latest=latest)
    return MissingVersionError(
        table=table,
        version=target,
        detail=(
            f"{commit_name(missing)} is missing, and no checkpoint covers it (the log has commits "
            f"{_ranges(sorted(commits))})"
        ),
    )


def _ranges(versions: list[int]) -> str:
    runs: list[list[int]] = []
    for version in versions:
        if runs and runs[-1][1] == version - 1:
            runs[-1][1] = version
        else:
            runs.append([version, version])
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs) or "none"
