"""A statement with several INSERTs, of which Spark makes a Union of commands.

Into tables of one attached catalog, it is a transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql import SparkSession

from tahoe.spark.dml.rerun import with_retries
from tahoe.spark.dml.row_changes import DmlTarget
from tahoe.spark.jvm import attached_catalogs
from tahoe.spark.jvm.attached_catalogs import block_of, managed_at, name_of
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.hadoop_store import qualified_url
from tahoe.spark.jvm.plans import kind_of
from tahoe.spark.jvm.statements.write_commands import WRITES, target_url
from tahoe.spark.jvm.table_cache import open_table, recache, session_env

UNION = "Union"


def are_ours(gateway: Gateway, union: JavaObject) -> bool:
    """Whether the INSERTs of a statement become a transaction. Within one they are a part of it already."""
    return block_of(gateway) is None and _catalog_of(gateway, union) is not None


def _urls(gateway: Gateway, union: JavaObject) -> list[str | None]:
    """The folders of the tables that the statement writes to; None is another table than a Delta table."""
    children = gateway.items(union.children().iterator())
    urls = [target_url(child) if kind_of(child) in WRITES else None for child in children]
    return [None if url is None else qualified_url(gateway, url) for url in urls]


def _catalog_of(gateway: Gateway, union: JavaObject) -> str | None:
    """The name of the attached catalog that has all tables; None if there is no such catalog."""
    managed = [None if url is None else managed_at(url, asks=False) for url in _urls(gateway, union)]
    catalogs = {None if each is None else id(each.catalog) for each in managed}
    first = managed[0]
    return None if first is None or len(catalogs) > 1 else name_of(gateway, first.catalog)


def run(gateway: Gateway, union: JavaObject, write: Callable[[Gateway, JavaObject], None]) -> None:
    """Run the INSERTs, all or none.

    They are in a session of their own: a transaction of the user's session would take in what other threads do there
    meanwhile.

    Args:
        write: runs one of them.
    """
    catalog, url = _catalog_of(gateway, union), _urls(gateway, union)[0]
    assert catalog is not None
    assert url is not None
    own = Gateway(SparkSession(gateway.spark.sparkContext, gateway.session.cloneSession()))
    children = list(gateway.items(union.children().iterator()))
    target = DmlTarget(spark=gateway.spark, table=open_table(gateway.spark, url))
    for written in with_retries(target, lambda _: _run_once(own, catalog, children, write)):
        recache(gateway, written)


def _run_once(
    own: Gateway, catalog: str, children: list[JavaObject], write: Callable[[Gateway, JavaObject], None]
) -> list[str]:
    """Run the INSERTs in a transaction. Returns the folders that it has written to."""
    block = attached_catalogs.begin(own, catalog, partial(session_env, own.spark), is_serializable=False)
    try:
        for child in children:
            write(own, child)
        written = block.written(own)
    except BaseException:
        attached_catalogs.end(own, commits=False)
        raise
    attached_catalogs.end(own, commits=True)
    return written
