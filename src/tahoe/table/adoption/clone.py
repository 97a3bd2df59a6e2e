"""CLONE: a table of its own with the rows of a version of another table. A shallow clone reads the source's files, a
deep one has copies.

Protocol: "Add File and Remove File", "Deletion Vectors", "Row Tracking", "Domain Metadata". A clone has a history of
its own. Row ids are assigned anew: those that rewritten rows have in the source's files are in columns whose names the
clone does not use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Literal

from tahoe.errors import (
    CloneFilesMissingError,
    CloneOntoItselfError,
    InvalidPropertyError,
    ReplacedTableMissingError,
    TableExistsError,
    VectorsDisallowedError,
)
from tahoe.protocol.changes.assigned_numbers import with_identity_marks_of
from tahoe.protocol.changes.constraints import PREFIX as CONSTRAINT
from tahoe.protocol.configuration.column_mapping import MODE, declared_mode
from tahoe.protocol.configuration.declared_keys import is_key
from tahoe.protocol.configuration.feature_drop import without_catalog
from tahoe.protocol.configuration.feature_upgrade import split_features, upgrade, upgrade_for
from tahoe.protocol.configuration.features import check_writable, setting, supported_features
from tahoe.protocol.configuration.properties import (
    ENABLE_DELETION_VECTORS,
    KEPT_MARKS,
    OF_CATALOGS,
    PROTECTED_CHECKPOINTS_BEFORE,
    normalise,
)
from tahoe.protocol.configuration.row_tracking import MATERIALISED, assigns_row_ids, with_materialised_columns
from tahoe.protocol.log.actions import Add, DomainMetadata, Metadata, Protocol
from tahoe.protocol.log.copied_files import copied_files, taken_over
from tahoe.protocol.log.file_paths import canonical_key
from tahoe.protocol.statistics import clustering
from tahoe.protocol.statistics.listed_columns import check_listed
from tahoe.table.adoption.adopt import (
    Adoption,
    adopt,
    check_partitions_in_files,
    entries_at,
    file_difference,
    protection_of,
)
from tahoe.table.adoption.clone_files import DeepFiles, ShallowFiles
from tahoe.table.adoption.clone_place import check_place
from tahoe.table.adoption.foreign_sources import NO_VERSION, ForeignSource
from tahoe.table.adoption.last_row_ids import with_last_row_ids
from tahoe.table.adoption.missing_files import missing_since, shown
from tahoe.table.commit.draft import OperationInfo
from tahoe.table.log.copied_files import copy_parts
from tahoe.table.log.file_entries import to_table
from tahoe.table.log.file_parts import MemoryPart
from tahoe.table.log.live_files import LiveFiles
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.versions.table_reader import TableReader

CLONE = "CLONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneRequest:
    """What is cloned, and how.

    Attributes:
        is_shallow: whether the clone reads the source's files instead of copies.
        version, timestamp: of the source; the newest version if both are None. A version may be the name of a tag.
        mode: whether the target must not exist, must exist, or may exist. A table that exists gets exactly the files of
            the source.
        properties: override those of the source.
        source_name: how the history names the source; its path if None.
        progress: called with the number of files that were copied, and the number of all that are to be copied.
        engine: the program that hosts tahoe, for the history.
    """

    is_shallow: bool
    version: int | str | None = None
    timestamp: str | date | None = None
    mode: Literal["create", "replace", "create or replace"] = "create"
    properties: Mapping[str, str] = field(default_factory=dict)
    source_name: str | None = None
    progress: Callable[[int, int], None] | None = None
    user_metadata: str | None = None
    engine: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneReport:
    """What CLONE did.

    Attributes:
        table: the url of the clone.
        version: the version of the clone that was committed; None if the source itself was named as the target.
        source_version: the version of the source; -1 if it is not a Delta table.
        source_files, source_bytes: its files.
        removed_files, removed_bytes: those that were removed from a table that the clone replaced.
        copied_files, copied_bytes: those that were copied: 0 for a shallow clone, and for files that the target had
            from an earlier clone.
    """

    table: str
    version: int | None
    source_version: int
    source_files: int
    source_bytes: int
    removed_files: int = 0
    removed_bytes: int = 0
    copied_files: int = 0
    copied_bytes: int = 0

    @property
    def metrics(self) -> dict[str, int]:
        """The metrics of the history, under the reference's names."""
        return {
            "sourceTableSize": self.source_bytes,
            "sourceNumOfFiles": self.source_files,
            "numRemovedFiles": self.removed_files,
            "numCopiedFiles": self.copied_files,
            "removedFilesSize": self.removed_bytes,
            "copiedFilesSize": self.copied_bytes,
        }


def clone(source: TableReader | ForeignSource, target: TableReader, request: CloneRequest) -> CloneReport:
    """Clone a table.

    A deep clone that was interrupted leaves copies, which another attempt uses. A second deep clone copies only what
    has changed.

    Raises:
        TableNotFoundError, VersionNotFoundError, TagNotFoundError, TagLostError, TimestampOutOfRangeError: the source
            does not have the version.
        CloneFilesMissingError: files of the version are gone.
        TableExistsError, ReplacedTableMissingError: the target exists, or does not exist, in contrast to `mode`.
        PathIsNotEmptyError, PathIsFileError, CloneNestedError: the target's folder has other files, or is inside
            another table, or has one inside.
        CloneOntoItselfError: source and target are one table, and an earlier version is to be cloned.
        InvalidPropertyError, VectorsDisallowedError: the properties do not fit the source's files.
        AppendOnlyTableError: files would be removed from an append-only table.
        DeltaProtocolError: the source needs a writer feature that tahoe does not support.
        InvalidTimeTravelError: a version is asked for, but the source is not a Delta table. and for other sources than
            Delta tables those of their `snapshot`
    """
    if isinstance(source, ForeignSource):
        source.check_clone(target.url, travels=request.version is not None or request.timestamp is not None)
        return _run_clone(source.snapshot(), target, replace(request, source_name=source.name))
    source = source.keeping_commits()
    newest = source.snapshot()
    version = (
        newest
        if request.version is None and request.timestamp is None
        else source.snapshot(request.version, request.timestamp)
    )
    if _is_same_folder(source, target):
        if version.version != newest.version:
            raise CloneOntoItselfError(table=target.url, version=version.version)
        return _report(version, target)
    _check_files(version, newest)
    return _run_clone(version, target, request)


def _run_clone(source: Snapshot, target: TableReader, request: CloneRequest) -> CloneReport:
    work = _Cloning(source=source, target=target, request=request)
    committed = adopt(target, work.plan)
    return replace(work.report, version=committed)


def _is_same_folder(source: TableReader, target: TableReader) -> bool:
    return canonical_key(f"{source.url}/_", target.url) == "_"


def _report(source: Snapshot, target: TableReader) -> CloneReport:
    return CloneReport(
        table=target.url,
        version=None,
        source_version=source.version,
        source_files=len(source.live),
        source_bytes=source.live.size_bytes,
    )


def _check_files(source: Snapshot, newest: Snapshot) -> None:
    """Check that the files exist that the newest version no longer has: VACUUM may have deleted them."""
    missing = missing_since(source, newest)
    if missing:
        raise CloneFilesMissingError(table=source.url, version=source.version, count=len(missing), files=shown(missing))


@dataclass(kw_only=True)
class _Cloning:
    """A version of a table that becomes a clone, whatever the target is.

    Attributes:
        report: of the plan that was made last.
    """

    source: Snapshot
    target: TableReader
    request: CloneRequest
    report: CloneReport = field(init=False)

    def __post_init__(self) -> None:
        request = self.request
        self._files = (
            ShallowFiles(self.source) if request.is_shallow else DeepFiles(self.source, self.target, request.progress)
        )
        self._wanted: list[Add] = []

    def plan(self, newest: Snapshot | None) -> Adoption:
        """The commit that makes a clone out of the newest version of the target."""
        self._check_mode(newest)
        if newest is None:
            check_place(self.target, self._files.is_left_over)
        protocol, metadata = self._configuration(newest)
        wanted = self._wanted = self._wanted or self._files.adds()
        is_tracked = assigns_row_ids(protocol, metadata)
        if newest is None or not len(newest.live):
            removed, added, restated = list[Add](), wanted, list[Add]()
        else:
            after = LiveFiles([MemoryPart(to_table(wanted))])
            difference = file_difference(newest.log, newest.live, after)
            removed = list(entries_at(newest, difference.removed))
            added = [wanted[number] for number in difference.added]
            unnumbered = difference.with_other_row_ids(newest.live, after) if is_tracked else ()
            restated = [wanted[number].replace(data_change=False) for number in unnumbered]
            if self.source.version == NO_VERSION:
                restated += _changed_entries(entries_at(newest, difference.kept), wanted)
        if newest is not None and is_tracked and not self._may_change:
            added = with_last_row_ids(newest, added)
        if newest is not None:
            check_writable(newest.protocol, newest.metadata, table=newest.url, removes_data=bool(removed))
        copied = self._files.copy(added, newest)
        self.report = replace(
            _report(self.source, self.target),
            removed_files=len(removed),
            removed_bytes=sum(add.size_bytes for add in removed),
            copied_files=len(copied),
            copied_bytes=sum(add.size_bytes for add in copied),
        )
        return Adoption(
            protocol=protocol,
            metadata=metadata,
            domains=_domains(self.source, newest) | self._record(newest, metadata),
            txns={} if self.request.is_shallow else _txns(self.source, newest),
            removed=removed,
            added=added,
            restated=restated,
            info=self._info(),
        )

    def _record(self, newest: Snapshot | None, metadata: Metadata) -> dict[str, DomainMetadata]:
        """The record of the files that COPY INTO has loaded: that of the source for a deep clone, which goes on loading
        where the source is, and an empty one for a shallow clone.
        """
        record = copied_files(self.source.domains, self.source.metadata.id)
        if self.request.is_shallow:
            record = replace(record, parts=())
        copy_parts(self.source.log.env.store, self.target.env.store, record)
        return taken_over({} if newest is None else newest.domains, record, table_id=metadata.id)

    @property
    def _may_change(self) -> bool:
        """Whether a file may be replaced under its name, so that a path does not tell its rows."""
        return self.request.is_shallow and self.source.version == NO_VERSION

    def _check_mode(self, newest: Snapshot | None) -> None:
        if newest is None and self.request.mode == "replace":
            raise ReplacedTableMissingError(table=self.target.url)
        if newest is not None and self.request.mode == "create":
            raise TableExistsError(table=self.target.url)

    def _info(self) -> OperationInfo:
        return OperationInfo(
            operation=CLONE,
            parameters={
                "source": self.request.source_name or f"delta.`{self.source.url}`",
                "sourceVersion": self.source.version,
            },
            metrics=self.report.metrics,
            user_metadata=self.request.user_metadata,
            engine=self.request.engine,
        )

    # --- protocol and metadata

    def _configuration(self, newest: Snapshot | None) -> tuple[Protocol, Metadata]:
        """Protocol and metadata of the target. An existing target keeps its id, name and description, and goes on to
        support its own features.
        """
        source, url = self.source, self.target.url
        check_writable(source.protocol, source.metadata, table=url)
        stored, asked = self._overrides()
        configuration = {**_copied_properties(source), **stored}
        schema = source.schema if newest is None else with_identity_marks_of(newest.metadata, source.schema, table=url)
        protocol = without_catalog(source.protocol)
        if newest is not None:
            protocol = upgrade(newest.protocol, supported_features(protocol))
        protocol = upgrade_for(protocol, schema, {**configuration, **asked}, table=url)
        if newest is not None:
            configuration |= {**_kept_names(source, newest), **protection_of(newest, protocol, configuration)}
        configuration = with_materialised_columns(protocol, configuration, self.target.env.new_id, table=url)
        metadata = Metadata(
            id=self.target.env.new_id() if newest is None else newest.metadata.id,
            name=None if newest is None else newest.metadata.name,
            description=None if newest is None else newest.metadata.description,
            schema_string=source.metadata.schema_string if schema == source.schema else schema.to_json(),
            partition_columns=source.partition_columns,
            configuration=configuration,
            created_time_ms=self.target.env.clock_ms() if newest is None else newest.metadata.created_time_ms,
            format=source.metadata.format,
        )
        check_writable(protocol, metadata, table=url)
        check_partitions_in_files(source, protocol, metadata, table=url, operation=CLONE)
        self._check_vectors(protocol, metadata)
        return protocol, metadata

    def _overrides(self) -> tuple[dict[str, str], dict[str, str]]:
        """The properties that the clone stores, and those that set its protocol."""
        stored, asked = split_features(normalise(self.request.properties, table=self.target.url))
        for name, value in stored.items():
            if name.lower().startswith(CONSTRAINT) or is_key(name):
                what = "columns" if is_key(name) else "rows"
                detail = f"the {what} of the source are not checked; add the constraint to the clone with ALTER TABLE"
                raise InvalidPropertyError(property=name, table=self.target.url, value=value, detail=detail)
        check_listed(stored, self.source.schema, self.source.partition_columns, table=self.target.url)
        before = declared_mode(self.source.properties)
        if MODE in stored and declared_mode(stored) != before:
            detail = f"the files of the source have the columns of mode {before}"
            raise InvalidPropertyError(property=MODE, table=self.target.url, value=stored[MODE], detail=detail)
        return stored, asked

    def _check_vectors(self, protocol: Protocol, metadata: Metadata) -> None:
        if ENABLE_DELETION_VECTORS.name not in normalise(self.request.properties, table=self.target.url):
            return
        vectors = self.source.live.column("deletion_vector")
        if vectors.null_count < len(vectors) and not setting(ENABLE_DELETION_VECTORS, protocol, metadata.configuration):
            raise VectorsDisallowedError(table=self.target.url, count=len(vectors) - vectors.null_count)


def _changed_entries(kept: Iterable[Add], wanted: Sequence[Add]) -> Iterator[Add]:
    """The new entries of files that had others in an earlier clone. Other formats than Delta replace files under the
    same name, and rename columns whose names are those of statistics and partition values here.
    """
    by_path = {add.path: add for add in wanted}
    for old in kept:
        new = by_path[old.path]
        is_other_file = (old.size_bytes, old.modification_time_ms) != (new.size_bytes, new.modification_time_ms)
        if is_other_file or (old.stats, dict(old.partition_values)) != (new.stats, dict(new.partition_values)):
            yield new.replace(data_change=is_other_file)


def _copied_properties(source: Snapshot) -> dict[str, str]:
    """The properties of the source, without those that are about its history, its files' hidden columns, or who decides
    its commits.
    """
    own = {*MATERIALISED, PROTECTED_CHECKPOINTS_BEFORE.name, KEPT_MARKS.name}
    return {
        name: value for name, value in source.properties.items() if name not in own and not name.startswith(OF_CATALOGS)
    }


def _kept_names(source: Snapshot, newest: Snapshot) -> dict[str, str]:
    """The names of the target's hidden columns of row ids, which it keeps if no file of the source can have such a
    column.
    """
    kept = {name: newest.properties[name] for name in MATERIALISED if name in newest.properties}
    return {} if set(kept.values()) & {source.properties.get(name) for name in MATERIALISED} else kept


def _txns(source: Snapshot, newest: Snapshot | None) -> dict[str, int]:
    """The versions that applications have recorded in the source, unless they have recorded later ones in the
    target.
    """
    known = {} if newest is None else newest.txns
    return {
        app: txn.version for app, txn in source.txns.items() if app not in known or known[app].version < txn.version
    }


def _domains(source: Snapshot, newest: Snapshot | None) -> dict[str, DomainMetadata]:
    """The clustering columns, if they change. Other domains are not copied."""
    before = None if newest is None else newest.domains.get(clustering.DOMAIN)
    after = source.domains.get(clustering.DOMAIN)
    if after is None and before is not None:
        after = before.replace(removed=True)
    return {} if after is None or after == before else {clustering.DOMAIN: after}
