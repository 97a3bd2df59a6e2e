"""PySpark's own functions in a process that is a client of Spark Connect and its server.

`spark-pipelines` and `SparkSession.builder.remote("local")` start the server in the client's process. There
`pyspark.sql.functions` and others give the client's columns, because `is_remote` is true for the process. What Java
asks of Python belongs to the server: in the thread that answers, `is_remote` is false.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import utils
from pyspark.sql.pandas import functions as pandas_functions

# How PySpark remembers, in the environment of the process, that it is a client.
_MODE = "SPARK_CONNECT_MODE_ENABLED"

_thread = threading.local()
_is_remote = utils.is_remote


def _is_client() -> bool:
    return not getattr(_thread, "serves", False) and _is_remote()


@contextmanager
def as_server() -> Iterator[None]:
    """In this thread, functions of PySpark are those of a session with a JVM."""
    if _MODE not in os.environ:
        yield
        return
    utils.is_remote = pandas_functions.is_remote = _is_client  # type: ignore[attr-defined]
    before, _thread.serves = getattr(_thread, "serves", False), True
    try:
        yield
    finally:
        _thread.serves = before
