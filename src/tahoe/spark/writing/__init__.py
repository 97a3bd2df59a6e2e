"""From rows to data files with statistics: store assignment, column rules, and Spark's Parquet writer."""
