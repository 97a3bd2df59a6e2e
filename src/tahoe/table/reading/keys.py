"""How well a column's statistics tell the files that have a value from those that do not.

Protocol: "Per-file Statistics".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tahoe.protocol.configuration.column_mapping import physical_path
from tahoe.protocol.statistics.stats import has_bounds
from tahoe.table.arrow.chunks import taken
from tahoe.table.arrow.statistics import StatisticsRequest, column_name, python_values
from tahoe.table.reading.scan import Scan, statistics_of

# Of more files, so many are looked at: a share of them is right within a few percent.
FILES_MAX = 1000


def share_of_files(scan: Scan, column: tuple[str, ...]) -> float:
    """The share of a scan's files whose bounds have a single value of a column between them, on average; 1 if that is
    not known.

    Args:
        column: a logical path. The values of partition columns are in no statistics.
    """
    snapshot = scan.snapshot
    fields = snapshot.schema.resolve(column)
    if fields is None or not has_bounds(fields[-1].type) or not scan.kept_files:
        return 1.0
    path = physical_path(snapshot.schema, tuple(field.name for field in fields), snapshot.column_mapping_mode)
    if path is None or fields[0].name.lower() in {name.lower() for name in snapshot.partition_columns}:
        return 1.0
    statistics = statistics_of(scan, StatisticsRequest({path: fields[-1].type}))
    lows, highs = (_sample(statistics.column(column_name(bound, path))) for bound in ("min", "max"))
    return _share(lows, highs)


def _sample(bounds: pa.ChunkedArray) -> list[Any]:
    rows = np.unique(np.linspace(0, len(bounds) - 1, min(len(bounds), FILES_MAX)).astype(np.int64))
    return python_values(taken(bounds, rows))


def _share(lows: Sequence[Any], highs: Sequence[Any]) -> float:
    """The share of ranges in which the least value of one of them lies, on average. A range with an unknown end may
    have any value.
    """
    known = [(low, high) for low, high in zip(lows, highs, strict=True) if low is not None and high is not None]
    try:
        starts, ends = sorted(low for low, _ in known), sorted(high for _, high in known)
        found = sum(bisect_right(starts, low) - bisect_left(ends, low) for low, _ in known)
    except TypeError:  # a bound that Python's calendar cannot represent
        return 1.0
    unknown = len(lows) - len(known)
    return (found / len(known) + unknown) / len(lows) if known else 1.0
