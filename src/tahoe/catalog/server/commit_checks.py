"""Whether a staged commit may become the next version of a table: read as every reader will read it.

Protocol: "Writer Requirements for Catalog-managed tables", "Writer Requirements for In-Commit Timestamps".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tahoe.catalog.server.refusals import Refusal, invalid
from tahoe.catalog.server.service import Known, Service
from tahoe.errors import DeltaError, StorageUnavailableError
from tahoe.errors.root import cause_text
from tahoe.protocol.changes.legality import Definition, Transition, violations
from tahoe.protocol.configuration.column_mapping import stored_name
from tahoe.protocol.configuration.features import check_writable, supports
from tahoe.protocol.configuration.properties import PlainProperty, find_property
from tahoe.protocol.configuration.row_tracking import assigns_row_ids
from tahoe.protocol.log.actions import Action, Add, Cdc, CommitInfo, Remove, decode_commit
from tahoe.protocol.log.deletion_vector import vector_location
from tahoe.protocol.log.file_paths import canonical_key, decode_path, resolve_path
from tahoe.protocol.log.log_files import LOG_FOLDER, STAGED_FOLDER, Kind, commit_name, parse_name
from tahoe.protocol.log.replay import check_commit
from tahoe.protocol.types.partitions import parse_partition_value
from tahoe.storage.env import Store
from tahoe.storage.managed import ManagedStore
from tahoe.storage.ratified import Ratified, RatifiedCommit
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.reading.snapshot_state import in_commit_timestamps_enabled
from tahoe.table.table import Table

# Larger commits are none that a server can read for each caller.
_COMMIT_BYTES_MAX = 256 << 20

# So far the clock of a writer may be ahead. Each later commit must have a larger time: a table whose time is the end of
# all times could not be changed any more.
_AHEAD_MS_MAX = 86_400_000

_STAGED_NAME = re.compile(r"([0-9]{20})\.[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """A commit as its writer tells of it.

    Attributes:
        timestamp_ms: its in-commit timestamp; None if it is not told.
    """

    commit: RatifiedCommit
    timestamp_ms: int | None


def checked(table: Table, before: Known, proposed: Proposed) -> Known:
    """The definition of the table with a staged commit, which is legal.

    Raises:
        Refusal: it is not, and why.
    """
    commit = proposed.commit
    if not is_staged_name(commit.file, commit.version):
        raise invalid(f"{commit.file} is not the name of a staged commit of version {commit.version}.")
    data = _staged(table.env.store, commit)
    file = parse_name(commit_name(commit.version), size_bytes=len(data), modified_ms=commit.modified_ms)
    assert file is not None
    try:
        actions = list(decode_commit(data, table=table.url, file=commit.file))
        check_commit(actions, table.log.canonical, table=table.url, file=commit.file)
        after = before.snapshot.after([(file, actions)]).without_files()
        _check_definition(after, actions)
        _check_files(after, actions)
        found_ms = _checked_timestamp(actions, before.timestamp_ms, proposed, table.env.clock_ms())
        _check_rules(after, actions, before)
    except StorageUnavailableError:
        raise
    except DeltaError as error:
        raise invalid(f"{commit.file} is not a legal commit: {cause_text(error)}.") from error
    return Known(after, found_ms)


def is_staged_name(name: str, version: int) -> bool:
    found = _STAGED_NAME.fullmatch(name)
    return found is not None and int(found[1]) == version


def _staged(store: Store, commit: RatifiedCommit) -> bytes:
    key = f"{STAGED_FOLDER}/{commit.file}"
    info = store.head(key)
    if info is None:
        raise invalid(f"{key} does not exist in the table's folder.")
    if info.size_bytes != commit.size_bytes or info.size_bytes > _COMMIT_BYTES_MAX:
        raise invalid(f"{key} has {info.size_bytes} bytes, not {commit.size_bytes}, or more than {_COMMIT_BYTES_MAX}.")
    return store.get(key)


def _check_definition(after: Snapshot, actions: Sequence[Action]) -> None:
    removes_data = any(isinstance(action, Remove) and action.data_change for action in actions)
    check_writable(after.protocol, after.metadata, table=after.url, removes_data=removes_data)
    _check_managed(after)
    if missing := [name for name in after.partition_columns if after.schema.find(name) is None]:
        raise invalid(f"The table is partitioned by columns that it does not have: {', '.join(missing)}.")


def _check_rules(after: Snapshot, actions: Sequence[Action], before: Known | None = None) -> None:
    """The rules of the protocol that a commit can break and still be read, and values of properties that none can
    read.
    """
    was = None if before is None else Definition(before.snapshot.protocol, before.snapshot.metadata)
    change = Transition(
        version=after.version,
        actions=actions,
        before=was,
        after=Definition(after.protocol, after.metadata),
        timestamp_ms=None if before is None else before.timestamp_ms,
        domains_before={} if before is None else before.snapshot.domains,
        domains=after.domains,
    )
    if (detail := next(iter(violations(change)), None)) is not None:
        raise invalid(f"The commit breaks a rule: {detail}.")
    kept = {} if was is None else was.metadata.configuration
    for name, value in after.metadata.configuration.items():
        found = find_property(name)
        if isinstance(found, PlainProperty) and found.name == name and kept.get(name) != value:
            found.read(value, table=after.url)


def _check_managed(snapshot: Snapshot) -> None:
    if not supports(snapshot.protocol, "catalogManaged"):
        raise invalid("The table must keep the feature catalogManaged.")
    if not in_commit_timestamps_enabled(snapshot.protocol, snapshot.metadata):
        raise invalid("The table must keep the feature inCommitTimestamp, and delta.enableInCommitTimestamps = true.")


def _check_files(after: Snapshot, actions: Sequence[Action]) -> None:
    """The data of a managed table is in its folder, because permissions are those of the folder. What the log tells of
    a file can be read.
    """
    url, needs_row_ids = after.url, assigns_row_ids(after.protocol, after.metadata)
    mode = after.column_mapping_mode
    found = [after.schema.find(name) for name in after.partition_columns]
    columns = [(stored_name(field, mode), field.type) for field in found if field is not None]
    for action in actions:
        if not isinstance(action, (Add, Cdc, Remove)):
            continue
        resolve_path(action.path, url)
        if isinstance(action, Remove):
            continue
        _check_place(action.path, url)
        if not isinstance(action, Add):
            continue
        if (vector := action.deletion_vector) is not None:
            vector_location(vector, url, file=action.path)
            if vector.storage_type == "p":
                _check_place(vector.path_or_inline, url)
        for name, kind in columns:
            parse_partition_value(action.partition_values.get(name), kind, zone=after.log.zone, table=url)
        if needs_row_ids and action.base_row_id is None:
            raise invalid(f"{action.path} has no base row id, but the table tracks rows.")


def _check_place(path: str, url: str) -> None:
    key = canonical_key(path, url)
    is_rooted = not path.startswith("/") and decode_path(path).startswith("/")  # Java takes it for an absolute path
    if "://" in key or key in ("", LOG_FOLDER) or key.startswith(("..", f"{LOG_FOLDER}/")) or is_rooted:
        raise invalid(f"{path} is not a data file in the table's folder.")


def _checked_timestamp(actions: Sequence[Action], before_ms: int, proposed: Proposed, now_ms: int) -> int:
    found = _timestamp_of(actions)
    if proposed.timestamp_ms not in (None, found):
        raise invalid(f"The commit has the inCommitTimestamp {found}, not {proposed.timestamp_ms}.")
    if found <= before_ms:
        raise invalid(f"The inCommitTimestamp {found} is not larger than {before_ms}, that of the version before.")
    _check_not_ahead(found, max(before_ms + 1, now_ms + _AHEAD_MS_MAX))
    return found


def _check_not_ahead(timestamp_ms: int, latest_ms: int) -> None:
    if timestamp_ms > latest_ms:
        raise invalid(f"The inCommitTimestamp {timestamp_ms} is more than a day ahead of the server's clock.")


def _timestamp_of(actions: Sequence[Action]) -> int:
    info = actions[0] if actions else None
    found = info.in_commit_timestamp_ms if isinstance(info, CommitInfo) else None
    if found is None:
        raise invalid("The commit must begin with a commitInfo that has an inCommitTimestamp.")
    return found


def first_version(service: Service, url: str) -> Known:
    """The first version of a new managed table, which its maker has written into the folder.

    Raises:
        Refusal: there is none, there are more, or it is not legal.
    """
    env = service.env_at(url)
    if _versions(env.store) != [0]:
        raise Refusal(400, "FAILED_PRECONDITION", "The folder must have version 0 in its log, and no other version.")
    table = Table(url, env=replace(env, store=ManagedStore(env.store, _First())))
    try:
        snapshot, actions = table.snapshot(0), table.log.read_version(0)
        check_writable(snapshot.protocol, snapshot.metadata, table=url)
        _check_managed(snapshot)
        _check_files(snapshot, actions)
        found_ms = _timestamp_of(actions)
        _check_not_ahead(found_ms, env.clock_ms() + _AHEAD_MS_MAX)
        _check_rules(snapshot, actions)
    except StorageUnavailableError:
        raise
    except DeltaError as error:
        raise invalid(f"Version 0 is not legal: {cause_text(error)}.") from error
    return Known(snapshot.without_files(), found_ms)


class _First:
    """The `TableCommits` of a table whose catalog does not know it yet."""

    def ratified(self) -> Ratified:
        return Ratified(0)

    def ratify(self, commit: RatifiedCommit) -> bool:  # noqa: ARG002
        return False

    def may_describe(self, version: int) -> bool:  # noqa: ARG002
        return True

    def published(self, version: int) -> None:
        """Nothing is kept."""


def _versions(store: Store) -> list[int]:
    found = (parse_name(info.key.rpartition("/")[2]) for info in store.list_from(LOG_FOLDER))
    return [file.version for file in found if file is not None and file.kind is Kind.COMMIT]
