"""Manifests: which data files each snapshot of an Iceberg table has.

Iceberg's specification: "Manifests", "Manifest Lists". A commit writes one manifest for the files that it adds, and
writes those again that list files which it removes; it takes over all others. Small manifests are merged when they are
many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from io import BytesIO

from pyiceberg.manifest import (
    UNASSIGNED_SEQ,
    DataFile,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import DoubleType

from tahoe.iceberg.data_files import NewFile
from tahoe.iceberg.manifest_files import (
    FormatVersion,
    Input,
    assign,
    read_entries,
    read_list,
    write_list,
    write_manifest,
)
from tahoe.iceberg.metadata_folder import MetadataFolder, Output

# From so many manifests on, those below the size are merged up to it. Iceberg's defaults are 100 and 8 MiB; but a
# manifest is written again when one of its files is removed, and PyIceberg writes some 2,000 files a second.
_MERGED_MIN = 100
_MERGED_BYTES = 512 << 10

# The files of a manifest, if many are added at once.
_FILES_PER_MANIFEST = 1000


@dataclass(slots=True)
class Counts:
    """What a snapshot added and removed, for its summary."""

    files: int = 0
    rows: int = 0
    size_bytes: int = 0

    def take(self, file: DataFile) -> None:
        self.files += 1
        self.rows += file.record_count
        self.size_bytes += file.file_size_in_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSnapshot:
    """What a snapshot that is being made is told of in its files.

    Attributes:
        first_row_id: no row that it adds has a smaller one; None in version 2 of the format.
    """

    id: int
    parent_id: int | None
    sequence_number: int
    first_row_id: int | None


@dataclass(slots=True)
class Manifests:
    """The manifests of the snapshot that is being made, and the files that were written for it.

    Attributes:
        live: of the newest snapshot.
        written: files that are not yet in the storage.
    """

    folder: MetadataFolder
    version: FormatVersion
    live: list[ManifestFile]
    written: list[Output] = field(default_factory=list)

    @classmethod
    def of(cls, folder: MetadataFolder, version: FormatVersion, snapshot: Snapshot | None) -> Manifests:
        return cls(folder, version, [] if snapshot is None else manifests_of(folder, snapshot))

    def change(
        self, new: NewSnapshot, added: Sequence[NewFile], removed: Iterable[str], spec: PartitionSpec, schema: Schema
    ) -> tuple[str, Counts, Counts]:
        """Make the manifest list of a new snapshot.

        Args:
            removed: the locations of the files that it no longer has.

        Returns:
            the location of the list, and what was added and removed.

        Raises:
            LookupError: a removed file is in no manifest.
        """
        writer = _Writer(self, new.id, spec, schema)
        gone, counts = set(removed), Counts()
        kept = writer.without(self.live, gone, counts)
        if gone:
            raise LookupError(f"{len(gone)} removed files are in no manifest, such as {min(gone)}")
        written = [
            writer.added(added[start : start + _FILES_PER_MANIFEST])
            for start in range(0, len(added), _FILES_PER_MANIFEST)
        ]
        self.live = writer.merged([*written, *kept])
        location = self._list(new)
        taken = Counts()
        for file in added:
            taken.take(file.file)
        return location, taken, counts

    def _list(self, new: NewSnapshot) -> str:
        output = self.folder.output(f"snap-{new.id}")
        for manifest in self.live:
            assign(manifest, new.sequence_number, new.first_row_id)
        told = {
            "snapshot-id": new.id,
            "parent-snapshot-id": new.parent_id,
            "sequence-number": new.sequence_number,
            **({} if new.first_row_id is None else {"first-row-id": new.first_row_id}),
        }
        write_list(self.version, output, self.live, told)
        self.written.append(output)
        return output.location

    def input(self, location: str) -> Input:
        """A manifest, also one that is not yet in the storage."""
        written = next((file for file in self.written if file.location == location), None)
        return self.folder.input(self.folder.key(location)) if written is None else _Written(written)


def manifests_of(folder: MetadataFolder, snapshot: Snapshot) -> list[ManifestFile]:
    """The manifests of a snapshot that list files which it has."""
    return [m for m in read_list(folder.input(folder.key(snapshot.manifest_list))) if _has_files(m)]


def _has_files(manifest: ManifestFile) -> bool:
    return bool((manifest.added_files_count or 0) + (manifest.existing_files_count or 0))


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes the manifests of one snapshot."""

    manifests: Manifests
    snapshot_id: int
    spec: PartitionSpec
    schema: Schema

    @property
    def _loses_partitions(self) -> bool:
        """Whether partitions of a manifest must not be written again: PyIceberg's compiled decoder cuts doubles."""
        fields = self.spec.partition_type(self.schema).fields
        return any(isinstance(field.field_type, DoubleType) for field in fields)

    def added(self, files: Sequence[NewFile]) -> ManifestFile:
        return self._written(
            [
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=self.snapshot_id,
                    sequence_number=file.sequence_number,
                    file_sequence_number=None,
                    data_file=file.file,
                )
                for file in files
            ]
        )

    def without(self, manifests: Sequence[ManifestFile], gone: set[str], counts: Counts) -> list[ManifestFile]:
        """The manifests without some files, which are taken out of `gone` and counted."""
        kept: list[ManifestFile] = []
        for manifest in manifests:
            if not gone:
                kept.append(manifest)
                continue
            entries = self._entries(manifest)
            hit = {entry.data_file.file_path for entry in entries} & gone
            if not hit:
                kept.append(manifest)
                continue
            for entry in entries:
                is_gone = entry.data_file.file_path in hit
                entry.status = ManifestEntryStatus.DELETED if is_gone else ManifestEntryStatus.EXISTING
                if is_gone:
                    entry.snapshot_id = self.snapshot_id
                    counts.take(entry.data_file)
            gone -= hit
            kept.append(self._written(entries))
        return kept

    def merged(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """The manifests, with small ones merged if they are many. Those with removed files stay for this snapshot."""
        small = [m for m in manifests if m.manifest_length < _MERGED_BYTES and not m.deleted_files_count]
        if len(small) < _MERGED_MIN or self._loses_partitions:
            return manifests
        bins: list[list[ManifestFile]] = [[]]
        for manifest in small:
            if sum(m.manifest_length for m in bins[-1]) >= _MERGED_BYTES:
                bins.append([])
            bins[-1].append(manifest)
        merged = {id(manifest) for manifest in small}
        return [*map(self._joined, bins), *(m for m in manifests if id(m) not in merged)]

    def _joined(self, manifests: Sequence[ManifestFile]) -> ManifestFile:
        """One manifest instead of several."""
        entries = [entry for manifest in manifests for entry in self._entries(manifest)]
        for entry in entries:
            if entry.snapshot_id != self.snapshot_id:
                entry.status = ManifestEntryStatus.EXISTING
            else:  # readers give it the number of this snapshot
                entry.file_sequence_number = None
                if entry.sequence_number == UNASSIGNED_SEQ:
                    entry.sequence_number = None
        return self._written(entries)

    def _entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """The files that a manifest lists as there, also of one that is not yet in the storage.

        Raises: LookupError: their partitions would not be read as they are.
        """
        if self._loses_partitions:
            raise LookupError("PyIceberg reads partition values of type double as floats")
        return read_entries(manifest, self.manifests.input(manifest.manifest_path))

    def _written(self, entries: Sequence[ManifestEntry]) -> ManifestFile:
        output = self.manifests.folder.output("m0")
        listed = write_manifest(
            self.manifests.version,
            output,
            entries,
            spec=self.spec,
            schema=self.schema,
            snapshot_id=self.snapshot_id,
        )
        self.manifests.written.append(output)
        return listed


@dataclass(frozen=True, slots=True)
class _Written:
    file: Output

    def open(self, seekable: bool = True) -> object:  # noqa: ARG002  PyIceberg's signature
        return BytesIO(self.file.content)
