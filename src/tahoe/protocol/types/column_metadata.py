"""The metadata that says where a column's values come from: its keys, and the metadata of a new column.

Protocol: "Generated Columns", "Default Columns", "Identity Columns", "Column Invariants".
"""

from typing import Any

GENERATION_EXPRESSION = "delta.generationExpression"
CURRENT_DEFAULT = "CURRENT_DEFAULT"

# The value that Spark stores for rows written before the column was added. Delta does not use it: such rows are null.
EXISTS_DEFAULT = "EXISTS_DEFAULT"

IDENTITY = "delta.identity."
IDENTITY_START = IDENTITY + "start"
IDENTITY_STEP = IDENTITY + "step"
IDENTITY_HIGH_WATER_MARK = IDENTITY + "highWaterMark"
IDENTITY_EXPLICIT = IDENTITY + "allowExplicitInsert"

INVARIANTS = "delta.invariants"


def generated(expression: str) -> dict[str, Any]:
    """The metadata of a generated column."""
    return {GENERATION_EXPRESSION: expression}


def identity(start: int, step: int, *, allow_explicit_insert: bool) -> dict[str, Any]:
    """The metadata of an identity column without a high-water mark."""
    return {IDENTITY_START: start, IDENTITY_STEP: step, IDENTITY_EXPLICIT: allow_explicit_insert}
