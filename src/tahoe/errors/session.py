"""The Spark session cannot be used, or a command in it failed."""

from __future__ import annotations

from tahoe._version import DISTRIBUTION
from tahoe.errors.root import DeltaError


class DeltaSessionError(DeltaError):
    condition = "DELTA_SESSION_ERROR"
    sqlstate = "0A000"


class PySparkMissingError(DeltaSessionError, ImportError):
    condition = "DELTA_PYSPARK_MISSING"
    what = "This part of tahoe needs PySpark, which is not installed."
    todo = "Install it: pip install 'pyspark>=4.1,<4.4'. tahoe.Table reads and writes without Spark."


class OtherPackageError(DeltaSessionError, ImportError):
    condition = "DELTA_OTHER_PACKAGE"
    what = (
        "The package {name} {version}, another project, is installed in {folder} beside tahoe. Both have a module "
        "tahoe, and each overwrites files of the other."
    )
    todo = f"Remove both, and install this one: pip uninstall {{name}} {DISTRIBUTION}; pip install {DISTRIBUTION}."


class NoGatewayError(DeltaSessionError):
    condition = "DELTA_NO_GATEWAY"
    what = "This needs a Spark session with its own JVM, but {session}."
    todo = (
        "Use SparkSession.builder.master(...).getOrCreate(). A Spark Connect session can still read and write with "
        'format("delta"), and tahoe.Table(path) works without Spark.'
    )


class UnsupportedSparkVersionError(DeltaSessionError):
    condition = "DELTA_UNSUPPORTED_SPARK_VERSION"
    what = "tahoe supports PySpark 4.1 to 4.3, but this session runs Spark {version}{detail}."
    todo = "Install a supported version: pip install 'pyspark>=4.1,<4.4'. tahoe.Table reads and writes without Spark."


class ReferenceJarPresentError(DeltaSessionError):
    condition = "DELTA_REFERENCE_JAR_PRESENT"
    what = (
        "The class path already contains a data source named delta ({location}), which Spark would use instead of "
        "tahoe."
    )
    todo = (
        "Remove delta-spark from spark.jars and spark.jars.packages, do not call its "
        "configure_spark_with_delta_pip, and start a new session."
    )


class ConnectServerError(DeltaSessionError):
    condition = "DELTA_CONNECT_SERVER"
    what = "The Spark Connect server cannot start: {detail}."
    todo = "{remedy}"


class ClientCallError(DeltaSessionError):
    condition = "DELTA_CLIENT_CALL"
    sqlstate = "42K0E"
    pyspark_class = "IllegalArgumentException"
    what = "A call of a Spark Connect client cannot be run ({kind}): {detail}."
    todo = "Correct the call, or use the server's version of tahoe."


class SessionNotEnabledError(DeltaSessionError):
    condition = "DELTA_SESSION_NOT_ENABLED"
    what = "tahoe is not enabled in this Spark session."
    todo = "Call tahoe.enable(spark) once, before the first use."


class CommandCancelledError(DeltaSessionError):
    condition = "OPERATION_CANCELED"  # Spark's own
    sqlstate = "HY008"
    what = "The command was cancelled before it committed: {reason}."
    todo = "The table was not changed; run the command again if this was not intended."


class WriteFailedError(DeltaSessionError):
    condition = "DELTA_WRITE_FAILED"
    sqlstate = "58030"
    what = "The Spark job that writes data files for {table} failed, and nothing was committed: {detail}"
    todo = "The table was not changed; fix the cause and write again."


class StorageOptionsForgottenError(DeltaSessionError):
    condition = "DELTA_STORAGE_OPTIONS_FORGOTTEN"
    sqlstate = "55000"
    what = (
        "This DataFrame of {table} was read with storage options of its own, such as credentials. Since then {count} "
        "other sets of options were used, so tahoe no longer has them."
    )
    todo = "Read the table again with the options, or set them for the session as spark.hadoop.fs.*."


class TableNotCachedError(DeltaSessionError):
    condition = "DELTA_TABLE_NOT_CACHED"
    sqlstate = "55000"
    what = "CACHE SELECT cannot keep anything of {table}: {detail}."
    todo = (
        "Set spark.tahoe.cache.folder to a folder of the local disks for tables in S3, Azure or Google Cloud Storage."
    )


class NativeEngineError(DeltaSessionError):
    condition = "DELTA_NATIVE_ENGINE_FAILED"
    sqlstate = "58030"
    what = "Comet cannot run this query: {detail}."
    todo = (
        "Run it in Spark's own engine: spark.conf.set('spark.comet.enabled', 'false'). If Comet is short of memory, "
        "raise spark.memory.offHeap.size in a new session."
    )


class UnfitValueError(WriteFailedError):
    """Base of the errors of a value that its column cannot hold."""

    condition = "DELTA_UNFIT_VALUE"
    sqlstate = "22000"
    what = "The value {value} for column {column} of {table} does not fit in {type}; nothing was committed."
    todo = "Filter or fix such values, or use try_cast in the query, which makes them null."


class CastOverflowError(UnfitValueError):
    condition = "CAST_OVERFLOW_IN_TABLE_INSERT"
    sqlstate = "22003"
    pyspark_class = "ArithmeticException"


class AssignedOverflowError(UnfitValueError):
    condition = "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE"
    sqlstate = "22003"
    pyspark_class = "ArithmeticException"


class InvalidInputError(UnfitValueError):
    condition = "CAST_INVALID_INPUT"
    sqlstate = "22018"
    pyspark_class = "SparkRuntimeException"


class InvalidNumberError(InvalidInputError):
    pyspark_class = "NumberFormatException"


class InvalidTimeError(InvalidInputError):
    pyspark_class = "DateTimeException"


class VariantCastError(UnfitValueError):
    condition = "INVALID_VARIANT_CAST"
    sqlstate = "22023"
    pyspark_class = "SparkRuntimeException"


class TextTooLongError(UnfitValueError):
    condition = "DELTA_EXCEED_CHAR_VARCHAR_LIMIT"
    sqlstate = "22001"
    todo = "Shorten such values, or give the column a longer type."
