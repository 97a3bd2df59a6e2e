"""ALTER TABLE: applies Spark's `TableChange`s to a table, in one transaction.

All forms of ALTER TABLE arrive as `TableChange`s, whose names Spark has resolved.
`tahoe.protocol.changes.column_changes` decides what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe.errors import ConstraintNotBooleanError, NewConstraintViolatedError, UnsupportedOperationError
from tahoe.protocol.changes.column_changes import COMMENT, ColumnChange, NewColumn, Path
from tahoe.protocol.changes.column_type_changes import TEXT_TYPE
from tahoe.protocol.changes.constraints import Constraint
from tahoe.protocol.configuration.declared_keys import Key
from tahoe.protocol.types.column_metadata import COLLATIONS, CURRENT_DEFAULT
from tahoe.protocol.types.names import quoted
from tahoe.protocol.types.schema import Struct
from tahoe.spark.ddl.creation import condition_of_constraint
from tahoe.spark.jvm.gateway import Gateway, JavaObject, author_of
from tahoe.spark.jvm.hadoop_store import url_of_uri
from tahoe.spark.jvm.statements.catalog_entries import has_entry, session_catalog, uri_of_text
from tahoe.spark.jvm.statements.table_changes import (
    AddColumn,
    AddConstraint,
    ClusterBy,
    DeleteColumn,
    DropConstraint,
    OtherChange,
    RemoveProperty,
    RenameColumn,
    SetProperty,
    TableChange,
    UpdateColumn,
    UpdateColumnComment,
    UpdateColumnDefaultValue,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    table_change,
)
from tahoe.spark.jvm.statements.time_travel import check_newest
from tahoe.spark.jvm.table_cache import open_table, recache
from tahoe.spark.jvm.types import delta_schema
from tahoe.sql.predicates import columns_named
from tahoe.table.reading.constraints import row_text
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.table import Table
from tahoe.table.transactions.transaction_builder import TransactionBuilder

# Spark sends SET LOCATION and a change of the provider as changes of these properties, which are not table properties.
_LOCATION, _PROVIDER = "location", "provider"


def open_changes(spark: SparkSession, table: Table) -> TransactionBuilder:
    """Open a transaction on a table, which checks existing rows with Spark."""
    return TransactionBuilder(table, check=lambda snapshot, rule: check_rows(spark, snapshot, rule), **author_of(spark))


def check_rows(spark: SparkSession, snapshot: Snapshot, constraint: Constraint) -> None:
    """Refuse a constraint that is false or null for an existing row.

    Raises:
        NewConstraintViolatedError: with the values of the constraint's columns in such a row.
        ConstraintNotBooleanError: the expression is not boolean.
        UnsupportedOperationError: the expression contains a subquery; a constraint is about one row.
        AnalysisException: Spark cannot analyse the expression.
    """
    rows = spark.read.format("delta").option("versionAsOf", snapshot.version).load(snapshot.url)
    condition, gateway = F.expr(constraint.expression), Gateway(spark)
    if gateway.has_subquery(gateway.expression(condition)):
        raise UnsupportedOperationError(
            operation=f"CHECK ({constraint.expression})",
            table=snapshot.url,
            detail="it contains a subquery, but a constraint may use only the values of one row",
            remedy="Use only columns of the table.",
        )
    (result,) = rows.select(condition.alias("condition")).schema
    if result.dataType.typeName() != "boolean":
        raise ConstraintNotBooleanError(
            table=snapshot.url,
            constraint=constraint.name,
            expression=constraint.expression,
            type=result.dataType.simpleString(),
        )
    names = columns_named(constraint.expression)
    columns = [F.col(quoted(name)) for name in rows.columns if name.lower() in names] or [F.lit(None).alias("row")]
    violations = rows.where(~F.coalesce(condition, F.lit(False))).select(*columns).limit(1).collect()
    if violations:
        raise NewConstraintViolatedError(
            table=snapshot.url,
            constraint=constraint.name,
            expression=constraint.expression,
            values=row_text(violations[0].asDict(recursive=True)),
        )


def alter(gateway: Gateway, target: JavaObject, table_changes: Iterable[JavaObject]) -> None:
    """Apply all changes of a statement to a table, in one commit.

    Args:
        target: a `delta.DefinedTable`.
        table_changes: Spark's `TableChange`s.

    Raises:
        DeltaAnalysisError: one of the changes is invalid; the table is not changed.
    """
    check_newest(gateway, target)
    changes = [table_change(gateway, change) for change in table_changes]
    changes = [change for change in changes if not _set_location(gateway, target, change)]
    if not changes:
        return
    table = open_table(gateway.spark, target.url())
    with open_changes(gateway.spark, table) as open_:
        apply_changes(open_, changes)
    recache(gateway, table.url)


def apply_changes(open_: TransactionBuilder, changes: Sequence[TableChange]) -> None:
    """Apply the changes of a statement to a transaction. Changes of one kind are one operation."""
    properties = {change.name: change.value for change in changes if isinstance(change, SetProperty)}
    if properties:
        open_.set_properties(properties)
    removed = [change.name for change in changes if isinstance(change, RemoveProperty)]
    if removed:
        open_.unset_properties(removed, if_exists=True)
    _apply_columns(open_, changes)
    altered = column_changes([change for change in changes if isinstance(change, UpdateColumn)], table=open_.table.url)
    if altered:
        open_.alter_columns(altered)
    for change in changes:
        _apply_single(open_, change)


def _apply_columns(open_: TransactionBuilder, changes: Sequence[TableChange]) -> None:
    dropped = [change for change in changes if isinstance(change, DeleteColumn)]
    added = [_new_column(change, open_.table.url) for change in changes if isinstance(change, AddColumn)]
    if added and {change.path for change in dropped} >= {(name,) for name in open_.snapshot.schema.names}:
        open_.replace_columns(Struct(tuple(column.field for column in added)))
        return
    if dropped:
        open_.drop_columns([change.path for change in dropped], if_exists=all(change.if_exists for change in dropped))
    if added:
        open_.add_columns(added)


def _apply_single(open_: TransactionBuilder, change: TableChange) -> None:
    """Apply a change that is an operation of its own. The other kinds are applied together, one operation for each."""
    match change:
        case RenameColumn(path, new_name):
            open_.rename_column(path, new_name)
        case ClusterBy(columns):
            open_.cluster_by(list(columns))
        case AddConstraint(key=Key() as key):
            open_.add_key(
                key.name,
                key.columns,
                key.kind,
                references=key.references,
                referenced_columns=key.referenced_columns,
                rely=key.rely,
            )
        case AddConstraint(name):
            open_.add_constraint(name, condition_of_constraint(change, table=open_.table.url))
        case DropConstraint(name, if_exists):
            open_.drop_constraint(name, if_exists=if_exists)
        case OtherChange(kind):
            raise _unsupported_error(
                open_, f"ALTER TABLE ({kind})", "Delta has no such change", "Remove it from the statement."
            )
        case _:  # already applied together with its kind
            pass


def _unsupported_error(
    open_: TransactionBuilder, operation: str, detail: str, remedy: str
) -> UnsupportedOperationError:
    return UnsupportedOperationError(operation=operation, table=open_.table.url, detail=detail, remedy=remedy)


# --- columns


def _new_column(change: AddColumn, table: str) -> NewColumn:
    (field,) = delta_schema(change.declared, table=table)
    texts = {COMMENT: change.comment, CURRENT_DEFAULT: change.default}
    metadata = {**field.metadata, **{name: value for name, value in texts.items() if value is not None}}
    return NewColumn(field=replace(field, metadata=metadata), parent=change.path[:-1], position=change.position)


def column_changes(updates: Iterable[UpdateColumn], *, table: str) -> list[ColumnChange]:
    """Combine the updates into one change per column, in the order of the statement."""
    by_path: dict[Path, ColumnChange] = {}
    for update in updates:
        by_path[update.path] = _with_update(by_path.get(update.path, ColumnChange(path=update.path)), update, table)
    return list(by_path.values())


def _with_update(change: ColumnChange, update: UpdateColumn, table: str) -> ColumnChange:
    """The change of a column with one more of Spark's changes: a statement that sets several has one for each."""
    match update:
        case UpdateColumnType(_, declared):
            (field,) = delta_schema(declared, table=table)
            text_type, collations = field.metadata.get(TEXT_TYPE), field.metadata.get(COLLATIONS)
            return replace(change, type=field.type, text_type=text_type, collations=collations)
        case UpdateColumnNullability(_, nullable):
            return replace(change, nullable=nullable)
        case UpdateColumnComment(_, comment):
            return replace(change, comment=comment)
        case UpdateColumnPosition(_, position):
            return replace(change, position=position)
        case UpdateColumnDefaultValue(_, default):
            return replace(change, default=default)


# --- the entry of the catalog


def _set_location(gateway: Gateway, target: JavaObject, change: TableChange) -> bool:
    """Apply SET LOCATION to the catalog's entry; the log has no location. Returns False for any other change.

    Raises:
        UnsupportedOperationError: the change sets another provider, the table has no name, or there is not a Delta
            table at the location.
    """
    if not isinstance(change, SetProperty) or change.name not in (_LOCATION, _PROVIDER):
        return False
    entry = target.v1Table()
    name, value = str(target.name()), change.value
    if change.name == _PROVIDER:
        detail = f"a Delta table cannot become a table of the format {value}"
        raise UnsupportedOperationError(
            operation="SET PROVIDER", table=name, detail=detail, remedy="Write its rows to a new table."
        )
    catalog = session_catalog(gateway)
    if not has_entry(gateway, entry.identifier()):
        raise UnsupportedOperationError(
            operation="SET LOCATION",
            table=name,
            detail="only a name in the session's catalog has a location to set, and the table is not there",
            remedy="Use the other path.",
        )
    uri = uri_of_text(gateway, value)
    other = open_table(gateway.spark, url_of_uri(gateway, uri))
    if not other.exists():
        remedy = "Give the location of a Delta table."
        raise UnsupportedOperationError(
            operation="SET LOCATION", table=name, detail=f"there is not a Delta table at {other.url}", remedy=remedy
        )
    old_entry = catalog.getTableMetadata(entry.identifier())
    storage = gateway.changed(old_entry.storage(), locationUri=gateway.option(uri))
    catalog.alterTable(gateway.changed(old_entry, storage=storage))
    catalog.refreshTable(entry.identifier())
    return True
