"""Which data files and deletion vectors that entries name are not in the storage.

Protocol: "Add File and Remove File", "Deletion Vectors". Few files are looked at one by one, many by a listing of the
table's folder.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tahoe.protocol.log.actions import Add
from tahoe.protocol.log.deletion_vector import vector_location
from tahoe.protocol.log.file_paths import resolve_path
from tahoe.storage.threads import in_threads
from tahoe.table.adoption.adopt import entries_at, file_difference
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot

# A listing tells of a thousand files by one request, but also of those that are not asked about.
_LOOKS_MAX = 1000

# An error names this many files.
_NAMED_MAX = 100


def missing_files(log: Log, entries: Sequence[Add]) -> list[str]:
    """The paths of the data files, and the urls of the deletion vector files, that entries name and that do not exist.

    Raises:
        DeltaStorageError: the storage does not tell whether a file exists.
        PathOutsideTableError, InvalidPathError, DeletionVectorError: an entry names an illegal place.
    """
    named = {resolve_path(entry.path, log.url): entry.path for entry in entries}
    for entry in entries:
        location = None if entry.deletion_vector is None else vector_location(entry.deletion_vector, log.url)
        if location is not None:
            named[location[0]] = location[0]
    return sorted(named[url] for url in missing_urls(log, named))


def missing_since(old: Snapshot, newest: Snapshot) -> list[str]:
    """As `missing_files`, for the files of an old version that the newest one no longer has, so that VACUUM may have
    deleted them.
    """
    if old.version == newest.version:
        return []
    return missing_files(old.log, list(entries_at(old, file_difference(old.log, newest.live, old.live).added)))


def shown(paths: Sequence[str]) -> str:
    """Missing files as an error names them."""
    return ", ".join(paths[:_NAMED_MAX]) + (f" and {len(paths) - _NAMED_MAX} more" if len(paths) > _NAMED_MAX else "")


def missing_urls(log: Log, urls: Collection[str]) -> list[str]:
    """The files, by absolute urls, that do not exist.

    Raises:
        DeltaStorageError: the storage does not tell whether a file exists.
    """
    candidates = list(urls)
    if len(candidates) > _LOOKS_MAX:
        home = log.url + "/"
        listed = set(log.env.store.tree().keys)
        # a listing may not show a file that exists behind a link to a folder, so what it lacks is looked at
        candidates = [url for url in candidates if not url.startswith(home) or url.removeprefix(home) not in listed]
    exists = in_threads(lambda url: _exists(log, url), candidates)
    return [url for url, is_there in zip(candidates, exists, strict=True) if not is_there]


def _exists(log: Log, url: str) -> bool:
    store, key = log.locate(url)
    return store.head(key) is not None
