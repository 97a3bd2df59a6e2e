"""What users and Spark call: sessions, sources, statements, `DeltaTable`."""
