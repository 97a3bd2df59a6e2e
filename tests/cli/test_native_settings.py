"""The settings of a session that runs plans natively: what is set already stays, and what is missing is said."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from tahoe.native_settings import BUILDS, JAR_VARIABLE, NATIVE_VARIABLE, PACKAGES, native_settings, obstacle
from tahoe.programs.launch import command_of
from tahoe.spark.api import programs, session

VERSION = f"{next(iter(BUILDS))}.4"


@pytest.fixture(autouse=True)
def _without_a_jar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(JAR_VARIABLE, raising=False)


def test_the_jar_comes_from_maven_unless_one_is_there(tmp_path: Path) -> None:
    assert native_settings({}, VERSION, str(tmp_path))["spark.jars.packages"] == BUILDS["4.1"]
    assert (
        native_settings({"spark.jars.packages": "a:b:1"}, VERSION, str(tmp_path))["spark.jars.packages"]
        == f"a:b:1,{BUILDS['4.1']}"
    )
    for named in ("spark.jars", "spark.driver.extraClassPath"):
        assert "spark.jars.packages" not in native_settings(
            {named: "/x/comet-spark-spark4.1_2.13-1.2.0.jar"}, VERSION, str(tmp_path)
        )
    (tmp_path / "comet-spark-spark4.1_2.13-1.2.0.jar").touch()
    assert "spark.jars.packages" not in native_settings({}, VERSION, str(tmp_path))


def test_a_jar_joins_the_class_paths_that_a_program_has(tmp_path: Path) -> None:
    jar = str(tmp_path / "comet.jar")
    changed = native_settings(
        {"spark.jars": "/a.jar", "spark.driver.extraClassPath": "/b.jar"}, VERSION, str(tmp_path), jar
    )
    assert changed["spark.jars"] == f"/a.jar,{jar}"
    assert changed["spark.driver.extraClassPath"] == os.pathsep.join(["/b.jar", jar])
    assert changed["spark.executor.extraClassPath"] == jar
    assert "spark.jars.packages" not in changed


def test_what_a_program_sets_stays(tmp_path: Path) -> None:
    settings = {
        "spark.memory.offHeap.size": "9g",
        "spark.plugins": "a.Plugin",
        "spark.shuffle.manager": "own",
        "spark.comet.enabled": "false",
    }
    changed = native_settings(settings, VERSION, str(tmp_path))
    assert changed["spark.plugins"] == "a.Plugin,org.apache.spark.CometPlugin"
    assert not {"spark.memory.offHeap.size", "spark.shuffle.manager", "spark.comet.enabled"} & set(changed)


def test_settings_are_added_once(tmp_path: Path) -> None:
    first = native_settings({}, VERSION, str(tmp_path))
    assert native_settings(first, VERSION, str(tmp_path)) == {}


def test_what_is_missing_is_one_sentence_and_a_remedy(tmp_path: Path) -> None:
    assert obstacle(VERSION) is None
    assert "no build for Spark 4.3.0" in (obstacle("4.3.0") or "")
    assert "is not at /nowhere.jar" in (obstacle(VERSION, "/nowhere.jar") or "")
    assert obstacle(VERSION, jar_of(tmp_path, "4.1")) is None


def jar_of(folder: Path, line: str) -> str:
    """A JAR with the members by which Comet is known, for a line of Spark that its name does not tell."""
    path = folder / f"comet-{line}.jar"
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("org/apache/spark/CometPlugin.class", b"")
        jar.writestr(f"META-INF/maven/org.apache.datafusion/comet-spark-spark{line}_2.13/pom.properties", b"")
    return str(path)


def test_a_file_that_is_not_comets_jar(tmp_path: Path) -> None:
    """With it, Spark would not start: its plugin is in no JAR."""
    text, other = tmp_path / "text.jar", tmp_path / "other.jar"
    text.write_text("not a JAR")
    with zipfile.ZipFile(other, "w") as jar:
        jar.writestr("a.class", b"")
    for path in (text, other):
        assert f"The file {path} is not Comet's JAR" in (obstacle(VERSION, str(path)) or "")
    assert f"Comet's JAR is not at {tmp_path}" in (obstacle(VERSION, str(tmp_path)) or "")


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.memory.offHeap.enabled": "false", "spark.memory.offHeap.size": "4g"},
        *({"spark.memory.offHeap.size": size} for size in ("0", "100m", "255MB", "1048576", "200000k")),
    ],
    ids=str,
)
def test_memory_that_is_missing_or_too_small_is_said_before_any_work(settings: dict[str, str]) -> None:
    """Otherwise the first query that aggregates or sorts fails, and does not say which setting to change."""
    reason = obstacle(VERSION, None, settings) or ""
    assert next(iter(settings.values())) in reason
    assert "256m or more" in reason


@pytest.mark.parametrize("size", ["256m", "1g", "268435456", "1tb", "a lot"])
def test_memory_that_is_enough_or_for_spark_to_refuse(size: str) -> None:
    assert obstacle(VERSION, None, {"spark.memory.offHeap.size": size}) is None


def test_a_jar_for_another_spark_is_refused_wherever_it_is(tmp_path: Path) -> None:
    other = "comet-spark-spark4.0_2.13-1.2.0.jar"
    (tmp_path / other).touch()
    (tmp_path / "jars").mkdir()
    for reason in (
        obstacle(VERSION, jar_of(tmp_path, "4.0")),
        obstacle(VERSION, None, {}, str(tmp_path)),
        obstacle(VERSION, None, {"spark.jars": f"/a.jar,/x/{other}"}),
        obstacle(VERSION, None, {"spark.jars.packages": "org.apache.datafusion:comet-spark-spark3.5_2.13:1.2.0"}),
    ):
        assert "is for Spark" in (reason or "")
        assert f"this is Spark {VERSION}" in (reason or "")
    assert obstacle(VERSION, None, {"spark.jars.packages": BUILDS["4.1"]}, str(tmp_path / "jars")) is None


@pytest.mark.parametrize("machine", [("Windows", "AMD64"), ("Linux", "ppc64le")])
def test_a_platform_without_comets_library(machine: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: machine[0])
    monkeypatch.setattr("platform.machine", lambda: machine[1])
    assert f"no library for {machine[0]} on {machine[1].lower()}" in (obstacle(VERSION) or "")


def test_spark_submit_gets_the_settings_as_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts the JVM itself, before any Python of the program runs."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / f"spark-core_2.13-{VERSION}.jar").touch()
    submit = tmp_path / "bin" / "spark-submit"
    submit.write_text("#!/bin/sh\n")
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    words = command_of([str(submit), "--conf", "spark.memory.offHeap.size=1g", "job.py"], native=True)
    assert "spark.plugins=org.apache.spark.CometPlugin" in words
    assert words[-1] == "job.py"
    assert not [
        word
        for word in words
        if word.startswith("spark.memory.offHeap.size=") and word != "spark.memory.offHeap.size=1g"
    ]


class Started:
    """Starts a JVM, unless the settings name a package that no repository has."""

    def __init__(self) -> None:
        self.settings: list[dict[str, str]] = []

    def start(self, settings: dict[str, str]) -> str:
        self.settings.append(dict(settings))
        if PACKAGES in settings:
            raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
        return "session"


def test_a_builder_without_a_way_to_maven_makes_a_session_without_comet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise no session starts, and the user is told that the Java gateway has exited."""
    started, builder = Started(), SparkSession.Builder()
    monkeypatch.setattr(session, "settings_of_native", lambda *_: {PACKAGES: "a:b:1", "spark.plugins": "x"})
    monkeypatch.setattr(session, "enable", lambda made: made)
    builder._options = {"spark.app.name": "mine"}
    builder.getOrCreate = lambda: started.start(builder._options)  # type: ignore[method-assign, assignment, return-value]
    configured = session.configure(builder, native=True)
    with pytest.warns(UserWarning, match="no way to Maven"):
        assert configured.getOrCreate() == "session"
    assert started.settings == [
        {"spark.app.name": "mine", PACKAGES: "a:b:1", "spark.plugins": "x"},
        {"spark.app.name": "mine"},
    ]


def test_a_program_without_a_way_to_maven_runs_without_comet(monkeypatch: pytest.MonkeyPatch) -> None:
    started, conf = Started(), SparkConf(loadDefaults=False, _jvm=None)
    monkeypatch.setenv(NATIVE_VARIABLE, "true")
    monkeypatch.setattr(programs, "settings_of_native", lambda *_: {PACKAGES: "a:b:1"})
    monkeypatch.setattr(SparkContext, "_gateway", None)
    conf.set("spark.app.name", "mine")
    with pytest.warns(UserWarning, match="no way to Maven"):
        programs.initialize(
            lambda _, *given: started.start(dict(given[2].getAll())) and None, SparkContext, None, None, conf
        )
    assert started.settings == [{"spark.app.name": "mine", PACKAGES: "a:b:1"}, {"spark.app.name": "mine"}]
