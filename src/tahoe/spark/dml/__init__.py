"""Statements that change rows: append, overwrite, DELETE, UPDATE, MERGE."""
