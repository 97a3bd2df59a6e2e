"""Classes by which a session commits, as the reference's users write them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tahoe.spark.jvm.gateway import Gateway

SOURCES = Path(__file__).parent / "java_log_store"

ELSEWHERE, IN_PLACE = "logs.ElsewhereLogStore", "logs.InPlaceLogStore"


def install(spark: SparkSession) -> None:
    """Compile them, as their JAR would bring them."""
    Gateway(spark).compile(SOURCES, provides=ELSEWHERE)


def static(spark: SparkSession, field: str, of: str = ELSEWHERE) -> Any:
    """The value of a static field of a class."""
    return Gateway(spark).load_class(of).getField(field).get(None)


def set_static(spark: SparkSession, field: str, value: object, of: str = ELSEWHERE) -> None:
    Gateway(spark).set_static(of, field, value)


def calls(spark: SparkSession) -> Counter[str]:
    """What the class was asked since the last time, and how often."""
    return Counter(Gateway(spark).java_class(ELSEWHERE).asked().splitlines())
