"""Turns rows into data files with statistics: store assignment, column rules, and Spark's Parquet writer."""
