"""What in a table's protocol and metadata breaks the rule of an active feature, as worded in an error message.

Protocol: "Writer Requirements for IcebergCompatV1", "Writer Requirements for Row Tracking".
"""

from __future__ import annotations

from tahoe.protocol.configuration.column_mapping import mapping_mode, stored_name
from tahoe.protocol.log.actions import Metadata, Protocol
from tahoe.protocol.types.schema import VOID, Array, Map, walk_fields
from tahoe.protocol.types.type_widening import is_widening_for_iceberg, recorded_changes

# The properties with the names of the columns in which data files keep row ids and versions.
ROW_ID_COLUMNS = (
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)


def against_iceberg_v1(protocol: Protocol, metadata: Metadata) -> str | None:
    """Protocol: "Writer Requirements for IcebergCompatV1"."""
    if mapping_mode(protocol, metadata.configuration) == "none":
        return "it requires delta.columnMapping.mode = name or id"
    if "deletionVectors" in (protocol.writer_features or ()):  # no version without feature lists implies it
        return "the table supports deletion vectors, which Iceberg cannot read"
    changed = [
        ".".join(path)
        for path, before, after in recorded_changes(metadata.schema)
        if not is_widening_for_iceberg(before, after)
    ]
    if changed:
        return f"the type of {', '.join(changed)} was widened in a way that Iceberg does not support"
    columns = [
        ".".join(path)
        for path, field in walk_fields(metadata.schema)
        if isinstance(field.type, Array | Map) or field.type == VOID
    ]
    return (
        f"IcebergCompatV1 does not support columns of type array, map or void: {', '.join(columns)}"
        if columns
        else None
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
