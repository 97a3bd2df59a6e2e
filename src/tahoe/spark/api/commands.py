"""Replaces Spark's commands on Delta tables while Spark optimises them.

Commands that write to a Delta table run here instead, commands that would damage one are refused, and all other
commands are left to Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tahoe.errors import OperationNotAllowedError, TableExistsError, UnsupportedOperationError
from tahoe.spark.api import several_inserts
from tahoe.spark.ddl import guard, table_commands, table_like, transaction_guard
from tahoe.spark.ddl.creation import NewTable, declared_constraints, declared_schema, make_table, make_table_of
from tahoe.spark.ddl.table_commands import altered_table
from tahoe.spark.ddl.table_names import TableName, check_outside_of_block, table_name
from tahoe.spark.dml import resolved_plans, write
from tahoe.spark.dml.replace import Matching
from tahoe.spark.dml.write import Insert
from tahoe.spark.jvm.attached_catalogs import AttachedName
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.plans import kind_of
from tahoe.spark.jvm.statements.catalog_entries import PROVIDER, shows_whole_tables, tables_extended
from tahoe.spark.jvm.statements.streaming_plans import START
from tahoe.spark.jvm.statements.table_like_plans import PLANS as TABLE_LIKE
from tahoe.spark.jvm.statements.write_commands import (
    APPEND,
    DYNAMIC,
    OVERWRITE,
    WRITES,
    Replaced,
    ReplaceUsing,
    StagedTable,
    Transform,
    WriteCommand,
    staged_table,
    write_command,
    writes_delta,
)
from tahoe.spark.jvm.table_cache import recache
from tahoe.spark.reading import planning
from tahoe.spark.streams import source, triggers
from tahoe.storage.background import finish_background

_SHOW_TABLES = "ShowTablesCommand"

# Replaced when it is analysed, but for `spark.catalog.listPartitions`, to which Spark tells each as one text.
_SHOW_PARTITIONS = "ShowPartitions"

# Properties in a statement that describe the catalog's table and are not properties of the Delta table.
_RESERVED = frozenset(
    {
        "provider",
        "location",
        "comment",
        "owner",
        "external",
        "is_managed_location",
        "table_type",
        "schema",
        "clusteringcolumns",
        "path",
    }
)

_DEFAULT_SOURCE = "spark.sql.sources.default"

# Spark passes the options of a statement twice among its properties: as they are, and with this prefix.
_OPTION = "option."


def instead_of(gateway: Gateway, name: str, plan: JavaObject) -> JavaObject | None:
    """The plan to run instead of a command; None to run the command itself.

    Spark may call this several times per command, also for EXPLAIN. It changes no table.

    Args:
        name: the simple name of the command's class.

    Raises:
        UnsupportedOperationError: the command would damage a table, or tahoe does not support it yet.
    """
    if name in WRITES:
        if writes_delta(plan):
            return _command(gateway, name, plan)
        transaction_guard.check_write(gateway, plan)
        return None
    if name == several_inserts.UNION:
        return _command(gateway, "INSERTs", plan) if several_inserts.are_ours(gateway, plan) else None
    if name in resolved_plans.STATEMENTS:
        if (command := resolved_plans.instead_of(gateway, name, plan)) is None:
            transaction_guard.check_can_be_undone(gateway, name, plan, None)
        return command
    if name != _SHOW_PARTITIONS and altered_table(gateway, name, plan) is not None:
        return _command(gateway, name, plan)
    if name in TABLE_LIKE and table_like.is_ours(gateway, plan):
        return _command(gateway, "CREATE TABLE LIKE", plan)
    if name == _SHOW_TABLES and shows_whole_tables(plan):
        return _command(gateway, "SHOW TABLE EXTENDED", plan)
    if name == START:
        check_outside_of_block(gateway, "A stream", "its sink")
        triggers.check_trigger(gateway, plan)
        source.check_source(gateway, plan)
    guard.check_allowed(gateway, name, plan)
    if name.startswith("Drop"):
        # post-commit hooks of earlier commits must not write into the folder while Spark deletes it
        finish_background()
    return None


def _command(gateway: Gateway, name: str, plan: JavaObject) -> JavaObject:
    """A `delta.Command`, which calls `run_command` with the plan and has the plan's output columns."""
    return gateway.java_class("delta.Command").of(f"Delta {name}", plan, gateway.list([]))


def run_command(gateway: Gateway, plan: JavaObject) -> JavaObject:
    """Run a command that `instead_of` has replaced. Returns its result rows; DML commands return the number of affected
    rows.
    """
    name = kind_of(plan)
    if name in resolved_plans.STATEMENTS:
        return resolved_plans.run_row_change(gateway, name, plan)
    if name == _SHOW_TABLES:
        return gateway.seq(tables_extended(gateway, plan))
    if name in TABLE_LIKE:
        table_like.create(gateway, plan)
        return gateway.seq([])
    if name == several_inserts.UNION:
        several_inserts.run(gateway, plan, lambda own, one: _write(own, write_command(own, kind_of(one), one)))
        return gateway.seq([])
    if name in WRITES:
        _write(gateway, write_command(gateway, name, plan))
        return gateway.seq([])
    url, rows = table_commands.run_table_command(gateway, name, plan)
    recache(gateway, url)
    return rows


# --- plans that write rows


def _write(gateway: Gateway, command: WriteCommand) -> None:
    if command.staged is None:
        new_insert = insert_of(command)
        write.insert(gateway.spark, new_insert)
        recache(gateway, new_insert.url)
        return
    _check_format(gateway, command.staged)
    new = new_table(command.staged, table_name(gateway, command.staged.name))
    options = {**new.options, **_write_options(command)}
    try:
        make_table_of(gateway, new, command.rows, options, replaces=command.staged.replaces)
    except TableExistsError:  # another session has made it since Spark looked
        if not command.staged.if_not_exists or (new.name is not None and not new.name.exists()):
            raise
    command.staged.set_made()


def insert_of(command: WriteCommand) -> Insert:
    """What a plan writes into an existing table, and which rows that replaces."""
    assert command.table is not None
    matching = _matching(command.replaced)
    return Insert(
        url=command.table,
        rows=command.rows,
        overwrite=command.kind != APPEND,
        predicate=None if command.condition is None or command.condition.lower() == "true" else command.condition,
        dynamic=command.kind == DYNAMIC and matching is None,
        matching=matching,
        by_position=not command.is_by_name,
        is_statement=command.is_statement,
        options=_write_options(command),
    )


def _write_options(command: WriteCommand) -> dict[str, str]:
    options = {**command.options, "mergeSchema": "true"} if command.evolves else dict(command.options)
    # if the session's setting for dynamic overwrites applied, the plan would be OverwritePartitionsDynamic
    is_static = command.kind == OVERWRITE or command.replaced is not None
    return {"partitionOverwriteMode": "static", **options} if is_static else options


def _matching(replaced: Replaced) -> Matching | None:
    """The rows that INSERT ... REPLACE USING or REPLACE ON replaces; None for other statements."""
    if replaced is None:
        return None
    if isinstance(replaced, ReplaceUsing):
        return Matching.of_columns(replaced.columns)
    alias = replaced.table.rpartition(".")[2].strip("`") if replaced.alias is None else replaced.alias
    return Matching(text=replaced.text, on=replaced.condition, alias=alias)


# --- through the source


def save(gateway: Gateway, mode: str, options: Mapping[str, str], given: JavaObject, data: JavaObject) -> JavaObject:
    """Run `df.write.format("delta").save(path)`. Returns the relation of the table after the write."""
    write.save(gateway.spark, mode, options, gateway.dataframe(data))
    relation = planning.relation(gateway, options, given, warns=False)
    recache(gateway, relation.location().table())
    return relation


def insert(gateway: Gateway, table: str, selection: str | None, data: JavaObject, overwrite: bool) -> None:
    """Run an INSERT into a view over a table.

    Args:
        selection: the versions whose changes the view shows; None for a view that is not over a change feed.

    Raises:
        UnsupportedOperationError: the view is over a change feed.
    """
    if selection is not None:
        remedy = "Insert into the table, or into a view over it without readChangeFeed."
        raise UnsupportedOperationError(
            operation="INSERT", table=table, detail="the view reads its change feed", remedy=remedy
        )
    write.insert(gateway.spark, Insert(url=table, rows=gateway.dataframe(data), overwrite=overwrite, by_position=True))
    recache(gateway, table)


# --- through the catalogs


def create(gateway: Gateway, staged: JavaObject) -> None:
    """Run CREATE TABLE or REPLACE TABLE without rows."""
    table = staged_table(gateway, staged)
    _check_format(gateway, table)
    make_table(gateway, new_table(table, table_name(gateway, table.name)), replaces=table.replaces)
    table.set_made()


def new_table(staged: StagedTable, name: TableName | None) -> NewTable:
    """The table that a statement defines.

    Raises:
        UnsupportedDataTypeError, UnsupportedOperationError, OperationNotAllowedError: a Delta table cannot have such a
            column, or such partitioning.
    """
    location = staged.properties.get("location") if staged.path is None else staged.path
    table = location or staged.text
    if location is None and staged.properties.get("external") == "true" and isinstance(staged.name, AttachedName):
        detail = "an external table is in a folder of your choice"
        remedy = "Add LOCATION, or leave out EXTERNAL: the catalog chooses a folder then."
        raise UnsupportedOperationError(
            operation="CREATE EXTERNAL TABLE without LOCATION", table=staged.text, detail=detail, remedy=remedy
        )
    schema = declared_schema(staged.columns, staged.value_sources, table=table)
    constraints = declared_constraints(staged.constraints, schema, table=table)
    return NewTable(
        name=name,
        location=location,
        schema=schema,
        partition_by=_partition_columns(staged.partitioning, table),
        cluster_by=tuple(
            path for transform in staged.partitioning if transform.name == _CLUSTER_BY for path in transform.columns
        ),
        properties={**_own_properties(staged.properties), **constraints},
        comment=staged.properties.get("comment"),
        options={n: v for n, v in _options(staged.properties).items() if n.lower() != "path"},
        is_of_pipeline=staged.is_of_pipeline,
    )


def _check_format(gateway: Gateway, staged: StagedTable) -> None:
    """An attached catalog has Delta tables alone. `saveAsTable` names the session's default source if no format is
    given.
    """
    if not isinstance(staged.name, AttachedName):
        return
    provider = staged.properties.get("provider")
    known = (None, PROVIDER, str(gateway.spark.conf.get(_DEFAULT_SOURCE)).lower())
    if (provider and provider.lower()) not in known:
        detail = "the catalog has Delta tables alone"
        remedy = "Leave out the format, or make the table in spark_catalog."
        raise UnsupportedOperationError(
            operation=f"A table of the format {provider}", table=staged.text, detail=detail, remedy=remedy
        )


def _options(properties: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(_OPTION): value for name, value in properties.items() if name.startswith(_OPTION)}


def _own_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of the Delta table. Of the options, only those that begin with `delta.` are also properties."""
    options = {name for name in _options(properties) if not name.lower().startswith("delta.")}
    return {
        name: value
        for name, value in properties.items()
        if name.lower() not in _RESERVED and not name.startswith(_OPTION) and name not in options
    }


_CLUSTER_BY = "cluster_by"
_BUCKETS = ("bucket", "sorted_bucket")
_INSTEAD_OF_BUCKETS = (
    "Leave out bucketBy and sortBy (in SQL: INTO BUCKETS), and use clusterBy (in SQL: CLUSTER BY) instead."
)


def _partition_columns(partitioning: Sequence[Transform], table: str) -> tuple[str, ...]:
    """The partition columns of a statement. Clustering columns, which Spark passes as a transform too, are left out;
    any other transform is refused.
    """
    columns = []
    for transform in partitioning:
        if transform.name == _CLUSTER_BY:
            continue
        if transform.name in _BUCKETS:
            raise OperationNotAllowedError(
                operation="Bucketing", table=table, detail="Delta tables have no buckets", remedy=_INSTEAD_OF_BUCKETS
            )
        if transform.name != "identity":
            raise UnsupportedOperationError(
                operation=f"Partitioning by {transform.text}",
                table=table,
                detail="Delta tables can be partitioned only by columns",
                remedy="Add a column that contains the value, and partition by it.",
            )
        columns.append(".".join(transform.columns[0]))
    return tuple(columns)
