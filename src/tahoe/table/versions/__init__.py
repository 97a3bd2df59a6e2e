"""What a table tells about its versions: history, tags and change feed; the methods of `Table` that read."""
