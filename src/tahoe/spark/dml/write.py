"""Writes from Spark: rows that fit the table, data files, and one commit.

Protocol: "Add File and Remove File". What a write does to the table is planned by `plan_write`; Spark writes the rows. Either
everything is committed, or what was written is removed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, MapType, StructType

from tahoe.errors import InvalidOptionError, NoColumnsError, SchemaMismatchError
from tahoe.protocol.column_values import column_values
from tahoe.protocol.evolution import widening_of
from tahoe.protocol.schema import Struct
from tahoe.spark.dml.replace import Matching, replace_rows
from tahoe.spark.jvm.gateway import engine_of
from tahoe.spark.jvm.table_cache import open_table
from tahoe.spark.jvm.types import spark_schema
from tahoe.spark.writing.assignment_by_position import named_by_position, named_inside
from tahoe.spark.writing.data_writer import failures_told, rows_for_files, write_rows
from tahoe.spark.writing.foreign_types import casts_of, holds_foreign, without_foreign_types
from tahoe.spark.writing.store_assignment import Refusals, retyped
from tahoe.spark.writing.write_inputs import reads_table, table_schema, write_options
from tahoe.spark.writing.write_options import WriteOptions
from tahoe.storage.local import no_new_folder_left
from tahoe.table.table import Table
from tahoe.table.writing.planning import plan_replacement, plan_write
from tahoe.table.writing.write_plan import WritePlan
from tahoe.table.writing.write_request import WRITE, Mode, WriteRequest

# With this option Spark marks what `saveAsTable` asks for with mode overwrite.
_SAVE_AS_TABLE_OVERWRITE = "__v1_save_as_table_overwrite"

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
    parsed, meant = write_options(spark, options, table), _MODES[mode.lower()]
    like = _columns_of(table, parsed, dataframe, overwrite=meant == "overwrite")
    plan = plan_write(table, _request(spark, table, meant, parsed, dataframe, like=like))
    return _write(plan, parsed, dataframe, Matching.of(parsed))


def insert(
    spark: SparkSession,
    url: str,
    dataframe: DataFrame,
    *,
    overwrite: bool,
    predicate: str | None = None,
    dynamic: bool = False,
    matching: Matching | None = None,
    by_position: bool = False,
    is_statement: bool = False,
    options: Mapping[str, str] | None = None,
) -> int | None:
    """What INSERT, `insertInto`, `writeTo` and `saveAsTable` do to a table that is there.

    Args:
        overwrite: replace rows: all of them, unless one of the next two says which.
        predicate: SQL text; only matching rows are replaced, and the new ones must match.
        dynamic: only the partitions that the data has are replaced.
        matching: only rows that rows of the data match are replaced.
        by_position: the data's columns are the table's, whatever their names.
        is_statement: a statement of SQL, which names columns but not the fields inside of them.
        options: of the writer.

    Returns, Raises:
        as `save`; SchemaMismatchError also where there are too many or too few columns.
    """
    table = open_table(spark, url, options)
    parsed = write_options(spark, options or {}, table)
    matching, given = matching or Matching.of(parsed), dataframe
    if predicate is not None:
        parsed = replace(parsed, replace_where=predicate, dynamic_partitions=False)
    elif dynamic and matching is None:
        parsed = replace(parsed, dynamic_partitions=True)
    if by_position:
        dataframe = _named_by_position(dataframe, table, parsed)
        _check_places(matching.using if matching is not None else (), given.columns, dataframe.columns, table.url)
    elif is_statement and any(isinstance(field.dataType, (ArrayType, MapType, StructType)) for field in dataframe.schema):
        dataframe = retyped(dataframe, named_inside(dataframe.schema, spark_schema(table.snapshot().schema), table=table.url))
    like = _columns_of(table, parsed, dataframe, overwrite=overwrite)
    asked = _request(spark, table, "overwrite" if overwrite else "append", parsed, dataframe, like=like)
    request = asked if matching is None else replace(asked, matching=matching.text)
    return _write(plan_write(table, request), parsed, dataframe, matching, given)


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
    parsed = replace(
        parsed,
        partition_by=tuple(partition_by) or None,
        cluster_by=tuple(cluster_by) or None,
        properties={**parsed.properties, **(properties or {})},
    )
    keeps_table = replaces and (options or {}).get(_SAVE_AS_TABLE_OVERWRITE) == "true" and table.exists()
    like = _columns_of(table, parsed, dataframe, overwrite=True) if keeps_table else None
    asked = _request(spark, table, "overwrite" if replaces else "error", parsed, dataframe, operation, like=like)
    if keeps_table:
        return _write(plan_write(table, asked), parsed, dataframe, Matching.of(parsed))
    if asked.matching is not None and table.exists():
        detail = "the statement makes the table anew, and none of its rows stays"
        raise InvalidOptionError(option="replaceUsing or replaceOn", value=asked.matching, table=table.url, detail=detail)
    request = replace(asked, comment=comment, is_managed=is_managed, replace_where=None, matching=None, dynamic_partitions=False)
    return _write(plan_replacement(table, request) if replaces else plan_write(table, request), parsed, dataframe)


def _named_by_position(frame: DataFrame, table: Table, options: WriteOptions) -> DataFrame:
    """The data with the table's names, of fields inside of structs too. Further columns keep theirs, where the table may take them in; the
    table's last columns may be missing, where each has a rule that makes its values.
    """
    snapshot, given, may_grow = table.snapshot(), frame.columns, options.merge_schema or options.overwrite_schema
    names = snapshot.schema.names
    values = column_values(snapshot.protocol, snapshot.schema, table=table.url)
    is_short = len(given) < len(names) and not all(map(values.has, names[len(given) :]))
    if is_short or (len(given) > len(names) and not may_grow):
        raise SchemaMismatchError(
            table=table.url,
            detail=f"the data has {len(given)} columns ({', '.join(given)}), and the table {len(names)} ({', '.join(names)})",
            remedy="Give a value for each column, or name the columns: INSERT INTO t (a, b) ..., INSERT INTO t BY NAME ...",
        )
    widens = widening_of(snapshot.protocol, snapshot.metadata, table=table.url) if may_grow else None
    columns = spark_schema(snapshot.schema)
    named = named_by_position(frame.schema, columns, table=table.url, widens=widens)
    if holds_foreign(named) and not options.overwrite_schema:  # in one step, as Spark does not cast a struct to one of such types
        named = without_foreign_types(named, columns, casts_of(frame.sparkSession, options.assigns))
    return retyped(frame, named)


def _check_places(columns: Sequence[str], given: Sequence[str], named: Sequence[str], table: str) -> None:
    """Refuse data whose columns are taken by their places, where a column that decides what is replaced is in another place there."""
    for column in columns:
        places = [
            [name.lower() for name in names].index(column.lower()) for names in (given, named) if column.lower() in map(str.lower, names)
        ]
        if len(set(places)) > 1:
            detail = f"the data's column {column} is in another place than the table's, and columns are taken by their places here"
            raise InvalidOptionError(option="replaceUsing", value=", ".join(columns), table=table, detail=detail)


def _write(
    plan: WritePlan | None, options: WriteOptions, frame: DataFrame, matching: Matching | None = None, given: DataFrame | None = None
) -> int | None:
    """Write the rows of a plan and commit them; None where there is nothing to do.

    Args:
        given: the rows as the user named them.
    """
    if plan is None:
        return None
    if plan.replaces_rows:
        return replace_rows(plan, options, frame, matching, given)
    with no_new_folder_left(plan.url):
        return _write_files(plan, options, frame)


def _write_files(plan: WritePlan, options: WriteOptions, frame: DataFrame) -> int | None:
    refusals = Refusals(plan.url, options.assigns)
    with failures_told(plan, refusals):
        rows = rows_for_files(plan, frame, refusals, checks_replace_where=options.replace_where_is_checked)
    written = write_rows(plan, options, rows, refusals)
    return plan.commit(written.files, written.metrics, written.discard)


def _columns_of(table: Table, options: WriteOptions, frame: DataFrame, *, overwrite: bool) -> Struct | None:
    """The columns that data of foreign types may be cast to; None where there are none, or nothing to cast."""
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
) -> WriteRequest:
    overwrite, matching = mode == "overwrite", Matching.of(options)
    if not frame.columns:
        raise NoColumnsError(table=table.url)
    return WriteRequest(
        mode=mode,
        schema=table_schema(frame, table=table.url, like=like, policy=options.assigns),
        partition_by=options.partition_by,
        cluster_by=options.cluster_by,
        properties=options.properties,
        default_properties=options.default_properties,
        merge_schema=options.merge_schema,
        overwrite_schema=options.overwrite_schema and overwrite,
        replace_where=options.replace_where,
        matching=None if matching is None else matching.text,
        dynamic_partitions=options.dynamic_partitions and overwrite,
        txn=options.txn,
        user_metadata=options.user_metadata,
        data_change=options.data_change,
        reads_target=reads_table(frame, table),
        finds_rows=True,
        operation=operation,
        engine=engine_of(spark),
    )
