"""The actions of the log as values, and their JSON lines.

Protocol: "Actions". Unknown actions and fields are ignored on reading, as "Protocol Evolution" asks; a missing required field is an
error of the log. Encoding leaves out fields that are None.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeAlias

from tahoe._cached import cached_property
from tahoe.errors import InvalidLogFileError
from tahoe.protocol.schema import Struct, parse_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """Protocol: "Protocol Evolution". Features are None where the version has no lists."""

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
    """Protocol: "Change Metadata". `configuration` holds the table properties; early writers left out the schema of an empty table."""

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
    """Protocol: "Add File and Remove File". `path` is as written: a URI, relative to the table or absolute; `stats` is JSON text."""

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
    """Protocol: "Commit Provenance Information": free JSON, of which a few fields have meaning here."""

    fields: Mapping[str, Any] = field(hash=False)

    @property
    def in_commit_timestamp_ms(self) -> int | None:
        value = self.fields.get("inCommitTimestamp")
        return value if isinstance(value, int) else None

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


# --- the JSON form, as a table: an action's name, its class, and its fields as JSON key and attribute

_VECTOR = (
    ("storageType", "storage_type"),
    ("pathOrInlineDv", "path_or_inline"),
    ("offset", "offset"),
    ("sizeInBytes", "size_bytes"),
    ("cardinality", "cardinality"),
)
_FORMAT = (("provider", "provider"), ("options", "options"))

_SHAPES: Mapping[str, tuple[type[Any], tuple[tuple[str, str], ...]]] = {
    "add": (
        Add,
        (
            ("path", "path"),
            ("partitionValues", "partition_values"),
            ("size", "size_bytes"),
            ("modificationTime", "modification_time_ms"),
            ("dataChange", "data_change"),
            ("stats", "stats"),
            ("tags", "tags"),
            ("deletionVector", "deletion_vector"),
            ("baseRowId", "base_row_id"),
            ("defaultRowCommitVersion", "default_row_commit_version"),
            ("clusteringProvider", "clustering_provider"),
        ),
    ),
    "remove": (
        Remove,
        (
            ("path", "path"),
            ("deletionTimestamp", "deletion_timestamp_ms"),
            ("dataChange", "data_change"),
            ("extendedFileMetadata", "extended_file_metadata"),
            ("partitionValues", "partition_values"),
            ("size", "size_bytes"),
            ("stats", "stats"),
            ("tags", "tags"),
            ("deletionVector", "deletion_vector"),
            ("baseRowId", "base_row_id"),
            ("defaultRowCommitVersion", "default_row_commit_version"),
        ),
    ),
    "metaData": (
        Metadata,
        (
            ("id", "id"),
            ("name", "name"),
            ("description", "description"),
            ("format", "format"),
            ("schemaString", "schema_string"),
            ("partitionColumns", "partition_columns"),
            ("configuration", "configuration"),
            ("createdTime", "created_time_ms"),
        ),
    ),
    "protocol": (
        Protocol,
        (
            ("minReaderVersion", "reader_version"),
            ("minWriterVersion", "writer_version"),
            ("readerFeatures", "reader_features"),
            ("writerFeatures", "writer_features"),
        ),
    ),
    "txn": (Txn, (("appId", "app_id"), ("version", "version"), ("lastUpdated", "last_updated_ms"))),
    "domainMetadata": (DomainMetadata, (("domain", "domain"), ("configuration", "configuration"), ("removed", "removed"))),
    "cdc": (
        Cdc,
        (
            ("path", "path"),
            ("partitionValues", "partition_values"),
            ("size", "size_bytes"),
            ("dataChange", "data_change"),
            ("tags", "tags"),
        ),
    ),
    "sidecar": (
        Sidecar,
        (("path", "path"), ("sizeInBytes", "size_bytes"), ("modificationTime", "modification_time_ms"), ("tags", "tags")),
    ),
    "checkpointMetadata": (CheckpointMetadata, (("version", "version"), ("tags", "tags"))),
}
_NAMES = {kind: name for name, (kind, _) in _SHAPES.items()}


def decode_commit(data: bytes, *, table: str, file: str) -> Iterator[Action]:
    """The actions of one commit or compacted file, in the file's order; unknown actions are left out.

    Raises:
        InvalidLogFileError: a line that is no JSON object, or an action without a required field, with file and line.
    """
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            action = decode_action(json.loads(line))
        except (ValueError, TypeError, AttributeError) as error:
            raise InvalidLogFileError(table=table, file=file, line=number, detail=_why(error, line)) from error
        if action is not None:
            yield action


def _why(error: Exception, line: bytes) -> str:
    start = line[:80].decode("utf-8", "replace")
    if isinstance(error, json.JSONDecodeError):
        return f"expected one JSON object, found {start!r} ({error.msg} at column {error.colno})"
    return f"{error} in {start!r}"


def decode_action(value: Mapping[str, Any]) -> Action | None:
    """One line's JSON object as an action; None for actions that this version of the protocol does not know."""
    for name, body in value.items():
        if body is None:
            continue
        if name == "commitInfo":
            return CommitInfo(dict(body))
        if name in _SHAPES:
            kind, shape = _SHAPES[name]
            action: Action = _decode(kind, shape, body)
            return action
    return None


def decode_deletion_vector(body: Mapping[str, Any] | None) -> DeletionVectorDescriptor | None:
    """A descriptor; None for a struct whose fields are all null, which is how Parquet readers show an absent one."""
    if body is None or body.get("storageType") is None:
        return None
    vector: DeletionVectorDescriptor = _decode(DeletionVectorDescriptor, _VECTOR, body)
    return vector


def _decode(kind: type[Any], shape: tuple[tuple[str, str], ...], body: Mapping[str, Any]) -> Any:
    given = {}
    for key, attribute in shape:
        found = body.get(key)
        if found is not None:
            given[attribute] = _FROM_JSON[attribute](found) if attribute in _FROM_JSON else found
    missing = [key for key, attribute in shape if attribute in _REQUIRED[kind] and attribute not in given]
    if missing:
        raise ValueError(f"{kind.__name__} lacks the required field {', '.join(missing)}")
    return kind(**given)


_FROM_JSON: Mapping[str, Callable[[Any], Any]] = {
    "reader_features": frozenset,
    "writer_features": frozenset,
    "partition_columns": tuple,
    "format": lambda body: _decode(Format, _FORMAT, body),
    "deletion_vector": decode_deletion_vector,
}
_TO_JSON: Mapping[str, Callable[[Any], Any]] = {
    "reader_features": sorted,
    "writer_features": sorted,
    "partition_columns": list,
    "format": lambda value: _encode(_FORMAT, value),
    "deletion_vector": lambda value: _encode(_VECTOR, value),
    "partition_values": dict,
    "configuration": lambda value: value if isinstance(value, str) else dict(value),  # a domain's is text, a table's a map
    "options": dict,
    "tags": dict,
}
_REQUIRED: Mapping[type[Any], frozenset[str]] = {
    kind: frozenset(f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING)
    for kind in (*_NAMES, DeletionVectorDescriptor, Format)
}


def encode_commit(actions: Iterable[Action]) -> bytes:
    """The bytes of a commit file: one action a line."""
    return b"".join(encode_action(action) + b"\n" for action in actions)


def encode_action(action: Action) -> bytes:
    return json.dumps(action_to_json(action), separators=(",", ":"), ensure_ascii=False).encode()


def action_to_json(action: Action) -> dict[str, Any]:
    """The JSON object of one line: the action's name over its fields, absent ones left out."""
    if isinstance(action, CommitInfo):
        return {"commitInfo": dict(action.fields)}
    name = _NAMES[type(action)]
    return {name: _encode(_SHAPES[name][1], action)}


def _encode(shape: tuple[tuple[str, str], ...], value: Any) -> dict[str, Any]:
    found = ((key, attribute, getattr(value, attribute)) for key, attribute in shape)
    return {key: _TO_JSON[attribute](item) if attribute in _TO_JSON else item for key, attribute, item in found if item is not None}
