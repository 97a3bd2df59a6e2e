"""Loads files of other formats into tables: COPY INTO."""
