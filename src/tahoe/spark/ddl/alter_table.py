"""What statements ask Spark's catalogs to change about a table, as changes of one transaction.

`ALTER TABLE` in all its forms arrives as Spark's `TableChange`s, with names that Spark has found in the table. What they mean is decided by
`tahoe.protocol.column_changes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

from tahoe.errors import CheckConstraintViolatedError, ConstraintNotBooleanError, UnsupportedOperationError
from tahoe.protocol.column_changes import COMMENT, ColumnChange, NewColumn, Path, Position
from tahoe.protocol.column_type_changes import TEXT_TYPE
from tahoe.protocol.column_values import CURRENT_DEFAULT
from tahoe.protocol.constraints import Constraint
from tahoe.protocol.schema import Field, Struct
from tahoe.spark.ddl.creation import declared_schema
from tahoe.spark.jvm.gateway import Gateway, JavaObject, engine_of
from tahoe.spark.jvm.hadoop_store import url_of_uri
from tahoe.spark.jvm.table_cache import open_table, recache
from tahoe.spark.writing.store_assignment import quoted
from tahoe.sql.predicates import columns_named
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.table import Table
from tahoe.table.writing.transaction_builder import TransactionBuilder

# Properties by which statements change what is no property.
_LOCATION, _PROVIDER = "location", "provider"


def open_changes(spark: SparkSession, table: Table) -> TransactionBuilder:
    """A transaction on a table, which looks at rows with Spark."""
    return TransactionBuilder(table, engine=engine_of(spark), check=lambda snapshot, rule: check_rows(spark, snapshot, rule))


def check_rows(spark: SparkSession, snapshot: Snapshot, constraint: Constraint) -> None:
    """Refuse a condition that a row of a table does not satisfy: for which it is false, or null.

    Raises:
        CheckConstraintViolatedError: with the values of such a row that the condition names.
        ConstraintNotBooleanError: it is no condition.
        UnsupportedOperationError: there is a subquery in it: a constraint is about one row.
        AnalysisException: Spark does not understand it.
    """
    rows = spark.read.format("delta").option("versionAsOf", snapshot.version).load(snapshot.url)
    condition, gateway = F.expr(constraint.expression), Gateway(spark)
    if gateway.has_subquery(gateway.expression(condition)):
        raise UnsupportedOperationError(
            operation=f"CHECK ({constraint.expression})",
            table=snapshot.url,
            detail="a query stands in it, and a constraint is about the values of one row",
            remedy="Name columns of the table only.",
        )
    (found,) = rows.select(condition.alias("condition")).schema
    if found.dataType.typeName() != "boolean":
        raise ConstraintNotBooleanError(
            table=snapshot.url, constraint=constraint.name, expression=constraint.expression, type=found.dataType.simpleString()
        )
    names = columns_named(constraint.expression)
    shown = [F.col(quoted(name)) for name in rows.columns if name.lower() in names] or [F.lit(None).alias("row")]
    broken = rows.where(~F.coalesce(condition, F.lit(False))).select(*shown).limit(1).collect()
    if broken:
        raise CheckConstraintViolatedError(
            table=snapshot.url, constraint=constraint.name, expression=constraint.expression, values=broken[0].asDict(recursive=True)
        )


def alter(gateway: Gateway, target: JavaObject, changes: Iterable[JavaObject]) -> None:
    """Change a table as a statement asks, all of it in one commit.

    Args:
        target: a `delta.DefinedTable`.

    Raises:
        DeltaAnalysisError: a change that cannot be; nothing is changed then.
    """
    asked = [(str(change.getClass().getSimpleName()), change) for change in changes]
    asked = [(kind, change) for kind, change in asked if not _set_location(gateway, target, kind, change)]
    if not asked:
        return
    table = open_table(gateway.spark, target.url())
    with open_changes(gateway.spark, table) as open_:
        _apply(gateway, open_, asked)
    recache(gateway, table.url)


def _apply(gateway: Gateway, open_: TransactionBuilder, asked: list[tuple[str, JavaObject]]) -> None:
    properties = {str(c.property()): str(c.value()) for kind, c in asked if kind == "SetProperty"}
    if properties:
        open_.set_properties(properties)
    removed = [str(c.property()) for kind, c in asked if kind == "RemoveProperty"]
    if removed:
        open_.unset_properties(removed, if_exists=True)
    dropped = [c for kind, c in asked if kind == "DeleteColumn"]
    added = [_new_column(gateway, open_.table.url, c) for kind, c in asked if kind == "AddColumn"]
    if added and {_path(c) for c in dropped} >= {(name,) for name in open_.snapshot.schema.names}:
        open_.replace_columns(Struct(tuple(column.field for column in added)))
    elif dropped or added:
        if dropped:
            open_.drop_columns([_path(c) for c in dropped], if_exists=all(bool(c.ifExists()) for c in dropped))
        if added:
            open_.add_columns(added)
    altered = _column_changes(gateway, open_.table.url, asked)
    if altered:
        open_.alter_columns(altered)
    for kind, change in asked:
        if kind in _SINGLE:
            _SINGLE[kind](open_, change)
        elif kind not in _GROUPED:
            raise UnsupportedOperationError(
                operation=f"ALTER TABLE ({kind})", table=open_.table.url, detail="a Delta table has no such thing", remedy="Leave it out."
            )


# --- columns


def _path(change: JavaObject) -> Path:
    return tuple(str(name) for name in change.fieldNames())


def _position(given: JavaObject | None) -> Position | None:
    if given is None:
        return None
    return Position(str(given.column())) if given.getClass().getSimpleName() == "After" else Position()


def _declared(gateway: Gateway, table: str, name: str, data_type: JavaObject, nullable: bool) -> Field:
    struct = gateway.java_class("org.apache.spark.sql.types.StructType")()
    (field,) = declared_schema(gateway, struct.add(name, data_type, nullable), table=table)
    return field


def _new_column(gateway: Gateway, table: str, change: JavaObject) -> NewColumn:
    path = _path(change)
    field = _declared(gateway, table, path[-1], change.dataType(), bool(change.isNullable()))
    default = change.defaultValue()
    changed = {COMMENT: change.comment(), CURRENT_DEFAULT: None if default is None else default.getSql()}
    metadata = {**field.metadata, **{name: str(value) for name, value in changed.items() if value is not None}}
    return NewColumn(field=replace(field, metadata=metadata), parent=path[:-1], position=_position(change.position()))


def _column_changes(gateway: Gateway, table: str, asked: Iterable[tuple[str, JavaObject]]) -> list[ColumnChange]:
    """One for each column, in the order in which the statement names them."""
    found: dict[Path, ColumnChange] = {}
    for kind, change in asked:
        if kind not in _COLUMN_CHANGES:
            continue
        path = _path(change)
        found[path] = _COLUMN_CHANGES[kind](gateway, table, found.get(path, ColumnChange(path=path)), change)
    return list(found.values())


def _retyped(gateway: Gateway, table: str, known: ColumnChange, change: JavaObject) -> ColumnChange:
    field = _declared(gateway, table, known.path[-1], change.newDataType(), nullable=True)
    return replace(known, type=field.type, text_type=field.metadata.get(TEXT_TYPE))


_COLUMN_CHANGES: Mapping[str, Callable[[Gateway, str, ColumnChange, JavaObject], ColumnChange]] = {
    "UpdateColumnType": _retyped,
    "UpdateColumnNullability": lambda _, __, known, change: replace(known, nullable=bool(change.nullable())),
    "UpdateColumnComment": lambda _, __, known, change: replace(known, comment=str(change.newComment() or "")),
    "UpdateColumnPosition": lambda _, __, known, change: replace(known, position=_position(change.position())),
    "UpdateColumnDefaultValue": lambda _, __, known, change: replace(known, default=str(change.newDefaultValue() or "")),
}


# --- the rest


def _cluster_by(open_: TransactionBuilder, change: JavaObject) -> None:
    open_.cluster_by([tuple(str(name) for name in column.fieldNames()) for column in change.clusteringColumns()])


def _add_constraint(open_: TransactionBuilder, change: JavaObject) -> None:
    constraint = change.constraint()
    if constraint.getClass().getSimpleName() != "Check":
        raise UnsupportedOperationError(
            operation=f"ADD CONSTRAINT {constraint.name()}",
            table=open_.table.url,
            detail=f"a Delta table has conditions on rows, and this is {constraint.toDDL()}",
            remedy="Use CHECK.",
        )
    open_.add_constraint(str(constraint.name()), str(constraint.predicateSql()))


_SINGLE: Mapping[str, Callable[[TransactionBuilder, JavaObject], None]] = {
    "RenameColumn": lambda open_, change: open_.rename_column(_path(change), str(change.newName())),
    "ClusterBy": _cluster_by,
    "AddConstraint": _add_constraint,
    "DropConstraint": lambda open_, change: open_.drop_constraint(str(change.name()), if_exists=bool(change.ifExists())),
}
_GROUPED = frozenset({"SetProperty", "RemoveProperty", "DeleteColumn", "AddColumn", *_COLUMN_CHANGES})


def _set_location(gateway: Gateway, target: JavaObject, kind: str, change: JavaObject) -> bool:
    """Whether a change is that of where a name leads, which is done then: the catalog knows it, and no log."""
    if kind != "SetProperty" or str(change.property()) not in (_LOCATION, _PROVIDER):
        return False
    entry = target.v1Table()
    name, value = str(target.name()), str(change.value())
    if str(change.property()) == _PROVIDER:
        detail = f"it is a Delta table and would become {value}"
        raise UnsupportedOperationError(operation="Another provider", table=name, detail=detail, remedy="Write its rows to a new table.")
    catalog = gateway.session.sessionState().catalog()
    if not catalog.tableExists(entry.identifier()):
        raise UnsupportedOperationError(
            operation="SET LOCATION",
            table=name,
            detail="it is a path and has no name that could lead elsewhere",
            remedy="Use the other path.",
        )
    uri = gateway.module("org.apache.spark.sql.catalyst.catalog.CatalogUtils").stringToURI(value)
    other = open_table(gateway.spark, url_of_uri(gateway, uri))
    if not other.exists():
        remedy = "Give the location of a Delta table."
        raise UnsupportedOperationError(
            operation="SET LOCATION", table=name, detail=f"there is no Delta table at {other.url}", remedy=remedy
        )
    known = catalog.getTableMetadata(entry.identifier())
    storage = gateway.changed(known.storage(), locationUri=gateway.option(uri))
    catalog.alterTable(gateway.changed(known, storage=storage))
    catalog.refreshTable(entry.identifier())
    return True
