"""Searches every file below a table's folder for values that were erased: the proof at the end of an erasure.

Parquet files are read with all of their rows, whatever deletion vectors say, and with the whole dictionaries of their
columns; their footers are searched as bytes. All other files are searched as bytes, and all names as text. A value is
looked for as it is, and as JSON and folder names escape it. Of a long value, the log's statistics have only the
beginning, so only the beginning is looked for.
"""

from __future__ import annotations

import json
import string
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tahoe._cached import cached_property
from tahoe.errors import DeltaError
from tahoe.protocol.log.file_paths import encode_path
from tahoe.protocol.types.names import visible
from tahoe.protocol.types.partitions import ascii_folder, partition_folder
from tahoe.storage.env import Store
from tahoe.storage.threads import CORES, in_threads
from tahoe.table.arrow.parquet import UNREADABLE

# Writers cut texts to so many characters in statistics.
BEGINNING_CHARACTERS = 32

# Shorter values are found by chance in compressed data.
_RAW_BYTES_MIN = 8

_BLOCK_BYTES = 32 << 20
_MAGIC = b"PAR1"
_FOOTER_END = struct.Struct("<I4s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A place in which an erased value still is.

    Attributes:
        file: the file's key, or that of a folder.
        place: `name of the file`, `name of the folder`, `bytes`, `footer`, or a column of a Parquet file as `column
            a.b`.
        value_of: the column that the value was in, or `search` for a value that was given.
    """

    file: str
    place: str
    value_of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What a search of all files has read, and what it found.

    Attributes:
        files, size_bytes: how many files were read, and their size.
        unread: why files could not be read, by key.
    """

    files: int = 0
    size_bytes: int = 0
    traces: tuple[Trace, ...] = ()
    unread: Mapping[str, str]


def search_folder(store: Store, values: Mapping[str, str]) -> Search:
    """Search all names, of empty folders too, and all bytes below a folder.

    Args:
        values: to look for; each with the column that it was in.
    """
    tree, needles = store.tree(), Needles(values)
    traces: list[Trace] = []
    unread: dict[str, str] = {}
    named = {folder.rpartition("/")[2] for folder in tree.folders}
    if needles.within(name for text in named for name in _names(text)):
        for folder in sorted(tree.folders):
            origins = sorted(needles.within(_names(folder.rpartition("/")[2])))
            traces += [Trace(file=visible(folder), place="name of the folder", value_of=origin) for origin in origins]
    for key, found in in_threads(lambda key: (key, _search_file(store, key, needles)), tree.keys, CORES):
        if isinstance(found, str):
            unread[key] = found
        else:
            traces += [Trace(file=visible(key), place=place, value_of=origin) for place, origin in sorted(found)]
    return Search(files=len(tree.keys), size_bytes=sum(tree.sizes_bytes), traces=tuple(traces), unread=unread)


def _search_file(store: Store, key: str, needles: Needles) -> set[tuple[str, str]] | str:
    """The places of a file in which values are, with the columns of the values; or why it could not be read."""
    try:
        traces = {("name of the file", origin) for origin in needles.within(_names(key))}
        if not key.endswith(".parquet"):
            return traces | {("bytes", origin) for origin in _in_bytes(store, key, needles)}
        traces |= {("bytes", origin) for origin in _in_bytes(store, key, needles.long)}
        traces |= {("footer", origin) for origin in needles.within([_footer(store, key)])}
        return traces | {(place, origin) for place, texts in _columns(store, key) for origin in needles.within(texts)}
    except FileNotFoundError:
        return set()  # another program has deleted it
    except (DeltaError, *UNREADABLE) as error:
        return str(error)


def _names(key: str) -> list[bytes]:
    return [key.encode("utf-8", "surrogateescape")]


# --- what is looked for


class Needles:
    """Values to look for.

    Args:
        values: each with its origin.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._origins: dict[bytes, str] = {}
        for value, origin in values.items():
            for form in _forms(value[:BEGINNING_CHARACTERS]):
                self._origins.setdefault(form, origin)

    @cached_property
    def long(self) -> Needles:
        """Those that are not found by chance in compressed data."""
        found = Needles({})
        found._origins = {form: origin for form, origin in self._origins.items() if len(form) >= _RAW_BYTES_MIN}
        return found

    @cached_property
    def _pattern(self) -> str:
        return "|".join(map(_escaped, self._origins))

    @property
    def bytes_max(self) -> int:
        return max(map(len, self._origins), default=0)

    def within(self, texts: pa.Array | Iterable[bytes]) -> set[str]:
        """The origins of the values that texts contain."""
        if not self._origins:
            return set()
        array = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_binary())
        hits = array.filter(pc.match_substring_regex(array, self._pattern))
        return {origin for form, origin in self._origins.items() if pc.any(pc.match_substring(hits, form)).as_py()}


def _forms(text: str) -> set[bytes]:
    """A text as it is, as in JSON, as in JSON inside of JSON, and as in the name of a folder and in its path in the
    log.
    """
    forms = {text, quote(text, safe=" "), quote(text), quote(quote(text))}
    for folder in (folders([""], {"": text}).removeprefix("=") for folders in (partition_folder, ascii_folder)):
        forms |= {folder, encode_path(folder)}
    for is_ascii in (False, True):
        once = json.dumps(text, ensure_ascii=is_ascii)[1:-1]
        forms |= {once, json.dumps(once, ensure_ascii=is_ascii)[1:-1]}
    return {form.encode("utf-8", "surrogatepass") for form in forms}


_PLAIN = frozenset((string.ascii_letters + string.digits).encode())


def _escaped(form: bytes) -> str:
    """A regular expression for some bytes."""
    return "".join(chr(byte) if byte in _PLAIN else rf"\x{byte:02x}" for byte in form)


# --- what is searched


def _in_bytes(store: Store, key: str, needles: Needles) -> set[str]:
    """The origins of the values that the bytes of a file contain, read in blocks that overlap."""
    origins: set[str] = set()
    tail = b""
    with store.open(key) as content:
        while block := content.read(_BLOCK_BYTES):
            origins |= needles.within([tail + block])
            tail = block[-needles.bytes_max :] if needles.bytes_max else b""
    return origins


def _footer(store: Store, key: str) -> bytes:
    """The footer of a Parquet file: its schema, metadata and statistics."""
    info = store.head(key)
    if info is None:
        raise FileNotFoundError(key)
    start = max(info.size_bytes - _FOOTER_END.size, 0)
    end = store.get_range(key, start, _FOOTER_END.size)
    if len(end) < _FOOTER_END.size or not end.endswith(_MAGIC):
        raise pa.ArrowInvalid("it is not a Parquet file, or it is encrypted")
    length, _ = _FOOTER_END.unpack(end)
    return store.get_range(key, max(start - length, 0), length)


def _columns(store: Store, key: str) -> Iterator[tuple[str, pa.Array]]:
    """Pairs of a place in a Parquet file (`column a.b`) and the distinct texts or bytes there, a row group of a column
    at a time. Includes values of its dictionary that no row has.
    """
    with store.open(key) as content, pq.ParquetFile(content, arrow_extensions_enabled=False) as parquet:
        leaves = [parquet.schema.column(place) for place in range(len(parquet.schema))]
        paths = [
            leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and leaf.converted_type != "DECIMAL"
        ]
        metadata = parquet.metadata
    for path in paths:
        for group in range(metadata.num_row_groups):
            for array in _distinct_texts(_read(store, key, path, group, metadata)):
                yield f"column {path}", array


def _read(store: Store, key: str, path: str, group: int, metadata: pq.FileMetaData) -> pa.ChunkedArray:
    """A column of a row group, as a dictionary if its encodings allow it."""
    for dictionary in ([path], []):
        with (
            store.open(key) as content,
            pq.ParquetFile(content, metadata=metadata, read_dictionary=dictionary) as parquet,
        ):
            try:
                return parquet.read_row_group(group, columns=[path], use_threads=False).column(0)
            except (
                NotImplementedError,
                OSError,
            ):  # Arrow raises either for an encoding that cannot be read as a dictionary
                if not dictionary:
                    raise
    raise AssertionError(path)


def _distinct_texts(array: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array]:
    """The distinct texts and bytes of an array, whatever it is nested in."""
    if isinstance(array, pa.ChunkedArray):
        for chunk in array.chunks:
            yield from _distinct_texts(chunk)
        return
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        yield from _distinct_texts(array.storage)
    elif pa.types.is_dictionary(kind):
        yield from _distinct_texts(array.dictionary)
    elif pa.types.is_struct(kind):
        for place in range(kind.num_fields):
            yield from _distinct_texts(array.field(place))
    elif pa.types.is_map(kind):
        yield from _distinct_texts(array.keys)
        yield from _distinct_texts(array.items)
    elif pa.types.is_nested(kind):
        yield from _distinct_texts(array.values)
    elif is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        yield pc.unique(array.cast(pa.large_binary()))


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def texts_in(array: pa.ChunkedArray | pa.Array) -> Iterator[pa.Array]:
    """The distinct texts of a column, whatever they are nested in."""
    yield from (leaf for leaf in _distinct_texts(array) if len(leaf))


def has_text(kind: pa.DataType) -> bool:
    """Whether a column has texts."""
    return is_text(kind) or any(has_text(kind.field(place).type) for place in range(kind.num_fields))
