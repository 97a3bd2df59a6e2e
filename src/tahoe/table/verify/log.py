"""Checks that a log is legal and consistent: commits, checkpoints, compacted files and checksums must agree.

Protocol: "Delta Log Entries", "Checkpoints", "Log Compaction Files", "Version Checksum File", "Last Checkpoint File". The commits are
replayed from the first one on, and every checkpoint is compared with the replayed state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import CorruptCheckpointError, DeltaError, DeltaLogError
from tahoe.protocol import log_files
from tahoe.protocol.actions import Action, Add, CommitInfo, DomainMetadata, Metadata, Protocol, Txn
from tahoe.protocol.column_mapping import mapping_mode, stored_name
from tahoe.protocol.json_text import load_json
from tahoe.protocol.last_checkpoint import parse_last_checkpoint
from tahoe.protocol.log_files import Checkpoint, Kind, LogFile
from tahoe.protocol.replay import State, apply, replay
from tahoe.table.arrow.chunks import sorted_table
from tahoe.table.log.checkpoint import read_checkpoint
from tahoe.table.log.delta_log import Log
from tahoe.table.log.file_keys import canonical_paths, vector_ids
from tahoe.table.log.live_files import LiveFiles
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.reading.snapshot_state import in_commit_timestamps_enabled
from tahoe.table.verify.findings import Finding, Severity, finding, of_error
from tahoe.table.verify.findings import Kind as Wrong

# The number of commits whose files are applied together: each application looks at every live file.
_PENDING_MAX = 1000

# The maximum number of differing files that a finding names.
_NAMED_MAX = 3


def check_log(log: Log, version: int | None = None) -> Iterator[Finding]:
    """Check the log up to a version; the newest if None. Reads every commit and every checkpoint."""
    files = [f for f in log.list_files() if version is None or f.end_version <= version]
    yield from _check_hint(log)
    yield from _check_completeness(files)
    yield from _check_contents(log, files)
    for file in files:
        if file.kind is Kind.COMPACTED:
            yield from _check_compacted(log, file)


def check_checksum_file(snapshot: Snapshot) -> Iterator[Finding]:
    """Check the file totals in the version checksum, if there is one."""
    name = log_files.checksum_name(snapshot.version)
    try:
        body = load_json(snapshot.log.env.store.get(f"{log_files.LOG_FOLDER}/{name}"))
    except FileNotFoundError:
        return
    except ValueError:
        body = None
    if not isinstance(body, dict):
        yield finding(Wrong.WRONG_CHECKSUM_FILE, file=name, version=snapshot.version, detail="it is not a JSON object")
        return
    for key, found in (("numFiles", len(snapshot.live)), ("tableSizeBytes", snapshot.live.size_bytes)):
        if body.get(key, found) != found:
            detail = f"{key} is {body[key]}, but according to the log it is {found}"
            yield finding(Wrong.WRONG_CHECKSUM_FILE, file=name, version=snapshot.version, detail=detail)


# --- which files exist


def _check_hint(log: Log) -> Iterator[Finding]:
    try:
        hint = parse_last_checkpoint(log.env.store.get(log_files.LAST_CHECKPOINT))
    except FileNotFoundError:
        return
    name = log_files.LAST_CHECKPOINT.rpartition("/")[2]
    if hint is None:
        yield finding(Wrong.BROKEN_HINT, file=name, version=None, detail="it is not a JSON object with a version, or its checksum is wrong")
    elif all(c.version != hint.version for c in log_files.complete_checkpoints(log.list_files())):
        detail = f"it points to the checkpoint of version {hint.version}, which does not exist or is incomplete"
        yield finding(Wrong.BROKEN_HINT, file=name, version=hint.version, detail=detail)


def _check_completeness(files: Sequence[LogFile]) -> Iterator[Finding]:
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
            detail = f"it is part {file.part} of a multi-part checkpoint of which some of the {file.parts} parts are missing"
            yield finding(Wrong.INCOMPLETE_CHECKPOINT, file=file.name, version=file.version, detail=detail)


# --- contents


@dataclass(slots=True)
class _Replay:
    """The replayed state of the log up to a version. Files are applied in batches of commits."""

    log: Log
    version: int = -1
    state: State = field(default_factory=State)
    live: LiveFiles = field(default_factory=lambda: LiveFiles(()))
    pending: list[list[Action]] = field(default_factory=list)
    timestamp_ms: int | None = None  # the last in-commit timestamp

    def add(self, version: int, actions: list[Action]) -> None:
        self.version = version
        apply(self.state, [a for a in actions if isinstance(a, Protocol | Metadata | Txn | DomainMetadata)], self.log.canonical)
        self.pending.append(actions)
        if len(self.pending) >= _PENDING_MAX:
            self.settle()

    def settle(self) -> LiveFiles:
        self.live = self.live.after(self.pending[::-1], self.log.canonical)
        self.pending = []
        return self.live


def _check_contents(log: Log, files: Sequence[LogFile]) -> Iterator[Finding]:
    """Replay the commits, and compare each checkpoint with the state that the commits before it make."""
    commits = {f.version: f for f in files if f.kind is Kind.COMMIT}
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
                yield of_error(Wrong.ILLEGAL_LOG_FILE, commits[version].name, version, error)
        if running is None or actions is None or running.version != version - 1:
            running = None  # until the next checkpoint gives the full state again
        else:
            running.add(version, actions)
            yield from _check_in_commit_timestamp(running, commits[version], actions)
        for checkpoint in checkpoints.get(version, ()):
            try:
                found = _from_checkpoint(log, checkpoint)
            except DeltaError as error:
                yield of_error(Wrong.BROKEN_CHECKPOINT, checkpoint_name(checkpoint), version, error)
                continue
            if running is None:
                running = found
                continue
            for detail in _differences(running, found):
                yield finding(Wrong.WRONG_CHECKPOINT, file=checkpoint_name(checkpoint), version=version, detail=detail)


def _check_in_commit_timestamp(running: _Replay, commit: LogFile, actions: Iterable[Action]) -> Iterator[Finding]:
    """Protocol: "In-Commit Timestamps": every commit has one, and they increase."""
    protocol, metadata = running.state.protocol, running.state.metadata
    if protocol is None or metadata is None or not in_commit_timestamps_enabled(protocol, metadata):
        running.timestamp_ms = None
        return
    info = next((a for a in actions if isinstance(a, CommitInfo)), None)
    before, running.timestamp_ms = running.timestamp_ms, info.in_commit_timestamp_ms if info is not None else None
    if running.timestamp_ms is None:
        detail = "in-commit timestamps are enabled, but it has none"
    elif before is not None and running.timestamp_ms <= before:
        detail = f"its in-commit timestamp {running.timestamp_ms} is not later than the previous one, {before}"
    else:
        return
    yield finding(Wrong.ILLEGAL_LOG_FILE, file=commit.name, version=commit.version, detail=detail)


def _from_checkpoint(log: Log, checkpoint: Checkpoint) -> _Replay:
    actions, parts = read_checkpoint(log, checkpoint, whole=True)
    found = _Replay(log, checkpoint.version, live=LiveFiles(parts))
    apply(found.state, actions, log.canonical)
    for name, action in (("protocol", found.state.protocol), ("metaData", found.state.metadata)):
        if action is None:
            raise CorruptCheckpointError(table=log.url, file=checkpoint_name(checkpoint), detail=f"it has no {name} action")
    assert found.state.metadata is not None
    _ = found.state.metadata.schema  # raises if the schema is invalid
    return found


def checkpoint_name(checkpoint: Checkpoint) -> str:
    """How findings name a checkpoint."""
    first, last = checkpoint.files[0].name, checkpoint.files[-1].name
    return first if first == last else f"{first} to {last}"


# --- consistency


def _differences(commits: _Replay, checkpoint: _Replay) -> Iterator[str]:
    """The differences between a checkpoint and the commits up to its version."""
    mine, theirs = commits.state, checkpoint.state
    if _protocol(mine.protocol) != _protocol(theirs.protocol):
        yield f"its protocol is {theirs.protocol}, but that of the commits is {mine.protocol}"
    if _metadata(mine.metadata) != _metadata(theirs.metadata):
        yield "its metaData differs from that of the commits"
    for app_id, txn in theirs.txns.items():  # a checkpoint may leave out old ones
        known = mine.txns.get(app_id)
        if known is None or known.version != txn.version:
            yield f"it has version {txn.version} of application {app_id}, but the commits have {'none' if known is None else known.version}"
    if {d.domain: d.configuration for d in mine.domains.values()} != {d.domain: d.configuration for d in theirs.domains.values()}:
        yield f"it has the domains {sorted(theirs.domains)} but the commits have {sorted(mine.domains)}, or their configurations differ"
    if theirs.metadata is not None and theirs.protocol is not None:
        mode, schema = mapping_mode(theirs.protocol, theirs.metadata.configuration), theirs.metadata.schema
        columns = [stored_name(f, mode) for name in theirs.metadata.partition_columns if (f := schema.find(name))]
        tables = (_comparable(live, commits.log, columns) for live in (commits.settle(), checkpoint.live))
        yield from _file_differences(*tables)


def _protocol(protocol: Protocol | None) -> object:
    if protocol is None:
        return None
    features = (protocol.reader_features or frozenset(), protocol.writer_features or frozenset())
    return (protocol.reader_version, protocol.writer_version, *features)


def _metadata(metadata: Metadata | None) -> object:
    if metadata is None:
        return None
    return (metadata.id, _schema(metadata), metadata.partition_columns, dict(metadata.configuration))


def _schema(metadata: Metadata) -> object:
    """The schema, or its text if it is invalid."""
    try:
        return metadata.schema
    except DeltaError:
        return metadata.schema_string


def _comparable(live: LiveFiles, log: Log, partition_columns: Sequence[str]) -> pa.Table:
    """The sorted files, with the columns that must be equal in the commits and the checkpoint of a version."""
    values = live.column("partition_values")
    columns = {
        "path": canonical_paths(live.column("path"), log),
        "vector": vector_ids(live.column("deletion_vector")),
        "size_bytes": live.column("size_bytes"),
    }
    for name in partition_columns:
        chunks = [pc.map_lookup(chunk, pa.scalar(name), "last") for chunk in values.chunks]
        texts = pa.chunked_array(chunks, pa.string())
        columns[f"partition {name}"] = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    return sorted_table(pa.table(columns), ["path", "vector"])


def _file_differences(commits: pa.Table, checkpoint: pa.Table) -> Iterator[str]:
    if commits.equals(checkpoint):
        return
    keys = [_row_keys(table) for table in (commits, checkpoint)]
    lost, extra = (sorted(mine.keys() - theirs.keys()) for mine, theirs in (keys, keys[::-1]))
    changed = sorted(key for key in keys[0].keys() & keys[1].keys() if keys[0][key] != keys[1][key])
    for what, found in (("lacks", lost), ("has files that are not live,", extra), ("has another size or partition for", changed)):
        if found:
            named = ", ".join(path for path, _ in found[:_NAMED_MAX])
            yield f"it {what} {named}" + (f" and {len(found) - _NAMED_MAX} more" if len(found) > _NAMED_MAX else "")


def _row_keys(table: pa.Table) -> dict[tuple[str, str], tuple[object, ...]]:
    columns = [column.to_pylist() for column in table.columns]
    return {(path, vector): tuple(rest) for path, vector, *rest in zip(*columns, strict=True)}


def _check_compacted(log: Log, file: LogFile) -> Iterator[Finding]:
    """Check that a compacted file has the same effect as its commits, as far as these still exist."""
    try:
        compacted = replay([log.read_compacted(file, may_lack_removes=True)], log.canonical)
        commits = [log.read_version(version) for version in range(file.version, file.end_version + 1)]
    except DeltaLogError as error:
        if error.parameters.get("file") == file.name:  # the commits were read before, so their defects are known
            yield of_error(Wrong.WRONG_COMPACTED_LOG, file.name, file.end_version, error)
        return
    expected = replay(commits, log.canonical)
    for detail in _compaction_differences(expected, compacted, commits):
        yield finding(Wrong.WRONG_COMPACTED_LOG, file=file.name, version=file.end_version, detail=detail)


def _compaction_differences(expected: State, found: State, commits: Iterable[Iterable[Action]]) -> Iterator[str]:
    if (_protocol(expected.protocol), _metadata(expected.metadata)) != (_protocol(found.protocol), _metadata(found.metadata)):
        yield "its protocol or metaData differs from that of its commits"
    if _versions(expected.txns) != _versions(found.txns):
        yield "its transaction identifiers differ from those of its commits"
    if expected.domains != found.domains:
        yield "its domains differ from those of its commits"
    if _sizes(expected.adds) != _sizes(found.adds):
        yield "its added files differ from those of its commits"
    made_here = {a.path for actions in commits for a in actions if isinstance(a, Add)}
    lost = {key for key, remove in expected.removes.items() if remove.path not in made_here} - found.removes.keys()
    if lost or found.removes.keys() - expected.removes.keys():
        yield "its removed files differ from those of its commits"


def _versions(txns: Mapping[str, Txn]) -> dict[str, int]:
    return {app_id: txn.version for app_id, txn in txns.items()}


def _sizes(adds: Mapping[tuple[str, str | None], Add]) -> dict[tuple[str, str | None], int]:
    return {key: add.size_bytes for key, add in adds.items()}
