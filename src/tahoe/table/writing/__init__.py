"""What a write does to a table, and the small writer that writes Arrow data without Spark."""
