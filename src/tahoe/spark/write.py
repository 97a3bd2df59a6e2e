"""Writes from Spark: rows that fit the table, data files, and one commit.

Protocol: "Add File and Remove File". What a write does to the table is planned by `tahoe.table.writing`; Spark writes the rows. Either
everything is committed, or what was written is removed again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

from tahoe.errors import (
    CommitOutcomeUnknownError,
    DeltaError,
    InvalidOptionError,
    SchemaMismatchError,
    UnsupportedDataTypeError,
    WriteAlreadyRecordedError,
    WriteFailedError,
)
from tahoe.protocol.change_feed import CHANGE_TYPE
from tahoe.protocol.column_mapping import column_id
from tahoe.protocol.column_values import check_given, column_values
from tahoe.protocol.constraints import constraints_of
from tahoe.protocol.partitions import HIVE_NULL, format_partition_value, parse_partition_value
from tahoe.protocol.schema import BINARY, STRING, Array, DataType, Field, Map, Struct, as_nullable, walk_fields
from tahoe.spark.column_rules import Completed, complete
from tahoe.spark.file_writer import NewFile, WriterSettings, delete_files, write_files
from tahoe.spark.fitting import CHAR_VARCHAR, Refusals, check_binary_partitions, declares, enforce, fit, quoted, require, without_void
from tahoe.spark.gateway import Gateway
from tahoe.spark.opened import open_table
from tahoe.spark.types import delta_schema
from tahoe.spark.write_options import WriteOptions, parse_options
from tahoe.table.footers import FileStatistics, read_statistics
from tahoe.table.table import Table
from tahoe.table.writing import WRITE, Mode, WritePlan, WriteRequest, WrittenFile, plan_replacement, plan_write

# Protocol: "Change Data Files".
CHANGE_DATA_FOLDER = "_change_data"

# Under this key Spark keeps the collations of a column, whose type is string otherwise.
_COLLATIONS = "__COLLATIONS"

# With this option Spark marks what `saveAsTable` asks for with mode overwrite.
_SAVE_AS_TABLE_OVERWRITE = "__v1_save_as_table_overwrite"

# The session's identity for a write, and whether it counts for one write only.
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
_RESET_TXN_VERSION = _TXN_VERSION + ".autoReset.enabled"

_MODES: Mapping[str, Mode] = {"append": "append", "overwrite": "overwrite", "errorifexists": "error", "error": "error", "ignore": "ignore"}


def save(spark: SparkSession, mode: str, options: Mapping[str, str], dataframe: DataFrame) -> int | None:
    """What `df.write.format("delta").mode(...).save()` does.

    Args:
        mode: Spark's SaveMode: Append, Overwrite, ErrorIfExists, Ignore.
        options: with `path`, and what partitionBy said.

    Returns:
        the version that was made; None where there was nothing to do.

    Raises:
        DeltaAnalysisError: before any work, where the data or the options do not fit the table.
        WriteFailedError: the job failed; nothing was committed, and what was written is gone.
        DeltaConcurrentModificationException: another writer was first, and it matters.
    """
    path = next((value for name, value in options.items() if name.lower() == "path"), None)
    if path is None:
        raise InvalidOptionError(option="path", value="missing", table="the new table", detail="a Delta table is in a folder")
    table = open_table(spark, path, options)
    parsed = write_options(spark, options, table)
    return _write(plan_write(table, _request(spark, table, _MODES[mode.lower()], parsed, dataframe)), parsed, dataframe)


def insert(
    spark: SparkSession,
    url: str,
    dataframe: DataFrame,
    *,
    overwrite: bool,
    predicate: str | None = None,
    dynamic: bool = False,
    by_position: bool = False,
    options: Mapping[str, str] | None = None,
) -> int | None:
    """What INSERT, `insertInto`, `writeTo` and `saveAsTable` do to a table that is there.

    Args:
        overwrite: replace rows: all of them, unless one of the next two says which.
        predicate: SQL text over partition columns; only matching rows are replaced, and the new ones must match.
        dynamic: only the partitions that the data has are replaced.
        by_position: the data's columns are the table's, whatever their names.
        options: of the writer.

    Returns, Raises:
        as `save`; SchemaMismatchError also where there are too many or too few columns.
    """
    table = open_table(spark, url, options)
    parsed = write_options(spark, options or {}, table)
    if predicate is not None:
        parsed = replace(parsed, replace_where=predicate, dynamic_partitions=False)
    elif dynamic:
        parsed = replace(parsed, dynamic_partitions=True)
    if by_position:
        dataframe = _named_by_position(dataframe, table, may_grow=parsed.merge_schema or parsed.overwrite_schema)
    return _write(plan_write(table, _request(spark, table, "overwrite" if overwrite else "append", parsed, dataframe)), parsed, dataframe)


def create_as_select(
    spark: SparkSession,
    url: str,
    dataframe: DataFrame,
    *,
    replaces: bool,
    operation: str,
    is_managed: bool = False,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    comment: str | None = None,
    options: Mapping[str, str] | None = None,
) -> int | None:
    """What CREATE TABLE AS SELECT, its REPLACE forms and `saveAsTable` of a new table do: the table and its rows in one commit.

    `saveAsTable` with mode overwrite comes as a replacement too, but a table that is there only gets other rows then: its columns and
    partitioning stay unless overwriteSchema is set.

    Args:
        replaces: a table that is there is made anew, keeping its history; without it, a table that is there is an error.
        operation, is_managed: for the history.

    Returns, Raises:
        as `save`.
    """
    table = open_table(spark, url, options)
    parsed = write_options(spark, options or {}, table)
    parsed = replace(parsed, partition_by=tuple(partition_by) or None, properties={**parsed.properties, **(properties or {})})
    asked = _request(spark, table, "overwrite" if replaces else "error", parsed, dataframe, operation)
    if replaces and (options or {}).get(_SAVE_AS_TABLE_OVERWRITE) == "true" and table.exists():
        return _write(plan_write(table, asked), parsed, dataframe)
    request = replace(asked, comment=comment, is_managed=is_managed, replace_where=None, dynamic_partitions=False)
    return _write(plan_replacement(table, request) if replaces else plan_write(table, request), parsed, dataframe)


def write_options(spark: SparkSession, options: Mapping[str, str], table: Table) -> WriteOptions:
    settings = Gateway(spark).settings()
    parsed = parse_options(options, settings, table=table.url)
    if parsed.txn is not None and settings.get(_RESET_TXN_VERSION, "false").lower() == "true":
        spark.conf.unset(_TXN_VERSION)  # else the session's next write would be taken for this one
    return parsed


def _named_by_position(frame: DataFrame, table: Table, *, may_grow: bool) -> DataFrame:
    """The data with the table's column names. Further columns keep theirs, where the table may take them in; the table's last columns
    may be missing, where each has a rule that makes its values.
    """
    snapshot, given = table.snapshot(), frame.columns
    names = snapshot.schema.names
    values = column_values(snapshot.protocol, snapshot.schema, table=table.url)
    is_short = len(given) < len(names) and not all(map(values.has, names[len(given) :]))
    if is_short or (len(given) > len(names) and not may_grow):
        raise SchemaMismatchError(
            table=table.url,
            detail=f"the data has {len(given)} columns ({', '.join(given)}), and the table {len(names)} ({', '.join(names)})",
            remedy="Give a value for each column, or name the columns: INSERT INTO t (a, b) ..., INSERT INTO t BY NAME ...",
        )
    return frame.toDF(*names[: len(given)], *given[len(names) :])


def _write(plan: WritePlan | None, options: WriteOptions, frame: DataFrame) -> int | None:
    """Write the rows of a plan and commit them; None where there is nothing to do."""
    if plan is None:
        return None
    refusals = Refusals(plan.url)
    with failures_told(plan, refusals):
        rows = rows_for_files(plan, frame, refusals, checks_replace_where=options.replace_where_is_checked)
    written = write_rows(plan, options, rows, refusals)
    try:
        return plan.commit(written.files, written.metrics)
    except CommitOutcomeUnknownError:
        raise
    except DeltaError as error:  # any other exception may come after the commit, when readers already count on the files
        written.discard()
        if isinstance(error, WriteAlreadyRecordedError):
            return None
        raise


def _request(
    spark: SparkSession, table: Table, mode: Mode, options: WriteOptions, frame: DataFrame, operation: str = WRITE
) -> WriteRequest:
    overwrite = mode == "overwrite"
    return WriteRequest(
        mode=mode,
        schema=table_schema(frame, table=table.url),
        partition_by=options.partition_by,
        properties=options.properties,
        default_properties=options.default_properties,
        merge_schema=options.merge_schema,
        overwrite_schema=options.overwrite_schema and overwrite,
        replace_where=options.replace_where,
        dynamic_partitions=options.dynamic_partitions and overwrite,
        txn=options.txn,
        user_metadata=options.user_metadata,
        data_change=options.data_change,
        reads_target=reads_table(frame, table),
        operation=operation,
        engine=f"Apache-Spark/{spark.version}",
    )


def reads_table(frame: DataFrame, table: Table) -> bool:
    """Whether a query reads a table, at whatever place."""
    plan = frame._jdf.queryExecution().analyzed()
    return bool(Gateway(frame.sparkSession).java_class("delta.Files").areRead(plan, table.url))


def table_schema(frame: DataFrame, *, table: str) -> Struct:
    """The schema of a table for some data: without the marks of where the data comes from, which are another table's rules and ids.

    Raises:
        UnsupportedDataTypeError: a type that Delta cannot hold, with the column.
    """
    schema = delta_schema(frame.schema, table=table)
    for path, field in walk_fields(schema):
        if _COLLATIONS in field.metadata:
            raise UnsupportedDataTypeError(table=table, column=".".join(path), type=f"string with collations {field.metadata[_COLLATIONS]}")
    return _map_fields(schema, lambda field: replace(field, metadata=_own_metadata(field)))


# What Spark and Parquet keep in a column's metadata of the table that it was read from: its default values, and its id in the files.
_OF_ITS_SOURCE = frozenset({"CURRENT_DEFAULT", "EXISTS_DEFAULT", "parquet.field.id"})


def _own_metadata(field: Field) -> dict[str, Any]:
    is_declared = CHAR_VARCHAR in field.metadata and declares(field)
    return {name: value for name, value in field.metadata.items() if (is_declared if name == CHAR_VARCHAR else not _is_of_its_source(name))}


def _is_of_its_source(name: str) -> bool:
    return name.startswith(("delta.", "__")) or name in _OF_ITS_SOURCE


# --- the rows


def rows_for_files(
    plan: WritePlan,
    frame: DataFrame,
    refusals: Refusals,
    *,
    given: Mapping[str, Column | None] | None = None,
    keep: Sequence[str] = (),
    checks_replace_where: bool = True,
) -> Completed:
    """The data as the table will hold it: fitted to its columns, completed by its rules, each row checked while it is written.

    Args:
        given: which columns the rows bring, as `complete` has it, for rows of which some were in the table before; its conditions may name
            any column of the data. None for new rows, which bring the columns that the data has.
        keep: columns of the data that are none of the table's and stay, behind the others.

    Raises:
        SchemaMismatchError: the data's types do not fit.
        IdentityValueGivenError: new rows bring numbers for a column that always makes them.
        Exception: what Spark raised, where a part of the query must run before its rows can be numbered.
    """
    values, schema = plan.column_values, without_void(plan.schema)
    present = {name.lower() for name in frame.columns}
    if given is None:
        given = dict.fromkeys(present)
        check_given(values, present, table=plan.url)
    lacking = [f.name.lower() for f in schema if f.name.lower() not in present and not values.has(f.name)]
    given = {**given, **dict.fromkeys(lacking)}  # what no rule makes is null
    brought = Struct(tuple(f for f in schema if f.name.lower() in given))
    conditional = any(condition is not None for condition in given.values())
    named = [name for name in frame.columns if name not in keep and plan.schema.find(name) is None] if conditional else []
    completed = complete(fit(frame, brought, refusals, keep=[*keep, *named]), schema, values, given, refusals, keep=keep)
    return replace(completed, rows=_checked(plan, completed.rows, refusals, checks_replace_where=checks_replace_where))


def _checked(plan: WritePlan, rows: DataFrame, refusals: Refusals, *, checks_replace_where: bool) -> DataFrame:
    if plan.replace_where is not None and checks_replace_where:
        rows = require(rows, plan.replace_where, plan.request.replace_where or "", plan.schema, refusals)
    rows = enforce(rows, constraints_of(plan.metadata, table=plan.url), refusals)
    return check_binary_partitions(rows, plan.partition_columns, plan.schema, refusals)


def _laid_out(plan: WritePlan, rows: DataFrame) -> DataFrame:
    """The rows with their columns as the files have them: partition columns, if they are in the files, behind the others."""
    if not plan.keeps_partitions_in_files:
        return rows
    # what becomes folders is a copy, behind all
    copies = [F.col(quoted(name)).alias(name) for name in plan.partition_columns]
    return rows.select(*map(quoted, _partitions_last(rows.columns, plan.partition_columns)), *copies)


def _partitions_last(names: Sequence[str], partitions: Sequence[str]) -> list[str]:
    return [*(name for name in names if name not in partitions), *partitions]


def writer_settings(plan: WritePlan, options: WriteOptions, hidden: Sequence[Field] = ()) -> WriterSettings:
    """How the files of a table are written, with hidden columns behind the table's.

    The codec is the option's, else the table property's, else the session's own for Parquet.
    """
    properties = plan.metadata.configuration
    codec = properties.get("delta.parquet.compression.codec")
    pages = properties.get("delta.parquet.format.version", "1.0.0")
    columns = Struct((*without_void(plan.physical_schema), *hidden))
    if plan.keeps_partitions_in_files:
        fields = {f.name: f for f in columns}
        partitions = plan.physical_partition_columns
        columns = Struct(tuple(fields[name] for name in [*_partitions_last(list(fields), partitions), *partitions]))
    return WriterSettings(
        schema=_file_schema(columns).to_json(),
        partition_columns=plan.physical_partition_columns,
        options={**({"compression": codec.lower()} if codec else {}), **options.writer},
        hadoop={**({"parquet.writer.version": "PARQUET_2_0"} if pages.startswith("2") else {}), **options.hadoop},
    )


def _file_schema(physical: Struct) -> Struct:
    """The schema of data files: ids where columns are mapped, and never NOT NULL, so that the table's column can be made nullable."""
    schema = _map_fields(physical, lambda field: replace(field, metadata=_file_metadata(field)))
    nullable = as_nullable(schema)
    assert isinstance(nullable, Struct)
    return nullable


def _file_metadata(field: Field) -> dict[str, int]:
    number = column_id(field)
    return {} if number is None else {"parquet.field.id": number}


def _map_fields(schema: Struct, change: Callable[[Field], Field]) -> Struct:
    """The schema with every field, at every depth, changed."""
    return Struct(tuple(replace(change(f), type=_map_type(f.type, change)) for f in schema))


def _map_type(data_type: DataType, change: Callable[[Field], Field]) -> DataType:
    match data_type:
        case Struct():
            return _map_fields(data_type, change)
        case Array():
            return replace(data_type, element=_map_type(data_type.element, change))
        case Map():
            return replace(data_type, key=_map_type(data_type.key, change), value=_map_type(data_type.value, change))
        case _:
            return data_type


@contextmanager
def failures_told(plan: WritePlan, refusals: Refusals) -> Iterator[None]:
    """Spark's failures while rows are computed and written, as errors of ours."""
    try:
        yield
    except DeltaError:
        raise
    except Exception as error:
        raise refusals.recognise(str(error)) or WriteFailedError(table=plan.url, detail=cause(str(error))) from error


# What Spark puts in front of the exception that made a task fail.
_LOST_TASK = re.compile(r"most recent failure: Lost task [^\n]*?executor [^)]*\): ([^\n]*)")


def cause(message: str) -> str:
    """The line of Spark's message that tells a person what happened, as a sentence."""
    line = _telling_line(message)
    return line if line.endswith((".", "!", "?")) else line + "."


def _telling_line(message: str) -> str:
    if found := _LOST_TASK.search(message):
        return found[1]
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if lines and lines[0].startswith("An exception was thrown from the Python worker"):
        return lines[-1]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        return lines[1].removeprefix(": ")
    return lines[0] if lines else "no reason was given"


# --- the files


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Files that were written and are not committed yet. Where they never will be, `discard` removes them."""

    gateway: Gateway
    url: str
    files: Sequence[WrittenFile]
    num_records: int
    hadoop: Mapping[str, str]

    @property
    def metrics(self) -> dict[str, int]:
        size_bytes = sum(file.size_bytes for file in self.files)
        return {"numFiles": len(self.files), "numOutputRows": self.num_records, "numOutputBytes": size_bytes}

    def discard(self) -> None:
        delete_files(self.gateway, self.url, [file.key for file in self.files], self.hadoop)


def write_rows(plan: WritePlan, options: WriteOptions, rows: Completed, refusals: Refusals, hidden: Sequence[Field] = ()) -> Written:
    """Write rows of `rows_for_files` as files of the table, with statistics. Files without rows are deleted.

    Args:
        hidden: columns of the rows that stand in the files and in no schema, behind the others.

    Raises:
        DeltaError: a row breaks a rule; nothing of what was written is left.
        WriteFailedError: the job failed; likewise.
    """
    gateway, settings = Gateway(rows.rows.sparkSession), writer_settings(plan, options, hidden)
    with failures_told(plan, refusals):
        files = write_files(_laid_out(plan, rows.rows), plan.url, settings)
    try:
        statistics = _statistics(plan, files, rows.minted)
        empty = {file.key for file in files if statistics[file.key].num_records == 0}
        delete_files(gateway, plan.url, empty, settings.hadoop)
        kept = _written_files(plan, [file for file in files if file.key not in empty], statistics)
    except BaseException:
        delete_files(gateway, plan.url, [file.key for file in files], settings.hadoop)
        raise
    num_records = sum(found.num_records for found in statistics.values())
    return Written(gateway=gateway, url=plan.url, files=kept, num_records=num_records, hadoop=settings.hadoop)


def write_changes(plan: WritePlan, options: WriteOptions, rows: DataFrame, refusals: Refusals) -> Written:
    """Write change data files. Protocol: "Change Data Files".

    Args:
        rows: the table's columns with their types, and `_change_type` behind them.
    """
    gateway, url = Gateway(rows.sparkSession), f"{plan.url}/{CHANGE_DATA_FOLDER}"
    settings = writer_settings(plan, options, [Field(name=CHANGE_TYPE, type=STRING)])
    with failures_told(plan, refusals):
        files = write_files(_laid_out(plan, rows), url, settings)
    placed = [replace(file, key=f"{CHANGE_DATA_FOLDER}/{file.key}") for file in _written_files(plan, files, {})]
    return Written(gateway=gateway, url=plan.url, files=placed, num_records=0, hadoop=settings.hadoop)


def _statistics(plan: WritePlan, files: Sequence[NewFile], minted: Sequence[str]) -> Mapping[str, FileStatistics]:
    keys = [file.key for file in files]
    store, mode = plan.table.env.store, plan.column_mapping_mode
    return read_statistics(store, keys, plan.metadata, mode, clustering=plan.clustering_columns, minted=minted)


def _written_files(plan: WritePlan, files: Sequence[NewFile], statistics: Mapping[str, FileStatistics]) -> list[WrittenFile]:
    fields = [field for field in (plan.schema.find(name) for name in plan.partition_columns) if field is not None]
    serialise = [_serialiser(field.type, plan.url) for field in fields]
    return [
        WrittenFile(
            key=file.key,
            size_bytes=file.size_bytes,
            modification_time_ms=file.modification_time_ms,
            partition_values=_partition_values(plan.physical_partition_columns, serialise, file.key),
            statistics=statistics[file.key].json if file.key in statistics else None,
            minted=statistics[file.key].minted if file.key in statistics else {},
        )
        for file in files
    ]


def _partition_values(names: Sequence[str], serialise: Sequence[Callable[[str], str | None]], key: str) -> dict[str, str | None]:
    """The values of a file's folders, `column=value` from the outermost in, as the log holds them."""
    folders = key.split("/")[:-1]
    return {name: convert(folder.partition("=")[2]) for name, convert, folder in zip(names, serialise, folders, strict=True)}


def _serialiser(data_type: DataType, table: str) -> Callable[[str], str | None]:
    """Spark's text for a value, escaped as a folder name and with times in UTC, to the protocol's."""

    @cache
    def convert(folder: str) -> str | None:
        if folder == HIVE_NULL:
            return None
        text = unescape_folder(folder)
        value = text.encode() if data_type == BINARY else parse_partition_value(text, data_type, table=table)
        return format_partition_value(value, data_type, table=table)

    return convert


def unescape_folder(name: str) -> str:
    """The value in a folder's name, where Spark writes some characters as %XX."""
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), name)
