"""Plans and commits writes, and writes Arrow data without Spark."""
