"""Arrow and Parquet, with nothing of a log."""
