"""A command as users of Spark call it: it can be cancelled, auto compaction follows it, and its errors are those that
they expect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyspark.sql import SparkSession

from tahoe.errors import DeltaError
from tahoe.spark.jvm.failures import for_user
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.layout.auto_compaction import writing_command

T = TypeVar("T")


def run_for_user(spark: SparkSession, command: Callable[[], T]) -> T:
    """Run a command that may be cancelled. Raises errors as users of Spark expect them."""
    return raising_for_user(writing_command(Gateway(spark))(command))


def raising_for_user(command: Callable[[], T]) -> T:
    """Run a call. Raises errors as users of Spark expect them."""
    try:
        return command()
    except DeltaError as error:
        raise for_user(error) from error.__cause__
