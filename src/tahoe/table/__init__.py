"""The imperative shell without Spark: the log, its snapshots, scans and commits. It meets the outside only through `Env`."""
