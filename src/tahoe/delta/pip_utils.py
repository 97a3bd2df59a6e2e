"""The reference's module `delta.pip_utils`."""

from tahoe.spark.api.session import configure as configure_spark_with_delta_pip

__all__ = ["configure_spark_with_delta_pip"]
