"""Keys of a column's metadata that say where its values come from.

Protocol: "Generated Columns", "Default Columns", "Identity Columns", "Column Invariants".
"""

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
