"""An object store that Hadoop and tahoe read: `etag://lake/path` is a path of the local disk, and its files have ETags.

What tahoe reads of it itself goes through the cache of the session, as with the object stores that it knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tahoe.spark.jvm.gateway import Gateway
from tahoe.storage import register
from tahoe.storage.cache.block_cache import BlockCache, block_cache
from tahoe.storage.cache.cached_store import CachedStore
from tahoe.storage.env import Fetched, FileInfo, Store
from tahoe.storage.local import LocalStore

SYSTEM = "etags.EtagFileSystem"
ROOT = "etag://lake"

BYTES_MAX = 1 << 30

_SOURCES = Path(__file__).parent / "java"


class EtagStore:
    """A `RemoteStore` over a local folder, by another url."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.local = LocalStore(url.removeprefix(ROOT))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.local, name)

    def head(self, key: str) -> FileInfo | None:
        info = self.local.head(key)
        return None if info is None else _tagged(info)

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        return map(_tagged, self.local.list_from(prefix, start_after))

    def walk(self, prefix: str = "") -> Iterator[FileInfo]:
        return map(_tagged, self.local.walk(prefix))

    def fetch(
        self, key: str, start: int = 0, length: int | None = None, unless: FileInfo | None = None
    ) -> Fetched | None:
        tagged = self.head(key)
        if tagged is None:
            raise FileNotFoundError(key)
        if unless is not None and unless.identity == tagged.identity:
            return None
        data = self.local.get(key)
        return Fetched(tagged, data[start:] if length is None else data[start : start + length])


def _tagged(info: FileInfo) -> FileInfo:
    return FileInfo(info.key, info.size_bytes, info.modified_ms, f"{info.modified_ms}-{info.size_bytes}")


def _opened(url: str, options: Mapping[str, str]) -> Store:
    store: Any = EtagStore(url)
    if "cache" not in options:
        return store
    return CachedStore(store, "realm", block_cache(options["cache"], int(options["cache.bytes"]), False))


def install(spark: SparkSession, *, on_executors: bool = False) -> None:
    """Let Spark and tahoe know the storage.

    Args:
        on_executors: whether executors are processes of their own.
    """
    jar = Gateway(spark).compiled_jar(_SOURCES, SYSTEM)
    if on_executors:
        spark.sparkContext._jsc.addJar(jar)
    spark.sparkContext._jsc.hadoopConfiguration().set("fs.etag.impl", SYSTEM)
    register("etag", _opened)


def use_cache(spark: SparkSession, folder: Path | None, bytes_max: int = BYTES_MAX) -> BlockCache | None:
    """Read tables of the storage through a cache in this session, or without."""
    if folder is None:
        spark.conf.unset("fs.etag.cache")
        return None
    spark.conf.set("fs.etag.cache", str(folder))
    spark.conf.set("fs.etag.cache.bytes", str(bytes_max))
    return block_cache(str(folder), bytes_max, False)


@dataclass
class Counts:
    """What was asked of the storage through Hadoop."""

    bytes: int
    reads: int
    statuses: int


def counts(spark: SparkSession) -> Counts:
    system = Gateway(spark).load_class(SYSTEM)
    return Counts(*(int(system.getField(name).get(None)) for name in ("BYTES", "READS", "STATUSES")))


def set_fault(spark: SparkSession, fault: str) -> None:
    """See `EtagFileSystem.fault`."""
    Gateway(spark).set_static(SYSTEM, "fault", fault)
