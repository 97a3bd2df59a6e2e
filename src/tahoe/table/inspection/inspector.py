"""`Table.inspect`: looks into a table. Each method answers an Arrow table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import pyarrow as pa

from tahoe.table.arguments import TIMESTAMP, VERSION, takes
from tahoe.table.inspection.files import FILES, PARTITIONS
from tahoe.table.inspection.inspection import Inspection
from tahoe.table.inspection.versions import HISTORY, SIZES
from tahoe.table.reading.table_reader import TableReader

# By name, as documentation and help list them.
INSPECTIONS: Mapping[str, Inspection] = {found.name: found for found in (FILES, PARTITIONS, HISTORY, SIZES)}


class Inspector:
    """Looks into a table, in its newest version, or in the version or at the time that is given.

    The guide lists the columns of each answer. Sizes are in bytes, times are timestamps in UTC with milliseconds.

    Every method raises:
        TableNotFoundError, NotADeltaTableError: there is no table.
        VersionNotFoundError, TimestampOutOfRangeError, InvalidTimeTravelError: there is no such version.
    """

    def __init__(self, table: TableReader) -> None:
        self._table = table

    @property
    def url(self) -> str:
        """The table's location."""
        return self._table.url

    def __repr__(self) -> str:
        return f"{self._table!r}.inspect"

    @takes(version=VERSION, timestamp=TIMESTAMP)
    def files(self, version: int | None = None, timestamp: str | date | None = None) -> pa.Table:
        """The data files, with sizes, partition values and row counts."""
        return self._look(FILES, version, timestamp)

    @takes(version=VERSION, timestamp=TIMESTAMP)
    def partitions(self, version: int | None = None, timestamp: str | date | None = None) -> pa.Table:
        """The partitions that have files, with the totals of their files; a table without partitions is one."""
        return self._look(PARTITIONS, version, timestamp)

    @takes(version=VERSION, timestamp=TIMESTAMP)
    def history(self, version: int | None = None, timestamp: str | date | None = None) -> pa.Table:
        """The commits up to the version, newest first."""
        return self._look(HISTORY, version, timestamp)

    @takes(version=VERSION, timestamp=TIMESTAMP)
    def sizes(self, version: int | None = None, timestamp: str | date | None = None) -> pa.Table:
        """The size of each version up to this one that can be read, oldest first."""
        return self._look(SIZES, version, timestamp)

    def _look(self, inspection: Inspection, version: int | None, timestamp: str | date | None) -> pa.Table:
        return inspection.of(self._table.snapshot(version, timestamp))
