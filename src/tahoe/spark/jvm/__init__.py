"""Access to Spark's JVM: the session, cached tables, catalog classes and errors. Knows nothing about reading or writing
rows.
"""
