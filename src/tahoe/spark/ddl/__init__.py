"""Statements that make, change and describe tables, and the names of tables."""
