"""The tables and versions that this process has met in Spark, so that one query asks the log once.

What Spark holds on to is a url and a version; here they become a table and a snapshot again. Everything can be made anew from the log:
what is forgotten costs time. Here is also decided which storage a location is in, and with which settings of the session it is opened.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import partial
from typing import Generic, TypeVar

from pyspark.sql import SparkSession

from tahoe.errors import SessionNotEnabledError
from tahoe.protocol.predicate import TRUE, Predicate
from tahoe.protocol.time_zones import zone_asked_for
from tahoe.spark.jvm.cancellation import CommandWatch
from tahoe.spark.jvm.gateway import SOURCE_CLASS, Gateway
from tahoe.spark.jvm.hadoop_store import HadoopStore, is_hadoops, qualified
from tahoe.storage import env_of, open_store
from tahoe.storage.env import Store
from tahoe.storage.locations import S3_SCHEMES, spelled, split_url
from tahoe.storage.service_options import REFERENCE_PREFIXES
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.change_feed import ChangeFeed, FeedRange, load_feed
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.reading.snapshot_state import SnapshotState
from tahoe.table.table import Table

_logger = logging.getLogger("tahoe")

TABLES_MAX = 1000
SNAPSHOTS_MAX = 16
SCANS_MAX = 64
FEEDS_MAX = 16

TIME_ZONE = "spark.sql.session.timeZone"

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A dictionary that forgets what was used longest ago. Safe to use from several threads."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key]

    def kept(self) -> list[K]:
        """What is kept, the last used last."""
        with self._lock:
            return list(self._entries)

    def put(self, key: K, value: V) -> V:
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            while len(self._entries) > self._size_max:
                self._entries.popitem(last=False)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A table, and all settings of the storage that it was opened with."""

    table: Table
    settings: Mapping[str, str]


# By keys, and what the keys say that readers and writers gave.
_tables: Recent[str, _Opened] = Recent(TABLES_MAX)
_given: Recent[str, Mapping[str, str]] = Recent(TABLES_MAX)
_snapshots: Recent[tuple[str, int], Snapshot] = Recent(SNAPSHOTS_MAX)
_feeds: Recent[tuple[str, str, FeedRange], ChangeFeed] = Recent(FEEDS_MAX)
_scans: Recent[tuple[str, str, str, int, Predicate, str | None], Scan] = Recent(SCANS_MAX)


# --- tables


def open_table(spark: SparkSession, location: str, options: Mapping[str, str] | None = None) -> Table:
    """The table at a location, with the session's time zone and credentials, and before these those of a reader's or writer's options.

    Raises:
        UnsupportedStorageError, InvalidOptionError: the location is none.
        SessionNotEnabledError: it is in a file system of Hadoop's, for which the session needs our classes.
    """
    gateway = Gateway(spark)
    url = qualified(gateway, location)
    given = _of_storage(options)
    settings, zone, key = {**_storage_settings(gateway, url), **given}, session_zone(spark, url), key_of(url, given)
    known = _tables.get(key)
    if known is not None and known.settings == settings and known.table.log.zone == zone:
        return known.table
    if is_hadoops(url) and not gateway.has_class(SOURCE_CLASS):
        raise SessionNotEnabledError()
    table = Table(url, env=env_of(url, partial(_store_at, settings), CommandWatch()))
    table.log = replace(table.log, zone=zone)
    _tables.put(key, _Opened(table=table, settings=settings))
    return table


def _of_storage(options: Mapping[str, str] | None) -> dict[str, str]:
    return {name: value for name, value in (options or {}).items() if name.startswith(("fs.", "dfs."))}


def key_of(url: str, options: Mapping[str, str] | None) -> str:
    """What Spark holds on to for a table: its url, and which settings of the storage a reader gave, such as credentials, if it gave any."""
    given = _of_storage(options)
    if not given:
        return url
    name = hashlib.sha256(repr(sorted(given.items())).encode("utf-8", "surrogatepass")).hexdigest()
    _given.put(name, given)
    return f"{url}\0{name}"


def given_with(key: str) -> Mapping[str, str]:
    """The settings of the storage that a key stands for."""
    return _given.get(key.partition("\0")[2]) or {}


def _store_at(settings: Mapping[str, str], url: str) -> Store:
    return HadoopStore(url, settings) if is_hadoops(url) else open_store(url, settings)


def opened(spark: SparkSession, key: str) -> Table:
    """The table of a key."""
    return open_table(spark, key.partition("\0")[0], given_with(key))


def recache(gateway: Gateway, url: str) -> None:
    """Let DataFrames and tables that Spark has cached see a new version of a table.

    The version is committed, and so nothing of this may fail. What Spark cannot plan anew, because a column that it reads is gone, or
    another table, is cached no more: Spark lets go of entries before it makes them again.
    """
    try:
        gateway.session.sharedState().cacheManager().recacheByPath(gateway.session, url)
    except Exception as error:  # whatever Spark or a table of another entry has to say
        _logger.warning("DataFrames that read %s are cached no more, because one of them cannot be computed anew: %s", url, error)


def session_zone(spark: SparkSession, table: str) -> tzinfo:
    """Where times without a zone are: partition values of early writers, for instance."""
    return zone_asked_for(TIME_ZONE, str(spark.conf.get(TIME_ZONE)), table=table)


_HADOOP_PREFIXES = {"s3": "fs.s3a.", "s3a": "fs.s3a.", "s3n": "fs.s3a.", "abfs": "fs.azure.", "abfss": "fs.azure.", "gs": "fs.gs."}


def _storage_settings(gateway: Gateway, url: str) -> dict[str, str]:
    """What the session says of the kind of storage that a url is in, and of a commit service for it. It is asked each time: credentials
    may be renewed.

    For a store of ours that is Hadoop's configuration, and for one of Hadoop's what the session itself has set, before it.
    """
    if is_hadoops(url):
        return {name: value for name, value in gateway.settings().items() if name.startswith(("fs.", "dfs."))}
    scheme = split_url(url)[0]
    if scheme not in _HADOOP_PREFIXES:
        return {}
    prefixes = [_HADOOP_PREFIXES[scheme]]
    if scheme in S3_SCHEMES:
        prefixes += [f"{before}{prefix}" for before in ("", "spark.") for prefix in REFERENCE_PREFIXES]
    configuration = gateway.session.sessionState().newHadoopConf()
    found = {prefix: gateway.texts(configuration.getPropsWithPrefix(prefix)) for prefix in prefixes}
    return {prefix + name: value for prefix, settings in found.items() for name, value in settings.items()}


# --- versions


def metadata_identity(snapshot: Snapshot) -> str:
    """Tells whether two versions have the same schema, partitioning and column mapping, and are of one table: a path may see several."""
    metadata = snapshot.metadata
    parts = (metadata.id, metadata.schema_string, ",".join(snapshot.partition_columns), snapshot.column_mapping_mode)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def remember(snapshot: Snapshot) -> Snapshot:
    """Keep a snapshot that a query was planned with, for when it runs."""
    return _snapshots.put((snapshot.url, snapshot.version), snapshot)


def snapshot_of(table: Table, version: int) -> Snapshot:
    """A version that a query was planned with.

    Raises:
        DeltaError: it is not kept any more, and the log does not have it any more.
    """
    known = _snapshots.get((table.url, version))
    return known if known is not None and _is_read_alike(known, table.log) else remember(table.snapshot(version))


def _is_read_alike(snapshot: SnapshotState, log: Log) -> bool:
    """Whether a snapshot was read with the same credentials and time zone."""
    return snapshot.log.env.store is log.env.store and snapshot.log.zone == log.zone


def owner_of(file: str) -> tuple[str, int] | None:
    """The table that was opened and has a file below its folder, and the version of it that was read last; None where there is none."""
    url = spelled(file)
    read = {table: version for table, version in _snapshots.kept() if url.startswith(table + "/")}
    return max(read.items(), key=lambda entry: len(entry[0])) if read else None


def scan_of(snapshot: Snapshot, predicate: Predicate, within: str | None = None) -> Scan:
    """The files that may match, of those whose numbers are given if any are; asked when a query is planned and again when it runs."""
    key = (snapshot.url, str(snapshot.log.zone), metadata_identity(snapshot), snapshot.version, predicate, within)
    known = _scans.get(key)
    return (
        known if known is not None and _is_read_alike(known.snapshot, snapshot.log) else _scans.put(key, _scan(snapshot, predicate, within))
    )


def _scan(snapshot: Snapshot, predicate: Predicate, within: str | None) -> Scan:
    scan = snapshot.scan(None if predicate == TRUE else predicate)
    numbers = None if within is None else _numbers_in(within)
    return scan if numbers is None else scan.within(numbers)


# --- the files of one snapshot, by their numbers


_held: dict[str, Snapshot] = {}
_holds = itertools.count(1)


def hold(snapshot: Snapshot) -> str:
    """Keep a snapshot while a command goes by the numbers of its files, until `release`. Returns what it is asked for by."""
    name = str(next(_holds))
    _held[name] = snapshot
    return name


def release(held: str) -> None:
    """Forget a snapshot that was held."""
    _held.pop(held, None)


def held_snapshot(within: str) -> Snapshot:
    """The snapshot that `within_text` names. Its command is still running."""
    return _held[within.partition(":")[0]]


def within_text(held: str, numbers: Iterable[int] | None) -> str:
    """A snapshot that is held, and the numbers of the only files of it that count, if not all do, as Java passes them on."""
    return held if numbers is None else f"{held}:{','.join(map(str, sorted(numbers)))}"


def _numbers_in(within: str) -> list[int] | None:
    _, has_numbers, numbers = within.partition(":")
    return [int(number) for number in numbers.split(",") if number] if has_numbers else None


# --- change feeds


def remember_feed(feed: ChangeFeed) -> ChangeFeed:
    """Keep a feed that a query was analysed with, for when it is planned and runs."""
    return _feeds.put((feed.url, str(feed.snapshot.log.zone), feed.range), feed)


def feed_of(table: Table, versions: FeedRange) -> ChangeFeed:
    """A feed that a query was analysed with.

    Raises:
        DeltaError: it is not kept any more, and the log does not have all of it any more.
    """
    known = _feeds.get((table.url, str(table.log.zone), versions))
    return (
        known
        if known is not None and _is_read_alike(known.snapshot, table.log)
        else remember_feed(load_feed(snapshot_of(table, versions.schema_version), versions))
    )
