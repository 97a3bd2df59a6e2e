"""The files that actions of the log name, by their keys in the table's folder.

Protocol: "Add File and Remove File", "Add CDC File", "Deletion Vectors". A file in the folder can be named in several
ways: relative to the table or absolutely, with escapes or, by early writers, without, and by another url of the same
folder. VACUUM must recognise all of them. Works on columns, because a table may have millions of files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from unicodedata import normalize

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.log.actions import Action, Add, Cdc, DeletionVectorDescriptor, Remove
from tahoe.protocol.log.deletion_vector import ABSOLUTE, INLINE, vector_location
from tahoe.protocol.log.file_paths import canonical_key
from tahoe.protocol.types.json_text import is_text
from tahoe.storage.locations import split_url
from tahoe.storage.schemes import LOCAL_SCHEME
from tahoe.table.arrow.chunks import is_in, text_bytes
from tahoe.table.cleanup.text_hashes import HashedTexts
from tahoe.table.log.file_parts import are_ambiguous
from tahoe.table.log.live_files import LiveFiles

_ASCII_MAX = 0x7F


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFiles:
    """What some actions name.

    Attributes:
        paths: of data files and change files, as the log spells them.
        vectors: stored deletion vectors: the storage type, followed by the path or the encoded id. Inline vectors are
            left out.
    """

    paths: pa.ChunkedArray
    vectors: pa.ChunkedArray


def named_by_live(live: LiveFiles) -> Iterator[NamedFiles]:
    """What the live files of a version name, piece by piece."""
    return live.in_pieces(lambda part: NamedFiles(paths=part.column("path"), vectors=_stored_vectors(part.vectors())))


def named_by_tombstones(removes: pa.StructArray) -> NamedFiles:
    """What `TOMBSTONE` structs name."""
    return NamedFiles(
        paths=pa.chunked_array([removes.field("path")]),
        vectors=_stored_vectors(pa.chunked_array([removes.field("deletionVector")])),
    )


def named_by_actions(actions: Iterable[Action]) -> NamedFiles:
    """What the adds, removes and change files of commits name. Names that are not valid text name no file that can be
    read.
    """
    files = [action for action in actions if isinstance(action, (Add, Remove, Cdc)) and is_text(action.path)]
    vectors = [
        file.deletion_vector for file in files if isinstance(file, (Add, Remove)) and file.deletion_vector is not None
    ]
    stored = [
        vector_text(vector) for vector in vectors if vector.storage_type != INLINE and is_text(vector.path_or_inline)
    ]
    return NamedFiles(
        paths=pa.chunked_array([pa.array([file.path for file in files], pa.string())]),
        vectors=pa.chunked_array([pa.array(stored, pa.string())]),
    )


def vector_text(vector: DeletionVectorDescriptor) -> str:
    """A stored vector as in `NamedFiles.vectors`."""
    return vector.storage_type + vector.path_or_inline


def _stored_vectors(vectors: pa.ChunkedArray) -> pa.ChunkedArray:
    present = vectors.drop_null()
    kinds = pc.struct_field(present, "storageType")
    texts = pc.binary_join_element_wise(kinds, pc.struct_field(present, "pathOrInlineDv"), "")
    return texts.filter(pc.not_equal(kinds, INLINE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Files of the table's folder.

    Attributes:
        keys: sets of their keys; without case if that is ignored.
        names: the names, without folders, of files that absolute paths place outside the table's folder. A symbolic
            link, a mount or another scheme may give the folder several urls, so any file of such a name may be the one
            that is meant.
        ignore_case: whether the storage may list a file under a name that differs in upper and lower case, or in the
            composition of letters with accents. On macOS the partitions `p=A` and `p=a` are one folder, which is listed
            under the name that it got first.
    """

    keys: tuple[HashedTexts, ...]
    names: frozenset[str]
    ignore_case: bool = False

    def has(self, keys: pa.ChunkedArray) -> pa.ChunkedArray:
        """For each key, whether it may be one of these files. Rarely another key has the hash of one of them: its file
        stays, too.
        """
        compared = _without_case(keys) if self.ignore_case else keys
        is_named = reduce(pc.or_, (known.has(compared) for known in self.keys))
        if self.names:
            names = pa.chunked_array([pa.array(sorted(self.names), pa.string())])
            names = _without_case(names) if self.ignore_case else names
            is_named = pc.or_(is_named, is_in(pc.replace_substring_regex(compared, r"(?s)^.*/", ""), names))
        return is_named


def _without_case(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([_chunk_without_case(chunk) for chunk in keys.chunks], pa.string())


def _chunk_without_case(keys: pa.StringArray) -> pa.StringArray:
    _, data = text_bytes(keys)
    if not len(data) or data.max() <= _ASCII_MAX:
        return pc.ascii_lower(keys)
    return pa.array([normalize("NFC", normalize("NFD", key).casefold()) for key in keys.to_pylist()], pa.string())


def with_keys(known: Keys, keys: pa.ChunkedArray) -> Keys:
    """These files and others, by their keys."""
    return replace(known, keys=(*known.keys, HashedTexts([_without_case(keys) if known.ignore_case else keys])))


def keys_of(named: Iterable[NamedFiles], table_url: str) -> Keys:
    """The keys of files that actions name, in every spelling that may be meant.

    Raises:
        DeletionVectorError: a descriptor is invalid, so that it is unknown which file it names.
    """
    names: set[str] = set()
    ignore_case = split_url(table_url)[0] == LOCAL_SCHEME
    keys = (_without_case(some) if ignore_case else some for some in key_texts(named, table_url, names))
    return Keys(keys=(HashedTexts(keys),), names=frozenset(filter(is_text, names)), ignore_case=ignore_case)


def key_texts(named: Iterable[NamedFiles], table_url: str, names: set[str]) -> Iterator[pa.ChunkedArray]:
    """The keys of files in the table's folder that actions name, some of them perhaps more than once.

    Args:
        names: takes the names of other files; see `Keys`.
    """
    resolved: set[str] = set()
    for files in named:
        is_ambiguous = are_ambiguous(files.paths)
        yield files.paths.filter(pc.invert(is_ambiguous))
        for path in files.paths.filter(is_ambiguous).to_pylist():
            _resolve(path, table_url, resolved, names)
        for vector in files.vectors.unique().to_pylist():
            if vector[0] == ABSOLUTE:
                _resolve(vector[1:], table_url, resolved, names)
            else:
                resolved.add(vector_key(vector, table_url))
    yield pa.chunked_array([pa.array(sorted(filter(is_text, resolved)), pa.string())])


def vector_key(vector: str, table_url: str) -> str:
    """The key of a vector that is stored relative to the table.

    Raises:
        DeletionVectorError: the descriptor is invalid.
    """
    location = vector_location(
        DeletionVectorDescriptor(storage_type=vector[0], path_or_inline=vector[1:], size_bytes=0, cardinality=0),
        table_url,
    )
    assert location is not None
    return location[0].removeprefix(f"{table_url}/")


def _resolve(path: str, table_url: str, keys: set[str], names: set[str]) -> None:
    """Add the key of a path, and the key that it would have if its writer had not escaped it."""
    for spelling in (path, path.replace("%", "%25")):
        key = canonical_key(spelling, table_url)
        if "://" in key:
            names.add(key.rpartition("/")[2])
        else:
            keys.add(key)
