"""The entries of a clone's files, and the copies of a deep clone.

Protocol: "Add File and Remove File", "Deletion Vector Descriptor Schema". A shallow clone names files of the source by
absolute paths. A deep clone has copies, whose names follow from the files that they are copies of: so an attempt that
goes on after another one, and a later clone of the same source, know which copies are there.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from tahoe._progress import showing
from tahoe.errors import DataFileMissingError, FilesChangedError
from tahoe.protocol.log.actions import Add, DeletionVectorDescriptor
from tahoe.protocol.log.deletion_vector import ABSOLUTE, INLINE, RELATIVE, vector_file_path, vector_location, z85_encode
from tahoe.protocol.log.file_paths import encode_path, encode_url, is_canonical, resolve_path
from tahoe.storage.env import FileInfo
from tahoe.storage.threads import in_threads
from tahoe.table.adoption.adopt import entries_at
from tahoe.table.adoption.foreign_sources import NO_VERSION
from tahoe.table.cleanup.named_files import key_texts, named_by_live
from tahoe.table.log.vacuum_starts import vacuum_cutoff_ms
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.versions.table_reader import TableReader

# An older copy of an interrupted attempt is made again, because VACUUM may be about to delete it.
_COPY_AGE_MS_MAX = 24 * 3_600_000

# The names of copies, after their folder.
_COPY = re.compile(r"clone-[0-9a-f]{32}(?:-.*)?", re.DOTALL)
_VECTOR = re.compile(r"deletion_vector_[0-9a-f-]{36}\.bin")

# Longer names are left out: file systems allow 255 bytes.
_NAME_BYTES_MAX = 200


class CloneFiles(ABC):
    """The files of a clone of a version."""

    def __init__(self, source: Snapshot) -> None:
        self._source = source

    def adds(self) -> list[Add]:
        """The entries of the clone's files, without row ids."""
        every = np.arange(len(self._source.live))
        return [self._entry(add) for add in entries_at(self._source, every)]

    def _entry(self, add: Add) -> Add:
        vector = add.deletion_vector
        return add.replace(
            path=self._path(add),
            deletion_vector=vector if vector is None or vector.storage_type == INLINE else self._vector(vector),
            base_row_id=None,
            default_row_commit_version=None,
            data_change=True,
        )

    @abstractmethod
    def _path(self, add: Add) -> str:
        """The path of a file in the clone's log."""

    @abstractmethod
    def _vector(self, vector: DeletionVectorDescriptor) -> DeletionVectorDescriptor:
        """A stored deletion vector in the clone's log."""

    def _vector_url(self, vector: DeletionVectorDescriptor) -> str:
        location = vector_location(vector, self._source.url)
        assert location is not None  # it is not inline
        return location[0]

    def is_left_over(self, key: str) -> bool:  # noqa: ARG002  a shallow clone makes no files
        """Whether a file may be of an interrupted clone."""
        return False

    def copy(self, added: Sequence[Add], newest: Snapshot | None) -> list[Add]:  # noqa: ARG002  a shallow clone copies nothing
        """Make the files of entries that are not there yet. Returns the entries whose data files were copied.

        Args:
            newest: the newest version of the target, whose files are there.
        """
        return []


class ShallowFiles(CloneFiles):
    """The source's own files, by absolute paths."""

    def __init__(self, source: Snapshot) -> None:
        super().__init__(source)
        self._home = encode_url(source.url)

    def _path(self, add: Add) -> str:
        if is_canonical(add.path):
            return f"{self._home}/{add.path}"
        return encode_url(resolve_path(add.path, self._source.url))

    def _vector(self, vector: DeletionVectorDescriptor) -> DeletionVectorDescriptor:
        return vector.replace(storage_type=ABSOLUTE, path_or_inline=encode_url(self._vector_url(vector)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """A file to copy: its url, the key of the copy, and its size if that is known."""

    url: str
    key: str
    size_bytes: int | None
    add: Add | None


class DeepFiles(CloneFiles):
    """Copies of the source's files, in the folder of the target."""

    def __init__(self, source: Snapshot, target: TableReader, progress: Callable[[int, int], None] | None) -> None:
        super().__init__(source)
        self._target, self._progress = target, progress
        self._origins: dict[str, str] = {}
        self._made: set[str] = set()
        self._made_at: int | None = None

    def _path(self, add: Add) -> str:
        url = resolve_path(add.path, self._source.url)
        key = self._key(url, f"{url}\0{add.size_bytes}\0{add.modification_time_ms}")
        self._origins[key] = url
        return encode_path(key)

    def _key(self, url: str, identity: str) -> str:
        """The key of a copy: in the same folder as in the source, with a name that no other file has."""
        folder, _, name = url.removeprefix(self._source.url + "/").rpartition("/")
        start = f"{folder}/" if url.startswith(self._source.url + "/") and folder else ""
        digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        ending = f"-{name}" if len(name.encode("utf-8", "surrogatepass")) <= _NAME_BYTES_MAX else ""
        return f"{start}clone-{digest}{ending}"

    def _vector(self, vector: DeletionVectorDescriptor) -> DeletionVectorDescriptor:
        url = self._vector_url(vector)
        name = UUID(bytes=hashlib.sha256(url.encode("utf-8", "surrogatepass")).digest()[:16]).bytes
        self._origins[vector_file_path("", name)] = url
        return vector.replace(storage_type=RELATIVE, path_or_inline=z85_encode(name))

    def is_left_over(self, key: str) -> bool:
        name = key.rpartition("/")[2]
        return _COPY.fullmatch(name) is not None or _VECTOR.fullmatch(name) is not None

    def copy(self, added: Sequence[Add], newest: Snapshot | None) -> list[Add]:
        """Copy files, several at once, except those that this or a recent attempt has copied.

        Raises:
            DataFileMissingError: a file of the source is gone.
            FilesChangedError: a file outside of a Delta table was replaced.
            DeltaStorageError: a file cannot be copied. The copies that were made stay, for another attempt.
        """
        is_vacuumed, self._made_at = self._is_vacuumed(newest), None if newest is None else newest.version
        if is_vacuumed:
            self._made.clear()
        existing_keys = self._made | _keys(newest)
        copies = [copy for copy in self._copies(added) if copy.key not in existing_keys]
        if not copies:
            return []
        earlier_sizes = {} if is_vacuumed else self._recent_copies()
        missing = [
            copy
            for copy in copies
            if copy.key not in earlier_sizes or copy.size_bytes not in (None, earlier_sizes[copy.key])
        ]
        self._made.update(copy.key for copy in copies if copy.key in earlier_sizes)
        with showing("CLONE", user_function=self._progress) as show_progress:
            for done, copy in enumerate(in_threads(self._copied, missing), start=1):
                self._made.add(copy.key)
                show_progress(done, len(missing))
        return [copy.add for copy in missing if copy.add is not None]

    def _is_vacuumed(self, newest: Snapshot | None) -> bool:
        """Whether a VACUUM of the target has begun since the last attempt: it may be deleting the copies."""
        if newest is None or self._made_at is None:
            return False
        return vacuum_cutoff_ms(newest.log, self._made_at, newest.version) is not None

    def _copies(self, added: Iterable[Add]) -> list[_Copy]:
        found: dict[str, _Copy] = {}
        home = self._target.url
        for add in added:
            key = resolve_path(add.path, home).removeprefix(home + "/")
            found[key] = _Copy(url=self._origins[key], key=key, size_bytes=add.size_bytes, add=add)
            location = None if add.deletion_vector is None else vector_location(add.deletion_vector, home)
            if location is not None:
                stored = location[0].removeprefix(home + "/")
                found[stored] = _Copy(url=self._origins[stored], key=stored, size_bytes=None, add=None)
        return list(found.values())

    def _recent_copies(self) -> dict[str, int]:
        """The sizes of the files in the target's folder that are young enough."""
        tree, since_ms = self._target.env.store.tree(), self._target.env.clock_ms() - _COPY_AGE_MS_MAX
        found = zip(tree.keys, tree.sizes_bytes, tree.modified_ms, strict=True)
        return {key: size for key, size, modified_ms in found if modified_ms >= since_ms and self.is_left_over(key)}

    def _copied(self, copy: _Copy) -> _Copy:
        store, key = self._source.log.locate(copy.url)
        try:
            self._target.env.store.copy_from(store, key, copy.key)
        except FileNotFoundError as error:
            file = copy.url if copy.add is None else copy.url.removeprefix(self._source.url + "/")
            raise DataFileMissingError.of(table=self._source.url, file=file, version=self._source.version) from error
        if copy.add is not None and self._source.version == NO_VERSION:
            self._check_unchanged(copy, copy.add, store.head(key))
        return copy

    def _check_unchanged(self, copy: _Copy, entry: Add, now: FileInfo | None) -> None:
        """Refuse a copy of a file that is not the one that was examined: outside of a Delta table files may be
        replaced.
        """
        # some storages tell milliseconds only in listings
        if now is None or (now.size_bytes, now.modified_ms // 1000) != (
            entry.size_bytes,
            entry.modification_time_ms // 1000,
        ):
            self._target.env.discard([copy.key])
            raise FilesChangedError(table=self._source.url, file=copy.url)


def _keys(snapshot: Snapshot | None) -> set[str]:
    """The keys of a version's data files and deletion vectors, as far as they are in the table's folder."""
    if snapshot is None or not len(snapshot.live):
        return set()
    found = key_texts(named_by_live(snapshot.live), snapshot.url, names=set())
    return {key for keys in found for key in keys.to_pylist()}
