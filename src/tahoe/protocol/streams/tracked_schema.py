"""The schema of a stream as the stream's tracking log keeps it: one entry, as a file. Pure.

The specification does not define this log. Its files are the reference's to the byte: a query may go from one
implementation to the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tahoe._cached import cached_property
from tahoe.errors import DeltaError, SchemaLogSchemaError, SchemaLogUnreadableError
from tahoe.protocol.log.actions import Action, Metadata, Protocol, decode_action, encode_action
from tahoe.protocol.types.column_metadata import GENERATION_EXPRESSION, IDENTITY
from tahoe.protocol.types.json_text import is_text, load_json
from tahoe.protocol.types.schema import Field, Struct, parse_schema

_FORMAT = "v1"

# Keys that only writers use: they change without a change of what readers see. Old writers have left keys of Spark's
# own in schemas.
_OF_WRITERS = (GENERATION_EXPRESSION, IDENTITY, "__")


@dataclass(frozen=True, kw_only=True)
class TrackedSchema:
    """An entry of the log.

    Attributes:
        version: the version of the table from which on the stream reads with this schema.
        source_path: the folder of the source in the query's checkpoint, as Spark spells it.
        configuration, protocol_json: None in entries of early writers.
        previous: the number of the entry before this one, if it is not the file before it.
    """

    table_id: str
    version: int
    schema_json: str
    partition_schema_json: str
    source_path: str
    configuration: Mapping[str, str] | None = field(default=None, hash=False)
    protocol_json: str | None = None
    previous: int | None = None

    @cached_property
    def schema(self) -> Struct:
        return _schema(self.schema_json, self.source_path)

    @cached_property
    def protocol(self) -> Protocol | None:
        if self.protocol_json is None:
            return None
        try:
            found = decode_action(load_json(self.protocol_json))
        except (ValueError, DeltaError) as error:
            raise SchemaLogSchemaError(location=self.source_path, reason=str(error)) from error
        if not isinstance(found, Protocol):
            raise SchemaLogSchemaError(location=self.source_path, reason=f"{self.protocol_json} is not a protocol")
        return found

    def metadata(self, newest: Metadata) -> Metadata:
        """The table's metadata with this schema."""
        names = _schema(self.partition_schema_json, self.source_path).names
        configuration = newest.configuration if self.configuration is None else self.configuration
        return newest.replace(schema_string=self.schema_json, partition_columns=names, configuration=configuration)

    def to_bytes(self) -> bytes:
        """The content of the entry's file."""
        values = ((key, getattr(self, attribute)) for key, attribute, _ in _FIELDS)
        found = {
            key: dict(value) if isinstance(value, Mapping) else value for key, value in values if value is not None
        }
        return f"{_FORMAT}\n{json.dumps(found, separators=(',', ':'), ensure_ascii=False)}".encode()


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_text, value.values()))


_FIELDS = (
    ("tableId", "table_id", is_text),
    ("deltaCommitVersion", "version", _is_int),
    ("dataSchemaJson", "schema_json", is_text),
    ("partitionSchemaJson", "partition_schema_json", is_text),
    ("sourceMetadataPath", "source_path", is_text),
    ("tableConfigurations", "configuration", _is_texts),
    ("protocolJson", "protocol_json", is_text),
    ("previousMetadataSeqNum", "previous", _is_int),
)
_OPTIONAL = ("configuration", "protocol_json", "previous")


def parse_entry(data: bytes, location: str) -> TrackedSchema:
    """An entry from its file.

    Args:
        location: the file, for errors.

    Raises:
        SchemaLogUnreadableError: it is not an entry of a known format.
    """
    try:
        head, _, body = data.decode().partition("\n")
        if head != _FORMAT:
            raise ValueError(f"it begins with {head[:20]!r} instead of {_FORMAT!r}")
        value = load_json(body.partition("\n")[0])
        found: dict[str, Any] = {}
        for key, attribute, is_valid in _FIELDS:
            given = value.get(key) if isinstance(value, dict) else None
            if not (is_valid(given) or (given is None and attribute in _OPTIONAL)):
                raise ValueError(f"its {key} is {given!r}")
            found[attribute] = given
    except ValueError as error:
        raise SchemaLogUnreadableError(location=location, detail=str(error)) from error
    return TrackedSchema(**found)


def _schema(text: str, location: str) -> Struct:
    try:
        return parse_schema(text)
    except DeltaError as error:
        raise SchemaLogSchemaError(location=location, reason=str(error)) from error


def entry_of(version: int, metadata: Metadata, protocol: Protocol, source_path: str) -> TrackedSchema:
    """The entry for a version with this metadata and protocol."""
    partitions = (metadata.schema.find(name) for name in metadata.partition_columns)
    return TrackedSchema(
        table_id=metadata.id,
        version=version,
        schema_json=metadata.schema.to_json(),
        partition_schema_json=Struct(tuple(column for column in partitions if column is not None)).to_json(),
        source_path=source_path,
        configuration=dict(metadata.configuration),
        protocol_json=encode_action(protocol).decode(),
    )


def is_change(read: Metadata, read_protocol: Protocol, metadata: Metadata | None, protocol: Protocol | None) -> bool:
    """Whether a version's metadata or protocol, as far as it has any, is another than the stream's for readers."""
    if protocol is not None and protocol != read_protocol:
        return True
    return metadata is not None and _for_readers(metadata) != _for_readers(read)


def _for_readers(metadata: Metadata) -> tuple[Any, ...]:
    properties = {name: value for name, value in metadata.configuration.items() if name.startswith("delta.")}
    return Struct(tuple(map(_without_keys_of_writers, metadata.schema))), tuple(metadata.partition_columns), properties


def _without_keys_of_writers(column: Field) -> Field:
    return replace(
        column, metadata={key: value for key, value in column.metadata.items() if not key.startswith(_OF_WRITERS)}
    )


def merged(entry: TrackedSchema, changes: list[tuple[int, list[Action]]]) -> TrackedSchema:
    """The entry after commits that changed nothing but metadata and protocol.

    Args:
        changes: versions and actions of these commits, from the entry's own version on.
    """
    for version, actions in changes:
        metadata = next((a for a in actions if isinstance(a, Metadata)), None)
        protocol = next((a for a in actions if isinstance(a, Protocol)), None)
        entry = replace(entry, version=version)
        if metadata is not None:
            text = entry.protocol_json
            entry = replace(
                entry_of(version, metadata, Protocol(reader_version=1, writer_version=2), entry.source_path),
                protocol_json=text,
            )
        if protocol is not None:
            entry = replace(entry, protocol_json=encode_action(protocol).decode())
    return entry
