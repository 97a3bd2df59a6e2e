"""Iceberg's metadata of Delta tables: the same data files, read by Iceberg's readers.

This ring is above the table ring and needs the extra `iceberg` of the package. Where a table asks for it, the table
ring imports it by name.
"""
