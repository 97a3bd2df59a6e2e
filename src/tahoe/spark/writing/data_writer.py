"""Writes rows as data files of a table: fits them to its columns, applies its rules, and collects statistics.

Protocol: "Data Files", "Change Data Files", "Per-file Statistics". This module commits nothing, and deletes the files
of a failed write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

from tahoe.errors import WriteFailedError
from tahoe.protocol.changes.column_values import check_given
from tahoe.protocol.changes.constraints import constraints_of
from tahoe.protocol.configuration.change_feed import CHANGE_DATA_FOLDER, CHANGE_TYPE
from tahoe.protocol.configuration.column_mapping import ID, column_id, ordered_nested_ids
from tahoe.protocol.configuration.features import numbers_nested, shreds_variants
from tahoe.protocol.configuration.properties import PARQUET_COMPRESSION, PARQUET_FORMAT_VERSION
from tahoe.protocol.configuration.row_tracking import field_ids
from tahoe.protocol.types.names import quoted
from tahoe.protocol.types.partitions import format_partition_value, parse_partition_value
from tahoe.protocol.types.schema import (
    BINARY,
    STRING,
    DataType,
    Field,
    Struct,
    as_nullable,
    map_fields,
)
from tahoe.spark.jvm.failures import error_of_the_query
from tahoe.spark.jvm.file_writer import NewFile, WriterSettings, delete_files, write_files
from tahoe.spark.jvm.gateway import JVM_ERRORS, Gateway, is_wrong_call
from tahoe.spark.jvm.plans import forget_rows
from tahoe.spark.jvm.redistribution import Redistribution
from tahoe.spark.jvm.table_cache import handed_settings
from tahoe.spark.jvm.types import check_geospatial
from tahoe.spark.writing.bloom_filters import filter_settings
from tahoe.spark.writing.clustering_on_write import CubeOnWrite
from tahoe.spark.writing.column_rules import Completed, complete
from tahoe.spark.writing.partition_columns import (
    changed_when_stored,
    check_partition_columns,
    folder_value,
    text_in_folder,
)
from tahoe.spark.writing.store_assignment import Refusals, assign, enforce, require, with_collations, without_void
from tahoe.spark.writing.write_options import WriteOptions
from tahoe.table.writing.footers import FileStatistics, read_statistics
from tahoe.table.writing.write_plan import WritePlan
from tahoe.table.writing.write_request import WrittenFile

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
    """The rows to write: with the columns and types of the table, completed by its rules. The plan checks each row as
    it is stored.

    Args:
        given: the columns that the rows supply, by lower-cased name, if some rows were in the table before: None if
            every row supplies the column, else the condition for those that do, of any columns of the data. Without
            it all rows are new, and supply the columns that the data has.
        keep: columns of the data that are not in the table and are kept, after the others.

    Raises:
        SchemaMismatchError: the data's types do not fit.
        UnsupportedDataTypeError: the table has a column that data files cannot store.
        IdentityValueGivenError: new rows supply values for an identity column that is GENERATED ALWAYS.
        Exception: an error of Spark, if a part of the query must run to assign identity values.
    """
    plan.check_writes_files()
    values, schema = plan.column_values, without_void(plan.schema)
    data_names = {name.lower() for name in frame.columns}
    if given is None:
        given = dict.fromkeys(data_names)
        check_given(values, data_names, table=plan.url)
    null_names = [f.name.lower() for f in schema if f.name.lower() not in data_names and not values.has(f.name)]
    supplied = {**given, **dict.fromkeys(null_names)}  # missing columns without a rule are null
    supplied_columns = Struct(tuple(f for f in schema if f.name.lower() in supplied))
    condition_columns: list[str] = []
    if any(condition is not None for condition in supplied.values()):  # it may use columns that are not the table's
        condition_columns = [name for name in frame.columns if name not in keep and plan.schema.find(name) is None]
    rows = assign(frame, supplied_columns, refusals, keep=[*keep, *condition_columns])
    stored_as_null = changed_when_stored(schema, plan.partition_columns)
    completed = complete(rows, schema, values, supplied, refusals, keep=keep, partitioned_by=stored_as_null)
    return replace(
        completed, frame=_with_checks(plan, completed.frame, refusals, checks_replace_where=checks_replace_where)
    )


def _with_checks(plan: WritePlan, rows: DataFrame, refusals: Refusals, *, checks_replace_where: bool) -> DataFrame:
    constraints = constraints_of(plan.metadata, table=plan.url)
    if constraints or plan.replace_where is not None:
        rows = with_collations(rows, plan.schema)
    if plan.replace_where is not None and checks_replace_where:
        rows = require(rows, plan.replace_where, plan.request.replace_where or "", plan.schema, refusals)
    rows = enforce(rows, constraints, plan.schema, refusals)
    return check_partition_columns(rows, plan.partition_columns, plan.schema, refusals)


def _laid_out(plan: WritePlan, rows: DataFrame) -> DataFrame:
    """The rows with their columns in file order: if the files contain the partition columns, these come after the
    others.

    The partition columns that are not in the files are those by which folders are named.
    """
    in_folders = {name: folder_value(F.col(quoted(name)), _field(plan, name)) for name in plan.partition_columns}
    if not plan.keeps_partitions_in_files:
        texts = changed_when_stored(plan.schema, plan.partition_columns)
        return rows.withColumns({name: value for name, value in in_folders.items() if name in texts}) if texts else rows
    # The folders come from copies of the partition columns, which come last. The copies have their own names, because
    # Spark removes an alias of the same name, and a query above a union cannot contain the same column twice.
    copies = [value.alias(f"{name} of the folder") for name, value in in_folders.items()]
    return rows.select(*map(quoted, _partitions_last(rows.columns, plan.partition_columns)), *copies)


def _field(plan: WritePlan, name: str) -> Field:
    field = plan.schema.find(name)
    assert field is not None, f"no column {name}"
    return field


def _partitions_last(names: Sequence[str], partitions: Sequence[str]) -> list[str]:
    return [*(name for name in names if name not in partitions), *partitions]


def writer_settings(plan: WritePlan, options: WriteOptions, hidden: Sequence[Field] = ()) -> WriterSettings:
    """The settings for writing a table's files, with hidden columns after the table's.

    The compression codec is the option's, else the table property's, else the session's.
    """
    properties = plan.metadata.configuration
    codec = PARQUET_COMPRESSION.get(properties, table=plan.url) if PARQUET_COMPRESSION.name in properties else None
    pages = properties.get(PARQUET_FORMAT_VERSION.name, PARQUET_FORMAT_VERSION.default)
    row_ids = field_ids(plan.protocol, properties)
    numbered = (replace(f, metadata={ID: row_ids[f.name]}) if f.name in row_ids else f for f in hidden)
    columns = Struct((*without_void(plan.physical_schema), *numbered))
    if plan.keeps_partitions_in_files:
        fields = {f.name: f for f in columns}
        partitions = plan.physical_partition_columns
        columns = Struct(tuple(fields[name] for name in [*_partitions_last(list(fields), partitions), *partitions]))
    return WriterSettings(
        schema=_file_schema(columns).to_json(),
        partition_columns=plan.physical_partition_columns,
        options={**({"compression": codec} if codec else {}), **options.writer},
        nested_ids=list(ordered_nested_ids(columns)) if numbers_nested(plan.protocol, properties) else (),
        shreds_variants=shreds_variants(plan.protocol, properties),
        hadoop={**({"parquet.writer.version": "PARQUET_2_0"} if pages.startswith("2") else {}), **options.hadoop},
    )


def _file_schema(physical: Struct) -> Struct:
    """The schema of data files: with field ids under column mapping, and nullable, so that NOT NULL can be dropped
    later.
    """
    schema = map_fields(physical, lambda field: replace(field, metadata=_file_metadata(field)))
    nullable = as_nullable(schema)
    assert isinstance(nullable, Struct)
    return nullable


def _file_metadata(field: Field) -> dict[str, int]:
    number = column_id(field)
    return {} if number is None else {"parquet.field.id": number}


@contextmanager
def translating_failures(plan: WritePlan, refusals: Refusals) -> Iterator[None]:
    """Convert Spark's failures while rows are computed and written into our errors.

    Analysis errors, Spark's errors for faults of the query, and wrong calls into the JVM (bugs of tahoe) pass
    unchanged.
    """
    try:
        yield
    except AnalysisException:
        raise
    except JVM_ERRORS as error:
        if is_wrong_call(error):
            raise
        refusal = refusals.recognise(str(error))
        if refusal is None and (query_error := error_of_the_query(error)) is not None:
            query_error.add_note(f"Nothing was committed to {plan.url}.")
            raise query_error from error.__cause__
        raise refusal or WriteFailedError(table=plan.url, detail=cause(str(error))) from error


# Spark's text before and after the exception of the failed task.
_LOST_TASK = re.compile(
    r"most recent failure: Lost task [^\n]*?executor [^)]*\): ([^\n]*)(.*?)(?:\n\s*Driver stacktrace:|\Z)", re.DOTALL
)
_CAUSED_BY = re.compile(r"^Caused by: (.*)$", re.MULTILINE)


def cause(message: str) -> str:
    """The cause of a failure, extracted from Spark's message, in sentences."""
    lost = _LOST_TASK.search(message)
    line, trace = (lost[1], lost[2]) if lost else (_telling_line(message), message)
    causes = [found for found in _CAUSED_BY.findall(trace) if found not in line]
    return " ".join(map(_sentence, [line, *(f"It was caused by {found}" for found in causes[-1:])]))


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."


def _telling_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if lines and lines[0].startswith("An exception was thrown from the Python worker"):
        return lines[-1]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        return lines[1].removeprefix(": ")
    return lines[0] if lines else "no reason was given"


# --- the files


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Files that were written but are not committed yet. If they are not going to be committed, `discard` deletes
    them.
    """

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
        hadoop = {**self.hadoop, **handed_settings(self.gateway, self.url, self.hadoop)}
        delete_files(self.gateway, self.url, [file.key for file in self.files], hadoop)


def write_rows(
    plan: WritePlan,
    options: WriteOptions,
    completed: Completed,
    refusals: Refusals,
    hidden: Sequence[Field] = (),
    *,
    is_clustered: bool = False,
) -> Written:
    """Write rows from `rows_for_files` as files of the table, with statistics. Files without rows are deleted.

    Args:
        hidden: additional columns of the rows that are written to the files but are not in the table's schema; they
            come last.
        is_clustered: whether the rows of a clustered table are laid out, if they are many.

    Raises:
        DeltaError: a row violates a rule; all written files are deleted.
        WriteFailedError: the job failed; all written files are deleted.
        UnsupportedOperationError: this Spark does not write a type of the table.
    """
    plan.check_writes_files()
    check_geospatial(completed.frame.sparkSession, plan.schema, "Writing", table=plan.url)
    gateway, settings = Gateway(completed.frame.sparkSession), writer_settings(plan, options, hidden)
    own = {**filter_settings(plan.filtered_columns), **settings.hadoop}
    settings = replace(settings, hadoop={**own, **handed_settings(gateway, plan.url, own)})
    spread, cube = _redistribution(plan, options), _cube(plan, options) if is_clustered else None
    with (
        translating_failures(plan, refusals),
        _numbered_once(completed, is_shuffled=spread is not None or cube is not None) as rows,
    ):
        files = write_files(_laid_out(plan, rows), plan.url, settings, spread, cube.lay_out if cube else None)
    try:
        statistics = _statistics(plan, files, completed.minted)
        empty = {file.key for file in files if statistics[file.key].num_records == 0}
        delete_files(gateway, plan.url, empty, settings.hadoop)
        written_files = _written_files(plan, [file for file in files if file.key not in empty], statistics)
    except BaseException:
        delete_files(gateway, plan.url, [file.key for file in files], settings.hadoop)
        raise
    if cube is not None:
        written_files = [cube.tagged(file) for file in written_files]
    num_records = sum(file_statistics.num_records for file_statistics in statistics.values())
    return Written(gateway=gateway, url=plan.url, files=written_files, num_records=num_records, hadoop=own)


def write_changes(plan: WritePlan, options: WriteOptions, rows: DataFrame, refusals: Refusals) -> Written:
    """Write change data files. Protocol: "Change Data Files".

    Args:
        rows: the table's columns with their types, followed by `_change_type`.
    """
    gateway, url = Gateway(rows.sparkSession), f"{plan.url}/{CHANGE_DATA_FOLDER}"
    settings = writer_settings(plan, options, [Field(name=CHANGE_TYPE, type=STRING)])
    own = settings.hadoop
    settings = replace(settings, hadoop={**own, **handed_settings(gateway, plan.url, own)})
    with translating_failures(plan, refusals):
        files = write_files(_laid_out(plan, rows), url, settings, _redistribution(plan, options))
    try:
        placed = [replace(file, key=f"{CHANGE_DATA_FOLDER}/{file.key}") for file in _written_files(plan, files, {})]
    except BaseException:
        delete_files(gateway, url, [file.key for file in files], settings.hadoop)
        raise
    return Written(gateway=gateway, url=plan.url, files=placed, num_records=0, hadoop=own)


def _redistribution(plan: WritePlan, options: WriteOptions) -> Redistribution | None:
    """How rows are redistributed before they are written; None if the write is not optimised."""
    settings = options.optimized_write
    if not settings.applies(plan.metadata.configuration, table=plan.url):
        return None
    return Redistribution(
        task_bytes=settings.task_bytes, blocks_max=settings.blocks_max, groups_max=settings.groups_max
    )


def _cube(plan: WritePlan, options: WriteOptions) -> CubeOnWrite | None:
    """What lays out the rows of the write; None if they are written as they are."""
    asked = options.cluster_on_write
    if not plan.clustering_columns or not asked.applies(plan.metadata.configuration, table=plan.url):
        return None
    return CubeOnWrite(plan=plan, asked=asked)


@contextmanager
def _numbered_once(completed: Completed, *, is_shuffled: bool) -> Iterator[DataFrame]:
    """The rows, materialised if they have new identity values and are redistributed: a task that is repeated, after
    some of its rows were sent on, might number them in another order, and a value would occur twice.
    """
    is_kept = bool(completed.minted) and is_shuffled
    rows = completed.frame.localCheckpoint(eager=False) if is_kept else completed.frame
    try:
        yield rows
    finally:
        if is_kept:
            with suppress(*JVM_ERRORS):
                forget_rows(rows.sparkSession, [rows])


def _statistics(plan: WritePlan, files: Sequence[NewFile], minted: Sequence[str]) -> Mapping[str, FileStatistics]:
    keys = [file.key for file in files]
    store, mode = plan.table.env.store, plan.column_mapping_mode
    return read_statistics(store, keys, plan.metadata, mode, clustering=plan.clustering_columns, minted=minted)


def _written_files(
    plan: WritePlan, files: Sequence[NewFile], statistics: Mapping[str, FileStatistics]
) -> list[WrittenFile]:
    """Files as the log describes them. Change data files have no statistics."""
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


def _partition_values(
    names: Sequence[str], serialise: Sequence[Callable[[str], str | None]], key: str
) -> dict[str, str | None]:
    """The partition values for the log, from a file's folders `column=value`, outermost first."""
    folders = key.split("/")[:-1]
    return {
        name: convert(folder.partition("=")[2]) for name, convert, folder in zip(names, serialise, folders, strict=True)
    }


def _serialiser(data_type: DataType, table: str) -> Callable[[str], str | None]:
    """A function that converts a value in a folder name (Spark's text, escaped, times in UTC) to the protocol's
    text.
    """

    @cache
    def convert(folder: str) -> str | None:
        text = text_in_folder(unescape_folder(folder))
        if text is None:
            return None
        value = text.encode() if data_type == BINARY else parse_partition_value(text, data_type, table=table)
        return format_partition_value(value, data_type, table=table)

    return convert


def unescape_folder(name: str) -> str:
    """The value in a folder name, in which Spark escapes some characters as %XX."""
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), name)
