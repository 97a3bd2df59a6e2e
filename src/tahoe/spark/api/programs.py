"""The Spark sessions that a program makes under `tahoe run`: they are enabled, and the reference stays out of them.

`tahoe.programs.startup` calls these functions instead of PySpark's own, which they get as their first argument.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from tahoe.native_settings import NATIVE_VARIABLE
from tahoe.reference_settings import (
    defaults,
    overrides,
    submit_arguments_without_reference,
    submitted_settings,
    without_reference,
)
from tahoe.spark.api.connect.session import is_connect
from tahoe.spark.api.session import NO_MAVEN, enable, is_without_maven, settings_of_native, warn_if_not_native
from tahoe.spark.jvm.gateway import Gateway

_enabling = threading.RLock()

# Spark contexts, whose later sessions inherit it, and Connect sessions that are enabled or are about to be.
_begun: weakref.WeakSet[Any] = weakref.WeakSet()


def initialize(
    original: Callable[..., None],
    cls: type[SparkContext],
    instance: SparkContext | None = None,
    gateway: Any = None,
    conf: SparkConf | None = None,
) -> None:
    """Instead of `SparkContext._ensure_initialized`, which starts the JVM with the settings of a SparkConf."""
    if conf is not None:
        _leave_out(conf)
    before, added = dict(conf.getAll()) if conf is not None else {}, dict[str, str]()
    if conf is not None and _is_native() and cls._gateway is None and gateway is None:
        added = settings_of_native(_program_settings(conf))
        conf.setAll(list(added.items()))
    if cls._gateway is None and gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        if (arguments := _submit_arguments(words, conf)) != words:
            os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join(arguments)
    try:
        original(cls, instance, gateway, conf)
    except PySparkRuntimeError as error:
        if conf is None or conf._conf is None or not is_without_maven(error, added):
            raise
        conf._conf = before
        original(cls, instance, gateway, conf)
        warnings.warn(NO_MAVEN, stacklevel=2)


def make_session(
    original: Callable[..., None],
    session: SparkSession,
    sparkContext: SparkContext,  # noqa: N803  PySpark's names
    jsparkSession: Any = None,  # noqa: N803
    options: Mapping[str, Any] | None = None,
) -> None:
    """Instead of `SparkSession.__init__`: every session in this process is made by it."""
    original(session, sparkContext, jsparkSession, without_reference(options or {}))
    # Sessions of Spark's own, such as those of callbacks while a session is enabled, do not wait.
    if jsparkSession is None or sparkContext not in _begun:
        _enable(session, sparkContext)


def get_or_create(original: Callable[..., Any], builder: Any) -> Any:
    """Instead of `SparkSession.Builder.getOrCreate`, also that of Spark Connect: its session may exist already."""
    builder._options = without_reference(builder._options)
    session = original(builder)
    _enable(session, session if is_connect(session) else session.sparkContext)
    return session


def create(original: Callable[..., Any], builder: Any) -> Any:
    """Instead of `SparkSession.Builder.create`, whose session inherits nothing."""
    session = get_or_create(original, builder)
    return session if is_connect(session) else enable(session)


def init_pipeline(original: Callable[[str], None], name: str) -> None:
    """Instead of `init` of `spark-pipelines`: the tables of the new project are Delta tables."""
    module: Any = sys.modules[original.__module__]
    spec = module.SPEC
    module.SPEC = f"{spec}configuration:\n  spark.sql.sources.default: delta\n"
    try:
        original(name)
    finally:
        module.SPEC = spec
    print("Its tables are Delta tables: tahoe run spark-pipelines run --conf spark.sql.catalogImplementation=hive")


def check_running_session() -> None:
    """Refuse a session with the reference's JAR, if one is running.

    Raises:
        ReferenceJarPresentError: names the JAR.
    """
    session = SparkSession._instantiatedSession
    if session is not None and SparkContext._active_spark_context is not None:
        Gateway(session).check_no_reference()


def _enable(session: Any, owner: object) -> None:
    """Enable tahoe for a session, once for all sessions of an owner. After a failure the next session tries again."""
    with _enabling:
        if owner in _begun or _is_elsewhere(session):
            return
        _begun.add(owner)
        try:
            enable(session)
        except BaseException:
            _begun.discard(owner)
            raise
        if _is_native():
            warn_if_not_native(session)


def _is_elsewhere(session: Any) -> bool:
    """Whether a session has Delta tables already: those of Databricks, or of a Connect server in this process, whose
    driver is enabled.
    """
    return is_connect(session) and ("databricks" in str(session.client.host) or "SPARK_LOCAL_REMOTE" in os.environ)


def _is_native() -> bool:
    """Whether the program runs under `tahoe run --native`."""
    return NATIVE_VARIABLE in os.environ


def _program_settings(conf: SparkConf) -> dict[str, str]:
    """The settings of a program, and those with which spark-submit is started."""
    arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    return dict(conf.getAll()) | submitted_settings(arguments)


def _leave_out(conf: SparkConf) -> None:
    """Take the reference's settings out of a SparkConf, which is a dictionary until the JVM runs."""
    settings = dict(conf.getAll())
    kept = without_reference(settings)
    for name, value in settings.items():
        if name in kept:
            if kept[name] != value:
                conf.set(name, kept[name])
        elif conf._conf is not None:
            del conf._conf[name]
        elif conf._jconf is not None:
            conf._jconf.remove(name)


def _submit_arguments(before: Sequence[str], conf: SparkConf | None) -> list[str]:
    """The arguments with which PySpark starts spark-submit, after the settings of `conf`, without the reference."""
    arguments = submit_arguments_without_reference(before)
    named = dict(conf.getAll() if conf is not None else ()) | submitted_settings(arguments)
    folder = Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf"))
    return [*overrides(defaults(folder, named.get("--properties-file")), named), *arguments]
