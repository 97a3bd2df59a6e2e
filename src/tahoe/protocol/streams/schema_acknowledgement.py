"""Changes of a tracked schema that a user must acknowledge before the stream goes on: renamed and dropped columns, and
wider types. Pure.

The names of options and settings, and the hash of a query's checkpoint in them, are the reference's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tahoe.protocol.configuration.change_feed import stored_paths
from tahoe.protocol.configuration.column_mapping import physical_schema
from tahoe.protocol.streams.stream_schema import SchemaRules
from tahoe.protocol.types.schema import DataType, Struct
from tahoe.protocol.types.type_widening import widenings

ALWAYS = "always"
RENAME, DROP, TYPE_CHANGE = "allowSourceColumnRename", "allowSourceColumnDrop", "allowSourceColumnTypeChange"
ACKNOWLEDGING = (RENAME, DROP, TYPE_CHANGE)
_RENAME_AND_DROP = "allowSourceColumnRenameAndDrop"
_SETTING = "spark.databricks.delta.streaming."

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
        """The session's settings that acknowledge the change, without the hash of a checkpoint."""
        names = [_RENAME_AND_DROP, *self.options[2:]] if self.renamed and self.dropped else self.options
        return [_SETTING + name for name in names]

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
    named = tuple((now.get(path, path), old, new) for path, old, new in widened)
    found = SchemaChanges(renamed=renamed, dropped=dropped, widened=named)
    return found if renamed or dropped or widened else None


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
        setting: returns a setting of the session.
    """
    values = (ALWAYS, str(version))

    def allows(option: str, *others: str) -> bool:
        if options.get(option, "").lower() in values:
            return True
        names = [_SETTING + name for name in (option, *others)]
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
