"""Loads deletion vectors from the log or from their files, and writes them.

Protocol: "Deletion Vectors". Loading verifies checksum, size and cardinality, and that no row index is beyond the file.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from tahoe.errors import DeletionVectorError, DeletionVectorMissingError
from tahoe.protocol.log.actions import DeletionVectorDescriptor, FileAction
from tahoe.protocol.log.deletion_vector import (
    ABSOLUTE,
    decode_inline,
    decode_stored,
    encode_bitmap,
    encode_vector_file,
    inline_descriptor,
    stored_descriptor,
    vector_file_path,
    vector_location,
)
from tahoe.storage.threads import load_all
from tahoe.table.log.delta_log import Log

# A smaller vector is stored inline in the log, which saves a file, and a request for each reader.
INLINE_BYTES_MAX = 256


def load_deletion_vector(
    log: Log, vector: DeletionVectorDescriptor, file: str, *, rows: int | None = None
) -> npt.NDArray[np.int64]:
    """The row indexes that a vector deletes, sorted.

    Args:
        log: of the table that the vector belongs to.
        file: the data file, for errors.
        rows: the number of rows of the file, if known.

    Raises:
        DeletionVectorError: the vector is missing or damaged, or deletes rows that the file does not have.
    """
    deleted = load_bitmap(log, vector, file)
    if rows is not None and deleted and deleted.max() >= rows:
        detail = f"it deletes row {deleted.max()}, but the file has {rows} rows"
        raise DeletionVectorError(table=log.url, vector=vector.unique_id, file=file, detail=detail)
    return row_indexes(deleted)


def row_indexes(rows: BitMap64) -> npt.NDArray[np.int64]:
    """The rows of a bitmap in order. Iterating over it in Python takes ten times as long."""
    return np.asarray(rows.to_array()).view(np.int64)


def deleted_rows(log: Log, file: FileAction) -> BitMap64:
    """The deleted rows of a file; empty if it has no vector.

    Raises:
        DeletionVectorError: the vector is missing or damaged.
    """
    return BitMap64() if file.deletion_vector is None else load_bitmap(log, file.deletion_vector, file.path)


def deleted_rows_of(log: Log, files: Sequence[FileAction]) -> list[BitMap64]:
    """The deleted rows of several files, loaded in parallel."""
    if sum(file.deletion_vector is not None for file in files) < 2:
        return [deleted_rows(log, file) for file in files]
    return list(load_all(lambda file: deleted_rows(log, file), files))


def load_bitmap(log: Log, vector: DeletionVectorDescriptor, file: str) -> BitMap64:
    location = vector_location(vector, log.url)
    if location is None:
        return decode_inline(vector, table=log.url, file=file)
    url, offset, length = location
    store, key = log.locate(url)
    try:
        data = store.get_range(key, offset, length)
    except FileNotFoundError as error:
        where = " of the table that this one is a shallow clone of" if vector.storage_type == ABSOLUTE else ""
        raise DeletionVectorMissingError(
            table=log.url, vector=vector.unique_id, file=file, url=url, where=where
        ) from error
    return decode_stored(data, vector, table=log.url, file=file)


def write_vectors(log: Log, bitmaps: Sequence[BitMap64], keys: list[str]) -> list[DeletionVectorDescriptor]:
    """Write vectors: small ones become part of their descriptors, all others share one new file.

    Args:
        keys: gets the key of the file before it is written, so that an interruption leaves none behind that nobody
            knows.

    Returns:
        a descriptor for each vector, in order.
    """
    encoded = [encode_bitmap(bitmap) for bitmap in bitmaps]
    large = [data for data in encoded if len(data) > INLINE_BYTES_MAX]
    content, offsets = encode_vector_file(large)
    name = uuid.UUID(log.env.new_id()).bytes if large else b""
    if large:
        keys.append(vector_file_path("", name))
        log.env.store.put(keys[-1], content)
    places = iter(offsets)
    return [
        inline_descriptor(bitmap)
        if len(data) <= INLINE_BYTES_MAX
        else stored_descriptor("", name, next(places), data, len(bitmap))
        for bitmap, data in zip(bitmaps, encoded, strict=True)
    ]
