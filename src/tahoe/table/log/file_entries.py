"""The files of a table as actions, and as rows of a table with the columns of `Add`.

Protocol: "Add File and Remove File".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from tahoe.protocol.log.actions import Add, decode_deletion_vector
from tahoe.table.log.file_parts import COLUMNS, SCHEMA


def to_table(adds: Sequence[Add]) -> pa.Table:
    """Actions as columns of `COLUMNS`."""
    columns = {}
    for name, column in COLUMNS.items():
        values = [getattr(add, name) for add in adds]
        if name == "deletion_vector":
            values = [None if v is None else _vector_row(v) for v in values]
        elif pa.types.is_map(column.type):
            values = [None if v is None else list(v.items()) for v in values]
        columns[name] = pa.array(values, column.type)
    return pa.table(columns, schema=SCHEMA)


def _vector_row(vector: Any) -> dict[str, Any]:
    return {
        "storageType": vector.storage_type,
        "pathOrInlineDv": vector.path_or_inline,
        "offset": vector.offset,
        "sizeInBytes": vector.size_bytes,
        "cardinality": vector.cardinality,
    }


def to_adds(table: pa.Table) -> Iterator[Add]:
    """The rows of a table with the columns `COLUMNS`, as actions."""
    for batch in table.to_batches():
        columns = {name: _values(batch.column(name)) for name in COLUMNS if name != "stats"}
        columns["stats"] = _statistics(batch.column("stats"))
        columns["deletion_vector"] = [decode_deletion_vector(vector) for vector in columns["deletion_vector"]]
        columns["partition_values"] = [values or {} for values in columns["partition_values"]]
        names = tuple(columns)
        for row in zip(*columns.values(), strict=True):
            yield Add(**dict(zip(names, row, strict=True)), data_change=False)


def _values(column: pa.Array) -> list[Any]:
    """The values of a column as Python has them. `to_pylist` takes a microsecond for each, and most columns need
    less.
    """
    if column.null_count == len(column):
        return [None] * len(column)
    if pa.types.is_integer(column.type) and not column.null_count:
        return list(column.to_numpy().tolist())
    if pa.types.is_string(column.type):
        return _texts(column)
    if pa.types.is_map(column.type) and not column.null_count and not len(column.items):
        return [{} for _ in range(len(column))]
    return list(column.to_pylist(maps_as_pydicts="lossy"))


def _texts(column: pa.Array) -> list[str | None]:
    try:
        return list(column.to_numpy(zero_copy_only=False).tolist())
    except pa.ArrowException:  # Arrow does not check that the texts of a checkpoint are UTF-8
        return list(column.to_pylist())


def _statistics(column: pa.Array) -> list[str | None]:
    """Statistics as text. Those that are not UTF-8 are ignored, as in a commit."""
    try:
        return _texts(column)
    except UnicodeDecodeError:
        return [_text(data) for data in column.cast(pa.binary()).to_pylist()]


def _text(data: bytes | None) -> str | None:
    with suppress(UnicodeDecodeError):
        return None if data is None else data.decode()
    return None
