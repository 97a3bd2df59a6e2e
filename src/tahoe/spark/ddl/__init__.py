"""Statements that create, alter and describe tables, and the names of tables."""
