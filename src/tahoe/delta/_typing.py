"""The reference's module `delta._typing`, which typed programs import."""

from typing import Dict, Optional, Union

from pyspark.sql.column import Column

ExpressionOrColumn = Union[str, Column]
OptionalExpressionOrColumn = Optional[ExpressionOrColumn]
ColumnMapping = Dict[str, ExpressionOrColumn]
OptionalColumnMapping = Optional[ColumnMapping]
