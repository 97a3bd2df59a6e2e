"""Manifests: which data files and deletion vectors each snapshot of an Iceberg table has.

Iceberg's specification: "Manifests", "Manifest Lists". A commit writes one manifest for the files that it adds, and
writes those again that list files which it removes; it takes over all others. Small manifests are merged when they are
many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO

from pyiceberg.manifest import (
    UNASSIGNED_SEQ,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import DoubleType

from tahoe.iceberg.data_files import NewFile
from tahoe.iceberg.file_changes import FileChanges
from tahoe.iceberg.manifest_files import (
    FormatVersion,
    Input,
    assign,
    field_of,
    read_entries,
    read_list,
    write_list,
    write_manifest,
)
from tahoe.iceberg.metadata_folder import LIST, MANIFEST, MetadataFolder, Output

# From so many manifests on, those with fewer files are merged up to that. Iceberg's defaults are 100 and 8 MiB; but a
# manifest is written again when one of its files is removed, and PyIceberg writes some 2,000 files a second.
_MERGED_MIN = 100
_MERGED_FILES = 2500

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


@dataclass(frozen=True, slots=True)
class Counted:
    """What a snapshot changed: data files, and deletion vectors with the rows that they delete."""

    added: Counts = field(default_factory=Counts)
    removed: Counts = field(default_factory=Counts)
    marked: Counts = field(default_factory=Counts)
    unmarked: Counts = field(default_factory=Counts)


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
        self, new: NewSnapshot, changes: FileChanges, vectors: Sequence[DataFile], spec: PartitionSpec, schema: Schema
    ) -> tuple[str, Counted]:
        """Make the manifest list of a new snapshot.

        Args:
            vectors: the new deletion vectors.

        Returns:
            the location of the list, and what was changed.

        Raises:
            LookupError: a removed file or vector is in no manifest, or rows are there again that a vector deletes which
                is in one file with those of other data files: some readers apply all vectors of such a file.
        """
        writer, counted = _Writer(self, new.id, spec, schema), Counted()
        data, deletes = ManifestContent.DATA, ManifestContent.DELETES
        kept = writer.without(self._of(data), set(changes.removed), counted.removed)
        kept_vectors = writer.without(self._of(deletes), set(changes.unmarked), counted.unmarked)
        if changes.returns and any(map(_has_files, kept_vectors)):
            raise LookupError("rows are there again that deletion vectors have deleted")
        written = writer.added(changes.added, data, counted.added)
        written_vectors = writer.added(list(map(NewFile, vectors)), deletes, counted.marked)
        self.live = [*writer.merged([*written, *kept]), *writer.merged([*written_vectors, *kept_vectors])]
        return self._list(new), counted

    def _of(self, content: ManifestContent) -> list[ManifestFile]:
        """Those of the snapshot before; manifests that only tell what it removed are not taken over."""
        return [manifest for manifest in self.live if manifest.content == content and _has_files(manifest)]

    def _list(self, new: NewSnapshot) -> str:
        output = self.folder.output(LIST.format(new.id))
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
    return _files_of(manifest) > 0


def _files_of(manifest: ManifestFile) -> int:
    """How many files, or deletion vectors, a manifest lists as there."""
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def _location(entry: ManifestEntry) -> str:
    """The location of a data file, also of that which a deletion vector is for."""
    referenced: str | None = field_of(entry.data_file, "referenced_data_file")
    return entry.data_file.file_path if referenced is None else referenced


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

    def added(self, files: Sequence[NewFile], content: ManifestContent, counts: Counts) -> list[ManifestFile]:
        """Manifests of new files, which are counted."""
        entries = [
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=self.snapshot_id,
                sequence_number=file.sequence_number,
                file_sequence_number=None,
                data_file=file.file,
            )
            for file in files
        ]
        for file in files:
            counts.take(file.file)
        starts = range(0, len(entries), _FILES_PER_MANIFEST)
        return [self._written(entries[start : start + _FILES_PER_MANIFEST], content) for start in starts]

    def without(self, manifests: Sequence[ManifestFile], gone: set[str], counts: Counts) -> list[ManifestFile]:
        """The manifests without some data files, or without the vectors of these, which are counted.

        Args:
            gone: the locations of the data files.

        Raises:
            LookupError: some of them are in no manifest.
        """
        kept: list[ManifestFile] = []
        for manifest in manifests:
            if not gone:
                kept.append(manifest)
                continue
            entries = self._entries(manifest)
            hit = {_location(entry) for entry in entries} & gone
            if not hit:
                kept.append(manifest)
                continue
            for entry in entries:
                is_gone = _location(entry) in hit
                entry.status = ManifestEntryStatus.DELETED if is_gone else ManifestEntryStatus.EXISTING
                if is_gone:
                    entry.snapshot_id = self.snapshot_id
                    counts.take(entry.data_file)
            gone -= hit
            kept.append(self._written(entries, manifest.content))
        if gone:
            raise LookupError(f"{len(gone)} files are in no manifest, such as {min(gone)}")
        return kept

    def merged(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """The manifests, with small ones merged if they are many. Those with removed files stay for this snapshot."""
        small = [m for m in manifests if _files_of(m) < _MERGED_FILES and not m.deleted_files_count]
        if len(small) < _MERGED_MIN or self._loses_partitions:
            return manifests
        bins: list[list[ManifestFile]] = [[]]
        for manifest in small:
            if sum(map(_files_of, bins[-1])) >= _MERGED_FILES:
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
        return self._written(entries, manifests[0].content)

    def _entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """The files that a manifest lists as there, also of one that is not yet in the storage.

        Raises: LookupError: their partitions would not be read as they are.
        """
        if self._loses_partitions:
            raise LookupError("PyIceberg reads partition values of type double as floats")
        return read_entries(manifest, self.manifests.input(manifest.manifest_path))

    def _written(self, entries: Sequence[ManifestEntry], content: ManifestContent) -> ManifestFile:
        output = self.manifests.folder.output(MANIFEST)
        listed = write_manifest(
            self.manifests.version,
            output,
            entries,
            content=content,
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
