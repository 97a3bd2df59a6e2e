"""VACUUM LITE: finds the files that no version needs from the commits that removed them, without listing the table's
folder.

`_delta_log/_last_vacuum_info`, which the reference reads and writes too, says up to which commit all removed files have
been deleted. The commits after it are read, up to the newest one before the cutoff. The change files of that commit
stay for as long as its version is within the retention: they are left to the next VACUUM LITE, which therefore reads
the commit again. Files that no commit names, such as those of failed writes, are left to VACUUM FULL.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import CannotVacuumLiteError, DeltaError
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import Action, Cdc, Remove
from tahoe.protocol.log.deletion_vector import INLINE, RELATIVE
from tahoe.protocol.log.log_files import Kind
from tahoe.protocol.types.json_text import is_text, load_json
from tahoe.storage.env import Store
from tahoe.table.cleanup.dead_files import FILES, VacuumScope
from tahoe.table.cleanup.named_files import Keys, vector_key, vector_text
from tahoe.table.cleanup.retention import file_actions
from tahoe.table.reading.snapshot import Snapshot

_logger = logging.getLogger("tahoe")

# The only field of the file.
_FIELD = "latestCommitVersionOutsideOfRetentionWindow"


def vacuumed_version(snapshot: Snapshot) -> int | None:
    """The version up to which all removed files have been deleted; None if that is unknown.

    A file that cannot be read, and one of an earlier table in this folder, count as missing.
    """
    try:
        found = load_json(snapshot.log.env.store.get(log_files.LAST_VACUUM_INFO))
    except (FileNotFoundError, DeltaError, ValueError):
        return None
    version = found.get(_FIELD) if isinstance(found, dict) else None
    if not isinstance(version, int) or isinstance(version, bool):
        return None
    return version if 0 <= version <= snapshot.version else None


def record_vacuumed_version(store: Store, version: int) -> None:
    """Record that the files removed up to a version have been deleted. If that fails, the next VACUUM LITE only reads
    more commits.
    """
    try:
        store.put(log_files.LAST_VACUUM_INFO, json.dumps({_FIELD: version}, separators=(",", ":")).encode())
    except DeltaError as error:
        _logger.warning("%s: %s could not be written: %s", store.url, log_files.LAST_VACUUM_INFO, error)


def removed_files(snapshot: Snapshot, before: int | None, protected: Keys, scope: VacuumScope) -> pa.Table:
    """The files that commits up to the cutoff removed, with their deletion vectors and change files, and that are not
    protected.

    Args:
        before: the newest version that was committed at or before the cutoff; None if the log has none.

    Returns:
        the columns `FILES`; a file that a commit has removed twice appears once. Some of them may be gone already.

    Raises:
        CannotVacuumLiteError: the commits that removed some of the files may be gone.
    """
    listed = sorted(
        (file for file in snapshot.log.list_files() if file.kind is Kind.COMMIT), key=lambda file: file.version
    )
    vacuumed = vacuumed_version(snapshot)
    if before is None or not listed:
        return FILES.empty_table()
    last = -1 if vacuumed is None else vacuumed
    if listed[0].version > last + 1:
        why = (
            "no earlier VACUUM has recorded how far it came"
            if vacuumed is None
            else f"the last VACUUM came up to version {vacuumed}"
        )
        raise CannotVacuumLiteError(
            table=snapshot.url, detail=f"the log begins at version {listed[0].version}, and {why}"
        )
    commits = [file for file in listed if last <= file.version <= before]
    sizes: dict[str, int] = {}
    for file, actions in zip(commits, file_actions(snapshot.log, commits, may_be_gone_until=last), strict=True):
        is_new = file.version > last
        sizes |= _sizes((action for action in actions if is_new or isinstance(action, Cdc)), snapshot)
    legal = [key for key in sizes if is_text(key) and scope.includes(key.rpartition("/")[0])]
    keys = pa.chunked_array([pa.array(legal, pa.string())])
    files = pa.table(
        [keys, pa.array([sizes[key] for key in legal], pa.int64()), pa.nulls(len(legal), pa.int64())], schema=FILES
    )
    is_kept = protected.has(keys)
    return files.filter(pc.and_not(scope.includes_files(keys), is_kept))


def _sizes(actions: Iterable[Action], snapshot: Snapshot) -> dict[str, int]:
    """The sizes of the files below the table's folder that a commit no longer needs, by key."""
    canonical = snapshot.log.canonical
    sizes: dict[str, int] = {}
    for action in actions:
        if not isinstance(action, Remove | Cdc):
            continue
        sizes[canonical(action.path)] = action.size_bytes or 0
        vector = action.deletion_vector if isinstance(action, Remove) else None
        if vector is not None and vector.storage_type != INLINE:
            is_relative = vector.storage_type == RELATIVE
            key = vector_key(vector_text(vector), snapshot.url) if is_relative else canonical(vector.path_or_inline)
            sizes.setdefault(key, vector.size_bytes)
    return {key: size for key, size in sizes.items() if "://" not in key}
