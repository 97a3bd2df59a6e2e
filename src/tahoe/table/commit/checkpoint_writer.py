"""Writes checkpoints: the full state of a version in one or several files, so that readers need not replay the log.

Protocol: "Checkpoints", "Checkpoint Specs", "Sidecar Files", "Last Checkpoint File". Files are processed in batches, so
that the checkpoint of a table with a million files needs little memory. A crash leaves files that no reader looks at, a
checkpoint without the hint that names it, or, if the table was dropped and recreated meanwhile, a checkpoint that names
a commit of the old table, so that readers refuse it.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, BinaryIO, Literal, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tahoe._cached import cached_property
from tahoe.errors import CorruptCheckpointError, MissingVersionError
from tahoe.events.listeners import now
from tahoe.protocol.configuration import properties
from tahoe.protocol.configuration.column_mapping import physical_path, physical_schema, stored_name
from tahoe.protocol.configuration.features import setting, supports
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import (
    Action,
    Add,
    CheckpointMetadata,
    Remove,
    Sidecar,
    Txn,
    action_to_json,
    encode_commit,
)
from tahoe.protocol.log.last_checkpoint import LastCheckpoint, encode_last_checkpoint
from tahoe.protocol.log.log_files import Checkpoint, Kind, LogFile, Segment, parse_name
from tahoe.protocol.log.replay import FileKey, file_key
from tahoe.protocol.statistics.stats import statistics_columns
from tahoe.protocol.types.schema import DataType
from tahoe.storage.env import before_describing
from tahoe.table.arrow.chunks import one_array
from tahoe.table.arrow.compression import arrow_codec
from tahoe.table.arrow.parquet import IN_ONE_GO_ROWS_MAX
from tahoe.table.arrow.statistics import STATS_PARSED, parsed_statistics, texts_of_parsed
from tahoe.table.arrow.temporary import temporary_disk_named
from tahoe.table.arrow.types import arrow_type
from tahoe.table.commit.commit_events import told_checkpoint
from tahoe.table.commit.file_order import order_of, partition_fields
from tahoe.table.commit.kept_sidecars import KeptSidecars, kept_sidecars
from tahoe.table.log.checkpoint import TOMBSTONE, read_checkpoint, read_tombstones, tombstones
from tahoe.table.log.commit_fingerprint import TAG, encode_fingerprint, fingerprint_of
from tahoe.table.log.delta_log import Log
from tahoe.table.log.file_parts import COLUMNS, GONE, TEXT_MAP, MemoryPart
from tahoe.table.log.live_files import LiveFiles
from tahoe.table.log.superseded import Superseded
from tahoe.table.reading.scan import typed_partition_values
from tahoe.table.reading.snapshot import Snapshot, is_current

TopLevel: TypeAlias = Literal["json", "parquet"]

# Protocol: a sidecar is read whole, so its size should be bounded. Other writers use the same limit.
SIDECAR_FILES_MAX = 50_000

# Larger content is buffered in a temporary file before it is put.
_BUFFERED_BYTES_MAX = 16 << 20

_TEXTS = pa.list_(pa.string())
_SCHEMAS: Mapping[str, pa.DataType] = {
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", _TEXTS),
            ("writerFeatures", _TEXTS),
        ]
    ),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", TEXT_MAP)])),
            ("schemaString", pa.string()),
            ("partitionColumns", _TEXTS),
            ("createdTime", pa.int64()),
            ("configuration", TEXT_MAP),
        ]
    ),
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
    "checkpointMetadata": pa.struct([("version", pa.int64()), ("tags", TEXT_MAP)]),
    "sidecar": pa.struct(
        [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", TEXT_MAP)]
    ),
    "remove": TOMBSTONE,
}
_V1_ACTIONS = ("protocol", "metaData", "txn", "domainMetadata")
_V2_ACTIONS = (*_V1_ACTIONS, "checkpointMetadata", "sidecar")


def write_checkpoint(
    snapshot: Snapshot, *, top_level: TopLevel = "json", classic_name: bool = False, with_tombstones: bool = True
) -> Checkpoint:
    """Write the checkpoint of a version as `delta.checkpointPolicy` asks, and update the `_last_checkpoint` hint.

    Args:
        top_level: the format of the top-level file of a V2 checkpoint.
        classic_name: give a V2 checkpoint a classic name, so that readers that do not know V2 find the protocol in it.
        with_tombstones: False leaves out the tombstones, whose paths have partition values; a checkpoint of the same
            name is replaced. Precondition: no removed file is left for VACUUM.

    A V2 checkpoint refers to the sidecars of the version's present checkpoint that are as they would be written.

    Raises:
        DeltaLogError: the log has lost the commits that contain the recent removes.
        StorageUnavailableError, StorageRefusedError: nothing that a reader would take for a checkpoint was written.
    """
    try:
        return _Writer(snapshot, with_tombstones, keeps_sidecars=with_tombstones).write(top_level, classic_name)
    except (_BaseGoneError, CorruptCheckpointError, *GONE):  # the one before was deleted or replaced meanwhile
        return _Writer(snapshot, with_tombstones).write(top_level, classic_name)


class _BaseGoneError(Exception):
    """The checkpoint whose sidecars were kept was deleted meanwhile, and they may have been too."""


@dataclass(frozen=True)
class _Writer:
    snapshot: Snapshot
    with_tombstones: bool
    keeps_sidecars: bool = False
    begun: float = field(default_factory=now)

    def write(self, top_level: TopLevel, classic_name: bool) -> Checkpoint:
        snapshot = self.snapshot
        few: list[Action] = [snapshot.protocol, snapshot.metadata, *self._txns(), *snapshot.domains.values()]
        if not self._is_v2:
            key = f"{log_files.LOG_FOLDER}/{log_files.classic_checkpoint_name(snapshot.version)}"
            is_there = snapshot.log.env.store.head(key) is not None
            if is_there and self.with_tombstones and self._is_good(key):
                return self._checkpoint(key)
            size_bytes, files = self._put_parquet(
                key, _V1_ACTIONS, few, self._files(snapshot.live), if_absent=not is_there, tags=self._tags
            )
            return self._finish(key, len(few), files, size_bytes)
        sidecars, files = self._put_sidecars()
        top: list[Action] = [CheckpointMetadata(version=snapshot.version, tags=self._tags), *few, *sidecars]
        if classic_name:
            name = log_files.classic_checkpoint_name(snapshot.version)
        else:
            name = log_files.uuid_checkpoint_name(snapshot.version, snapshot.log.env.new_id(), top_level)
        key = f"{log_files.LOG_FOLDER}/{name}"
        if name.endswith(".json"):
            text = encode_commit(top)
            self._put(key, text)
            size_bytes = len(text)
        else:
            size_bytes, _ = self._put_parquet(
                key, _V2_ACTIONS, top, (), if_absent=classic_name and self.with_tombstones
            )
        return self._finish(key, len(top), files, size_bytes + sum(sidecar.size_bytes for sidecar in sidecars))

    @cached_property
    def _is_v2(self) -> bool:
        snapshot = self.snapshot
        return setting(properties.CHECKPOINT_POLICY, snapshot.protocol, snapshot.properties, table=snapshot.url) == "v2"

    def _finish(self, key: str, others: int, files: Counter[str], all_bytes: int) -> Checkpoint:
        """Update the hint, unless the log has a newer checkpoint or hint of another writer."""
        snapshot = self.snapshot
        known = snapshot.log.last_checkpoint()
        newer = any(file.is_checkpoint for file in snapshot.log.list_files(snapshot.version + 1))
        if not newer and (known is None or known.version <= snapshot.version):
            size = others + files.total()
            hint = LastCheckpoint(
                version=snapshot.version, size=size, size_bytes=all_bytes, num_of_add_files=files["add"]
            )
            self._put(log_files.LAST_CHECKPOINT, encode_last_checkpoint(hint))
        told_checkpoint(snapshot, self.begun, is_v2=self._is_v2, files=files["add"], size_bytes=all_bytes)
        return self._checkpoint(key)

    def _checkpoint(self, key: str) -> Checkpoint:
        file = parse_name(key.rpartition("/")[2])
        assert file is not None
        return Checkpoint(version=self.snapshot.version, files=(file,), commit=self.snapshot.commit)

    def _is_good(self, key: str) -> bool:
        """Whether a checkpoint is whole and that of this version. Readers may have it open, so it is rewritten only if
        it is not.
        """
        try:
            return bool(read_checkpoint(self.snapshot.log, self._checkpoint(key), whole=True)[0])
        except CorruptCheckpointError:
            return False

    @cached_property
    def _tags(self) -> dict[str, str]:
        """The fingerprint of the version's commit; nothing if metadata cleanup has deleted the commit."""
        snapshot = self.snapshot
        if snapshot.commit is None:
            return {}
        try:
            return {TAG: encode_fingerprint(fingerprint_of(snapshot.log, snapshot.commit))}
        except FileNotFoundError:
            raise self._gone() from None

    def _gone(self) -> MissingVersionError:
        detail = "the version no longer exists"
        return MissingVersionError(table=self.snapshot.url, version=self.snapshot.version, detail=detail)

    def _put(self, key: str, data: bytes | BinaryIO, *, if_absent: bool = False) -> None:
        """Put a file that readers look for. If the table was dropped or recreated meanwhile, the file is deleted again.
        With `if_absent` another writer's file stays, unless the content is too large for a conditional put.

        Raises:
            MissingVersionError: the version no longer exists.
        """
        snapshot, store, kept = self.snapshot, self.snapshot.log.env.store, self._kept
        before_describing(store, snapshot.version)
        commit = None if snapshot.commit is None else snapshot.log.commit_file(snapshot.version)
        if snapshot.commit is not None and (commit is None or not is_current(snapshot)):
            raise self._gone()
        if kept is not None and not kept.are_safe(store, key):  # to ask only afterwards is too late for one that dies
            raise _BaseGoneError
        is_elsewhere = False
        try:
            if if_absent and isinstance(data, bytes):
                store.put_if_absent(key, data)
            else:
                store.put(key, data)
        finally:  # after an error too: the file may have been written
            if commit is not None and (is_elsewhere := self._stands_elsewhere(commit)):
                self._take_away(key, data)
        if is_elsewhere:
            raise self._gone()
        if kept is not None and not kept.are_safe(store, key):
            self._take_away(key, data)
            raise _BaseGoneError

    def _take_away(self, key: str, data: bytes | BinaryIO) -> None:
        """Delete a file that was put, unless it is that of another writer."""
        store = self.snapshot.log.env.store
        with suppress(FileNotFoundError):
            if not isinstance(data, bytes) or store.get(key) == data:
                store.delete(key)

    def _stands_elsewhere(self, commit: LogFile) -> bool:
        """Whether the file was put into another table's log, or into the folder of a dropped table.

        If only older commits are gone, metadata cleanup deleted the version's commit, and the version may depend on
        this checkpoint.
        """
        log = self.snapshot.log
        found = log.commit_file(commit.version)
        if found is not None:
            return found.identity != commit.identity
        versions = [file.version for file in log.list_files() if file.kind is Kind.COMMIT]
        return max(versions, default=commit.version) < commit.version or self._has_lost_its_files()

    def _has_lost_its_files(self) -> bool:
        """Whether a data file of the snapshot is missing. Later commits are no proof that the table still exists: they
        may be late too.
        """
        try:
            path = self.snapshot.live.first_path()
        except MissingVersionError:  # its checkpoint is gone, too
            return True
        return path is not None and not self.snapshot.log.has_file(path)

    # --- content

    def _txns(self) -> list[Txn]:
        """The `txn` actions that `delta.setTransactionRetentionDuration` keeps."""
        retention = properties.TXN_RETENTION.get(self.snapshot.properties, table=self.snapshot.url)
        txns = list(self.snapshot.txns.values())
        if retention is None:
            return txns
        oldest = self.snapshot.log.env.clock_ms() - _ms(retention)
        return [txn for txn in txns if txn.last_updated_ms is None or txn.last_updated_ms > oldest]

    @cached_property
    def _kept(self) -> KeptSidecars | None:
        """What a V2 checkpoint keeps of the one before."""
        if not self.keeps_sidecars or not self._is_v2:
            return None
        return kept_sidecars(self.snapshot, self._schema(()), SIDECAR_FILES_MAX // 2)

    def _files(self, live: LiveFiles) -> Iterator[tuple[str, pa.StructArray]]:
        """Live files, in an order that serves queries, and the unexpired tombstones, in batches."""
        adds = (self._adds(batch) for batch in live.batches())
        order = order_of(
            replace(self.snapshot, live=live), self._statistics_columns if self._as_struct or self._as_json else {}
        )
        for batch in adds if order is None else order.ordered(adds):
            yield "add", batch
        if not self.with_tombstones:
            return
        retention = properties.DELETED_FILE_RETENTION.get(self.snapshot.properties, table=self.snapshot.url)
        for removes in unexpired_tombstones(self.snapshot, self.snapshot.log.env.clock_ms() - _ms(retention)):
            yield "remove", removes

    def _adds(self, batch: pa.Table) -> pa.StructArray:
        """Live files as checkpoint rows; `dataChange` is false."""
        columns = {column.field: batch[name] for name, column in COLUMNS.items()}
        if columns["partitionValues"].null_count:  # another writer's checkpoint of a table without partitions
            columns["partitionValues"] = pa.chunked_array(
                [pa.array([v or [] for v in columns["partitionValues"].to_pylist()], TEXT_MAP)]
            )
        columns["dataChange"] = pa.chunked_array([pa.nulls(len(batch), pa.bool_()).fill_null(False)])
        if STATS_PARSED in batch.column_names and columns["stats"].null_count:
            columns["stats"] = pc.coalesce(columns["stats"], texts_of_parsed(batch[STATS_PARSED], self._physical))
        if self._as_struct:
            columns[STATS_PARSED] = self._parsed(batch, columns["stats"])
            columns |= self._typed_partition(columns["partitionValues"])
        if not self._as_json:
            del columns["stats"]
        arrays = {field.name: one_array(columns[field.name]) for field in self._add_type}
        return pa.StructArray.from_arrays(list(arrays.values()), fields=list(self._add_type))

    def _parsed(self, batch: pa.Table, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        """Typed statistics: those of the previous checkpoint if they have the same columns and types, else from the
        texts.
        """
        if STATS_PARSED in batch.column_names:
            known = batch[STATS_PARSED]
            if known.type == self._add_type.field(STATS_PARSED).type and known.null_count == texts.null_count:
                return known
        return self._typed(texts)

    def _typed(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        with_variants = supports(self.snapshot.protocol, "variantShredding")
        return parsed_statistics(texts, self._statistics_columns, with_variants=with_variants)

    @cached_property
    def _as_json(self) -> bool:
        return bool(properties.WRITE_STATS_AS_JSON.get(self.snapshot.properties))

    @cached_property
    def _as_struct(self) -> bool:
        return bool(properties.WRITE_STATS_AS_STRUCT.get(self.snapshot.properties))

    @cached_property
    def _physical(self) -> Any:
        return physical_schema(self.snapshot.schema, self.snapshot.column_mapping_mode)

    @cached_property
    def _statistics_columns(self) -> dict[tuple[str, ...], DataType]:
        """The columns with statistics, by physical path."""
        snapshot = self.snapshot
        found = statistics_columns(
            snapshot.schema,
            snapshot.partition_columns,
            snapshot.properties,
            clustering=snapshot.clustering_columns,
            table=snapshot.url,
        )
        paths = (
            (physical_path(snapshot.schema, path, snapshot.column_mapping_mode), column.type) for path, column in found
        )
        return {path: kind for path, kind in paths if path is not None}

    def _typed_partition(self, texts: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
        snapshot = self.snapshot
        fields = partition_fields(snapshot)
        if not fields:
            return {}
        names = [stored_name(f, snapshot.column_mapping_mode) for f in fields]
        values = [
            one_array(typed_partition_values(texts, name, f.type, snapshot.log.zone))
            for name, f in zip(names, fields, strict=True)
        ]
        return {"partitionValues_parsed": pa.chunked_array([pa.StructArray.from_arrays(values, names=names)])}

    @cached_property
    def _add_type(self) -> pa.DataType:
        """The type of `add` in this checkpoint. It has statistics as JSON, as typed columns, or both. Partition values
        are texts, and beside typed statistics typed too.
        """
        fields = [pa.field("path", pa.string()), pa.field("partitionValues", TEXT_MAP), pa.field("size", pa.int64())]
        fields += [pa.field("modificationTime", pa.int64()), pa.field("dataChange", pa.bool_())]
        if self._as_json:
            fields.append(pa.field("stats", pa.string()))
        later = ("tags", "deletion_vector", "base_row_id", "default_row_commit_version", "clustering_provider")
        fields += [pa.field(COLUMNS[name].field, COLUMNS[name].type) for name in later]
        if self._as_struct:
            if self.snapshot.partition_columns:
                mode = self.snapshot.column_mapping_mode
                columns = partition_fields(self.snapshot)
                typed = pa.struct([(stored_name(f, mode), arrow_type(f.type)) for f in columns])
                fields.append(pa.field("partitionValues_parsed", typed))
            fields.append(pa.field(STATS_PARSED, self._typed(pa.chunked_array([], pa.string())).type))
        return pa.struct(fields)

    def _schema(self, names: Sequence[str]) -> pa.Schema:
        """The columns of a checkpoint file with these actions beside files."""
        return pa.schema(
            [*((name, _SCHEMAS[name]) for name in names), ("remove", _SCHEMAS["remove"]), ("add", self._add_type)]
        )

    # --- storage

    def _put_sidecars(self) -> tuple[list[Sidecar], Counter[str]]:
        """Put the files in sidecars of bounded size. Returns the sidecars and the number of adds and removes."""
        env, found, files, kept = self.snapshot.log.env, list[Sidecar](), Counter[str](), self._kept
        if kept is not None:
            found, files["add"] = list(kept.sidecars), kept.files
        for chunk in _bounded(self._files(self.snapshot.live if kept is None else kept.others), SIDECAR_FILES_MAX):
            name = f"{env.new_id()}.parquet"
            size_bytes, count = self._put_parquet(f"{log_files.SIDECAR_FOLDER}/{name}", (), (), chunk)
            found.append(Sidecar(path=name, size_bytes=size_bytes, modification_time_ms=env.clock_ms()))
            files += count
        return found, files

    @temporary_disk_named()
    def _put_parquet(
        self,
        key: str,
        names: Sequence[str],
        actions: Sequence[Action],
        files: Iterable[tuple[str, pa.StructArray]],
        *,
        if_absent: bool = False,
        tags: Mapping[str, str] | None = None,
    ) -> tuple[int, Counter[str]]:
        """Put a Parquet file with a column for each kind of action. Returns its size in bytes and the number of adds
        and removes in it.

        The columns of files are always present: the reference expects them even if all files are in sidecars.

        Args:
            tags: metadata in the footer.
        """
        schema = self._schema(names)
        codec = arrow_codec(self.snapshot.properties, table=self.snapshot.url)
        counts = Counter[str]()
        with tempfile.SpooledTemporaryFile(_BUFFERED_BYTES_MAX) as out:
            how = {
                "compression": codec,
                "use_dictionary": _REPEATED,
                "write_page_checksum": True,
                "store_schema": False,
            }
            with pq.ParquetWriter(out, schema, **how) as writer:
                for group in _row_groups(_tables(schema, actions, files, counts)):
                    writer.write_table(group)
                writer.add_key_value_metadata(tags or {})
            size_bytes = out.tell()
            out.seek(0)
            self._put(
                key, out.read() if size_bytes <= _BUFFERED_BYTES_MAX else cast(BinaryIO, out), if_absent=if_absent
            )
        return size_bytes, counts


def _tables(
    schema: pa.Schema, actions: Sequence[Action], files: Iterable[tuple[str, pa.StructArray]], counts: Counter[str]
) -> Iterator[pa.Table]:
    """The rows of a checkpoint file; adds and removes are counted."""
    if actions:
        yield pa.Table.from_pylist([_row(action) for action in actions], schema)
    for name, array in files:
        counts[name] += len(array)
        columns = [array if field.name == name else pa.nulls(len(array), field.type) for field in schema]
        yield pa.Table.from_arrays(columns, schema=schema)


def _row_groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Tables as row groups: a small checkpoint has one, because each takes kilobytes in the footer. Those of a large
    one stay apart.
    """
    small: list[pa.Table] = []
    for table in tables:
        small.append(table)
        if sum(part.num_rows for part in small) > IN_ONE_GO_ROWS_MAX:
            yield from small
            yield from tables
            return
    if small:
        yield pa.concat_tables(small)


# Columns with many repeated values. Paths and statistics hardly repeat.
_OF_PARTITIONS = [
    f"{action}.partitionValues.key_value.{part}" for action in ("add", "remove") for part in ("key", "value")
]
_REPEATED = [*_OF_PARTITIONS, "add.dataChange", "add.clusteringProvider"]


def _ms(duration: Any) -> int:
    return int(duration.total_seconds() * 1000)


def _row(action: Action) -> dict[str, Any]:
    """An action as Arrow expects it: maps are lists of pairs."""
    (name,), (body,) = zip(*action_to_json(action).items(), strict=True)
    if name == "metaData":
        body = {**body, "configuration": list(body["configuration"].items())}
        body["format"] = {**body["format"], "options": list(body["format"]["options"].items())}
    if "tags" in body:
        body = {**body, "tags": list(body["tags"].items())}
    return {name: body}


def _bounded(files: Iterator[tuple[str, pa.StructArray]], rows_max: int) -> Iterator[list[tuple[str, pa.StructArray]]]:
    """Group batches into chunks of at most `rows_max` rows."""
    chunk: list[tuple[str, pa.StructArray]] = []
    for name, array in files:
        if chunk and sum(len(a) for _, a in chunk) + len(array) > rows_max:
            yield chunk
            chunk = []
        chunk.append((name, array))
    if chunk:
        yield chunk


# --- tombstones


def unexpired_tombstones(
    snapshot: Snapshot, cutoff_ms: int, listed: Sequence[LogFile] | None = None, *, until: int | None = None
) -> Iterator[pa.StructArray]:
    """The tombstones, as `TOMBSTONE` structs, of files removed after the cutoff and not added again. VACUUM needs them.

    Args:
        listed: the whole log, if the caller has listed it.
        until: commits after this version are not read, for a caller who knows the files that they name.
    """
    log = snapshot.log
    checkpoint, commits = log.from_segment(
        snapshot.version, partial(_checkpoint_and_commits, log, until=until), listed=listed
    )
    later_keys: set[FileKey] = set()
    newer: list[Remove] = []
    for actions in reversed(commits):
        keyed_files = [(file_key(a, log.canonical), a) for a in actions if isinstance(a, Add | Remove)]
        newer.extend(
            a
            for key, a in keyed_files
            if isinstance(a, Remove) and (a.deletion_timestamp_ms or 0) > cutoff_ms and key not in later_keys
        )
        later_keys.update(key for key, _ in keyed_files)
    if newer:
        yield tombstones(newer)
    superseded = Superseded(later_keys, log.canonical)
    for batch in () if checkpoint is None else read_tombstones(log.env.store, checkpoint):
        for removes in _later(batch, cutoff_ms):
            columns = {
                "path": removes.field("path"),
                "deletion_vector": removes.field("deletionVector"),
                "remove": removes,
            }
            part = MemoryPart(pa.table(columns)).without(superseded)
            if part.num_rows:
                yield one_array(part.column("remove"))


def _checkpoint_and_commits(
    log: Log, segment: Segment, *, until: int | None = None
) -> tuple[Checkpoint | None, list[list[Action]]]:
    """The checkpoint of a version, which is verified to be readable, and the commits after it, oldest first; see
    `unexpired_tombstones`.
    """
    if segment.checkpoint is not None:
        read_checkpoint(log, segment.checkpoint)  # raises if it cannot be read
    deltas = [f for f in segment.deltas if until is None or f.version <= until or f.kind is Kind.COMPACTED]
    return segment.checkpoint, [log.read(file) for file in deltas]


def _later(removes: pa.StructArray, cutoff_ms: int) -> Iterator[pa.StructArray]:
    """The removes after the cutoff, if there are any. A remove without a time counts as expired."""
    kept = removes.filter(pc.greater(pc.fill_null(removes.field("deletionTimestamp"), 0), cutoff_ms))
    if len(kept):
        yield kept
