"""Several changes to a table in one commit.

    with table.transaction() as changes:
        changes.delete("day < date'2026-01-01'")
        changes.append(rows)
        changes.set_domain("app.progress", "42")

Protocol: "Actions"; paper §3.2. Everything is planned on the snapshot with which the transaction began: rows that it appends are not among
those that it deletes. Nothing is visible before the end; where another writer was first and it matters, nothing is committed.
"""

from __future__ import annotations

from tahoe.table.writing.column_edits import ColumnEdits
from tahoe.table.writing.row_edits import RowEdits


class TransactionBuilder(RowEdits, ColumnEdits):
    """An open transaction. Made by `Table.transaction`; it is committed at the end of the `with` block, and not at all where that fails.

    A change that is refused leaves the transaction as it was, so that it can go on without it. Conditions and columns go by the names that
    the table has after the changes so far.
    """
