"""What keeps a table small and fast: compaction and the cleanup of files."""
