"""A cache of the tables, snapshots, scans and change feeds that this process uses in Spark, so that a query reads the
log once.

Spark's plans hold a url and a version; this module maps them back to a table and a snapshot. A missing entry only costs
time, because every entry can be loaded from the log again. This module also selects the store of a location and the
session's settings for that store.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary

import pyarrow.compute as pc
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tahoe._cached import Recent
from tahoe.errors import StorageOptionsForgottenError
from tahoe.protocol.statistics.answers import Question
from tahoe.protocol.statistics.limits import RowLimit
from tahoe.protocol.types.predicate import TRUE, Predicate
from tahoe.protocol.types.time_zones import zone_asked_for
from tahoe.spark.configuration.local_cache import session_cache
from tahoe.spark.jvm.attached_catalogs import (
    BLOCK,
    Block,
    Handing,
    ManagedTable,
    OutsideOfBlock,
    block_of,
    block_with,
    handing_at,
    managed_at,
)
from tahoe.spark.jvm.cancellation import CommandWatch
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.hadoop_store import HadoopStore, is_hadoops, qualified_url
from tahoe.spark.jvm.handed_credentials import credentials_for_tasks, hadoop_credentials, takes_credentials
from tahoe.spark.jvm.log_store import log_store_settings, with_log_store
from tahoe.storage import env_of, open_store
from tahoe.storage.cache.block_cache import BlockCache
from tahoe.storage.env import Env, Store, may_be_described
from tahoe.storage.locations import spelled, split_url
from tahoe.storage.schemes import S3_SCHEMES, store_factory
from tahoe.storage.service_options import REFERENCE_PREFIXES
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.answers import left_of
from tahoe.table.reading.limits import needed
from tahoe.table.reading.scan import Scan, may_match, part_of
from tahoe.table.reading.snapshot import Snapshot, chosen_files
from tahoe.table.table import Table
from tahoe.table.versions.change_feed import ChangeFeed, FeedRange, load_feed
from tahoe.table.versions.table_reader import go_on_from, newest_known

if TYPE_CHECKING:  # a catalog needs SQLAlchemy, which sessions without one do not
    from tahoe.catalog.remote_credentials import Handed

_logger = logging.getLogger("tahoe")

TABLES_MAX = 1000
OPTIONS_MAX = 1000
SNAPSHOTS_MAX = 16
SCANS_MAX = 64
FEEDS_MAX = 16

# Why a scan needs only some files: an aggregate that the log answers in part, or a LIMIT.
Purpose: TypeAlias = Question | RowLimit

TIME_ZONE = "spark.sql.session.timeZone"


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenTable:
    """A table, and how it was opened."""

    table: Table
    access: _Access
    managed: ManagedTable | None


@dataclass(frozen=True, slots=True)
class _Access:
    """All settings with which the store and the log of a table are opened; the local cache through which it is read;
    and who hands out credentials for its folder.
    """

    settings: Mapping[str, str]
    log_settings: Mapping[str, str]
    cache: BlockCache | None
    folder: str
    handing: Handing | None = None

    def env_at(self, url: str) -> Env:
        return env_of(url, partial(_store_at, self), CommandWatch())


# Tables by their keys (see `key_of`), and the storage settings from options by the hash in a key.
_tables: Recent[str, _OpenTable] = Recent(TABLES_MAX)
_storage_options: Recent[str, Mapping[str, str]] = Recent(OPTIONS_MAX)
# Stored twice: by the store that it was read with, and under None as the latest one.
_snapshots: Recent[tuple[str, int, int | None], Snapshot] = Recent(2 * SNAPSHOTS_MAX)
_feeds: Recent[tuple[str, str, FeedRange, int | None], ChangeFeed] = Recent(2 * FEEDS_MAX)
_settings_of_contexts: WeakKeyDictionary[SparkContext, Mapping[str, str]] = WeakKeyDictionary()
_scans: Recent[tuple[str, str, str, int, Predicate, str | None, Purpose | None, int], Scan] = Recent(SCANS_MAX)


# --- tables


def open_table(spark: SparkSession, location: str, options: Mapping[str, str] | None = None) -> Table:
    """The table at a location, with the session's time zone and storage settings.

    Args:
        options: of a reader or writer; its storage settings, such as credentials, take precedence over the session's.

    Raises:
        UnsupportedStorageError, InvalidOptionError: the location is not valid.
        UnknownLogStoreError: the session commits by a class of its own, which cannot be called.
        SessionNotEnabledError: the table is in a Hadoop file system, and the session does not have our classes.
    """
    gateway = Gateway(spark)
    url = qualified_url(gateway, location)
    own_settings, zone = _storage_options_in(options), session_zone(spark, url)
    cached = _tables.get(key := key_of(url, own_settings))
    managed = managed_at(url, asks=cached is None)
    block = block_with(own_settings[BLOCK]) if BLOCK in own_settings else block_of(gateway)
    if block is not None and (table := block.table(managed)) is not None:
        return _in_zone(table, zone)
    access = _access(gateway, url, own_settings)
    if block is not None:
        return _in_zone(Table(url, env=replace(access.env_at(url), watch=OutsideOfBlock(block.name))), zone)
    if cached is not None and (cached.access, cached.managed, cached.table.log.zone) == (access, managed, zone):
        return cached.table
    if is_hadoops(url):
        gateway.check_enabled()
    env = access.env_at(url)
    table = Table(url, env=env) if managed is None else managed.opened(env)
    _tables.put(key, _OpenTable(table=_in_zone(table, zone), access=access, managed=managed))
    return table


def _in_zone(table: Table, zone: tzinfo) -> Table:
    if table.log.zone != zone:
        table.log = replace(table.log, zone=zone)
        known = newest_known(table)
        if known is not None:
            go_on_from(table, known)
    return table


def _access(gateway: Gateway, url: str, own_settings: Mapping[str, str]) -> _Access:
    settings = {**_storage_settings(gateway, url), **own_settings}
    return _Access(
        settings=settings,
        log_settings=log_store_settings(_context_settings(gateway.spark), gateway.settings),
        cache=session_cache(gateway.settings(), url) if split_url(url)[0] in _HADOOP_PREFIXES else None,
        folder=url,
        handing=handing_at(gateway, url) if takes_credentials(url, settings) else None,
    )


def settings_of_scan(gateway: Gateway, key: str) -> dict[str, str]:
    """The storage settings with which tasks read a table: those of its key, and credentials for its folder."""
    own_settings = storage_options_of(key)
    return {**own_settings, **handed_settings(gateway, key.partition("\0")[0], own_settings)}


def handed_settings(gateway: Gateway, url: str, own_settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of Hadoop with credentials that a server hands out for a table's folder; none if the session, or a
    reader's or writer's own settings, have keys.
    """
    if handing_at(gateway, url) is None:
        return {}
    handing = _access(gateway, url, own_settings).handing
    return {} if handing is None else credentials_for_tasks(gateway, url, handing())


def session_env(spark: SparkSession, url: str) -> Env:
    """The environment of a folder, as plans spell it, with the session's storage settings as they are now."""
    gateway = Gateway(spark)
    folder = qualified_url(gateway, url)
    return _access(gateway, folder, {}).env_at(folder)


def table_finder(spark: SparkSession, options: Mapping[str, str] | None = None) -> Callable[[str], bool]:
    """A function that tells whether there is a table at a location; `options` are those of a reader."""
    return lambda location: open_table(spark, location, options).exists()


def _storage_options_in(options: Mapping[str, str] | None) -> dict[str, str]:
    return {name: value for name, value in (options or {}).items() if name.startswith(("fs.", "dfs."))}


def key_of(url: str, options: Mapping[str, str] | None, block: Block | None = None) -> str:
    """The key by which Spark's plans refer to a table: its url, and a hash of the storage settings in the options if
    there are any.

    Args:
        block: in which the table is read: its rows are those of no other plan.
    """
    storage_options = _storage_options_in(options) | ({} if block is None else {BLOCK: block.id})
    if not storage_options:
        return url
    name = hashlib.sha256(repr(sorted(storage_options.items())).encode("utf-8", "surrogatepass")).hexdigest()
    _storage_options.put(name, storage_options)
    return f"{url}\0{name}"


def storage_options_of(key: str) -> Mapping[str, str]:
    """The storage settings from options that a key refers to.

    Raises:
        StorageOptionsForgottenError: a plan must not be read with other credentials than its own.
    """
    url, _, name = key.partition("\0")
    storage_options = _storage_options.get(name) if name else {}
    if storage_options is None:
        raise StorageOptionsForgottenError(table=url, count=OPTIONS_MAX)
    return storage_options


def _store_at(access: _Access, url: str) -> Store:
    if access.handing is not None and url == access.folder:
        from tahoe.catalog.remote_credentials import RenewedStore  # noqa: PLC0415 - needs a catalog

        return RenewedStore(url, access.handing, partial(_store_with, replace(access, handing=None), url))
    return with_log_store(_files_at(access.settings, access.cache, url), access.log_settings, access.settings)


def _store_with(access: _Access, url: str, handed: Handed) -> Store:
    return _store_at(replace(access, settings={**access.settings, **hadoop_credentials(url, handed)}), url)


def _files_at(settings: Mapping[str, str], cache: BlockCache | None, url: str) -> Store:
    if is_hadoops(url):
        return HadoopStore(url, settings)
    scheme = split_url(url)[0]
    if store_factory(scheme) is not None:  # its options have the names that its author has given them
        return open_store(url, {name.removeprefix(f"fs.{scheme}."): value for name, value in settings.items()})
    return open_store(url, settings, lambda: cache)


def table_of_key(spark: SparkSession, key: str) -> Table:
    """The table of a key."""
    return open_table(spark, key.partition("\0")[0], storage_options_of(key))


def recache(gateway: Gateway, url: str) -> None:
    """Refresh Spark's cached DataFrames and tables that read a table, after a commit.

    Within a block it does nothing, because other sessions would see rows that are not committed yet; its end does it.
    It never raises, because the version is committed already. Spark drops cache entries before it builds them again, so
    an entry that can no longer be planned, for example because a column was dropped, is no longer cached.
    """
    if block_of(gateway) is not None:
        return
    try:
        gateway.session.sharedState().cacheManager().recacheByPath(gateway.session, url)
    except Exception as error:  # any error of Spark, or of another table that the entry reads
        _logger.warning(
            "cached DataFrames that read %s are no longer cached, because one of them cannot be recomputed: %s",
            url,
            error,
        )


def _context_settings(spark: SparkSession) -> Mapping[str, str]:
    """The settings of a Spark context, which are those that the reference takes classes of log stores from."""
    context = spark.sparkContext
    settings = _settings_of_contexts.get(context)
    if settings is None:
        settings = _settings_of_contexts[context] = dict(context.getConf().getAll())
    return settings


def session_zone(spark: SparkSession, table: str) -> tzinfo:
    """The session's time zone, in which timestamps without a zone are read, such as partition values of older
    writers.
    """
    return zone_asked_for(TIME_ZONE, str(spark.conf.get(TIME_ZONE)), table=table)


_HADOOP_PREFIXES = {
    "s3": "fs.s3a.",
    "s3a": "fs.s3a.",
    "s3n": "fs.s3a.",
    "abfs": "fs.azure.",
    "abfss": "fs.azure.",
    "gs": "fs.gs.",
}


def _storage_settings(gateway: Gateway, url: str) -> dict[str, str]:
    """The session's settings for the storage of a url, and for its commit service. They are read each time, as
    credentials may be renewed.

    For our own stores they come from the session's Hadoop configuration. For Hadoop file systems they are the session's
    explicit settings, which take precedence over the Hadoop configuration.
    """
    if is_hadoops(url):
        return {name: value for name, value in gateway.settings().items() if name.startswith(("fs.", "dfs."))}
    scheme = split_url(url)[0]
    prefix = _HADOOP_PREFIXES.get(scheme) if store_factory(scheme) is None else f"fs.{scheme}."
    if prefix is None:
        return {}
    prefixes = [prefix]
    if scheme in S3_SCHEMES:
        prefixes += [f"{before}{prefix}" for before in ("", "spark.") for prefix in REFERENCE_PREFIXES]
    configuration = gateway.session.sessionState().newHadoopConf()
    by_prefix = {prefix: gateway.texts(configuration.getPropsWithPrefix(prefix)) for prefix in prefixes}
    return {prefix + name: value for prefix, settings in by_prefix.items() for name, value in settings.items()}


# --- versions


def metadata_identity(snapshot: Snapshot) -> str:
    """A hash that is equal for versions of one table with the same schema, partitioning and column mapping.

    It includes the table id, because a path may hold different tables over time.
    """
    metadata = snapshot.metadata
    parts = (metadata.id, metadata.schema_string, ",".join(snapshot.partition_columns), snapshot.column_mapping_mode)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def remember(snapshot: Snapshot) -> Snapshot:
    """Cache a snapshot that a query was planned with, for its execution."""
    for store in _stores(snapshot.log, snapshot.version):
        _snapshots.put((snapshot.url, snapshot.version, store), snapshot)
    return snapshot


def _stores(log: Log, version: int) -> tuple[int | None, ...]:
    """The stores by which a version is cached. One that is not committed yet is that of its block alone."""
    store = log.env.store
    return (id(store), None) if may_be_described(store, version) else (id(store),)


def snapshot_of(table: Table, version: int) -> Snapshot:
    """The snapshot that a query was planned with, from the cache or the log.

    Raises:
        DeltaError: the version is neither in the cache nor in the log any more.
    """
    # A snapshot that is loaded again may list its files in another order than the plan knows. So one that was read with
    # credentials that were renewed since is better than a new one.
    candidates = (_snapshots.get((table.url, version, store)) for store in _stores(table.log, version))
    cached = next(
        (snapshot for snapshot in candidates if snapshot is not None and snapshot.log.zone == table.log.zone), None
    )
    return remember(table.snapshot(version)) if cached is None else cached


def owner_of(file: str) -> tuple[str, int] | None:
    """The url of the cached table that has a file, and the version that was read last; None if there is none.

    Files that a stream reads belong to the versions that have added them, which its batches know. A shallow clone has
    files in the folder of another table: of the versions that have the file, the one that was read last counts.
    """
    url = spelled(file)
    for stream in list(_held.values()):
        version = stream.version_of(file) if stream.version_of and url.startswith(stream.snapshot.url + "/") else None
        if version is not None:
            return stream.snapshot.url, version
    for snapshot in reversed(_snapshots.values()):
        if _has(snapshot, file):
            return snapshot.url, snapshot.version
    read = {table: version for table, version, _ in _snapshots.kept() if url.startswith(table + "/")}
    return max(read.items(), key=lambda entry: len(entry[0])) if read else None


def _has(snapshot: Snapshot, file: str) -> bool:
    """Whether a file is one of a version."""
    paths, canonical = snapshot.live.column("path"), snapshot.log.canonical
    same_name = paths.filter(pc.match_substring(paths, posixpath.basename(file)))
    return canonical(file) in map(canonical, same_name.to_pylist())


def scan_of(
    snapshot: Snapshot, predicate: Predicate, within: str | None = None, purpose: Purpose | None = None
) -> Scan:
    """The files that may match a predicate. It is called when a query is planned, and again when it runs.

    Args:
        within: limits the files to certain numbers, from `within_text`; None for all files.
        purpose: leaves out the files that are not needed for it.
    """
    identity, store = metadata_identity(snapshot), id(snapshot.log.env.store)
    key = (snapshot.url, str(snapshot.log.zone), identity, snapshot.version, predicate, within, purpose, store)
    scan = _scans.get(key)
    if (
        scan is None or scan.snapshot is not snapshot
    ):  # a copy of the table may have taken its place, with other files in this version
        scan = _scans.put(
            key,
            _scan(snapshot, predicate, within) if purpose is None else _scan_for(purpose, snapshot, predicate, within),
        )
    return scan


def _scan_for(purpose: Purpose, snapshot: Snapshot, predicate: Predicate, within: str | None) -> Scan:
    match purpose:
        case Question():
            return left_of(purpose, scan_of(snapshot, predicate, within))
        case RowLimit():  # which files a limit needs depends on all files that may match its own condition
            scan = needed(purpose, scan_of(snapshot, purpose.condition, within))
            mask = None if predicate == purpose.condition else may_match(scan, predicate)
            return scan if mask is None else part_of(scan, pc.indices_nonzero(mask))


def _scan(snapshot: Snapshot, predicate: Predicate, within: str | None) -> Scan:
    scan = chosen_files(snapshot, None if predicate == TRUE else predicate)
    numbers = None if within is None else _numbers_in(within)
    return scan if numbers is None else scan.within(numbers)


# --- the files of one snapshot, by their numbers


@dataclass(frozen=True, slots=True)
class _HeldSnapshot:
    snapshot: Snapshot
    marked: bool
    version_of: Callable[[str], int | None] | None


_held: dict[str, _HeldSnapshot] = {}
_holds = itertools.count(1)


def hold(snapshot: Snapshot, *, marked: bool = False, version_of: Callable[[str], int | None] | None = None) -> str:
    """Hold a snapshot while a command uses its file numbers, until `release`. Returns the name for `within_text` and
    `release`.

    Args:
        marked: whether queries are to read the rows that deletion vectors mark, instead of all others.
        version_of: the version to which a file belongs, by its url; None for the version that was read last.
    """
    name = str(next(_holds))
    _held[name] = _HeldSnapshot(snapshot, marked, version_of)
    return name


def release(name: str) -> None:
    """Release a held snapshot, and its scans: no query asks for them any more."""
    _held.pop(name, None)
    _scans.drop(lambda key: key[5] is not None and _name_in(key[5]) == name)


def held_snapshot(within: str) -> Snapshot:
    """The held snapshot that a text from `within_text` names. Precondition: its command is still running."""
    return _held[_name_in(within)].snapshot


def holds_marked(within: str) -> bool:
    """Whether the snapshot that a text from `within_text` names is held for the rows that deletion vectors mark."""
    return _held[_name_in(within)].marked


def within_text(name: str, numbers: Iterable[int] | None) -> str:
    """A held snapshot, and the numbers of its files to read (None for all), as a string that Java passes through."""
    return name if numbers is None else f"{name}:{','.join(map(str, sorted(numbers)))}"


def _name_in(within: str) -> str:
    return within.partition(":")[0]


def _numbers_in(within: str) -> list[int] | None:
    _, has_numbers, numbers = within.partition(":")
    return [int(number) for number in numbers.split(",") if number] if has_numbers else None


# --- change feeds


def remember_feed(feed: ChangeFeed) -> ChangeFeed:
    """Cache a change feed that a query was analysed with, for its planning and execution."""
    log = feed.snapshot.log
    for store in _stores(log, max(feed.range.end, feed.range.schema_version)):
        _feeds.put((feed.url, str(log.zone), feed.range, store), feed)
    return feed


def feed_of(table: Table, versions: FeedRange) -> ChangeFeed:
    """The change feed that a query was analysed with, from the cache or the log.

    Raises:
        DeltaError: the feed is not in the cache any more, and the log no longer has all of its commits.
    """
    newest = max(versions.end, versions.schema_version)
    candidates = (_feeds.get((table.url, str(table.log.zone), versions, store)) for store in _stores(table.log, newest))
    cached = next((feed for feed in candidates if feed is not None), None)
    return cached or remember_feed(load_feed(snapshot_of(table, versions.schema_version), versions))
