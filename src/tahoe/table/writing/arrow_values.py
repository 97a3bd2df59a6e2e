"""Makes new rows of a table from Arrow data: default, identity and generated columns, casts, and every check of a row.

Protocol: "Generated Columns", "Default Columns", "Identity Columns", "CHECK Constraints", "Column Invariants".
Expressions that `tahoe.sql.expressions` cannot compute are refused: Spark's writer computes all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from tahoe._cached import cached_property
from tahoe.errors import (
    CheckConstraintViolatedError,
    DeltaError,
    GeneratedValueMismatchError,
    UnsupportedOperationError,
)
from tahoe.errors.statements import WITH_SPARKS_ENGINE
from tahoe.protocol.changes.column_values import ColumnValues, Identity, check_given
from tahoe.protocol.changes.constraints import Constraint, constraints_of
from tahoe.protocol.types.expressions import Call, Expression, Value
from tahoe.protocol.types.names import quoted
from tahoe.protocol.types.schema import Field, Struct
from tahoe.sql.expressions import parse_expression
from tahoe.table.arrow.chunks import with_columns
from tahoe.table.arrow.computation import IMPOSSIBLE, compute, expression_failed
from tahoe.table.reading.constraints import check_rows
from tahoe.table.writing.arrow_assignment import assign_arrow
from tahoe.table.writing.casts import Casts
from tahoe.table.writing.write_plan import WritePlan


class NewRows:
    """Completes and checks the rows of a write, piece by piece.

    Args:
        given: the columns that the rows supply, in any case.
        updates: the rows are updated rows of the table: they may supply identity values.

    Attributes:
        minted: the identity columns for which values are generated.

    Raises:
        IdentityValueGivenError: new rows supply values of a GENERATED ALWAYS identity column.
        UnsupportedOperationError: only Spark can compute a column that the rows lack.
    """

    def __init__(self, plan: WritePlan, given: Iterable[str], *, updates: bool = False) -> None:
        self.plan, self._values = plan, plan.column_values
        self._given = {name.lower() for name in given}
        if not updates:
            check_given(self._values, self._given, table=plan.url)
        lacking = [column for column in plan.schema if column.name.lower() not in self._given]
        self.minted = [column.name for column in lacking if column.name in self._values.identity]
        self._next = dict(self._values.identity)
        self._defaults = {c.name: self._default(c) for c in lacking if c.name in self._values.defaults}
        self._generated = {c.name: self._generation(c) for c in lacking if c.name in self._values.generated}

    def _default(self, column: Field) -> Expression:
        text = self._values.defaults[column.name]
        match self._parse(column, text, Struct(()), "has the default"):
            case Call("cast", (Value(),)):  # a constant that is not a value of the column
                raise _needs_spark(self.plan.url, f"column {column.name} has the default {text}")
            case found:
                return found

    def _generation(self, column: Field) -> Expression:
        return self._parse(column, self._values.generated[column.name], self.plan.schema, "is generated as")

    def _parse(self, column: Field, text: str, schema: Struct, how: str) -> Expression:
        try:
            return parse_expression(
                text, schema, wanted=column.type, zone=self.plan.table.log.zone, table=self.plan.url
            )
        except DeltaError as error:
            raise _needs_spark(self.plan.url, f"column {column.name} {how} {text}") from error

    @cached_property
    def _constraints(self) -> list[Constraint]:
        return list(constraints_of(self.plan.metadata, table=self.plan.url))

    @cached_property
    def _others(self) -> Struct:
        """The columns that are not generated from others here."""
        return Struct(tuple(column for column in self.plan.schema if column.name not in self._generated))

    def assigned(self, rows: pa.Table) -> pa.Table:
        """The rows with every column of the table, as they will be stored.

        Raises:
            DeltaAnalysisError: a row does not fit the table, or violates one of its rules.
        """
        plan = self.plan
        new = {
            name: self._compute(expression, rows, self._values.defaults[name])
            for name, expression in self._defaults.items()
        }
        rows = with_columns(rows, new | {name: self._numbers(name, rows.num_rows) for name in self.minted})
        zone, keeps = plan.table.log.zone, plan.request.casts is not Casts.ANY
        stored = assign_arrow(
            rows, self._others, zone=zone, table=plan.url, partition_columns=plan.partition_columns, keeps=keeps
        )
        if self._generated:
            for name, expression in self._generated.items():
                stored = stored.append_column(name, self._compute(expression, stored, self._values.generated[name]))
            stored = assign_arrow(
                stored, plan.schema, zone=zone, table=plan.url, partition_columns=plan.partition_columns
            )
        self._check_generated(stored)
        check_rows(stored, self._constraints, plan.schema, table=plan.url, zone=zone)
        return stored

    def _compute(self, expression: Expression, rows: pa.Table, text: str) -> pa.Array:
        try:
            return compute(expression, rows)
        except IMPOSSIBLE as error:
            raise expression_failed(error, table=self.plan.url, expression=text) from error

    def _numbers(self, column: str, count: int) -> pa.Array:
        """The next values of an identity column."""
        identity = self._next[column]
        identity.check_room(count, table=self.plan.url, column=column)
        first = identity.next
        if count:
            self._next[column] = _with_mark(identity, first + (count - 1) * identity.step)
        return pa.array([first + position * identity.step for position in range(count)], pa.int64())

    def _check_generated(self, rows: pa.Table) -> None:
        """Refuse rows that supply other values of a generated column than its expression has."""
        url, schema = self.plan.url, self.plan.schema
        supplied = {name: text for name, text in self._values.generated.items() if name not in self._generated}
        for name, expression in supplied.items():
            rule = Constraint(name=name, expression=f"{quoted(name)} <=> ({expression})")
            try:
                check_rows(rows, [rule], schema, table=url, zone=self.plan.table.log.zone)
            except UnsupportedOperationError as error:
                raise _needs_spark(url, f"column {name} is generated as {expression}") from error
            except CheckConstraintViolatedError as error:
                found = error.parameters["values"]
                raise GeneratedValueMismatchError(
                    table=url, column=name, expression=expression, values=found
                ) from error


def _with_mark(identity: Identity, last: int) -> Identity:
    return replace(identity, high_water_mark=last)


def given_by_update(values: ColumnValues, schema: Struct, assigned: Iterable[str]) -> list[str]:
    """The columns that updated rows supply: all but generated columns without an assignment, which are computed
    anew.
    """
    named = {name.lower() for name in assigned}
    return [name for name in schema.names if name not in values.generated or name.lower() in named]


def _needs_spark(table: str, detail: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        operation="Writing without Spark's engine",
        table=table,
        detail=f"{detail}, which only Spark can compute",
        remedy=WITH_SPARKS_ENGINE,
    )
