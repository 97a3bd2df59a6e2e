"""The API that users and Spark call: sessions, sources, statements, `DeltaTable`."""
