"""Which snapshots of an Iceberg table are past the retention of the Delta table's log, and which files go with them.

A manifest that an expired snapshot has, and the oldest kept one has not, is in no later snapshot either: manifests are
taken over or replaced, never brought back. So are the files of deletion vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from tahoe.iceberg.manifest_files import read_entries, read_list
from tahoe.iceberg.metadata_folder import MetadataFolder
from tahoe.protocol.configuration.properties import LOG_RETENTION
from tahoe.storage.threads import in_threads
from tahoe.table.reading.snapshot_state import SnapshotState

# So many old metadata files are kept, for readers that have just found one. They are most of the bytes: each has all
# snapshots.
_METADATA_KEPT = 20

# Snapshots expire by so many at least, because each expiry reads their lists.
_SNAPSHOTS_MIN = 10


@dataclass(frozen=True, slots=True)
class Expired:
    """What can go.

    Attributes:
        ids: of snapshots.
        metadata: the keys of metadata files.
        lists: the manifest lists of the snapshots, and that of the oldest one that stays.
    """

    ids: frozenset[int] = frozenset()
    metadata: frozenset[str] = frozenset()
    lists: tuple[str, ...] = ()
    kept_list: str | None = None

    def delete(self, folder: MetadataFolder) -> None:
        """Delete the files, once the metadata without them is there."""
        gone = set(self.metadata)
        if self.kept_list is not None:
            kept, old = _manifests(folder, self.kept_list), dict[str, ManifestFile]()
            for location in self.lists:
                old |= _manifests(folder, location)
                gone.add(folder.key(location))
            left = {key: manifest for key, manifest in old.items() if key not in kept}
            gone |= left.keys()
            if vectors := vector_files(folder, left.values()):
                gone |= vectors - vector_files(folder, kept.values())
        if gone:
            folder.delete(sorted(gone))


def needed_files(folder: MetadataFolder) -> set[str]:
    """The keys of the lists, manifests and files of deletion vectors that the snapshots of the newest metadata have.

    Raises:
        FileNotFoundError: one of them is gone, so that it is unknown what the others are.
    """
    newest = folder.newest()
    lists = [] if newest is None else [folder.key(each.manifest_list) for each in newest.metadata.snapshots]
    manifests: dict[str, ManifestFile] = {}
    for found in in_threads(lambda key: read_list(folder.input(key)), lists):
        manifests |= {folder.key(manifest.manifest_path): manifest for manifest in found}
    return {*lists, *manifests, *vector_files(folder, manifests.values())}


def _manifests(folder: MetadataFolder, location: str) -> dict[str, ManifestFile]:
    """The manifests of a list, by their keys."""
    try:
        return {folder.key(m.manifest_path): m for m in read_list(folder.input(folder.key(location)))}
    except FileNotFoundError:  # an earlier expiry was interrupted
        return {}


def vector_files(folder: MetadataFolder, manifests: Iterable[ManifestFile]) -> set[str]:
    """The keys of the files with the deletion vectors that some manifests list."""
    found: set[str] = set()
    for manifest in manifests:
        if manifest.content == ManifestContent.DELETES:
            with suppress(FileNotFoundError):
                entries = read_entries(manifest, folder.input(folder.key(manifest.manifest_path)))
                found |= {folder.key(entry.data_file.file_path) for entry in entries}
    return found


def expired_snapshots(folder: MetadataFolder, snapshots: Sequence[Snapshot], state: SnapshotState) -> Expired:
    """What is past `delta.logRetentionDuration`. The newest snapshot always stays."""
    retention = LOG_RETENTION.get(state.properties, table=state.url)
    cutoff_ms = state.log.env.clock_ms() - int(retention.total_seconds() * 1000)
    old = 0
    while old < len(snapshots) - 1 and snapshots[old + 1].timestamp_ms < cutoff_ms:
        old += 1  # it was replaced before the cutoff
    metadata = frozenset(folder.metadata_keys(state.version - _METADATA_KEPT))
    if old < _SNAPSHOTS_MIN:
        return Expired(metadata=metadata)
    return Expired(
        ids=frozenset(snapshot.snapshot_id for snapshot in snapshots[:old]),
        metadata=metadata,
        lists=tuple(snapshot.manifest_list for snapshot in snapshots[:old]),
        kept_list=snapshots[old].manifest_list,
    )
