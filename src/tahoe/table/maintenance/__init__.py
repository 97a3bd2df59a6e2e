"""Deletes what no version needs any more. Does not know Spark."""
