"""What is in a log: its actions, its files, and how they make up a version."""
