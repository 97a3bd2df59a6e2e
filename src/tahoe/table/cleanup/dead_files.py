"""Which files and folders of a listing VACUUM deletes: a pure function of the listing, the protected files, and the
cutoff.

The names of hidden files and folders are those of the reference. Works on columns, because a table may have millions of
files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.log.log_files import LOG_FOLDER
from tahoe.protocol.types.json_text import is_text
from tahoe.storage.env import Tree, deepest_first
from tahoe.table.arrow.chunks import is_in
from tahoe.table.arrow.spool import Pages
from tahoe.table.arrow.temporary import temporary_disk_named
from tahoe.table.cleanup.named_files import Keys
from tahoe.table.cleanup.text_hashes import HashedTexts

FILES = pa.schema([("key", pa.string()), ("size_bytes", pa.int64()), ("modified_ms", pa.int64())])

# Folders of the table that begin like hidden ones, but contain files of versions.
_NEVER_HIDDEN = frozenset({"_change_data", "_delta_index"})

# Of a longer listing, the rest waits in a temporary file.
_MEMORY_BYTES = 16 << 20

# The number of keys in one array, whose texts must stay below 2 GiB.
_CHUNK_KEYS = 1_000_000

# Hadoop keeps the checksum of a local file beside it.
_CHECKSUM = r"(^|/)\.([^/]+)\.crc$"


class Listing:
    """What is in a table's folder, in a temporary file if that is much.

    Attributes:
        folders: modification times by key.
        files_in: the folders of the files.
    """

    def __init__(self) -> None:
        self.folders: dict[str, int] = {}
        self.files_in: set[str] = set()
        self._files = Pages(_MEMORY_BYTES)

    @temporary_disk_named()
    def add(self, files: pa.Table) -> None:
        """Add files: the columns `FILES`."""
        self._files.add(files)
        self.files_in.update(_distinct_folders(files["key"]))

    def pieces(self) -> Iterator[pa.Table]:
        """The files, in pieces of bounded size."""
        yield FILES.empty_table()
        yield from self._files


def listing_of(trees: Iterable[Tree]) -> Listing:
    """The listing of a store, which comes in pieces."""
    listing = Listing()
    for tree in trees:
        listing.folders.update(zip(tree.folders, tree.folders_modified_ms, strict=True))
        if tree.keys:
            listing.add(_files_of(tree))
    return listing


def _files_of(tree: Tree) -> pa.Table:
    """The files of a tree. A name that is not valid text is left out: no action can name such a file, and nobody knows
    whose it is.
    """
    keys, sizes, times = tree.keys, pa.array(tree.sizes_bytes, pa.int64()), pa.array(tree.modified_ms, pa.int64())
    legal = [is_text(key) for key in keys]
    if not all(legal):
        keys = [key for key, is_legal in zip(keys, legal, strict=True) if is_legal]
        sizes, times = sizes.filter(pa.array(legal)), times.filter(pa.array(legal))
    chunks = [pa.array(keys[start : start + _CHUNK_KEYS], pa.string()) for start in range(0, len(keys), _CHUNK_KEYS)]
    columns = [pa.chunked_array(chunks, pa.string()), pa.chunked_array([sizes]), pa.chunked_array([times])]
    return pa.table(columns, schema=FILES)


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumScope:
    """The part of a table's folder that VACUUM may touch.

    Hidden are names that begin with `_` or `.`, except change data, indexes, and folders of partition columns; and
    folders that are, or belong to, a table of their own.

    Attributes:
        partition_columns: logical and physical names.
        hidden_names: further hidden names.
        tables: folders with a `_delta_log` of their own.
    """

    partition_columns: frozenset[str] = frozenset()
    hidden_names: frozenset[str] = frozenset()
    tables: frozenset[str] = frozenset()
    _included_folders: dict[str, bool] = field(
        init=False, default_factory=lambda: {"": True}, repr=False, compare=False
    )

    def includes(self, folder: str) -> bool:
        """Whether a folder belongs to the scope."""
        found = self._included_folders.get(folder)
        if found is None:
            above, _, name = folder.rpartition("/")
            found = self._included_folders[folder] = (
                self.includes(above) and folder not in self.tables and not self._is_hidden(name)
            )
        return found

    def _is_hidden(self, name: str) -> bool:
        if name in self.hidden_names:
            return True
        column, equals, _ = name.partition("=")
        return (
            name.startswith(("_", "."))
            and name not in _NEVER_HIDDEN
            and not (equals and column in self.partition_columns)
        )

    def includes_files(self, keys: pa.ChunkedArray) -> pa.ChunkedArray:
        """For each file, whether it belongs to the scope."""
        chunks = []
        for folders in _folders(keys).chunks:
            encoded = folders.dictionary_encode()
            is_included = pa.array([self.includes(folder) for folder in encoded.dictionary.to_pylist()], pa.bool_())
            chunks.append(is_included.take(encoded.indices))
        in_included_folder = pa.chunked_array(chunks, pa.bool_())
        return pc.and_not(in_included_folder, pc.match_substring_regex(keys, r"(^|/)[_.][^/]*$"))


def nested_tables(listing: Listing) -> frozenset[str]:
    """The folders of a listing that have a `_delta_log` of their own, without the table's own folder."""
    inside = f"/{LOG_FOLDER}"
    folders = {*listing.folders, *listing.files_in}
    return frozenset(
        folder[: folder.index(f"{inside}/")] for folder in (f"{f}/" for f in folders) if f"{inside}/" in folder
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadFiles:
    """What VACUUM deletes.

    Attributes:
        files: the columns `FILES`.
        checksums: Hadoop's checksums of these files, and of files that are gone.
        folders: the folders that are empty, or will be, deepest first.
        folders_seen: the number of folders that were considered, with the table's own.
    """

    files: pa.Table
    checksums: list[str]
    folders: list[str]
    folders_seen: int


def dead_files(listing: Listing, protected: Keys, scope: VacuumScope, cutoff_ms: int) -> DeadFiles:
    """The files of the scope that are older than the cutoff and not protected, and the folders that they leave
    empty.

    A folder that was empty before is deleted only if it is older than the cutoff: a writer may have just made it.
    """
    dead, found, occupied = list[pa.Table](), list[pa.Table](), set[str]()
    for piece in listing.pieces():
        keys, is_old = piece["key"], pc.less(piece["modified_ms"], cutoff_ms)
        is_dead = pc.and_not(pc.and_(is_old, scope.includes_files(keys)), protected.has(keys))
        is_checksum = pc.match_substring_regex(keys, _CHECKSUM)
        dead.append(piece.filter(is_dead))
        found.append(pa.table({"key": keys, "is_old": is_old}).filter(is_checksum))
        occupied.update(_distinct_folders(keys.filter(pc.invert(pc.or_(is_dead, is_checksum)))))
    files = pa.concat_tables(dead)
    checksums, left = _checksums(listing, pa.concat_tables(found), files["key"], scope)
    occupied.update(_distinct_folders(left))
    emptied = {above for folder in _distinct_folders(files["key"]) for above in _with_parents(folder)}
    folders = _removable(listing.folders, occupied, emptied, scope, cutoff_ms)
    seen = {above for folder in listing.files_in for above in _with_parents(folder)} | set(listing.folders)
    return DeadFiles(
        files=files, checksums=checksums, folders=folders, folders_seen=1 + sum(map(scope.includes, seen - {""}))
    )


def _checksums(
    listing: Listing, checksums: pa.Table, dead: pa.ChunkedArray, scope: VacuumScope
) -> tuple[list[str], pa.ChunkedArray]:
    """Which of Hadoop's checksum files to delete: those of dead files, and old ones whose file is gone; and the
    others.
    """
    keys = checksums["key"]
    if not len(keys):
        return [], keys
    checked_keys = pc.replace_substring_regex(keys, _CHECKSUM, r"\1\2")
    is_left = HashedTexts(piece["key"] for piece in listing.pieces()).has(checked_keys)
    is_orphan = pc.and_not(checksums["is_old"], is_left)
    is_in_scope = pa.array([scope.includes(folder) for folder in _folders(keys).to_pylist()], pa.bool_())
    is_deletable = pc.and_(pc.or_(is_orphan, is_in(checked_keys, dead)), is_in_scope)
    return keys.filter(is_deletable).to_pylist(), keys.filter(pc.invert(is_deletable))


def _removable(
    folders: dict[str, int], occupied: set[str], emptied: set[str], scope: VacuumScope, cutoff_ms: int
) -> list[str]:
    """The folders without anything that stays.

    Args:
        occupied: the folders of the files that stay.
        emptied: the folders of the files that are deleted, and those above them.
    """
    kept, found = set(occupied), []
    for folder in deepest_first(folders):
        is_free = folder in emptied or folders[folder] < cutoff_ms
        if folder not in kept and is_free and scope.includes(folder):
            found.append(folder)
        else:
            kept.add(folder.rpartition("/")[0])
    return found


def folders_above(keys: Iterable[str], scope: VacuumScope) -> list[str]:
    """The folders of the scope that contain these files, deepest first."""
    folders = {key.rpartition("/")[0] for key in keys}
    return deepest_first({above for folder in folders for above in _with_parents(folder) if scope.includes(above)})


def _with_parents(folder: str) -> Iterable[str]:
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def _folders(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.replace_substring_regex(keys, r"/?[^/]*$", "")


def _distinct_folders(keys: pa.ChunkedArray) -> list[str]:
    found: list[str] = _folders(keys).unique().to_pylist()
    return found
