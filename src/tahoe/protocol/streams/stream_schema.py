"""Whether a stream can go on when the schema of its table changes. Pure: values in, decisions out.

A stream reads all rows with one schema. The specification does not say what a reader does when the schema changes
meanwhile. These are the reference's rules for streams that do not track their schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tahoe.protocol.configuration.change_feed import Fit, first_moved, first_unlike
from tahoe.protocol.configuration.column_mapping import declared_mode, physical_schema
from tahoe.protocol.log.actions import Metadata
from tahoe.protocol.types.schema import Field, Struct, map_fields, walk_fields
from tahoe.protocol.types.type_widening import widenings


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
    """

    reads_moved_columns: bool = False
    reads_other_partitions: bool = False
    reads_nulls: bool = False
    skips_start: bool = False
    widens: bool = True
    asks_before_widening: bool = False
    ignores_types: bool = False


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
    if (moved := _untracked(before, after, rules, widens=widens)) is not None:
        return Obstacle(Remedy.TRACKING, moved)
    if is_start and rules.skips_start:
        return None
    changed = _unreadable(read, written, rules, is_older=is_older, widens=widens)
    if changed is None:
        return None
    fit = Fit(widens=_widens(rules), nulls=rules.reads_nulls)
    goes_on = not is_older and first_unlike(read.schema, written.schema, (), fit) is None
    return Obstacle(Remedy.NEW_DATAFRAME if goes_on else Remedy.NEW_CHECKPOINT, changed)


def _untracked(before: Metadata, after: Metadata, rules: SchemaRules, *, widens: bool) -> str | None:
    """A change that only a stream with a tracked schema follows."""
    if widens and rules.widens and rules.asks_before_widening:
        for path, old, new in widenings(before.schema, after.schema):
            return f"the type of column {'.'.join(path)} was changed from {old} to {new}"
    return None if rules.reads_moved_columns else _moved(before, after, rules)


def _moved(before: Metadata, after: Metadata, rules: SchemaRules) -> str | None:
    """How column mapping makes two schemas incompatible: a name could silently read another column."""
    mode_before, mode_after = declared_mode(before.configuration), declared_mode(after.configuration)
    if mode_before == mode_after == "none":
        return None
    if mode_after == "none":
        return "its column mapping was disabled"
    path = first_moved(after.schema, mode_after, before.schema, mode_before)
    if path is not None:
        return f"column {'.'.join(path)} was renamed or dropped"
    return None if rules.reads_other_partitions else _repartitioned(before, after)


def _repartitioned(before: Metadata, after: Metadata) -> str | None:
    if tuple(before.partition_columns) == tuple(after.partition_columns):
        return None
    old, new = (", ".join(metadata.partition_columns) or "none" for metadata in (before, after))
    return f"the partition columns were changed from {old} to {new}"


def _unreadable(read: Metadata, written: Metadata, rules: SchemaRules, *, is_older: bool, widens: bool) -> str | None:
    before, after = (written, read) if is_older else (read, written)
    lacks = is_older and rules.reads_moved_columns and declared_mode(read.configuration) != "none"
    if not lacks and not rules.reads_other_partitions and (changed := _repartitioned(before, after)) is not None:
        return changed
    fit = Fit(
        widens=widens and _widens(rules), lacks=lacks, nulls=rules.reads_nulls
    )  # also of a later RESTORE of a narrower type
    path = first_unlike(written.schema, read.schema, (), fit)
    return None if path is None else _told(path, written.schema, read.schema)


def _widens(rules: SchemaRules) -> bool:
    return rules.widens and not rules.asks_before_widening


def _told(path: tuple[str, ...], written: Struct, read: Struct) -> str:
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
    return None if path is None else _told(path, stored_before, stored_after)


def shape(schema: Struct) -> Struct:
    """Names, types and nullability alone: two schemas of the same shape give the same plan."""
    return map_fields(schema, lambda field: Field(name=field.name, type=field.type, nullable=field.nullable))
