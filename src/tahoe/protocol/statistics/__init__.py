"""What statistics prove: which files a condition leaves out, and what the log answers without reading rows."""
