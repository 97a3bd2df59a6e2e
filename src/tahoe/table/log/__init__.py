"""What is in `_delta_log`: commits, checkpoints, live files, deletion vectors."""
