"""Several changes to a table in one commit.

    with table.transaction() as transaction:
        transaction.delete("day < date'2026-01-01'")
        transaction.append(rows)
        transaction.set_domain("app.progress", "42")

Protocol: "Actions"; paper §3.2. All changes are planned on the snapshot of the transaction's start: rows that it
appends are not among those that it deletes. Nothing is visible before the end. If a winner conflicts, nothing is
committed.
"""

from __future__ import annotations

from tahoe.table.calls import of_objects
from tahoe.table.transactions.column_edits import ColumnEdits
from tahoe.table.transactions.row_updates import RowUpdates


@of_objects("table.transaction()")
class TransactionBuilder(RowUpdates, ColumnEdits):
    """An open transaction, made by `Table.transaction`. It is committed at the end of the `with` block, or discarded if
    the block fails.

    A refused change leaves the transaction as it was, so the caller can continue. Conditions and columns refer to the
    names that the table has after the changes so far.
    """
