"""The read set of a transaction, as predicates, and whether a file that a winner changed contains matching rows.

Paper §3.2 and §4: partition values and statistics exclude most files. Small files that they do not exclude are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol as Interface

from tahoe._cached import cached_property
from tahoe.errors import DeltaError
from tahoe.protocol.changes.conflict import Reads, RowIndexes
from tahoe.protocol.configuration.column_mapping import physical_schema
from tahoe.protocol.log.actions import FileAction
from tahoe.protocol.statistics.skipping import skipping_test
from tahoe.protocol.statistics.stat_tests import StatTest, may_match
from tahoe.protocol.statistics.stats import parse_statistics
from tahoe.protocol.types.predicate import TRUE, And, Predicate, conjuncts, has_unknown
from tahoe.table.log.deletion_vectors import deleted_rows
from tahoe.table.reading.physical_rows import PhysicalRows, partition_row
from tahoe.table.reading.snapshot import Snapshot

# Larger files are not read: a conflict costs its writer one more attempt, and reading this many bytes takes about as
# long.
LOOKED_AT_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class AnyRead:
    """The union of several reads."""

    parts: tuple[Reads, ...]

    def __str__(self) -> str:
        return " or ".join(map(str, self.parts))

    def may_be_in(self, file: FileAction) -> bool:
        return any(part.may_be_in(file) for part in self.parts)

    def are_in(self, file: FileAction, rows: RowIndexes | None) -> bool | None:
        found = [part.are_in(file, rows) for part in self.parts if part.may_be_in(file)]
        return True if True in found else None if None in found else False


class Condition(Interface):
    """A condition that only Spark can evaluate."""

    def matching(self, file: FileAction) -> RowIndexes | None:
        """The row indexes, of deleted rows too, for which it is true; None if it cannot be evaluated on single
        files.
        """


@dataclass(frozen=True)
class RowsRead:
    """A read of all rows of a snapshot that satisfy a predicate. Matching rows that a winner adds or removes conflict
    with it.

    Attributes:
        text: the predicate, for messages.
        compute_narrower: a further condition on the rows that is expensive to compute. Used only if predicate and
            statistics do not exclude a file.
        condition: the whole condition, where the predicate only covers it. Used only if the rest of the predicate does
            not exclude a file.
    """

    snapshot: Snapshot
    predicate: Predicate
    text: str
    compute_narrower: Callable[[], Predicate] = lambda: TRUE
    condition: Condition | None = None

    def __str__(self) -> str:
        return self.text

    @cached_property
    def _test(self) -> StatTest:
        snapshot = self.snapshot
        return skipping_test(self.predicate, snapshot.schema, snapshot.partition_columns, snapshot.column_mapping_mode)

    @cached_property
    def _exact(self) -> Predicate:
        """The predicate without the conjuncts that are unknown, and with the narrower condition."""
        known = [part for part in conjuncts(self.predicate) if not has_unknown(part)]
        return And((*known, self.compute_narrower()))

    def may_be_in(self, file: FileAction) -> bool:
        if self._is_unplaced(file):
            return True
        physical = physical_schema(self.snapshot.schema, self.snapshot.column_mapping_mode)
        return may_match(self._test, parse_statistics(file.stats, physical), partition_row(self.snapshot, file))

    def _is_unplaced(self, file: FileAction) -> bool:
        """Whether a file's partition is unknown: a remove may leave out partition values."""
        return file.partition_values is None and bool(self.snapshot.partition_columns)

    def are_in(self, file: FileAction, rows: RowIndexes | None) -> bool | None:
        if self._is_unplaced(file) or file.size_bytes is None or file.size_bytes > LOOKED_AT_BYTES_MAX:
            return None
        try:
            matching = self._matching(file, rows)
        except DeltaError:  # the file is gone, or only Spark can read it
            return None
        return None if matching is None else bool(matching)

    def _matching(self, file: FileAction, rows: RowIndexes | None) -> RowIndexes | None:
        """Those of some rows of a file (None: all its live rows) that were read; None if that cannot be determined."""
        exact = self._exact
        if has_unknown(exact):
            return None
        matching = self._among(PhysicalRows().matching(self.snapshot, file, exact), file, rows)
        if not matching or (self.condition is None and not has_unknown(self.predicate)):
            return matching
        found = None if self.condition is None else self.condition.matching(file)
        return None if found is None else matching & found

    def _among(self, found: RowIndexes, file: FileAction, rows: RowIndexes | None) -> RowIndexes:
        return found - deleted_rows(self.snapshot.log, file) if rows is None else found & rows
