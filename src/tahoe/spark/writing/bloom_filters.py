"""The settings of Spark's Parquet writer for Bloom filters.

Pure. The writer keeps the filters of a row group in memory. If the number of a column's values is unknown, it keeps
filters of several sizes at first, drops those that become too small, and writes the smallest that is left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tahoe.protocol.configuration.bloom_filters import BloomFilter

_PREFIX = "parquet.bloom.filter."

# A filter of 4 MiB is for three million values at a rate of 1 %, about as many as a row group of 128 MB has texts of 36
# characters.
_BYTES_MAX = 4 << 20
# The sizes that are tried: 4 MiB down to 2 KiB.
_SIZES = 12

# Parquet's limit.
_BYTES_LIMIT = 128 << 20


def filter_settings(columns: Mapping[str, BloomFilter]) -> dict[str, str]:
    """Hadoop settings for data files.

    Args:
        columns: by their dotted names in files.
    """
    if not columns:
        return {}
    settings = {_PREFIX + "max.bytes": str(max(_BYTES_MAX, *map(_size_bytes, columns.values())))}
    for name, definition in columns.items():
        settings |= {f"{_PREFIX}enabled#{name}": "true", f"{_PREFIX}fpp#{name}": repr(definition.fpp)}
        if definition.num_items is None:
            settings |= {_PREFIX + "adaptive.enabled": "true", f"{_PREFIX}candidates.number#{name}": str(_SIZES)}
        else:
            settings[f"{_PREFIX}expected.ndv#{name}"] = str(definition.num_items)
    return settings


def _size_bytes(definition: BloomFilter) -> int:
    """The size of a filter for so many values, a power of two; 0 if their number is unknown. Specification: "Sizing an
    SBBF".
    """
    if definition.num_items is None:
        return 0
    bits = -8 * definition.num_items / math.log(1 - definition.fpp ** (1 / 8))
    return min(1 << math.ceil(math.log2(max(bits / 8, 32))), _BYTES_LIMIT)
