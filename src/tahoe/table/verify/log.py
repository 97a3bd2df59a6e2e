"""Checks that a log is legal and consistent: commits, checkpoints, compacted files and checksums must agree.

Protocol: "Delta Log Entries", "Checkpoints", "Log Compaction Files", "Version Checksum File", "Last Checkpoint File".
The commits are replayed once, from the first one on, and every checkpoint and every version checksum is compared with
the replayed state.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tahoe.errors import CorruptCheckpointError, DeltaError, DeltaLogError
from tahoe.protocol.changes.legality import Definition, Transition, violations
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import Action, DomainMetadata, Metadata, Protocol, Txn
from tahoe.protocol.log.last_checkpoint import parse_last_checkpoint
from tahoe.protocol.log.log_files import Checkpoint, Kind, LogFile
from tahoe.protocol.log.replay import State, apply_actions, replay
from tahoe.protocol.types.json_text import load_json
from tahoe.table.log.checkpoint import read_checkpoint
from tahoe.table.log.delta_log import Log
from tahoe.table.log.live_files import LiveFiles
from tahoe.table.verify.differences import (
    checkpoint_differences,
    checksum_differences,
    compaction_differences,
    size_boundaries,
)
from tahoe.table.verify.file_replay import FileReplay, Totals
from tahoe.table.verify.findings import Finding, Severity, finding, finding_of_error
from tahoe.table.verify.findings import Kind as Wrong
from tahoe.table.verify.history import History

# The number of commits whose files are applied together: each application looks at every live file.
_PENDING_MAX = 1000


def check_log(log: Log, version: int | None = None) -> Iterator[Finding]:
    """Check the log up to a version; the newest if None. Reads every commit, every checkpoint and every version
    checksum.
    """
    files = [f for f in log.list_files() if version is None or f.end_version <= version]
    yield from _check_hint(log)
    yield from _check_completeness(files)
    yield from _check_contents(log, files)
    for file in files:
        if file.kind is Kind.COMPACTED:
            yield from _check_compacted(log, file)


# --- which files exist


def _check_hint(log: Log) -> Iterator[Finding]:
    """A `_last_checkpoint` that is broken, or names a checkpoint that the log does not have."""
    try:
        hint = parse_last_checkpoint(log.env.store.get(log_files.LAST_CHECKPOINT))
    except FileNotFoundError:
        return
    name = log_files.LAST_CHECKPOINT.rpartition("/")[2]
    if hint is None:
        yield finding(
            Wrong.BROKEN_HINT,
            file=name,
            version=None,
            detail="it is not a JSON object with a version, or its checksum is wrong",
        )
    elif all(c.version != hint.version for c in log_files.complete_checkpoints(log.list_files())):
        detail = f"it points to the checkpoint of version {hint.version}, which does not exist or is incomplete"
        yield finding(Wrong.BROKEN_HINT, file=name, version=hint.version, detail=detail)


def _check_completeness(files: Sequence[LogFile]) -> Iterator[Finding]:
    """Gaps between commits, and checkpoints of which parts are missing. A gap below a complete checkpoint is no error,
    because later versions can be read.
    """
    commits = sorted(f.version for f in files if f.kind is Kind.COMMIT)
    checkpoints = log_files.complete_checkpoints(files)
    newest_checkpoint = max((c.version for c in checkpoints), default=-1)
    for before, after in pairwise(commits):
        if after > before + 1:
            lost = f"version {before + 1}" if after == before + 2 else f"versions {before + 1} to {after - 1}"
            covered = newest_checkpoint >= after - 1
            consequence = "which cannot be read" if covered else "and no checkpoint covers the gap"
            detail = f"the log has no commit of {lost}, {consequence}"
            severity = None if covered else Severity.ERROR
            yield finding(Wrong.MISSING_VERSIONS, file=None, version=before + 1, detail=detail, severity=severity)
    whole = {file.name for checkpoint in checkpoints for file in checkpoint.files}
    for file in files:
        if file.is_checkpoint and file.name not in whole:
            detail = (
                f"it is part {file.part} of a multi-part checkpoint of which some of the {file.parts} parts are missing"
            )
            yield finding(Wrong.INCOMPLETE_CHECKPOINT, file=file.name, version=file.version, detail=detail)


# --- contents


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    """A commit that waits to be applied, with what its version checksum says; None if there is none, or none that can
    be read.
    """

    file: LogFile
    actions: list[Action]
    checksum: Mapping[str, Any] | None


@dataclass(slots=True)
class _Replay:
    """The replayed state of the log up to a version. Commits are applied in batches.

    Attributes:
        timestamp_ms: the last in-commit timestamp.
    """

    log: Log
    version: int = -1
    state: State = field(default_factory=State)
    live: LiveFiles = field(default_factory=lambda: LiveFiles(()))
    totals: Totals = field(default_factory=Totals)
    history: History = field(init=False)
    pending: list[_Commit] = field(default_factory=list)
    timestamp_ms: int | None = None

    def __post_init__(self) -> None:
        self.history = History(self.log)

    def add(self, commit: _Commit) -> Iterator[Finding]:
        self.version = commit.file.version
        self.pending.append(commit)
        if len(self.pending) >= _PENDING_MAX:
            yield from self.settle()

    def settle(self) -> Iterator[Finding]:
        """Apply the commits that wait, and check each."""
        for commit in self.pending:
            if commit.checksum is not None and (boundaries := size_boundaries(commit.checksum)) is not None:
                self.totals.watch_sizes(boundaries, self.live)
        whole = any(
            commit.checksum is not None and commit.checksum.get("allFiles") is not None for commit in self.pending
        )
        batch = [commit.actions for commit in self.pending]
        files = FileReplay(self.log, self.live, self.totals, batch, whole=whole)
        for commit in self.pending:
            yield from self._apply(commit, files)
        self.live = self.live.after(batch[::-1], self.log.canonical)
        self.pending = []
        self.history.forget()

    def _apply(self, commit: _Commit, files: FileReplay) -> Iterator[Finding]:
        """Apply a commit to the state, and check it against the state before. The log is replayed once for all."""
        before, domains = _definition(self.state), dict(self.state.domains)
        apply_actions(
            self.state,
            [a for a in commit.actions if isinstance(a, Protocol | Metadata | Txn | DomainMetadata)],
            self.log.canonical,
        )
        effect, after = files.apply(commit.actions), _definition(self.state)
        if after is not None:
            change = Transition(
                version=commit.file.version,
                actions=commit.actions,
                before=before,
                after=after,
                timestamp_ms=self.timestamp_ms,
                domains_before=domains,
                domains=self.state.domains,
            )
            self.timestamp_ms = change.in_commit_timestamp_ms
            for detail in violations(change):
                yield finding(Wrong.ILLEGAL_LOG_FILE, file=commit.file.name, version=commit.file.version, detail=detail)
            yield from self.history.check(change, effect, self.totals)
        if commit.checksum is not None:
            yield from self._check_checksum(commit.checksum, commit.file.version, files)

    def check_own_checksum(self, body: Mapping[str, Any]) -> Iterator[Finding]:
        """Compare a checksum with this version, of which no commit waits."""
        if (boundaries := size_boundaries(body)) is not None:
            self.totals.watch_sizes(boundaries, self.live)
        files = FileReplay(self.log, self.live, self.totals, (), whole=body.get("allFiles") is not None)
        yield from self._check_checksum(body, self.version, files)

    def _check_checksum(self, body: Mapping[str, Any], version: int, files: FileReplay) -> Iterator[Finding]:
        entries = files.entries() if files.is_whole else None
        for detail in checksum_differences(self.log, body, self.state, self.totals, entries, self.timestamp_ms):
            yield finding(
                Wrong.WRONG_CHECKSUM_FILE, file=log_files.checksum_name(version), version=version, detail=detail
            )

    def finish(self) -> Iterator[Finding]:
        """What is known only when no commit follows any more."""
        yield from self.settle()
        yield from self.history.still_there()


def _definition(state: State) -> Definition | None:
    return None if state.protocol is None or state.metadata is None else Definition(state.protocol, state.metadata)


def _check_contents(log: Log, files: Sequence[LogFile]) -> Iterator[Finding]:
    """Replay the commits, and compare each checkpoint and each checksum with the state that the commits before it
    make.
    """
    commits = {f.version: f for f in files if f.kind is Kind.COMMIT}
    checksums = {f.version: f for f in files if f.kind is Kind.CHECKSUM}
    checkpoints: dict[int, list[Checkpoint]] = {}
    for checkpoint in log_files.complete_checkpoints(files):
        checkpoints.setdefault(checkpoint.version, []).append(checkpoint)
    running: _Replay | None = _Replay(log)
    for version in sorted({*commits, *checkpoints}):
        actions: list[Action] | None = None
        if version in commits:
            try:
                actions = log.read(commits[version])
            except DeltaLogError as error:
                yield finding_of_error(Wrong.ILLEGAL_LOG_FILE, commits[version].name, version, error)
        body = yield from _checksum(log, checksums.get(version))
        if running is None or actions is None or running.version != version - 1:
            if running is not None:
                yield from running.settle()
            running = None  # until the next checkpoint gives the full state again
        else:
            yield from running.add(_Commit(file=commits[version], actions=actions, checksum=body))
        for checkpoint in checkpoints.get(version, ()):
            try:
                found = _checkpoint_replay(log, checkpoint)
            except DeltaError as error:
                yield finding_of_error(Wrong.BROKEN_CHECKPOINT, checkpoint_name(checkpoint), version, error)
                continue
            if running is None:
                running = found
                yield from running.check_own_checksum(body or {})
                continue
            yield from running.settle()
            for detail in checkpoint_differences(log, (running.state, running.live), (found.state, found.live)):
                yield finding(Wrong.WRONG_CHECKPOINT, file=checkpoint_name(checkpoint), version=version, detail=detail)
    if running is not None:
        yield from running.finish()


def _checksum(log: Log, file: LogFile | None) -> Generator[Finding, None, Mapping[str, Any] | None]:
    """What a version checksum says; None if there is none, or none that can be read."""
    if file is None:
        return None
    try:
        body = load_json(log.env.store.get(file.key))
    except FileNotFoundError:
        return None
    except ValueError:
        body = None
    if not isinstance(body, dict):
        yield finding(Wrong.WRONG_CHECKSUM_FILE, file=file.name, version=file.version, detail="it is not a JSON object")
        return None
    return body


def _checkpoint_replay(log: Log, checkpoint: Checkpoint) -> _Replay:
    """The replay of the log that begins at a checkpoint. Without a protocol, metadata or a valid schema the checkpoint
    is broken.
    """
    actions, parts = read_checkpoint(log, checkpoint, whole=True)
    live = LiveFiles(parts)
    found = _Replay(log, checkpoint.version, live=live, totals=Totals.of(live))
    apply_actions(found.state, actions, log.canonical)
    for name, action in (("protocol", found.state.protocol), ("metaData", found.state.metadata)):
        if action is None:
            raise CorruptCheckpointError(
                table=log.url, file=checkpoint_name(checkpoint), detail=f"it has no {name} action"
            )
    assert found.state.metadata is not None
    _ = found.state.metadata.schema  # raises if the schema is invalid
    return found


def checkpoint_name(checkpoint: Checkpoint) -> str:
    """How findings name a checkpoint."""
    first, last = checkpoint.files[0].name, checkpoint.files[-1].name
    return first if first == last else f"{first} to {last}"


def _check_compacted(log: Log, file: LogFile) -> Iterator[Finding]:
    """Check that a compacted file has the same effect as its commits, as far as these still exist."""
    try:
        compacted = replay([log.read_compacted(file, may_lack_removes=True)], log.canonical)
        commits = [log.read_version(version) for version in range(file.version, file.end_version + 1)]
    except DeltaLogError as error:
        if error.parameters.get("file") == file.name:  # the commits were read before, so their defects are known
            yield finding_of_error(Wrong.WRONG_COMPACTED_LOG, file.name, file.end_version, error)
        return
    expected = replay(commits, log.canonical)
    for detail in compaction_differences(expected, compacted, commits):
        yield finding(Wrong.WRONG_COMPACTED_LOG, file=file.name, version=file.end_version, detail=detail)
