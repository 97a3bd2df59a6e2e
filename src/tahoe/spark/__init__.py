"""The engine: rows. All modules that need PySpark are below, so that its absence is reported here, once."""

from tahoe.errors import PySparkMissingError

try:
    import pyspark  # noqa: F401  whether it is there
except ModuleNotFoundError as error:
    raise PySparkMissingError from error
