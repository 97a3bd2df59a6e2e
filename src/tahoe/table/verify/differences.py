"""How derived files of a log differ from the commits that they summarise: checkpoints, compacted logs and version
checksums.

Protocol: "Checkpoints", "Log Compaction Files", "Version Checksum File".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import DeltaError
from tahoe.protocol.configuration.column_mapping import mapping_mode, stored_name
from tahoe.protocol.configuration.properties import TXN_RETENTION
from tahoe.protocol.log.actions import Action, Add, DomainMetadata, Metadata, Protocol, Txn, decode_action
from tahoe.protocol.log.replay import State
from tahoe.table.arrow.chunks import sorted_table
from tahoe.table.log.delta_log import Log
from tahoe.table.log.file_keys import canonical_paths, vector_ids
from tahoe.table.log.live_files import LiveFiles
from tahoe.table.verify.file_replay import Boundaries, Entry, Totals, physical_rows

# The maximum number of differing files that a finding names.
_NAMED_MAX = 3


def checkpoint_differences(
    log: Log, commits: tuple[State, LiveFiles], checkpoint: tuple[State, LiveFiles]
) -> Iterator[str]:
    """The differences between a checkpoint and the commits up to its version."""
    mine, theirs = commits[0], checkpoint[0]
    if _protocol(mine.protocol) != _protocol(theirs.protocol):
        yield f"its protocol is {theirs.protocol}, but that of the commits is {mine.protocol}"
    if _metadata(mine.metadata) != _metadata(theirs.metadata):
        yield "its metaData differs from that of the commits"
    for app_id, txn in theirs.txns.items():  # a checkpoint may leave out old ones
        last = mine.txns.get(app_id)
        if last is None or last.version != txn.version:
            yield (
                f"it has version {txn.version} of application {app_id}, but the commits have "
                f"{'none' if last is None else last.version}"
            )
    if not _retention(mine.metadata) and (lost := sorted(mine.txns.keys() - theirs.txns.keys())):
        yield f"it lacks the transaction identifiers of {', '.join(lost[:_NAMED_MAX])}"
    if _domains(mine) != _domains(theirs):
        yield (
            f"it has the domains {sorted(theirs.domains)} but the commits have {sorted(mine.domains)}, or their "
            f"configurations differ"
        )
    if theirs.metadata is not None and theirs.protocol is not None:
        mode, schema = mapping_mode(theirs.protocol, theirs.metadata.configuration), theirs.metadata.schema
        columns = [stored_name(f, mode) for name in theirs.metadata.partition_columns if (f := schema.find(name))]
        tables = (_comparable(live, log, columns) for live in (commits[1], checkpoint[1]))
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


def _domains(state: State) -> dict[str, str]:
    return {domain.domain: domain.configuration for domain in state.domains.values()}


def _retention(metadata: Metadata | None) -> bool:
    """Whether checkpoints may leave out old transaction identifiers."""
    return metadata is not None and TXN_RETENTION.name in metadata.configuration


def _comparable(live: LiveFiles, log: Log, partition_columns: Sequence[str]) -> pa.Table:
    """The sorted files, with the columns that must be equal in the commits and the checkpoint of a version."""
    values = live.column("partition_values")
    columns = {
        "path": canonical_paths(live.column("path"), log),
        "vector": vector_ids(live.column("deletion_vector")),
        "size_bytes": live.column("size_bytes"),
        "base_row_id": live.column("base_row_id"),
        "default_row_commit_version": live.column("default_row_commit_version"),
    }
    for name in partition_columns:
        chunks = [pc.map_lookup(chunk, pa.scalar(name), "last") for chunk in values.chunks]
        texts = pa.chunked_array(chunks, pa.string())
        columns[f"partition {name}"] = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    return sorted_table(pa.table(columns), ["path", "vector"])


def _file_differences(commits: pa.Table, checkpoint: pa.Table) -> Iterator[str]:
    """How the files of a checkpoint differ from those that the commits give."""
    if commits.equals(checkpoint):
        return
    keys = [_row_keys(table) for table in (commits, checkpoint)]
    missing, extra = (sorted(mine.keys() - theirs.keys()) for mine, theirs in (keys, keys[::-1]))
    different = sorted(key for key in keys[0].keys() & keys[1].keys() if keys[0][key] != keys[1][key])
    for what, keys_of_kind in (
        ("lacks", missing),
        ("has files that are not live,", extra),
        ("has another size, partition or row ids for", different),
    ):
        if keys_of_kind:
            yield f"it {what} {_names_text([path for path, _ in keys_of_kind])}"


def _row_keys(table: pa.Table) -> dict[tuple[str, str], tuple[object, ...]]:
    columns = [column.to_pylist() for column in table.columns]
    return {(path, vector): tuple(rest) for path, vector, *rest in zip(*columns, strict=True)}


def _names_text(paths: Sequence[str]) -> str:
    return ", ".join(paths[:_NAMED_MAX]) + (f" and {len(paths) - _NAMED_MAX} more" if len(paths) > _NAMED_MAX else "")


# --- compacted logs


def compaction_differences(expected: State, found: State, commits: Iterable[Iterable[Action]]) -> Iterator[str]:
    """The differences between a compacted log and its commits."""
    if (_protocol(expected.protocol), _metadata(expected.metadata)) != (
        _protocol(found.protocol),
        _metadata(found.metadata),
    ):
        yield "its protocol or metaData differs from that of its commits"
    if _versions(expected.txns) != _versions(found.txns):
        yield "its transaction identifiers differ from those of its commits"
    if expected.domains != found.domains:
        yield "its domains differ from those of its commits"
    if _contents(expected.adds) != _contents(found.adds):
        yield "its added files differ from those of its commits"
    made_here = {a.path for actions in commits for a in actions if isinstance(a, Add)}
    lost = {key for key, remove in expected.removes.items() if remove.path not in made_here} - found.removes.keys()
    if lost or found.removes.keys() - expected.removes.keys():
        yield "its removed files differ from those of its commits"


def _versions(txns: Mapping[str, Txn]) -> dict[str, int]:
    return {app_id: txn.version for app_id, txn in txns.items()}


def _contents(adds: Mapping[tuple[str, str | None], Add]) -> dict[tuple[str, str | None], object]:
    return {
        key: (add.size_bytes, dict(add.partition_values), add.base_row_id, physical_rows(add.stats))
        for key, add in adds.items()
    }


# --- version checksums


def size_boundaries(body: Mapping[str, Any]) -> Boundaries | None:
    """The boundaries of the histogram of file sizes in a version checksum; None if it has none, or none that are
    legal.
    """
    histogram = body.get("fileSizeHistogram")
    found = histogram.get("sortedBinBoundaries") if isinstance(histogram, dict) else None
    if not isinstance(found, list) or not found or not all(type(number) is int for number in found):
        return None
    is_sorted = all(low < high for low, high in pairwise(found))
    return tuple(found) if found[0] == 0 and is_sorted and found[-1] < 1 << 63 else None


def checksum_differences(
    log: Log,
    body: Mapping[str, Any],
    state: State,
    totals: Totals,
    entries: Sequence[Entry] | None,
    timestamp_ms: int | None,
) -> Iterator[str]:
    """The differences between a version checksum and the version. What it does not have, it may leave out.

    Args:
        entries: the live files; None if they are not held.
        timestamp_ms: the in-commit timestamp of the version; None if it has none, or it is not known.
    """
    counted = {
        "numFiles": totals.files,
        "tableSizeBytes": totals.size_bytes,
        "numMetadata": 1,
        "numProtocol": 1,
        "numDeletedRecordsOpt": totals.deleted,
        "numDeletionVectorsOpt": totals.vectors,
        **({} if timestamp_ms is None else {"inCommitTimestampOpt": timestamp_ms}),
    }
    for key, found in counted.items():
        if body.get(key) is not None and body[key] != found:
            yield f"{key} is {body[key]}, but according to the log it is {found}"
    yield from _histogram_differences(body, totals)
    decoded: dict[str, list[Any] | None] = {}
    for key, name in (
        ("protocol", "protocol"),
        ("metadata", "metaData"),
        ("setTransactions", "txn"),
        ("domainMetadata", "domainMetadata"),
    ):
        decoded[key] = _decode_field(body.get(key), name)
        if decoded[key] is None:
            yield f"{key} is not what its name says"
    yield from _state_differences(body, decoded, state)
    if body.get("allFiles") is not None:
        yield from _listing_differences(log, _decode_field(body["allFiles"], "add"), totals, entries)


def _decode_field(value: Any, name: str) -> list[Any] | None:
    """The actions of a field of a checksum; None if they are not legal."""
    if value is None:
        return []
    try:
        found = [decode_action({name: item}) for item in (value if isinstance(value, list) else [value])]
    except ValueError:
        return None
    return None if any(action is None for action in found) else found


def _state_differences(body: Mapping[str, Any], decoded: Mapping[str, list[Any] | None], state: State) -> Iterator[str]:
    """What a version checksum says otherwise than the log, besides its files. Fields that it lacks are no difference,
    nor are transaction identifiers that the retention allows to forget.
    """
    if (protocols := decoded["protocol"]) and _protocol(protocols[0]) != _protocol(state.protocol):
        yield "its protocol differs from that of the log"
    if (metadata := decoded["metadata"]) and _metadata(metadata[0]) != _metadata(state.metadata):
        yield "its metadata differs from that of the log"
    txns: list[Txn] | None = decoded["setTransactions"]
    if body.get("setTransactions") is not None and txns is not None:
        listed = {txn.app_id: txn.version for txn in txns}
        known = _versions(state.txns)
        wrong = {app_id for app_id, version in listed.items() if known.get(app_id) != version}
        if wrong or len(txns) > len(listed) or (not _retention(state.metadata) and known.keys() - listed.keys()):
            yield "its setTransactions differ from the transaction identifiers of the log"
    domains: list[DomainMetadata] | None = decoded["domainMetadata"]
    listed_domains = {d.domain: d.configuration for d in domains or () if not d.removed}
    if body.get("domainMetadata") is not None and domains is not None and listed_domains != _domains(state):
        yield "its domainMetadata differs from the domains of the log"


def _histogram_differences(body: Mapping[str, Any], totals: Totals) -> Iterator[str]:
    """How the histograms of a version checksum differ from the sizes and deleted rows of the live files."""
    histogram = body.get("fileSizeHistogram")
    if histogram is not None:
        boundaries = size_boundaries(body)
        counts = totals.sizes.get(boundaries) if boundaries is not None else None
        if boundaries is None:
            yield "the boundaries of its fileSizeHistogram do not rise from 0"
        elif counts is not None and (histogram.get("fileCounts"), histogram.get("totalBytes")) != counts:
            yield "its fileSizeHistogram differs from the sizes of the files in the log"
    deleted = body.get("deletedRecordCountsHistogramOpt")
    if deleted is not None and (
        not isinstance(deleted, dict) or deleted.get("deletedRecordCounts") != totals.deleted_bins
    ):
        yield "its deletedRecordCountsHistogramOpt differs from the deletion vectors in the log"


def _listing_differences(
    log: Log, files: list[Any] | None, totals: Totals, entries: Sequence[Entry] | None
) -> Iterator[str]:
    """How the files that a version checksum lists differ from the live ones; only by their number if those are not all
    held.
    """
    if files is None:
        yield "its allFiles are not files"
    elif len(files) != totals.files:
        yield f"its allFiles are {len(files)} files, but according to the log there are {totals.files}"
    elif entries is not None:
        listed = {
            (entry.path, entry.vector): entry
            for entry in (Entry.of(add, log, physical_rows(add.stats)) for add in files)
        }
        live = {(entry.path, entry.vector): entry for entry in entries}
        wrong = {key for key in listed.keys() & live.keys() if _differ(listed[key], live[key])} | (
            listed.keys() ^ live.keys()
        )
        if wrong:
            yield f"its allFiles differ from the files of the log in {_names_text(sorted(path for path, _ in wrong))}"


def _differ(one: Entry, other: Entry) -> bool:
    if None not in (one.rows, other.rows) and one.rows != other.rows:
        return True
    return _contents_of(one) != _contents_of(other)


def _contents_of(entry: Entry) -> tuple[object, ...]:
    values = {name: value or None for name, value in entry.partition_values.items()}
    return (entry.size_bytes, entry.deleted, entry.base_row_id, entry.row_commit_version, values)
