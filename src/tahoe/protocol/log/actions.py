"""The actions of the log and their JSON encoding.

Protocol: "Actions". Readers ignore unknown actions and fields, as "Protocol Evolution" requires. A missing required
field or a value of the wrong type makes the log invalid. Encoding leaves out fields that are None.

The types of the fields say what the log may hold, and msgspec reads and writes them, many times faster than the
standard library. What writers are allowed besides, such as a number in a map of strings, is converted on a second,
slower path.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Self, TypeAlias, TypeVar

import msgspec

from tahoe._cached import cached_property
from tahoe.errors import InvalidActionError, InvalidLogFileError
from tahoe.protocol.types.json_text import dump_json, is_text, load_json, may_be_too_deep
from tahoe.protocol.types.schema import Struct, parse_schema

_LONG_MAX = (1 << 63) - 1

Long: TypeAlias = Annotated[int, msgspec.Meta(ge=-_LONG_MAX - 1, le=_LONG_MAX)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_LONG_MAX)]
SmallCount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]

Value = TypeVar("Value")


def _written(default: Value) -> Value:
    """A default that is encoded; those that are None are left out."""
    found: Value = msgspec.field(default_factory=lambda: default)
    return found


def _no_entries() -> dict[str, Any]:
    return {}


def _written_map() -> dict[str, Any]:
    """An empty map as a default that is encoded. If its factory were `dict` itself, msgspec would leave it out."""
    found: dict[str, Any] = msgspec.field(default_factory=_no_entries)
    return found


def _named(**names: str) -> Callable[[str], str]:
    """The names of fields in the log: these, and for others the camel case without the unit of a time."""

    def name(field: str) -> str:
        first, *others = field.removesuffix("_ms").split("_")
        return names.get(field) or first + "".join(map(str.capitalize, others))

    return name


class _Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=_named()):
    """A JSON object of the log."""

    def replace(self, **changes: Any) -> Self:
        """A copy with other values of some fields."""
        return msgspec.structs.replace(self, **changes)


class _FileRecord(_Record, frozen=True, kw_only=True, gc=False, rename=_named(size_bytes="size")):
    path: str

    def __hash__(self) -> int:
        return hash(self.path)  # a map has no hash


# The end of the year 9999.
_TIMESTAMP_MS_MAX = 253_402_300_799_999


class Protocol(
    _Record,
    frozen=True,
    kw_only=True,
    rename=_named(reader_version="minReaderVersion", writer_version="minWriterVersion"),
):
    """Protocol: "Protocol Evolution". The features are None for versions without feature lists."""

    reader_version: Long
    writer_version: Long
    reader_features: frozenset[str] | None = None
    writer_features: frozenset[str] | None = None


class Format(_Record, frozen=True, kw_only=True):
    provider: str = _written("parquet")
    options: Mapping[str, str] = _written_map()


class Metadata(_Record, frozen=True, kw_only=True, dict=True):
    """Protocol: "Change Metadata". `configuration` holds the table properties. Early writers omitted the schema of an
    empty table.
    """

    id: str
    schema_string: str = _written(Struct().to_json())
    partition_columns: tuple[str, ...] = _written(())
    configuration: Mapping[str, str] = _written_map()
    name: str | None = None
    description: str | None = None
    created_time_ms: Long | None = None
    format: Format = _written(Format())

    @cached_property
    def schema(self) -> Struct:
        return parse_schema(self.schema_string)


class DeletionVectorDescriptor(
    _Record,
    frozen=True,
    kw_only=True,
    gc=False,
    rename=_named(path_or_inline="pathOrInlineDv", size_bytes="sizeInBytes"),
):
    """Protocol: "Deletion Vector Descriptor Schema"."""

    storage_type: str
    path_or_inline: str
    size_bytes: SmallCount
    cardinality: Count
    offset: SmallCount | None = None

    @property
    def unique_id(self) -> str:
        """Protocol: "Derived Fields"."""
        base = f"{self.storage_type}{self.path_or_inline}"
        return base if self.offset is None else f"{base}@{self.offset}"


class Add(_FileRecord, frozen=True, kw_only=True):
    """Protocol: "Add File and Remove File". `path` is the URI in the log, relative to the table or absolute; `stats` is
    JSON text.
    """

    partition_values: Mapping[str, str | None] = _written_map()
    size_bytes: Count
    modification_time_ms: Long
    data_change: bool = _written(True)
    stats: str | None = None
    tags: Mapping[str, str | None] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: Long | None = None
    default_row_commit_version: Long | None = None
    clustering_provider: str | None = None


class Remove(_FileRecord, frozen=True, kw_only=True):
    """Protocol: "Add File and Remove File". A tombstone."""

    data_change: bool = _written(True)
    deletion_timestamp_ms: Long | None = None
    extended_file_metadata: bool | None = None
    partition_values: Mapping[str, str | None] | None = None
    size_bytes: Long | None = None
    stats: str | None = None
    tags: Mapping[str, str | None] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: Long | None = None
    default_row_commit_version: Long | None = None


class Cdc(_FileRecord, frozen=True, kw_only=True):
    """Protocol: "Add CDC File"."""

    partition_values: Mapping[str, str | None] = _written_map()
    size_bytes: Count
    data_change: bool = _written(False)
    tags: Mapping[str, str | None] | None = None


class Txn(_Record, frozen=True, kw_only=True):
    """Protocol: "Transaction Identifiers"."""

    app_id: str
    version: Long
    last_updated_ms: Long | None = None


class DomainMetadata(_Record, frozen=True, kw_only=True):
    """Protocol: "Domain Metadata"."""

    domain: str
    configuration: str
    removed: bool = _written(False)


# The operations of the commits that a VACUUM makes before and after it deletes files.
VACUUM_START, VACUUM_END = "VACUUM START", "VACUUM END"

# The operation of the commit that makes a table of Parquet files that are there.
CONVERT = "CONVERT"

# The parameter by which our VACUUM END names the version of its VACUUM START.
VACUUM_STARTED = "startVersion"


class CommitInfo(msgspec.Struct, frozen=True):
    """Protocol: "Commit Provenance Information": any JSON, of which tahoe reads a few fields. What is not an object has
    none.
    """

    fields: Mapping[str, Any]

    @property
    def in_commit_timestamp_ms(self) -> int | None:
        """The in-commit timestamp; None if it is missing or not a valid time."""
        value = self.fields.get("inCommitTimestamp")
        return (
            value
            if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _TIMESTAMP_MS_MAX
            else None
        )

    @property
    def txn_id(self) -> str | None:
        value = self.fields.get("txnId")
        return value if isinstance(value, str) else None

    @property
    def engine(self) -> str | None:
        value = self.fields.get("engineInfo")
        return value if isinstance(value, str) else None

    @property
    def is_blind_append(self) -> bool:
        return self.fields.get("isBlindAppend") is True

    @property
    def vacuum_cutoff_ms(self) -> int | None:
        """The time before which files were written that the VACUUM beginning here may delete; None if none begins, or
        it is unknown.
        """
        time_ms, parameters = self.fields.get("timestamp"), self.fields.get("operationParameters")
        if (
            self.fields.get("operation") != VACUUM_START
            or not isinstance(parameters, dict)
            or not isinstance(time_ms, int)
        ):
            return None
        retention = str(parameters.get("specifiedRetentionMillis", parameters.get("defaultRetentionMillis")))
        return time_ms - int(retention) if retention.isascii() and retention.isdigit() else None

    @property
    def ends_vacuum(self) -> bool:
        return self.fields.get("operation") == VACUUM_END

    @property
    def vacuum_started(self) -> int | None:
        """The version at which the VACUUM began that ends here; None if none ends, or its writer does not tell."""
        parameters = self.fields.get("operationParameters")
        version = str(parameters.get(VACUUM_STARTED)) if self.ends_vacuum and isinstance(parameters, dict) else ""
        return int(version) if version.isascii() and version.isdigit() else None


class Sidecar(_Record, frozen=True, kw_only=True, rename=_named(size_bytes="sizeInBytes")):
    """Protocol: "Sidecar File Information". Only in checkpoints."""

    path: str
    size_bytes: Long
    modification_time_ms: Long
    tags: Mapping[str, str | None] | None = None


class CheckpointMetadata(_Record, frozen=True, kw_only=True):
    """Protocol: "Checkpoint Metadata". Only in checkpoints."""

    version: Long
    tags: Mapping[str, str | None] | None = None


Action: TypeAlias = (
    Protocol | Metadata | Add | Remove | Cdc | Txn | DomainMetadata | CommitInfo | Sidecar | CheckpointMetadata
)
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


# --- the JSON encoding

KINDS: Mapping[str, type[Any]] = {
    "add": Add,
    "remove": Remove,
    "metaData": Metadata,
    "txn": Txn,
    "protocol": Protocol,
    "cdc": Cdc,
    "sidecar": Sidecar,
    "checkpointMetadata": CheckpointMetadata,
    "domainMetadata": DomainMetadata,
}
"""The actions by their names in the log. Of several actions in one line, which no writer puts there, the first here
counts.
"""


def _encodable(value: Any) -> Any:
    """A value of a class that msgspec does not know, as one that it knows."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    raise TypeError(f"{value!r} has no place in an action")


_NAMES = {kind: name for name, kind in KINDS.items()}
_LINE: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
    msgspec.defstruct(
        "Line",
        [*((name, kind | None, None) for name, kind in KINDS.items()), ("commitInfo", dict[str, Any] | None, None)],
    )
)
_ENCODER = msgspec.json.Encoder(order="deterministic", enc_hook=_encodable)


def decode_commit(data: bytes, *, table: str, file: str) -> Iterator[Action]:
    """The actions of one commit or compacted file, in the file's order, without unknown actions.

    Raises:
        InvalidLogFileError: a line is not a JSON object, or an action is invalid; the error gives file and line.
    """
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            action = _decode_line(line)
        except ValueError as error:
            raise InvalidLogFileError(table=table, file=file, line=number, detail=_why(error, line)) from error
        if action is not None:
            yield action


def _decode_line(line: bytes) -> Action | None:
    try:
        found = _LINE.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return decode_action(load_json(line))
    action = found.add or found.remove or next(filter(None, msgspec.structs.astuple(found)), None)
    if isinstance(action, dict) and not may_be_too_deep(line):
        return CommitInfo(action)
    known: Action | None = None if isinstance(action, dict) else action
    return decode_action(load_json(line)) if known is None else known


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
    for name, kind in KINDS.items():
        if value.get(name) is not None:
            action: Action = _convert(kind, value[name], name)
            return action
    info = value.get("commitInfo")
    return None if info is None else CommitInfo(info if isinstance(info, dict) else {})


def decode_deletion_vector(body: Mapping[str, Any] | None) -> DeletionVectorDescriptor | None:
    """A descriptor; None for a struct whose fields are all null, which is how Parquet readers represent a missing one.

    Raises:
        ValueError: it is not a valid descriptor.
    """
    if body is None or (isinstance(body, dict) and body.get("storageType") is None):
        return None
    vector: DeletionVectorDescriptor = _convert(DeletionVectorDescriptor, body, "deletionVector")
    return vector


def _convert(kind: type[Any], body: Any, name: str) -> Any:
    """The action of a JSON object or of a checkpoint's row, in which null is the same as a missing field."""
    if not isinstance(body, dict):
        raise ValueError(f"{name}: expected a JSON object")  # noqa: TRY004
    known = kind.__struct_encode_fields__
    given = {key: _LENIENT.get(key, _plain)(body[key]) for key in known if body.get(key) is not None}
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{name}: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str) and not is_text(value):
        raise ValueError(f"expected a string of Unicode characters, found {value!r}")
    return value


def _text_map(value: Any) -> Any:
    """A map with string or null values. Numbers and booleans are converted to strings, as in the reference's reader."""
    return {_plain(key): _as_text(item) for key, item in value.items()} if isinstance(value, dict) else _plain(value)


def _as_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else _plain(value)


def _without_nulls(value: Any) -> Any:
    found = _text_map(value)
    return {key: item for key, item in found.items() if item is not None} if isinstance(found, dict) else found


_LENIENT: Mapping[str, Callable[[Any], Any]] = {
    "partitionValues": _text_map,
    "tags": _text_map,
    "configuration": _without_nulls,  # a map of metaData; the text of a domain is not changed
    "options": _without_nulls,
    "format": lambda value: _convert(Format, value, "format"),
    "deletionVector": decode_deletion_vector,
    # Statistics are optional: invalid ones are ignored, which costs data skipping but never correctness.
    "stats": lambda value: value if is_text(value) else None,
}


def encode_commit(actions: Iterable[Action]) -> bytes:
    """The bytes of a commit file: one action per line."""
    return b"".join(encode_action(action) + b"\n" for action in actions)


def in_commit_timestamp(commit: bytes) -> int:
    """The in-commit timestamp of an encoded commit that has one, in milliseconds since 1970."""
    time_ms: int = _first_fields(commit)["inCommitTimestamp"]
    return time_ms


def with_in_commit_timestamp(commit: bytes, time_ms: int) -> bytes:
    """An encoded commit with another in-commit timestamp."""
    fields = {**_first_fields(commit), "inCommitTimestamp": time_ms}
    return encode_action(CommitInfo(fields)) + commit[commit.index(b"\n") :]


def _first_fields(commit: bytes) -> dict[str, Any]:
    """Protocol: "Writer Requirements for In-Commit Timestamps": the first line has the commit's information."""
    fields: dict[str, Any] = msgspec.json.decode(commit[: commit.index(b"\n")])["commitInfo"]
    return fields


def encode_action(action: Action) -> bytes:
    if isinstance(action, CommitInfo):
        return dump_json(action_to_json(action)).encode()
    return b'{"%b":%b}' % (_NAMES[type(action)].encode(), _ENCODER.encode(action))


def action_to_json(action: Action) -> dict[str, Any]:
    """The JSON object of one line: the action's name and its fields, without those that are None."""
    if isinstance(action, CommitInfo):
        return {"commitInfo": dict(action.fields)}
    return {_NAMES[type(action)]: msgspec.to_builtins(action, order="deterministic", enc_hook=_encodable)}


def encode_deletion_vector(vector: DeletionVectorDescriptor) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(vector)
    return found
