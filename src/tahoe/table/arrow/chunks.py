"""Operations on text columns that are too large for one Arrow array.

The offsets of a string array have 32 bits, so it cannot hold more than two gigabytes of text. Arrow fails if it must
combine such chunks: in `take`, `sort_by` and `combine_chunks`. Columns that grow with the number of files or rows are
processed by this module, chunk by chunk. Knows nothing of Delta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# The limit for one array: half of its capacity, because a path grows when it becomes a url.
TEXT_BYTES_MAX = 1 << 30

# The number of rows that are processed together if each may become longer.
_PIECE_ROWS = 1 << 18

# The number of rows that are reordered together.
_SORTED_ROWS = 1 << 16


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The values of a column as one array: fixed-width values of any number of files, or texts of a batch.

    Raises:
        OverflowError: the text is too large for one array; the caller must work chunk by chunk.
    """
    if isinstance(column, pa.Array):
        return column
    if not _is_fixed(column.type) and column.nbytes > TEXT_BYTES_MAX:
        raise OverflowError(f"{column.nbytes} bytes of {column.type} do not fit into one array")
    return column.combine_chunks()


def _is_fixed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


def text_bytes(texts: pa.StringArray) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Where each text begins, and the bytes of all texts one after the other, without a copy. The last place is the
    end.
    """
    _, offsets, data = texts.buffers()
    places = (
        np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        if offsets
        else np.zeros(1, np.int32)
    )
    content = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    return places - places[0], content[places[0] : places[-1]]


def taken(column: pa.ChunkedArray, rows: pa.Array | npt.NDArray[np.integer]) -> pa.ChunkedArray:
    """Some rows of a column, by ascending positions, chunk by chunk."""
    if column.num_chunks == 1:
        return pa.chunked_array([column.chunk(0).take(pa.array(rows))], type=column.type)
    positions = np.asarray(rows)
    chunks, start = [], 0
    for chunk in column.chunks:
        low, high = np.searchsorted(positions, [start, start + len(chunk)])
        if high > low:
            chunks.append(chunk.take(pa.array(positions[low:high] - start)))
        start += len(chunk)
    return pa.chunked_array(chunks, type=column.type)


def with_columns(rows: pa.Table, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
    """Rows with other values of some columns, and with further columns at the end, all at once: a table is copied for
    each column that is set alone.
    """
    if not columns:
        return rows
    fields = {field.name: field for field in rows.schema} | {
        name: pa.field(name, column.type) for name, column in columns.items()
    }
    return pa.table(
        [columns[name] if name in columns else rows.column(name) for name in fields], schema=pa.schema(fields.values())
    )


def taken_table(table: pa.Table, rows: pa.Array | npt.NDArray[np.integer]) -> pa.Table:
    """Some rows of a table, by ascending positions."""
    if not table.num_columns:
        return table.take(rows)
    return pa.table([taken(column, rows) for column in table.columns], schema=table.schema)


def joined_table(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of several tables in as few chunks as their texts fit into."""
    return pa.concat_tables(tables).combine_chunks()


def is_in(keys: pa.ChunkedArray, known: pa.ChunkedArray) -> pa.ChunkedArray:
    """For each key, whether it is one of the known values, whose texts may be too large for one array."""
    found = pa.chunked_array([pa.repeat(pa.scalar(False), len(keys))])
    for chunk in joined_table([pa.table({"": known})]).column(0).chunks:
        found = pc.or_(found, pc.is_in(keys, value_set=chunk))
    return found


def reordered(column: pa.ChunkedArray, rows: pa.Array) -> pa.ChunkedArray:
    """Some rows of a column, by positions in any order."""
    return reordered_table(pa.table({"": column}), rows).column(0)


def reordered_table(table: pa.Table, rows: pa.Array | npt.NDArray[np.integer]) -> pa.Table:
    """Some rows of a table, by positions in any order."""
    order = np.asarray(rows)
    pieces = [_in_order(table, order[start : start + _SORTED_ROWS]) for start in range(0, len(order), _SORTED_ROWS)]
    return pa.concat_tables(pieces) if pieces else table.slice(0, 0)


def sorted_table(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Sort the rows by some columns, ascending. The sort is stable."""
    return reordered_table(table, pc.sort_indices(table, sort_keys=[(key, "ascending") for key in keys]))


def _in_order(table: pa.Table, rows: npt.NDArray[np.integer]) -> pa.Table:
    rising = np.sort(rows)
    piece = taken_table(table, rising)
    if piece.nbytes > TEXT_BYTES_MAX and len(rows) > 1:
        half = len(rows) // 2
        return pa.concat_tables([_in_order(table, rows[:half]), _in_order(table, rows[half:])])
    return piece.take(pa.array(np.searchsorted(rising, rows)))


def replaced(
    column: pa.ChunkedArray,
    mask: pa.ChunkedArray,
    change: Callable[[str], str | None],
    others: Callable[[pa.Array], pa.Array] | None = None,
) -> pa.ChunkedArray:
    """Apply `change` to each text under a mask, and `others`, if given, to all other texts at once."""
    chunks, start = [], 0
    for piece in _pieces(column):
        changed = piece if others is None else others(piece)
        odd = one_array(mask.slice(start, len(piece)))
        if pc.any(odd).as_py():
            changed = pc.replace_with_mask(
                changed, odd, pa.array([change(text) for text in piece.filter(odd).to_pylist()], pa.string())
            )
        chunks.append(changed)
        start += len(piece)
    return pa.chunked_array(chunks, type=pa.string())


def _pieces(column: pa.ChunkedArray) -> Iterator[pa.Array]:
    for chunk in column.chunks:
        for start in range(0, len(chunk), _PIECE_ROWS):
            yield chunk.slice(start, _PIECE_ROWS)
