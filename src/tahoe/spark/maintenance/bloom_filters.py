"""Bloom filters in a Spark session: CREATE and DROP BLOOMFILTER INDEX."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession

from tahoe.errors import BloomFilterOptionError
from tahoe.protocol.configuration.bloom_filters import BloomFilter, Path, bloom_filter
from tahoe.protocol.types.names import dotted
from tahoe.spark.jvm.gateway import author_of
from tahoe.spark.maintenance.user_command import run_for_user
from tahoe.sql.statements import CreateBloomFilters
from tahoe.table.table import Table
from tahoe.table.transactions.alter import create_bloom_filters, drop_bloom_filters


def run_create_filters(spark: SparkSession, table: Table, statement: CreateBloomFilters) -> None:
    """Define filters; see `create_bloom_filters`. Raises errors as users of Spark expect them."""
    run_for_user(spark, lambda: create_bloom_filters(table, _definitions(statement, table.url), **author_of(spark)))


def run_drop_filters(spark: SparkSession, table: Table, columns: Iterable[Path] | None) -> None:
    """Drop definitions; see `drop_bloom_filters`. Raises errors as users of Spark expect them."""
    run_for_user(spark, lambda: drop_bloom_filters(table, columns, **author_of(spark)))


def _definitions(statement: CreateBloomFilters, table: str) -> Iterator[BloomFilter]:
    """The definitions of the statement's columns. Options of a column take precedence over those of the statement.

    Raises:
        BloomFilterOptionError: an option does not exist, or has an invalid value.
    """
    for column in statement.columns:
        own = {name.lower() for name, _ in column.options}
        options = [*column.options, *((name, value) for name, value in statement.options if name.lower() not in own)]
        try:
            yield bloom_filter(column.path, options)
        except ValueError as error:
            raise BloomFilterOptionError(table=table, column=dotted(column.path), detail=str(error)) from None
