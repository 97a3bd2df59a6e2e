"""Writes data files with Spark's Parquet writer: each file is written once, under a unique name, in its final folder.

This module knows folders and Parquet, not Delta: the files become part of a table when they are committed. Spark's
manifest of the written files goes to a private temporary folder on the driver.
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

from tahoe.spark.jvm.cancellation import check_cancelled
from tahoe.spark.jvm.failures import to_java
from tahoe.spark.jvm.gateway import EXECUTOR_SOURCES, Gateway, JavaObject, returned
from tahoe.spark.jvm.redistribution import LayOut, Redistribution, laid_out, redistributed

_DATASOURCES = "org.apache.spark.sql.execution.datasources."
_STREAMING = "org.apache.spark.sql.execution.streaming."

# Spark's Parquet writer truncates bounds in footers to this many bytes. Without the limit, it writes no bounds for
# longer text.
BOUND_BYTES_MAX = 1024

# The class with which tasks write, if elements, keys and values have field ids.
_NUMBERING = "delta.write.NestedIds"

# The layout of data files, regardless of the session's settings: timestamps with statistics, dates and times without
# rebasing, lists and decimals in the standard format.
_SESSION_SETTINGS: Mapping[str, str] = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.variant.annotateLogicalType.enabled": "false",
    # the manifest is one file, regardless of the session's settings for streams. It needs no atomic rename, for which
    # Hadoop starts four processes on a local disk
    "spark.sql.streaming.fileSink.log.compactInterval": "10",
    "spark.sql.streaming.checkpointFileManagerClass": f"{_STREAMING}checkpointing.FileSystemBasedCheckpointFileManager",
}

# Whether the writer shreds variants, which Spark does unless it is told. If it may, the session can still forbid it.
_SHREDDED: Mapping[str, str] = {"spark.sql.variant.inferShreddingSchema": "true"}
_IN_ONE_PIECE: Mapping[str, str] = {
    "spark.sql.variant.writeShredding.enabled": "false",
    "spark.sql.variant.inferShreddingSchema": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSettings:
    """How files are written.

    Attributes:
        schema: of the files with the partition columns, as JSON of Spark's StructType; its columns match the data's by
            position.
        partition_columns: names in that schema; they become folders.
        options: of Spark's Parquet source: `compression`, `maxRecordsPerFile`.
        hadoop: Hadoop settings for the Parquet writer and the storage.
        nested_ids: field ids of elements, keys and values, in the order of the schema, each before those inside it; if
            it is empty they have none.
        shreds_variants: whether variants are split into typed columns, those that Spark infers from a file's first
            rows. With `nested_ids` they are not: ids are counted in the order of the unshredded schema.
    """

    schema: str
    partition_columns: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    hadoop: Mapping[str, str] = field(default_factory=dict, repr=False)
    nested_ids: Sequence[int] = ()
    shreds_variants: bool = False

    @property
    def session(self) -> Mapping[str, str]:
        """The settings of the session that writes the files."""
        shreds = self.shreds_variants and not self.nested_ids
        return {**_SESSION_SETTINGS, **(_SHREDDED if shreds else _IN_ONE_PIECE)}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A file that was written. `key` is relative to the folder and not url-escaped; its folders are `column=value` with
    Hive's escapes.
    """

    key: str
    size_bytes: int
    modification_time_ms: int


def write_files(
    frame: DataFrame,
    url: str,
    settings: WriterSettings,
    spread: Redistribution | None = None,
    lay_out: LayOut | None = None,
) -> list[NewFile]:
    """Run a query and write its rows below a folder.

    A failed job deletes the files of its tasks. A task that ends while the job is being stopped may leave an
    unreferenced file.

    Args:
        frame: its columns match `settings.schema` by position; names and nullability are taken from the schema.
        url: the folder, absolute and unescaped, with Hadoop's scheme.
        spread: how rows are redistributed before they are written; None writes the rows of each task as they are.
        lay_out: lays out the rows instead, if there are enough of them.

    Raises:
        CommandCancelledError: the command was cancelled before the write; nothing is written.
        Exception: an error of Spark.
    """
    check_cancelled()
    gateway = Gateway(frame.sparkSession)
    manifest = tempfile.mkdtemp(prefix="tahoe-manifest-")
    try:
        query = frame._jdf.queryExecution()
        _as_query(gateway, query, lambda: _write(gateway, query, url, settings, manifest, spread, lay_out))
        return _read_manifest(Path(manifest), depth=1 + len(settings.partition_columns))
    finally:
        shutil.rmtree(manifest, ignore_errors=True)


def delete_files(gateway: Gateway, url: str, keys: Iterable[str], hadoop: Mapping[str, str]) -> None:
    """Delete files of a folder; missing files are ignored. `hadoop` contains settings of the storage."""
    path = gateway.java_class("org.apache.hadoop.fs.Path")
    system = None
    for key in keys:
        root = path(url)
        system = system or root.getFileSystem(_configuration(gateway.session, hadoop))
        system.delete(path(root, key), False)


def _write(
    gateway: Gateway,
    query: JavaObject,
    url: str,
    settings: WriterSettings,
    manifest: str,
    spread: Redistribution | None,
    lay_out: LayOut | None,
) -> None:
    """Write the rows with Spark's `FileFormatWriter`. The committer is that of file streams: tasks write files under
    their final names, and a manifest in a local folder lists them.
    """
    session = _session_for_files(gateway, settings.session)
    # A column that is in the files and names their folders comes twice: the last one names them.
    places = {field["name"]: place for place, field in enumerate(json.loads(settings.schema)["fields"])}
    folders = [places[name] for name in settings.partition_columns]
    plan = None if lay_out is None else laid_out(gateway, session, query, lay_out)
    if plan is None and spread is not None:
        plan = redistributed(gateway, session, query, folders, spread)
    plan = plan or query.executedPlan()
    # This renames attributes only and does not touch rows.
    columns = gateway.java_class("delta.Rows").renamed(plan.output(), gateway.struct_of_json(settings.schema))
    partitions = gateway.seq([columns.apply(place) for place in folders])
    spec = gateway.java_class(_DATASOURCES + "FileFormatWriter$OutputSpec")(url, gateway.scala_map({}), columns)
    options = gateway.scala_map({"timeZone": "UTC", **settings.options})
    committer = gateway.java_class(_STREAMING + "ManifestFileCommitProtocol")("tahoe", url)
    committer.setupManifestOptions(_manifest_log(gateway, session, manifest), 0)
    parquet, ids = _format(gateway, settings)
    hadoop = _configuration(
        session, {"parquet.statistics.truncate.length": str(BOUND_BYTES_MAX), **ids, **settings.hadoop}
    )
    none, nothing = gateway.option(None), gateway.seq([])
    writer = gateway.module(_DATASOURCES + "FileFormatWriter")
    arguments = (session, plan, parquet, committer, spec, hadoop, partitions, none, nothing, options)
    with _in_tasks(session.sparkContext(), settings.session):
        writer.write(*arguments, *_defaults(gateway, writer, "write", len(arguments)))


def _format(gateway: Gateway, settings: WriterSettings) -> tuple[JavaObject, dict[str, str]]:
    """Spark's Parquet format, or the one that gives ids to elements, keys and values; and its settings."""
    if not settings.nested_ids:
        return gateway.java_class(_DATASOURCES + "parquet.ParquetFileFormat")(), {}
    jar = gateway.compiled_jar(EXECUTOR_SOURCES, _NUMBERING)
    ids = ",".join(map(str, settings.nested_ids))
    return gateway.java_class("delta.NumberedFormat")(_NUMBERING, jar), {"tahoe.parquet.nested.ids": ids}


@contextmanager
def _in_tasks(context: JavaObject, settings: Mapping[str, str]) -> Iterator[None]:
    """Make the tasks of this thread's jobs use these settings instead of the session's."""
    before = {name: context.getLocalProperty(name) for name in settings}
    for name, value in settings.items():
        context.setLocalProperty(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)


def _configuration(session: JavaObject, settings: Mapping[str, str]) -> JavaObject:
    """A session's Hadoop configuration, with additional settings."""
    hadoop = session.sessionState().newHadoopConf()
    for name, value in settings.items():
        hadoop.set(name, value)
    return hadoop


def _session_for_files(gateway: Gateway, settings: Mapping[str, str]) -> JavaObject:
    """A clone of the session with the settings for data files; the user's session stays unchanged."""
    session = gateway.session.cloneSession()
    conf = session.sessionState().conf()
    for name, value in settings.items():
        conf.setConfString(name, value)
    return session


def _manifest_log(gateway: Gateway, session: JavaObject, folder: str) -> JavaObject:
    log = gateway.java_class(_STREAMING + "sinks.FileStreamSinkLog")
    return log(1, session, Path(folder, "log").as_uri(), gateway.option(None))


def _defaults(gateway: Gateway, module: JavaObject, method: str, given_count: int) -> list[JavaObject]:
    """The default values of a Scala method's parameters after the first `given_count`; their number depends on Spark's
    version.
    """
    key = (gateway.spark.version, method)
    if key not in _parameter_counts:
        counts = (m.getParameterCount() for m in module.getClass().getMethods() if m.getName() == method)
        _parameter_counts[key] = max(counts)
    return [
        getattr(module, f"{method}$default${position}")()
        for position in range(given_count + 1, _parameter_counts[key] + 1)
    ]


# A cache, by Spark version and method, because listing the methods of a class takes many calls into the JVM.
_parameter_counts: dict[tuple[str, str], int] = {}


def _as_query(gateway: Gateway, query: JavaObject, work: Callable[[], Any]) -> None:
    """Run `work` as a SQL execution of the query: with its settings in the tasks, visible in Spark's UI and to query
    listeners.
    """
    body = _Body(gateway, work)
    execution = gateway.module("org.apache.spark.sql.execution.SQLExecution")
    try:
        execution.withNewExecutionId(query, gateway.option("save"), gateway.java_class("delta.Work")(body))
    except Exception as error:
        raise body.error or error from error


class _Body:
    """A Python function as a Java Callable. It returns its error, which `delta.Work` throws, and keeps it to be raised
    in Python.
    """

    def __init__(self, gateway: Gateway, work: Callable[[], Any]) -> None:
        self.gateway = gateway
        self.work = work
        self.error: BaseException | None = None

    def call(self) -> JavaObject | None:
        try:
            self.work()
        except BaseException as error:
            self.error = error
            return returned(to_java(self.gateway.jvm, error))
        return None

    class Java:
        implements: ClassVar = ["java.util.concurrent.Callable"]


def _read_manifest(folder: Path, depth: int) -> list[NewFile]:
    """The files in Spark's manifest: a version line, then one JSON object per file, with an escaped url."""
    lines = (folder / "log" / "0").read_text(encoding="utf-8").split("\n")[1:]
    return [_new_file(json.loads(line), depth) for line in lines if line]


def _new_file(entry: Mapping[str, Any], depth: int) -> NewFile:
    segments = unquote(entry["path"]).split("/")
    return NewFile(
        key="/".join(segments[-depth:]), size_bytes=entry["size"], modification_time_ms=entry["modificationTime"]
    )
