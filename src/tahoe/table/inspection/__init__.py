"""What is in a table: its files, versions and configuration, each as an Arrow table."""
