"""The names of the reference's module `delta.tables`: `from tahoe.tables import DeltaTable`."""

from tahoe.spark.merge_builder import DeltaMergeBuilder
from tahoe.spark.tables import DeltaOptimizeBuilder, DeltaTable, DeltaTableBuilder, IdentityGenerator

__all__ = ["DeltaMergeBuilder", "DeltaOptimizeBuilder", "DeltaTable", "DeltaTableBuilder", "IdentityGenerator"]


def __dir__() -> list[str]:
    return __all__
