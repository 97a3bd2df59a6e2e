"""The schema with which a stream reads, and what happens where the table's schema changes. The rules are in
`protocol.stream_schema`.
"""

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
from tahoe.protocol.configuration.column_mapping import declared_mode
from tahoe.protocol.configuration.features import supported_features
from tahoe.protocol.log.actions import Metadata, Protocol
from tahoe.protocol.streams.stream_offset import AFTER_SCHEMA_CHANGE, SCHEMA_CHANGE, StreamOffset
from tahoe.protocol.streams.stream_schema import Obstacle, Remedy, SchemaRules, first_retyped, obstacle
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tahoe.table.streams.schema_tracking import SchemaTracker

READS_MOVED_COLUMNS = "spark.databricks.delta.streaming.unsafeReadOnIncompatibleColumnMappingSchemaChanges.enabled"

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
            url, reason = self._snapshot.url, str(error)
            raise StreamStartUncheckedError(
                table=url, version=version, reason=reason, config=READS_MOVED_COLUMNS
            ) from error

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
