"""File systems that only Hadoop has, on the local disk: `strict:///` itself, and `viewfs://tests/mounted`, where it is
mounted.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tahoe.spark.jvm.gateway import Gateway

SYSTEM = "strict.StrictFileSystem"


def install(spark: SparkSession) -> None:
    """Let the session's Hadoop know them, as its configuration would."""
    Gateway(spark).compile(Path(__file__).parent / "java", provides=SYSTEM)
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.strict.impl", SYSTEM)
    hadoop.set("fs.AbstractFileSystem.strict.impl", "strict.StrictFs")
    hadoop.set("fs.viewfs.mounttable.tests.link./mounted", "strict:///")
    hadoop.set("fs.viewfs.mounttable.tests.link./local", "file:///")


def set_fault(spark: SparkSession, fault: str) -> None:
    """See `StrictFileSystem.fault`."""
    Gateway(spark).set_static(SYSTEM, "fault", fault)
