"""Loading deletion vectors from the log or from their files, and writing them.

Protocol: "Deletion Vectors". The checksum, the size and the cardinality are verified, and no row beyond the file may be marked.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from tahoe.errors import DeletionVectorError
from tahoe.protocol.actions import DeletionVectorDescriptor, FileAction
from tahoe.protocol.deletion_vector import (
    decode_inline,
    decode_stored,
    encode_bitmap,
    encode_vector_file,
    inline_descriptor,
    stored_descriptor,
    vector_file_path,
    vector_location,
)
from tahoe.table.log.delta_log import Log

# A vector of so few bytes is kept in the log: that saves a file, and a request for each reader.
INLINE_BYTES_MAX = 256

# Vectors are small: what takes time is waiting for the storage.
LOADERS = 16


def load_deletion_vector(log: Log, vector: DeletionVectorDescriptor, file: str, *, rows: int | None = None) -> npt.NDArray[np.int64]:
    """The row indexes that a vector marks as deleted, sorted.

    Args:
        log: of the table that the vector belongs to.
        file: the data file, for errors.

    Raises:
        DeletionVectorError: the vector is missing, damaged, or marks rows that the file (of `rows` rows) does not have.
    """
    deleted = np.fromiter(load_bitmap(log, vector, file), dtype=np.int64, count=vector.cardinality)
    if rows is not None and len(deleted) and deleted[-1] >= rows:
        detail = f"it deletes row {deleted[-1]}, but the file has {rows} rows"
        raise DeletionVectorError(table=log.url, vector=vector.unique_id, file=file, detail=detail)
    return deleted


def deleted_rows(log: Log, file: FileAction) -> BitMap64:
    """The rows of a file that its vector marks; none where it has no vector.

    Raises:
        DeletionVectorError: the vector is missing or damaged.
    """
    return BitMap64() if file.deletion_vector is None else load_bitmap(log, file.deletion_vector, file.path)


def deleted_rows_of(log: Log, files: Sequence[FileAction]) -> list[BitMap64]:
    """The same of several files, of which many are loaded at a time."""
    if sum(file.deletion_vector is not None for file in files) < 2:
        return [deleted_rows(log, file) for file in files]
    with ThreadPoolExecutor(LOADERS) as loaders:
        return list(loaders.map(lambda file: deleted_rows(log, file), files))


def load_bitmap(log: Log, vector: DeletionVectorDescriptor, file: str) -> BitMap64:
    location = vector_location(vector, log.url)
    if location is None:
        return decode_inline(vector, table=log.url, file=file)
    url, offset, length = location
    store, key = log.locate(url)
    try:
        data = store.get_range(key, offset, length)
    except FileNotFoundError as error:
        raise DeletionVectorError(table=log.url, vector=vector.unique_id, file=file, detail=f"its file {url} is missing") from error
    return decode_stored(data, vector, table=log.url, file=file)


def write_vectors(log: Log, bitmaps: Sequence[BitMap64]) -> tuple[list[DeletionVectorDescriptor], list[str]]:
    """Write vectors: the small ones become part of their descriptors, all others share one new file.

    Returns:
        a descriptor for each, in their order, and the keys of the files that were written.
    """
    encoded = [encode_bitmap(bitmap) for bitmap in bitmaps]
    large = [data for data in encoded if len(data) > INLINE_BYTES_MAX]
    content, offsets = encode_vector_file(large)
    name = uuid.UUID(log.env.new_id()).bytes if large else b""
    if large:
        log.env.store.put(vector_file_path("", name), content)
    places = iter(offsets)
    descriptors = [
        inline_descriptor(bitmap) if len(data) <= INLINE_BYTES_MAX else stored_descriptor("", name, next(places), data, len(bitmap))
        for bitmap, data in zip(bitmaps, encoded, strict=True)
    ]
    return descriptors, [vector_file_path("", name)] if large else []
