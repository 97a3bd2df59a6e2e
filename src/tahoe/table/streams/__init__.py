"""What a stream reads of a table: its batches, event times and tracked schema."""
