"""The schema with which a stream reads, and what happens where the table's schema changes. The rules are in `protocol.stream_schema`."""

from __future__ import annotations

from tahoe.errors import (
    DeltaError,
    DeltaStorageError,
    OtherTableInStreamError,
    StreamSchemaChangedError,
    StreamSchemaUntrackedError,
    StreamStartSchemaChangedError,
    StreamStartUncheckedError,
)
from tahoe.protocol.actions import Metadata
from tahoe.protocol.column_mapping import declared_mode
from tahoe.protocol.features import supported_features
from tahoe.protocol.stream_schema import Obstacle, Remedy, SchemaRules, obstacle
from tahoe.table.reading.snapshot import Snapshot, load_snapshot

READS_MOVED_COLUMNS = "spark.databricks.delta.streaming.unsafeReadOnIncompatibleColumnMappingSchemaChanges.enabled"

_WIDENING = {"typeWidening", "typeWidening-preview"}

_REMEDIES = {
    Remedy.NEW_DATAFRAME: "Start the query again, with a new DataFrame and the same checkpoint: it then reads the new schema.",
    Remedy.NEW_CHECKPOINT: "Begin with a new checkpoint: the rows before and after this version have no common schema.",
}


class StreamSchema:
    """The schema of a stream.

    Args:
        snapshot: the version whose schema the stream has.
        newest: the newest version when the query was started.
        has_start: whether the user gave the stream's start.
    """

    def __init__(self, snapshot: Snapshot, rules: SchemaRules, newest: Snapshot, *, has_start: bool = False) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._widens = not _WIDENING.isdisjoint(supported_features(snapshot.protocol))
        self._newest = newest
        self._has_start = has_start

    def meet(self, version: int, metadata: Metadata | None) -> None:
        """Called for the metadata of each commit that the stream reads.

        Raises:
            StreamSchemaChangedError, StreamSchemaUntrackedError, OtherTableInStreamError: see `check`.
        """
        if metadata is not None:
            self.check(version, metadata)

    def begin(self, version: int) -> None:
        """Compare the schema at the version where the stream begins with the stream's. Later versions are compared by `meet`.

        Raises:
            StreamStartUncheckedError: the version cannot be loaded, and the table has column mapping.
            StreamSchemaChangedError, StreamSchemaUntrackedError, OtherTableInStreamError: see `check`.
        """
        version = min(version, self._newest.version)
        if version != self._snapshot.version and (found := self._load(version)) is not None:
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
            url, reason = self._snapshot.url, str(error)
            raise StreamStartUncheckedError(table=url, version=version, reason=reason, config=READS_MOVED_COLUMNS) from error

    def check(self, version: int, metadata: Metadata, *, is_start: bool = False) -> None:
        """Whether rows that were written with a version's metadata can be read with the stream's schema.

        Raises:
            OtherTableInStreamError: the metadata is that of another table.
            StreamSchemaChangedError: they cannot.
            StreamSchemaUntrackedError: they could if the stream tracked its schema.
        """
        read = self._snapshot
        if metadata.id != read.metadata.id:
            raise OtherTableInStreamError(table=read.url, oldTableId=read.metadata.id, newTableId=metadata.id)
        is_older = version < read.version
        found = obstacle(read.metadata, metadata, self._rules, is_older=is_older, widens=self._widens, is_start=is_start)
        if found is not None:
            raise self._error(version, metadata, found)

    def _error(self, version: int, metadata: Metadata, found: Obstacle) -> DeltaError:
        url, here, there = self._snapshot.url, str(self._snapshot.schema), str(metadata.schema)
        if found.remedy is Remedy.TRACKING:
            return StreamSchemaUntrackedError(table=url, version=version, changed=found.changed, readSchema=here, incompatibleSchema=there)
        kind = StreamStartSchemaChangedError if self._has_start else StreamSchemaChangedError
        remedy = _REMEDIES[found.remedy]
        return kind(table=url, version=version, changed=found.changed, readSchema=here, dataSchema=there, remedy=remedy)
