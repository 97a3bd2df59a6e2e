"""Whether a session runs plans natively, on Arrow: Apache DataFusion Comet, a plugin of Spark."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from pyspark import SparkContext

from tahoe.native_settings import CONVERSIONS
from tahoe.spark.jvm.gateway import Gateway, JavaObject

# Comet's class that says for the settings of a session whether it is on, and whether its library could be loaded.
EXTENSIONS = "org.apache.comet.CometSparkSessionExtensions"

# Comet accepts no subclass of it, because it calls no method of a format.
_FORMAT = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"

# Plugins and the class path of a context do not change.
_has_comet: WeakKeyDictionary[SparkContext, bool] = WeakKeyDictionary()


def runs_natively(gateway: Gateway) -> bool:
    """Whether Comet is loaded in a session's context, and on by the session's settings."""
    context = gateway.spark.sparkContext
    has_comet = _has_comet.get(context)
    if has_comet is None:
        has_comet = _has_comet[context] = EXTENSIONS in str(gateway.spark.conf.get("spark.sql.extensions", "")) and gateway.has_class(
            EXTENSIONS
        )
    return has_comet and bool(gateway.module(EXTENSIONS).isCometLoaded(gateway.session.sessionState().conf()))


def native_format(gateway: Gateway) -> JavaObject:
    """The file format whose files a native engine reads."""
    return gateway.java_class(_FORMAT)()


def prefer_native(gateway: Gateway) -> None:
    """Let rows that Spark itself must read reach native operators, in this session and in new ones, if no setting says otherwise."""
    if not runs_natively(gateway):
        return
    shared = gateway.session.sharedState().conf()
    for name, value in CONVERSIONS.items():
        if gateway.spark.conf.get(name, None) is None:
            gateway.spark.conf.set(name, value)
            shared.set(name, value)
