"""The settings of Spark that bring the reference, delta-spark, into a session; and what is left of a configuration
without them.

It knows nothing of PySpark: `tahoe run spark-submit` works where PySpark is only in Spark's own folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

GROUP = "io.delta:"
JAR = re.compile(r"delta-(core|spark|storage|iceberg|hudi|contribs|kernel)[a-z-]*[_-][^/]*\.jar$")
EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG_CLASS = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

_BELONGS: dict[str, Callable[[str], object]] = {
    "spark.jars.packages": lambda coordinate: coordinate.startswith(GROUP),
    "spark.jars": JAR.search,
    "spark.submit.pyFiles": JAR.search,  # the reference's JAR contained its Python package
    "spark.sql.extensions": lambda name: name == EXTENSION,
    "spark.sql.catalog.spark_catalog": lambda name: name == CATALOG_CLASS,
}
"""For each setting, which of the values in its list belong to the reference."""

# What overrides the value of a file of defaults if nothing is left of it.
_NOTHING = {"spark.sql.catalog.spark_catalog": "builtin"}

# Options of spark-submit that stand for a setting, and those that take no value.
_OPTIONS = {"--packages": "spark.jars.packages", "--jars": "spark.jars", "--py-files": "spark.submit.pyFiles"}
_FLAGS = {"--verbose", "-v", "--supervise", "--version", "--help", "-h", "--usage-error"}


def without_reference(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without the reference's JARs, extension and catalog. A setting of which nothing is left is gone."""
    kept: dict[str, Any] = {}
    for name, value in settings.items():
        belongs = _BELONGS.get(name)
        if belongs is None:
            kept[name] = value
            continue
        parts = [part for part in map(str.strip, str(value).split(",")) if part]
        rest = [part for part in parts if not belongs(part)]
        if len(rest) == len(parts):
            kept[name] = value
        elif rest:
            kept[name] = ",".join(rest)
    return kept


def overrides(defaults: Mapping[str, str], named: Mapping[str, Any]) -> list[str]:
    """Arguments of spark-submit that keep the reference out of a session, although a file of defaults names it.

    Args:
        named: settings that are set elsewhere, for which the file does not matter.
    """
    settings = without_reference(defaults)
    names = {name for name, value in defaults.items() if settings.get(name) != value} - set(named)
    values = {name: settings.get(name, _NOTHING.get(name, "")) for name in sorted(names)}
    return [part for name, value in values.items() for part in ("--conf", f"{name}={value}")]


def submit_arguments_without_reference(arguments: Sequence[str]) -> list[str]:
    """The arguments of spark-submit, those of the application included, without the reference's settings."""
    options, application = _options(arguments)
    words: list[str] = []
    for option, setting, value in options:
        if setting is None:
            words += [option] if value is None else [option, value]
        elif setting in (rest := without_reference({setting: value})):
            words += [option, rest[setting] if option in _OPTIONS else f"{setting}={rest[setting]}"]
    return words + application


def submitted_settings(arguments: Sequence[str]) -> dict[str, str]:
    """The settings that the arguments of spark-submit set, the deploy mode and the file of defaults included."""
    others = {"--deploy-mode": "spark.submit.deployMode", "--properties-file": "--properties-file"}
    options, _ = _options(arguments)
    return {
        setting or others[option]: value
        for option, setting, value in options
        if value is not None and (setting or option in others)
    }


def _options(arguments: Sequence[str]) -> tuple[list[tuple[str, str | None, str | None]], list[str]]:
    """The options of spark-submit, each with its setting, if it has one, and its value; and the application with its
    arguments.
    """
    found: list[tuple[str, str | None, str | None]] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        option, equals, value = rest.pop(0).partition("=")
        if not equals and (option in _FLAGS or not rest):
            found.append((option, None, None))
            continue
        value = value if equals else rest.pop(0)
        if option in ("--conf", "-c"):
            setting, _, value = value.partition("=")
            found.append((option, setting, value))
        else:
            found.append((option, _OPTIONS.get(option), value))
    return found, rest


def defaults(folder: Path, file: str | None = None) -> dict[str, str]:
    """The settings of a file of defaults: the one that is named, else `spark-defaults.conf` in Spark's folder of
    configuration.
    """
    path = Path(file) if file else folder / "spark-defaults.conf"
    return dict(_properties(path.read_text(encoding="utf-8", errors="replace"))) if path.is_file() else {}


def _properties(text: str) -> Iterator[tuple[str, str]]:
    """The entries of a file of Java properties, as far as Spark's settings need them: no escapes in names."""
    for line in text.replace("\\\n", "").splitlines():
        entry = re.match(r"\s*([^\s#!=:][^\s=:]*)\s*[\s=:]\s*(.*)", line)
        if entry:
            yield entry[1], entry[2].strip()
