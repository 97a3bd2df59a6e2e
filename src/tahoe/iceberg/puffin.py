"""Deletion vectors in Puffin files, as Iceberg's readers find them.

Iceberg's specification: "Deletion Vectors"; Puffin's: "File structure", `deletion-vector-v1`. The bytes of a vector are
the same in both formats. They are copied, because readers look for the footer of a Puffin file, which the log's files
of vectors do not have.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.puffin import MAGIC_BYTES, Footer, PuffinBlobMetadata
from pyiceberg.typedef import Record
from pyroaring import BitMap64

from tahoe.iceberg.manifest_files import RECORDS, field_of
from tahoe.iceberg.metadata_folder import MetadataFolder, Output
from tahoe.protocol.log.deletion_vector import decode_bitmap, encode_bitmap, framed, unframed

_BLOB = "deletion-vector-v1"
_REFERENCED, _CARDINALITY = "referenced-data-file", "cardinality"

# Iceberg's id of the position of a row in its file: what the blobs are about.
_POSITION_ID = 2_147_483_645

# What writers know only after they have committed; here it is in the manifests.
_UNKNOWN = -1

_NO_FLAGS = bytes(4)


def write_vectors(output: Output, vectors: Iterable[tuple[str, Record, BitMap64]]) -> list[DataFile]:
    """Write the deletion vectors of data files into one file.

    Args:
        vectors: the location of each data file, its partition, and its deleted rows.

    Returns:
        the entries of the vectors for a manifest.
    """
    content, blobs, told = bytearray(MAGIC_BYTES), list[PuffinBlobMetadata](), list[tuple[Record, int]]()
    for location, partition, rows in vectors:
        blob = framed(encode_bitmap(rows))
        blobs.append(
            PuffinBlobMetadata(
                type=_BLOB,
                fields=[_POSITION_ID],
                snapshot_id=_UNKNOWN,
                sequence_number=_UNKNOWN,
                offset=len(content),
                length=len(blob),
                properties={_REFERENCED: location, _CARDINALITY: str(len(rows))},
            )
        )
        told.append((partition, len(rows)))
        content += blob
    footer = Footer(blobs=blobs).model_dump_json().encode()
    content += MAGIC_BYTES + footer + len(footer).to_bytes(4, "little") + _NO_FLAGS + MAGIC_BYTES
    with output.create() as stream:
        stream.write(content)
    return [
        DataFile.from_args(
            RECORDS,
            content=DataFileContent.POSITION_DELETES,
            file_path=output.location,
            file_format=FileFormat.PUFFIN,
            partition=partition,
            record_count=cardinality,
            file_size_in_bytes=len(output),
            referenced_data_file=blob.properties[_REFERENCED],
            content_offset=blob.offset,
            content_size_in_bytes=blob.length,
        )
        for blob, (partition, cardinality) in zip(blobs, told, strict=True)
    ]


def read_vector(folder: MetadataFolder, vector: DataFile) -> BitMap64:
    """The rows that a vector deletes, from its entry.

    Raises:
        ValueError: its bytes are not those of a vector.
        FileNotFoundError: its file is missing.
    """
    place = (field_of(vector, name) for name in ("content_offset", "content_size_in_bytes"))
    return decode_bitmap(unframed(folder.read(vector.file_path, *place)))
