"""The reference's module `delta.tables`.

As there, it has no `__all__`: programs expect of `from delta.tables import *` also what the reference's module imports.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, NoReturn, Optional, Tuple, Union, cast, overload

from pyspark import since
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import DataType, StructField, StructType
from pyspark.sql.utils import is_remote

from tahoe.tables import DeltaMergeBuilder, DeltaOptimizeBuilder, DeltaTable, DeltaTableBuilder, IdentityGenerator

from ._typing import ColumnMapping, ExpressionOrColumn, OptionalColumnMapping, OptionalExpressionOrColumn
