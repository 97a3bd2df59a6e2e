"""CACHE SELECT: reads columns of a table, so that the local cache of each machine has what its tasks read of them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col

from tahoe.errors import TableNotCachedError
from tahoe.protocol.types.names import quoted
from tahoe.spark.jvm.executor_cache import cached_store
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.native_engine import runs_natively
from tahoe.spark.maintenance.user_command import raising_for_user
from tahoe.table.table import Table


def run_cache_select(
    table: Table, rows: DataFrame, columns: Sequence[tuple[str, ...]], condition: Column | None
) -> None:
    """Read columns of the rows of a table for which a condition is true, and keep what was read.

    Args:
        rows: all rows of the table.
        columns: all if there are none.

    Raises:
        TableNotCachedError: nothing of the table can be kept.
    """
    raising_for_user(lambda: _check_cached(Gateway(rows.sparkSession), table))
    chosen = [col(".".join(map(quoted, column))) for column in columns] or [col("*")]
    selected = rows if condition is None else rows.where(condition)
    selected.select(*chosen).write.format("noop").mode("overwrite").save()


def _check_cached(gateway: Gateway, table: Table) -> None:
    if cached_store(table.env.store) is None:
        detail = "the session has no local cache, or the table is not in an object store"
    elif runs_natively(gateway):
        detail = "Comet reads the files, and knows no cache"
    else:
        return
    raise TableNotCachedError(table=table.url, detail=detail)
