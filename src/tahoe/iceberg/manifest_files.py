"""The Avro files of manifests and of lists of manifests, in the format's versions 2 and 3.

Iceberg's specification: "Manifests", "Manifest Lists". PyIceberg has the schemas of both versions, and writes and reads
Avro; but its classes know the fields of version 2 alone. So records have the fields of version 3 here, and files of
version 2 lack the last of them. A data file of version 3 always tells its first row id: row tracking has assigned it
before the conversion, so that readers need not derive any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from pyiceberg.avro.codecs import AVRO_CODEC_KEY
from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    UNASSIGNED_SEQ,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
    construct_partition_summaries,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import StructType

from tahoe.iceberg import type_names
from tahoe.iceberg.metadata_folder import Output

FormatVersion = Literal[2, 3]

# The first version with row lineage.
ROW_LINEAGE_SINCE = 3

# The version whose fields all records have here.
RECORDS: FormatVersion = 3

# The last field of a manifest in a list: no data file without a first row id has a smaller one.
_FIRST_ROW_ID = len(MANIFEST_LIST_FILE_SCHEMAS[RECORDS].fields) - 1

# The places of a data file's fields.
_PLACES = {field.name: place for place, field in enumerate(DATA_FILE_TYPE[RECORDS].fields)}

_COMPRESSION: Literal["gzip"] = "gzip"  # Avro's deflate


def field_of(file: DataFile, name: str) -> Any:
    """A field of a data file, of those that version 3 has added."""
    return file[_PLACES[name]]


def write_manifest(
    version: FormatVersion,
    output: Output,
    entries: Sequence[ManifestEntry],
    *,
    content: ManifestContent,
    spec: PartitionSpec,
    schema: Schema,
    snapshot_id: int,
) -> ManifestFile:
    """Write a manifest of data files, or of deletion vectors.

    Returns:
        it as it is listed, without the numbers that the snapshot assigns.
    """
    partition = spec.partition_type(schema)
    header = {
        "schema": type_names.to_file(schema.model_dump_json()),
        "partition-spec": f"[{','.join(field.model_dump_json() for field in spec.fields)}]",
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(version),
        "content": content.name.lower(),
        AVRO_CODEC_KEY: _COMPRESSION,
    }
    with AvroOutputFile[ManifestEntry](
        output_file=output,
        file_schema=_entry_schema(version, partition),
        record_schema=_entry_schema(RECORDS, partition),
        schema_name="manifest_entry",
        metadata=header,
    ) as writer:
        writer.write_block(list(entries))
    return ManifestFile.from_args(
        RECORDS,
        manifest_path=output.location,
        manifest_length=len(output),
        partition_spec_id=spec.spec_id,
        content=content,
        sequence_number=UNASSIGNED_SEQ,
        added_snapshot_id=snapshot_id,
        partitions=construct_partition_summaries(spec, schema, [entry.data_file.partition for entry in entries]),
        key_metadata=None,
        first_row_id=None,
        **_totals(entries),
    )


# How a manifest names its entries of a status.
_STATUSES = {
    ManifestEntryStatus.ADDED: "added",
    ManifestEntryStatus.EXISTING: "existing",
    ManifestEntryStatus.DELETED: "deleted",
}


def _totals(entries: Sequence[ManifestEntry]) -> dict[str, int]:
    totals = {f"{name}_{what}_count": 0 for name in _STATUSES.values() for what in ("files", "rows")}
    for entry in entries:
        name = _STATUSES[entry.status]
        totals[f"{name}_files_count"] += 1
        totals[f"{name}_rows_count"] += entry.data_file.record_count
    numbers = (entry.sequence_number for entry in entries if entry.status != ManifestEntryStatus.DELETED)
    known = (number for number in numbers if number is not None)
    return {**totals, "min_sequence_number": min(known, default=UNASSIGNED_SEQ)}


def _entry_schema(version: FormatVersion, partition: StructType) -> Schema:
    return manifest_entry_schema_with_data_file(version, data_file_with_partition(partition, version))


def assign(manifest: ManifestFile, sequence_number: int, first_row_id: int | None) -> None:
    """Give a manifest the numbers of the snapshot that lists it first; one of an earlier snapshot keeps its own."""
    if manifest.sequence_number == UNASSIGNED_SEQ:
        manifest.sequence_number = sequence_number
    if manifest.min_sequence_number == UNASSIGNED_SEQ:
        manifest.min_sequence_number = sequence_number
    if manifest[_FIRST_ROW_ID] is None and manifest.content == ManifestContent.DATA:
        manifest[_FIRST_ROW_ID] = first_row_id


def write_list(
    version: FormatVersion, output: Output, manifests: Sequence[ManifestFile], told: Mapping[str, object]
) -> None:
    """Write a list of manifests.

    Args:
        told: about the snapshot, for the header of the file.
    """
    header = {name: "null" if value is None else str(value) for name, value in told.items()}
    with AvroOutputFile[ManifestFile](
        output_file=output,
        file_schema=MANIFEST_LIST_FILE_SCHEMAS[version],
        record_schema=MANIFEST_LIST_FILE_SCHEMAS[RECORDS],
        schema_name="manifest_file",
        metadata={**header, "format-version": str(version), AVRO_CODEC_KEY: _COMPRESSION},
    ) as writer:
        if manifests:
            writer.write_block(list(manifests))


class Input(Protocol):
    """What PyIceberg calls an input file."""

    def open(self, seekable: bool = True) -> Any: ...


def read_list(file: Input) -> list[ManifestFile]:
    """The manifests of a list."""
    with AvroFile[ManifestFile](
        file,
        MANIFEST_LIST_FILE_SCHEMAS[RECORDS],
        read_types={-1: ManifestFile, 508: PartitionFieldSummary},
        read_enums={517: ManifestContent},
    ) as reader:
        return list(reader)


def read_entries(manifest: ManifestFile, file: Input) -> list[ManifestEntry]:
    """The entries of a manifest for files that are there, with what they inherit from it."""
    with AvroFile[ManifestEntry](
        file,
        MANIFEST_ENTRY_SCHEMAS[RECORDS],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        entries = [entry for entry in reader if entry.status != ManifestEntryStatus.DELETED]
    for entry in entries:
        if entry.snapshot_id is None and manifest.added_snapshot_id is not None:
            entry.snapshot_id = manifest.added_snapshot_id
        if entry.status == ManifestEntryStatus.ADDED:
            if entry.sequence_number is None:
                entry.sequence_number = manifest.sequence_number
            if entry.file_sequence_number is None:
                entry.file_sequence_number = manifest.sequence_number
    return entries
