"""Loading deletion vectors from the log or from their files.

Protocol: "Deletion Vectors". The checksum, the size and the cardinality are verified, and no row beyond the file may be marked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tahoe.errors import DeletionVectorError
from tahoe.protocol.actions import DeletionVectorDescriptor
from tahoe.protocol.deletion_vector import decode_inline, decode_stored, vector_location
from tahoe.table.log import Log


def load_deletion_vector(log: Log, vector: DeletionVectorDescriptor, file: str, *, rows: int | None = None) -> npt.NDArray[np.int64]:
    """The row indexes that a vector marks as deleted, sorted.

    Args:
        log: of the table that the vector belongs to.
        file: the data file, for errors.

    Raises:
        DeletionVectorError: the vector is missing, damaged, or marks rows that the file (of `rows` rows) does not have.
    """
    deleted = np.fromiter(_bitmap(log, vector, file), dtype=np.int64, count=vector.cardinality)
    if rows is not None and len(deleted) and deleted[-1] >= rows:
        detail = f"it marks row {deleted[-1]}, and the file has {rows} rows"
        raise DeletionVectorError(table=log.url, vector=vector.unique_id, file=file, detail=detail)
    return deleted


def _bitmap(log: Log, vector: DeletionVectorDescriptor, file: str) -> Any:
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
