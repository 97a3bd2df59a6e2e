"""The reference's settings are taken out of a configuration, and no others."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tahoe.reference_settings import (
    defaults,
    overrides,
    submit_arguments_without_reference,
    submitted_settings,
    without_reference,
)

EXTENSION, CATALOG = "io.delta.sql.DeltaSparkSessionExtension", "org.apache.spark.sql.delta.catalog.DeltaCatalog"


@pytest.mark.parametrize(
    ("setting", "before", "after"),
    [
        ("spark.jars.packages", "io.delta:delta-spark_2.13:4.0.0", None),
        ("spark.jars.packages", "a:b:1, io.delta:delta-spark_4.1_2.13:4.4.0,c:d:2", "a:b:1,c:d:2"),
        ("spark.jars.packages", "io.deltastream:x:1", "io.deltastream:x:1"),
        (
            "spark.jars",
            "/jars/delta-spark_2.13-4.0.0.jar,file:/jars/delta-storage-4.0.0.jar,/jars/mine.jar",
            "/jars/mine.jar",
        ),
        (
            "spark.jars",
            "/delta-core_2.12/mine.jar,/jars/my-delta-spark.jar",
            "/delta-core_2.12/mine.jar,/jars/my-delta-spark.jar",
        ),
        ("spark.submit.pyFiles", "delta-core_2.12-2.4.0.jar,mine.zip", "mine.zip"),
        ("spark.sql.extensions", f"{EXTENSION},org.example.Mine", "org.example.Mine"),
        ("spark.sql.extensions", EXTENSION, None),
        ("spark.sql.catalog.spark_catalog", CATALOG, None),
        (
            "spark.sql.catalog.spark_catalog",
            "org.apache.iceberg.spark.SparkSessionCatalog",
            "org.apache.iceberg.spark.SparkSessionCatalog",
        ),
        ("spark.sql.catalog.other", CATALOG, CATALOG),
        ("spark.sql.shuffle.partitions", 2, 2),
    ],
)
def test_what_is_left_of_a_setting(setting: str, before: object, after: object) -> None:
    assert without_reference({setting: before}) == ({} if after is None else {setting: after})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pyspark-shell", "pyspark-shell"),
        ("--packages io.delta:delta-spark_2.13:4.0.0 pyspark-shell", "pyspark-shell"),
        ("--packages=io.delta:d:1,a:b:1 --master local x.py", "--packages a:b:1 --master local x.py"),
        (f"--verbose --conf spark.sql.extensions={EXTENSION} -c a=b=c x.py --conf", "--verbose -c a=b=c x.py --conf"),
        (
            "--jars delta-spark_2.13-4.0.0.jar,m.jar x.py --packages io.delta:d:1",
            "--jars m.jar x.py --packages io.delta:d:1",
        ),
        ("--name 'a b' x.py", "--name 'a b' x.py"),
        ("--version", "--version"),
        ("--packages", "--packages"),
    ],
)
def test_the_arguments_of_spark_submit(before: str, after: str) -> None:
    """What follows the application is the application's."""
    assert submit_arguments_without_reference(shlex.split(before)) == shlex.split(after)


def test_the_settings_that_arguments_set() -> None:
    text = "--conf a=b --packages c:d:1 --properties-file f.conf --deploy-mode cluster --name n x.py --conf e=f"
    assert submitted_settings(shlex.split(text)) == {
        "a": "b",
        "spark.jars.packages": "c:d:1",
        "--properties-file": "f.conf",
        "spark.submit.deployMode": "cluster",
    }


FILE = f"""
# spark.jars.packages  io.delta:commented:1
spark.jars.packages    io.delta:delta-spark_2.13:4.0.0,\\
  a:b:1
spark.sql.extensions={EXTENSION}
spark.sql.catalog.spark_catalog : {CATALOG}
spark.executor.extraJavaOptions -Da=b -Dc=d
"""


def test_a_file_of_defaults(tmp_path: Path) -> None:
    """A file that stays as it is must not bring the JAR back."""
    (tmp_path / "spark-defaults.conf").write_text(FILE)
    found = defaults(tmp_path)
    assert found["spark.executor.extraJavaOptions"] == "-Da=b -Dc=d"
    catalog, extensions = ["--conf", "spark.sql.catalog.spark_catalog=builtin"], ["--conf", "spark.sql.extensions="]
    assert overrides(found, {}) == ["--conf", "spark.jars.packages=a:b:1", *catalog, *extensions]
    assert overrides(found, {"spark.jars.packages": "x:y:1"}) == [*catalog, *extensions]
    (tmp_path / "other.conf").write_text("a b\n")
    assert defaults(tmp_path, str(tmp_path / "other.conf")) == {"a": "b"}
    assert defaults(tmp_path / "missing") == {}
