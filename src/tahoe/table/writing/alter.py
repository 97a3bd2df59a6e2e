"""Changes table properties, and truncates tables: one statement, one commit without data files.

Protocol: "Change Metadata", "Protocol Evolution". `Table.transaction` makes several such changes in one commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tahoe.table.reading.table_reader import TableReader
from tahoe.table.writing.planning import plan_write
from tahoe.table.writing.transaction_builder import TransactionBuilder
from tahoe.table.writing.write_request import TRUNCATE, WriteRequest


def set_properties(table: TableReader, properties: Mapping[str, str], *, engine: str | None = None) -> int:
    """Set table properties; see `TransactionBuilder.set_properties`.

    Returns:
        the version that was committed; the current version if the table has all these properties already.
    """
    with TransactionBuilder(table, engine=engine) as changes:
        changes.set_properties(properties)
    return changes.snapshot.version if changes.version is None else changes.version


def unset_properties(table: TableReader, names: Iterable[str], *, if_exists: bool = False, engine: str | None = None) -> int:
    """Remove table properties; see `TransactionBuilder.unset_properties`.

    Returns:
        as `set_properties`.
    """
    with TransactionBuilder(table, engine=engine) as changes:
        changes.unset_properties(names, if_exists=if_exists)
    return changes.snapshot.version if changes.version is None else changes.version


def truncate(table: TableReader, where: str | None = None, *, engine: str | None = None) -> int:
    """Remove all rows, or those of some partitions.

    Args:
        where: SQL text over partition columns.

    Returns:
        the version that was committed.

    Raises:
        AppendOnlyTableError: the table is append-only.
        InvalidPredicateError, ColumnNotFoundError, InvalidOptionError: the text is not a predicate over partition columns.
    """
    snapshot = table.snapshot()
    request = WriteRequest(mode="overwrite", schema=snapshot.schema, replace_where=where, operation=TRUNCATE, engine=engine)
    plan = plan_write(table, request)
    assert plan is not None
    version = plan.commit([])
    assert version is not None
    return version
