"""The reference implementation, one process for the whole run, and tahoe beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import tahoe
from tests.interop import queries
from tests.interop.queries import Query
from tests.interop.readers import Reader, ThroughSpark, WithoutSpark
from tests.interop.reference import Reference, check_installed
from tests.interop.streamed_tables import Sides


@pytest.fixture(scope="session")
def reference() -> Iterator[Reference]:
    check_installed()
    reference = Reference()
    yield reference
    reference.close()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Our own session, with tahoe enabled."""
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tahoe-interop")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    tahoe.enable(session)
    yield session
    session.stop()


@pytest.fixture
def sides(reference: Reference, spark: SparkSession) -> Sides:
    """Both, to run a streaming query: `sides["tahoe"](query)`."""

    def run(query: Query, one_batch: bool = False) -> None:
        queries.run(spark, query, one_batch)

    return {"tahoe": run, "reference": reference.stream}


@pytest.fixture(params=["without Spark", "through Spark"])
def reader(request: pytest.FixtureRequest) -> Reader:
    return WithoutSpark() if request.param == "without Spark" else ThroughSpark(request.getfixturevalue("spark"))
