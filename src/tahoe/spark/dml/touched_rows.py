"""Finds the rows for which a condition holds: the condition as a predicate, the files that may contain such rows, and their positions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pyroaring import BitMap64
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame

from tahoe._cached import cached_property
from tahoe.errors import InvalidPredicateError
from tahoe.protocol.actions import Add, FileAction
from tahoe.protocol.column_type_changes import TEXT_TYPE
from tahoe.protocol.conflict import EVERYTHING, Reads, RowIndexes
from tahoe.protocol.predicate import And, Constant, Or, Predicate, evaluate, has_unknown, rename
from tahoe.protocol.predicate import Column as ColumnPath
from tahoe.spark.dml.row_changes import PLACE, RowChange
from tahoe.spark.jvm.gateway import JVM_ERRORS, Gateway, JavaObject
from tahoe.spark.jvm.plans import analysed, condition_of, leaves, optimised
from tahoe.spark.reading.filters import predicate_of
from tahoe.spark.reading.positions import Positions, are_few, gathered, gathered_from, gathering
from tahoe.spark.reading.scan import Selection, message_of
from tahoe.spark.writing.write_inputs import reads_table
from tahoe.sql.queries import only_query
from tahoe.table.reading.physical_rows import PhysicalRows, partition_row
from tahoe.table.reading.read_set import RowsRead
from tahoe.table.reading.snapshot import Snapshot

_logger = logging.getLogger("tahoe")


def _found(rows: DataFrame, condition: Column) -> DataFrame:
    try:
        return rows.where(condition)
    except AnalysisException as error:
        failure = error
    rows.drop(PLACE).where(condition)  # fails too, and suggests only the user's columns
    raise failure


class Search:
    """The rows of a command's table for which a condition is true.

    Attributes:
        rows: these rows, as from `RowChange.rows`.
        text: the condition as SQL.
    """

    def __init__(self, change: RowChange, condition: Column) -> None:
        """Analyse the condition. No rows are read.

        Raises:
            AnalysisException: Spark cannot analyse the condition.
            InvalidPredicateError: the condition is not deterministic.
        """
        self.change, self._given = change, condition
        self.rows = _found(change.rows(), condition)
        self._gateway = Gateway(change.spark)
        checked = checked_condition(self._gateway, self.rows, "Filter", change.snapshot.url)
        self._condition, self.text = checked.expression, checked.text

    @cached_property
    def _query(self) -> DataFrame:
        return gathering(self.rows, PLACE, are_few=are_few(self.change.snapshot))

    @cached_property
    def predicate(self) -> Predicate:
        """A predicate implied by the condition, after Spark has optimised it. No row for which the predicate is false is found."""
        if self.is_ruled_out:
            return self.whole
        return predicate_read(self._gateway, self._query, self.change.snapshot.url)

    def size_bytes(self, rows: DataFrame) -> int:
        """The size of the files that a query on `rows` reads. Plans the query."""
        self.predicate = predicate_read(self._gateway, rows, self.change.snapshot.url)  # so that no other query is planned for it
        return self.change.snapshot.scan(self.predicate).size_bytes

    @cached_property
    def has_subquery(self) -> bool:
        return self._gateway.has_subquery(self._condition)

    @property
    def names_partitions_only(self) -> bool:
        """Whether the condition names no other columns than partition columns."""
        partitions = {name.lower() for name in self.change.snapshot.partition_columns}
        named = (column.name().lower() for column in self._gateway.items(self._condition.references().iterator()))
        return not self.has_subquery and partitions.issuperset(named)

    @property
    def is_about_partitions(self) -> bool:
        """Whether partition values alone decide the condition, so that no row must be read."""
        return self.names_partitions_only and not has_unknown(self.whole)

    @cached_property
    def whole(self) -> Predicate:
        """The complete condition as a predicate. A planned query may have only a part of it: Spark moves Python functions elsewhere."""
        predicate = predicate_of(str(self._gateway.java_class("delta.Literals").told(self._condition)))
        return rename(predicate, self._as_in_schema)

    @cached_property
    def is_ruled_out(self) -> bool:
        """Whether the condition, as it was before optimisation, excludes every file."""
        return not self.change.snapshot.scan(self.whole).kept_files

    def _as_in_schema(self, column: ColumnPath) -> ColumnPath:
        """The column, spelled as in the schema. Spark reports names as the user typed them."""
        fields = self.change.schema.resolve(column.path)
        return column if fields is None else ColumnPath(tuple(field.name for field in fields))

    @property
    def closest(self) -> Predicate:
        """The narrowest predicate that is true for each row that is found. The whole condition does not know the current time, which Spark
        computes when it optimises a query."""
        return And((self.whole, self.predicate)) if has_unknown(self.whole) else self.whole

    def whole_files(self) -> list[Add]:
        """The files for whose partition values the condition is true. Requires `is_about_partitions`."""
        snapshot, predicate = self.change.snapshot, self.whole
        return [add for add in snapshot.scan(predicate).adds() if evaluate(predicate, partition_row(snapshot, add)) is True]

    def positions(self, materialised: DataFrame | None = None) -> Positions:
        """Find the positions of the rows, or take them from rows that are materialised already. If skipping leaves no file, no job runs."""
        if materialised is not None:
            return gathered(gathered_from(materialised, PLACE, are_few=are_few(self.change.snapshot)))
        if self.is_ruled_out or not self.change.snapshot.scan(self.predicate).kept_files:
            return Positions({}, 0)
        return gathered(self._query.toArrow())

    def again(self, within: Sequence[int]) -> DataFrame:
        """Rows of some files, among them all rows that were found. If the condition surely has the same result each time, it is applied
        again, which skips parts of files. A subquery, the current time or a user-defined function may have another result.
        """
        rows = self.change.rows(within)
        return rows if self.has_subquery or has_unknown(self.whole) else rows.where(self._given)

    @property
    def reads(self) -> Reads:
        """The rows that the command has read, for the conflict check."""
        if self._reads_more:
            return EVERYTHING
        predicate, snapshot = self.predicate, self.change.snapshot
        is_exact = not has_unknown(predicate) and not has_unknown(self.whole)
        condition = None if is_exact else RowCondition(snapshot, self._gateway, analysed(self.rows))
        return RowsRead(snapshot, predicate, self.text, condition=condition)

    @property
    def _reads_more(self) -> bool:
        """Whether a subquery also reads the table."""
        return self.has_subquery and reads_table(self.rows, self.change.target.table)

    @property
    def is_exact(self) -> bool:
        """Whether the command has read no other rows than those it found."""
        return not self._reads_more


class RowCondition:
    """The condition of a filter, evaluated by Spark's expressions in the driver, for the conflict check.

    A query would take longer than a fast writer needs for its next commit.
    """

    def __init__(self, snapshot: Snapshot, gateway: Gateway, filtered: JavaObject) -> None:
        """
        Args:
            filtered: the filter as an analysed plan.
        """
        self._snapshot, self._gateway, self._filtered = snapshot, gateway, filtered

    @cached_property
    def _evaluator(self) -> JavaObject:
        return self._gateway.java_class("delta.Condition")(self._filtered)

    def matching(self, file: FileAction) -> RowIndexes | None:
        """The row indexes, of deleted rows too, for which it is true; None if it cannot be evaluated on single files.

        It cannot if Spark would not read the columns as they are stored, or if it needs a query: for the current time, subqueries and
        Python functions.
        """
        try:
            fields = [self._snapshot.schema.find(str(name)) for name in self._gateway.items(self._evaluator.columns().iterator())]
            known = [field for field in fields if field is not None and TEXT_TYPE not in field.metadata]
            if len(known) < len(fields):
                return None
            found = BitMap64()
            for start, rows in PhysicalRows().pieces(self._snapshot, file, known):
                bits = np.frombuffer(self._evaluator.matching(message_of(rows)), np.uint8)
                found |= BitMap64(np.flatnonzero(np.unpackbits(bits, bitorder="little")) + start)
        except JVM_ERRORS as error:
            _logger.debug("%s: %s cannot be evaluated on rows of %s: %s", self._snapshot.url, self._filtered, file.path, error)
            return None
        return found


def predicate_read(gateway: Gateway, query: DataFrame, url: str) -> Predicate:
    """A predicate that covers all rows of a table that a query reads, once Spark has optimised it; false if the query reads no row."""
    files, found = gateway.java_class("delta.Files"), set()
    for leaf in leaves(gateway, optimised(query)):
        known = files.of(leaf)
        if known is not None and known.table() == url and known.planned():
            found.add(Selection.decode(known.selection()).predicate)
    parts = tuple(found)
    return parts[0] if len(parts) == 1 else Or(parts) if parts else Constant(False)


def condition_text(gateway: Gateway, expression: JavaObject) -> str:
    """An analysed condition as SQL, with its subqueries as the user wrote them."""
    if not gateway.has_subquery(expression):
        return str(gateway.java_class("delta.Literals").sql(expression))
    subqueries = gateway.java_class("delta.Subqueries")
    queries = [only_query(str(text)) for text in subqueries.origins(expression)]
    return str(subqueries.sql(expression, gateway.list(queries)))


@dataclass(frozen=True, slots=True)
class Checked:
    """A condition that Spark has analysed, and its text as SQL."""

    expression: JavaObject
    text: str


def checked_condition(gateway: Gateway, frame: DataFrame, node: Literal["Filter", "Join"], table: str) -> Checked:
    """The condition of the filter or join that is the last operator of a query.

    Raises:
        InvalidPredicateError: the condition is not deterministic.
    """
    expression = condition_of(frame, node)
    text = condition_text(gateway, expression)
    if not expression.deterministic():
        raise InvalidPredicateError(table=table, predicate=text, detail="it is not deterministic")
    return Checked(expression, text)
