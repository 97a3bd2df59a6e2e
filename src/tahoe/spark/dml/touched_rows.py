"""The rows that a condition picks: what it says, which files may hold such rows, and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column, DataFrame

from tahoe._cached import cached_property
from tahoe.errors import InvalidPredicateError
from tahoe.protocol.actions import Add
from tahoe.protocol.conflict import EVERYTHING, Reads
from tahoe.protocol.predicate import Column as ColumnPath
from tahoe.protocol.predicate import Constant, Or, Predicate, columns_of, evaluate, has_unknown, rename
from tahoe.spark.dml.row_changes import PLACE, RowChange
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.plans import condition_of, leaves, optimised
from tahoe.spark.reading.filters import predicate_of
from tahoe.spark.reading.positions import Positions, are_few, gathered, gathered_from, gathering
from tahoe.spark.reading.scan import Selection
from tahoe.spark.writing.write_inputs import reads_table
from tahoe.sql.queries import only_query
from tahoe.table.reading.read_set import RowsRead
from tahoe.table.reading.rows import partition_row


class Search:
    """The rows of a command's table for which a condition is true.

    Attributes:
        rows: these rows, as `RowChange.rows`.
        text: the condition as SQL.
    """

    def __init__(self, change: RowChange, condition: Column) -> None:
        """Analyse the condition; nothing is read.

        Raises:
            AnalysisException: Spark does not understand it.
            InvalidPredicateError: it would not be the same each time.
        """
        self.change, self._given = change, condition
        self.rows: DataFrame = change.rows().where(condition)
        self._gateway = Gateway(change.spark)
        checked = checked_condition(self._gateway, self.rows, "Filter", change.snapshot.url)
        self._condition, self.text = checked.expression, checked.text

    @cached_property
    def _query(self) -> DataFrame:
        return gathering(self.rows, PLACE, are_few=are_few(self.change.snapshot))

    @cached_property
    def predicate(self) -> Predicate:
        """What is known of the condition once Spark has simplified it; a row for which this is false is not among those found."""
        if self.is_ruled_out:
            return self._whole
        return predicate_read(self._gateway, self._query, self.change.snapshot.url)

    def size_bytes(self, rows: DataFrame) -> int:
        """How large the files are that a query on `rows` reads, which is planned for it."""
        self.predicate = predicate_read(self._gateway, rows, self.change.snapshot.url)  # and so need not be asked of another query
        return self.change.snapshot.scan(self.predicate).size_bytes

    @cached_property
    def _has_subquery(self) -> bool:
        return self._gateway.has_subquery(self._condition)

    @property
    def is_about_partitions(self) -> bool:
        """Whether partition values alone decide, so that no row need be looked at."""
        partitions = {name.lower() for name in self.change.snapshot.partition_columns}
        named = {column.path[0].lower() for column in columns_of(self._whole)}
        return not self._has_subquery and not has_unknown(self._whole) and named <= partitions

    @cached_property
    def _whole(self) -> Predicate:
        """All that the condition says. What Spark tells when it plans a query may be a part of it: functions of Python stand elsewhere."""
        predicate = predicate_of(str(self._gateway.java_class("delta.Literals").told(self._condition)))
        return rename(predicate, self._as_in_schema)

    @cached_property
    def is_ruled_out(self) -> bool:
        """Whether no file can hold such a row, by what the condition says as it stands."""
        return not self.change.snapshot.scan(self._whole).kept_files

    def _as_in_schema(self, column: ColumnPath) -> ColumnPath:
        """Spark tells a name as the user typed it."""
        fields = self.change.schema.resolve(column.path)
        return column if fields is None else ColumnPath(tuple(field.name for field in fields))

    def whole_files(self) -> list[Add]:
        """The files that the condition holds for, where it is about partitions."""
        return [add for _, add in self._whole_files()]

    def whole_numbers(self) -> list[int]:
        """Their numbers."""
        return [number for number, _ in self._whole_files()]

    def _whole_files(self) -> list[tuple[int, Add]]:
        snapshot, predicate = self.change.snapshot, self._whole
        scan = snapshot.scan(predicate)
        found = zip(scan.files["number"].to_pylist(), scan.adds(), strict=True)
        return [(number, add) for number, add in found if evaluate(predicate, partition_row(snapshot, add)) is True]

    def positions(self, kept: DataFrame | None = None) -> Positions:
        """Find the rows, or read from those that are kept where they were. Where statistics leave out every file, nothing runs."""
        if kept is not None:
            return gathered(gathered_from(kept, PLACE, are_few=are_few(self.change.snapshot)))
        if self.is_ruled_out or not self.change.snapshot.scan(self.predicate).kept_files:
            return Positions({}, 0)
        return gathered(self._query.toArrow())

    def again(self, within: Sequence[int]) -> DataFrame:
        """Rows of some files with those that were found among them. Where the condition is surely the same for a row each time, there are
        no others, which leaves out parts of files: the time of day is another one when it is asked again, and a user's function may be.
        """
        rows = self.change.rows(within)
        return rows if self._has_subquery or has_unknown(self._whole) else rows.where(self._given)

    @property
    def reads(self) -> Reads:
        """What other writers must not have changed."""
        if self._reads_more:
            return EVERYTHING
        return RowsRead(self.change.snapshot, self.predicate, self.text)

    @property
    def _reads_more(self) -> bool:
        """Whether a subquery looks at the table as well."""
        return self._has_subquery and reads_table(self.rows, self.change.target.table)

    @property
    def is_exact(self) -> bool:
        """Whether the rows that are found are all that was read."""
        return not self._reads_more


def predicate_read(gateway: Gateway, query: DataFrame, url: str) -> Predicate:
    """What a planned query asks of the rows of a table that it reads."""
    files, found = gateway.java_class("delta.Files"), set()
    for leaf in leaves(gateway, optimised(query)):
        known = files.of(leaf)
        if known is not None and known.table() == url and known.planned():
            found.add(Selection.decode(known.selection()).predicate)
    parts = tuple(found)
    return parts[0] if len(parts) == 1 else Or(parts) if parts else Constant(False)


def condition_text(gateway: Gateway, expression: JavaObject) -> str:
    """A condition that Spark has analysed as SQL; the queries in it as the user wrote them."""
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
    """The condition of the filter or the join that a query ends with.

    Raises:
        InvalidPredicateError: it would not be the same each time.
    """
    expression = condition_of(frame, node)
    text = condition_text(gateway, expression)
    if not expression.deterministic():
        raise InvalidPredicateError(table=table, predicate=text, detail="it is not the same each time that it is evaluated")
    return Checked(expression, text)
