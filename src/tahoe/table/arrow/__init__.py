"""Works with Arrow and Parquet. Knows no log."""
