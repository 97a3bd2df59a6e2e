"""The Spark session cannot be used, or a command failed in it."""

from __future__ import annotations

from tahoe.errors.root import DeltaError


class DeltaSessionError(DeltaError):
    condition = "DELTA_SESSION_ERROR"
    sqlstate = "0A000"


class PySparkMissingError(DeltaSessionError, ImportError):
    condition = "DELTA_PYSPARK_MISSING"
    what = "PySpark is not installed, and this part of tahoe needs it."
    todo = "pip install 'pyspark>=4.1,<4.4'. tahoe.Table reads and appends without Spark."


class NoGatewayError(DeltaSessionError):
    condition = "DELTA_NO_GATEWAY"
    what = "This needs a Spark session with a JVM of its own, and the one that was given ({session}) has none."
    todo = (
        "Use SparkSession.builder.master(...).getOrCreate(). Without a JVM, a Spark Connect session reads and writes with "
        'format("delta"), and tahoe.Table(path) without Spark.'
    )


class UnsupportedSparkVersionError(DeltaSessionError):
    condition = "DELTA_UNSUPPORTED_SPARK_VERSION"
    what = "tahoe works with PySpark 4.1 to 4.3, and this session runs Spark {version}{detail}."
    todo = "Install a supported one: pip install 'pyspark>=4.1,<4.4'. tahoe.Table reads and appends without Spark meanwhile."


class ReferenceJarPresentError(DeltaSessionError):
    condition = "DELTA_REFERENCE_JAR_PRESENT"
    what = "The class path already has a data source called delta ({location}), which Spark would find before tahoe."
    todo = "Remove delta-spark from spark.jars and spark.jars.packages (and its configure_spark_with_delta_pip), and start a new session."


class SessionNotEnabledError(DeltaSessionError):
    condition = "DELTA_SESSION_NOT_ENABLED"
    what = "This Spark session does not know Delta tables yet."
    todo = "Call tahoe.enable(spark) once, before the first use."


class CommandCancelledError(DeltaSessionError):
    condition = "OPERATION_CANCELED"  # Spark's own
    sqlstate = "HY008"
    what = "The command was cancelled before it committed: {reason}."
    todo = "The table is as it was; run the command again if that was not meant."


class WriteFailedError(DeltaSessionError):
    condition = "DELTA_WRITE_FAILED"
    sqlstate = "58030"
    what = "The Spark job that writes data files for {table} failed, and nothing was committed: {detail}"
    todo = "The table is as it was; mend the cause and write again."
