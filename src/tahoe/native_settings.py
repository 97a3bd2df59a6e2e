"""The settings of Spark that a session needs to run plans natively, with Apache DataFusion Comet.

It knows nothing of PySpark, as `reference_settings`: `tahoe run --native spark-submit` works where PySpark is only in Spark's own folder.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping

# The builds of Comet, by the version of Spark that they are for.
BUILDS = {"4.1": "org.apache.datafusion:comet-spark-spark4.1_2.13:1.2.0"}

JAR_VARIABLE = "TAHOE_COMET_JAR"
"""The environment variable with the path of Comet's JAR, for machines without a way to Maven."""

NATIVE_VARIABLE = "TAHOE_NATIVE_PROGRAM"
"""The environment variable with which `tahoe run --native` tells the program's Python to run plans natively."""

# A limit, of which nothing is taken in advance. Each executor has it beside its heap.
OFF_HEAP_BYTES = "4g"

_JARS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
_CLASS_PATHS = ("spark.jars", "spark.driver.extraClassPath", "spark.executor.extraClassPath")

_PLUGIN = "org.apache.spark.CometPlugin"
_EXPLAIN = "org.apache.comet.ExtendedExplainInfo"
_SHUFFLE = "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager"

# Settings of a session with which the rows of files that Spark itself must read, and rows of the driver, reach native operators above.
CONVERSIONS = {"spark.comet.convert.parquet.enabled": "true", "spark.comet.exec.localTableScan.enabled": "true"}

_DEFAULTS = {
    "spark.shuffle.manager": _SHUFFLE,
    "spark.memory.offHeap.enabled": "true",
    "spark.memory.offHeap.size": OFF_HEAP_BYTES,
    "spark.comet.enabled": "true",
    "spark.comet.exec.enabled": "true",
    **CONVERSIONS,
}


def obstacle(version: str, jar: str | None = None) -> str | None:
    """Why plans of a version of Spark cannot run natively, as a sentence; None if nothing is known."""
    jar = jar or os.environ.get(JAR_VARIABLE)
    if _line(version) not in BUILDS:
        return (
            f"Comet has no build for Spark {version}, so plans run in Spark's own engine. To run them natively, install a PySpark that "
            f"it has one for: pip install 'pyspark=={next(iter(BUILDS))}.*'"
        )
    if jar and not os.path.isfile(os.path.expanduser(jar)):
        return (
            f"Comet's JAR is not at {jar}, so plans run in Spark's own engine. Correct the path, or leave it out: then the JAR comes from "
            f"Maven as {BUILDS[_line(version)]}."
        )
    return None


def native_settings(settings: Mapping[str, str], version: str, jars: str, jar: str | None = None) -> dict[str, str]:
    """The settings that are to be added or changed, so that a session with `settings` runs plans natively.

    What is set already stays; values are added to lists. Memory below Spark's own minimum is Spark's error.

    Args:
        version: of Spark; `obstacle` returns None for it.
        jars: Spark's folder of JARs. If it has Comet's JAR, no other is needed.
        jar: the path of Comet's JAR; None for the one of `JAR_VARIABLE`, else the one on Maven.
    """
    changed = {name: value for name, value in _DEFAULTS.items() if name not in settings}
    changed |= _listed(settings, "spark.plugins", _PLUGIN) | _listed(settings, "spark.sql.extendedExplainProviders", _EXPLAIN)
    jar = jar or os.environ.get(JAR_VARIABLE)
    if jar:
        path = os.path.abspath(os.path.expanduser(jar))
        for name in _CLASS_PATHS:
            changed |= _listed(settings, name, path, "," if name == "spark.jars" else os.pathsep)
    elif not any("comet-spark" in settings.get(name, "") for name in _JARS) and not glob.glob(os.path.join(jars, "comet-spark-*.jar")):
        changed |= _listed(settings, "spark.jars.packages", BUILDS[_line(version)])
    return changed


def _listed(settings: Mapping[str, str], name: str, value: str, separator: str = ",") -> dict[str, str]:
    """A setting with a value added to its list; nothing if the list has it."""
    values = [each for each in settings.get(name, "").split(separator) if each]
    return {} if value in values else {name: separator.join([*values, value])}


def _line(version: str) -> str:
    return ".".join(version.split(".")[:2])
