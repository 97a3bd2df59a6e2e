"""The change data feed of one commit: which files, and which of their rows, contain the changes.

Protocol: "Add CDC File", "Change Data Files", "Reader Requirements for AddCDCFile". Works on actions only: data files
and deletion vectors are not read here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tahoe.protocol.configuration.column_mapping import Mode, mapping_mode, physical_schema, stored_name
from tahoe.protocol.log.actions import (
    Action,
    Add,
    Cdc,
    CommitInfo,
    DeletionVectorDescriptor,
    FileAction,
    Metadata,
    Protocol,
    Remove,
)
from tahoe.protocol.types.schema import LONG, STRING, TIMESTAMP, VOID, Array, DataType, Field, Map, Struct, walk_fields
from tahoe.protocol.types.type_widening import is_widening

# The columns that the feed adds after those of the table. Only the first one is stored in files.
CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"

# Where change data files are, below the table. Protocol: "Change Data Files".
CHANGE_DATA_FOLDER = "_change_data"
FIELDS = (
    Field(name=CHANGE_TYPE, type=STRING),
    Field(name=COMMIT_VERSION, type=LONG),
    Field(name=COMMIT_TIMESTAMP, type=TIMESTAMP),
)

Kind: TypeAlias = Literal["insert", "delete"]
"""The change type of all rows of a file without a `_change_type` column. Updates appear only in change data files."""


def taken_names(protocol: Protocol, metadata: Metadata) -> str | None:
    """Why a table cannot have the feed: its own columns have names of the feed's, also in data files. None if they have
    not.
    """
    own, mode = {field.name for field in FIELDS}, mapping_mode(protocol, metadata.configuration)
    taken = [
        column.name
        for column in metadata.schema
        if not own.isdisjoint((column.name.lower(), stored_name(column, mode).lower()))
    ]
    return (
        f"the feed adds columns of its own named {', '.join(taken)}; rename or drop those of the table first"
        if taken
        else None
    )


@dataclass(frozen=True, slots=True)
class Recorded:
    """A change data file: each row contains its own change type."""

    file: Cdc


@dataclass(frozen=True, slots=True)
class Whole:
    """A data file that was added or removed: all its rows, except those that its own deletion vector deletes."""

    kind: Kind
    file: FileAction


@dataclass(frozen=True, slots=True)
class DeletionVectorChange:
    """A data file whose deletion vector changed: the rows in the vector `marked` that are not in the vector `unless`.

    `file` is the action of the version in which these rows were live, so that its statistics apply. Its own vector is
    ignored.
    """

    kind: Kind
    file: FileAction
    marked: DeletionVectorDescriptor
    unless: DeletionVectorDescriptor | None


Change: TypeAlias = Recorded | Whole | DeletionVectorChange


def changed_files(actions: Sequence[Action], *, recorded: bool = True) -> tuple[FileAction | Cdc, ...]:
    """The files with a commit's changes, in its order: change data files if it has any, else the data files that it
    adds and removes.

    Args:
        recorded: whether change data files count.
    """
    files = tuple(action for action in actions if isinstance(action, Cdc)) if recorded else ()
    return files or tuple(action for action in actions if isinstance(action, Add | Remove) and action.data_change)


def changes_of(actions: Iterable[Action], canonical: Callable[[str], str], *, recorded: bool = True) -> list[Change]:
    """The changes of one commit, in the order of its actions.

    Args:
        actions: valid according to `protocol.replay.check_commit`.
        canonical: maps all spellings of a file's path to one.
        recorded: whether change data files tell the changes, if there are any. The data files that a commit adds and
            removes may also have rows that it only copied.
    """
    listed = list(actions)
    files = changed_files(listed, recorded=recorded)
    by_file: list[Change] = [Recorded(file) for file in files if isinstance(file, Cdc)]
    if by_file or changed_nothing(listed):
        return by_file
    adds = {canonical(file.path): file for file in files if isinstance(file, Add)}
    removes = {canonical(file.path): file for file in files if isinstance(file, Remove)}
    found: list[Change] = []
    for path, remove in removes.items():
        found.extend([Whole("delete", remove)] if path not in adds else _changes_between_vectors(adds[path], remove))
    found.extend(Whole("insert", add) for path, add in adds.items() if path not in removes)
    return found


def _changes_between_vectors(add: Add, remove: Remove) -> Iterator[DeletionVectorChange]:
    """The changes between a file's old and new vector. At least one exists: a commit cannot remove and add the same
    logical file.
    """
    before, after = remove.deletion_vector, add.deletion_vector
    if after is not None:
        values = add.partition_values if remove.partition_values is None else remove.partition_values
        yield DeletionVectorChange(
            "delete", remove.replace(partition_values=values, size_bytes=add.size_bytes), after, before
        )
    if before is not None:
        yield DeletionVectorChange("insert", add, before, after)


_COUNTS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


def changed_nothing(actions: Iterable[Action]) -> bool:
    """Whether a commit is a MERGE that changed no rows, for which the reference still rewrites files."""
    return any(isinstance(action, CommitInfo) and _is_idle_merge(action.fields) for action in actions)


def _is_idle_merge(info: Mapping[str, Any]) -> bool:
    metrics = info.get("operationMetrics")
    return (
        info.get("operation") == "MERGE"
        and isinstance(metrics, Mapping)
        and all(str(metrics.get(name)) == "0" for name in _COUNTS)
    )


# --- whether rows of an earlier version can be read with a later schema


def first_incompatibility(
    read: Metadata, read_mode: Mode | str, earlier: Metadata, mode: Mode | str, fit: Fit
) -> str | None:
    """Why rows written with earlier metadata cannot be read with the schema of later metadata; None if they can.

    Added columns and dropped NOT NULL constraints are compatible. Renamed columns are not: with column mapping, the
    name could silently read another column.

    Args:
        read_mode, mode: the column mapping modes of the later and the earlier metadata.
        fit: which differences are allowed.
    """
    if mode != "none" and read_mode == "none" and not fit.lacks:
        return "its column mapping, which was disabled later"
    if tuple(read.partition_columns) != tuple(earlier.partition_columns):
        return f"its partition columns ({', '.join(earlier.partition_columns) or 'none'})"
    moved = first_moved(read.schema, read_mode, earlier.schema, mode, lacks=fit.lacks)
    path = moved or first_unlike(earlier.schema, read.schema, (), fit)
    return None if path is None else f"its column {'.'.join(path)}"


def first_moved(
    read: Struct, read_mode: Mode | str, earlier: Struct, mode: Mode | str, *, lacks: bool = False
) -> tuple[str, ...] | None:
    """A column, at any depth, that was renamed, dropped or replaced later: its physical name differs. None without
    column mapping.

    Args:
        lacks: whether a column may be missing later. Columns that are there are then compared also where column mapping
            was disabled, by a RESTORE: some may have other names in the files.
    """
    if read_mode == "none" and not lacks:
        return None
    now = stored_paths(read, read_mode)
    return next(
        (
            path
            for path, stored in stored_paths(earlier, mode).items()
            if now.get(path, stored if lacks else None) != stored
        ),
        None,
    )


def stored_paths(schema: Struct, mode: Mode | str) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The physical path of every column at any depth, by its logical path."""
    paths = zip(walk_fields(schema), walk_fields(physical_schema(schema, mode)), strict=True)
    return {path: stored for (path, _), (stored, _) in paths}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Which differences are allowed between the schema with which rows were written and the one with which they are
    read.

    Attributes:
        widens: a column has a wider type.
        lacks: a column is missing.
        nulls: a column that is read as NOT NULL may contain nulls.
    """

    widens: bool = False
    lacks: bool = False
    nulls: bool = False


def first_unlike(earlier: DataType, read: DataType, path: tuple[str, ...], fit: Fit) -> tuple[str, ...] | None:
    """The first column whose rows cannot be read; None if all can. Columns that only `read` has are allowed."""
    match earlier, read:
        case Struct(), Struct():
            fields = ((f, read.find(f.name)) for f in earlier)
            return next((found for f, now in fields if (found := _unlike_field(f, now, (*path, f.name), fit))), None)
        case Array(), Array():
            if earlier.contains_null and not read.contains_null and not fit.nulls:
                return path
            return first_unlike(earlier.element, read.element, (*path, "element"), fit)
        case Map(), Map():
            if earlier.value_contains_null and not read.value_contains_null and not fit.nulls:
                return path
            inside = first_unlike(earlier.key, read.key, (*path, "key"), fit)
            return inside or first_unlike(earlier.value, read.value, (*path, "value"), fit)
        case _:
            return None if earlier in (read, VOID) or (fit.widens and is_widening(earlier, read)) else path


def _unlike_field(earlier: Field, read: Field | None, path: tuple[str, ...], fit: Fit) -> tuple[str, ...] | None:
    if read is None:
        return None if fit.lacks else path
    if read.name != earlier.name or (earlier.nullable and not read.nullable and not fit.nulls):
        return path
    return first_unlike(earlier.type, read.type, path, fit)
