"""Whether a session runs plans natively, on Arrow: Apache DataFusion Comet, a plugin of Spark."""

from __future__ import annotations

import warnings
from weakref import WeakKeyDictionary

from pyspark import SparkContext

from tahoe._cached import Recent
from tahoe.native_settings import COMET_ENABLED, EXACT_SETTINGS, SESSION_SETTINGS, memory_obstacle
from tahoe.spark.jvm.gateway import Gateway, JavaObject

# Comet's class that says for the settings of a session whether it is on, and whether its library could be loaded.
EXTENSIONS = "org.apache.comet.CometSparkSessionExtensions"

# Comet accepts no subclass of it, because it calls no method of a format.
_FORMAT = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"

# More than any file has.
_ALL_BYTES = 1 << 50

# Opening a file costs as much as a partition may have, so that a second one does not fit.
_WHOLE_FILES = {
    "spark.sql.files.maxPartitionBytes": str(_ALL_BYTES),
    "spark.sql.files.openCostInBytes": str(_ALL_BYTES),
}
_PARTITIONS_MAX = "spark.sql.files.maxPartitionNum"

# How many sessions, with different settings, are kept for the next query.
_KEPT_MAX = 4

# Plugins and the class path of a context do not change.
_has_comet: WeakKeyDictionary[SparkContext, bool] = WeakKeyDictionary()

_whole_files: Recent[tuple[str, str, frozenset[tuple[str, str]]], JavaObject] = Recent(_KEPT_MAX)


def runs_natively(gateway: Gateway) -> bool:
    """Whether Comet is loaded in a session's context, and on by the session's settings."""
    context = gateway.spark.sparkContext
    has_comet = _has_comet.get(context)
    if has_comet is None:
        has_comet = _has_comet[context] = EXTENSIONS in str(
            gateway.spark.conf.get("spark.sql.extensions", "")
        ) and gateway.has_class(EXTENSIONS)
    return has_comet and bool(gateway.module(EXTENSIONS).isCometLoaded(gateway.session.sessionState().conf()))


def native_format(gateway: Gateway) -> JavaObject:
    """The file format whose files a native engine reads."""
    return gateway.java_class(_FORMAT)()


def session_of_whole_files(gateway: Gateway) -> JavaObject:
    """A copy of the session, for relations of which each file is one partition, whatever its size."""
    key = gateway.spark.sparkContext.applicationId, gateway.session.sessionUUID(), frozenset(gateway.settings().items())
    kept_session = _whole_files.get(key)
    if kept_session is not None:
        return kept_session
    copy = gateway.session.cloneSession()
    for name, value in _WHOLE_FILES.items():
        copy.conf().set(name, value)
    copy.conf().unset(_PARTITIONS_MAX)
    return _whole_files.put(key, copy)


def prefer_native(gateway: Gateway) -> None:
    """Let rows that Spark itself must read reach native operators, and leave functions to Spark that Comet computes
    otherwise.

    In this session and in new ones, if no setting says otherwise.

    If the memory of a session that has Comet by other means does not suffice, Comet is switched off in it, and in new
    ones unless their builder has switched it on; a warning tells why.
    """
    if not runs_natively(gateway):
        return
    reason = memory_obstacle(dict(gateway.spark.sparkContext.getConf().getAll()))
    if reason is not None:
        warnings.warn(reason, stacklevel=3)
        _set(gateway, COMET_ENABLED, "false")
        return
    settings = gateway.settings()
    for name, value in (SESSION_SETTINGS | EXACT_SETTINGS).items():
        if name not in settings:
            _set(gateway, name, value)


def _set(gateway: Gateway, name: str, value: str) -> None:
    """Set a setting in the session and in those that will be created from its context."""
    gateway.spark.conf.set(name, value)
    gateway.session.sharedState().conf().set(name, value)
