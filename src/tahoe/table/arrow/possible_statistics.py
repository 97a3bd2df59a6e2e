"""Statistics that cannot be true are unknown: they exclude no file, and answer no query.

`tahoe.protocol.statistics.stats` has the rules, for one file; this module applies them to the statistics of many.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.statistics.stats import are_contradictory
from tahoe.protocol.types.partitions import INTEGER_BITS
from tahoe.protocol.types.schema import DataType, Primitive
from tahoe.table.arrow.chunks import one_array


def possible_counts(counts: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Numbers of rows or nulls; null where they are negative."""
    return pc.if_else(pc.greater_equal(counts, 0), counts, pa.scalar(None, counts.type))


def possible_nulls(nulls: pa.ChunkedArray, records: pa.ChunkedArray) -> pa.ChunkedArray:
    """Null counts; null where they are negative, or above the number of rows."""
    fits = pc.fill_null(pc.less_equal(nulls, records), True)
    return pc.if_else(pc.and_(pc.greater_equal(nulls, 0), fits), nulls, pa.scalar(None, nulls.type))


def possible_bounds(
    bounds: Mapping[str, pa.ChunkedArray], data_type: DataType, *, from_json: bool
) -> dict[str, pa.ChunkedArray]:
    """The minima and maxima of a column; null where they are no values of its type, or where a minimum is greater than
    its maximum.

    Args:
        bounds: `min` and `max`.
        from_json: whether the bounds were read from JSON, where an infinity is a number that is too large for the type.
    """
    inside = {name: _possible_values(column, data_type, from_json=from_json) for name, column in bounds.items()}
    low, high = inside["min"], inside["max"]
    suspects = np.flatnonzero(np.asarray(one_array(pc.fill_null(pc.less(high, low), False))))
    # a maximum that was cut may be below its minimum, which is no contradiction
    wrong = [row for row in suspects if are_contradictory(low[int(row)].as_py(), high[int(row)].as_py())]
    if not wrong:
        return inside
    mask = np.zeros(len(low), bool)
    mask[wrong] = True
    return {name: pc.if_else(pa.array(mask), pa.scalar(None, column.type), column) for name, column in inside.items()}


def _possible_values(column: pa.ChunkedArray, data_type: DataType, *, from_json: bool) -> pa.ChunkedArray:
    """The bounds of a column; null where they are no values of its type."""
    name = data_type.name if isinstance(data_type, Primitive) else ""
    if name in INTEGER_BITS and name != "long":
        limit = 1 << (INTEGER_BITS[name] - 1)
        fits = pc.and_(pc.greater_equal(column, -limit), pc.less(column, limit))
    elif name in ("float", "double") and from_json:
        fits = pc.invert(pc.is_inf(column))
    else:
        return column
    return column if pc.all(fits).as_py() is not False else pc.if_else(fits, column, pa.scalar(None, column.type))
