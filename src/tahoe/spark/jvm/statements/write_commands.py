"""Reads Spark's plans that write rows into a Delta table (`V2WriteCommand`), and the tables that statements create,
into records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from tahoe.spark.jvm.attached_catalogs import AttachedName
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.plans import kind_of
from tahoe.spark.jvm.statements.catalog_entries import (
    declared_columns,
    our_class,
    qualified_name,
    table_of_relation,
    value_sources,
)
from tahoe.spark.jvm.statements.table_changes import AddConstraint, declared_constraint

APPEND, OVERWRITE, DYNAMIC = "AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic"

WRITES = frozenset({APPEND, OVERWRITE, DYNAMIC})
"""The plans that write rows, by the simple names of their classes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """A part of PARTITIONED BY or CLUSTER BY.

    Attributes:
        name: Spark's name of its kind: identity, cluster_by, bucket, days, ...
        columns: the columns that it refers to, as paths.
        text: how Spark writes it.
    """

    name: str
    columns: tuple[tuple[str, ...], ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedTable:
    """The table that a statement creates or replaces (`delta.Staged`).

    Attributes:
        staged: the `delta.Staged`.
        name: its `TableIdentifier` in the session's catalog, or its name in an attached one; None for a table without
            a name, which has only a path.
        path: its path; None for a table with a name.
        text: the name that the statement gives.
        value_sources: the metadata of its generated and identity columns, by their names.
        constraints: that the statement declares.
        properties: all properties of the statement, with Spark's own and with the options.
        replaces: whether an existing table may be replaced.
        if_not_exists: whether nothing happens if there is a table.
        is_of_pipeline: whether an update of a declarative pipeline makes it, as the catalog does not have it.
    """

    staged: JavaObject
    name: JavaObject | AttachedName | None
    path: str | None
    text: str
    columns: StructType
    value_sources: Mapping[str, Mapping[str, Any]]
    constraints: tuple[AddConstraint, ...]
    partitioning: tuple[Transform, ...]
    properties: Mapping[str, str]
    replaces: bool
    if_not_exists: bool
    is_of_pipeline: bool

    def set_made(self) -> None:
        """Tell Spark's side that a commit has made the table."""
        self.staged.setMade()


@dataclass(frozen=True, slots=True)
class ReplaceUsing:
    """INSERT ... REPLACE USING: rows with the same values in some columns are replaced."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceOn:
    """INSERT ... REPLACE ON: rows for which a condition holds are replaced.

    Attributes:
        text: the condition as SQL.
        alias: the table's alias; None if the statement gives none.
        table: the table's name.
    """

    text: str
    condition: Column
    alias: str | None
    table: str


Replaced: TypeAlias = ReplaceUsing | ReplaceOn | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCommand:
    """A plan that writes rows.

    Attributes:
        kind: the simple name of its class.
        table: the table's url; None for a new table with a name.
        staged: the table, if the same statement creates or replaces it.
        options: of the writer.
        evolves: WITH SCHEMA EVOLUTION.
        condition: the rows that OverwriteByExpression deletes, as SQL.
        is_by_name: whether columns are matched by name, and not by position.
        is_statement: whether it is an SQL statement.
    """

    kind: str
    table: str | None
    staged: StagedTable | None
    rows: DataFrame
    options: Mapping[str, str]
    evolves: bool
    condition: str | None
    replaced: Replaced
    is_by_name: bool
    is_statement: bool


def writes_delta(plan: JavaObject) -> bool:
    """Whether a plan writes rows into a Delta table."""
    return _target(plan)[1] is not None


def target_url(plan: JavaObject) -> str | None:
    """The url of the Delta table that a plan writes rows into; None for another table, and for one that it makes."""
    target, target_class = _target(plan)
    return str(target.url()) if target is not None and target_class == "WriteTable" else None


def write_command(gateway: Gateway, kind: str, plan: JavaObject) -> WriteCommand:
    """The record for a plan that writes rows into a Delta table.

    Args:
        kind: the simple name of the plan's class.
    """
    target, target_class = _target(plan)
    assert target is not None
    is_staged = target_class == "Staged"
    return WriteCommand(
        kind=kind,
        table=target.url(),
        staged=staged_table(gateway, target) if is_staged else None,
        rows=gateway.dataframe_of_plan(_query(plan, kind)),
        options=gateway.dict(plan.writeOptions()),
        evolves=bool(gateway.java_class("delta.Cases").isTrue(plan, "withSchemaEvolution")),
        condition=str(gateway.java_class("delta.Literals").sql(plan.deleteExpr())) if kind == OVERWRITE else None,
        replaced=_replaced_rows(gateway, target),
        is_by_name=bool(plan.isByName()),
        is_statement=bool(plan.origin().sqlText().isDefined()),
    )


def staged_table(gateway: Gateway, staged: JavaObject) -> StagedTable:
    """The record for a `delta.Staged`."""
    path = staged.url()
    return StagedTable(
        staged=staged,
        name=None if path is not None else _name_of(gateway, staged),
        path=path,
        text=str(staged.name()),
        columns=declared_columns(gateway, staged.schema()),
        value_sources=value_sources(staged.computedColumns()),
        constraints=tuple(declared_constraint(gateway, each) for each in staged.declaredConstraints()),
        partitioning=tuple(map(_transform, staged.partitioning())),
        properties=gateway.texts(staged.properties()),
        replaces="replace" in staged.mode(),
        if_not_exists=staged.mode() == "create if not exists",
        is_of_pipeline=staged.mode() == "create in a pipeline",
    )


def _name_of(gateway: Gateway, staged: JavaObject) -> JavaObject | AttachedName:
    catalog, identifier = staged.catalog(), staged.identifier()
    if catalog is None:
        return qualified_name(gateway, identifier)
    return AttachedName(str(catalog), ".".join(identifier.namespace()), str(identifier.name()))


def _target(plan: JavaObject) -> tuple[JavaObject | None, str | None]:
    """The `delta.WriteTable` that a plan writes to, and its class; None for another table."""
    table = table_of_relation(plan.table())
    table_class = None if table is None else our_class(table)
    return (table, table_class) if table_class in ("WriteTable", "Staged") else (None, None)


def _query(plan: JavaObject, kind: str) -> JavaObject:
    """The analysed plan of the rows to write. It is optimised when the rows are written."""
    if kind == DYNAMIC:
        return plan.query()
    analysed = plan.analyzedQuery()
    return analysed.get() if analysed.isDefined() else plan.query()


def _replaced_rows(gateway: Gateway, target: JavaObject) -> Replaced:
    """What INSERT ... REPLACE USING or REPLACE ON says; None for other statements."""
    replaced = target.replaced()
    if replaced is None:
        return None
    if kind_of(replaced) == "InsertReplaceUsing":
        return ReplaceUsing(tuple(str(name) for name in gateway.items(replaced.cols().iterator())))
    alias, condition = replaced.tableAliasOpt(), replaced.cond()
    return ReplaceOn(
        text=str(condition.sql()),
        condition=gateway.column(condition),
        alias=str(alias.get()) if alias.isDefined() else None,
        table=str(target.name()),
    )


def _transform(transform: JavaObject) -> Transform:
    columns = tuple(tuple(str(name) for name in column.fieldNames()) for column in transform.references())
    return Transform(name=str(transform.name()), columns=columns, text=str(transform))
