"""`tahoe.transaction(spark)`: all statements of a session in a block change several tables of a catalog at once, or
none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from pyspark.sql import SparkSession

from tahoe.errors import DeltaError, UnsupportedOperationError
from tahoe.spark.api.connect.session import is_connect, is_served
from tahoe.spark.jvm import attached_catalogs
from tahoe.spark.jvm.attached_catalogs import Block
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.table_cache import open_table, recache, session_env
from tahoe.spark.maintenance.user_command import raising_for_user


@contextmanager
def transaction(spark: SparkSession, *, catalog: str | None = None, serializable: bool = False) -> Iterator[None]:
    """A block in which all statements and writes of a session become visible at once with its end, or not at all.

    Reads in the block see all tables of the catalog as they were when it began, and what the block itself has written.
    If the block raises an error, nothing of it becomes visible.

    >>> with tahoe.transaction(spark):
    ...     spark.sql("INSERT INTO lake.shop.orders VALUES ('tea', 3)")
    ...     spark.sql("UPDATE lake.shop.stock SET pieces = pieces - 3 WHERE item = 'tea'")

    Args:
        catalog: whose tables change; None for the session's current one, or the only one that is attached.
        serializable: refuse the block also if a table that it has read and not changed has changed meanwhile.

    Raises:
        TransactionStateError: the session is in a transaction already.
        CatalogNotChosenError: the session has no such catalog.
        DeltaConcurrentModificationException: what another writer has committed meanwhile conflicts. A
            TransactionConflictError among them says that running the block again can help.
    """
    if is_connect(spark) or is_served(spark):
        yield from _over_connect(spark, catalog, is_serializable=serializable)
        return
    begin(spark, catalog, is_serializable=serializable)
    try:
        yield
    except BaseException:
        end(spark, commits=False)
        raise
    end(spark, commits=True)


def _over_connect(spark: SparkSession, catalog: str | None, *, is_serializable: bool) -> Iterator[None]:
    """The same by statements, which the server runs in the client's session there."""
    if not is_served(spark):
        detail = "the server of this Spark Connect session does not have tahoe"
        remedy = "Use a server that tahoe has started, or catalog.transaction() without Spark."
        raise UnsupportedOperationError(
            operation="tahoe.transaction", table="the session", detail=detail, remedy=remedy
        )
    before = spark.catalog.currentCatalog()
    try:
        if catalog is not None:
            spark.catalog.setCurrentCatalog(catalog)
        spark.sql("BEGIN TRANSACTION" + (" ISOLATION LEVEL SERIALIZABLE" if is_serializable else ""))
    finally:
        spark.catalog.setCurrentCatalog(before)
    try:
        yield
    except BaseException:
        spark.sql("ROLLBACK")
        raise
    spark.sql("COMMIT")


def begin(spark: SparkSession, catalog: str | None = None, *, is_serializable: bool = False) -> None:
    """Begin a transaction: as `transaction`."""
    gateway, env_at = Gateway(spark), partial(session_env, spark)
    raising_for_user(lambda: attached_catalogs.begin(gateway, catalog, env_at, is_serializable=is_serializable))


def end(spark: SparkSession, *, commits: bool) -> None:
    """End the session's transaction: as `transaction`."""
    gateway = Gateway(spark)
    block = attached_catalogs.block_of(gateway)
    written, read = ([], {}) if block is None else (block.written(gateway), _read_in(gateway, block))
    try:
        raising_for_user(lambda: attached_catalogs.end(gateway, commits=commits))
    finally:  # what was cached in the block has rows of its moment, and of a block that is undone
        for url in written:
            recache(gateway, url)
        for url, version in read.items():
            if _newest_version(spark, url) != version:
                recache(gateway, url)


def _newest_version(spark: SparkSession, url: str) -> int | None:
    """The version of a table after a block; None if it is gone."""
    try:
        return open_table(spark, url).version
    except (DeltaError, OSError):
        return None


def _read_in(gateway: Gateway, block: Block) -> dict[str, int]:
    """The tables that a block has only read, by their folders, with their versions in it, if any rows are cached."""
    if gateway.session.sharedState().cacheManager().isEmpty():
        return {}
    written = block.written(gateway)
    return {url: table.version for url, table in block.opened.items() if url not in written}
