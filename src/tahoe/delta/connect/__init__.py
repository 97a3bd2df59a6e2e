"""The reference's package `delta.connect`. One `DeltaTable` serves every kind of session."""

from tahoe.tables import DeltaTable

__all__ = ["DeltaTable"]
