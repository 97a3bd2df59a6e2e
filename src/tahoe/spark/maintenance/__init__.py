"""Statements that maintain a table, and their results as rows."""
