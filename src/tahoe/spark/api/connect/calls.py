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
        arguments = {name: value for name, value in named.items() if value is not None}
        return replace(self, calls=(*self.calls, Call(method, positional, arguments)))


# --- our client's


def calls_of_ours(message: Message) -> TableCalls:
    """What `Calls` of our client asks for."""
    return TableCalls(
        name=_optional(message, "name"),
        path=_optional(message, "path"),
        storage=_value(message.storage) if message.HasField("storage") else {},
        alias=_optional(message, "alias"),
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
    kind, content = only_field(message)
    match kind:
        case "json":
            return json.loads(content)
        case "expression":
            return Expression(content)
        case "relation":
            return Relation(content)
        case "data_type":
            return _data_type_of_json(content)
        case "mapping":
            return {item.name: _value(item.value) for item in content.items}
        case "sequence":
            return [_value(value) for value in content.values]
        case _:
            return IdentityGenerator(content.start, content.step)


def _data_type_of_json(text: str) -> DataType:
    """A type. `StructType` stands for all types, because PySpark parses only its JSON."""
    return StructType.fromJson(json.loads(text))["of"].dataType


# --- the reference's client


def calls_of_relation(message: Message) -> TableCalls:
    """What a `DeltaRelation` asks for."""
    kind, request = only_field(message)
    match kind:
        case "scan":
            return _table(request.table).then("toDF")
        case "describe_history":
            return _table(request.table).then("history")
        case "describe_detail":
            return _table(request.table).then("detail")
        case "convert_to_delta":
            return TableCalls().then("convertToDelta", request.identifier, partitionSchema=_partition_schema(request))
        case "restore_table":
            method, value = (
                ("restoreToVersion", request.version)
                if request.HasField("version")
                else ("restoreToTimestamp", request.timestamp)
            )
            return _table(request.table).then(method, value)
        case "is_delta_table":
            return TableCalls().then("isDeltaTable", request.path)
        case "delete_from_table":
            return _target(request.target).then("delete", condition=_expression(request, "condition"))
        case "update_table":
            return _target(request.target).then(
                "update", condition=_expression(request, "condition"), set=_assignments(request.assignments)
            )
        case "merge_into_table":
            return _merge(request)
        case _:
            return _optimize(request)


def calls_of_command(message: Message) -> TableCalls:
    """What a `DeltaCommand` asks for."""
    kind, request = only_field(message)
    match kind:
        case "clone_table":
            return _clone(request)
        case "vacuum_table":
            return _table(request.table).then("vacuum", retentionHours=_optional(request, "retention_hours"))
        case "upgrade_table_protocol":
            return _table(request.table).then("upgradeTableProtocol", request.reader_version, request.writer_version)
        case "generate":
            return _table(request.table).then("generate", request.mode)
        case "create_delta_table":
            return _create(request)
        case "add_feature_support":
            return _table(request.table).then("addFeatureSupport", request.feature_name)
        case _:
            return _table(request.table).then(
                "dropFeatureSupport", request.feature_name, truncateHistory=_optional(request, "truncate_history")
            )


def _optional(message: Message, name: str) -> Any:
    return getattr(message, name) if message.HasField(name) else None


def _expression(message: Message, name: str) -> Expression | None:
    column = _optional(message, name)
    return None if column is None else Expression(column)


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


def _assignments(assignments: Iterable[Message]) -> dict[str, Expression]:
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


def _merge(request: Message) -> TableCalls:
    calls = _target(request.target).then("merge", Relation(request.source), Expression(request.condition))
    if request.with_schema_evolution:
        calls = calls.then("withSchemaEvolution")
    for group in ("matched_actions", "not_matched_actions", "not_matched_by_source_actions"):
        for action in getattr(request, group):
            kind = next(field.name for field, _ in action.ListFields() if field.name.endswith("_action"))
            method, argument = _CLAUSES[group, kind]
            values = {} if argument is None else {argument: _assignments(getattr(action, kind).assignments)}
            calls = calls.then(method, condition=_expression(action, "condition"), **values)
    return calls.then("execute")


def _optimize(request: Message) -> TableCalls:
    calls = _table(request.table).then("optimize")
    for condition in request.partition_filters:
        calls = calls.then("where", condition)
    return (
        calls.then("executeZOrderBy", *request.zorder_columns)
        if request.zorder_columns
        else calls.then("executeCompaction")
    )


def _clone(request: Message) -> TableCalls:
    how = (request.target, request.is_shallow, request.replace, pairs(request.properties))
    if request.HasField("version"):
        return _table(request.table).then("cloneAtVersion", request.version, *how)
    if request.HasField("timestamp"):
        return _table(request.table).then("cloneAtTimestamp", request.timestamp, *how)
    return _table(request.table).then("clone", *how)


def _partition_schema(request: Message) -> str | DataType | None:
    if request.HasField("partition_schema_struct"):
        return _data_type(request.partition_schema_struct)
    text: str | None = _optional(request, "partition_schema_string")
    return text


def _data_type(message: bytes) -> str | DataType:
    kind = proto.DataType.FromString(message)
    if kind.WhichOneof("kind") == "unparsed":
        return str(kind.unparsed.data_type_string)
    return proto_schema_to_pyspark_data_type(kind)


_MODES = {1: "create", 2: "createIfNotExists", 3: "replace", 4: "createOrReplace"}


def _create(request: Message) -> TableCalls:
    """The calls of a builder that creates a table, from `create` or one of its variants to `execute`."""
    calls = TableCalls().then(_MODES[request.mode])
    for name, method in (("table_name", "tableName"), ("location", "location"), ("comment", "comment")):
        if request.HasField(name):
            calls = calls.then(method, getattr(request, name))
    for column in request.columns:
        generation = _generation(column)
        nullable, comment = bool(column.nullable), _optional(column, "comment")
        calls = calls.then(
            "addColumn", column.name, _data_type(column.data_type), nullable, comment=comment, **generation
        )
    if request.partitioning_columns:
        calls = calls.then("partitionedBy", *request.partitioning_columns)
    if request.clustering_columns:
        calls = calls.then("clusterBy", *request.clustering_columns)
    for key, value in pairs(request.properties).items():
        calls = calls.then("property", key, value)
    return calls.then("execute")


def _generation(column: Message) -> dict[str, Any]:
    if column.HasField("identity_info"):
        identity = column.identity_info
        name = "generatedByDefaultAs" if identity.allow_explicit_insert else "generatedAlwaysAs"
        return {name: IdentityGenerator(identity.start, identity.step)}
    return {"generatedAlwaysAs": column.generated_always_as} if column.HasField("generated_always_as") else {}
