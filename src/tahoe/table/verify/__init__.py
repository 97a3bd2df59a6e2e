"""Whether a table is what the specification says."""
