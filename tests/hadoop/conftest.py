"""Sessions whose class path has what a file system of Hadoop's needs beside Spark's own jars. One JVM, so one such
suite a run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tahoe
from tests.spark.conftest import table_name  # noqa: F401  a fixture

REPOSITORY = Path(__file__).parents[2]


def jars(name: str) -> list[str]:
    """The jars that `make interop-<name>` has fetched. Without them the suite is skipped, or fails where the run
    requires it.
    """
    folder = REPOSITORY / ".cache" / f"{name}-jars"
    if not (folder / "installed").exists():
        if os.environ.get("TAHOE_HADOOP") == "required":
            pytest.fail(f"the jars are not in {folder}: make interop-{name}")
        pytest.skip(f"NOT RUN: the jars are not there: make interop-{name}")
    return sorted(str(path) for path in folder.glob("*.jar"))


@contextmanager
def session(home: Path, class_path: list[str], hadoop: Mapping[str, str]) -> Iterator[SparkSession]:
    """An enabled session with further jars and settings of Hadoop's."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("tahoe-hadoop")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.extraClassPath", os.pathsep.join(class_path))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.log.level", "ERROR")
    )
    for name, value in hadoop.items():
        builder = builder.config(f"spark.hadoop.{name}", value)
    spark = builder.getOrCreate()
    yield tahoe.enable(spark)
    spark.stop()
