"""The actions of the log and their JSON encoding.

Protocol: "Actions". Readers ignore unknown actions and fields, as "Protocol Evolution" requires. A missing required field or a value of
the wrong type makes the log invalid. Encoding leaves out fields that are None.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeAlias

from tahoe._cached import cached_property
from tahoe.errors import InvalidActionError, InvalidLogFileError
from tahoe.protocol.json_text import dump_json, is_text, load_json
from tahoe.protocol.schema import Struct, parse_schema

# The end of the year 9999.
_TIMESTAMP_MS_MAX = 253_402_300_799_999


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """Protocol: "Protocol Evolution". The features are None for versions without feature lists."""

    reader_version: int
    writer_version: int
    reader_features: frozenset[str] | None = None
    writer_features: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    provider: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """Protocol: "Change Metadata". `configuration` holds the table properties. Early writers omitted the schema of an empty table."""

    id: str
    schema_string: str = Struct().to_json()
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict, hash=False)
    name: str | None = None
    description: str | None = None
    created_time_ms: int | None = None
    format: Format = Format()

    @cached_property
    def schema(self) -> Struct:
        return parse_schema(self.schema_string)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorDescriptor:
    """Protocol: "Deletion Vector Descriptor Schema"."""

    storage_type: str
    path_or_inline: str
    size_bytes: int
    cardinality: int
    offset: int | None = None

    @property
    def unique_id(self) -> str:
        """Protocol: "Derived Fields"."""
        base = f"{self.storage_type}{self.path_or_inline}"
        return base if self.offset is None else f"{base}@{self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """Protocol: "Add File and Remove File". `path` is the URI in the log, relative to the table or absolute; `stats` is JSON text."""

    path: str
    partition_values: Mapping[str, str | None] = field(default_factory=dict, hash=False)
    size_bytes: int
    modification_time_ms: int
    data_change: bool = True
    stats: str | None = None
    tags: Mapping[str, str | None] | None = field(default=None, hash=False)
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """Protocol: "Add File and Remove File". A tombstone."""

    path: str
    data_change: bool = True
    deletion_timestamp_ms: int | None = None
    extended_file_metadata: bool | None = None
    partition_values: Mapping[str, str | None] | None = field(default=None, hash=False)
    size_bytes: int | None = None
    stats: str | None = None
    tags: Mapping[str, str | None] | None = field(default=None, hash=False)
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cdc:
    """Protocol: "Add CDC File"."""

    path: str
    partition_values: Mapping[str, str | None] = field(default_factory=dict, hash=False)
    size_bytes: int
    data_change: bool = False
    tags: Mapping[str, str | None] | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Txn:
    """Protocol: "Transaction Identifiers"."""

    app_id: str
    version: int
    last_updated_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainMetadata:
    """Protocol: "Domain Metadata"."""

    domain: str
    configuration: str
    removed: bool = False


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """Protocol: "Commit Provenance Information": arbitrary JSON, of which tahoe reads a few fields."""

    fields: Mapping[str, Any] = field(hash=False)

    @property
    def in_commit_timestamp_ms(self) -> int | None:
        """The in-commit timestamp; None if it is missing or not a valid time."""
        value = self.fields.get("inCommitTimestamp")
        return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _TIMESTAMP_MS_MAX else None

    @property
    def txn_id(self) -> str | None:
        value = self.fields.get("txnId")
        return value if isinstance(value, str) else None

    @property
    def is_blind_append(self) -> bool:
        return self.fields.get("isBlindAppend") is True


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """Protocol: "Sidecar File Information". Only in checkpoints."""

    path: str
    size_bytes: int
    modification_time_ms: int
    tags: Mapping[str, str | None] | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMetadata:
    """Protocol: "Checkpoint Metadata". Only in checkpoints."""

    version: int
    tags: Mapping[str, str | None] | None = field(default=None, hash=False)


Action: TypeAlias = Protocol | Metadata | Add | Remove | Cdc | Txn | DomainMetadata | CommitInfo | Sidecar | CheckpointMetadata
FileAction: TypeAlias = Add | Remove


def domain_configuration(domain: DomainMetadata) -> dict[str, Any]:
    """The configuration of a domain defined by the protocol, which is a JSON object.

    Raises:
        InvalidActionError: it is not a JSON object.
    """
    try:
        value = load_json(domain.configuration)
    except ValueError as error:
        raise invalid_domain(domain, str(error)) from error
    if not isinstance(value, dict):
        raise invalid_domain(domain, "its configuration is not a JSON object")
    return value


def invalid_domain(domain: DomainMetadata, detail: str) -> InvalidActionError:
    return InvalidActionError(table="the table", action=f"domainMetadata ({domain.domain})", detail=detail)


def remove_of(add: Add, now_ms: int, *, data_change: bool = True) -> Remove:
    """The tombstone for a live file."""
    return Remove(
        path=add.path,
        deletion_timestamp_ms=now_ms,
        data_change=data_change,
        extended_file_metadata=True,
        partition_values=add.partition_values,
        size_bytes=add.size_bytes,
        tags=add.tags,
        deletion_vector=add.deletion_vector,
        base_row_id=add.base_row_id,
        default_row_commit_version=add.default_row_commit_version,
    )


# --- what values a field accepts, from JSON or from a checkpoint's columns

_LONG_MAX = (1 << 63) - 1
_INT_MAX = (1 << 31) - 1


def _text(value: Any) -> str:
    if is_text(value):
        return value
    raise ValueError("expected a string")


def _statistics(value: Any) -> str | None:
    """Statistics are optional: invalid ones are ignored, which costs data skipping but never correctness."""
    return value if is_text(value) else None


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("expected true or false")  # noqa: TRY004 - the log is invalid, not a call
    return value


def _number(least: int, most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if type(number) is int and least <= number <= most:
            return number
        raise ValueError(f"expected an integer from {least} to {most}")

    return read


_long = _number(-_LONG_MAX - 1, _LONG_MAX)
_count = _number(0, _LONG_MAX)
_small_count = _number(0, _INT_MAX)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError("expected a list of strings")  # noqa: TRY004
    return tuple(map(_text, value))


def _names(value: Any) -> frozenset[str]:
    return frozenset(_texts(value))


def _optional_texts(value: Any) -> dict[str, str | None]:
    """A map with string or null values. Numbers and booleans are converted to strings, as in the reference's reader."""
    if not isinstance(value, dict):
        raise ValueError("expected a map of strings")  # noqa: TRY004
    return {_text(key): None if item is None else _text(_as_text(item)) for key, item in value.items()}


def _text_map(value: Any) -> dict[str, str]:
    return {key: item for key, item in _optional_texts(value).items() if item is not None}


def _as_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else value


# --- the JSON encoding, as a table: an action's name, its class, and its fields as JSON key, attribute and value reader

_Shape: TypeAlias = Mapping[str, tuple[str, Callable[[Any], Any]]]


def _struct(kind: type[Any], shape: _Shape) -> Callable[[Any], Any]:
    return lambda body: _decode(kind, shape, body)


_VECTOR: _Shape = {
    "storageType": ("storage_type", _text),
    "pathOrInlineDv": ("path_or_inline", _text),
    "offset": ("offset", _small_count),
    "sizeInBytes": ("size_bytes", _small_count),
    "cardinality": ("cardinality", _count),
}
_FORMAT: _Shape = {"provider": ("provider", _text), "options": ("options", _text_map)}


def decode_deletion_vector(body: Mapping[str, Any] | None) -> DeletionVectorDescriptor | None:
    """A descriptor; None for a struct whose fields are all null, which is how Parquet readers represent a missing one.

    Raises:
        ValueError: it is not a valid descriptor.
    """
    if body is None or (isinstance(body, dict) and body.get("storageType") is None):
        return None
    vector: DeletionVectorDescriptor = _decode(DeletionVectorDescriptor, _VECTOR, body)
    return vector


def encode_deletion_vector(vector: DeletionVectorDescriptor) -> dict[str, Any]:
    return _encode(_VECTOR, vector)


_SHAPES: Mapping[str, tuple[type[Any], _Shape]] = {
    "add": (
        Add,
        {
            "path": ("path", _text),
            "partitionValues": ("partition_values", _optional_texts),
            "size": ("size_bytes", _count),
            "modificationTime": ("modification_time_ms", _long),
            "dataChange": ("data_change", _boolean),
            "stats": ("stats", _statistics),
            "tags": ("tags", _optional_texts),
            "deletionVector": ("deletion_vector", decode_deletion_vector),
            "baseRowId": ("base_row_id", _long),
            "defaultRowCommitVersion": ("default_row_commit_version", _long),
            "clusteringProvider": ("clustering_provider", _text),
        },
    ),
    "remove": (
        Remove,
        {
            "path": ("path", _text),
            "deletionTimestamp": ("deletion_timestamp_ms", _long),
            "dataChange": ("data_change", _boolean),
            "extendedFileMetadata": ("extended_file_metadata", _boolean),
            "partitionValues": ("partition_values", _optional_texts),
            "size": ("size_bytes", _long),
            "stats": ("stats", _statistics),
            "tags": ("tags", _optional_texts),
            "deletionVector": ("deletion_vector", decode_deletion_vector),
            "baseRowId": ("base_row_id", _long),
            "defaultRowCommitVersion": ("default_row_commit_version", _long),
        },
    ),
    "metaData": (
        Metadata,
        {
            "id": ("id", _text),
            "name": ("name", _text),
            "description": ("description", _text),
            "format": ("format", _struct(Format, _FORMAT)),
            "schemaString": ("schema_string", _text),
            "partitionColumns": ("partition_columns", _texts),
            "configuration": ("configuration", _text_map),
            "createdTime": ("created_time_ms", _long),
        },
    ),
    "protocol": (
        Protocol,
        {
            "minReaderVersion": ("reader_version", _long),
            "minWriterVersion": ("writer_version", _long),
            "readerFeatures": ("reader_features", _names),
            "writerFeatures": ("writer_features", _names),
        },
    ),
    "txn": (Txn, {"appId": ("app_id", _text), "version": ("version", _long), "lastUpdated": ("last_updated_ms", _long)}),
    "domainMetadata": (
        DomainMetadata,
        {"domain": ("domain", _text), "configuration": ("configuration", _text), "removed": ("removed", _boolean)},
    ),
    "cdc": (
        Cdc,
        {
            "path": ("path", _text),
            "partitionValues": ("partition_values", _optional_texts),
            "size": ("size_bytes", _count),
            "dataChange": ("data_change", _boolean),
            "tags": ("tags", _optional_texts),
        },
    ),
    "sidecar": (
        Sidecar,
        {
            "path": ("path", _text),
            "sizeInBytes": ("size_bytes", _long),
            "modificationTime": ("modification_time_ms", _long),
            "tags": ("tags", _optional_texts),
        },
    ),
    "checkpointMetadata": (CheckpointMetadata, {"version": ("version", _long), "tags": ("tags", _optional_texts)}),
}
_NAMES = {kind: name for name, (kind, _) in _SHAPES.items()}


def decode_commit(data: bytes, *, table: str, file: str) -> Iterator[Action]:
    """The actions of one commit or compacted file, in the file's order, without unknown actions.

    Raises:
        InvalidLogFileError: a line is not a JSON object, or an action is invalid; the error gives file and line.
    """
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            action = decode_action(load_json(line))
        except ValueError as error:
            raise InvalidLogFileError(table=table, file=file, line=number, detail=_why(error, line)) from error
        if action is not None:
            yield action


def _why(error: Exception, line: bytes) -> str:
    start = line[:80].decode("utf-8", "replace")
    if isinstance(error, json.JSONDecodeError):
        return f"expected one JSON object, found {start!r} ({error.msg} at column {error.colno})"
    return f"{error}; the line starts with {start!r}"


def decode_action(value: Mapping[str, Any]) -> Action | None:
    """The action in one line's JSON object; None for unknown actions.

    Raises:
        ValueError: it is not an object, or the action is invalid.
    """
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object")  # noqa: TRY004 - the log is invalid, not a call
    for name, body in value.items():
        if body is None:
            continue
        if name == "commitInfo":
            if not isinstance(body, dict):
                raise ValueError("commitInfo: expected a JSON object")
            return CommitInfo(dict(body))
        if name in _SHAPES:
            kind, shape = _SHAPES[name]
            action: Action = _decode(kind, shape, body)
            return action
    return None


def _decode(kind: type[Any], shape: _Shape, body: Any) -> Any:
    if not isinstance(body, dict):
        raise ValueError(f"{kind.__name__}: expected a JSON object")  # noqa: TRY004
    given: dict[str, Any] = {}
    key = ""
    try:
        for key, found in body.items():
            if found is not None and key in shape:
                attribute, read = shape[key]
                given[attribute] = read(found)
    except ValueError as error:
        raise ValueError(f"{key} of {kind.__name__}: {error}") from None
    if not _REQUIRED[kind] <= given.keys():
        missing = [key for key, (attribute, _) in shape.items() if attribute in _REQUIRED[kind] and attribute not in given]
        raise ValueError(f"{kind.__name__} lacks the required field {', '.join(missing)}")
    return kind(**given)


_TO_JSON: Mapping[str, Callable[[Any], Any]] = {
    "reader_features": sorted,
    "writer_features": sorted,
    "partition_columns": list,
    "format": lambda value: _encode(_FORMAT, value),
    "deletion_vector": encode_deletion_vector,
    "partition_values": dict,
    "configuration": lambda value: value if isinstance(value, str) else dict(value),  # a string in domainMetadata, a map in metaData
    "options": dict,
    "tags": dict,
}
_REQUIRED: Mapping[type[Any], frozenset[str]] = {
    kind: frozenset(f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING)
    for kind in (*_NAMES, DeletionVectorDescriptor, Format)
}


def encode_commit(actions: Iterable[Action]) -> bytes:
    """The bytes of a commit file: one action per line."""
    return b"".join(encode_action(action) + b"\n" for action in actions)


def encode_action(action: Action) -> bytes:
    return dump_json(action_to_json(action)).encode()


def action_to_json(action: Action) -> dict[str, Any]:
    """The JSON object of one line: the action's name and its fields, without those that are None."""
    if isinstance(action, CommitInfo):
        return {"commitInfo": dict(action.fields)}
    name = _NAMES[type(action)]
    return {name: _encode(_SHAPES[name][1], action)}


def _encode(shape: _Shape, value: Any) -> dict[str, Any]:
    found = ((key, attribute, getattr(value, attribute)) for key, (attribute, _) in shape.items())
    return {key: _TO_JSON[attribute](item) if attribute in _TO_JSON else item for key, attribute, item in found if item is not None}
