"""The rows of a scan in the forms that users take: batches, data frames, counts.

Batches are read file by file and row group by row group when they are asked for, so that memory is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import PackageMissingError
from tahoe.storage.threads import CORES, in_threads
from tahoe.table.reading.rows import Files, data_files, file_reader, no_columns, row_pieces, rows_schema
from tahoe.table.reading.skipping import decided_by_partition

if TYPE_CHECKING:  # optional packages
    import pandas as pd
    import polars as pl

# The most rows of a batch. The values of few columns then fit into the caches of a processor.
BATCH_ROWS = 1 << 17


def batch_reader(
    scan: Files, columns: Sequence[str] | None = None, *, limit: int | None = None
) -> pa.RecordBatchReader:
    """The rows of a scan as a stream of batches, at most `limit` of them.

    Raises:
        ColumnNotFoundError: no such column; before anything is read.
        DeltaDataError: a file is not what the log says; while the batches are read.
    """
    return pa.RecordBatchReader.from_batches(rows_schema(scan, columns), _batches(scan, columns, limit))


def _batches(scan: Files, columns: Sequence[str] | None, limit: int | None) -> Iterator[pa.RecordBatch]:
    for piece in first_rows(row_pieces(scan, columns), limit):
        if piece.num_columns:
            yield from piece.to_batches(max_chunksize=BATCH_ROWS)
        elif piece.num_rows:
            yield pa.RecordBatch.from_struct_array(pa.array([{}] * piece.num_rows, pa.struct([])))


def first_rows(pieces: Iterator[pa.Table], limit: int | None) -> Iterator[pa.Table]:
    """The first rows of several tables; no more tables are asked for than needed."""
    if limit is None:
        yield from pieces
        return
    left = limit
    while left > 0 and (piece := next(pieces, None)) is not None:
        yield piece.slice(0, min(left, piece.num_rows)) if piece.num_columns else no_columns(min(left, piece.num_rows))
        left -= piece.num_rows


def count_rows(scan: Files) -> int:
    """How many rows a scan has: from the log for files whose partition values decide the predicate and that have a row
    count; others are read.
    """
    counts = pc.subtract(scan.num_records, scan.deleted_records)
    if scan.predicate is not None:
        decided = decided_by_partition(scan.snapshot, scan.predicate, scan.partition)
        counts = pc.if_else(decided, counts, 0)  # null where the rows decide
    told = int(pc.sum(counts).as_py() or 0)
    if not counts.null_count:
        return told
    read = file_reader(scan, [], by_group=True)
    untold = (file for file, is_untold in zip(data_files(scan), counts.is_null().to_pylist(), strict=True) if is_untold)
    return told + sum(in_threads(lambda file: sum(piece.num_rows for piece in read(file)), untold, CORES))


def pandas_frame(rows: pa.Table, *, table: str) -> pd.DataFrame:
    """
    Raises:
        PackageMissingError: pandas is not installed.
    """
    _check_installed("pandas", table)
    return rows.to_pandas()


def polars_frame(rows: pa.Table, *, table: str) -> pl.DataFrame:
    """
    Raises:
        PackageMissingError: Polars is not installed.
    """
    _check_installed("polars", table)
    import polars  # noqa: PLC0415 - an optional package

    return polars.DataFrame(rows)


def _check_installed(package: str, table: str) -> None:
    if find_spec(package) is None:
        raise PackageMissingError(table=table, what=f"a data frame of {package}", package=package)
