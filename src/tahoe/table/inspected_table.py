"""The methods of `Table` that look into a table: inspections, reports, differences of versions, and violated keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tahoe.table.arguments import NAMES, TEXTS, VERSION, takes
from tahoe.table.difference.difference import TableDifference, difference
from tahoe.table.inspection.inspector import Inspector
from tahoe.table.maintenance.table_rows import TableRows
from tahoe.table.report.report import TableReport, report
from tahoe.table.verify.keys import KeyReport, check_keys


class InspectedTable(TableRows):
    """A table that can be looked into."""

    @property
    def inspect(self) -> Inspector:
        """What looks into the table. `table.inspect.files()`, `.partitions()`, `.history()`, ... each answer an Arrow
        table.
        """
        return Inspector(self)

    @takes(version=VERSION)
    def report(self, version: int | str | None = None) -> TableReport:
        """A page about a version, with advice: `table.report().save("t.html")`. Of large tables it looks at samples,
        and says so.

        >>> table.report().save("/data/orders.html")

        Raises:
            as `snapshot`
        """
        return report(self, version)

    @takes(from_version=VERSION, to_version=VERSION, keys=NAMES)
    def diff(
        self, from_version: int | str, to_version: int | str | None = None, *, keys: Sequence[str] = ()
    ) -> TableDifference:
        """What differs between two versions: rows, columns, properties, protocol, layout and files.

        Only files that the versions do not share are read, when rows are asked for, in bounded memory; no change data
        feed is needed. Rows are matched by the keys; without keys by their ids, if both versions have row tracking; or
        else as whole rows, of which none is an update. They are compared in the columns of the later version. A column
        that the earlier version lacks, or has with a type that does not fit, is null in its rows.

        >>> table.diff(0, 1).counts
        RowCounts(inserted=3, deleted=0, updated=0)

        Args:
            from_version, to_version: versions, or names of tags; the newest version if `to_version` is None. The first
                may be the newer one.
            keys: columns that identify a row. If several rows have the same key, those that differ are matched in no
                particular order.

        Raises:
            as `snapshot`; when rows are asked for, ColumnNotFoundError: a key is not a column of both versions;
                DeltaDataError: a file is not what the log says, or VACUUM has deleted it.
        """
        return difference(self, from_version, to_version, keys)

    @takes(version=VERSION, storage_options=TEXTS)
    def check_keys(
        self, version: int | str | None = None, *, storage_options: Mapping[str, str] | None = None
    ) -> list[KeyReport]:
        """Look for rows that violate the declared keys, which no writer enforces. Reads the columns of the keys.

        >>> table.check_keys()
        []

        Args:
            storage_options: of the tables to which foreign keys refer. A table that is named in a catalog needs Spark:
                `DeltaTable.checkKeys`.

        Returns:
            for each key how many rows violate it, and examples; or why it could not be checked.

        Raises:
            as `snapshot`; InvalidPropertyError: a key cannot be read.
        """
        return check_keys(self, version, storage_options)
