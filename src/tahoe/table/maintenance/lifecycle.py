"""The methods of `Table` that are about a whole table: RESTORE."""

from __future__ import annotations

from datetime import date

from tahoe.table.arguments import FLAG, TEXT, TIMESTAMP, VERSION, takes
from tahoe.table.maintenance.restore import RestoreReport, RestoreRequest, restore
from tahoe.table.reading.table_reader import TableReader


class TableLifecycle(TableReader):
    """A table that can be restored."""

    @takes(version=VERSION, timestamp=TIMESTAMP, ignore_missing_files=FLAG, retention_check=FLAG, user_metadata=TEXT)
    def restore(
        self,
        version: int | None = None,
        timestamp: str | date | None = None,
        *,
        ignore_missing_files: bool = False,
        retention_check: bool = True,
        user_metadata: str | None = None,
    ) -> RestoreReport:
        """Make a new version that equals an earlier one: its files, deleted rows, schema, properties and clustering columns.

        What was assigned is never assigned again: row ids, identity values and column ids. The protocol is not lowered. Versions that
        applications have recorded stay, so a stream does not write again what was removed. Other writers are not disturbed; if one of
        them commits first, its changes are undone as well.

        Args:
            version, timestamp: exactly one of them; the newest version not after the timestamp.
            ignore_missing_files: restore also a version of which files are gone.
            retention_check: refuse a version that is older than `delta.deletedFileRetentionDuration`.
            user_metadata: for the table's history.

        Raises:
            RestoreVersionError, RestoreTimestampTooEarlyError, RestoreTimestampTooLateError: the log does not have such a version.
            RestoreRetentionError: the version is too old.
            RestoreFilesMissingError: files of the version are gone.
            AppendOnlyTableError: the table is append-only, and files would be removed.
        """
        request = RestoreRequest(
            version=version,
            timestamp=timestamp,
            ignore_missing_files=ignore_missing_files,
            retention_check=retention_check,
            user_metadata=user_metadata,
        )
        return restore(self, request)
