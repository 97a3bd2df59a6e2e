"""The protobuf messages in which clients of Spark Connect ask for what only Delta has.

`delta.connect` are the messages of the reference's client (delta-io/delta, `spark-connect/common/src/main/protobuf`).
`tahoe.connect` has one of ours, with which our client asks for calls of `DeltaTable`. Messages of Spark's inside of
them are bytes here, which is the same on the wire. Every field is optional, so that it is known whether it is set. This
module must not know what a message does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

Message: TypeAlias = Any
"""A message. The classes are made at import, so that they have no static types."""

# By name, the fields of a message: "TYPE NAME" by number, with a * if there may be several.
_REFERENCES = {
    "DeltaRelation": {
        1: "Scan scan",
        2: "OfTable describe_history",
        3: "OfTable describe_detail",
        4: "ConvertToDelta convert_to_delta",
        5: "RestoreTable restore_table",
        6: "IsDeltaTable is_delta_table",
        7: "DeleteFromTable delete_from_table",
        8: "UpdateTable update_table",
        9: "MergeIntoTable merge_into_table",
        10: "OptimizeTable optimize_table",
    },
    "DeltaCommand": {
        1: "CloneTable clone_table",
        2: "VacuumTable vacuum_table",
        3: "UpgradeTableProtocol upgrade_table_protocol",
        4: "Generate generate",
        5: "CreateDeltaTable create_delta_table",
        6: "AddFeatureSupport add_feature_support",
        7: "DropFeatureSupport drop_feature_support",
    },
    "DeltaTable": {1: "Path path", 2: "string table_or_view_name"},
    "Path": {1: "string path", 2: "Pair* hadoop_conf"},
    "Pair": {1: "string key", 2: "string value"},
    "Scan": {1: "DeltaTable table"},
    "OfTable": {1: "DeltaTable table"},
    "ConvertToDelta": {1: "string identifier", 2: "string partition_schema_string", 3: "bytes partition_schema_struct"},
    "RestoreTable": {1: "DeltaTable table", 2: "int64 version", 3: "string timestamp"},
    "IsDeltaTable": {1: "string path"},
    "DeleteFromTable": {1: "bytes target", 2: "bytes condition"},
    "UpdateTable": {1: "bytes target", 2: "bytes condition", 3: "Assignment* assignments"},
    "Assignment": {1: "bytes field", 2: "bytes value"},
    "MergeIntoTable": {
        1: "bytes target",
        2: "bytes source",
        3: "bytes condition",
        4: "Action* matched_actions",
        5: "Action* not_matched_actions",
        6: "Action* not_matched_by_source_actions",
        7: "bool with_schema_evolution",
    },
    "Action": {
        1: "bytes condition",
        2: "Nothing delete_action",
        3: "Assignments update_action",
        4: "Nothing update_star_action",
        5: "Assignments insert_action",
        6: "Nothing insert_star_action",
    },
    "Assignments": {1: "Assignment* assignments"},
    "Nothing": {},
    "OptimizeTable": {1: "DeltaTable table", 2: "string* partition_filters", 3: "string* zorder_columns"},
    "CloneTable": {
        1: "DeltaTable table",
        2: "string target",
        3: "int32 version",
        4: "string timestamp",
        5: "bool is_shallow",
        6: "bool replace",
        7: "Pair* properties",
    },
    "VacuumTable": {1: "DeltaTable table", 2: "double retention_hours"},
    "UpgradeTableProtocol": {1: "DeltaTable table", 2: "int32 reader_version", 3: "int32 writer_version"},
    "Generate": {1: "DeltaTable table", 2: "string mode"},
    "CreateDeltaTable": {
        1: "int32 mode",
        2: "string table_name",
        3: "string location",
        4: "string comment",
        5: "Column* columns",
        6: "string* partitioning_columns",
        7: "Pair* properties",
        8: "string* clustering_columns",
    },
    "Column": {
        1: "string name",
        2: "bytes data_type",
        3: "bool nullable",
        4: "string generated_always_as",
        5: "string comment",
        6: "Identity identity_info",
    },
    "Identity": {1: "int64 start", 2: "int64 step", 3: "bool allow_explicit_insert"},
    "AddFeatureSupport": {1: "DeltaTable table", 2: "string feature_name"},
    "DropFeatureSupport": {1: "DeltaTable table", 2: "string feature_name", 3: "bool truncate_history"},
}

_OURS = {
    # calls of `DeltaTable`, the first on the table or the class, each other one on the result of the one before
    "Calls": {
        1: "string name",
        2: "string path",
        3: "Value storage",
        4: "string alias",
        5: "int64* plan_ids",
        6: "Call* calls",
    },
    "Call": {1: "string method", 2: "Value* positional", 3: "Item* named"},
    "Item": {1: "string name", 2: "Value value"},
    # what is neither text in JSON, nor a message of Spark's, is a list or a mapping of values
    "Value": {
        1: "string json",
        2: "bytes expression",
        3: "bytes relation",
        4: "string data_type",
        5: "Items mapping",
        6: "Values sequence",
        7: "Identity identity",
    },
    "Items": {1: "Item* items"},
    "Values": {1: "Value* values"},
    "Identity": {1: "int64 start", 2: "int64 step"},
}

_SCALARS = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
}


def _file_descriptor(package: str, messages: Mapping[str, Mapping[int, str]]) -> FileDescriptorProto:
    """The descriptor of a package of messages, as a file in protobuf would define it."""
    file = FileDescriptorProto(name=f"tahoe/{package}.proto", package=package, syntax="proto2")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for number, text in fields.items():
            kind, field = text.split(" ")
            label = FieldDescriptorProto.LABEL_REPEATED if kind.endswith("*") else FieldDescriptorProto.LABEL_OPTIONAL
            kind = kind.rstrip("*")
            added = message.field.add(
                name=field, number=number, label=label, type=_SCALARS.get(kind, FieldDescriptorProto.TYPE_MESSAGE)
            )
            if kind not in _SCALARS:
                added.type_name = f".{package}.{kind}"
    return file


# A pool of our own: the process may also have the reference's classes, which are messages of the same names.
_pool = DescriptorPool()
for _package, _messages in (("delta.connect", _REFERENCES), ("tahoe.connect", _OURS)):
    _pool.Add(_file_descriptor(_package, _messages))


def _class(name: str) -> Any:
    return GetMessageClass(_pool.FindMessageTypeByName(name))


DeltaRelation = _class("delta.connect.DeltaRelation")
DeltaCommand = _class("delta.connect.DeltaCommand")
Calls = _class("tahoe.connect.Calls")
Call = _class("tahoe.connect.Call")
Item = _class("tahoe.connect.Item")
Value = _class("tahoe.connect.Value")


def unpacked(message: bytes, *kinds: Any) -> Message | None:
    """The message in a serialised `google.protobuf.Any`, if it is one of some kinds; None if it is another."""
    packed = Packed.FromString(message)
    kind = next((kind for kind in kinds if packed.Is(kind.DESCRIPTOR)), None)
    return None if kind is None else kind.FromString(packed.value)


def only_field(message: Message) -> tuple[str, Any]:
    """The name and the value of the field that is set in a message whose fields exclude each other.

    Raises:
        ValueError: none is set that this version knows.
    """
    fields = [(field.name, value) for field, value in message.ListFields()]
    if not fields:
        raise ValueError(f"the message {message.DESCRIPTOR.full_name} has no part that this version of tahoe knows")
    return fields[0]


def pairs(entries: Any) -> dict[str, str]:
    """A map of texts, which on the wire is repeated pairs."""
    return {entry.key: entry.value for entry in entries}
