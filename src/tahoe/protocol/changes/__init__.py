"""How a table may change: its configuration, its columns, and what a concurrent commit means to another."""
