"""The reference's module `delta.connect.tables`."""

from tahoe.tables import DeltaMergeBuilder, DeltaOptimizeBuilder, DeltaTable, DeltaTableBuilder

__all__ = ["DeltaMergeBuilder", "DeltaOptimizeBuilder", "DeltaTable", "DeltaTableBuilder"]
