"""What a client of Spark Connect asks for, as calls of `DeltaTable`, whichever client's messages it sent.

This module translates messages; it must not know a JVM.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from pyspark.sql.connect import proto
from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type
from pyspark.sql.types import DataType, StructType

from tahoe.spark.api.connect.messages import DeltaRelation, Message, only_field, pairs, unpacked
from tahoe.spark.api.table_builder import IdentityGenerator


@dataclass(frozen=True, slots=True)
class Expression:
    """A Column, as a serialised `spark.connect.Expression`."""

    message: bytes


@dataclass(frozen=True, slots=True)
class Relation:
    """A DataFrame, as a serialised `spark.connect.Relation`."""

    message: bytes


Argument: TypeAlias = Any
"""A value as `DeltaTable` takes it, in which each Column is an `Expression` and each DataFrame a `Relation`."""


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    positional: tuple[Argument, ...] = ()
    named: Mapping[str, Argument] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCalls:
    """Calls of `DeltaTable`: the first on a table, or on the class if there is none; each other one on the result of
    the one before.

    Attributes:
        name, path: which table.
        storage: the storage's settings for a path.
        alias: of the table, in conditions and values.
        plan_ids: the client's plans that are the table itself. Columns of these plans are columns of the table.
    """

    name: str | None = None
    path: str | None = None
    storage: Mapping[str, str] = field(default_factory=dict)
    alias: str | None = None
    plan_ids: frozenset[int] = frozenset()
    calls: tuple[Call, ...] = ()

    def then(self, method: str, *positional: Argument, **named: Argument) -> TableCalls:
        """The same with one call more. Arguments that are None are left out."""
        given = {name: value for name, value in named.items() if value is not None}
        return replace(self, calls=(*self.calls, Call(method, positional, given)))


# --- our client's


def calls_of_ours(message: Message) -> TableCalls:
    """What `Calls` of our client asks for."""
    return TableCalls(
        name=_given(message, "name"),
        path=_given(message, "path"),
        storage=_value(message.storage) if message.HasField("storage") else {},
        alias=_given(message, "alias"),
        plan_ids=frozenset(message.plan_ids),
        calls=tuple(
            Call(
                call.method, tuple(map(_value, call.positional)), {item.name: _value(item.value) for item in call.named}
            )
            for call in message.calls
        ),
    )


def _value(message: Message) -> Argument:
    """The argument in a `Value`."""
    kind, found = only_field(message)
    match kind:
        case "json":
            return json.loads(found)
        case "expression":
            return Expression(found)
        case "relation":
            return Relation(found)
        case "data_type":
            return _data_type_of_json(found)
        case "mapping":
            return {item.name: _value(item.value) for item in found.items}
        case "sequence":
            return [_value(value) for value in found.values]
        case _:
            return IdentityGenerator(found.start, found.step)


def _data_type_of_json(text: str) -> DataType:
    """A type. `StructType` stands for all types, because PySpark parses only its JSON."""
    return StructType.fromJson(json.loads(text))["of"].dataType


# --- the reference's client


def calls_of_relation(message: Message) -> TableCalls:
    """What a `DeltaRelation` asks for."""
    kind, asked = only_field(message)
    match kind:
        case "scan":
            return _table(asked.table).then("toDF")
        case "describe_history":
            return _table(asked.table).then("history")
        case "describe_detail":
            return _table(asked.table).then("detail")
        case "convert_to_delta":
            return TableCalls().then("convertToDelta", asked.identifier, partitionSchema=_partition_schema(asked))
        case "restore_table":
            method, value = (
                ("restoreToVersion", asked.version)
                if asked.HasField("version")
                else ("restoreToTimestamp", asked.timestamp)
            )
            return _table(asked.table).then(method, value)
        case "is_delta_table":
            return TableCalls().then("isDeltaTable", asked.path)
        case "delete_from_table":
            return _target(asked.target).then("delete", condition=_expression(asked, "condition"))
        case "update_table":
            return _target(asked.target).then(
                "update", condition=_expression(asked, "condition"), set=_assigned(asked.assignments)
            )
        case "merge_into_table":
            return _merge(asked)
        case _:
            return _optimize(asked)


def calls_of_command(message: Message) -> TableCalls:
    """What a `DeltaCommand` asks for."""
    kind, asked = only_field(message)
    match kind:
        case "clone_table":
            return _clone(asked)
        case "vacuum_table":
            return _table(asked.table).then("vacuum", retentionHours=_given(asked, "retention_hours"))
        case "upgrade_table_protocol":
            return _table(asked.table).then("upgradeTableProtocol", asked.reader_version, asked.writer_version)
        case "generate":
            return _table(asked.table).then("generate", asked.mode)
        case "create_delta_table":
            return _create(asked)
        case "add_feature_support":
            return _table(asked.table).then("addFeatureSupport", asked.feature_name)
        case _:
            return _table(asked.table).then(
                "dropFeatureSupport", asked.feature_name, truncateHistory=_given(asked, "truncate_history")
            )


def _given(message: Message, name: str) -> Any:
    return getattr(message, name) if message.HasField(name) else None


def _expression(message: Message, name: str) -> Expression | None:
    found = _given(message, name)
    return None if found is None else Expression(found)


def _table(message: Message) -> TableCalls:
    if message.HasField("path"):
        return TableCalls(path=message.path.path, storage=pairs(message.path.hadoop_conf))
    return TableCalls(name=message.table_or_view_name)


def _target(message: bytes) -> TableCalls:
    """The table that a relation is: a scan, or an alias of one."""
    relation, alias, ids = proto.Relation.FromString(message), None, set()
    while True:
        ids.add(relation.common.plan_id)
        if relation.WhichOneof("rel_type") != "subquery_alias":
            break
        alias = alias or relation.subquery_alias.alias  # the outermost one
        relation = relation.subquery_alias.input
    scan = unpacked(relation.extension.SerializeToString(), DeltaRelation)
    if scan is None or not scan.HasField("scan"):
        raise ValueError("the target is not a Delta table, or an alias of one")
    return replace(_table(scan.scan.table), alias=alias, plan_ids=frozenset(ids))


def _assigned(assignments: Iterable[Message]) -> dict[str, Expression]:
    return {_column_name(one.field): Expression(one.value) for one in assignments}


def _column_name(message: bytes) -> str:
    expression = proto.Expression.FromString(message)
    kind = expression.WhichOneof("expr_type")
    if kind == "unresolved_attribute":
        return str(expression.unresolved_attribute.unparsed_identifier)
    if kind == "expression_string":
        return str(expression.expression_string.expression)
    raise ValueError(f"an assignment must name a column, but it has a {kind}")


# By the group of a MERGE's clauses and the kind of action, the builder's method, and its argument for assignments.
_CLAUSES = {
    ("matched_actions", "delete_action"): ("whenMatchedDelete", None),
    ("matched_actions", "update_action"): ("whenMatchedUpdate", "set"),
    ("matched_actions", "update_star_action"): ("whenMatchedUpdateAll", None),
    ("not_matched_actions", "insert_action"): ("whenNotMatchedInsert", "values"),
    ("not_matched_actions", "insert_star_action"): ("whenNotMatchedInsertAll", None),
    ("not_matched_by_source_actions", "delete_action"): ("whenNotMatchedBySourceDelete", None),
    ("not_matched_by_source_actions", "update_action"): ("whenNotMatchedBySourceUpdate", "set"),
}


def _merge(asked: Message) -> TableCalls:
    calls = _target(asked.target).then("merge", Relation(asked.source), Expression(asked.condition))
    if asked.with_schema_evolution:
        calls = calls.then("withSchemaEvolution")
    for group in ("matched_actions", "not_matched_actions", "not_matched_by_source_actions"):
        for action in getattr(asked, group):
            kind = next(field.name for field, _ in action.ListFields() if field.name.endswith("_action"))
            method, argument = _CLAUSES[group, kind]
            assigned = {} if argument is None else {argument: _assigned(getattr(action, kind).assignments)}
            calls = calls.then(method, condition=_expression(action, "condition"), **assigned)
    return calls.then("execute")


def _optimize(asked: Message) -> TableCalls:
    calls = _table(asked.table).then("optimize")
    for condition in asked.partition_filters:
        calls = calls.then("where", condition)
    return (
        calls.then("executeZOrderBy", *asked.zorder_columns)
        if asked.zorder_columns
        else calls.then("executeCompaction")
    )


def _clone(asked: Message) -> TableCalls:
    how = (asked.target, asked.is_shallow, asked.replace, pairs(asked.properties))
    if asked.HasField("version"):
        return _table(asked.table).then("cloneAtVersion", asked.version, *how)
    if asked.HasField("timestamp"):
        return _table(asked.table).then("cloneAtTimestamp", asked.timestamp, *how)
    return _table(asked.table).then("clone", *how)


def _partition_schema(asked: Message) -> str | DataType | None:
    if asked.HasField("partition_schema_struct"):
        return _data_type(asked.partition_schema_struct)
    text: str | None = _given(asked, "partition_schema_string")
    return text


def _data_type(message: bytes) -> str | DataType:
    kind = proto.DataType.FromString(message)
    if kind.WhichOneof("kind") == "unparsed":
        return str(kind.unparsed.data_type_string)
    return proto_schema_to_pyspark_data_type(kind)


_MODES = {1: "create", 2: "createIfNotExists", 3: "replace", 4: "createOrReplace"}


def _create(asked: Message) -> TableCalls:
    """The calls of a builder that creates a table, from `create` or one of its variants to `execute`."""
    calls = TableCalls().then(_MODES[asked.mode])
    for name, method in (("table_name", "tableName"), ("location", "location"), ("comment", "comment")):
        if asked.HasField(name):
            calls = calls.then(method, getattr(asked, name))
    for column in asked.columns:
        generation = _generation(column)
        nullable, comment = bool(column.nullable), _given(column, "comment")
        calls = calls.then(
            "addColumn", column.name, _data_type(column.data_type), nullable, comment=comment, **generation
        )
    if asked.partitioning_columns:
        calls = calls.then("partitionedBy", *asked.partitioning_columns)
    if asked.clustering_columns:
        calls = calls.then("clusterBy", *asked.clustering_columns)
    for key, value in pairs(asked.properties).items():
        calls = calls.then("property", key, value)
    return calls.then("execute")


def _generation(column: Message) -> dict[str, Any]:
    if column.HasField("identity_info"):
        given = column.identity_info
        name = "generatedByDefaultAs" if given.allow_explicit_insert else "generatedAlwaysAs"
        return {name: IdentityGenerator(given.start, given.step)}
    return {"generatedAlwaysAs": column.generated_always_as} if column.HasField("generated_always_as") else {}
