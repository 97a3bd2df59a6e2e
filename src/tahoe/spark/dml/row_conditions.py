"""The condition of a statement on single files that another writer has changed, for the conflict check.

Spark's expressions evaluate it in the driver: a query takes longer than a fast writer needs for its next commit. What
only a query can evaluate (a correlated subquery, a function in Python, the condition of a MERGE) is one, over rows that
Python has read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from pyroaring import BitMap64
from pyspark.sql import DataFrame

from tahoe._cached import cached_property
from tahoe.protocol.changes.conflict import RowIndexes
from tahoe.protocol.log.actions import FileAction
from tahoe.protocol.types.schema import Field
from tahoe.spark.jvm.gateway import JVM_ERRORS, Gateway, JavaObject
from tahoe.spark.jvm.plans import analysed, dataset
from tahoe.spark.reading.scan import message_of
from tahoe.table.reading.physical_rows import PhysicalRows
from tahoe.table.reading.read_set import Condition
from tahoe.table.reading.snapshot import Snapshot

_logger = logging.getLogger("tahoe")

# With more files, a writer of small commits is faster than the queries: the statement would never be done.
QUERIES_MAX = 32

# A subquery of IN, or the keys of a MERGE's source, are looked up in the driver up to this number; beyond, they stay a
# query.
MEMBERS_MAX = 1 << 16

COUNTS_AS_TRUE: Mapping[str, str] = {
    "source": (
        "a subquery reads a source that may have other rows by now, or cached rows: only Delta tables have versions"
    ),
    "order": "a subquery picks rows whose order Spark does not fix, by LIMIT, a window or a sample",
    "metadata": (
        "it uses `_metadata`, which tells where a row is: the files of the statement's version have numbers, these "
        "have none"
    ),
    "error": "it raises an error for a row of the file: if the statement is run again, it raises this error",
    "queries": f"each file needs a query, and there are more than {QUERIES_MAX}",
}
"""Why a condition is not evaluated on the rows of a file, and counts as true for them. What concerns files is in
`RowsRead`.
"""


class RowCondition:
    """A condition that Spark evaluates on the rows of single files."""

    def __init__(self, snapshot: Snapshot, make_evaluator: Callable[[], JavaObject]) -> None:
        """
        Args:
            make_evaluator: makes the `delta.Condition`; called if there is a file to look at.
        """
        self._snapshot, self._make_evaluator = snapshot, make_evaluator

    @cached_property
    def _evaluator(self) -> JavaObject:
        return self._make_evaluator()

    def matching(self, file: FileAction) -> RowIndexes | None:
        """The row indexes, of deleted rows too, for which it is true; None for a reason in `COUNTS_AS_TRUE`."""
        try:
            return self._matching(file)
        except JVM_ERRORS as error:
            reason = next(
                (text for name, text in COUNTS_AS_TRUE.items() if _message(error) == name), COUNTS_AS_TRUE["error"]
            )
            _logger.debug(
                "%s: a condition counts as true for the rows of %s: %s (%s)",
                self._snapshot.url,
                file.path,
                reason,
                error,
            )
            return None

    @cached_property
    def _fields(self) -> list[Field]:
        names = self._evaluator.columns().split("\0")
        return [field for name in names if (field := self._snapshot.schema.find(name)) is not None]

    @cached_property
    def _may_query(self) -> bool:
        return bool(self._evaluator.mayQuery())

    def _matching(self, file: FileAction) -> RowIndexes | None:
        """As `matching`, but raises Spark's errors."""
        if self._may_query and self._evaluator.queries() >= QUERIES_MAX:
            _logger.debug(
                "%s: a condition counts as true for the rows of %s: %s",
                self._snapshot.url,
                file.path,
                COUNTS_AS_TRUE["queries"],
            )
            return None
        indexes = BitMap64()
        for start, rows in PhysicalRows().pieces(self._snapshot, file, self._fields):
            bits = np.frombuffer(self._evaluator.matching(message_of(rows)), np.uint8)
            indexes |= BitMap64(np.flatnonzero(np.unpackbits(bits, bitorder="little")) + start)
        return indexes


def _message(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    return str(error) if java is None else str(java.getMessage())


class AnyCondition:
    """True for a row for which one of several conditions is."""

    def __init__(self, parts: Sequence[Condition]) -> None:
        self._parts = parts

    def matching(self, file: FileAction) -> RowIndexes | None:
        """As of each of them; None if one of them is not evaluated."""
        indexes = BitMap64()
        for part in self._parts:
            rows = part.matching(file)
            if rows is None:
                return None
            indexes |= rows
        return indexes


def condition_of_filter(gateway: Gateway, filtered: DataFrame, executed: DataFrame | None) -> JavaObject:
    """The condition of a filter over a table's rows.

    Args:
        executed: a query that has found the statement's rows. Subqueries read the versions that it has read.
    """
    query = None if executed is None else dataset(executed)
    return gateway.java_class("delta.Condition").of(gateway.session, analysed(filtered), query, MEMBERS_MAX)


def condition_of_matches(gateway: Gateway, rows: DataFrame, source: DataFrame, on: JavaObject) -> JavaObject:
    """The condition that a row of a source, which has the same rows each time, matches a row of a table.

    Args:
        on: the analysed condition of their join.
    """
    return gateway.java_class("delta.Condition").of(gateway.session, analysed(rows), analysed(source), on, MEMBERS_MAX)
