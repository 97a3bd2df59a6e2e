"""The one Spark session of the suite, enabled."""

from __future__ import annotations

import itertools
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_collections import JavaIterator
from pyspark.sql import SparkSession

import tahoe
from tahoe.spark.jvm import gateway
from tahoe.storage.background import finish_background
from tahoe.table.commit.draft import Draft
from tests.sample import INTERPRETED, settings_of_spark

if "TAHOE_NEXT_SPARK" in os.environ:
    gateway.SUPPORTED_VERSIONS = (*gateway.SUPPORTED_VERSIONS, ".".join(pyspark.__version__.split(".")[:2]))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    home = tmp_path_factory.mktemp("spark")
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("tahoe-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config(
            "spark.python.sql.dataFrameDebugging.enabled", "false"
        )  # asks the JVM four times for each function of a column
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.driver.extraJavaOptions", "-Dderby.system.home=" + str(home))
        .config(
            "spark.tahoe.conflictRetries", "0"
        )  # tests of conflicts expect the exception; tests/spark/test_rerun.py sets it
        .config("spark.local.dir", str(home / "local"))
    )
    if os.environ.get("TAHOE_NATIVE"):  # `make native`
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a suite that runs in Spark's own engine would prove nothing
            tahoe.configure(builder.config("spark.memory.offHeap.size", "2g"), native=True).getOrCreate()
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield tahoe.enable(session)
    session.stop()


@pytest.fixture(scope="session", autouse=True)
def _no_iteration_that_ends_by_an_exception() -> Iterator[None]:
    """A Java collection in a `for` ends by an exception, which PySpark converts with thirty questions to the JVM: see
    `Gateway.items`.
    """
    following = JavaIterator.next

    def next_item(self: JavaIterator) -> Any:
        try:
            return following(self)
        except StopIteration:
            frames = (frame.f_code.co_filename for frame, _ in itertools.islice(traceback.walk_stack(None), 1, 8))
            caller = next((file for file in frames if "/py4j/" not in file and "/importlib" not in file), "")
            assert "/tahoe/" not in caller, f"{caller} iterates over a Java collection without Gateway.items"
            raise

    JavaIterator.next = JavaIterator.__next__ = next_item
    yield
    JavaIterator.next = JavaIterator.__next__ = following


@pytest.fixture(autouse=True)
def _reader(request: pytest.FixtureRequest) -> None:
    if os.environ.get("TAHOE_NATIVE") and request.node.get_closest_marker("sparks_reader"):
        pytest.skip("looks at plans or figures of Spark's own engine, and plans run natively")


@pytest.fixture
def messages(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The messages that Python has sent to the JVM since the test began, each of which takes longer than most of
    Spark's work on it.

    Those of Python's garbage collector, which say which objects it needs no more, are left out.
    """
    assert spark.sparkContext._gateway is not None
    client, sent = spark.sparkContext._gateway._gateway_client, list[str]()
    send = client.send_command

    def counted(*command: Any, **how: Any) -> Any:
        if not command[0].startswith("m\n"):
            sent.append(command[0])
        return send(*command, **how)

    monkeypatch.setattr(client, "send_command", counted)
    return sent


@pytest.fixture(autouse=True)
def _interpreter(request: pytest.FixtureRequest, spark: SparkSession) -> None:
    """Generated code in one test of three, in a short run."""
    wanted = {} if "generated_code" in request.fixturenames else settings_of_spark(request.node.nodeid)
    for setting in INTERPRETED:
        if setting in wanted:
            spark.conf.set(setting, wanted[setting])
        else:
            spark.conf.unset(setting)


@pytest.fixture
def generated_code() -> None:
    """Spark's interpreter cannot decode the rows of `spark.catalog.listTables`."""


@pytest.fixture
def scans(spark: SparkSession) -> Iterator[None]:
    """Queries read files, also if the log would answer them."""
    spark.conf.set("spark.databricks.delta.optimizeMetadataQuery.enabled", "false")
    yield
    spark.conf.unset("spark.databricks.delta.optimizeMetadataQuery.enabled")


@pytest.fixture
def behind_a_rival(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Lets a rival commit once, before the next commit."""
    commit_draft = Draft.commit

    def meet(rival: Callable[[], object]) -> None:
        def second(self: Draft, *arguments: object) -> object:
            monkeypatch.setattr(Draft, "commit", commit_draft)
            rival()
            return commit_draft(self, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Draft, "commit", second)

    return meet


@pytest.fixture
def table_name(spark: SparkSession) -> Iterator[str]:
    """A name that no other test uses; what it names is dropped."""
    name = f"t_{next(_numbers)}"
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


_numbers = iter(range(1_000_000))


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where a table may be made."""
    return str(tmp_path / "t")


@pytest.fixture
def lake_url(tmp_path: Path) -> str:
    """The database of `lake`."""
    return f"sqlite:///{tmp_path}/lake.db"


@pytest.fixture
def lake(spark: SparkSession, lake_url: str, tmp_path: Path) -> Iterator[str]:
    """The name of an attached catalog with a schema `shop`, which has tables of items and pieces."""
    name = f"lake{next(_numbers)}"
    tahoe.enable(spark, catalogs={name: {"url": lake_url, "root": str(tmp_path / "lake")}})
    spark.sql(f"CREATE SCHEMA {name}.shop")
    spark.sql(f"CREATE TABLE {name}.shop.orders (item STRING, pieces INT)")
    spark.sql(f"CREATE TABLE {name}.shop.stock AS SELECT 'tea' AS item, 10 AS pieces")
    yield name
    finish_background()
    spark.catalog.setCurrentCatalog("spark_catalog")
    spark.conf.unset(f"spark.sql.catalog.{name}")
