"""CONVERT TO DELTA, for SQL and `DeltaTable`."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tahoe.errors import InvalidOptionError
from tahoe.spark.ddl.conversion import ConvertCommand, convert_to_delta
from tahoe.spark.jvm.failures import for_user
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.table_cache import recache
from tahoe.spark.maintenance.user_command import run_for_user


def run_convert(
    spark: SparkSession, parts: Sequence[str], columns: str | StructType | None, statistics: bool = True
) -> str:
    """Run CONVERT TO DELTA. Returns the table's location.

    Args:
        parts: of the name.
        columns: the partition columns, as DDL or as a schema.
    """
    partition = StructType.fromDDL(columns) if isinstance(columns, str) else columns
    if partition is not None and not isinstance(partition, StructType):
        detail = "it must be columns with their types, such as 'day DATE, hour INT'"
        raise for_user(
            InvalidOptionError(option="partitionSchema", value=columns, table=".".join(parts), detail=detail)
        )
    command = ConvertCommand(parts=parts, partition_schema=partition, statistics=statistics)
    location = run_for_user(spark, lambda: convert_to_delta(spark, command))
    recache(Gateway(spark), location)
    return location
