"""From a version of a table to the files and plans that Spark reads. Knows nothing of writing."""
