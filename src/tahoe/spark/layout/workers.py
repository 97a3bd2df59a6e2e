"""Sends work to Python workers of the executors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from pyspark.sql import SparkSession

from tahoe.spark.jvm.gateway import JVM_ERRORS

_logger = logging.getLogger("tahoe")

Work = TypeVar("Work")
Result = TypeVar("Result")


def is_local(spark: SparkSession) -> bool:
    """Whether Spark's executor is a part of the driver, so that its Python workers are no more cores."""
    return str(spark.sparkContext.master).startswith("local")


def in_workers(
    spark: SparkSession, function: Callable[[Work], Result], work: Sequence[Work], *, table: str
) -> list[Result] | None:
    """The results of a function in order, one task each; None if the executors' Python has no tahoe, so that the driver
    must do it.

    Args:
        function: of a module of tahoe; it returns errors of single pieces of work as values.
    """
    context = spark.sparkContext
    try:
        return context.parallelize(work, len(work)).map(function).collect()
    except JVM_ERRORS as error:
        if "ModuleNotFoundError" not in str(error):
            raise
        _logger.warning("%s: the driver does the work, because the executors' Python has no tahoe", table)
        return None
