"""Verifies that a table conforms to the specification."""
