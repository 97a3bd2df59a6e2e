"""What a Spark Connect session is, and whether its server has tahoe."""

from __future__ import annotations

from typing import Any

from tahoe.spark.configuration import setting_names

SERVER_VERSION = setting_names.SERVER_VERSION.name
"""The setting by which clients see that the server has enabled tahoe, and in which version."""


def is_connect(spark: object) -> bool:
    """Whether a session is a Spark Connect client."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def is_served(spark: Any) -> bool:
    """Whether a session is a client of a server that has enabled tahoe, so that the server does everything."""
    return is_connect(spark) and spark.conf.get(SERVER_VERSION, None) is not None
