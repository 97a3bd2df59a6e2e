"""Finds data files that lack Bloom filters for which the table has definitions, for REORG ... APPLY (BLOOMFILTER).

Which filters a file has is in its footer.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from tahoe.protocol.configuration.bloom_filter_columns import filtered_columns
from tahoe.protocol.configuration.properties import BLOOM_FILTERS
from tahoe.table.reading.footers_mask import footers_mask
from tahoe.table.reading.scan import Scan

# The encodings of pages whose values are not in a dictionary.
_PLAIN = frozenset({"PLAIN", "DELTA_BINARY_PACKED", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"})


def lacks_filters(scan: Scan) -> npt.NDArray[np.bool_]:
    """For each file of a scan whether a column chunk lacks a filter that the table's definitions ask for.

    Raises:
        DataFileMissingError, InvalidDataFileError: a file is not what the log says.
    """
    snapshot = scan.snapshot
    definitions = BLOOM_FILTERS.get(snapshot.properties, table=snapshot.url)
    wanted = filtered_columns(definitions, snapshot.schema, snapshot.partition_columns, snapshot.column_mapping_mode)
    if not wanted:
        return np.zeros(scan.kept_files, bool)
    return footers_mask(scan, lambda parquet: _lacks(parquet.metadata, wanted))


def _lacks(footer: pq.FileMetaData, wanted: Collection[str]) -> bool:
    groups = (footer.row_group(number) for number in range(footer.num_row_groups))
    chunks = (group.column(number) for group in groups for number in range(group.num_columns))
    return any(chunk.path_in_schema in wanted and not _needs_none(chunk) for chunk in chunks)


def _needs_none(chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether a chunk has a filter, or has no values, or has all of them in a dictionary, which serves as a filter."""
    if getattr(chunk, "bloom_filter_offset", None) is not None:
        return True
    statistics = chunk.statistics
    is_empty = statistics is not None and statistics.has_null_count and statistics.null_count == chunk.num_values
    return is_empty or (chunk.has_dictionary_page and not _PLAIN & set(chunk.encodings))
