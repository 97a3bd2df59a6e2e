"""The rules of the Delta transaction log as pure functions over values: no files, no clocks, no Arrow, no Spark.

One module is one heading of the protocol specification.
"""
