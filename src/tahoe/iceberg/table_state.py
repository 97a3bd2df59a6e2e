"""The metadata of an Iceberg table while it is converted: schemas, partitioning, snapshots and properties.

Iceberg's specification: "Table Metadata", "Snapshots". Names of properties are the reference's: `delta-version` and
`delta-timestamp`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import NAMESPACE_URL, UUID, uuid5

from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2, TableMetadataV3
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import MetadataLogEntry, Snapshot, SnapshotLogEntry, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from tahoe.iceberg.data_files import DataFiles, NewFile
from tahoe.iceberg.expiry import Expired, expired_snapshots
from tahoe.iceberg.file_changes import FileChanges
from tahoe.iceberg.manifest_files import ROW_LINEAGE_SINCE, field_of
from tahoe.iceberg.manifests import Counted, Manifests, NewSnapshot
from tahoe.iceberg.metadata_folder import DELTA_TIMESTAMP, DELTA_VERSION, VECTORS, Converted, MetadataFolder
from tahoe.iceberg.puffin import write_vectors
from tahoe.iceberg.schemas import (
    iceberg_schema,
    name_mapping,
    partition_spec,
    rounded_bounds,
    without_name_conflicts,
)
from tahoe.protocol.configuration.column_mapping import highest_id
from tahoe.protocol.configuration.row_tracking import DOMAIN, high_water_mark
from tahoe.protocol.configuration.universal_format import format_version
from tahoe.protocol.log.actions import Add, Remove
from tahoe.table.log.deletion_vectors import deleted_rows_of
from tahoe.table.reading.snapshot import Snapshot as DeltaSnapshot

_MAIN = "main"
_NAME_MAPPING = "schema.name-mapping.default"

# Of the properties of a Delta table, those with these prefixes are about Delta.
_OF_DELTA = ("delta.", "tahoe.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one version changed.

    Attributes:
        state: a snapshot with the version's protocol and metadata.
    """

    state: DeltaSnapshot
    version: int
    timestamp_ms: int
    adds: Sequence[Add]
    removes: Sequence[Remove]


@dataclass(slots=True)
class TableState:
    """The metadata of one table, which changes version by version until it is put.

    Attributes:
        sequence_number: that of the newest snapshot. With row lineage it is the version that the snapshot stands for,
            so that it tells the same of rows as row tracking, unless metadata of other versions was there before.
        next_row_id: larger than all row ids.
        added: the number of new snapshots.
    """

    folder: MetadataFolder
    known: Converted | None
    schemas: list[Schema]
    specs: list[PartitionSpec]
    snapshots: list[Snapshot]
    log: list[SnapshotLogEntry]
    manifests: Manifests
    sequence_number: int
    next_row_id: int = 0
    schema_id: int = 0
    spec_id: int = 0
    added: int = 0
    expired: Expired = field(default_factory=Expired)

    @classmethod
    def of(
        cls, folder: MetadataFolder, known: Converted | None, snapshot: DeltaSnapshot, *, lists_anew: bool = False
    ) -> TableState:
        """The state that the newest metadata file describes, or that of a new table.

        Args:
            snapshot: the version that decides about the version of the format.
            lists_anew: the manifests do not matter.

        Raises:
            FileNotFoundError: the list of its manifests is gone.
        """
        version = format_version(snapshot.protocol, snapshot.properties)
        if known is None:
            before_first = -1 if version >= ROW_LINEAGE_SINCE else 0
            return cls(folder, None, [], [], [], [], Manifests(folder, version, []), before_first)
        metadata = known.metadata
        numbers = {name: getattr(metadata, name, None) or 0 for name in ("last_sequence_number", "next_row_id")}
        return cls(
            folder,
            known,
            list(metadata.schemas),
            list(metadata.partition_specs),
            list(metadata.snapshots),
            list(metadata.snapshot_log),
            Manifests.of(folder, version, None if lists_anew else metadata.current_snapshot()),
            numbers["last_sequence_number"],
            numbers["next_row_id"],
            metadata.current_schema_id,
            metadata.default_spec_id,
        )

    @staticmethod
    def uuid_of(snapshot: DeltaSnapshot) -> UUID:
        """The table's id, or one that follows from it."""
        try:
            return UUID(snapshot.metadata.id)
        except ValueError:
            return uuid5(NAMESPACE_URL, snapshot.metadata.id)

    @staticmethod
    def timestamp_of(metadata: TableMetadata) -> int:
        told = metadata.properties.get(DELTA_TIMESTAMP, "")
        return int(told) if told.isdigit() else metadata.last_updated_ms

    # --- what versions change

    def apply(self, change: Change) -> None:
        """Take over what one version changed.

        Raises:
            LookupError: a file that it removes is not there, or the table is partitioned in another way.
        """
        partitioned = self._define(change.state)
        if partitioned:
            raise LookupError("the table is partitioned in another way")
        if not change.adds and not change.removes:
            return
        files = self._files(change.state)
        changes = FileChanges.of_version(files, change.version, change.adds, change.removes)
        self._snapshot(change.state.metadata.id, change.version, change.timestamp_ms, files, changes)

    def list_anew(self, snapshot: DeltaSnapshot) -> None:
        """Make a snapshot with all files of a version, instead of those that were there."""
        self._define(snapshot)
        files = self._files(snapshot)
        self.manifests.live = []
        changes = FileChanges.of_all(files, list(snapshot.full_scan.adds()), is_anew=bool(self.snapshots))
        self._snapshot(snapshot.metadata.id, snapshot.version, snapshot.timestamp_ms, files, changes, is_anew=True)

    def _define(self, state: DeltaSnapshot) -> bool:
        """Take over schema and partitioning. Returns whether these partition existing files in another way."""
        schema = iceberg_schema(state.schema, 0, version=self.manifests.version, table=state.url)
        same = next((s for s in self.schemas if s.as_struct() == schema.as_struct()), None)
        if same is None:
            number = max((s.schema_id for s in self.schemas), default=-1) + 1
            same = iceberg_schema(state.schema, number, version=self.manifests.version, table=state.url)
            self.schemas.append(same)
        self.schema_id = same.schema_id
        now = next((spec for spec in self.specs if spec.spec_id == self.spec_id), None)
        number = max((spec.spec_id for spec in self.specs), default=-1) + 1
        spec = partition_spec(state, number, now, self._last_partition_id + 1)
        if spec is now:
            return False
        self.specs.append(spec)
        self.spec_id = spec.spec_id
        return now is not None

    @property
    def _last_partition_id(self) -> int:
        used = [field.field_id for spec in self.specs for field in spec.fields]
        last: int = max([PARTITION_FIELD_ID_START - 1, *used])
        return last

    @property
    def _schema(self) -> Schema:
        return next(schema for schema in self.schemas if schema.schema_id == self.schema_id)

    @property
    def _spec(self) -> PartitionSpec:
        return next(spec for spec in self.specs if spec.spec_id == self.spec_id)

    def _files(self, state: DeltaSnapshot) -> DataFiles:
        return DataFiles(state, self._schema, self.manifests.version)

    def _snapshot(
        self,
        table_id: str,
        version: int,
        timestamp_ms: int,
        files: DataFiles,
        changes: FileChanges,
        *,
        is_anew: bool = False,
    ) -> None:
        """Add a snapshot of a version."""
        parent = self.snapshots[-1] if self.snapshots else None
        number = self._new_id(table_id, version)
        first_row_id = self._number(version, changes.added)
        named = NewSnapshot(
            id=number,
            parent_id=None if parent is None else parent.snapshot_id,
            sequence_number=self.sequence_number,
            first_row_id=first_row_id,
        )
        vectors = self._vectors(files, changes.marked)
        location, counted = self.manifests.change(named, changes, vectors, self._spec, self._schema)
        previous = None if parent is None or is_anew else parent.summary
        told = {DELTA_VERSION: str(version), DELTA_TIMESTAMP: str(timestamp_ms)}
        snapshot = Snapshot(
            snapshot_id=number,
            parent_snapshot_id=named.parent_id,
            sequence_number=self.sequence_number,
            timestamp_ms=max(timestamp_ms, 0 if parent is None else parent.timestamp_ms),
            manifest_list=location,
            summary=Summary(changes.operation, **_summary(counted, previous), **told),
            schema_id=self.schema_id,
            first_row_id=first_row_id,
            added_rows=None if first_row_id is None else self.next_row_id - first_row_id,
        )
        self.snapshots.append(snapshot)
        self.log.append(SnapshotLogEntry(snapshot_id=number, timestamp_ms=snapshot.timestamp_ms))
        self.added += 1

    def _vectors(self, files: DataFiles, marked: Sequence[Add]) -> list[DataFile]:
        """The deletion vectors of files, in a new file that all of them share."""
        if not marked:
            return []
        output = self.folder.output(VECTORS)
        self.manifests.written.append(output)
        rows = zip(marked, deleted_rows_of(self.folder.log, marked), strict=True)
        return write_vectors(output, ((files.path(add.path), files.partition(add), each) for add, each in rows))

    def _number(self, version: int, added: Sequence[NewFile]) -> int | None:
        """Go on to the sequence number and row ids of a snapshot. Returns the first row id that it could assign."""
        self.sequence_number += 1
        if self.manifests.version < ROW_LINEAGE_SINCE:
            return None
        first = self.next_row_id
        written = (file.sequence_number for file in added)
        self.sequence_number = max(self.sequence_number, version, *(n for n in written if n is not None))
        for file in added:
            self.next_row_id = max(self.next_row_id, field_of(file.file, "first_row_id") + file.file.record_count)
        return first

    def _new_id(self, table_id: str, version: int) -> int:
        """The id of the snapshot of a version: the same for all converters, if it is not taken."""
        known = {snapshot.snapshot_id for snapshot in self.snapshots}
        for attempt in range(len(known) + 1):
            digest = hashlib.blake2b(f"{table_id} {version} {attempt}".encode(), digest_size=8).digest()
            number = int.from_bytes(digest, "big") >> 1
            if number not in known:
                return number
        raise AssertionError("as many ids are taken as there are")

    # --- the result

    def agrees_with(self, snapshot: DeltaSnapshot) -> bool:
        """Whether the newest snapshot has as many files, bytes and deletion vectors as a version."""
        if not self.snapshots:
            return False
        summary = self.snapshots[-1].summary
        told = {} if summary is None else summary.additional_properties
        totals = (told.get(name) for name in ("total-data-files", "total-files-size", "total-delete-files"))
        live = snapshot.live
        return tuple(totals) == tuple(map(str, (len(live), live.size_bytes, len(live.vectors))))

    def put(self, snapshot: DeltaSnapshot, *, replaces: bool) -> bool:
        """Put the metadata of a version, and delete what no snapshot within the retention needs. False if another
        converter has put that of this version.
        """
        self.folder.put(self.manifests.written)
        self.expired = expired_snapshots(self.folder, self.snapshots, snapshot)
        if not self.folder.put_metadata(snapshot.version, self._metadata(snapshot), replaces=replaces):
            return False
        self.expired.delete(self.folder)
        return True

    def discard(self) -> None:
        """Delete the files of a state that was not put."""
        self.folder.delete([self.folder.key(output.location) for output in self.manifests.written])

    def _metadata(self, snapshot: DeltaSnapshot) -> TableMetadata:
        kept = [s for s in self.snapshots if s.snapshot_id not in self.expired.ids]
        newest = kept[-1]
        timestamp_ms = snapshot.timestamp_ms
        described: type[TableMetadataV2 | TableMetadataV3] = TableMetadataV2
        numbers = {"last_sequence_number": self.sequence_number}
        if self.manifests.version >= ROW_LINEAGE_SINCE:
            described = TableMetadataV3
            numbers["next_row_id"] = max(self.next_row_id, high_water_mark(snapshot.domains.get(DOMAIN)) + 1)
        return described(
            location=self.folder.location,
            table_uuid=self.uuid_of(snapshot),
            last_updated_ms=max(timestamp_ms, newest.timestamp_ms),
            last_column_id=max(
                highest_id(snapshot.properties, table=snapshot.url), *(s.highest_field_id for s in self.schemas)
            ),
            schemas=self.schemas,
            current_schema_id=self.schema_id,
            partition_specs=[without_name_conflicts(spec, self._schema) for spec in self.specs],
            default_spec_id=self.spec_id,
            last_partition_id=self._last_partition_id,
            properties=self._properties(snapshot),
            current_snapshot_id=newest.snapshot_id,
            snapshots=kept,
            snapshot_log=[entry for entry in self.log if entry.snapshot_id not in self.expired.ids],
            metadata_log=self._metadata_log(),
            sort_orders=[UNSORTED_SORT_ORDER],
            default_sort_order_id=UNSORTED_SORT_ORDER.order_id,
            refs={_MAIN: SnapshotRef(snapshot_id=newest.snapshot_id, snapshot_ref_type=SnapshotRefType.BRANCH)},
            **numbers,
        )

    def _metadata_log(self) -> list[MetadataLogEntry]:
        if self.known is None:
            return []
        before = self.known.metadata
        entry = MetadataLogEntry(metadata_file=self.folder.url(self.known.key), timestamp_ms=before.last_updated_ms)
        known = [*before.metadata_log, entry]
        return [entry for entry in known if self.folder.key(entry.metadata_file) not in self.expired.metadata]

    def _properties(self, snapshot: DeltaSnapshot) -> dict[str, str]:
        own = {name: value for name, value in snapshot.properties.items() if not name.lower().startswith(_OF_DELTA)}
        return {
            **own,
            **rounded_bounds(snapshot.schema),
            _NAME_MAPPING: name_mapping(snapshot.schema).model_dump_json(),
            DELTA_VERSION: str(snapshot.version),
            DELTA_TIMESTAMP: str(snapshot.timestamp_ms),
        }


def _summary(counted: Counted, before: Summary | None) -> dict[str, str]:
    """The counts of a snapshot, and its totals. Sizes are those of data files."""
    told = {} if before is None else before.additional_properties
    new, gone, marked, unmarked = counted.added, counted.removed, counted.marked, counted.unmarked
    counts = {
        "added-data-files": new.files,
        "added-records": new.rows,
        "added-files-size": new.size_bytes,
        "deleted-data-files": gone.files,
        "deleted-records": gone.rows,
        "removed-files-size": gone.size_bytes,
        **dict.fromkeys(("added-dvs", "added-delete-files"), marked.files),
        "added-position-deletes": marked.rows,
        **dict.fromkeys(("removed-dvs", "removed-delete-files"), unmarked.files),
        "removed-position-deletes": unmarked.rows,
    }
    changed = {
        "total-data-files": new.files - gone.files,
        "total-records": new.rows - gone.rows,
        "total-files-size": new.size_bytes - gone.size_bytes,
        "total-delete-files": marked.files - unmarked.files,
        "total-position-deletes": marked.rows - unmarked.rows,
        "total-equality-deletes": 0,
    }
    totals = {name: int(told.get(name, "0")) + more for name, more in changed.items()}
    return {name: str(count) for name, count in {**{n: c for n, c in counts.items() if c}, **totals}.items()}
