"""The settings of Spark that a session needs to run plans natively, with Apache DataFusion Comet.

It knows nothing of PySpark, as `reference_settings`: `tahoe run --native spark-submit` works where PySpark is only in
Spark's own folder.
"""

from __future__ import annotations

import glob
import os
import platform
import re
import zipfile
from collections.abc import Mapping, Sequence

# The builds of Comet, by the version of Spark that they are for.
BUILDS = {"4.1": "org.apache.datafusion:comet-spark-spark4.1_2.13:1.2.0"}

JAR_VARIABLE = "TAHOE_COMET_JAR"
"""The environment variable with the path of Comet's JAR, for machines without a way to Maven."""

NATIVE_VARIABLE = "TAHOE_NATIVE_PROGRAM"
"""The environment variable with which `tahoe run --native` tells the program's Python to run plans natively."""

# A limit, of which nothing is taken in advance. Each executor has it beside its heap.
OFF_HEAP_BYTES = "4g"

# With less, aggregations and sorts of a few columns fail for want of memory.
OFF_HEAP_BYTES_MIN = 256 << 20

# Of the libraries in the JAR.
_PLATFORMS = {("Linux", machine) for machine in ("x86_64", "amd64", "aarch64", "arm64")}

PACKAGES = "spark.jars.packages"
"""Spark's setting with the JARs that come from Maven."""

_JARS = ("spark.jars", PACKAGES, "spark.driver.extraClassPath")
_CLASS_PATHS = ("spark.jars", "spark.driver.extraClassPath", "spark.executor.extraClassPath")

_PLUGIN = "org.apache.spark.CometPlugin"
_FOR_SPARK = re.compile(r"comet-spark-spark(\d+\.\d+)_")  # in a JAR's name, and in the names of its members
_EXPLAIN = "org.apache.comet.ExtendedExplainInfo"
_SHUFFLE = "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager"

COMET_ENABLED = "spark.comet.enabled"
"""Comet's setting with which a session runs plans natively, or does not."""

FIELD_IDS = "spark.sql.parquet.fieldId.read.enabled"
"""Spark's setting with which readers find the columns of files by field ids, where a schema has them."""

# Settings of a session with which the rows of files that Spark itself must read, and rows of the driver, reach native
# operators above; and with which files are read by field ids.
SESSION_SETTINGS = {
    "spark.comet.convert.parquet.enabled": "true",
    "spark.comet.exec.localTableScan.enabled": "true",
    FIELD_IDS: "true",
}

# Functions that Spark computes although Comet could, by their classes: no standard says what their last digit is, and
# Comet has another one for up to two of three values; and one in which it fails, if an array is constant.
_FUNCTIONS_OF_SPARK = (
    *(
        "Sin",
        "Cos",
        "Tan",
        "Cot",
        "Sec",
        "Csc",
        "Asin",
        "Acos",
        "Atan",
        "Atan2",
        "Sinh",
        "Cosh",
        "Tanh",
        "Asinh",
        "Acosh",
        "Atanh",
    ),
    *("Exp", "Expm1", "Log", "Log10", "Log2", "Log1p", "Logarithm", "Pow", "Cbrt", "Hypot"),
    "ArraysOverlap",
)

EXACT_SETTINGS = {f"spark.comet.expression.{name}.enabled": "false" for name in _FUNCTIONS_OF_SPARK}
"""Comet's settings with which rows are those of Spark, where it computes otherwise."""

_DEFAULTS = {
    "spark.shuffle.manager": _SHUFFLE,
    "spark.memory.offHeap.enabled": "true",
    "spark.memory.offHeap.size": OFF_HEAP_BYTES,
    COMET_ENABLED: "true",
    "spark.comet.exec.enabled": "true",
    **SESSION_SETTINGS,
}


def obstacle(
    version: str, jar: str | None = None, settings: Mapping[str, str] | None = None, jars: str = ""
) -> str | None:
    """Why plans of a version of Spark cannot run natively, as a sentence; None if nothing is known.

    Args:
        jar: the path of Comet's JAR; see `native_settings`.
        settings: of the session.
        jars: Spark's folder of JARs.
    """
    jar = jar or os.environ.get(JAR_VARIABLE)
    settings = settings or {}
    members = _members(jar) if jar else []
    return (
        _no_build(version)
        or _no_platform()
        or _no_jar(version, jar, members)
        or _other_jar(version, settings, [jar or "", *members], jars)
        or memory_obstacle(settings)
    )


def _members(jar: str) -> list[str]:
    """The names of a JAR's members; none of a file that is no JAR or is not there."""
    try:
        with zipfile.ZipFile(os.path.expanduser(jar)) as archive:
            return archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return []


def _no_build(version: str) -> str | None:
    if _line(version) in BUILDS:
        return None
    return (
        f"Comet has no build for Spark {version}, so plans run in Spark's own engine. To run them natively, install "
        f"a PySpark that it has one for: pip install 'pyspark=={next(iter(BUILDS))}.*'"
    )


def _no_platform() -> str | None:
    kind = platform.system(), platform.machine().lower()
    if kind in _PLATFORMS:
        return None
    return (
        f"Comet has no library for {' on '.join(kind)}, so plans run in Spark's own engine. It has libraries for "
        f"Linux on x86-64 and ARM64."
    )


def _no_jar(version: str, jar: str | None, members: Sequence[str]) -> str | None:
    """Why the user's JAR cannot be used: it is missing, or is not Comet's; None if it is, or if the user named none."""
    if not jar or f"{_PLUGIN.replace('.', '/')}.class" in members:
        return None
    where = (
        f"The file {jar} is not Comet's JAR"
        if os.path.isfile(os.path.expanduser(jar))
        else f"Comet's JAR is not at {jar}"
    )
    return (
        f"{where}, so plans run in Spark's own engine. Correct the path, or leave it out: then the JAR comes from "
        f"Maven as {BUILDS[_line(version)]}."
    )


def _other_jar(version: str, settings: Mapping[str, str], names: Sequence[str], jars: str) -> str | None:
    """A JAR of Comet that says by its name, or by the names of its members, that it is for another Spark."""
    places = [
        *names,
        *(settings.get(name, "") for name in _JARS),
        *(glob.glob(os.path.join(jars, "comet-spark-*.jar")) if jars else ()),
    ]
    for found in _FOR_SPARK.finditer(" ".join(places)):
        if found[1] != _line(version):
            return (
                f"A JAR of Comet is for Spark {found[1]}, and this is Spark {version}, so plans run in Spark's own "
                f"engine. Put {BUILDS[_line(version)]} in its place."
            )
    return None


def memory_obstacle(settings: Mapping[str, str]) -> str | None:
    """Why the memory of a session with these settings does not suffice, as a sentence; None if it does."""
    effective = {**_DEFAULTS, **settings}  # `native_settings` adds the defaults
    is_off = effective["spark.memory.offHeap.enabled"].lower() == "false"
    size = _bytes(effective["spark.memory.offHeap.size"])
    if not is_off and (size is None or size >= OFF_HEAP_BYTES_MIN):
        return None
    found = (
        "spark.memory.offHeap.enabled is false"
        if is_off
        else f"spark.memory.offHeap.size is {settings['spark.memory.offHeap.size']}"
    )
    return (
        f"Comet works in memory outside of Java's heap, and {found}, so plans run in Spark's own engine. Set "
        f"spark.memory.offHeap.enabled to true and spark.memory.offHeap.size to {OFF_HEAP_BYTES_MIN >> 20}m or more, "
        f"such as {OFF_HEAP_BYTES}."
    )


def _bytes(text: str) -> int | None:
    """A size in Spark's notation in bytes; None if it is none, which is Spark's error."""
    found = re.fullmatch(r"(\d+)([kmgtp]?)b?", text.strip().lower())
    return int(found[1]) << 10 * " kmgtp".index(found[2] or " ") if found else None


def native_settings(settings: Mapping[str, str], version: str, jars: str, jar: str | None = None) -> dict[str, str]:
    """The settings that are to be added or changed, so that a session with `settings` runs plans natively.

    What is set already stays; values are added to lists.

    Args:
        version: of Spark; `obstacle` returns None for it and the settings.
        jars: Spark's folder of JARs. If it has Comet's JAR, no other is needed.
        jar: the path of Comet's JAR; None for the one of `JAR_VARIABLE`, else the one on Maven.
    """
    changed = {name: value for name, value in _DEFAULTS.items() if name not in settings}
    changed |= _with_list_value(settings, "spark.plugins", _PLUGIN) | _with_list_value(
        settings, "spark.sql.extendedExplainProviders", _EXPLAIN
    )
    jar = jar or os.environ.get(JAR_VARIABLE)
    if jar:
        path = os.path.abspath(os.path.expanduser(jar))
        for name in _CLASS_PATHS:
            changed |= _with_list_value(settings, name, path, "," if name == "spark.jars" else os.pathsep)
    elif not any("comet-spark" in settings.get(name, "") for name in _JARS) and not glob.glob(
        os.path.join(jars, "comet-spark-*.jar")
    ):
        changed |= _with_list_value(settings, PACKAGES, BUILDS[_line(version)])
    return changed


def _with_list_value(settings: Mapping[str, str], name: str, value: str, separator: str = ",") -> dict[str, str]:
    """A setting with a value added to its list; nothing if the list has it."""
    values = [each for each in settings.get(name, "").split(separator) if each]
    return {} if value in values else {name: separator.join([*values, value])}


def _line(version: str) -> str:
    return ".".join(version.split(".")[:2])
