"""Loads a version of a table from its log; reads its history, files and rows."""
