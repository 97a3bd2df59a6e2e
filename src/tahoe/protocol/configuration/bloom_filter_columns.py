"""Which columns can have Bloom filters, and under which names files have them.

Knows nothing of how filters are written. A definition is checked when it is made; later another writer, which does not
know of it, may change its column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tahoe.errors import BloomFilterColumnError
from tahoe.protocol.configuration.bloom_filters import BloomFilter, Path
from tahoe.protocol.configuration.column_mapping import physical_path
from tahoe.protocol.types.names import dotted
from tahoe.protocol.types.schema import (
    BINARY,
    BYTE,
    DATE,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    Decimal,
    Field,
    Struct,
)

# Values that are equal in these types have equal bytes in files. Zero and minus zero are equal, and so are all NaN, but
# their bytes differ.
_TYPES = (BYTE, SHORT, INTEGER, LONG, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ)


def checked_filters(
    definitions: Iterable[BloomFilter], schema: Struct, partition_columns: Iterable[str], mode: str, *, table: str
) -> tuple[BloomFilter, ...]:
    """The definitions, spelled as in the schema.

    Raises:
        BloomFilterColumnError: a column does not exist, or cannot have filters.
    """
    found = []
    for definition in definitions:
        fields = schema.resolve(definition.path)
        why = _refusal(definition.path, fields, partition_columns, schema, mode)
        if why is not None:
            raise BloomFilterColumnError(table=table, column=dotted(definition.path), detail=why)
        assert fields is not None
        found.append(replace(definition, path=tuple(field.name for field in fields)))
    return tuple(found)


def filtered_columns(
    definitions: Iterable[BloomFilter], schema: Struct, partition_columns: Iterable[str], mode: str
) -> Mapping[str, BloomFilter]:
    """The columns of new files that get filters, by their dotted names in files.

    A definition is passed over if its column is gone or cannot have filters any more: another writer may have changed
    the table.
    """
    partitions, found = list(partition_columns), {}
    for definition in definitions:
        if _refusal(definition.path, schema.resolve(definition.path), partitions, schema, mode) is None:
            path = physical_path(schema, definition.path, mode)
            assert path is not None
            found[".".join(path)] = definition
    return found


def _refusal(
    path: Path, fields: tuple[Field, ...] | None, partition_columns: Iterable[str], schema: Struct, mode: str
) -> str | None:
    """Why a column cannot have filters; None if it can."""
    if fields is None:
        return f"the table has no such column (it has {', '.join(schema.names)})"
    if path[0].lower() in {name.lower() for name in partition_columns}:
        return "the table is partitioned by it, so that queries leave out files by its values already"
    if not has_filters(fields[-1].type):
        return f"it is of type {fields[-1].type}; {_why_not(fields[-1].type)}"
    physical = physical_path(schema, path, mode)
    if physical is None or any("." in name for name in physical):
        return "its name in data files has a dot, by which Parquet's writers separate the names of nested columns"
    return None


def has_filters(data_type: DataType) -> bool:
    """Whether columns of a type can have filters."""
    return data_type in _TYPES or isinstance(data_type, Decimal)


def _why_not(data_type: DataType) -> str:
    if isinstance(data_type, Struct):
        return "name one of its fields"
    return (
        "filters need integers, decimals, strings, binaries, dates or timestamps, whose equal values have equal bytes"
    )
