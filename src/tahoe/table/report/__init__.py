"""A page about a table: its files, deleted rows, partitions, growth, commits and data skipping, with what to do about
them.
"""
