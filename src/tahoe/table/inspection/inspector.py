"""`Table.inspect`: looks into a table. Each method answers an Arrow table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import pyarrow as pa

from tahoe.table.arguments import TIMESTAMP, VERSION, takes
from tahoe.table.calls import of_objects
from tahoe.table.inspection.configuration import CONSTRAINTS, DOMAINS, FEATURES, PROPERTIES, TAGS, TXNS
from tahoe.table.inspection.files import FILES, PARTITIONS, STATISTICS, VECTORS
from tahoe.table.inspection.inspection import Inspection
from tahoe.table.inspection.row_groups import ROW_GROUPS
from tahoe.table.inspection.versions import HISTORY, SIZES
from tahoe.table.versions.table_reader import TableReader

# By name, as documentation and help list them.
INSPECTIONS: Mapping[str, Inspection] = {
    found.name: found
    for found in (
        FILES,
        PARTITIONS,
        STATISTICS,
        VECTORS,
        ROW_GROUPS,
        HISTORY,
        SIZES,
        PROPERTIES,
        FEATURES,
        CONSTRAINTS,
        TXNS,
        DOMAINS,
        TAGS,
    )
}


@of_objects("table.inspect")
class Inspector:
    """Looks into a table, in its newest version, or in the version or at the time that is given.

    docs/inspect.md lists the columns of each answer. Sizes are in bytes, times are timestamps in UTC with milliseconds.

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
    def files(self, version: int | str | None = None, timestamp: str | date | None = None) -> pa.Table:
        """The data files, with sizes, partition values and row counts."""
        return self._look(FILES, version, timestamp)

    @takes(version=VERSION, timestamp=TIMESTAMP)
    def partitions(self, version: int | str | None = None, timestamp: str | date | None = None) -> pa.Table:
        """The partitions that have files, with the totals of their files; a table without partitions is one."""
        return self._look(PARTITIONS, version, timestamp)

    @takes(version=VERSION, timestamp=TIMESTAMP)
    def statistics(self, version: int | str | None = None, timestamp: str | date | None = None) -> pa.Table:
        """The statistics of the data files: for each column the number of nulls, and typed bounds."""
        return self._look(STATISTICS, version, timestamp)

    @takes(version=VERSION, timestamp=TIMESTAMP)
    def vectors(self, version: int | str | None = None, timestamp: str | date | None = None) -> pa.Table:
        """The data files with a deletion vector, and where these are."""
        return self._look(VECTORS, version, timestamp)

    @takes(version=VERSION, timestamp=TIMESTAMP)
    def row_groups(self, version: int | str | None = None, timestamp: str | date | None = None) -> pa.Table:
        """The row groups of the data files. Reads all footers.

        Raises:
            DataFileMissingError, InvalidDataFileError: a file does not exist, or is not a Parquet file.
        """
        return self._look(ROW_GROUPS, version, timestamp)

    @takes(version=VERSION, timestamp=TIMESTAMP)
    def history(self, version: int | str | None = None, timestamp: str | date | None = None) -> pa.Table:
        """The commits up to the version, newest first."""
        return self._look(HISTORY, version, timestamp)

    @takes(version=VERSION, timestamp=TIMESTAMP)
    def sizes(self, version: int | str | None = None, timestamp: str | date | None = None) -> pa.Table:
        """The size of each version up to this one that can be read, oldest first."""
        return self._look(SIZES, version, timestamp)

    @takes(version=VERSION, timestamp=TIMESTAMP)
    def properties(self, version: int | str | None = None, timestamp: str | date | None = None) -> pa.Table:
        """The table properties: those that the table sets, and then the others with their defaults."""
        return self._look(PROPERTIES, version, timestamp)

    @takes(version=VERSION, timestamp=TIMESTAMP)
    def features(self, version: int | str | None = None, timestamp: str | date | None = None) -> pa.Table:
        """The table features that the table supports, and which of them it uses."""
        return self._look(FEATURES, version, timestamp)

    @takes(version=VERSION, timestamp=TIMESTAMP)
    def constraints(self, version: int | str | None = None, timestamp: str | date | None = None) -> pa.Table:
        """The declared keys, and the CHECK constraints."""
        return self._look(CONSTRAINTS, version, timestamp)

    @takes(version=VERSION, timestamp=TIMESTAMP)
    def txns(self, version: int | str | None = None, timestamp: str | date | None = None) -> pa.Table:
        """The applications that number their writes, such as streaming queries, with the last number of each."""
        return self._look(TXNS, version, timestamp)

    @takes(version=VERSION, timestamp=TIMESTAMP)
    def domains(self, version: int | str | None = None, timestamp: str | date | None = None) -> pa.Table:
        """The metadata domains."""
        return self._look(DOMAINS, version, timestamp)

    @takes(version=VERSION, timestamp=TIMESTAMP)
    def tags(self, version: int | str | None = None, timestamp: str | date | None = None) -> pa.Table:
        """The tags, oldest version first. The newest version has all tags that there are."""
        return self._look(TAGS, version, timestamp)

    def _look(self, inspection: Inspection, version: int | str | None, timestamp: str | date | None) -> pa.Table:
        return inspection.of(self._table.snapshot(version, timestamp))
