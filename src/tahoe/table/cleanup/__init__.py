"""What is deleted, and proof of it: VACUUM, the truncation of a log, the search for traces."""
