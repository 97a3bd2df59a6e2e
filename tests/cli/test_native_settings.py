"""The settings of a session that runs plans natively: what is set already stays, and what is missing is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tahoe.native_settings import BUILDS, JAR_VARIABLE, native_settings, obstacle
from tahoe.programs.launch import command_of

VERSION = f"{next(iter(BUILDS))}.4"


@pytest.fixture(autouse=True)
def _without_a_jar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(JAR_VARIABLE, raising=False)


def test_the_jar_comes_from_maven_unless_one_is_there(tmp_path: Path) -> None:
    assert native_settings({}, VERSION, str(tmp_path))["spark.jars.packages"] == BUILDS["4.1"]
    assert native_settings({"spark.jars.packages": "a:b:1"}, VERSION, str(tmp_path))["spark.jars.packages"] == f"a:b:1,{BUILDS['4.1']}"
    for named in ("spark.jars", "spark.driver.extraClassPath"):
        assert "spark.jars.packages" not in native_settings({named: "/x/comet-spark-spark4.1_2.13-1.2.0.jar"}, VERSION, str(tmp_path))
    (tmp_path / "comet-spark-spark4.1_2.13-1.2.0.jar").touch()
    assert "spark.jars.packages" not in native_settings({}, VERSION, str(tmp_path))


def test_a_jar_joins_the_class_paths_that_a_program_has(tmp_path: Path) -> None:
    jar = str(tmp_path / "comet.jar")
    changed = native_settings({"spark.jars": "/a.jar", "spark.driver.extraClassPath": "/b.jar"}, VERSION, str(tmp_path), jar)
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
    (tmp_path / "comet.jar").touch()
    assert obstacle(VERSION, str(tmp_path / "comet.jar")) is None


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
        obstacle(VERSION, str(tmp_path / other)),
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
    assert not [word for word in words if word.startswith("spark.memory.offHeap.size=") and word != "spark.memory.offHeap.size=1g"]
