"""The methods of `DeltaTable` that are about a whole table: RESTORE, CLONE, the protocol, and manifests for other
engines.
"""

# ruff: noqa: N802, N803, TRY004  the reference's names and errors

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

from pyspark.sql import DataFrame

from tahoe.protocol.log.tags import can_be_tag
from tahoe.spark.api.table_handle import TableHandle
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.statements.time_travel import session_moment
from tahoe.spark.layout.feature_drop import drop_feature
from tahoe.spark.maintenance.clone import CloneCommand, is_path, run_clone
from tahoe.spark.maintenance.keys import key_rows
from tahoe.spark.maintenance.restore import run_restore
from tahoe.spark.maintenance.user_command import raising_for_user, run_for_user


class DeltaTableLifecycle:
    """A table that can be restored and cloned, and whose protocol can be changed."""

    _handle: TableHandle

    def restoreToVersion(self, version: int | str) -> DataFrame:
        """Make a new version that equals an earlier one: its files, deleted rows, schema, properties and clustering
        columns.

        Row ids, identity values and column ids that were assigned since then are not assigned again. The protocol is
        not lowered.

        >>> table.restoreToVersion(0).first().num_removed_files
        1

        Args:
            version: a version, or the name of a tag.

        Returns:
            one row: `table_size_after_restore`, `num_of_files_after_restore`, `num_removed_files`,
            `num_restored_files`, `removed_files_size`, `restored_files_size`. No row if it is the newest version: then
            nothing is done.

        Raises:
            ValueError: the version is neither an int nor the name of a tag.
            RestoreVersionError: the log does not have the version.
            RestoreRetentionError: it is older than `delta.deletedFileRetentionDuration`, and
                `spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration` is not false.
            RestoreBesideVacuumError: a VACUUM is at work that may delete files of the version.
            RestoreFilesMissingError: files of the version are gone, and `spark.sql.files.ignoreMissingFiles` is not
                true.
        """
        _verify_version(version)
        return run_restore(self._handle.spark, self._handle.table, version, None)

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """Restore the newest version that was committed at a time or before it, as `restoreToVersion` does.

        >>> table.restoreToTimestamp(str(table.history().first().timestamp)).count()
        0

        Args:
            timestamp: `yyyy-MM-dd`, with or without `HH:mm:ss`; without a zone in the session's time zone.

        Raises:
            ValueError: the timestamp is not a str.
            InvalidTimeTravelError: it is not a timestamp.
            RestoreTimestampTooEarlyError, RestoreTimestampTooLateError: it is not within the time of the log's commits.
                as `restoreToVersion`
        """
        verify(timestamp, str, "timestamp", "a string")
        return run_restore(self._handle.spark, self._handle.table, None, self._moment(timestamp))

    def checkKeys(self) -> DataFrame:
        """Look for rows that violate the declared keys, which no writer enforces: one query for each key.

        >>> table.checkKeys().count()
        0

        Returns:
            a row for each key: `name`, `type`, `columns`; `violations`, the number of rows that violate it, null if it
            could not be checked; `examples` of their values; and `reason`, why it could not be checked.

        Raises:
            InvalidPropertyError: a key cannot be read.
        """
        return run_for_user(self._handle.spark, lambda: key_rows(self._handle.spark, self._handle.table))

    def generate(self, mode: str) -> None:
        """Write symlink manifests for Presto, Athena and other engines without Delta, one for each partition.

        >>> DeltaTable.forPath(spark, "/data/plain").generate("symlink_format_manifest")

        Args:
            mode: `symlink_format_manifest`, the only one.

        Raises:
            ValueError: the mode is not a str.
            ManifestModeError: another mode.
            ManifestsWithVectorsError, ManifestsWithColumnMappingError: readers of manifests would return wrong rows.
                Nothing was written.
        """
        verify(mode, str, "mode", "a string")
        run_for_user(self._handle.spark, lambda: self._handle.table.generate(mode))

    def clone(
        self, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None
    ) -> Self:
        """Create an independent table with the rows of this one. Changes of one do not affect the other.

        A deep clone has copies of all files. One that was interrupted can be repeated and copies the rest. With
        `replace`, a second one copies only what has changed since, and removes what is gone. A shallow clone reads this
        table's files, until a VACUUM of this table deletes them.

        >>> table.clone("/data/copy", isShallow=True).toDF().count()
        3

        Args:
            target: an absolute path or a url, or else a name in the session's catalog.
            isShallow: copy no data files.
            replace: the target may be a table, which then gets the rows of this one and keeps its history.
            properties: of the clone, in addition to those of this table or instead of them.

        Returns:
            the clone. (The reference's Python API returns an object of the JVM.)

        Raises:
            ValueError: an argument has the wrong type.
            TableExistsError: the target is a table, and `replace` is false.
            PathIsNotEmptyError, CloneNestedError: the target's folder has other files, is inside another table, or has
                one inside.
            CloneFilesMissingError: files of the version are gone.
        """
        return self._run_clone(target, isShallow, replace, properties)

    def cloneAtVersion(
        self,
        version: int | str,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> Self:
        """Clone a version of the table, or that of a tag, as `clone` does.

        >>> table.cloneAtVersion(0, "/data/copy", isShallow=True).toDF().count()
        0

        Raises:
            ValueError: an argument has the wrong type.
            VersionNotFoundError: the log does not have the version.
            as `clone`
        """
        _verify_version(version)
        return self._run_clone(target, isShallow, replace, properties, version=version)

    def cloneAtTimestamp(
        self,
        timestamp: str,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> Self:
        """Clone the newest version that was committed at a time or before it, as `clone` does.

        >>> table.cloneAtTimestamp(str(table.history().first().timestamp), "/data/copy", isShallow=True).toDF().count()
        3

        Raises:
            ValueError: an argument has the wrong type.
            TimestampOutOfRangeError: it is not within the time of the log's commits.
            as `clone`
        """
        verify(timestamp, str, "timestamp", "a string")
        return self._run_clone(target, isShallow, replace, properties, timestamp=self._moment(timestamp))

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Raise the table's protocol to at least these versions. It is never lowered.

        >>> table.upgradeTableProtocol(3, 7)

        Raises:
            ValueError: a version is not an int.
            InvalidPropertyError: a version does not exist.
        """
        if not isinstance(readerVersion, int):
            raise ValueError(f"The readerVersion needs to be an integer but got '{type(readerVersion)}'.")
        if not isinstance(writerVersion, int):
            raise ValueError(f"The writerVersion needs to be an integer but got '{type(writerVersion)}'.")
        self._handle.define(lambda changes: changes.upgrade_protocol(readerVersion, writerVersion))

    def addFeatureSupport(self, featureName: str) -> None:
        """Add support for a feature to the table's protocol. This alone does not enable the feature.

        >>> table.addFeatureSupport("domainMetadata")

        Raises:
            ValueError: the name is not a str.
            InvalidPropertyError: the feature does not exist.
        """
        verify(featureName, str, "featureName", "a string")
        self._handle.define(lambda changes: changes.upgrade_protocol(features=[featureName]))

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Drop a feature from the table, with all its traces, so that readers and writers without the feature can use
        the table. Earlier versions keep the feature, unless the history is truncated.

        >>> table.dropFeatureSupport("v2Checkpoint")

        Raises:
            ValueError: an argument has the wrong type.
            FeatureDropError: the feature does not exist, the table does not have it, or something in the table needs
                it.
            FeatureDropWaitsError: with `truncateHistory`: the feature is no longer used, but the history cannot be
                truncated yet.
        """
        verify(featureName, str, "featureName", "a string")
        if truncateHistory is not None:
            verify(truncateHistory, bool, "truncateHistory", "a boolean")
        run_for_user(
            self._handle.spark,
            lambda: drop_feature(self._handle.target(), featureName, truncate_history=bool(truncateHistory)),
        )

    def _moment(self, timestamp: str) -> datetime:
        handle = self._handle
        return raising_for_user(lambda: session_moment(Gateway(handle.spark))(timestamp, handle.table.url))

    def _run_clone(
        self,
        target: str,
        is_shallow: bool,
        replace: bool,
        properties: dict[str, str] | None,
        *,
        version: int | str | None = None,
        timestamp: datetime | None = None,
    ) -> Self:
        """Clone the table, at a version or a time if one is given. Returns the clone, by path or by name as the target
        is given.
        """
        _verify_clone(target, is_shallow, replace, properties)
        command = CloneCommand(
            source=self._handle.table,
            source_name=self._handle.full_name(),
            target=target,
            is_shallow=is_shallow,
            mode="create or replace" if replace else "create",
            version=version,
            timestamp=timestamp,
            properties=properties or {},
        )
        run_clone(self._handle.spark, command)
        kind: Any = type(self)
        clone: Self = (
            kind.forPath(self._handle.spark, target) if is_path(target) else kind.forName(self._handle.spark, target)
        )
        return clone


def verify(value: object, kind: type, name: str, wanted: str) -> None:
    """Check an argument's type, with the reference's error message."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} needs to be {wanted} but got '{type(value)}'.")


def _verify_version(version: object) -> None:
    """Check that it is a version or the name of a tag. As in the reference, the digits of a version are not one."""
    if not (isinstance(version, str) and can_be_tag(version)):
        verify(version, int, "version", "an int")


def _verify_clone(target: object, is_shallow: object, replace: object, properties: Mapping[str, str] | None) -> None:
    verify(target, str, "target", "a string")
    verify(is_shallow, bool, "isShallow", "a boolean")
    verify(replace, bool, "replace", "a boolean")
    if properties is not None:
        verify(properties, dict, "properties", "a dict")
        for name, value in properties.items():
            verify(name, str, f"All property keys including {name}", "a string")
            verify(value, str, f"All property values including {value}", "a string")
