"""Finds the rows for which a condition holds: the condition as a predicate, the files that may contain such rows, and
their positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame

from tahoe._cached import cached_property
from tahoe.errors import InvalidPredicateError
from tahoe.protocol.changes.conflict import EVERYTHING, Reads
from tahoe.protocol.log.actions import Add
from tahoe.protocol.types.predicate import And, Constant, Or, Predicate, evaluate, has_unknown, rename
from tahoe.protocol.types.predicate import Column as ColumnPath
from tahoe.spark.dml.row_changes import ROW_POSITION, RowChange
from tahoe.spark.dml.row_conditions import RowCondition, condition_of_filter
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.plans import condition_of_frame, dataset, frame_of, leaves, optimised
from tahoe.spark.reading.filters import predicate_of
from tahoe.spark.reading.positions import Positions, are_few, gathered_from, gathering, positions_in
from tahoe.spark.reading.scan import Selection
from tahoe.spark.writing.write_inputs import reads_table
from tahoe.sql.queries import only_query
from tahoe.table.reading.physical_rows import partition_row
from tahoe.table.reading.read_set import RowsRead
from tahoe.table.reading.snapshot import chosen_files


def _rows_where(rows: DataFrame, condition: Column) -> DataFrame:
    try:
        return rows.where(condition)
    except AnalysisException as error:
        failure = error
    rows.drop(ROW_POSITION).where(condition)  # fails too, and suggests only the user's columns
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
        self.change, self._user_condition = change, condition
        self.rows = _rows_where(change.rows(), condition)
        self._gateway = Gateway(change.spark)
        analysed = checked_condition(self._gateway, self.rows, "Filter", change.snapshot.url)
        self._condition, self.text = analysed.expression, analysed.text
        fixed = at_one_moment(self._gateway, self.rows)
        self._depends_on_moment = fixed is not None
        if fixed is not None:
            self.rows, self._condition = fixed, condition_of_frame(fixed, "Filter")
        self._executed: DataFrame | None = None

    @cached_property
    def _query(self) -> DataFrame:
        return gathering(self.rows, ROW_POSITION, are_few=are_few(self.change.snapshot))

    @cached_property
    def predicate(self) -> Predicate:
        """A predicate implied by the condition, after Spark has optimised it. No row for which the predicate is false
        is found.
        """
        if self.is_ruled_out:
            return self.whole
        return self._predicate_of(self._query)

    def _predicate_of(self, rows: DataFrame) -> Predicate:
        self._executed = rows
        return predicate_read(self._gateway, rows, self.change.snapshot.url)

    def size_bytes(self, rows: DataFrame) -> int:
        """The size of the files that a query on `rows` reads. Plans the query."""
        self.predicate = self._predicate_of(rows)  # so that no other query is planned for it
        return chosen_files(self.change.snapshot, self.predicate).size_bytes

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
        """The complete condition as a predicate. A planned query may have only a part of it: Spark moves Python
        functions elsewhere.
        """
        predicate = predicate_of(str(self._gateway.java_class("delta.Literals").told(self._condition)))
        return rename(predicate, self._as_in_schema)

    @cached_property
    def is_ruled_out(self) -> bool:
        """Whether the condition, as it was before optimisation, excludes every file."""
        return not chosen_files(self.change.snapshot, self.whole).kept_files

    def _as_in_schema(self, column: ColumnPath) -> ColumnPath:
        """The column, spelled as in the schema. Spark reports names as the user typed them."""
        fields = self.change.schema.resolve(column.path)
        return column if fields is None else ColumnPath(tuple(field.name for field in fields))

    @property
    def closest(self) -> Predicate:
        """The narrowest predicate that is true for each row that is found. Spark simplifies some conditions when it
        optimises a query.
        """
        return And((self.whole, self.predicate)) if has_unknown(self.whole) else self.whole

    def whole_files(self) -> list[Add]:
        """The files for whose partition values the condition is true. Requires `is_about_partitions`."""
        snapshot, predicate = self.change.snapshot, self.whole
        return [
            add
            for add in chosen_files(snapshot, predicate).adds()
            if evaluate(predicate, partition_row(snapshot, add)) is True
        ]

    def positions(self, materialised: DataFrame | None = None) -> Positions:
        """Find the positions of the rows, or take them from rows that are materialised already. If skipping leaves no
        file, no job runs.
        """
        if materialised is not None:
            return positions_in(gathered_from(materialised, ROW_POSITION, are_few=are_few(self.change.snapshot)))
        if self.is_ruled_out or not chosen_files(self.change.snapshot, self.predicate).kept_files:
            return Positions({}, 0)
        self._executed = self._query
        return positions_in(self._query.toArrow())

    def again(self, within: Sequence[int]) -> DataFrame:
        """Rows of some files, among them all rows that were found. If the condition surely has the same result each
        time, it is applied again, which skips parts of files. A subquery, the current time or a user-defined function
        may have another result.
        """
        rows = self.change.rows(within)
        may_differ = self.has_subquery or self._depends_on_moment or has_unknown(self.whole)
        return rows if may_differ else rows.where(self._user_condition)

    @property
    def reads(self) -> Reads:
        """The rows that the command has read, for the conflict check."""
        if self._reads_more:
            return EVERYTHING
        predicate, snapshot = self.predicate, self.change.snapshot
        is_exact = not has_unknown(predicate) and not has_unknown(self.whole)
        condition = (
            None
            if is_exact
            else RowCondition(snapshot, lambda: condition_of_filter(self._gateway, self.rows, self._executed))
        )
        return RowsRead(snapshot, predicate, self.text, condition=condition)

    @property
    def _reads_more(self) -> bool:
        """Whether a subquery also reads the table."""
        return self.has_subquery and reads_table(self.rows, self.change.target.table)

    @property
    def is_exact(self) -> bool:
        """Whether the command has read no other rows than those it found."""
        return not self._reads_more


def at_one_moment(gateway: Gateway, frame: DataFrame) -> DataFrame | None:
    """The query with values for the current time, user and catalog, which Spark puts into each query anew; None if it
    depends on none.
    """
    fixed = gateway.java_class("delta.Moment").of(dataset(frame))
    return None if fixed is None else frame_of(fixed, frame.sparkSession)


def predicate_read(gateway: Gateway, query: DataFrame, url: str) -> Predicate:
    """A predicate that covers all rows of a table that a query reads, once Spark has optimised it; false if the query
    reads no row.
    """
    files, predicates = gateway.java_class("delta.Files"), set()
    for leaf in leaves(gateway, optimised(query)):
        scan = files.of(leaf)
        if scan is not None and scan.table() == url and scan.planned():
            predicates.add(Selection.decode(scan.selection()).predicate)
    parts = tuple(predicates)
    return parts[0] if len(parts) == 1 else Or(parts) if parts else Constant(False)


def condition_text(gateway: Gateway, expression: JavaObject) -> str:
    """An analysed condition as SQL, with its subqueries as the user wrote them."""
    if not gateway.has_subquery(expression):
        return str(gateway.java_class("delta.Literals").sql(expression))
    subqueries = gateway.java_class("delta.Subqueries")
    queries = [only_query(str(text)) for text in gateway.items(subqueries.origins(expression).iterator())]
    return str(subqueries.sql(expression, gateway.list(queries)))


@dataclass(frozen=True, slots=True)
class AnalysedCondition:
    """A condition that Spark has analysed, and its text as SQL."""

    expression: JavaObject
    text: str


def checked_condition(
    gateway: Gateway, frame: DataFrame, node: Literal["Filter", "Join"], table: str
) -> AnalysedCondition:
    """The condition of the filter or join that is the last operator of a query.

    Raises:
        InvalidPredicateError: the condition is not deterministic.
    """
    expression = condition_of_frame(frame, node)
    text = condition_text(gateway, expression)
    if not expression.deterministic():
        raise InvalidPredicateError(table=table, predicate=text, detail="it is not deterministic")
    return AnalysedCondition(expression, text)
