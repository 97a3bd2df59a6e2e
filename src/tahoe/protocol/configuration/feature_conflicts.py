"""What in a table's protocol and metadata breaks the rule of an active feature, as worded in an error message.

Protocol: "Writer Requirements for IcebergCompatV1" and V2, "Writer Requirements for Row Tracking"; the RFC
"IcebergCompatV3".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass

from tahoe.protocol.configuration.column_mapping import mapping_mode, stored_name
from tahoe.protocol.log.actions import Metadata, Protocol
from tahoe.protocol.types.column_metadata import CURRENT_DEFAULT
from tahoe.protocol.types.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    Array,
    DataType,
    Decimal,
    Geospatial,
    Map,
    Struct,
    walk_fields,
)
from tahoe.protocol.types.type_widening import is_widening_for_iceberg, recorded_changes

# The properties with the names of the columns in which data files keep row ids and versions.
ROW_ID_COLUMNS = (
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergCompat:
    """What a version of Iceberg compatibility asks of a table.

    Attributes:
        allows: whether the schema may have a type.
        columns: the types that it may not have, as worded in an error message.
        vectors: what must not be the case with deletion vectors; None if all may be.
        is_tracked: whether row tracking must be enabled, and default values be literals.
    """

    number: int
    allows: Callable[[DataType], bool]
    columns: str
    vectors: str | None
    is_tracked: bool = False

    def conflict(self, protocol: Protocol, metadata: Metadata) -> str | None:
        """What in a table breaks the rule; None if nothing does."""
        if mapping_mode(protocol, metadata.configuration) == "none":
            return "it requires delta.columnMapping.mode = name or id"
        others = [f"delta.enableIcebergCompatV{n}" for n in (1, 2, 3) if n != self.number]
        also = [name for name in others if _is_on(metadata, name) and _feature_of(name) in _features(protocol)]
        if also:
            return f"only one version can be active: set {', '.join(also)} = false"
        return self._of_vectors(protocol, metadata) or self._of_rows(metadata) or self._of_types(metadata.schema)

    def _of_vectors(self, protocol: Protocol, metadata: Metadata) -> str | None:
        is_there = "deletionVectors" in _features(protocol)  # no version without feature lists implies it
        if not is_there or self.vectors is None:
            return None
        return self.vectors if self.number == 1 or _is_on(metadata, "delta.enableDeletionVectors") else None

    def _of_rows(self, metadata: Metadata) -> str | None:
        if not self.is_tracked:
            return None
        if not _is_on(metadata, "delta.enableRowTracking"):
            return "it requires delta.enableRowTracking = true"
        computed = [
            ".".join(path)
            for path, field in walk_fields(metadata.schema)
            if (text := field.metadata.get(CURRENT_DEFAULT)) is not None and not _LITERAL.fullmatch(str(text).strip())
        ]
        return f"a default value must be a literal, unlike that of {', '.join(computed)}" if computed else None

    def _of_types(self, schema: Struct) -> str | None:
        changed = [
            ".".join(path)
            for path, before, after in recorded_changes(schema)
            if not is_widening_for_iceberg(before, after)
        ]
        if changed:
            return f"the type of {', '.join(changed)} was widened in a way that Iceberg does not support"
        columns = [
            ".".join(path)
            for path, field in walk_fields(schema)
            if not all(map(self.allows, _to_next_struct(field.type)))
        ]
        named = f"IcebergCompatV{self.number} does not support columns of type {self.columns}: {', '.join(columns)}"
        return f"{named}; drop or change them first" if columns else None


def _to_next_struct(kind: DataType) -> Iterator[DataType]:
    """A type, and its elements, keys and values: without the fields of structs."""
    yield kind
    match kind:
        case Array():
            yield from _to_next_struct(kind.element)
        case Map():
            yield from _to_next_struct(kind.key)
            yield from _to_next_struct(kind.value)
        case _:
            pass


def _is_on(metadata: Metadata, name: str) -> bool:
    return metadata.configuration.get(name, "").strip().lower() == "true"


def _feature_of(switch: str) -> str:
    return switch.removeprefix("delta.enable").replace("Iceberg", "iceberg")


def _features(protocol: Protocol) -> Set[str]:
    return protocol.writer_features or frozenset()


# A default value that is written down, and need not be computed. Texts that follow each other are one.
_TEXT = r"""('(\\.|[^'\\])*'|"(\\.|[^"\\])*")"""
_RAW_TEXT = r"""('[^']*'|"[^"]*")"""
_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?[a-z]{0,2}"
_LITERAL = re.compile(
    rf"null|true|false|{_NUMBER}|{_TEXT}(\s*{_TEXT})*|r{_RAW_TEXT}|(date|timestamp(_ntz|_ltz)?|x)\s*{_TEXT}",
    re.IGNORECASE | re.DOTALL,
)

_V2_TYPES = frozenset(
    {BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, STRING, BINARY, BOOLEAN, TIMESTAMP, TIMESTAMP_NTZ, DATE}
)


def _is_v2_type(kind: DataType) -> bool:
    return kind in _V2_TYPES or isinstance(kind, Decimal | Array | Map | Struct)


ICEBERG_COMPATS = (
    IcebergCompat(
        number=1,
        allows=lambda kind: kind != VOID and not isinstance(kind, Array | Map | Geospatial),
        columns="array, map, void, geometry or geography",
        vectors="the table supports deletion vectors, which Iceberg cannot read",
    ),
    IcebergCompat(
        number=2,
        allows=_is_v2_type,
        columns="void, variant, geometry or geography",
        vectors="it does not go with deletion vectors: set delta.enableDeletionVectors = false",
    ),
    IcebergCompat(
        number=3,
        allows=lambda kind: kind == VARIANT or isinstance(kind, Geospatial) or _is_v2_type(kind),
        columns="void",
        vectors=None,
        is_tracked=True,
    ),
)


def named_like_row_ids(protocol: Protocol, metadata: Metadata) -> str | None:
    """Protocol: "Writer Requirements for Row Tracking". The values of such a column would be taken for row ids."""
    mode = mapping_mode(protocol, metadata.configuration)
    kept = {name.lower() for key in ROW_ID_COLUMNS if (name := metadata.configuration.get(key))}
    taken = [
        column.name
        for column in metadata.schema
        if not kept.isdisjoint((column.name.lower(), stored_name(column, mode).lower()))
    ]
    return (
        f"data files keep row ids in columns named {', '.join(taken)}; rename or drop those of the table"
        if taken
        else None
    )
