"""Turns a version of a table into the files and plans that Spark reads. Knows nothing about writing."""
