"""Conversion: brings a table's Iceberg metadata up to a version of the table.

Each version that changes files becomes a snapshot; other versions change schema and properties alone. The conversion
goes on from the newest metadata file, commit by commit. If that is not possible (the commits are gone, the table is
another one, the result differs from the log), it lists all files anew in one snapshot. Whoever commits next does what a
converter that was killed has left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tahoe.errors import (
    CommitGoneError,
    DeletionVectorMissingError,
    MissingVersionError,
    UnsupportedDataTypeError,
    UnsupportedOperationError,
)
from tahoe.iceberg.expiry import needed_files
from tahoe.iceberg.metadata_folder import Converted, MetadataFolder, encode_metadata, is_of_snapshot
from tahoe.iceberg.table_state import Change, TableState
from tahoe.protocol.configuration.universal_format import check_formats, format_version, has_iceberg
from tahoe.protocol.log.actions import Action, Add, CommitInfo, Metadata, Protocol, Remove
from tahoe.protocol.log.log_files import LogFile
from tahoe.storage.env import before_describing
from tahoe.table.reading.snapshot import Snapshot, load_snapshot, refresh

_logger = logging.getLogger("tahoe")

# More commits are not read one by one: all files are listed anew.
COMMITS_MAX = 100

# What an earlier version can have that did not ask for Iceberg's metadata, such as a column of type void; or that is
# gone, such as its deletion vectors.
_NOT_CONTINUED = (
    CommitGoneError,
    DeletionVectorMissingError,
    MissingVersionError,
    UnsupportedDataTypeError,
    UnsupportedOperationError,
    LookupError,
    FileNotFoundError,
)

# How often a conversion begins anew behind another converter.
_ATTEMPTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionReport:
    """What a conversion did.

    Attributes:
        version: the version of the table that the newest metadata file describes.
        timestamp_ms: of that version.
        metadata: the location of this file.
        snapshots: how many snapshots were added.
        is_whole: whether all files were listed anew.
    """

    version: int
    timestamp_ms: int
    metadata: str
    snapshots: int
    is_whole: bool


def after_commit(snapshot: Snapshot) -> None:
    """Convert a new version, in the background; see `table.commit.other_formats`."""
    if has_iceberg(snapshot.properties):
        convert(snapshot)


def convert(snapshot: Snapshot, *, whole: bool = False) -> ConversionReport:
    """Bring the metadata up to a version, unless it is there already.

    Args:
        whole: list all files anew in any case.

    Raises:
        InvalidPropertyError, UnsupportedOperationError: the table cannot have Iceberg's metadata, or the folder has
            that of a real Iceberg table.
        StorageRefusedError: the version can still be undone, in a transaction over several tables.
    """
    check_formats(snapshot.protocol, snapshot.properties, table=snapshot.url)
    before_describing(snapshot.log.env.store, snapshot.version)
    folder = MetadataFolder(snapshot.log)
    for _ in range(_ATTEMPTS):
        known = _known(folder, snapshot)
        if known is not None and known.version is not None and known.version >= snapshot.version and not whole:
            return _report(folder, known, 0, is_whole=False)
        state = None if whole else _continued(folder, known, snapshot)
        is_whole = state is None
        if state is None:
            if not whole and _is_outrun(folder, known):
                continue
            state = TableState.of(folder, known, snapshot, lists_anew=True)
            state.list_anew(snapshot)
        if state.put(snapshot, replaces=whole or known is None):
            newest = folder.newest()
            assert newest is not None
            return _report(folder, newest, state.added, is_whole=is_whole)
        state.discard()
    raise TimeoutError(f"other converters have put metadata of {snapshot.url} {_ATTEMPTS} times meanwhile")


def _known(folder: MetadataFolder, snapshot: Snapshot) -> Converted | None:
    """The newest metadata of this table. That of a table which it replaced, or was copied from, is deleted, as is that
    of a newer version of the format.
    """
    newest = folder.newest()
    if newest is None:
        return None
    if newest.version is None:
        raise UnsupportedOperationError(
            operation="Writing Iceberg's metadata",
            table=snapshot.url,
            detail=f"{newest.key} is that of an Iceberg table",
            remedy="Keep the Delta table in another folder.",
        )
    if not _describes(folder, newest, snapshot):
        folder.clear()
        return None
    return newest


def _describes(folder: MetadataFolder, known: Converted, snapshot: Snapshot) -> bool:
    """Whether metadata is that of this table in this folder, where its files are named by their locations, and of a
    version of the format from which it can go on: none leads back.
    """
    metadata, version = known.metadata, format_version(snapshot.protocol, snapshot.properties)
    is_of_table = (metadata.table_uuid, metadata.location) == (TableState.uuid_of(snapshot), folder.location)
    return is_of_table and metadata.format_version <= version


def _report(folder: MetadataFolder, known: Converted, snapshots: int, *, is_whole: bool) -> ConversionReport:
    version, timestamp_ms = told(known)
    return ConversionReport(
        version=version,
        timestamp_ms=timestamp_ms,
        metadata=folder.url(known.key),
        snapshots=snapshots,
        is_whole=is_whole,
    )


def told(known: Converted) -> tuple[int, int]:
    """The version of a metadata file that tahoe wrote, and its time."""
    assert known.version is not None
    return known.version, TableState.timestamp_of(known.metadata)


def _continued(folder: MetadataFolder, known: Converted | None, snapshot: Snapshot) -> TableState | None:
    """The metadata of a version from that of an earlier one; None if the files must be listed anew."""
    if known is None or known.version is None:
        return None
    if known.metadata.format_version != format_version(snapshot.protocol, snapshot.properties):
        return None  # its files have no row ids
    state = None
    try:
        state = TableState.of(folder, known, snapshot)
        for change in _changes(snapshot, known.version):
            state.apply(change)
        if state.agrees_with(snapshot):
            return state
        _logger.info("%s: Iceberg's metadata differs from the log", snapshot.url)
    except _NOT_CONTINUED as error:
        _logger.info("%s: Iceberg's metadata cannot be continued: %s", snapshot.url, error)
    if state is not None:
        state.discard()
    return None


def _is_outrun(folder: MetadataFolder, known: Converted | None) -> bool:
    """Whether another converter has put newer metadata meanwhile, and perhaps deleted files of the older one."""
    newest = folder.newest()
    return known is not None and newest is not None and newest.key != known.key


def _changes(snapshot: Snapshot, version: int) -> Iterator[Change]:
    """What the versions after one changed, up to that of the snapshot.

    Raises:
        LookupError: there are too many.
        CommitGoneError, MissingVersionError: their commits are gone.
    """
    versions = range(version + 1, snapshot.version + 1)
    if len(versions) > COMMITS_MAX:
        raise LookupError(f"{len(versions)} commits are not converted")
    files = [_commit_of(snapshot, later) for later in versions]
    commits = [(commit, snapshot.log.read(commit)) for commit in files]
    redefines = any(isinstance(action, Metadata | Protocol) for _, actions in commits for action in actions)
    if not redefines:
        for commit, actions in commits:
            yield _change(snapshot, commit, actions)
        return
    state = load_snapshot(snapshot.log, version)
    for commit, actions in commits:
        state = state.after([(commit, actions)])
        yield _change(state, commit, actions)


def _commit_of(snapshot: Snapshot, version: int) -> LogFile:
    if snapshot.commit is not None and snapshot.commit.version == version:
        return snapshot.commit
    found = snapshot.log.commit_file(version)
    if found is None:
        raise LookupError(f"version {version} has no commit")
    return found


def _change(state: Snapshot, commit: LogFile, actions: Sequence[Action]) -> Change:
    info = next((action for action in actions if isinstance(action, CommitInfo)), None)
    stamp = None if info is None else info.in_commit_timestamp_ms
    adds = [action for action in actions if isinstance(action, Add)]
    removes = [action for action in actions if isinstance(action, Remove)]
    if not removes and not any(add.data_change for add in adds):
        adds = []  # statistics or ids of files that are there
    return Change(
        state=state,
        version=commit.version,
        timestamp_ms=commit.modified_ms if stamp is None else stamp,
        adds=adds,
        removes=removes,
    )


def metadata_of(definition: Snapshot, load: Callable[[], Snapshot]) -> tuple[str, bytes]:
    """The metadata file that describes a version of the table, or a later one: its location and its content. It is
    written if it is not there.

    Args:
        definition: the version, which need not have its files.
        load: loads it with its files.

    Raises:
        InvalidPropertyError, UnsupportedOperationError: as `convert`.
    """
    folder = MetadataFolder(definition.log)
    known = folder.newest()
    is_there = known is not None and known.version is not None and known.version >= definition.version
    if known is not None and is_there and _describes(folder, known, definition):
        return folder.url(known.key), encode_metadata(known.metadata)
    location = convert(load()).metadata
    return location, definition.log.env.store.get(folder.key(location))


def converted(snapshot: Snapshot) -> tuple[int, int] | None:
    """The version of the table that its Iceberg metadata describes, and its time; None without any."""
    newest = MetadataFolder(snapshot.log).newest()
    is_ours = newest is not None and newest.version is not None
    return told(newest) if newest is not None and is_ours else None


def abandoned(snapshot: Snapshot, keys: Sequence[str]) -> list[str]:
    """Of some files in the table's folder those that no snapshot of the newest metadata has, although they are named
    like it: a converter has died between writing them and the metadata, or they are of metadata that was replaced. None
    if a file is gone that would tell.

    Precondition: the files are older than any conversion at work.
    """
    folder, own = MetadataFolder(snapshot.log), list(filter(is_of_snapshot, keys))
    newest = folder.newest() if own else None
    if newest is None or not _describes(folder, newest, snapshot):
        return []
    try:
        needed = needed_files(folder)
    except FileNotFoundError as error:
        _logger.warning("%s: files of Iceberg's metadata are kept: %s", snapshot.url, error)
        return []
    return [key for key in own if key not in needed]


def sync(snapshot: Snapshot, *, whole: bool = False) -> ConversionReport:
    """Convert the newest version now.

    Raises:
        UnsupportedOperationError: the table does not ask for Iceberg's metadata; else as `convert`.
    """
    newest = refresh(snapshot)
    if not has_iceberg(newest.properties):
        raise UnsupportedOperationError(
            operation="Writing Iceberg's metadata",
            table=newest.url,
            detail="the table does not ask for it",
            remedy="Set delta.enableIcebergCompatV2 or V3 = true and delta.universalFormat.enabledFormats = iceberg.",
        )
    return convert(newest, whole=whole)
