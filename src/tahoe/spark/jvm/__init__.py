"""The door to Spark's JVM: its session, its tables and its errors. Knows nothing of plans for rows."""
