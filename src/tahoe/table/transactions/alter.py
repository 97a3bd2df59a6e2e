"""Changes table properties, and truncates tables: one statement, one commit without data files.

Protocol: "Change Metadata", "Protocol Evolution". `Table.transaction` makes several such changes in one commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Unpack

from tahoe.errors import NoBloomFilterError
from tahoe.protocol.configuration.bloom_filters import BloomFilter, Path, encode_bloom_filters, without
from tahoe.protocol.configuration.properties import BLOOM_FILTERS
from tahoe.protocol.types.names import dotted
from tahoe.table.commit.draft import Author
from tahoe.table.transactions.transaction_builder import TransactionBuilder
from tahoe.table.versions.table_reader import TableReader
from tahoe.table.writing.planning import plan_write
from tahoe.table.writing.write_request import TRUNCATE, WriteRequest


def set_properties(table: TableReader, properties: Mapping[str, str], **author: Unpack[Author]) -> int:
    """Set table properties; see `TransactionBuilder.set_properties`.

    Returns:
        the version that was committed; the current version if the table has all these properties already.
    """
    with TransactionBuilder(table, **author) as changes:
        changes.set_properties(properties)
    return changes.snapshot.version if changes.version is None else changes.version


def unset_properties(
    table: TableReader, names: Iterable[str], *, if_exists: bool = False, **author: Unpack[Author]
) -> int:
    """Remove table properties; see `TransactionBuilder.unset_properties`.

    Returns:
        as `set_properties`.
    """
    with TransactionBuilder(table, **author) as changes:
        changes.unset_properties(names, if_exists=if_exists)
    return changes.snapshot.version if changes.version is None else changes.version


def create_bloom_filters(table: TableReader, definitions: Iterable[BloomFilter], **author: Unpack[Author]) -> None:
    """Define Bloom filters for columns of files that are written from now on. A column's earlier definition is
    replaced.

    Raises:
        BloomFilterColumnError: a column does not exist, or cannot have filters.
    """
    wanted = list(definitions)
    with TransactionBuilder(table, **author) as changes:
        before = BLOOM_FILTERS.get(changes.snapshot.properties, table=table.url)
        kept = without(before, [definition.path for definition in wanted])
        changes.set_properties({BLOOM_FILTERS.name: encode_bloom_filters([*kept, *wanted])})


def drop_bloom_filters(table: TableReader, columns: Iterable[Path] | None = None, **author: Unpack[Author]) -> None:
    """Drop the definitions of Bloom filters, all or those of some columns. Files keep the filters that they have.

    Raises:
        NoBloomFilterError: there is no such definition.
    """
    with TransactionBuilder(table, **author) as changes:
        before = BLOOM_FILTERS.get(changes.snapshot.properties, table=table.url)
        paths = [definition.path for definition in before] if columns is None else list(columns)
        missing = [dotted(path) for path in paths if len(without(before, [path])) == len(before)]
        if missing or not before:
            known = ", ".join(dotted(definition.path) for definition in before) or "none"
            raise NoBloomFilterError(table=table.url, columns=", ".join(missing) or "any column", known=known)
        after = without(before, paths)
        if after:
            changes.set_properties({BLOOM_FILTERS.name: encode_bloom_filters(after)})
        else:
            changes.unset_properties([BLOOM_FILTERS.name])


def truncate(table: TableReader, where: str | None = None, **author: Unpack[Author]) -> int:
    """Remove all rows, or those of some partitions.

    Args:
        where: SQL text over partition columns.

    Returns:
        the version that was committed.

    Raises:
        AppendOnlyTableError: the table is append-only.
        InvalidPredicateError, ColumnNotFoundError, InvalidOptionError: the text is not a predicate over partition
            columns.
    """
    snapshot = table.snapshot()
    request = WriteRequest(mode="overwrite", schema=snapshot.schema, replace_where=where, operation=TRUNCATE, **author)
    plan = plan_write(table, request)
    assert plan is not None
    version = plan.commit([])
    assert version is not None
    return version
