"""What `tahoe run` puts in the place of PySpark's functions, without a JVM: stand-ins make the sessions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkConf

from tahoe.errors import SessionNotEnabledError
from tahoe.spark.api import programs

REFERENCE = {
    "spark.jars.packages": "io.delta:delta-spark_2.13:4.0.0,a:b:1",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.app.name": "mine",
}
CLEAN = {"spark.jars.packages": "a:b:1", "spark.app.name": "mine"}


class Client:
    def __init__(self, host: str) -> None:
        self.host = host


class Session:
    """A Connect session, by the name of its module."""

    __module__ = "pyspark.sql.connect.session"

    def __init__(self, host: str) -> None:
        self.client = Client(host)


class Builder:
    def __init__(self, session: Session) -> None:
        self._options: dict[str, Any] = dict(REFERENCE)
        self.session = session


@pytest.fixture
def enabled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(programs, "enable", found.append)
    return found


def test_a_session_is_enabled_once_and_without_the_references_settings(enabled: list[Any]) -> None:
    session = Session("localhost")
    builder = Builder(session)
    for _ in range(2):
        assert programs.get_or_create(lambda builder: builder.session, builder) is session
    assert enabled == [session]
    assert builder._options == CLEAN


def test_a_client_of_databricks_is_left_alone(enabled: list[Any]) -> None:
    for host in ("adb-1.2.azuredatabricks.net", "dbc-1.cloud.databricks.com"):
        programs.get_or_create(lambda builder: builder.session, Builder(Session(host)))
    assert enabled == []


def test_a_session_that_cannot_be_enabled_is_refused_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a program that tries again gets a session in which another `delta` answers."""

    def refuse(_: Any) -> None:
        raise SessionNotEnabledError

    monkeypatch.setattr(programs, "enable", refuse)
    builder = Builder(Session("localhost"))
    for _ in range(2):
        with pytest.raises(SessionNotEnabledError):
            programs.get_or_create(lambda builder: builder.session, builder)


class Context:
    _gateway = None


@pytest.fixture
def no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.setenv(name, "")  # so that what the code under test sets is taken back
        monkeypatch.delenv(name)
    return tmp_path


def started(conf: SparkConf | None) -> None:
    calls: list[Any] = []
    programs.initialize(lambda *arguments: calls.append(arguments), Context, None, None, conf)  # type: ignore[arg-type]
    assert calls == [(Context, None, None, conf)]


def test_a_jvm_starts_without_the_reference(no_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = SparkConf(loadDefaults=False)
    for name, value in REFERENCE.items():
        conf.set(name, value)
    started(conf)
    assert dict(conf.getAll()) == CLEAN
    assert "PYSPARK_SUBMIT_ARGS" not in os.environ, "what needs no change is not set"
    (no_files / "spark-defaults.conf").write_text("spark.jars.packages io.delta:delta-spark_2.13:4.0.0,c:d:2\n")
    started(None)
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--conf spark.jars.packages=c:d:2 pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--packages io.delta:delta-spark_2.13:4.0.0 --name 'a b' pyspark-shell")
    started(conf)
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--name 'a b' pyspark-shell", (
        "the program's own packages win over those of the file"
    )


def test_a_jvm_that_runs_already_is_left_as_it_is(no_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spark-submit has started it: its settings are checked when the session is enabled."""
    (no_files / "spark-defaults.conf").write_text("spark.jars.packages io.delta:delta-spark_2.13:4.0.0\n")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    started(None)
    assert "PYSPARK_SUBMIT_ARGS" not in os.environ
