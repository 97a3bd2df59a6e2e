"""The rules of the Delta transaction log as pure functions over values: no files, no clocks, no Arrow, no Spark.

Each module implements a heading of the protocol specification.
"""
