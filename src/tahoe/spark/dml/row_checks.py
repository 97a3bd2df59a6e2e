"""Refuses updated and inserted rows whose columns do not fit the table, before any Spark job runs."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tahoe.errors import UnsupportedOperationError
from tahoe.protocol.changes.column_values import check_given
from tahoe.protocol.changes.evolution import check_fields
from tahoe.protocol.types.assignment_rules import Policy
from tahoe.protocol.types.schema import Struct
from tahoe.spark.jvm.plans import top_kinds
from tahoe.spark.writing.store_assignment import Refusals, assign, without_void
from tahoe.spark.writing.write_inputs import table_schema
from tahoe.table.writing.write_plan import WritePlan

# Plan nodes whose output rows do not correspond one to one to their input rows.
_OVER_ROWS = frozenset({"Aggregate", "Generate", "Window"})


def check_rows(plan: WritePlan, rows: DataFrame, policy: Policy, *, are_new: bool, may_lack: bool) -> None:
    """
    Args:
        plan: has the table configuration after the command.
        policy: how values of another type than the column's are stored.
        are_new: whether the rows are inserted.
        may_lack: whether struct values may lack fields of the table's.

    Raises:
        UnsupportedOperationError: a value is not computed from a single row.
        SchemaMismatchError: a type does not fit.
        IdentityValueGivenError: new rows supply values for an identity column that does not allow them.
    """
    _check_one_by_one(rows, plan.url)
    names = {name.lower() for name in rows.columns}
    if are_new:
        check_given(plan.column_values, names, table=plan.url)
    table_columns = Struct(tuple(field for field in without_void(plan.schema) if field.name.lower() in names))
    row_schema = table_schema(rows, table=plan.url, like=table_columns, policy=policy)
    for field in table_columns:
        value, column = row_schema.find(field.name), plan.schema.find(field.name)
        if value is not None and column is not None:
            check_fields(value.type, column.type, (column.name,), may_lack=may_lack, table=plan.url)
    assign(rows, table_columns, Refusals(plan.url, policy))  # refuses casts that the policy does not allow


def _check_one_by_one(rows: DataFrame, table: str) -> None:
    """Refuse values that are not computed from a single row: they would change the number of rows."""
    kinds = top_kinds(rows)
    if len(kinds) == 1 or kinds[-1] in _OVER_ROWS:
        raise UnsupportedOperationError(
            operation="Assigning a value that is not computed from a single row",
            table=table,
            detail="it contains an aggregate, a window function or a generator",
            remedy="Compute the value first and MERGE the result, or use a subquery: (SELECT max(x) FROM t).",
        )
