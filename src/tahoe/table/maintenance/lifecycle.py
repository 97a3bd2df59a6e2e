"""The methods of `Table` that are about a whole table: RESTORE, CLONE, CONVERT TO DELTA, tags, manifests for other
engines, and the maintenance of the log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import date

import pyarrow as pa

from tahoe.errors import InvalidArgumentError, ManifestModeError
from tahoe.protocol.configuration.features import check_known
from tahoe.protocol.log.tags import Tag, tags_of
from tahoe.protocol.types.schema import Struct
from tahoe.storage import system_env
from tahoe.storage.env import Env
from tahoe.table.adoption.clone import CloneReport, CloneRequest, clone
from tahoe.table.adoption.convert import ConvertReport, ConvertRequest, convert
from tahoe.table.adoption.foreign_sources import ForeignSource, ParquetSource
from tahoe.table.adoption.iceberg_source import IcebergSource
from tahoe.table.adoption.restore import RestoreReport, RestoreRequest, restore
from tahoe.table.arguments import CALL, FLAG, LOCATION, LONG, OUTSIDE, SCHEMA, TEXT, TEXTS, TIMESTAMP, VERSION, takes
from tahoe.table.arrow.types import delta_schema
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.commit.post_commit_hooks import clean_log, compact_log
from tahoe.table.commit.symlink_manifests import MODE, ManifestReport, generate_manifests
from tahoe.table.maintenance.tags import TagReport, TagRequest, create_tag, drop_tag
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.versions.table_reader import TableReader


class TableLifecycle(TableReader):
    """A table that can be restored, cloned and converted, whose versions can have names, and whose log can be
    maintained.
    """

    @takes(
        version=VERSION,
        timestamp=TIMESTAMP,
        ignore_missing_files=FLAG,
        retention_check=FLAG,
        dry_run=FLAG,
        user_metadata=TEXT,
    )
    def restore(
        self,
        version: int | str | None = None,
        timestamp: str | date | None = None,
        *,
        ignore_missing_files: bool = False,
        retention_check: bool = True,
        dry_run: bool = False,
        user_metadata: str | None = None,
    ) -> RestoreReport:
        """Make a new version that equals an earlier one: its files, deleted rows, schema, properties and clustering
        columns.

        What was assigned is never assigned again: row ids, identity values and column ids. The protocol is not lowered.
        Versions that applications have recorded stay, so a stream does not write again what was removed. Other writers
        are not disturbed; if one of them commits first, its changes are undone as well.

        >>> table.restore(0, dry_run=True).removed_files
        1
        >>> table.restore(0).version
        2

        Args:
            version, timestamp: exactly one of them: a version or the name of a tag, or the newest version not after the
                timestamp.
            ignore_missing_files: restore also a version of which files are gone.
            retention_check: refuse a version that is older than `delta.deletedFileRetentionDuration`.
            dry_run: change nothing, and report what would be done; what is refused otherwise is refused, too.
            user_metadata: for the table's history.

        Raises:
            RestoreVersionError, RestoreTimestampTooEarlyError, RestoreTimestampTooLateError: the log does not have such
                a version.
            TagNotFoundError, TagLostError: the table has no such tag, or its version can no longer be read.
            RestoreRetentionError: the version is too old, and no tag holds it.
            RestoreBesideVacuumError: a VACUUM is at work that may delete files of the version.
            RestoreFilesMissingError: files of the version are gone.
            AppendOnlyTableError: the table is append-only, and files would be removed.
        """
        request = RestoreRequest(
            version=version,
            timestamp=timestamp,
            ignore_missing_files=ignore_missing_files,
            retention_check=retention_check,
            dry_run=dry_run,
            user_metadata=user_metadata,
        )
        return restore(self, request)

    @takes(
        target=LOCATION,
        shallow=FLAG,
        version=VERSION,
        timestamp=TIMESTAMP,
        replace=FLAG,
        properties=TEXTS,
        source_format=TEXT,
        partition_schema=SCHEMA,
        storage_options=TEXTS,
        user_metadata=TEXT,
        progress=CALL,
        env=OUTSIDE,
    )
    def clone(
        self,
        target: str | os.PathLike[str],
        *,
        shallow: bool = False,
        version: int | str | None = None,
        timestamp: str | date | None = None,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
        source_format: str = "delta",
        partition_schema: Struct | pa.Schema | None = None,
        storage_options: Mapping[str, str] | None = None,
        user_metadata: str | None = None,
        progress: Callable[[int, int], None] | None = None,
        env: Env | None = None,
    ) -> CloneReport:
        """Create an independent table with the rows of this one. Changes of one do not affect the other. A deep clone
        copies all files; repeated after an interruption, the rest; and with `replace`, what has changed since. A
        shallow clone reads this table's files, until a VACUUM of this table deletes them.

        >>> cloned = table.clone("/data/copy", shallow=True)

        Args:
            target: path or url of the clone; shallow: copy no data files.
            version, timestamp: clone an earlier version of this table, which may be named by its tag.
            replace: the target may be a table, which then gets the rows of this one and keeps its history.
            properties: of the clone, in addition to those of this table or instead of them.
            source_format: `delta`, `parquet` (files as `convert` takes them) or `iceberg` (a table's folder or metadata
                file).
            partition_schema: the partition columns of a folder of Parquet files, as in `convert`.
            storage_options, env: of the target: credentials and settings of its storage; its outside world, for tests
                and other hosts.
            user_metadata: for the clone's history; progress: called with the numbers of files that were copied and that
                are to be copied.

        Raises: those of `tahoe.table.adoption.clone.clone`, and InvalidArgumentError for another format.
        """
        request = CloneRequest(
            is_shallow=shallow,
            version=version,
            timestamp=timestamp,
            mode="create or replace" if replace else "create",
            properties=properties or {},
            user_metadata=user_metadata,
            progress=progress,
        )
        source = _clone_source(self, source_format, partition_schema)
        return clone(source, TableReader(target, env=env or system_env(target, storage_options)), request)

    @takes(partition_schema=SCHEMA, statistics=FLAG, user_metadata=TEXT)
    def convert(
        self,
        partition_schema: Struct | pa.Schema | None = None,
        *,
        statistics: bool = True,
        user_metadata: str | None = None,
    ) -> ConvertReport:
        """Make this folder of Parquet files a Delta table, in place. If it is a Delta table already, nothing is done.

        No data file is written or changed. All files below the folder belong to the table, whatever their names are,
        except those that begin with an underscore or a dot. Nothing is changed before all footers were read and all
        checks were made.

        >>> tahoe.Table("/data/parquet").convert().version
        0

        Args:
            partition_schema: the partition columns and their types, in the order of the folders `name=value`.
            statistics: take statistics from the footers, so that queries can skip files.
            user_metadata: for the table's history.

        Raises:
            EmptyFolderError: there is no data file.
            UnexpectedPartitionCountError, UnexpectedPartitionColumnError, PartitionCastFailedError: the folders do not
                fit the columns.
            UnreadableFooterError, FileSchemaMismatchError, UnsupportedDataTypeError: a file cannot be a part of the
                table.
            UnsupportedOperationError: the folder is a part of a Delta table, or contains a table.
            FilesChangedError: other programs keep changing the files.
        """
        partition = _partition_columns(self, partition_schema)
        return convert(
            self, ConvertRequest(partition_schema=partition, statistics=statistics, user_metadata=user_metadata)
        )

    @takes(
        name=TEXT,
        version=VERSION,
        timestamp=TIMESTAMP,
        expires=TIMESTAMP,
        replace=FLAG,
        retention_check=FLAG,
        user_metadata=TEXT,
    )
    def tag(
        self,
        name: str,
        version: int | str | None = None,
        timestamp: str | date | None = None,
        *,
        expires: str | date | None = None,
        replace: bool = False,
        retention_check: bool = True,
        user_metadata: str | None = None,
    ) -> TagReport:
        """Give a version a name, under which it can be read, restored and cloned. VACUUM and log cleanup keep what it
        needs.

        VACUUM and log cleanup by other writers delete it nevertheless, because only tahoe knows tags. Readers need not
        know them. The first tag adds the writer feature `domainMetadata`.

        >>> table.tag("2026-q3", expires="2031-01-01").version
        2

        Args:
            name: up to 128 letters, digits, `_`, `-` and `.`; not only digits, and not digits behind a `v`.
            version, timestamp: a version or another tag of it, or the newest version not after the timestamp; the
                newest version if both are None.
            expires: when the tag expires: from then on it protects nothing, but the name stays. Without a zone in UTC.
            replace: move the tag to this version if the name exists.
            retention_check: refuse a version that VACUUM or log cleanup may be deleting: one that is older than
                `delta.deletedFileRetentionDuration` or `delta.logRetentionDuration`, and that no other tag holds.
            user_metadata: for the table's history.

        Raises:
            InvalidTagNameError, TagExpiryError: the name or the expiry cannot be used.
            TagExistsError: the name is taken.
            VersionNotFoundError, TimestampOutOfRangeError, TagNotFoundError: there is no such version.
            TagRetentionError, TagFilesMissingError, TagBesideVacuumError: it has expired, its files are gone, or a
                VACUUM may delete them.
        """
        request = TagRequest(
            name=name,
            version=version,
            timestamp=timestamp,
            expires=expires,
            replace=replace,
            retention_check=retention_check,
            user_metadata=user_metadata,
        )
        return create_tag(self, request)

    @takes(name=TEXT, if_exists=FLAG, user_metadata=TEXT)
    def untag(self, name: str, *, if_exists: bool = False, user_metadata: str | None = None) -> int | None:
        """Drop a tag. The version stays until log cleanup and VACUUM delete it like any other.

        >>> table.untag("2026-q2", if_exists=True)

        Returns:
            the version that was committed; None if there is no such tag.

        Raises:
            TagNotFoundError: there is no such tag, and `if_exists` is false.
        """
        return drop_tag(self, name, if_exists=if_exists, user_metadata=user_metadata)

    def tags(self) -> list[Tag]:
        """The tags, oldest version first: their `name`, `version`, `created`, and `expires`, which is None if they do
        not.

        >>> [tag.name for tag in table.tags()]
        []

        Raises:
            InvalidActionError: another program has written a malformed tag. Drop it with `untag`.
        """
        return tags_of(self.snapshot().domains)

    @takes(mode=TEXT)
    def generate(self, mode: str = MODE) -> ManifestReport:
        """Write symlink manifests, which list the data files for Presto, Athena and other engines without Delta.

        They are in `_symlink_format_manifest`, one for each partition. With the table property
        `delta.compatibility.symlinkFormatManifest.enabled` each commit brings them up to date.

        >>> tahoe.Table("/data/plain").generate().version
        0

        Args:
            mode: `symlink_format_manifest`, the only one.

        Raises:
            ManifestModeError: another mode.
            ManifestsWithVectorsError, ManifestsWithColumnMappingError: readers of manifests would return wrong rows.
                Nothing was written.
        """
        if mode.lower() != MODE:
            raise ManifestModeError(table=self.url, mode=mode, supportedModes=MODE)
        return generate_manifests(self.log)

    # --- maintenance of the log

    def create_checkpoint(self) -> int:
        """Write a checkpoint of the newest version. Every `delta.checkpointInterval`-th commit does this by itself.
        Returns the version.

        >>> table.create_checkpoint()
        1

        Raises:
            UnsupportedProtocolVersionError, UnsupportedWriterFeatureError: the table has a writer feature that tahoe
                does not know: a checkpoint would lose what the feature keeps in the log.
        """
        snapshot = self._known_snapshot()
        write_checkpoint(snapshot)
        return snapshot.version

    @takes(starting_version=LONG, ending_version=LONG)
    def compact_logs(self, starting_version: int, ending_version: int) -> None:
        """Write a compacted log file for a range of commits. Readers use it instead of these commits.

        >>> table.compact_logs(0, 1)

        Raises:
            InvalidOptionError: the versions are not a range.
            MissingVersionError: the log lacks some of these commits.
            UnsupportedProtocolVersionError, UnsupportedWriterFeatureError: see `create_checkpoint`.
        """
        self._known_snapshot()  # refuses a log that may contain what tahoe does not know
        compact_log(self.log, starting_version, ending_version)

    def cleanup_metadata(self) -> int:
        """Delete the commits and checkpoints past `delta.logRetentionDuration`, up to the oldest version that a tag
        holds.

        Automatic checkpoints do this by themselves.

        >>> table.cleanup_metadata()
        0

        Returns:
            the number of deleted files.

        Raises:
            UnsupportedProtocolVersionError, UnsupportedWriterFeatureError: see `create_checkpoint`.
        """
        return len(clean_log(self._known_snapshot()))

    def _known_snapshot(self) -> Snapshot:
        """The newest version, if tahoe knows everything that its log may contain."""
        snapshot = self.snapshot()
        check_known(snapshot.protocol, table=self.url)
        return snapshot


def _partition_columns(table: TableReader, given: Struct | pa.Schema | None) -> Struct:
    columns = given if given is not None else Struct(())
    return columns if isinstance(columns, Struct) else delta_schema(columns, table=table.url)


def _clone_source(
    table: TableReader, source_format: str, partition_schema: Struct | pa.Schema | None
) -> TableReader | ForeignSource:
    """What a clone of a table is made of.

    Raises:
        InvalidArgumentError: the format is not known, or is another than Parquet and partition columns are given.
    """
    if partition_schema is not None and partition_schema.names and source_format.lower() != "parquet":
        remedy = 'Leave it out: other tables know their partition columns; or set source_format="parquet".'
        found, expected = ", ".join(partition_schema.names), f"None for a source of the format {source_format}"
        raise InvalidArgumentError(
            argument="partition_schema", table=table.url, found=found, expected=expected, remedy=remedy
        )
    name = f"{source_format}.`{table.url}`"
    match source_format.lower():
        case "delta":
            return table
        case "parquet":
            request = ConvertRequest(partition_schema=_partition_columns(table, partition_schema))
            return ParquetSource(table=table, name=name, request=request)
        case "iceberg":
            return IcebergSource.at(table, name)
    remedy = "Give the format of the table that is cloned."
    raise InvalidArgumentError(
        argument="source_format",
        table=table.url,
        found=repr(source_format),
        expected='"delta", "parquet" or "iceberg"',
        remedy=remedy,
    )
