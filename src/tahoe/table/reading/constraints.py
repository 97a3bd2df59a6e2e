"""Checks constraints on Arrow rows, for the Arrow writer.

Protocol: "CHECK Constraints", "Column Invariants". Evaluates the conditions that `tahoe.sql.predicates` can parse;
Spark's writer evaluates all conditions.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from datetime import datetime, tzinfo
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import CheckConstraintViolatedError, InvalidPredicateError, UnsupportedOperationError
from tahoe.errors.statements import WITH_SPARKS_ENGINE
from tahoe.protocol.changes.constraints import Constraint
from tahoe.protocol.statistics.skipping import is_collated
from tahoe.protocol.types.predicate import columns_of
from tahoe.protocol.types.schema import Struct
from tahoe.sql.predicates import parse_predicate
from tahoe.table.reading.evaluation import evaluate


def check_rows(rows: pa.Table, constraints: Iterable[Constraint], schema: Struct, *, table: str, zone: tzinfo) -> None:
    """Refuse rows if a constraint is false or null for one of them.

    Raises:
        CheckConstraintViolatedError: with the constraint and the values that violate it.
        UnsupportedOperationError: a constraint that cannot be evaluated without Spark.
    """
    for constraint in constraints:
        try:
            predicate = parse_predicate(constraint.expression, schema, table=table, zone=zone)
        except InvalidPredicateError as error:
            raise _not_evaluated(constraint, error.parameters["detail"], table) from error
        if any(is_collated(schema, column.path) for column in columns_of(predicate)):
            raise _not_evaluated(constraint, "it compares texts by a collation", table)
        kept = pc.fill_null(evaluate(predicate, rows, table=table), False)
        broken = np.flatnonzero(~np.asarray(kept))
        if len(broken):
            names = dict.fromkeys(column.path[0].lower() for column in columns_of(predicate))
            row = rows.slice(int(broken[0]), 1).to_pylist()[0]
            values = row_text({name: value for name, value in row.items() if name.lower() in names})
            raise CheckConstraintViolatedError(
                table=table, constraint=constraint.name, expression=constraint.expression, values=values
            )


def _not_evaluated(constraint: Constraint, why: str, table: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        operation="Writing without Spark's engine",
        table=table,
        detail=f"the constraint {constraint.name} ({constraint.expression}) cannot be evaluated: {why}",
        remedy=WITH_SPARKS_ENGINE,
    )


def row_text(value: Any) -> str:
    """A row or a value as an error shows it: as JSON, in the form of Spark's `to_json`."""
    match value:
        case dict():
            return (
                "{"
                + ",".join(
                    f"{json.dumps(str(name), ensure_ascii=False)}:{row_text(item)}" for name, item in value.items()
                )
                + "}"
            )
        case list() | tuple():
            return "[" + ",".join(map(row_text, value)) + "]"
        case None | bool() | int() | str():
            return json.dumps(value, ensure_ascii=False)
        case float():
            return repr(value) if math.isfinite(value) else json.dumps(str(value))
        case Decimal():
            return format(value, "f")
        case bytes():
            return json.dumps(base64.b64encode(value).decode())
        case datetime():
            return json.dumps(value.isoformat(timespec="milliseconds").replace("+00:00", "Z"))
        case _:
            return json.dumps(str(value), ensure_ascii=False)
