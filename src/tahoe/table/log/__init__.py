"""Reads and writes the contents of `_delta_log`: commits, checkpoints, live files, deletion vectors."""
