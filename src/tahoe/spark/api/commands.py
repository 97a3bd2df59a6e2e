"""Replaces Spark's commands on Delta tables while Spark optimises them.

Commands that write to a Delta table run here instead, commands that would damage one are refused, and all other commands are left to Spark.
"""

from __future__ import annotations

from collections.abc import Mapping

from tahoe.errors import OperationNotAllowedError, UnsupportedOperationError
from tahoe.spark.ddl import guard, show_describe, table_commands, table_like
from tahoe.spark.ddl.creation import NewTable, declared_schema, make_table, make_table_of, qualified_name
from tahoe.spark.ddl.table_commands import altered
from tahoe.spark.dml import resolved_plans, write
from tahoe.spark.dml.replace import Matching
from tahoe.spark.jvm.catalog_entries import our_class, table_of_relation
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.plans import kind_of
from tahoe.spark.jvm.table_cache import recache
from tahoe.spark.reading import planning
from tahoe.storage.background import finish_background

_WRITES = frozenset({"AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic"})
_SHOW_TABLES = "ShowTablesCommand"

# Properties in a statement that describe the catalog's table and are not properties of the Delta table.
_RESERVED = frozenset(
    {
        "provider",
        "location",
        "comment",
        "owner",
        "external",
        "is_managed_location",
        "collation",
        "table_type",
        "schema",
        "clusteringcolumns",
        "path",
    }
)

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
    if name in _WRITES:
        return None if _target(plan.table()) is None else _command(gateway, name, plan)
    if name in resolved_plans.STATEMENTS:
        return resolved_plans.instead_of(gateway, name, plan)
    if altered(gateway, name, plan) is not None:
        return _command(gateway, name, plan)
    if name in table_like.PLANS and table_like.is_ours(gateway, plan):
        return _command(gateway, "CREATE TABLE LIKE", plan)
    if name == _SHOW_TABLES and plan.isExtended() and not plan.partitionSpec().isDefined():
        return _command(gateway, "SHOW TABLE EXTENDED", plan)
    guard.check(gateway, name, plan)
    if name.startswith("Drop"):
        finish_background()  # post-commit hooks of earlier commits must not write into the folder while Spark deletes it
    return None


def _command(gateway: Gateway, name: str, plan: JavaObject) -> JavaObject:
    """A `delta.Command`, which calls `run` with the plan and has the plan's output columns."""
    return gateway.java_class("delta.Command").of(f"Delta {name}", plan, gateway.list([]))


def _target(relation: JavaObject) -> JavaObject | None:
    """The `delta.WriteTable` that a plan writes to."""
    table = table_of_relation(relation)
    return table if table is not None and our_class(table) in ("WriteTable", "Staged") else None


def run(gateway: Gateway, plan: JavaObject) -> JavaObject:
    """Run a command that `instead_of` has replaced. Returns its result rows; DML commands return the number of affected rows."""
    name = kind_of(plan)
    if name in resolved_plans.STATEMENTS:
        return resolved_plans.run(gateway, name, plan)
    if name == _SHOW_TABLES:
        return gateway.seq(show_describe.tables_extended(gateway, plan))
    if name in table_like.PLANS:
        table_like.create(gateway, plan)
        return gateway.seq([])
    if name not in _WRITES:
        url, rows = table_commands.run(gateway, name, plan)
        recache(gateway, url)
        return rows
    target = _target(plan.table())
    assert target is not None
    rows = gateway.dataframe_of_plan(_query(plan, name))
    options = gateway.dict(plan.writeOptions())
    if gateway.java_class("delta.Cases").isTrue(plan, "withSchemaEvolution"):
        options = {**options, "mergeSchema": "true"}
    matching = _matching(gateway, target)
    # if the session's setting for dynamic overwrites applied, the plan would be OverwritePartitionsDynamic
    if name == "OverwriteByExpression" or matching is not None:
        options = {"partitionOverwriteMode": "static", **options}
    if our_class(target) == "Staged":
        new = _described(gateway, target)
        make_table_of(gateway, new, rows, {**new.options, **options}, replaces=target.mode() != "create")
        target.setMade()
        return gateway.seq([])
    predicate = _predicate(gateway, plan) if name == "OverwriteByExpression" else None
    write.insert(
        gateway.spark,
        target.url(),
        rows,
        overwrite=name != "AppendData",
        predicate=predicate,
        dynamic=name == "OverwritePartitionsDynamic" and matching is None,
        matching=matching,
        by_position=not plan.isByName(),
        is_statement=plan.origin().sqlText().isDefined(),
        options=options,
    )
    recache(gateway, target.url())
    return gateway.seq([])


def _matching(gateway: Gateway, target: JavaObject) -> Matching | None:
    """The rows that INSERT ... REPLACE USING or REPLACE ON replaces; None for other statements."""
    replaced = target.replaced()
    if replaced is None:
        return None
    if kind_of(replaced) == "InsertReplaceUsing":
        return Matching.of_columns([str(name) for name in gateway.items(replaced.cols().iterator())])
    alias = replaced.tableAliasOpt()
    name = str(alias.get()) if alias.isDefined() else target.name().rpartition(".")[2].strip("`")
    return Matching(text=str(replaced.cond().sql()), on=gateway.column(replaced.cond()), alias=name)


def _query(plan: JavaObject, name: str) -> JavaObject:
    """The analysed plan of the rows to write. It is optimised when the rows are written."""
    if name == "OverwritePartitionsDynamic":
        return plan.query()
    analysed = plan.analyzedQuery()
    return analysed.get() if analysed.isDefined() else plan.query()


def _predicate(gateway: Gateway, plan: JavaObject) -> str | None:
    """The condition of the rows that an overwrite replaces, as SQL; None for all rows."""
    text = str(gateway.java_class("delta.Literals").sql(plan.deleteExpr()))
    return None if text.lower() == "true" else text


# --- through the source


def save(gateway: Gateway, mode: str, options: Mapping[str, str], given: JavaObject, data: JavaObject) -> JavaObject:
    """Run `df.write.format("delta").save(path)`. Returns the relation of the table after the write."""
    write.save(gateway.spark, mode, options, gateway.dataframe(data))
    relation = planning.relation(gateway, options, given)
    recache(gateway, relation.location().table())
    return relation


def insert(gateway: Gateway, files: JavaObject, data: JavaObject, overwrite: bool) -> None:
    """Run an INSERT into a view over a table.

    Raises:
        UnsupportedOperationError: the view is over a change feed.
    """
    if files.selection() is not None:
        remedy = "Insert into the table, or into a view over it without readChangeFeed."
        raise UnsupportedOperationError(operation="INSERT", table=files.table(), detail="the view reads its change feed", remedy=remedy)
    write.insert(gateway.spark, files.table(), gateway.dataframe(data), overwrite=overwrite, by_position=True)
    recache(gateway, files.table())


# --- through the catalogs


def create(gateway: Gateway, staged: JavaObject) -> None:
    """Run CREATE TABLE or REPLACE TABLE without rows."""
    make_table(gateway, _described(gateway, staged), replaces=staged.mode() != "create")
    staged.setMade()


def _described(gateway: Gateway, staged: JavaObject) -> NewTable:
    """The table that a statement defines."""
    properties = {str(name): str(staged.properties()[name]) for name in staged.properties()}
    path = staged.url()
    location = path if path is not None else properties.get("location")
    table = location or staged.name()
    return NewTable(
        name=None if path is not None else qualified_name(gateway, staged.identifier()),
        location=location,
        schema=declared_schema(gateway, staged.schema(), table=table),
        partition_by=_partition_columns(staged, table),
        cluster_by=_clustering_columns(staged),
        properties=_own_properties(properties),
        comment=properties.get("comment"),
        options={n: v for n, v in _options(properties).items() if n.lower() != "path"},
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
_INSTEAD_OF_BUCKETS = "Leave out bucketBy and sortBy (in SQL: INTO BUCKETS), and use clusterBy (in SQL: CLUSTER BY) instead."


def _clustering_columns(staged: JavaObject) -> tuple[tuple[str, ...], ...]:
    transforms = [transform for transform in staged.partitioning() if transform.name() == _CLUSTER_BY]
    return tuple(tuple(str(name) for name in column.fieldNames()) for transform in transforms for column in transform.arguments())


def _partition_columns(staged: JavaObject, table: str) -> tuple[str, ...]:
    columns = []
    for transform in staged.partitioning():
        if transform.name() == _CLUSTER_BY:
            continue
        if transform.name() in _BUCKETS:
            raise OperationNotAllowedError(
                operation="Bucketing", table=table, detail="Delta tables have no buckets", remedy=_INSTEAD_OF_BUCKETS
            )
        if transform.name() != "identity":
            raise UnsupportedOperationError(
                operation=f"Partitioning by {transform}",
                table=table,
                detail="Delta tables can be partitioned only by columns",
                remedy="Add a column that contains the value, and partition by it.",
            )
        columns.append(".".join(transform.arguments()[0].fieldNames()))
    return tuple(columns)
