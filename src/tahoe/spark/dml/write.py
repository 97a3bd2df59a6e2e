"""Writes from Spark: append, overwrite and CREATE TABLE AS SELECT, each in one commit.

Protocol: "Add File and Remove File". `plan_write` plans what a write does to the table; Spark writes the rows. If the
write fails, the files that it has written are deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, MapType, StructType

from tahoe.errors import (
    ColumnCountMismatchError,
    InvalidOptionError,
    MissingInsertColumnError,
    NoColumnsError,
    SchemaMismatchError,
)
from tahoe.protocol.changes.column_values import column_values
from tahoe.protocol.changes.evolution import widening_of
from tahoe.protocol.types.schema import STRING, Array, Map, Struct
from tahoe.spark.configuration.option_names import OptionContext
from tahoe.spark.dml.replace import Matching, replace_rows
from tahoe.spark.dml.rerun import retry_after_create_race, with_retries
from tahoe.spark.dml.row_changes import DmlTarget
from tahoe.spark.jvm.gateway import engine_of
from tahoe.spark.jvm.statements.time_travel import check_names_no_version
from tahoe.spark.jvm.table_cache import open_table, table_finder
from tahoe.spark.jvm.types import spark_schema
from tahoe.spark.writing.assignment_by_position import named_by_position, named_inside
from tahoe.spark.writing.data_writer import rows_for_files, translating_failures, write_rows
from tahoe.spark.writing.foreign_types import casts_of, holds_foreign, without_foreign_types
from tahoe.spark.writing.store_assignment import Refusals, retyped
from tahoe.spark.writing.write_inputs import reads_table, table_schema, warn_of_clustering, write_options
from tahoe.spark.writing.write_options import WriteOptions
from tahoe.storage.local import no_new_folder_left
from tahoe.table.table import Table
from tahoe.table.writing.casts import Casts
from tahoe.table.writing.planning import plan_replacement, plan_write
from tahoe.table.writing.write_plan import WritePlan
from tahoe.table.writing.write_request import STREAMING_UPDATE, WRITE, Mode, WriteRequest

# Spark sets this option for `saveAsTable` with mode overwrite.
_SAVE_AS_TABLE_OVERWRITE = "__v1_save_as_table_overwrite"

_MODES: Mapping[str, Mode] = {
    "append": "append",
    "overwrite": "overwrite",
    "errorifexists": "error",
    "error": "error",
    "ignore": "ignore",
}


def save(spark: SparkSession, mode: str, options: Mapping[str, str], dataframe: DataFrame) -> int | None:
    """Run `df.write.format("delta").mode(...).save()`.

    Args:
        mode: Spark's SaveMode: Append, Overwrite, ErrorIfExists, Ignore.
        options: the writer's options, with `path` and the columns of partitionBy.

    Returns:
        the committed version; None if there was nothing to do.

    Raises:
        DeltaAnalysisError: before any work, if the data or the options do not fit the table.
        InvalidTimeTravelError: the path names a version, as in `path@v3`.
        WriteFailedError: the job failed. Nothing was committed, and the files that it had written were deleted.
        DeltaConcurrentModificationException: a concurrent commit conflicts.
    """
    path = next((value for name, value in options.items() if name.lower() == "path"), None)
    if path is None:
        raise InvalidOptionError(
            option="path", value="missing", table="df.write", detail="writing a Delta table requires a path"
        )
    check_names_no_version(table_finder(spark, options), path)
    return retry_after_create_race(lambda: _save(spark, path, _MODES[mode.lower()], options, dataframe))


def _save(spark: SparkSession, path: str, meant: Mode, options: Mapping[str, str], dataframe: DataFrame) -> int | None:
    table = open_table(spark, path, options)
    writer_options = write_options(spark, options, table)
    request = replace(_request(spark, table, meant, writer_options, dataframe), casts=Casts.NONE)
    return _plan_and_write(table, request, writer_options, dataframe, Matching.of(writer_options))


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch of a streaming query.

    Attributes:
        rows: of the batch.
        plan: the query's DataFrame of the batch, which tells what it reads.
        query, number: identify the batch.
        mode: Append or Complete.
        options: of the writer.
    """

    rows: DataFrame
    plan: DataFrame
    query: str
    number: int
    mode: str
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


def write_batch(spark: SparkSession, path: str, batch: Batch) -> int | None:
    """Write a batch of a stream as one commit, unless the table has recorded it already.

    Its rows are evaluated once, unless another commit is in conflict: clustering on write would sample them, and so run
    the query's stateful operators again.

    Returns, Raises:
        as `save`.
    """
    return retry_after_create_race(lambda: _write_batch(spark, path, batch))


def _write_batch(spark: SparkSession, path: str, batch: Batch) -> int | None:
    """Run `write_batch` once. The batch becomes the `txn` of the commit, by which the table knows the batches that it
    has.
    """
    table = open_table(spark, path, batch.options)
    writer_options = replace(
        write_options(spark, batch.options, table, OptionContext.WRITE_STREAM),
        txn=(batch.query, batch.number),
        dynamic_partitions=False,
    )
    writer_options = replace(
        writer_options.unclustered(), partition_by=batch.partition_by or writer_options.partition_by
    )
    overwrite = batch.mode == "Complete"
    like = _columns_of(table, writer_options, batch.rows, overwrite=overwrite)
    if like is not None:  # a stream's casts are implicit, and Spark casts such types to texts only
        like = Struct(tuple(f for f in like if f.type == STRING or isinstance(f.type, Struct | Array | Map)))
    request = _request(
        spark, table, "overwrite" if overwrite else "append", writer_options, batch.rows, STREAMING_UPDATE, like=like
    )
    parameters = {"outputMode": batch.mode, "queryId": batch.query, "epochId": str(batch.number)}
    request = replace(request, casts=Casts.IMPLICIT, parameters=parameters, reads_target=reads_table(batch.plan, table))
    return _plan_and_write(table, request, writer_options, batch.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """Rows to write into an existing table, by INSERT, `insertInto`, `writeTo` or `saveAsTable`.

    Attributes:
        url: the table's.
        overwrite: replace rows: all rows, unless `predicate`, `dynamic` or `matching` restricts them.
        predicate: SQL text; only rows for which it holds are replaced, and new rows must satisfy it.
        dynamic: replace only the partitions that the data has rows for.
        matching: replace only rows that match a row of the data.
        by_position: assign the data's columns to the table's by position instead of by name.
        is_statement: the write is an SQL statement, which names columns but not struct fields.
        options: of the writer.
    """

    url: str
    rows: DataFrame
    overwrite: bool
    predicate: str | None = None
    dynamic: bool = False
    matching: Matching | None = None
    by_position: bool = False
    is_statement: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


def insert(spark: SparkSession, command: Insert) -> int | None:
    """Write rows into an existing table.

    Returns, Raises:
        as `save`; SchemaMismatchError also if there are too many or too few columns.
    """
    table = open_table(spark, command.url, command.options)
    writer_options = write_options(spark, command.options, table)
    matching, user_frame, dataframe = command.matching or Matching.of(writer_options), command.rows, command.rows
    if command.predicate is not None:
        writer_options = replace(writer_options, replace_where=command.predicate, dynamic_partitions=False)
    elif command.dynamic and matching is None:
        writer_options = replace(writer_options, dynamic_partitions=True)
    if command.by_position:
        dataframe = _named_by_position(dataframe, table, writer_options)
        _check_places(matching.using if matching is not None else (), user_frame.columns, dataframe.columns, table.url)
    elif command.is_statement:
        _check_names_required(dataframe.columns, table)
        if any(isinstance(field.dataType, (ArrayType, MapType, StructType)) for field in dataframe.schema):
            dataframe = retyped(
                dataframe, named_inside(dataframe.schema, spark_schema(table.snapshot().schema), table=table.url)
            )
    like = _columns_of(table, writer_options, dataframe, overwrite=command.overwrite)
    request = _request(
        spark, table, "overwrite" if command.overwrite else "append", writer_options, dataframe, like=like
    )
    if matching is not None:
        request = replace(request, matching=matching.text)
    if writer_options.overwrite_schema and not (command.overwrite or command.by_position):  # so says the reference
        request = replace(request, casts=Casts.NONE)
    return _plan_and_write(table, request, writer_options, dataframe, matching, user_frame)


def _plan_and_write(
    table: Table,
    request: WriteRequest,
    options: WriteOptions,
    frame: DataFrame,
    matching: Matching | None = None,
    user_frame: DataFrame | None = None,
) -> int | None:
    """Plan a write, and write its rows; again after a conflict, if rows that it replaces or reads have changed.

    Args:
        frame: the rows, with the table's column names.
        matching, user_frame: of an overwrite of matching rows: how rows match, and the rows with the user's column
            names.
    """
    target = DmlTarget(spark=frame.sparkSession, table=table)
    return with_retries(target, lambda _: _write(plan_write(table, request), options, frame, matching, user_frame))


def create_as_select(
    spark: SparkSession,
    url: str,
    dataframe: DataFrame,
    *,
    replaces: bool,
    operation: str,
    is_managed: bool = False,
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[tuple[str, ...]] = (),
    properties: Mapping[str, str] | None = None,
    comment: str | None = None,
    options: Mapping[str, str] | None = None,
) -> int | None:
    """Create a table with its rows in one commit, for CREATE TABLE AS SELECT, its REPLACE forms and `saveAsTable` of a
    new table.

    Spark also sends `saveAsTable` with mode overwrite as a replacement. If the table exists, this replaces only its
    rows; its columns and partitioning stay unless overwriteSchema is set.

    Args:
        replaces: replace an existing table and keep its history; if False, an existing table is an error.
        operation, is_managed: for the history.

    Returns, Raises:
        as `save`.
    """
    table = open_table(spark, url, options)
    writer_options = write_options(spark, options or {}, table)
    writer_options = replace(
        writer_options,
        partition_by=tuple(partition_by) or None,
        cluster_by=tuple(cluster_by) or None,
        properties={**writer_options.properties, **(properties or {})},
    )
    keeps_table = replaces and (options or {}).get(_SAVE_AS_TABLE_OVERWRITE) == "true" and table.exists()
    mode: Mode = "overwrite" if replaces else "error"
    request = _request(
        spark, table, mode, writer_options, dataframe, operation, has_columns=keeps_table or not replaces
    )
    if keeps_table:
        plan = plan_write(table, replace(request, casts=Casts.NONE))
        return _write(plan, writer_options, dataframe, Matching.of(writer_options))
    if request.matching is not None and table.exists():
        detail = "the statement replaces the whole table, so there are no rows to match"
        raise InvalidOptionError(
            option="replaceUsing or replaceOn", value=request.matching, table=table.url, detail=detail
        )
    request = replace(
        request, comment=comment, is_managed=is_managed, replace_where=None, matching=None, dynamic_partitions=False
    )
    return _write(
        plan_replacement(table, request) if replaces else plan_write(table, request), writer_options, dataframe
    )


def _named_by_position(frame: DataFrame, table: Table, options: WriteOptions) -> DataFrame:
    """The data with the names of the table's columns and struct fields, by position. Additional columns keep their
    names if the write may evolve the schema. The table's last columns may be missing if each of them is a generated,
    default or identity column.
    """
    snapshot, data_names, may_grow = table.snapshot(), frame.columns, options.merge_schema or options.overwrite_schema
    table_names = snapshot.schema.names
    values = column_values(snapshot.protocol, snapshot.schema, table=table.url)
    is_short = len(data_names) < len(table_names) and not all(map(values.has, table_names[len(data_names) :]))
    if is_short or (len(data_names) > len(table_names) and not may_grow):
        raise (ColumnCountMismatchError if is_short else SchemaMismatchError)(
            table=table.url,
            detail=(
                f"the data has {len(data_names)} columns ({', '.join(data_names)}), but the table has "
                f"{len(table_names)} ({', '.join(table_names)})"
            ),
            remedy=(
                "Give a value for each column, or name the columns: INSERT INTO t (a, b) ..., INSERT INTO t BY NAME ..."
            ),
        )
    widens = widening_of(snapshot.protocol, snapshot.metadata, table=table.url) if may_grow else None
    columns = spark_schema(snapshot.schema)
    data_schema = named_by_position(frame.schema, columns, table=table.url, widens=widens)
    if holds_foreign(data_schema) and not options.overwrite_schema:
        # in one step: Spark cannot cast a struct with such types
        data_schema = without_foreign_types(data_schema, columns, casts_of(frame.sparkSession, options.assigns))
    return retyped(frame, data_schema)


def _check_names_required(names: Sequence[str], table: Table) -> None:
    """Refuse an INSERT that names columns, but not one that is NOT NULL and for which nothing makes values."""
    snapshot, present = table.snapshot(), {name.lower() for name in names}
    values = column_values(snapshot.protocol, snapshot.schema, table=table.url)
    for column in snapshot.schema:
        if not column.nullable and column.name.lower() not in present and not values.has(column.name):
            raise MissingInsertColumnError(
                table=table.url,
                detail=f"column {column.name} is NOT NULL, but the statement does not name it",
                remedy="Add the column to the statement, with a value.",
            )


def _check_places(columns: Sequence[str], data_names: Sequence[str], table_names: Sequence[str], table: str) -> None:
    """Refuse an insert by position in which a replaceUsing column is at different positions in the data and in the
    table.
    """
    for column in columns:
        places = [
            [name.lower() for name in names].index(column.lower())
            for names in (data_names, table_names)
            if column.lower() in map(str.lower, names)
        ]
        if len(set(places)) > 1:
            detail = (
                f"column {column} has another position in the data than in the table, and this insert matches columns "
                f"by position"
            )
            raise InvalidOptionError(option="replaceUsing", value=", ".join(columns), table=table, detail=detail)


def _write(
    plan: WritePlan | None,
    options: WriteOptions,
    frame: DataFrame,
    matching: Matching | None = None,
    user_frame: DataFrame | None = None,
) -> int | None:
    """Write the rows of a plan and commit them. Returns the version; None if there is nothing to do.

    Args:
        user_frame: the rows with the user's column names.
    """
    if plan is None:
        return None
    warn_of_clustering(plan)
    if plan.replaces_rows:
        return replace_rows(plan, options, frame, matching, user_frame)
    with no_new_folder_left(plan.url):
        return _write_files(plan, options, frame)


def _write_files(plan: WritePlan, options: WriteOptions, frame: DataFrame) -> int | None:
    refusals = Refusals(plan.url, options.assigns)
    with translating_failures(plan, refusals):
        rows = rows_for_files(plan, frame, refusals, checks_replace_where=options.replace_where_is_checked)
    written = write_rows(plan, options, rows, refusals, is_clustered=True)
    return plan.commit(written.files, written.metrics, written.discard)


def _columns_of(table: Table, options: WriteOptions, frame: DataFrame, *, overwrite: bool) -> Struct | None:
    """The table's columns, to which data of foreign types is cast; None if there is no such data, or the write defines
    the schema.
    """
    is_new = not holds_foreign(frame.schema) or (overwrite and options.overwrite_schema) or not table.exists()
    return None if is_new else table.snapshot().schema


def _request(
    spark: SparkSession,
    table: Table,
    mode: Mode,
    options: WriteOptions,
    frame: DataFrame,
    operation: str = WRITE,
    *,
    like: Struct | None = None,
    has_columns: bool = True,
) -> WriteRequest:
    """The request to write a DataFrame's rows.

    Args:
        like: the table's columns, from `_columns_of`.
        has_columns: whether the table, if it exists, keeps its columns.
    """
    if not frame.columns:
        raise NoColumnsError(table=table.url)
    known = _columns_of(table, options, frame, overwrite=mode == "overwrite") if has_columns else None
    schema = table_schema(frame, table=table.url, like=like, known=known, policy=options.assigns)
    matching = Matching.of(options)
    return replace(
        options.request(mode, schema),
        matching=None if matching is None else matching.text,
        reads_target=reads_table(frame, table),
        finds_rows=True,
        operation=operation,
        engine=engine_of(spark),
    )
