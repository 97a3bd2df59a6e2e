"""The names of the reference's module `delta.tables`: `from tahoe.tables import DeltaTable`."""

from tahoe.spark.api.delta_table import DeltaTable, DeltaTableBuilder
from tahoe.spark.api.merge_builder import DeltaMergeBuilder
from tahoe.spark.api.optimize_builder import DeltaOptimizeBuilder
from tahoe.spark.api.table_builder import IdentityGenerator

__all__ = ["DeltaMergeBuilder", "DeltaOptimizeBuilder", "DeltaTable", "DeltaTableBuilder", "IdentityGenerator"]


def __dir__() -> list[str]:
    return __all__
