"""The methods of `Table` about whole tables, and what they compose: tags, erasing, changes of rows with auto
compaction.
"""
