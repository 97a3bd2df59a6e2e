"""The tables below a folder: every folder that has a log, also one inside another table."""

from __future__ import annotations

from dataclasses import dataclass

from tahoe.protocol.log.log_files import LOG_FOLDER
from tahoe.storage.env import Store, branches

_LOG = f"/{LOG_FOLDER}/"


@dataclass(slots=True, kw_only=True)
class Stored:
    """What a table's folder has, without tables inside it.

    Attributes:
        bytes: of all files but the log's: live ones, older ones, and those of no version.
        log_files, log_bytes: of the log.
    """

    bytes: int = 0
    log_files: int = 0
    log_bytes: int = 0


def stored_tables(store: Store) -> dict[str, Stored]:
    """What is stored of each table at or below a store's folder, by its key, in order; the folder itself is "". All
    files are listed once.

    Raises:
        DeltaStorageError: the folder cannot be listed.
    """
    logs: dict[str, Stored] = {}
    folders: dict[str, int] = {}  # the bytes of files directly in a folder
    for branch in branches(store):
        for key, size in zip(branch.keys, branch.sizes_bytes, strict=True):
            table, is_log, _ = f"/{key}".partition(_LOG)
            if is_log:
                found = logs.setdefault(table.removeprefix("/"), Stored())
                found.log_files += 1
                found.log_bytes += size
            else:
                folder = key.rpartition("/")[0]
                folders[folder] = folders.get(folder, 0) + size
    for folder, size in folders.items():
        owner: str | None = folder
        while owner is not None and owner not in logs:
            owner = owner.rpartition("/")[0] if owner else None
        if owner is not None:
            logs[owner].bytes += size
    return dict(sorted(logs.items()))
