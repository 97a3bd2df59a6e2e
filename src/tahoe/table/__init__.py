"""Delta tables without Spark: the log, its snapshots, scans and commits. The outside world is reached only through
`Env`.
"""
