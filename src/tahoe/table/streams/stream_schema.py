"""The schema with which a stream reads, and what happens where the table's schema changes. The rules are in
`protocol.streams.stream_schema`.

In a stream that tracks its schema, a change of the metadata or protocol is a barrier between batches. When the batch
that ends there is complete, the change is written to the log and the query fails; started again, it reads on with the
new schema. The reference does the same, at the same offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tahoe.errors import (
    DeltaError,
    DeltaStorageError,
    OtherTableInStreamError,
    SchemaLocationConflictError,
    SchemaLogOtherTableError,
    SchemaLogStartError,
    StreamSchemaChangedError,
    StreamSchemaEvolvedError,
    StreamSchemaUntrackedError,
    StreamStartGoneError,
    StreamStartSchemaChangedError,
    StreamStartUncheckedError,
    VersionNotFoundError,
)
from tahoe.protocol.configuration.column_mapping import declared_mode
from tahoe.protocol.configuration.features import supported_features
from tahoe.protocol.log.actions import Action, Add, Cdc, Metadata, Protocol, Remove, encode_action
from tahoe.protocol.log.log_files import Kind
from tahoe.protocol.streams.stream_offset import AFTER_SCHEMA_CHANGE, SCHEMA_CHANGE, StreamOffset
from tahoe.protocol.streams.stream_schema import (
    Obstacle,
    Remedy,
    SchemaRules,
    TrackedSchema,
    entry_of,
    first_retyped,
    is_change,
    merged,
    obstacle,
    parse_entry,
)
from tahoe.storage.env import Store
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot, load_snapshot

# --- the log: numbered files in a folder, each of which is created once


def schema_log_folder(location: str, table_id: str, tracking_id: str | None) -> str:
    """The url of a stream's log below the location that the user gave."""
    return f"{location.rstrip('/')}/_schema_log_{table_id}" + (f"_{tracking_id}" if tracking_id is not None else "")


class SchemaLog:
    """The log of one stream, as it was when it was opened, with what this object has added.

    Args:
        store: the log's folder.
        table: the url of the table, for errors.

    Raises:
        SchemaLogUnreadableError: the last entry cannot be read.
        SchemaLogOtherTableError: the log is of another table than the one with `table_id`.
    """

    def __init__(self, store: Store, table_id: str, table: str) -> None:
        self._store = store
        self._table = table
        names = [info.key for info in store.list_from("")]
        self._number = max((int(name) for name in names if name.isascii() and name.isdigit()), default=-1)
        self.current = self._read(self._number)
        if self.current is not None and self.current.table_id != table_id:
            raise SchemaLogOtherTableError(
                location=store.url, table=table, persistedId=self.current.table_id, tableId=table_id
            )

    @property
    def url(self) -> str:
        return self._store.url

    def _read(self, number: int) -> TrackedSchema | None:
        if number < 0:
            return None
        try:
            return parse_entry(self._store.get(str(number)), f"{self.url}/{number}")
        except FileNotFoundError:
            return None

    @property
    def _previous_number(self) -> int:
        known = None if self.current is None else self.current.previous
        return self._number - 1 if known is None else known

    def previous(self) -> TrackedSchema | None:
        """The entry with which the stream has read before the current one; None if there is none."""
        return self._read(self._previous_number)

    def add(self, entry: TrackedSchema, *, replaces: bool = False) -> None:
        """Add an entry, which becomes the current one.

        Args:
            replaces: the stream has read nothing with the current entry, so the entry before it remains the previous
                one.

        Raises:
            SchemaLocationConflictError: another stream has added one meanwhile.
        """
        if replaces and self.current is not None:
            entry = replace(entry, previous=self._previous_number)
        if entry == self.current:
            return
        name, data = str(self._number + 1), entry.to_bytes()
        if not self._store.put_if_absent(name, data) and self._store.get(name) != data:
            raise SchemaLocationConflictError(loc=self.url, table=self._table, detail=f"the file {name} exists")
        self._number, self.current = self._number + 1, entry

    def check_source(self, source_path: str) -> None:
        """
        Args:
            source_path: the folder of the source in the query's checkpoint.

        Raises:
            SchemaLocationConflictError: the log belongs to another source.
        """
        if self.current is not None and self.current.source_path != source_path:
            detail = f"it belongs to the source {self.current.source_path}, not to {source_path}"
            raise SchemaLocationConflictError(loc=self.url, table=self._table, detail=detail)


# --- where a stream that tracks its schema stops


class SchemaTracker:
    """The schema of a running query and its log.

    Args:
        read: a version whose schema the query has if the log is empty.
        newest: the newest version when the query was started.
        source_path: the folder of the source in the query's checkpoint.
    """

    def __init__(self, log: SchemaLog, read: Snapshot, newest: Snapshot, source_path: str) -> None:
        self._log = log
        self._newest = newest.without_files()
        self._source_path = source_path
        self._from_version = -1 if log.current is None else log.current.version
        self.snapshot = read.without_files() if log.current is None else with_tracked(self._newest, log.current)

    @property
    def has_begun(self) -> bool:
        """Whether the log has an entry."""
        return self._log.current is not None

    def is_change(self, version: int, metadata: Metadata | None, protocol: Protocol | None) -> bool:
        """Whether the stream must stop before a version with these actions."""
        if version <= self._from_version:
            return False  # several changes in a row were merged into the one that the query has
        return is_change(self.snapshot.metadata, self.snapshot.protocol, metadata, protocol)

    def begin(self, first: int, last: int | None) -> None:
        """Write the first entry, for the version where the stream begins.

        Args:
            last: the last version of a batch that is already planned; None if there is none.

        Raises:
            StreamSchemaEvolvedError: the query has another schema.
            SchemaLogStartError: the batch that is already planned has no common schema.
            SchemaLocationConflictError: see `SchemaLog.add`.
        """
        start = self._load(first)
        metadata, protocol = start.metadata, start.protocol
        if last is not None and last > start.version:
            metadata, protocol = self._common(start, last)
        self._add(start.version if last is None else max(last, start.version), metadata, protocol)

    def _common(self, start: Snapshot, last: int) -> tuple[Metadata, Protocol]:
        """The metadata and protocol with which all versions of a batch can be read."""
        metadata, protocol = start.metadata, start.protocol
        earlier: list[Metadata] = []
        for version in range(start.version, last + 1):
            found, other = _definition_in(start.log.read_version(version))
            if found is not None:
                earlier, metadata = [*earlier, metadata], found
            if other is not None:
                if not supported_features(protocol) <= supported_features(other):
                    raise SchemaLogStartError(
                        table=start.url, a=start.version, b=last, reason=f"version {version} drops a table feature"
                    )
                protocol = other
        for known in earlier:
            found_obstacle = obstacle(metadata, known, SchemaRules(widens=False), is_older=True)
            if found_obstacle is not None:
                raise SchemaLogStartError(table=start.url, a=start.version, b=last, reason=found_obstacle.changed)
        return metadata, protocol

    def check_initial(self, version: int) -> None:
        """Called before the rows of a version are read as a whole.

        Raises:
            StreamSchemaEvolvedError: its schema is another than the query's.
        """
        if version >= max(self._from_version, 0):
            found = self._load(version)
            if self.is_change(version, found.metadata, found.protocol):
                self._add(version, found.metadata, found.protocol, replaces=True)

    def evolve(self, version: int) -> None:
        """Called when everything before the change in a version is processed.

        Raises:
            StreamSchemaEvolvedError: the change is in the log now.
            SchemaLocationConflictError: see `SchemaLog.add`.
        """
        metadata, protocol = _definition_in(self._newest.log.read_version(version))
        if self.is_change(version, metadata, protocol):
            self._add(version, metadata or self.snapshot.metadata, protocol or self.snapshot.protocol)

    def _add(self, version: int, metadata: Metadata, protocol: Protocol, *, replaces: bool = False) -> None:
        self._log.add(entry_of(version, metadata, protocol, self._source_path), replaces=replaces)
        if self.is_change(version, metadata, protocol):
            raise StreamSchemaEvolvedError(
                table=self._newest.url,
                version=version,
                schema=str(metadata.schema),
                config=", ".join(f"{name}:{value}" for name, value in metadata.configuration.items()) or "none",
                protocol=encode_action(protocol).decode(),
            )

    def _load(self, version: int) -> Snapshot:
        if version >= self._newest.version:
            return self._newest
        try:
            return load_snapshot(self._newest.log, version)
        except (VersionNotFoundError, FileNotFoundError) as error:
            raise StreamStartGoneError(table=self._newest.url, version=version, reason=str(error)) from error


def with_tracked(snapshot: Snapshot, entry: TrackedSchema) -> Snapshot:
    """A version of the table with a tracked schema."""
    return replace(snapshot, metadata=entry.metadata(snapshot.metadata), protocol=entry.protocol or snapshot.protocol)


def _definition_in(actions: Sequence[Action]) -> tuple[Metadata | None, Protocol | None]:
    metadata = next((a for a in actions if isinstance(a, Metadata)), None)
    return metadata, next((a for a in actions if isinstance(a, Protocol)), None)


def merge_next(schema_log: SchemaLog, log: Log) -> None:
    """Go on to the last of several changes in a row that have no rows between them, so that a query is not started
    again for each.

    Raises:
        SchemaLocationConflictError: see `SchemaLog.add`.
    """
    entry = schema_log.current
    if entry is None:
        return
    changes: list[tuple[int, list[Action]]] = []
    for file in sorted((f for f in log.list_files(entry.version) if f.kind is Kind.COMMIT), key=lambda f: f.version):
        if file.version != entry.version + len(changes):
            break
        actions = log.read(file)
        if _definition_in(actions) == (None, None) or any(isinstance(a, Add | Remove | Cdc) for a in actions):
            break
        changes.append((file.version, actions))
    if len(changes) > 1:
        schema_log.add(merged(entry, changes), replaces=True)


# --- the schema of a stream

_WIDENING = {"typeWidening", "typeWidening-preview"}

_REMEDIES = {
    Remedy.NEW_DATAFRAME: (
        "Start the query again, with a new DataFrame and the same checkpoint: it then reads the new schema."
    ),
    Remedy.NEW_CHECKPOINT: "Begin with a new checkpoint: the rows before and after this version have no common schema.",
}


class StreamSchema:
    """The schema of a stream.

    Args:
        snapshot: the version whose schema the stream has.
        newest: the newest version when the query was started.
        has_start: whether the user gave the stream's start.
        tracker: of a stream that tracks its schema.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        rules: SchemaRules,
        newest: Snapshot,
        *,
        has_start: bool = False,
        tracker: SchemaTracker | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._widens = not _WIDENING.isdisjoint(supported_features(snapshot.protocol))
        self._newest = newest
        self._has_start = has_start
        self._tracker = tracker

    @property
    def is_tracked(self) -> bool:
        return self._tracker is not None and self._tracker.has_begun

    def committed(self, end: StreamOffset) -> None:
        """Called when everything up to an offset is processed.

        Raises:
            StreamSchemaEvolvedError: the stream is at a change, which is in the log now.
        """
        if self._tracker is not None and self.is_tracked and end.index in (SCHEMA_CHANGE, AFTER_SCHEMA_CHANGE):
            self._tracker.evolve(end.version)

    def check_initial(self, version: int) -> None:
        """Called before the rows of a version are read as a whole. Raises: see `SchemaTracker.check_initial`."""
        if self._tracker is not None and self.is_tracked:
            self._tracker.check_initial(version)

    def meet(self, version: int, metadata: Metadata | None, protocol: Protocol | None) -> bool:
        """Called for the metadata and protocol of each commit that the stream reads.

        Returns:
            whether the stream stops before the files of the commit, until its schema is that of the commit.

        Raises:
            StreamSchemaChangedError, StreamSchemaUntrackedError, OtherTableInStreamError: see `check`.
        """
        if self._tracker is not None and self.is_tracked:
            self._check_table(metadata)
            return self._tracker.is_change(version, metadata, protocol)
        if metadata is not None:
            self.check(version, metadata)
        return False

    def begin(self, version: int, last: int | None = None) -> None:
        """Compare the schema at the version where the stream begins with the stream's; or begin to track it. Later
        versions: see `meet`.

        Args:
            last: the last version of a batch that is already planned.

        Raises:
            StreamStartUncheckedError: the version cannot be loaded, and the table has column mapping.
            StreamSchemaChangedError, StreamSchemaUntrackedError, OtherTableInStreamError: see `check`.
            DeltaError: see `SchemaTracker.begin`.
        """
        version = min(version, self._newest.version)
        if self._tracker is not None:
            if not self._tracker.has_begun:
                self._tracker.begin(version, last)
        elif version != self._snapshot.version and (found := self._load(version)) is not None:
            self.check(version, found.metadata, is_start=True)

    def _load(self, version: int) -> Snapshot | None:
        """A version; None if it cannot be loaded and its schema need not be known: commits are compared in any case."""
        if version == self._newest.version:
            return self._newest
        try:
            return load_snapshot(self._snapshot.log, version)
        except DeltaStorageError:
            raise
        except (DeltaError, FileNotFoundError) as error:
            if declared_mode(self._snapshot.metadata.configuration) == "none" or self._rules.reads_moved_columns:
                return None
            url, setting = self._snapshot.url, self._rules.moved_columns_setting
            raise StreamStartUncheckedError(table=url, version=version, reason=str(error), config=setting) from error

    def check(self, version: int, metadata: Metadata, *, is_start: bool = False) -> None:
        """Whether rows that were written with a version's metadata can be read with the stream's schema.

        Raises:
            OtherTableInStreamError: the metadata is that of another table.
            StreamSchemaChangedError: they cannot.
            StreamSchemaUntrackedError: they could if the stream tracked its schema.
        """
        read = self._snapshot
        self._check_table(metadata)
        is_older = version < read.version
        found = obstacle(
            read.metadata, metadata, self._rules, is_older=is_older, widens=self._widens, is_start=is_start
        )
        if found is not None:
            raise self._error(version, metadata, found)

    def check_removed(self, version: int, metadata: Metadata) -> None:
        """Whether a feed that begins behind a version can read the rows of that version which the next commit removes.
        A RESTORE may remove rows of a wider type.

        Raises:
            StreamSchemaChangedError: it cannot.
        """
        retyped = None if self.is_tracked else first_retyped(metadata.schema, self._snapshot.schema, self._rules)
        if retyped is not None:
            changed = f"{retyped}, and version {version + 1} removes such rows"
            raise self._error(version, metadata, Obstacle(Remedy.NEW_CHECKPOINT, changed))

    def _check_table(self, metadata: Metadata | None) -> None:
        known = self._snapshot.metadata.id
        if metadata is not None and metadata.id != known:
            raise OtherTableInStreamError(table=self._snapshot.url, oldTableId=known, newTableId=metadata.id)

    def _error(self, version: int, metadata: Metadata, found: Obstacle) -> DeltaError:
        url, here, there = self._snapshot.url, str(self._snapshot.schema), str(metadata.schema)
        if found.remedy is Remedy.TRACKING:
            return StreamSchemaUntrackedError(
                table=url, version=version, changed=found.changed, readSchema=here, incompatibleSchema=there
            )
        kind = StreamStartSchemaChangedError if self._has_start else StreamSchemaChangedError
        remedy = _REMEDIES[found.remedy]
        return kind(table=url, version=version, changed=found.changed, readSchema=here, dataSchema=there, remedy=remedy)
