"""A stream that tracks its schema: where it stops for a change, and how the change gets into the log.

A change of the metadata or protocol is a barrier between batches. When the batch that ends there is complete, the
change is written to the log and the query fails; started again, it reads on with the new schema. The reference does the
same, at the same offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tahoe.errors import SchemaLogStartError, StreamSchemaEvolvedError, StreamStartGoneError, VersionNotFoundError
from tahoe.protocol.configuration.features import supported_features
from tahoe.protocol.log.actions import Action, Add, Cdc, Metadata, Protocol, Remove, encode_action
from tahoe.protocol.log.log_files import Kind
from tahoe.protocol.streams.stream_schema import SchemaRules, obstacle
from tahoe.protocol.streams.tracked_schema import TrackedSchema, entry_of, is_change, merged
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tahoe.table.streams.schema_log import SchemaLog


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
            found, other = _changed(start.log.read_version(version))
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
        metadata, protocol = _changed(self._newest.log.read_version(version))
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


def _changed(actions: Sequence[Action]) -> tuple[Metadata | None, Protocol | None]:
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
        if _changed(actions) == (None, None) or any(isinstance(a, Add | Remove | Cdc) for a in actions):
            break
        changes.append((file.version, actions))
    if len(changes) > 1:
        schema_log.add(merged(entry, changes), replaces=True)
