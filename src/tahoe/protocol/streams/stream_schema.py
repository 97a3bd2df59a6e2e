"""What a stream does when the schema of its table changes: whether it can go on, the schema that its log tracks, and
what a user must acknowledge. Pure: values in, decisions out.

A stream reads all rows with one schema. The specification does not say what a reader does when the schema changes
meanwhile. The rules are the reference's. The files of the log are the reference's to the byte, so that a query may go
from one implementation to the other; the names of options and settings, and the hash of a query's checkpoint in them,
are the reference's too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from tahoe._cached import cached_property
from tahoe.errors import DeltaError, SchemaLogSchemaError, SchemaLogUnreadableError
from tahoe.protocol.configuration.change_feed import Fit, first_moved, first_unlike, stored_paths
from tahoe.protocol.configuration.column_mapping import declared_mode, physical_schema
from tahoe.protocol.log.actions import Action, Metadata, Protocol, decode_action, encode_action
from tahoe.protocol.types.column_metadata import GENERATION_EXPRESSION, IDENTITY, collations_of
from tahoe.protocol.types.json_text import is_text, load_json
from tahoe.protocol.types.schema import DataType, Field, Struct, map_fields, parse_schema, walk_fields
from tahoe.protocol.types.type_widening import widenings

# --- whether a stream can go on


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRules:
    """What a user lets a stream do.

    Attributes:
        reads_moved_columns: read on although columns were renamed or dropped under column mapping, or column mapping
            was disabled.
        reads_other_partitions: read on although the partition columns changed.
        reads_nulls: read on although a column that the stream reads as NOT NULL may contain nulls.
        skips_start: do not compare the schema at the stream's start with the newest.
        widens: on a table that supports type widening, rows of a narrower type are read as the wider type, whichever
            was first.
        asks_before_widening: wider types need a tracked schema, as renamed columns do.
        ignores_types: a tracked schema may change its types in any way.
        moved_columns_setting: the user's name of `reads_moved_columns`, for errors.
    """

    reads_moved_columns: bool = False
    reads_other_partitions: bool = False
    reads_nulls: bool = False
    skips_start: bool = False
    widens: bool = True
    asks_before_widening: bool = False
    ignores_types: bool = False
    moved_columns_setting: str = "reads_moved_columns"


class Remedy(Enum):
    """What lets a stream go on."""

    NEW_DATAFRAME = "a DataFrame with the new schema, and the same checkpoint"
    TRACKING = "a schema that is tracked"
    NEW_CHECKPOINT = "a new checkpoint"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why the rows of a version cannot be read with the stream's schema. `changed` is a clause about the version."""

    remedy: Remedy
    changed: str


def obstacle(
    read: Metadata,
    written: Metadata,
    rules: SchemaRules,
    *,
    is_older: bool,
    widens: bool = True,
    is_start: bool = False,
) -> Obstacle | None:
    """Whether rows that were written with a version's metadata can be read with the stream's.

    Args:
        read: the stream's.
        written: the version's.
        is_older: whether the version is older than the stream's schema.
        widens: whether the stream's table supports type widening.
        is_start: whether the stream starts in this version, and it is compared for that reason only.
    """
    before, after = (written, read) if is_older else (read, written)
    if (moved := _untracked_change(before, after, rules, widens=widens)) is not None:
        return Obstacle(Remedy.TRACKING, moved)
    if is_start and rules.skips_start:
        return None
    changed = _unreadable(read, written, rules, is_older=is_older, widens=widens)
    if changed is None:
        return None
    fit = Fit(widens=_widens(rules), nulls=rules.reads_nulls)
    goes_on = not is_older and first_unlike(read.schema, written.schema, (), fit) is None
    return Obstacle(Remedy.NEW_DATAFRAME if goes_on else Remedy.NEW_CHECKPOINT, changed)


def _untracked_change(before: Metadata, after: Metadata, rules: SchemaRules, *, widens: bool) -> str | None:
    """A change that only a stream with a tracked schema follows."""
    if widens and rules.widens and rules.asks_before_widening:
        for path, old, new in widenings(before.schema, after.schema):
            return f"the type of column {'.'.join(path)} was changed from {old} to {new}"
    return None if rules.reads_moved_columns else _mapping_change(before, after, rules)


def _mapping_change(before: Metadata, after: Metadata, rules: SchemaRules) -> str | None:
    """How column mapping makes two schemas incompatible: a name could silently read another column."""
    mode_before, mode_after = declared_mode(before.configuration), declared_mode(after.configuration)
    if mode_before == mode_after == "none":
        return None
    if mode_after == "none":
        return "its column mapping was disabled"
    path = first_moved(after.schema, mode_after, before.schema, mode_before)
    if path is not None:
        return f"column {'.'.join(path)} was renamed or dropped"
    return None if rules.reads_other_partitions else _partitioning_change(before, after)


def _partitioning_change(before: Metadata, after: Metadata) -> str | None:
    if tuple(before.partition_columns) == tuple(after.partition_columns):
        return None
    old, new = (", ".join(metadata.partition_columns) or "none" for metadata in (before, after))
    return f"the partition columns were changed from {old} to {new}"


def _unreadable(read: Metadata, written: Metadata, rules: SchemaRules, *, is_older: bool, widens: bool) -> str | None:
    before, after = (written, read) if is_older else (read, written)
    lacks = is_older and rules.reads_moved_columns and declared_mode(read.configuration) != "none"
    if not lacks and not rules.reads_other_partitions and (changed := _partitioning_change(before, after)) is not None:
        return changed
    fit = Fit(
        widens=widens and _widens(rules), lacks=lacks, nulls=rules.reads_nulls
    )  # also of a later RESTORE of a narrower type
    path = first_unlike(written.schema, read.schema, (), fit)
    return None if path is None else _difference_text(path, written.schema, read.schema)


def _widens(rules: SchemaRules) -> bool:
    return rules.widens and not rules.asks_before_widening


def _difference_text(path: tuple[str, ...], written: Struct, read: Struct) -> str:
    """What is different about a column or field."""
    column, there, here = ".".join(path), _at(written, path), _at(read, path)
    if there is None:  # an array's element or a map's value
        return f"{column} has another type, or may be null"
    if here is None:
        return f"it has the column {column} {there.type}, which the stream's schema lacks"
    if there.type != here.type:
        return f"column {column} is {there.type}, and the stream reads it as {here.type}"
    return f"column {column} may be null, and the stream reads it as NOT NULL"


def _at(schema: Struct, path: tuple[str, ...]) -> Field | None:
    return next((field for here, field in walk_fields(schema) if here == path), None)


def first_retyped(before: Struct, after: Struct, rules: SchemaRules) -> str | None:
    """A column whose later type or nullability does not fit earlier rows. Columns may be renamed or dropped."""
    stored_before, stored_after = physical_schema(before, "name"), physical_schema(after, "name")
    path = (
        None
        if rules.ignores_types
        else first_unlike(stored_before, stored_after, (), Fit(widens=rules.widens, lacks=True))
    )
    return None if path is None else _difference_text(path, stored_before, stored_after)


def shape(schema: Struct) -> Struct:
    """Names, types, collations and nullability alone: two schemas of the same shape give the same plan."""
    return map_fields(schema, lambda field: replace(field, metadata=collations_of(field.metadata)))


# --- an entry of the log of a stream that tracks its schema

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
    """The entry of a schema log that a file contains.

    Args:
        location: the file, for errors.

    Raises:
        SchemaLogUnreadableError: it is not an entry of a known format.
    """
    try:
        head, _, body = data.decode().partition("\n")
        if head != _FORMAT:
            raise ValueError(f"it begins with {head[:20]!r} instead of {_FORMAT!r}")
        entry = load_json(body.partition("\n")[0])  # the entry is one line; further lines are not looked at
        if not isinstance(entry, dict):
            raise ValueError("it is not a JSON object")  # noqa: TRY004 - becomes the error below
        attributes: dict[str, Any] = {}
        for key, attribute, is_valid in _FIELDS:
            value = entry.get(key)
            if not (is_valid(value) or (value is None and attribute in _OPTIONAL)):
                raise ValueError(f"its {key} is {value!r}")
            attributes[attribute] = value
    except ValueError as error:
        raise SchemaLogUnreadableError(location=location, detail=str(error)) from error
    return TrackedSchema(**attributes)


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
    return metadata is not None and _reader_definition(metadata) != _reader_definition(read)


def _reader_definition(metadata: Metadata) -> tuple[Any, ...]:
    """What readers of a version go by; if it is the same in another version, a stream goes on unchanged."""
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


# --- what a user must acknowledge: renamed and dropped columns, and wider types

ALWAYS = "always"
RENAME, DROP, TYPE_CHANGE = "allowSourceColumnRename", "allowSourceColumnDrop", "allowSourceColumnTypeChange"
ACKNOWLEDGING = (RENAME, DROP, TYPE_CHANGE)
_RENAME_AND_DROP = "allowSourceColumnRenameAndDrop"

Path = tuple[str, ...]

# Which of renamed, dropped and widened there are: what the reference calls the change.
_NAMES = {
    (True, False, False): "RENAME COLUMN",
    (False, True, False): "DROP COLUMN",
    (False, False, True): "TYPE WIDENING",
    (True, True, False): "RENAME AND DROP COLUMN",
    (True, False, True): "RENAME AND TYPE WIDENING",
    (False, True, True): "DROP AND TYPE WIDENING",
    (True, True, True): "RENAME, DROP AND TYPE WIDENING",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChanges:
    """What is not merely added between two schemas."""

    renamed: tuple[tuple[Path, Path], ...] = ()
    dropped: tuple[Path, ...] = ()
    widened: tuple[tuple[Path, DataType, DataType], ...] = ()

    @property
    def name(self) -> str:
        return _NAMES[bool(self.renamed), bool(self.dropped), bool(self.widened)]

    @property
    def options(self) -> list[str]:
        """The reader's options that acknowledge the change."""
        return [
            name
            for name, is_asked in ((RENAME, self.renamed), (DROP, self.dropped), (TYPE_CHANGE, self.widened))
            if is_asked
        ]

    @property
    def settings(self) -> list[str]:
        """The session's settings that acknowledge the change, without what all settings of streams begin with and
        without the hash of a checkpoint.
        """
        return [_RENAME_AND_DROP, *self.options[2:]] if self.renamed and self.dropped else self.options

    def details(self) -> str:
        """The changes, column by column."""
        return "; ".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for old, new in self.renamed:
            yield f"column {'.'.join(old)} was renamed to {'.'.join(new)}"
        for path in self.dropped:
            yield f"column {'.'.join(path)} was dropped"
        for path, before, after in self.widened:
            yield f"column {'.'.join(path)} was widened from {before} to {after}"


def changes_between(before: Struct, after: Struct, rules: SchemaRules) -> SchemaChanges | None:
    """The changes that are to be acknowledged; None if there are none. Columns are the same if their physical names
    are.
    """
    was, now = ({stored: path for path, stored in stored_paths(schema, "name").items()} for schema in (before, after))
    renamed = tuple(
        (path, now[stored]) for stored, path in was.items() if stored in now and now[stored][-1] != path[-1]
    )
    dropped = tuple(path for stored, path in was.items() if stored not in now)
    asks = rules.widens and not rules.ignores_types
    widened = tuple(widenings(physical_schema(before, "name"), physical_schema(after, "name"))) if asks else ()
    widened_now = tuple((now.get(path, path), old, new) for path, old, new in widened)
    changes = SchemaChanges(renamed=renamed, dropped=dropped, widened=widened_now)
    return changes if renamed or dropped or widened else None


def is_acknowledged(
    changes: SchemaChanges,
    version: int,
    checkpoint: str,
    options: Mapping[str, str],
    setting: Callable[[str], str | None],
) -> bool:
    """Whether the user has acknowledged changes.

    Args:
        version: that of the later schema.
        checkpoint: from `checkpoint_suffix`.
        options: the acknowledging options that the reader was given, by name.
        setting: returns a setting of the session by its name, as in `SchemaChanges.settings`.
    """
    values = (ALWAYS, str(version))

    def allows(option: str, *others: str) -> bool:
        if options.get(option, "").lower() in values:
            return True
        names = (option, *others)
        own = any((setting(name + checkpoint) or "").lower() in values for name in names)
        return own or any((setting(name) or "").lower() == ALWAYS for name in names)

    return (
        (not changes.renamed or allows(RENAME, _RENAME_AND_DROP))
        and (not changes.dropped or allows(DROP, _RENAME_AND_DROP))
        and (not changes.widened or allows(TYPE_CHANGE))
    )


def checkpoint_suffix(source_path: str) -> str:
    """What a setting for a single stream ends with: a hash, as Java computes it, of the folder of the source in the
    checkpoint.
    """
    number = 0
    encoded = source_path.encode("utf-16-be")
    for position in range(0, len(encoded), 2):
        number = (31 * number + int.from_bytes(encoded[position : position + 2], "big")) & 0xFFFF_FFFF
    return f".ckpt_{number - (1 << 32) if number >> 31 else number}"
