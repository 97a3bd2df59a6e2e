"""Lets Spark's tasks read data files through the local cache of their machines.

The file system that does it is Java of its own (`spark/java_executors`). It is compiled when a session with a cache
first scans a table in an object store, and sent to executors as a JAR; the driver needs its class too. Which scans use
it is said in the configuration of each scan, by a `delta.LocalCache`.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError

from tahoe.spark.jvm.gateway import EXECUTOR_SOURCES, Gateway, JavaObject, running_class
from tahoe.spark.jvm.hadoop_store import hadoop_url
from tahoe.spark.jvm.log_store import LogStoreAdapter
from tahoe.storage.cache.block_cache import BlockCache, CacheMetrics
from tahoe.storage.cache.cached_store import CachedStore
from tahoe.storage.coordinated import CoordinatedStore
from tahoe.storage.env import Store
from tahoe.storage.locations import split_url

SYSTEM_CLASS = "delta.cache.CachedFileSystem"

_CACHE_CLASS = "delta.LocalCache"

# What tasks of this JVM had read by then, of caches whose metrics include it.
_reported: WeakKeyDictionary[BlockCache, CacheMetrics] = WeakKeyDictionary()


def cached_store(store: Store) -> CachedStore | None:
    """The store that reads through a local cache, of a table's store; None if it reads without one."""
    files = store
    while isinstance(files, CoordinatedStore | LogStoreAdapter):
        files = files.inner
    return files if isinstance(files, CachedStore) else None


def cache_of_scan(gateway: Gateway, store: Store) -> JavaObject | None:
    """The `delta.LocalCache` through which a scan of a table reads its files; None for a table without a cache."""
    cached = cached_store(store)
    if cached is None:
        return None
    blocks = cached.blocks
    blocks.include(metrics_of_tasks)
    return gateway.java_class(_CACHE_CLASS)(
        SYSTEM_CLASS,
        split_url(hadoop_url(gateway, cached.url))[0],
        str(blocks.folder),
        blocks.bytes_max,
        blocks.compresses,
        cached.realm,
        gateway.compiled_jar(EXECUTOR_SOURCES, SYSTEM_CLASS),
    )


def metrics_of_tasks(blocks: BlockCache) -> CacheMetrics:
    """What Spark's tasks have read through the caches in folders of this path; after the JVM has ended, what they had
    read when somebody asked last.
    """
    try:
        counts = str(running_class(_CACHE_CLASS).metrics(str(blocks.folder))).split()
        names = ("hits", "misses", "cached_bytes", "fetched_bytes")
        _reported[blocks] = CacheMetrics(**dict(zip(names, map(int, counts), strict=True)))
    except (Py4JError, OSError):
        pass
    return _reported.get(blocks, CacheMetrics())
