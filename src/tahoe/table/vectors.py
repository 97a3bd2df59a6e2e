"""Loading deletion vectors from the log or from their files.

Protocol: "Deletion Vectors". The checksum, the size and the cardinality are verified, and no row beyond the file may be marked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tahoe.errors import DeletionVectorError
from tahoe.protocol.actions import DeletionVectorDescriptor
from tahoe.protocol.deletion_vector import decode_inline, decode_stored, vector_location

if TYPE_CHECKING:
    from tahoe.table.snapshot import Snapshot


def load_deletion_vector(
    snapshot: Snapshot, vector: DeletionVectorDescriptor, file: str, *, rows: int | None = None
) -> npt.NDArray[np.int64]:
    """The row indexes that a vector marks as deleted, sorted.

    Raises:
        DeletionVectorError: the vector is missing, damaged, or marks rows that the file (of `rows` rows) does not have.
    """
    deleted = np.fromiter(_bitmap(snapshot, vector, file), dtype=np.int64, count=vector.cardinality)
    if rows is not None and len(deleted) and deleted[-1] >= rows:
        detail = f"it marks row {deleted[-1]}, and the file has {rows} rows"
        raise DeletionVectorError(table=snapshot.url, vector=vector.unique_id, file=file, detail=detail)
    return deleted


def _bitmap(snapshot: Snapshot, vector: DeletionVectorDescriptor, file: str) -> Any:
    location = vector_location(vector, snapshot.url)
    if location is None:
        return decode_inline(vector, table=snapshot.url, file=file)
    url, offset, length = location
    store, key = snapshot.log.locate(url)
    try:
        data = store.get_range(key, offset, length)
    except FileNotFoundError as error:
        raise DeletionVectorError(table=snapshot.url, vector=vector.unique_id, file=file, detail=f"its file {url} is missing") from error
    return decode_stored(data, vector, table=snapshot.url, file=file)
