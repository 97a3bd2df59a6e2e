"""Enabling a Spark session: afterwards `delta` is a source that Spark finds by itself, in it and in every session made from it.

Nothing of PySpark is replaced but the function that converts Java's exceptions (`tahoe.spark.jvm.failures`).
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession

from tahoe.spark.api.source import Source
from tahoe.spark.api.table_functions import FUNCTIONS
from tahoe.spark.jvm import failures
from tahoe.spark.jvm.gateway import JVM_ERRORS, REFERENCE_CATALOG_CLASS, Gateway
from tahoe.spark.writing.store_assignment import REFUSED

JAVA_SOURCES = Path(__file__).parents[1] / "java"

# Spark looks a catalog up by the name as it is written.
PATH_CATALOGS = ("delta", "DELTA", "Delta")
PATH_CATALOG_CLASS = "delta.Catalog"
SESSION_CATALOG = "spark.sql.catalog.spark_catalog"
SESSION_CATALOG_CLASS = "delta.SessionCatalog"

NO_PARSER = (
    "The parser of this Spark session cannot be exchanged: statements that only Delta has, such as DESCRIBE HISTORY, run with "
    "tahoe.sql(spark, text), and not with spark.sql(text)."
)

# A Spark whose analyser is built otherwise refuses what it has no rule for; what it reads and appends needs none of these.
NO_RULES = "The analyser of this Spark session has no {field} that could be added to, so that Spark refuses {statements} on Delta tables."
STATEMENTS_OF_RULES = {
    "hintResolutionRules": "ALTER TABLE ... ADD CONSTRAINT ... CHECK",
    "extendedResolutionRules": "MERGE, INSERT ... REPLACE USING and REPLACE ON, and session variables in UPDATE",
    "postHocResolutionRules": "DELETE, UPDATE, MERGE, SET NOT NULL and SHOW PARTITIONS",
}


def enable(spark: SparkSession) -> SparkSession:
    """Make Delta tables work in a session, and in those that are made from it: `spark = tahoe.enable(spark)`.

    To call it again changes nothing. After `spark.stop()` a new session is enabled anew. A Spark Connect session gets `format("delta")`
    through Python, with a warning that says what is slower and what is not there.

    Returns:
        the session that was given.

    Raises:
        NoGatewayError: what was given is no session.
        UnsupportedSparkVersionError: a version of Spark that tahoe does not know.
        ReferenceJarPresentError: the class path has another source called delta.
    """
    if is_connect(spark):
        from tahoe.spark.api import connect, connect_commands  # noqa: PLC0415 - what a session with a JVM never needs

        connect.register(spark)
        connect_commands.watch(spark)
        warnings.warn(connect.SLOWER, stacklevel=2)
        return spark
    gateway = Gateway(spark)
    gateway.check_version()
    gateway.check_no_reference()
    gateway.compile(JAVA_SOURCES)
    gateway.start_callbacks()
    gateway.java_class("delta.Ask").install(Source(gateway.jvm), gateway.server)
    failures.install()
    _install_quiet(gateway)
    _install_rules(gateway)
    _install_catalogs(gateway)
    _install_parser(gateway)
    _install_functions(gateway)
    return spark


def _install_quiet(gateway: Gateway) -> None:
    """Spark's log leaves out the traces of what the user is told in a sentence; where the log is not Spark's own, it says all."""
    with suppress(*JVM_ERRORS):
        gateway.java_class("delta.Quiet").install(REFUSED)


def is_connect(spark: object) -> bool:
    """Whether a session is a Spark Connect client."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def _install_rules(gateway: Gateway) -> None:
    """The rules of analysis and optimisation, here and in sessions made from this one."""
    for field in gateway.java_class("delta.Rules").install(gateway.session):
        warnings.warn(NO_RULES.format(field=field, statements=STATEMENTS_OF_RULES[field]), stacklevel=3)


def _install_parser(gateway: Gateway) -> None:
    """The parser that knows our statements too, here and in sessions made from this one; the user's own stays beneath it."""
    parser = gateway.java_class("delta.Parser")
    if parser.installed(gateway.session):
        return
    try:
        parser.install(gateway.session)
    except JVM_ERRORS as error:
        warnings.warn(f"{NO_PARSER} ({error})", stacklevel=3)
        return
    gateway.session.extensions().injectParser(gateway.java_class("delta.Parser$Injected")())


def _install_functions(gateway: Gateway) -> None:
    """table_changes and its like, here and in sessions made from this one."""
    functions = gateway.java_class("delta.TableFunction")
    for name in FUNCTIONS:
        if not functions.installed(gateway.session, name):
            functions(name).install(gateway.session)


def _install_catalogs(gateway: Gateway) -> None:
    """Catalogs are settings; those of the shared state are what new sessions start with."""
    settings = {f"spark.sql.catalog.{name}": PATH_CATALOG_CLASS for name in PATH_CATALOGS}
    found = gateway.spark.conf.get(SESSION_CATALOG, None)
    if found in (None, "builtin", SESSION_CATALOG_CLASS, REFERENCE_CATALOG_CLASS):
        settings[SESSION_CATALOG] = SESSION_CATALOG_CLASS
    else:
        warnings.warn(
            f"{SESSION_CATALOG} is {found}, and tahoe leaves it: Delta tables can be read by their names, but to write and to travel in "
            "time by name, use delta.`path`.",
            stacklevel=3,
        )
    shared = gateway.session.sharedState().conf()
    for name, value in settings.items():
        gateway.spark.conf.set(name, value)
        shared.set(name, value)


def configure(spark_session_builder: SparkSession.Builder, extra_packages: list[str] | None = None) -> SparkSession.Builder:
    """Let a builder make enabled sessions: `spark = tahoe.configure(SparkSession.builder).getOrCreate()`.

    It takes what the reference's `configure_spark_with_delta_pip` takes.

    Args:
        extra_packages: Maven coordinates for `spark.jars.packages`; Delta itself needs none.

    Returns:
        the builder that was given.

    Raises:
        TypeError: what was given is no builder.
    """
    if not isinstance(spark_session_builder, SparkSession.Builder):
        raise TypeError(
            "This function must be called with a SparkSession builder as the argument. "
            f"The argument found is of type {type(spark_session_builder)}."
        )
    if extra_packages:
        spark_session_builder.config("spark.jars.packages", ",".join(extra_packages))
    make = spark_session_builder.getOrCreate
    spark_session_builder.getOrCreate = lambda: enable(make())  # type: ignore[method-assign]
    return spark_session_builder
