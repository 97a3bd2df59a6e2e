"""From a log to a version of a table, its history, its files and its rows."""
