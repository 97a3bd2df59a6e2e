"""Which files of a folder CONVERT TO DELTA makes a table of: those of a listing, of a catalog's partitions, or of a
stream's log.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tahoe.errors import InvalidDataFileError, UnsupportedOperationError
from tahoe.protocol.log.file_paths import canonical_key
from tahoe.protocol.log.log_files import LOG_FOLDER
from tahoe.protocol.types.json_text import is_text
from tahoe.protocol.types.partition_folders import Partition, is_hidden
from tahoe.storage.env import Store, Tree

# The log of a streaming query that writes Parquet files. Only files that it names belong to the query's result.
SINK_LOG = "_spark_metadata"
_COMPACT = ".compact"

# Folders of other table formats: their files are not simply the rows of the table.
_OTHER_FORMATS = {".hoodie": "Hudi"}


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A data file that is there already.

    Attributes:
        partition: from a catalog; None if the names of its folders tell.
    """

    key: str
    size_bytes: int
    modified_ms: int
    partition: Partition | None = None

    @property
    def folder(self) -> str:
        return self.key.rpartition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogPartition:
    """A partition as a catalog has it, with the url of its folder."""

    url: str
    partition: Partition


def source_files(
    store: Store, *, uses_sink_log: bool, partitions: Sequence[CatalogPartition] | None
) -> list[SourceFile]:
    """The files in the order of their keys.

    Args:
        partitions: of a catalog: only files directly in their folders belong to the table.

    Raises:
        UnsupportedOperationError: the folder contains a table of another kind, or a file or partition is outside of it.
        InvalidDataFileError: the stream's log is incomplete, or names a file that is gone.
    """
    tree = store.tree()
    _check_contents(tree, store.url)
    files_by_key = {
        key: SourceFile(key, size, modified)
        for key, size, modified in zip(tree.keys, tree.sizes_bytes, tree.modified_ms, strict=True)
        if not key.endswith("/")  # how some object stores show folders
    }
    if uses_sink_log and any(key.startswith(SINK_LOG + "/") for key in files_by_key):
        files = _in_sink_log(store, files_by_key)
    elif partitions is not None:
        files = _in_partitions(files_by_key.values(), partitions, store.url)
    else:
        files = [file for key, file in files_by_key.items() if not is_hidden(key)]
    unspeakable = next((file.key for file in files if not is_text(file.key)), None)
    if unspeakable is not None:
        raise _refusal(
            store.url,
            f"the name of the file {unspeakable!r} is not UTF-8, so no log can contain it",
            "Rename the file.",
        )
    return sorted(files, key=lambda file: file.key)


def _check_contents(tree: Tree, url: str) -> None:
    """Refuse folders in which a file is not simply a part of the table."""
    for key in tree.keys:
        *folders, file = key.split("/")
        if folders[-1:] == ["metadata"] and file.endswith(".metadata.json"):
            _refuse_table("/".join(folders[:-1]), "Iceberg", url)
        for place, name in enumerate(folders):
            kind = "Delta" if name == LOG_FOLDER and place else _OTHER_FORMATS.get(name)
            if kind is not None:
                _refuse_table("/".join(folders[:place]), kind, url)


def _refuse_table(inside: str, kind: str, url: str) -> None:
    """Refuse a folder in which another table is, unless it is in a hidden one."""
    if is_hidden(f"{inside}/file"):
        return
    detail = f"{inside or 'it'} is a table of the format {kind}, whose files need not all belong to its rows"
    remedy = "Move that table out of the folder, or read it with its own format and write its rows."
    if kind == "Iceberg" and not inside:
        remedy = (
            "Make a Delta table beside it, which may share its files: CLONE iceberg.`path`, or tahoe clone "
            "--source-format iceberg."
        )
    raise _refusal(url, detail, remedy)


def _refusal(url: str, detail: str, remedy: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        operation="Taking the folder for a Parquet table", table=url, detail=detail, remedy=remedy
    )


def _in_partitions(files: Iterable[SourceFile], partitions: Sequence[CatalogPartition], url: str) -> list[SourceFile]:
    partition_of_folder = {_folder_key(p, url): p.partition for p in partitions}
    return [
        SourceFile(file.key, file.size_bytes, file.modified_ms, partition_of_folder[file.folder])
        for file in files
        if file.folder in partition_of_folder and not file.key.rpartition("/")[2].startswith(("_", "."))
    ]


def _folder_key(found: CatalogPartition, url: str) -> str:
    place = found.url.rstrip("/")
    if place == url:
        return ""
    if not place.startswith(url + "/"):
        raise _refusal(
            url, f"its partition {found.partition} is in another folder, {place}", "Move the partition into the folder."
        )
    return place[len(url) + 1 :]


# --- the log of a streaming query


def _in_sink_log(store: Store, files_by_key: Mapping[str, SourceFile]) -> list[SourceFile]:
    """The files that the log of a stream's sink says are live. One that is missing is an error, because its rows are
    lost.
    """
    live: dict[str, None] = {}
    for entry in _sink_entries(store, files_by_key):
        key = canonical_key(entry["path"], store.url)
        if entry.get("action") == "delete":
            live.pop(key, None)
        else:
            live[key] = None
    for key in live:
        if key not in files_by_key:
            detail = f"the stream's log {SINK_LOG} names it, but it is not in the folder"
            raise InvalidDataFileError(table=store.url, file=key, detail=detail)
    return [files_by_key[key] for key in live]


def _sink_entries(store: Store, there: Mapping[str, SourceFile]) -> Iterable[Mapping[str, str]]:
    """The entries of all batches. A compacted file has those of all batches up to its own."""
    names = {key.removeprefix(SINK_LOG + "/") for key in there if key.startswith(SINK_LOG + "/")}
    whole = (name.removesuffix(_COMPACT) for name in names if name.endswith(_COMPACT))
    compacted = max((int(number) for number in whole if number.isdigit()), default=-1)
    later = sorted(int(name) for name in names if name.isdigit() and int(name) > compacted)
    expected = range(compacted + 1, compacted + 1 + len(later))
    if later != list(expected):
        missing = min(set(expected) - set(later))
        raise InvalidDataFileError(
            table=store.url, file=f"{SINK_LOG}/{missing}", detail="this batch of the stream's log is missing"
        )
    for name in [*([f"{compacted}{_COMPACT}"] if compacted >= 0 else []), *map(str, later)]:
        key = f"{SINK_LOG}/{name}"
        try:
            yield from map(
                json.loads, store.get(key).decode().splitlines()[1:]
            )  # the first line is the version of the format
        except ValueError as error:
            raise InvalidDataFileError(
                table=store.url, file=key, detail=f"the stream's log cannot be read: {error}"
            ) from error
