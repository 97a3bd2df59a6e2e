"""Commands, which pass through Spark's optimiser before they run: those that write to a Delta table are run here instead, those that would
damage one are refused, and all others go their way.
"""

from __future__ import annotations

from collections.abc import Mapping

from tahoe.errors import UnsupportedOperationError
from tahoe.spark import alterations, guard, planning, resolved, shown, write
from tahoe.spark.alterations import altered
from tahoe.spark.catalog import PROVIDER, is_delta
from tahoe.spark.creation import NewTable, declared_schema, described_by, make_table, make_table_like, make_table_of
from tahoe.spark.gateway import Gateway, JavaObject
from tahoe.spark.hadoop_store import url_of_uri
from tahoe.spark.opened import open_table, recache
from tahoe.spark.replace import Matching
from tahoe.spark.types import delta_schema
from tahoe.storage.background import finish_background

_WRITES = frozenset({"AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic"})
_SHOW_TABLES = "ShowTablesCommand"

# Properties of a statement's table that are about the table and are not its own.
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
    }
)
_OPTION = "option."


def instead_of(gateway: Gateway, name: str, plan: JavaObject) -> JavaObject | None:
    """The plan to run instead of a command, or None to run it as it is.

    It is asked more than once, and for EXPLAIN too: nothing is changed here.

    Args:
        name: the simple name of the command's class.

    Raises:
        UnsupportedOperationError: the command would damage a table, or is one that tahoe does not have yet.
    """
    if name in _WRITES:
        return None if _target(plan.table()) is None else _command(gateway, name, plan)
    if name in resolved.STATEMENTS:
        return resolved.instead_of(gateway, name, plan)
    if altered(gateway, name, plan) is not None:
        return _command(gateway, name, plan)
    if name in _LIKE and _is_like_ours(gateway, plan):
        return _command(gateway, "CREATE TABLE LIKE", plan)
    if name == _SHOW_TABLES and plan.isExtended() and not plan.partitionSpec().isDefined():
        return _command(gateway, "SHOW TABLE EXTENDED", plan)
    guard.check(gateway, name, plan)
    if name.startswith("Drop"):
        finish_background()  # what follows our last commits would write into the folder while Spark removes it
    return None


def _command(gateway: Gateway, name: str, plan: JavaObject) -> JavaObject:
    """What `run` is asked to do instead of a plan, with the columns of its answer."""
    return gateway.java_class("delta.Command").of(f"Delta {name}", plan, gateway.list([]))


def _target(relation: JavaObject) -> JavaObject | None:
    """The `delta.WriteTable` that a plan writes to."""
    if relation.getClass().getSimpleName() == "DataSourceV2ScanRelation":
        relation = relation.relation()
    if relation.getClass().getSimpleName() != "DataSourceV2Relation":
        return None
    table = relation.table()
    return table if table.getClass().getName() in ("delta.WriteTable", "delta.Staged") else None


def run(gateway: Gateway, plan: JavaObject) -> JavaObject:
    """Run a statement that `instead_of` has taken; the answer is its result: of one that changes rows how many, of others nothing."""
    name = plan.getClass().getSimpleName()
    if name in resolved.STATEMENTS:
        return resolved.run(gateway, name, plan)
    if name == _SHOW_TABLES:
        return gateway.seq(shown.tables_extended(gateway, plan))
    if name in _LIKE:
        _create_like(gateway, plan)
        return gateway.seq([])
    if name not in _WRITES:
        url, rows = alterations.run(gateway, name, plan)
        recache(gateway, url)
        return rows
    target = _target(plan.table())
    assert target is not None
    rows = gateway.dataframe_of_plan(_query(plan, name))
    options = gateway.dict(plan.writeOptions())
    if gateway.java_class("delta.Cases").isTrue(plan, "withSchemaEvolution"):
        options = {**options, "mergeSchema": "true"}
    matching = _matching(gateway, target)
    if (
        name == "OverwriteByExpression" or matching is not None
    ):  # where the session's wish for dynamic overwrites counts, Spark has made another plan
        options = {"partitionOverwriteMode": "static", **options}
    if target.getClass().getName() == "delta.Staged":
        make_table_of(gateway, _described(gateway, target), rows, options, replaces=target.mode() != "create")
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
        options=options,
    )
    recache(gateway, target.url())
    return gateway.seq([])


def _matching(gateway: Gateway, target: JavaObject) -> Matching | None:
    """What INSERT ... REPLACE USING and REPLACE ON say of the rows that go; None for other statements."""
    replaced = target.replaced()
    if replaced is None:
        return None
    if replaced.getClass().getSimpleName() == "InsertReplaceUsing":
        return Matching.of_columns([str(name) for name in gateway.items(replaced.cols().iterator())])
    alias = replaced.tableAliasOpt()
    name = str(alias.get()) if alias.isDefined() else target.name().rpartition(".")[2].strip("`")
    return Matching(text=str(replaced.cond().sql()), on=gateway.column(replaced.cond()), alias=name)


def _query(plan: JavaObject, name: str) -> JavaObject:
    """The rows to write, as they were analysed: they are optimised when they are written."""
    if name == "OverwritePartitionsDynamic":
        return plan.query()
    analysed = plan.analyzedQuery()
    return analysed.get() if analysed.isDefined() else plan.query()


def _predicate(gateway: Gateway, plan: JavaObject) -> str | None:
    """What an overwrite replaces, as SQL; None for everything."""
    text = str(gateway.java_class("delta.Literals").sql(plan.deleteExpr()))
    return None if text.lower() == "true" else text


# --- through the source


def save(gateway: Gateway, mode: str, options: Mapping[str, str], given: JavaObject, data: JavaObject) -> JavaObject:
    """What `df.write.format("delta").save(path)` does; the answer is the relation of what is there then."""
    write.save(gateway.spark, mode, options, gateway.dataframe(data))
    relation = planning.relation(gateway, options, given)
    recache(gateway, relation.location().table())
    return relation


def insert(gateway: Gateway, files: JavaObject, data: JavaObject, overwrite: bool) -> None:
    """INSERT into a view over a table.

    Raises:
        UnsupportedOperationError: the view is over a change feed.
    """
    if files.selection() is not None:
        remedy = "Insert into the table, or into a view over it without readChangeFeed."
        raise UnsupportedOperationError(operation="INSERT", table=files.table(), detail="the view is over its change feed", remedy=remedy)
    write.insert(gateway.spark, files.table(), gateway.dataframe(data), overwrite=overwrite, by_position=True)
    recache(gateway, files.table())


# --- through the catalogs


def create(gateway: Gateway, staged: JavaObject) -> None:
    """CREATE TABLE and REPLACE TABLE without rows."""
    make_table(gateway, _described(gateway, staged), replaces=staged.mode() != "create")
    staged.setMade()


# CREATE TABLE LIKE is the second where Spark has no class for tables of any catalog, or where the other table is Spark's own.
_LIKE = frozenset({"CreateTableLike", "CreateTableLikeCommand"})


def _is_like_ours(gateway: Gateway, plan: JavaObject) -> bool:
    """Whether CREATE TABLE LIKE makes a Delta table: it says so, or says nothing and the other table is one.

    Raises:
        UnsupportedOperationError: a table of another format that is to be like a Delta table, whose columns Spark would not find.
    """
    provider = plan.provider()
    if provider.isDefined() and provider.get().lower() == PROVIDER:
        return True
    source = _source_of(gateway, plan)[0]
    if source is not None and provider.isDefined():
        detail = f"Spark does not find the columns of a Delta table for a table of the format {provider.get()}"
        remedy = "Use CREATE TABLE ... AS SELECT * FROM ... LIMIT 0."
        raise UnsupportedOperationError(operation="CREATE TABLE LIKE", table=source, detail=detail, remedy=remedy)
    return source is not None


def _source_of(gateway: Gateway, plan: JavaObject) -> tuple[str | None, JavaObject | None]:
    """What the new table is to be like: the url of a Delta table, or else the `CatalogTable` of another."""
    if plan.getClass().getSimpleName() == "CreateTableLike":
        source = plan.source()
        if source.getClass().getSimpleName() != "ResolvedTable":
            return None, _named(gateway, source.identifier())
        table = source.table()
        if table.getClass().getName() == "delta.DefinedTable":
            return str(table.url()), None
        return None, _named(gateway, source.identifier())
    name = plan.sourceTable()
    database = name.database()
    if database.isDefined() and database.get().lower() == PROVIDER and "/" in name.table():
        return str(name.table()), None
    entry = gateway.session.sessionState().catalog().getTempViewOrPermanentTableMetadata(name)
    return (url_of_uri(gateway, entry.location()), None) if is_delta(entry) else (None, entry)


def _named(gateway: Gateway, identifier: JavaObject) -> JavaObject | None:
    """The `CatalogTable` of a table or view of the session's catalog; None where it is another catalog's."""
    namespace = list(identifier.namespace())
    if len(namespace) > 1:
        return None
    name = gateway.java_class("org.apache.spark.sql.catalyst.TableIdentifier")(
        identifier.name(), gateway.option(namespace[-1] if namespace else None)
    )
    catalog = gateway.session.sessionState().catalog()
    return catalog.getTempViewOrPermanentTableMetadata(name) if catalog.isTempView(name) or catalog.tableExists(name) else None


def _create_like(gateway: Gateway, plan: JavaObject) -> None:
    url, entry = _source_of(gateway, plan)
    if url is not None:
        source = described_by(open_table(gateway.spark, url).snapshot())
    elif entry is None:
        detail = "the other table is not in the session's catalog"
        remedy = "Use CREATE TABLE ... USING delta AS SELECT * FROM ... LIMIT 0."
        raise UnsupportedOperationError(operation="CREATE TABLE LIKE", table="the new table", detail=detail, remedy=remedy)
    else:
        name = entry.identifier().unquotedString()
        source = NewTable(
            schema=declared_schema(gateway, entry.schema(), table=name),
            partition_by=tuple(str(column) for column in gateway.items(entry.partitionColumnNames().iterator())),
            properties={n: v for n, v in gateway.dict(entry.properties()).items() if "." not in n or n.startswith("delta.")},
            comment=entry.comment().get() if entry.comment().isDefined() else None,
        )
    make_table_like(gateway, source, _like(gateway, plan), if_not_exists=plan.ifNotExists())


def _like(gateway: Gateway, plan: JavaObject) -> NewTable:
    """The name and place that CREATE TABLE LIKE gives, and its properties."""
    properties = gateway.dict(plan.properties())
    if plan.getClass().getSimpleName() == "CreateTableLikeCommand":
        target, uri = plan.targetTable(), plan.fileFormat().locationUri()
        location = url_of_uri(gateway, uri.get()) if uri.isDefined() else None
        database = target.database()
        if database.isDefined() and database.get().lower() == PROVIDER and "/" in target.table():
            return NewTable(location=str(target.table()), properties=properties)
        name = gateway.session.sessionState().catalog().qualifyIdentifier(target)
        return NewTable(name=name, location=location, properties=properties)
    identifier = plan.name().identifier()
    if str(plan.name().catalog().name()).lower() == PROVIDER and not list(identifier.namespace()) and "/" in identifier.name():
        return NewTable(location=str(identifier.name()), properties=properties)
    location = plan.location().get() if plan.location().isDefined() else None
    return NewTable(name=_table_identifier(gateway, identifier), location=location, properties=properties)


def _described(gateway: Gateway, staged: JavaObject) -> NewTable:
    """What a statement says of its table."""
    properties = {str(name): str(staged.properties()[name]) for name in staged.properties()}
    path = staged.url()
    location = path if path is not None else properties.get("location")
    table = location or staged.name()
    strings = gateway.module("org.apache.spark.sql.catalyst.util.CharVarcharUtils")
    schema = strings.replaceCharVarcharWithStringInSchema(staged.schema())
    return NewTable(
        name=None if path is not None else _table_identifier(gateway, staged.identifier()),
        location=location,
        schema=delta_schema(gateway.schema(schema), table=table),
        partition_by=_partition_columns(staged, table),
        cluster_by=_clustering_columns(staged),
        properties={n: v for n, v in properties.items() if n.lower() not in _RESERVED and not n.startswith(_OPTION)},
        comment=properties.get("comment"),
        options={n.removeprefix(_OPTION): v for n, v in properties.items() if n.startswith(_OPTION)},
    )


def _table_identifier(gateway: Gateway, identifier: JavaObject) -> JavaObject:
    namespace = list(identifier.namespace())
    name = gateway.java_class("org.apache.spark.sql.catalyst.TableIdentifier")(
        identifier.name(), gateway.option(namespace[-1] if namespace else None)
    )
    return gateway.session.sessionState().catalog().qualifyIdentifier(name)


_CLUSTER_BY = "cluster_by"


def _clustering_columns(staged: JavaObject) -> tuple[tuple[str, ...], ...]:
    transforms = [transform for transform in staged.partitioning() if transform.name() == _CLUSTER_BY]
    return tuple(tuple(str(name) for name in column.fieldNames()) for transform in transforms for column in transform.arguments())


def _partition_columns(staged: JavaObject, table: str) -> tuple[str, ...]:
    columns = []
    for transform in staged.partitioning():
        if transform.name() == _CLUSTER_BY:
            continue
        if transform.name() != "identity":
            raise UnsupportedOperationError(
                operation=f"Partitioning by {transform.describe()}",
                table=table,
                detail="a Delta table is partitioned by the values of columns",
                remedy="Partition by a column that holds the value.",
            )
        columns.append(".".join(transform.arguments()[0].fieldNames()))
    return tuple(columns)
