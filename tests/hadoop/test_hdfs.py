"""Spark on HDFS, which alone is what the reference's way of committing was made for. `make interop-hdfs`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tahoe.errors import StorageRefusedError
from tahoe.spark.jvm.hadoop_store import HadoopStore
from tahoe.storage.env import Store
from tahoe.testing.names import ODD_NAMES
from tahoe.testing.plugin import open_folder, store  # noqa: F401  fixtures
from tahoe.testing.test_store import *  # noqa: F403  what every store must do
from tests.hadoop.conftest import jars, session
from tests.spark.any_storage import append, ids, load
from tests.spark.test_in_any_storage import *  # noqa: F403  what every storage must do
from tests.storage.servers import hdfs_server


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs_server(jars("hdfs"), tmp_path_factory.mktemp("hdfs")) as url:
        yield url


@pytest.fixture(scope="session")
def spark(hdfs: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    hadoop = {"fs.defaultFS": hdfs, "dfs.replication": "1", "fs.viewfs.mounttable.house.link./lake": f"{hdfs}/lake"}
    with session(tmp_path_factory.mktemp("spark"), [], hadoop) as spark:
        yield spark


@pytest.fixture(params=["hdfs", "viewfs"])
def folder(request: pytest.FixtureRequest, hdfs: str, tmp_path: Path) -> str:
    return f"{hdfs}{tmp_path}" if request.param == "hdfs" else f"viewfs://house/lake{tmp_path}"


@pytest.fixture
def folder_url(folder: str) -> str:
    return f"{folder}/ü%41"


@pytest.fixture
def open_url(spark: SparkSession) -> Callable[[str], Store]:  # noqa: ARG001  the session must be there
    return HadoopStore


@pytest.fixture
def odd_names() -> list[str]:
    """HDFS has no colons in names, and neither Spark nor tahoe makes folders with one."""
    return [name for name in ODD_NAMES if ":" not in name]


def test_a_path_without_a_scheme_is_in_hdfs(spark: SparkSession, hdfs: str, tmp_path: Path) -> None:
    """The driver's disk has such a path as well."""
    place = f"{tmp_path}/bare"
    append(spark.range(3), place)
    assert not Path(place).exists()
    assert ids(load(spark, place)) == ids(load(spark, f"{hdfs}{place}")) == [0, 1, 2]
    assert ids(spark.sql(f"SELECT * FROM delta.`{place}`")) == [0, 1, 2]


def test_a_full_quota_is_certain(spark: SparkSession, hdfs: str, tmp_path: Path) -> None:
    """Taken for unknown, the data files of a commit that never can be would stay."""
    full = HadoopStore(f"{hdfs}{tmp_path}/full")
    full.put("k", b"1")
    path = spark._jvm.org.apache.hadoop.fs.Path(full.url)
    path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).setQuota(path, 2, 2**63 - 1)
    with pytest.raises(StorageRefusedError, match="Quota"):
        full.put_if_absent("k2", b"1")
