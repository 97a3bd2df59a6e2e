"""What the log says of each of a scan's files, for answers and limits.

Protocol: "Per-file Statistics", "Deletion Vectors". Here null is unknown, so that Arrow's null propagates.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from tahoe._cached import cached_property
from tahoe.protocol.statistics.answers import exception_to
from tahoe.protocol.statistics.stats import Path
from tahoe.protocol.types.predicate import Predicate
from tahoe.table.arrow.chunks import one_array
from tahoe.table.arrow.statistics import StatisticsRequest, column_name
from tahoe.table.reading.scan import Scan, may_match, statistics_of
from tahoe.table.reading.skipping import types_of


class Facts:
    """What the log says of a scan's files. Arrays have one value per file; null is unknown."""

    def __init__(self, scan: Scan, paths: Iterable[Path]) -> None:
        self.scan = scan
        self._paths = frozenset(paths)

    @cached_property
    def _statistics(self) -> pa.Table:
        return statistics_of(self.scan, StatisticsRequest(types_of(self.scan.snapshot, self._paths)))

    def statistic(self, kind: str, path: Path = ()) -> pa.Array:
        return one_array(self._statistics.column(column_name(kind, path)))

    def has_no_bounds(self, path: Path) -> pa.Array:
        """Whether a data column has neither minimum nor maximum, as one without values must."""
        names = {column_name(kind, path) for kind in ("min", "max")} & {*self._statistics.column_names}
        nothing = pa.repeat(pa.scalar(True), self.scan.kept_files)
        return reduce(pc.and_, (one_array(self._statistics.column(name).is_null()) for name in names), nothing)

    @cached_property
    def stored(self) -> pa.Array:
        """The number of rows in the data file."""
        counts = one_array(self.scan.num_records)
        return only_where(pc.greater_equal(counts, 0), counts)

    @cached_property
    def live(self) -> pa.Array:
        """The number of rows that no deletion vector marks."""
        rows = pc.subtract(self.stored, one_array(self.scan.deleted_records))
        return only_where(pc.greater_equal(rows, 0), rows)

    @cached_property
    def is_empty(self) -> pa.Array:
        return certainly(pc.equal(self.live, 0))

    @cached_property
    def is_exact(self) -> pa.Array:
        """Whether the statistics are about exactly the rows that are there."""
        has_vector = one_array(self.scan.column("deletion_vector").is_valid())
        return pc.and_(pc.invert(has_vector), pc.fill_null(self.statistic("tight_bounds"), True))

    def present(self, path: Path) -> pa.Array:
        """The number of live rows in which a data column is not null."""
        stored, nulls = self.stored, self.statistic("null_count", path)
        is_sound = pc.and_(pc.greater_equal(nulls, 0), pc.less_equal(nulls, stored))
        nulls = only_where(pc.and_(is_sound, pc.or_(pc.less(nulls, stored), self.has_no_bounds(path))), nulls)
        some = only_where(self.is_exact, pc.subtract(stored, nulls))
        return pc.case_when(
            pc.make_struct(certainly(pc.equal(nulls, 0)), certainly(pc.equal(nulls, stored))),
            self.live,
            pa.scalar(0, pa.int64()),
            some,
        )

    def partition(self, name: str) -> pa.Array:
        """The values of a partition column, of which null is not unknown."""
        values = self.scan.partition
        return one_array(values.flatten()[values.type.get_field_index(name)])

    def satisfying(self, condition: Predicate) -> pa.Array:
        """Whether a condition is certainly true for all rows."""
        return pc.or_(self.is_empty, pc.invert(self._may_match(exception_to(condition, self.scan.snapshot.schema))))

    def failing(self, condition: Predicate) -> pa.Array:
        """Whether a condition is certainly true for no row."""
        return pc.or_(self.is_empty, pc.invert(self._may_match(condition)))

    def _may_match(self, predicate: Predicate) -> pa.Array:
        mask = may_match(self.scan, predicate)
        return pa.repeat(pa.scalar(True), self.scan.kept_files) if mask is None else mask


def partitions_of(scan: Scan) -> pa.Table:
    """The combinations of partition values of the files, each once, in the order in which the log has them first."""
    names = scan.snapshot.partition_columns
    return pa.table(scan.partition.flatten(), names).group_by(names, use_threads=False).aggregate([])


def certainly(mask: pa.Array) -> pa.Array:
    return pc.fill_null(mask, False)


def unless_known(mask: pa.Array) -> pa.Array:
    return pc.fill_null(mask, True)


def only_where(mask: pa.Array, values: pa.Array) -> pa.Array:
    """The values where a condition holds, null elsewhere."""
    return pc.if_else(mask, values, pa.scalar(None, values.type))
