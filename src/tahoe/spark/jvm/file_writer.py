"""Spark's own Parquet writer, steered so that every data file is written once, under a unique name, in its final folder.

It knows folders and Parquet, not Delta: what is written becomes part of a table when somebody commits it. Spark's manifest of what it
wrote goes to a private temporary folder of the driver.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

from pyspark.sql import DataFrame

from tahoe.spark.jvm.cancellation import check
from tahoe.spark.jvm.failures import to_java
from tahoe.spark.jvm.gateway import Gateway, JavaObject

# Spark's writer keeps bounds of at most this many bytes in a footer and, without the limit, none at all for longer text.
BOUND_BYTES_MAX = 1024

# What the files must look like whatever the session says: timestamps that have statistics, dates and times as they are, lists and
# decimals as the format has them, variants in one piece.
_SESSION_SETTINGS: Mapping[str, str] = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.variant.writeShredding.enabled": "false",
    "spark.sql.variant.inferShreddingSchema": "false",
    "spark.sql.parquet.variant.annotateLogicalType.enabled": "false",
    # the manifest is a list of files in one piece, whatever the session's streams do with theirs
    "spark.sql.streaming.fileSink.log.compactInterval": "10",
}

# What the session's streams use for their own checkpoints, and the manifest is none.
_NOT_FOR_FILES = ("spark.sql.streaming.checkpointFileManagerClass",)

_DATASOURCES = "org.apache.spark.sql.execution.datasources."
_STREAMING = "org.apache.spark.sql.execution.streaming."


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSettings:
    """How files are written.

    Attributes:
        schema: of the files with the partition columns, as JSON of Spark's StructType; columns as in the data, by position.
        partition_columns: names in that schema; they become folders.
        options: of Spark's Parquet source: `compression`, `maxRecordsPerFile`.
        hadoop: settings of Parquet's own writer and of the storage.
    """

    schema: str
    partition_columns: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    hadoop: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A file that was written. `key` is relative to the folder and unescaped; its folders are `column=value` as Hive escapes them."""

    key: str
    size_bytes: int
    modification_time_ms: int


def write_files(frame: DataFrame, url: str, settings: WriterSettings) -> list[NewFile]:
    """Run the query and write its rows below a folder.

    A job that fails removes what its tasks have written; a task that ends while the others are being stopped may leave a file, which
    nothing refers to.

    Args:
        frame: its columns are, in order, those of `settings.schema`; names and nullability are taken from there.
        url: the folder, absolute and unescaped, as Hadoop knows it.

    Raises:
        CommandCancelledError: the command that does it was cancelled before; nothing is written.
        Exception: what Spark raised.
    """
    check()
    gateway = Gateway(frame.sparkSession)
    manifest = tempfile.mkdtemp(prefix="tahoe-manifest-")
    try:
        query = frame._jdf.queryExecution()
        _as_query(gateway, query, lambda: _write(gateway, query, url, settings, manifest))
        return _read_manifest(Path(manifest), depth=1 + len(settings.partition_columns))
    finally:
        shutil.rmtree(manifest, ignore_errors=True)


def delete_files(gateway: Gateway, url: str, keys: Iterable[str], hadoop: Mapping[str, str]) -> None:
    """Remove files of a folder; one that is not there is no error. `hadoop` holds settings of the storage."""
    path = gateway.java_class("org.apache.hadoop.fs.Path")
    system = None
    for key in keys:
        root = path(url)
        system = system or root.getFileSystem(_configuration(gateway.session, hadoop))
        system.delete(path(root, key), False)


def _write(gateway: Gateway, query: JavaObject, url: str, settings: WriterSettings, manifest: str) -> None:
    session = _session_for_files(gateway)
    plan = query.executedPlan()
    columns = _as_in_files(gateway, plan.output(), settings.schema)
    by_name = {column.name(): column for column in columns}
    partitions = gateway.seq([by_name[name] for name in settings.partition_columns])
    spec = gateway.java_class(_DATASOURCES + "FileFormatWriter$OutputSpec")(url, gateway.scala_map({}), gateway.seq(columns))
    options = gateway.scala_map({"timeZone": "UTC", **settings.options})
    committer = gateway.java_class(_STREAMING + "ManifestFileCommitProtocol")("tahoe", url)
    committer.setupManifestOptions(_manifest_log(gateway, session, manifest), 0)
    parquet = gateway.java_class(_DATASOURCES + "parquet.ParquetFileFormat")()
    hadoop = _configuration(session, {"parquet.statistics.truncate.length": str(BOUND_BYTES_MAX), **settings.hadoop})
    none, nothing = gateway.option(None), gateway.seq([])
    writer = gateway.module(_DATASOURCES + "FileFormatWriter")
    given = (session, plan, parquet, committer, spec, hadoop, partitions, none, nothing, options)
    with _in_tasks(session.sparkContext(), _SESSION_SETTINGS):
        writer.write(*given, *_defaults(gateway, writer, "write", len(given)))


@contextmanager
def _in_tasks(context: JavaObject, settings: Mapping[str, str]) -> Iterator[None]:
    """Tasks see these settings, and not those of the session whose query they run."""
    before = {name: context.getLocalProperty(name) for name in settings}
    for name, value in settings.items():
        context.setLocalProperty(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)


def _configuration(session: JavaObject, settings: Mapping[str, str]) -> JavaObject:
    """Hadoop's configuration for a session, with further settings."""
    hadoop = session.sessionState().newHadoopConf()
    for name, value in settings.items():
        hadoop.set(name, value)
    return hadoop


def _session_for_files(gateway: Gateway) -> JavaObject:
    """A copy of the session with the settings of the files, so that the user's session and its other threads never see them."""
    session = gateway.session.cloneSession()
    settings = session.sessionState().conf()
    for name, value in _SESSION_SETTINGS.items():
        settings.setConfString(name, value)
    for name in _NOT_FOR_FILES:
        settings.unsetConf(name)
    return session


def _manifest_log(gateway: Gateway, session: JavaObject, folder: str) -> JavaObject:
    log = gateway.java_class(_STREAMING + "sinks.FileStreamSinkLog")
    return log(1, session, Path(folder, "log").as_uri(), gateway.option(None))


def _as_in_files(gateway: Gateway, output: JavaObject, schema: str) -> list[JavaObject]:
    """The plan's columns under the names, types and metadata of the files. Rows have no names, so that this costs nothing."""
    attribute = gateway.java_class("org.apache.spark.sql.catalyst.expressions.AttributeReference")
    fields = gateway.struct_of_json(schema).fields()
    return [
        attribute(f.name(), f.dataType(), f.nullable(), f.metadata(), column.exprId(), column.qualifier())
        for f, column in zip(fields, gateway.items(output.iterator()), strict=True)
    ]


def _defaults(gateway: Gateway, module: JavaObject, method: str, given: int) -> list[JavaObject]:
    """The default values of a Scala method's last parameters, however many this version of Spark has."""
    key = (gateway.spark.version, method)
    if key not in _parameter_counts:
        counts = (m.getParameterCount() for m in module.getClass().getMethods() if m.getName() == method)
        _parameter_counts[key] = max(counts)
    return [getattr(module, f"{method}$default${position}")() for position in range(given + 1, _parameter_counts[key] + 1)]


# To look at a class's methods takes many calls, and they are the same for a version of Spark.
_parameter_counts: dict[tuple[str, str], int] = {}


def _as_query(gateway: Gateway, query: JavaObject, work: Callable[[], Any]) -> None:
    """Do the work as an execution of the query: with its settings in the tasks, in Spark's UI, and heard by its listeners."""
    body = _Body(gateway, work)
    execution = gateway.module("org.apache.spark.sql.execution.SQLExecution")
    try:
        execution.withNewExecutionId(query, gateway.option("save"), gateway.java_class("delta.Work")(body))
    except Exception as error:
        raise body.error or error from error


class _Body:
    """A Python function as Java's Callable. Its error is the answer, which `delta.Work` throws, and is kept to be raised here."""

    def __init__(self, gateway: Gateway, work: Callable[[], Any]) -> None:
        self.gateway = gateway
        self.work = work
        self.error: BaseException | None = None

    def call(self) -> JavaObject | None:
        try:
            self.work()
        except BaseException as error:
            self.error = error
            return to_java(self.gateway.jvm, error)
        return None

    class Java:
        implements: ClassVar = ["java.util.concurrent.Callable"]


def _read_manifest(folder: Path, depth: int) -> list[NewFile]:
    """What Spark says it has written: a version line, then a JSON object a file, with its url escaped."""
    lines = (folder / "log" / "0").read_text(encoding="utf-8").split("\n")[1:]
    return [_new_file(json.loads(line), depth) for line in lines if line]


def _new_file(entry: Mapping[str, Any], depth: int) -> NewFile:
    segments = unquote(entry["path"]).split("/")
    return NewFile(key="/".join(segments[-depth:]), size_bytes=entry["size"], modification_time_ms=entry["modificationTime"])
