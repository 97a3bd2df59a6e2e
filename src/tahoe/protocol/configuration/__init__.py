"""What a table's metadata and protocol say: properties, features, and what single features keep there."""
