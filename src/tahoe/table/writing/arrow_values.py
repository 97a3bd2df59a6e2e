"""Values of columns that Arrow data lacks, for the Arrow writer: constant defaults and identity values.

Protocol: "Generated Columns", "Default Columns", "Identity Columns". Only Spark's writer evaluates expressions; here they are refused.
"""

from __future__ import annotations

from datetime import tzinfo

import pyarrow as pa

from tahoe.errors import CheckConstraintViolatedError, DeltaError, GeneratedValueMismatchError, UnsupportedOperationError
from tahoe.errors.statements import WITH_SPARKS_ENGINE
from tahoe.protocol.column_values import ColumnValues, Identity, check_given
from tahoe.protocol.constraints import Constraint
from tahoe.protocol.names import quoted
from tahoe.protocol.predicate import Comparison, IsNull
from tahoe.protocol.schema import Field, Struct
from tahoe.sql.predicates import parse_predicate
from tahoe.table.arrow.types import arrow_type
from tahoe.table.reading.constraints import check_rows


def completed(data: pa.Table, schema: Struct, values: ColumnValues, *, table: str, zone: tzinfo) -> pa.Table:
    """Complete new rows with missing default and identity columns.

    Raises:
        IdentityValueGivenError, IdentityOverflowError: the rows supply values of a GENERATED ALWAYS identity column, or the column has none
            left.
        UnsupportedOperationError: a generated column is missing, or a default is not a constant.
    """
    given = {name.lower() for name in data.column_names}
    check_given(values, given, table=table)
    for column in schema:
        if column.name.lower() in given:
            continue
        if column.name in values.generated:
            raise _needs_spark(table, f"column {column.name} is generated as {values.generated[column.name]}")
        if column.name in values.identity:
            data = data.append_column(column.name, _numbers(values.identity[column.name], data.num_rows, table, column.name))
        elif column.name in values.defaults:
            data = data.append_column(column.name, _constant(column, values.defaults[column.name], data.num_rows, schema, table, zone))
    return data


def minted_in(data: pa.Table, schema: Struct, values: ColumnValues) -> list[str]:
    """The identity columns of a table that are missing in the rows."""
    given = {name.lower() for name in data.column_names}
    return [column.name for column in schema if column.name in values.identity and column.name.lower() not in given]


def check_generated(rows: pa.Table, schema: Struct, values: ColumnValues, *, table: str, zone: tzinfo) -> None:
    """Refuse rows whose value in a generated column differs from that of the generation expression.

    Raises:
        GeneratedValueMismatchError: with the values.
        UnsupportedOperationError: the expression cannot be evaluated without Spark.
    """
    for name, expression in values.generated.items():
        rule = Constraint(name=name, expression=f"{quoted(name)} <=> ({expression})")
        try:
            check_rows(rows, [rule], schema, table=table, zone=zone)
        except UnsupportedOperationError as error:
            raise _needs_spark(table, f"column {name} is generated as {expression}") from error
        except CheckConstraintViolatedError as error:
            found = error.parameters["values"]
            raise GeneratedValueMismatchError(table=table, column=name, expression=expression, values=found) from error


def _numbers(identity: Identity, count: int, table: str, column: str) -> pa.Array:
    identity.check_room(count, table=table, column=column)
    return pa.array([identity.next + position * identity.step for position in range(count)], pa.int64())


def _constant(column: Field, text: str, count: int, schema: Struct, table: str, zone: tzinfo) -> pa.Array:
    """A default that the predicate parser accepts as a constant of the column's type."""
    try:
        found = parse_predicate(f"{quoted(column.name)} <=> ({text})", schema, table=table, zone=zone)
    except DeltaError as error:
        raise _needs_spark(table, f"column {column.name} has the default {text}") from error
    match found:
        case IsNull():
            return pa.nulls(count, arrow_type(column.type))
        case Comparison() if found.operator == "<=>":
            return pa.array([found.literal.value] * count, arrow_type(column.type))
        case _:
            raise _needs_spark(table, f"column {column.name} has the default {text}")


def _needs_spark(table: str, detail: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        operation="Writing without Spark's engine",
        table=table,
        detail=f"{detail}, which only Spark can compute",
        remedy=WITH_SPARKS_ENGINE,
    )
