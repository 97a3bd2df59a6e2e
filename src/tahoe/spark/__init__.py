"""The engine: rows. Whatever of tahoe needs PySpark is below, so that its absence is told here once."""

from tahoe.errors import PySparkMissingError

try:
    import pyspark  # noqa: F401  whether it is there
except ModuleNotFoundError as error:
    raise PySparkMissingError from error
