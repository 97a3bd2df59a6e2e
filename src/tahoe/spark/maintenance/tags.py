"""Tags in a Spark session: CREATE TAG, DROP TAG and SHOW TAGS."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from tahoe.spark.configuration import setting_names
from tahoe.spark.jvm.gateway import author_of
from tahoe.spark.maintenance.history_detail import result_frame
from tahoe.spark.maintenance.user_command import run_for_user
from tahoe.table.maintenance.tags import TagRequest, create_tag, drop_tag
from tahoe.table.table import Table

# The result of SHOW TAGS, oldest version first.
TAGS = StructType(
    [
        StructField("name", StringType()),
        StructField("version", LongType()),
        StructField("created", TimestampType()),
        StructField("expires", TimestampType()),
    ]
)


def run_create_tag(spark: SparkSession, table: Table, request: TagRequest) -> None:
    """Make a tag by the settings of a session, which complete the request. Raises errors as users of Spark expect
    them.
    """

    def run() -> None:
        checks = setting_names.CHECK_EXPIRED.of(spark.conf, table=table.url)
        create_tag(table, replace(request, retention_check=checks, **author_of(spark)))

    run_for_user(spark, run)


def run_drop_tag(spark: SparkSession, table: Table, name: str, *, if_exists: bool) -> None:
    """Drop a tag."""

    def run() -> None:
        drop_tag(table, name, if_exists=if_exists, **author_of(spark))

    run_for_user(spark, run)


def shown_tags(spark: SparkSession, table: Table) -> DataFrame:
    """The tags of a table."""
    tags = run_for_user(spark, table.tags)
    return result_frame(
        spark,
        [{"name": tag.name, "version": tag.version, "created": tag.created, "expires": tag.expires} for tag in tags],
        TAGS,
    )
