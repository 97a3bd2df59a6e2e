"""Commands that rewrite files without changing the table's rows."""
