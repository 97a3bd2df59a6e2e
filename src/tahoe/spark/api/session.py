"""Enables a Spark session: afterwards Spark finds the source `delta` in the session and in every session created from
it.

The only function of PySpark that is replaced is the conversion of Java exceptions (`tahoe.spark.jvm.failures`).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from tahoe._notebook_errors import shorten_errors
from tahoe.errors import UnsupportedOperationError
from tahoe.native_settings import JAR_VARIABLE, PACKAGES, native_settings, obstacle
from tahoe.reference_settings import CATALOG_CLASS as REFERENCE_CATALOG_CLASS
from tahoe.reference_settings import without_reference
from tahoe.spark.api.connect.session import is_connect, is_served
from tahoe.spark.api.source import Source
from tahoe.spark.api.table_functions import FUNCTIONS
from tahoe.spark.jvm import attached_catalogs, failures
from tahoe.spark.jvm.gateway import JVM_ERRORS, RELATION_CATALOG, Gateway, java_error
from tahoe.spark.jvm.native_engine import prefer_native, runs_natively
from tahoe.spark.writing.store_assignment import REFUSED

JAVA_SOURCES = Path(__file__).parents[1] / "java"

# For versions of Spark in which catalogs like ours have views.
JAVA_VIEWS = Path(__file__).parents[1] / "java_views"

# Spark looks catalogs up case-sensitively.
PATH_CATALOGS = ("delta", "DELTA", "Delta")
PATH_CATALOG_CLASS = "delta.Catalog"
SESSION_CATALOG = "spark.sql.catalog.spark_catalog"
SESSION_CATALOG_CLASS = "delta.SessionCatalog"

NO_PARSER = (
    "The parser of this Spark session cannot be replaced. Run statements that only Delta has, such as DESCRIBE "
    "HISTORY, with tahoe.sql(spark, text) instead of spark.sql(text)."
)

# If a Spark distribution's analyser lacks one of these fields, these statements are refused. Reads and appends need
# none of the rules.
NO_RULES = (
    "The analyser of this Spark session has no {field} to which rules can be added, so Spark refuses {statements} on "
    "Delta tables."
)
STATEMENTS_OF_RULES = {
    "hintResolutionRules": "ALTER TABLE ... ADD CONSTRAINT ... CHECK",
    "extendedResolutionRules": "MERGE, INSERT ... REPLACE USING and REPLACE ON, and session variables in UPDATE",
    "postHocResolutionRules": "DELETE, UPDATE, MERGE, SET NOT NULL and SHOW PARTITIONS",
}


def enable(spark: SparkSession, *, catalogs: Mapping[str, str | Mapping[str, str]] | None = None) -> SparkSession:
    """Enable Delta tables in a session, and in sessions created from it: `spark = tahoe.enable(spark)`.

    A second call changes nothing. After `spark.stop()`, enable the new session again. In a Spark Connect session whose
    server has tahoe, the server does everything. With another server `format("delta")` works through Python; a warning
    says what is slower and missing.

    Args:
        catalogs: to attach, by the names that they get in the session: the url of each, or a mapping with its `url` and
            its `root` or `token`. Their tables are `lake.shop.orders` in every statement. See `tahoe.Catalog`.

    Returns:
        the same session.

    Raises:
        NoGatewayError: the argument is not a session, or one that was stopped.
        UnsupportedSparkVersionError: tahoe does not support this version of Spark.
        ReferenceJarPresentError: the class path has another source with the name delta.
    """
    shorten_errors(PySparkException)
    _check_attachable(spark, catalogs)
    if is_served(spark):
        from tahoe.spark.api.connect.conflicts import know_conflicts  # noqa: PLC0415 - needs grpc

        know_conflicts()
        return spark
    if is_connect(spark):
        from tahoe.spark.api.connect import commands, data_source  # noqa: PLC0415 - a session with a JVM never needs them

        data_source.register(spark)
        commands.watch(spark)
        warnings.warn(data_source.SLOWER, stacklevel=2)
        return spark
    gateway = Gateway(spark)
    gateway.check_session()
    gateway.check_no_reference()
    gateway.compile(JAVA_SOURCES, *([JAVA_VIEWS] if gateway.has_class(RELATION_CATALOG) else []))
    gateway.start_callbacks()
    gateway.java_class("delta.Ask").install(Source(gateway.jvm), gateway.server)
    failures.install()
    _install_quiet(gateway)
    _install_rules(gateway)
    _install_catalogs(gateway)
    _install_parser(gateway)
    _install_functions(gateway)
    prefer_native(gateway)
    attached_catalogs.take_over(gateway)
    for name, place in (catalogs or {}).items():
        attached_catalogs.attach(gateway, name, {"url": place} if isinstance(place, str) else place)
    return spark


def _check_attachable(spark: SparkSession, catalogs: Mapping[str, str | Mapping[str, str]] | None) -> None:
    """
    Raises:
        UnsupportedOperationError: the catalogs of a Spark Connect session are those of its server.
    """
    if catalogs and is_connect(spark):
        detail = "the catalogs of a Spark Connect session are those of its server"
        remedy = "Attach them on the server, by the settings spark.sql.catalog.<name>."
        raise UnsupportedOperationError(
            operation="enable(catalogs=...)", table="the session", detail=detail, remedy=remedy
        )


def _install_quiet(gateway: Gateway) -> None:
    """Keep the stack traces of refused rows and statements out of Spark's log, if Spark logs with Log4j; the user gets
    an error message.
    """
    with suppress(*JVM_ERRORS):
        gateway.java_class("delta.Quiet").install(REFUSED)


def _install_rules(gateway: Gateway) -> None:
    """Install the analyser and optimiser rules, in this session and in sessions created from it."""
    closed = str(gateway.java_class("delta.Rules").install(gateway.session))
    for field in filter(None, closed.split("\0")):
        warnings.warn(NO_RULES.format(field=field, statements=STATEMENTS_OF_RULES[field]), stacklevel=3)


def _install_parser(gateway: Gateway) -> None:
    """Install the parser for Delta's statements, in this session and in sessions created from it. It delegates to the
    session's parser.
    """
    parser = gateway.java_class("delta.Parser")
    if parser.installed(gateway.session):
        return
    try:
        parser.install(gateway.session)
    except JVM_ERRORS as error:
        warnings.warn(f"{NO_PARSER} ({java_error(error) or error})", stacklevel=3)
        return
    gateway.session.extensions().injectParser(gateway.java_class("delta.Parser$Injected")())


def _install_functions(gateway: Gateway) -> None:
    """Install the table functions (`FUNCTIONS`), in this session and in sessions created from it."""
    functions = gateway.java_class("delta.TableFunction")
    for name in FUNCTIONS:
        if not functions.installed(gateway.session, name):
            functions(name).install(gateway.session)


def _install_catalogs(gateway: Gateway) -> None:
    """Set the catalogs, which are settings, in this session and in the shared state, which new sessions copy."""
    settings = {f"spark.sql.catalog.{name}": PATH_CATALOG_CLASS for name in PATH_CATALOGS}
    found = gateway.spark.conf.get(SESSION_CATALOG, None)
    if found in (None, "builtin", SESSION_CATALOG_CLASS, REFERENCE_CATALOG_CLASS, attached_catalogs.OF_UNITY):
        settings[SESSION_CATALOG] = SESSION_CATALOG_CLASS
    else:
        warnings.warn(
            f"{SESSION_CATALOG} is {found}, which tahoe does not replace: Delta tables can be read by name, but "
            "writes and time travel need delta.`path`.",
            stacklevel=3,
        )
    shared = gateway.session.sharedState().conf()
    for name, value in settings.items():
        gateway.spark.conf.set(name, value)
        shared.set(name, value)


NOT_NATIVE = (
    "Comet is not active in this session, so plans run in Spark's own engine. Either the session was started before "
    "without Comet, or Comet's library does not run on this platform: Spark's log tells more."
)

NO_MAVEN = (
    "Spark does not start with Comet's JAR from Maven, and starts without, so plans run in Spark's own engine. If "
    "this machine has no way to Maven, put the JAR into Spark's folder of JARs, or its path into the environment "
    f"variable {JAR_VARIABLE}."
)


def configure(
    spark_session_builder: SparkSession.Builder, extra_packages: list[str] | None = None, *, native: bool | str = False
) -> SparkSession.Builder:
    """Make a builder return enabled sessions: `spark = tahoe.configure(SparkSession.builder).getOrCreate()`.

    Settings of the builder that bring the reference into a session are left out: its JARs, its extension and its
    catalog. The arguments are those of the reference's `configure_spark_with_delta_pip`.

    Args:
        extra_packages: Maven coordinates for `spark.jars.packages`; Delta itself needs none.
        native: run plans natively, with Apache DataFusion Comet: its JAR comes from Spark's folder of JARs if it is
            there, else from Maven; or the path of the JAR. What is missing is told by a warning, and the session works
            without.

    Returns:
        the same builder.

    Raises:
        TypeError: the argument is not a builder.
    """
    if not isinstance(spark_session_builder, SparkSession.Builder):
        raise TypeError(
            "This function must be called with a SparkSession builder as the argument. "
            f"The argument found is of type {type(spark_session_builder)}."
        )
    if extra_packages:
        spark_session_builder.config("spark.jars.packages", ",".join(extra_packages))
    make = spark_session_builder.getOrCreate

    spark_session_builder.getOrCreate = lambda: _session(spark_session_builder, make, native)  # type: ignore[method-assign]
    return spark_session_builder


def _session(builder: SparkSession.Builder, make: Callable[[], SparkSession], native: bool | str) -> SparkSession:
    """The session of a builder, enabled. `make` is the builder's own `getOrCreate`."""
    options = without_reference(builder._options)
    added = settings_of_native(options, native) if native else {}
    builder._options = options | added
    try:
        spark = enable(make())
    except PySparkRuntimeError as error:
        if not is_without_maven(error, added):
            raise
        builder._options = options
        spark = enable(make())
        warnings.warn(NO_MAVEN, stacklevel=3)
        return spark
    if native:
        warn_if_not_native(spark, native)
    return spark


def _jar(native: bool | str) -> str | None:
    return native if isinstance(native, str) else None


def settings_of_native(settings: Mapping[str, Any], native: bool | str = True) -> dict[str, str]:
    """The settings to add, so that a new session with `settings` runs plans natively; none if it cannot, which a
    warning tells.

    Args:
        native: whether plans run natively, or the path of Comet's JAR; see `configure`.
    """
    named = {name: str(value) for name, value in settings.items()}
    jars = os.path.join(_find_spark_home(), "jars")
    reason = obstacle(pyspark.__version__, _jar(native), named, jars)
    if reason is not None:
        warnings.warn(reason, stacklevel=4)
        return {}
    return native_settings(named, pyspark.__version__, jars, _jar(native))


def is_without_maven(error: PySparkRuntimeError, added: Mapping[str, str]) -> bool:
    """Whether Spark could not be started with the settings that were added for Comet, perhaps for want of its JAR."""
    return PACKAGES in added and error.getCondition() == "JAVA_GATEWAY_EXITED"


def warn_if_not_native(spark: SparkSession, native: bool | str = True) -> None:
    """Warn if Comet was wanted, nothing was known to stand against it, and it does not run."""
    if is_connect(spark) or runs_natively(Gateway(spark)):
        return
    settings = dict(spark.sparkContext.getConf().getAll())
    if obstacle(pyspark.__version__, _jar(native), settings, os.path.join(_find_spark_home(), "jars")) is None:
        warnings.warn(NOT_NATIVE, stacklevel=4)
