"""Symlink manifests: text files that list a version's data files, for Presto, Athena and other engines that read Hive's
symlink tables.

`_symlink_format_manifest/<partition folders>/manifest` has one line for each data file of a partition: its absolute,
unescaped path. The format is that of the reference. A manifest is replaced as a whole, but the manifests of several
partitions are not replaced at once.

Of several writers, the last one that writes a manifest looks at the log again afterwards, so that no older version
overwrites a newer one. A hidden file beside the manifests says up to which version they are complete: whoever writes
manifests next also writes those that a killed writer, or a writer that does not know manifests, left behind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import accumulate

from tahoe.errors import (
    CommitGoneError,
    DeltaError,
    ManifestPropertyError,
    ManifestsWithColumnMappingError,
    ManifestsWithNullTextError,
    ManifestsWithVectorsError,
    PostCommitHookFailedError,
)
from tahoe.protocol.configuration.features import active_features
from tahoe.protocol.configuration.properties import SYMLINK_MANIFESTS
from tahoe.protocol.log.actions import Add, Metadata, Protocol, Remove
from tahoe.protocol.log.file_paths import resolve_path
from tahoe.protocol.types.partitions import HIVE_NULL, partition_folder, timestamp_in_folder
from tahoe.protocol.types.schema import TIMESTAMP
from tahoe.storage.env import Store, deepest_first, physical_url
from tahoe.storage.threads import in_threads
from tahoe.table.arrow.parquet import LOCAL_SCHEME
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot, check_may_delete, load_snapshot, refresh

MODE = "symlink_format_manifest"
HOOK = "Generate Symlink Format Manifest"

_ROOT = "_symlink_format_manifest"
_NAME = "manifest"
_COMPLETE = f"{_ROOT}/.tahoe-complete"

# Behind more commits than these, all manifests are written.
_COMMITS_BEHIND_MAX = 100

# Each further look finds commits that were made while the manifests of the last one were written.
_LOOKS_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestReport:
    """What was done about manifests.

    Attributes:
        version: the version whose files the manifests list.
        written, removed: the numbers of manifests.
    """

    version: int
    written: int = 0
    removed: int = 0


def is_manifest(key: str) -> bool:
    """Whether a file of the table's folder is a manifest."""
    return key.startswith(f"{_ROOT}/") and key.endswith(f"/{_NAME}")


def generate_manifests(log: Log) -> ManifestReport:
    """Write the manifests of all partitions of the newest version, and delete those of partitions that are gone.

    Raises:
        ManifestsWithVectorsError, ManifestsWithColumnMappingError, ManifestsWithNullTextError: readers of manifests
            would return wrong rows. Nothing was written.
        OperationNotAllowedError: in a transaction over several tables, whose rows may be undone.
    """
    check_may_delete(log, "generate()")
    return _write_until_newest(load_snapshot(log), None)


def check_manifests_before_commit(
    base: Snapshot | None,
    protocol: Protocol,
    metadata: Metadata,
    *,
    adds: Iterable[Add],
    removed: Container[str],
    table: str,
) -> None:
    """Refuse a commit after which the table keeps manifests that their readers would misunderstand.

    Args:
        adds: the files that the commit adds.
        removed: the canonical paths of the files that it removes.

    Raises:
        ManifestPropertyError: the table has deletion vectors or column mapping, or a partition with the name of NULL's
            folder.
    """
    if not SYMLINK_MANIFESTS.get(metadata.configuration):
        return
    adds, is_new = list(adds), not (base is not None and SYMLINK_MANIFESTS.get(base.properties))
    values = [add.partition_values for add in adds] + (
        [] if base is None or not is_new else list(_values_left(base, removed))
    )
    column = next(filter(None, (_named_like_null(each, metadata.partition_columns) for each in values)), None)
    name = next(
        (f.name for f in active_features(protocol, metadata) if f.name in ("deletionVectors", "columnMapping")), None
    )
    if name is not None:
        detail = f"readers of manifests do not know the feature {name}, which the table uses"
        remedy = f"Use either manifests or {name}, not both."
    elif is_new and _will_have_vectors(base, adds, removed):
        detail = "files of the table have deletion vectors, which readers of manifests do not know"
        remedy = "Remove them first, with REORG TABLE ... APPLY (PURGE)."
    elif column is not None:
        detail = f"partition column {column} has the text {HIVE_NULL}, for which readers of manifests return NULL"
        remedy = "Use either manifests or this text, not both."
    else:
        return
    raise ManifestPropertyError(
        property=SYMLINK_MANIFESTS.name, table=table, value="true", detail=detail, remedy=remedy
    )


def _values_left(base: Snapshot, removed: Container[str]) -> Iterator[Mapping[str, str | None]]:
    """The partition values of the files that a commit leaves in the table."""
    if base.partition_columns:
        live = base.live
        for path, pairs in zip(
            live.column("path").to_pylist(), live.column("partition_values").to_pylist(), strict=True
        ):
            if base.log.canonical(path) not in removed:
                yield dict(pairs or ())


def _named_like_null(values: Mapping[str, str | None], columns: Iterable[str]) -> str | None:
    """A partition column with a text whose folder is that of NULL."""
    return next((name for name in columns if values.get(name) == HIVE_NULL), None)


def _will_have_vectors(base: Snapshot | None, adds: Iterable[Add], removed: Container[str]) -> bool:
    if any(add.deletion_vector is not None for add in adds):
        return True
    if base is None:
        return False
    paths = base.live.column("path").filter(base.live.column("deletion_vector").is_valid())
    return any(base.log.canonical(path) not in removed for path in paths.to_pylist())


def manifests_after_commit(
    log: Log, base: Snapshot | None, version: int, metadata: Metadata, files: Iterable[Add | Remove]
) -> None:
    """Bring the manifests up to date after a commit, if the table asks for it: those of the partitions that the commit
    changed.

    Args:
        base: the snapshot that the writer began with.
        metadata: of the table after the commit.
        files: the files that the commit adds or removes.

    Raises:
        ManifestsWithVectorsError, ManifestsWithColumnMappingError, ManifestsWithNullTextError: readers of manifests
            would return wrong rows.
        PostCommitHookFailedError: a manifest could not be written. The version is committed all the same.
    """
    if not SYMLINK_MANIFESTS.get(metadata.configuration):
        return
    try:
        was_kept = (
            base is not None
            and SYMLINK_MANIFESTS.get(base.properties)
            and base.partition_columns == metadata.partition_columns
        )
        newest = load_snapshot(log) if base is None else refresh(base)
        complete = _complete_version(newest) if was_kept else None
        is_next = (complete, newest.version) == (version - 1, version)
        _write_until_newest(newest, _folders(metadata, files) if is_next else _changed_since(complete, newest))
    except (ManifestsWithVectorsError, ManifestsWithColumnMappingError, ManifestsWithNullTextError):
        raise
    except Exception as error:
        message = str(error) or type(error).__name__
        raise PostCommitHookFailedError(table=log.url, version=version, name=HOOK, message=message) from error


def _check_can_have_manifests(snapshot: Snapshot) -> None:
    """Refuse a version that manifests cannot describe: rows are deleted by vectors, or columns have other names in
    files.

    Raises:
        ManifestsWithVectorsError, ManifestsWithColumnMappingError: it is such a version.
    """
    if snapshot.column_mapping_mode != "none":
        raise ManifestsWithColumnMappingError(table=snapshot.url)
    if _has_vectors(snapshot):
        raise ManifestsWithVectorsError(table=snapshot.url)


def _has_vectors(snapshot: Snapshot) -> bool:
    vectors = snapshot.live.column("deletion_vector")
    return bool(vectors.null_count < len(vectors))


# --- which manifests


def _write_until_newest(snapshot: Snapshot, changed: Set[str] | None) -> ManifestReport:
    """Write the manifests of a version, and those of later commits that were made meanwhile.

    Args:
        changed: the folders of the partitions; None for all.
    """
    written = removed = 0
    for _ in range(_LOOKS_MAX):
        _check_can_have_manifests(snapshot)
        done = _write_all(snapshot) if changed is None else _write_some(snapshot, changed)
        written, removed = written + done.written, removed + done.removed
        before, snapshot = snapshot, refresh(snapshot)
        if snapshot.version == before.version:
            snapshot.log.env.store.put(_COMPLETE, _encode(snapshot))
            return ManifestReport(version=snapshot.version, written=written, removed=removed)
        changed = _changed_since(before.version, snapshot)
    raise TimeoutError(f"other writers have committed {_LOOKS_MAX} times while manifests were written")


def _encode(snapshot: Snapshot) -> bytes:
    return json.dumps({"tableId": snapshot.metadata.id, "version": snapshot.version}).encode()


def _complete_version(snapshot: Snapshot) -> int | None:
    """The version up to which all manifests were written; None if that is not known."""
    try:
        recorded = json.loads(snapshot.log.env.store.get(_COMPLETE))
        version = recorded["version"] if recorded["tableId"] == snapshot.metadata.id else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return version if isinstance(version, int) and 0 <= version <= snapshot.version else None


def _changed_since(version: int | None, snapshot: Snapshot) -> Set[str] | None:
    """The folders of the partitions that the commits after a version changed; None if that is not known."""
    if version is None or snapshot.version - version > _COMMITS_BEHIND_MAX:
        return None
    try:
        commits = [snapshot.log.read_version(later) for later in range(version + 1, snapshot.version + 1)]
    except CommitGoneError:
        return None
    actions = [action for commit in commits for action in commit]
    columns = snapshot.metadata.partition_columns
    if any(isinstance(action, Metadata) and action.partition_columns != columns for action in actions):
        return None
    return _folders(snapshot.metadata, (action for action in actions if isinstance(action, Add | Remove)))


def _folders(metadata: Metadata, files: Iterable[Add | Remove]) -> Set[str] | None:
    """The folders of the partitions of some files; None if the partition of a file is not known."""
    folder_of, found = _folder_of(metadata), set[str]()
    for file in files:
        values = file.partition_values
        if values is None or any(name not in values for name in metadata.partition_columns):
            return None
        found.add(folder_of(values))
    return found


def _folder_of(metadata: Metadata) -> Callable[[Mapping[str, str | None]], str]:
    """A function from the values of a partition to its folder, as Hive finds it."""
    columns = metadata.partition_columns
    timestamps = [field.name for field in metadata.schema if field.type == TIMESTAMP and field.name in columns]

    def folder(values: Mapping[str, str | None]) -> str:
        spelled = {name: timestamp_in_folder(text) for name in timestamps if (text := values[name])}
        return partition_folder(columns, {**values, **spelled})

    return folder


def _write_all(snapshot: Snapshot) -> ManifestReport:
    contents = dict(_contents(snapshot, None))
    _put(snapshot.log.env.store, contents)
    stale = {info.key for info in snapshot.log.env.store.walk(_ROOT) if is_manifest(info.key)} - contents.keys()
    return _delete(snapshot, stale, written=len(contents))


def _write_some(snapshot: Snapshot, folders: Set[str]) -> ManifestReport:
    contents = dict(_contents(snapshot, folders))
    _put(snapshot.log.env.store, contents)
    return _delete(snapshot, {_key(folder) for folder in folders} - contents.keys(), written=len(contents))


def _contents(snapshot: Snapshot, folders: Set[str] | None) -> Iterator[tuple[str, bytes]]:
    """Keys and contents of the manifests of some partitions, or of all. A table without partitions always has one."""
    columns, folder_of = snapshot.partition_columns, _folder_of(snapshot.metadata)
    url = physical_url(snapshot.log.env.store)
    paths: dict[str, list[str]] = {"": []} if not columns and (folders is None or "" in folders) else {}
    known: dict[tuple[tuple[str, str | None], ...], str] = {}
    values = snapshot.live.column("partition_values").to_pylist() if columns else [()] * len(snapshot.live)
    for path, partition in zip(snapshot.live.column("path").to_pylist(), values, strict=True):
        pairs = tuple(partition or ())
        folder = known.get(pairs)
        if folder is None and (column := _named_like_null(dict(pairs), columns)) is not None:
            raise ManifestsWithNullTextError(table=snapshot.url, column=column, text=HIVE_NULL)
        if folder is None:
            folder = known[pairs] = folder_of(dict(pairs))
        if folders is None or folder in folders:
            paths.setdefault(folder, []).append(path)
    for folder, found in paths.items():
        lines = (f"{_hadoop_path(resolve_path(path, url))}\n" for path in found)
        yield _key(folder), "".join(lines).encode("utf-8", "surrogateescape")


def _key(folder: str) -> str:
    return f"{_ROOT}/{folder}/{_NAME}" if folder else f"{_ROOT}/{_NAME}"


def _hadoop_path(url: str) -> str:
    """A url as Hadoop prints it: without an empty authority."""
    return "file:" + url.removeprefix(LOCAL_SCHEME) if url.startswith(LOCAL_SCHEME + "/") else url


# --- writing them


def _put(store: Store, contents: Mapping[str, bytes]) -> None:
    def put(entry: tuple[str, bytes]) -> None:
        key, content = entry
        if store.url.startswith(
            LOCAL_SCHEME
        ):  # Hadoop, which reads the manifest, would compare it with an older checksum
            store.delete(f"{key.removesuffix(_NAME)}.{_NAME}.crc")
        store.put(key, content)

    for _ in in_threads(put, contents.items()):
        pass


def _delete(snapshot: Snapshot, keys: Set[str], *, written: int) -> ManifestReport:
    """Delete manifests, with Hadoop's checksums of local ones, and the folders that they leave empty."""
    store = snapshot.log.env.store
    checksums = (
        {f"{key.removesuffix(_NAME)}.{_NAME}.crc" for key in keys} if store.url.startswith(LOCAL_SCHEME) else set[str]()
    )
    failed: Mapping[str, DeltaError] = store.delete_many(sorted(keys | checksums)) if keys else {}
    for error in failed.values():
        raise error
    emptied = {
        above for key in keys for above in accumulate(key.split("/")[:-1], lambda a, b: f"{a}/{b}") if above != _ROOT
    }
    store.remove_folders(deepest_first(emptied))
    return ManifestReport(version=snapshot.version, written=written, removed=len(keys))
