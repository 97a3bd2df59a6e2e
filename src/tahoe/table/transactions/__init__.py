"""`Table.transaction`: several operations on rows and on the configuration in one commit."""
