"""Positions: how commands identify the rows that they change, and find them again.

A position is one long: the number of the row's file in the version, and the row index in that file. Many positions are
aggregated into bitmaps by Spark's engine. Each bitmap covers a range of one file, so that the driver receives bits
instead of a list of positions.

Protocol: "Deletion Vectors".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap, BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

from tahoe.protocol.statistics.stats import num_records_of
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.local_rows import local_rows
from tahoe.spark.jvm.native_engine import runs_natively
from tahoe.spark.jvm.table_cache import within_text
from tahoe.spark.reading.deletion_vectors import BROADCAST_BYTES_MAX, KEY, WORDS, Chunks, bitmaps, key_and_word
from tahoe.spark.reading.metadata_columns import POSITION, ROW_BITS
from tahoe.spark.reading.scan import relation_of
from tahoe.table.log.deletion_vectors import row_indexes
from tahoe.table.reading.snapshot import Snapshot

# The size of Spark's own bitmaps (`bitmap_construct_agg`), in bits: 1 << 15 = 32,768 rows.
_STRETCH_BITS = 15
_STRETCH = 1 << _STRETCH_BITS

# Up to this many positions are collected as a list, of a table with at most this many files.
LISTED_ROWS_MAX = 1 << 22
_LISTED_FILES_MAX = 1000

# Up to this many positions are compared with an IN list instead of a join.
_COMPARED_MAX = 100

# The columns of a `gathering` query.
_AT, _BITS, _PLACE, MATCHES = "__tahoe_stretch", "__tahoe_bits", "__tahoe_one_place", "__tahoe_matches"


@dataclass(frozen=True, slots=True)
class Positions:
    """Rows of a version.

    Attributes:
        by_file: bitmaps of row indexes, by file number.
        matches: the number of matches; it exceeds the number of rows if rows matched more than once.
    """

    by_file: Mapping[int, BitMap64]
    matches: int

    @property
    def count(self) -> int:
        return sum(len(indexes) for indexes in self.by_file.values())


def positioned_rows(
    spark: SparkSession, snapshot: Snapshot, snapshot_name: str, within: Iterable[int] | None = None
) -> DataFrame:
    """The rows of a version, with their positions in `_metadata`.

    Args:
        snapshot_name: from `table_cache.hold`. Another snapshot of the same version may number the files differently.
        within: the numbers of the files to read; None for all files.
    """
    gateway = Gateway(spark)
    relation = relation_of(
        gateway, snapshot, None, pinned=True, positioned=True, within=within_text(snapshot_name, within)
    )
    return DataFrame(gateway.java_class("delta.Rows").all(relation), spark)


def position(metadata: Column) -> Column:
    """The position of a row, from the `_metadata` column of `positioned_rows`."""
    return metadata.getField(POSITION)


def gathering(rows: DataFrame, place: str, *by: str, are_few: bool) -> DataFrame:
    """The query that collects positions, grouped by other columns. Rows whose position is null are only counted.

    Args:
        place: the column of positions.
        by: the columns to group by.
        are_few: collect the positions as a list, which takes one stage; else as bitmaps.
    """
    column = F.col(place)
    if are_few:
        return rows.select(*by, column.alias(_PLACE), F.lit(1).alias(MATCHES))
    bit = F.coalesce(column.bitwiseAND(F.lit(_STRETCH - 1)), F.lit(0))
    return rows.groupBy(*by, F.shiftright(column, _STRETCH_BITS).alias(_AT)).agg(
        F.bitmap_construct_agg(bit).alias(_BITS), F.count(F.lit(1)).alias(MATCHES)
    )


def gathered_from(materialised: DataFrame, place: str, *by: str, are_few: bool) -> pa.Table:
    """The result of a `gathering` query over materialised rows.

    If `are_few` is false, the rows are counted first, because a list is faster than bitmaps, which Spark builds by
    sorting.
    """
    return gathering(materialised, place, *by, are_few=are_few or materialised.count() <= LISTED_ROWS_MAX).toArrow()


def positions_in(table: pa.Table) -> Positions:
    """The positions in the result of a `gathering` query."""
    if _PLACE in table.column_names:
        return _positions_of_list(table[_PLACE].drop_null().to_numpy())
    bitmap_rows = table.filter(pc.is_valid(table[_AT]))
    return Positions(_bitmaps(bitmap_rows), int(bitmap_rows[MATCHES].to_numpy().sum()))


def are_few(snapshot: Snapshot) -> bool:
    """Whether a version has so few rows and files that positions may be collected as a list."""
    if (
        not snapshot.live.is_listed or len(snapshot.live) > _LISTED_FILES_MAX
    ):  # the files of a large checkpoint are not counted for it
        return False
    records = [num_records_of(text) for text in snapshot.live.column("stats").to_pylist()]
    return None not in records and sum(count or 0 for count in records) <= LISTED_ROWS_MAX


def _positions_of_list(places: npt.NDArray[np.int64]) -> Positions:
    """The rows of each file, from positions in any order."""
    ordered = np.sort(places)
    files = ordered >> ROW_BITS
    starts = np.flatnonzero(np.diff(files, prepend=-1))
    parts = zip(files[starts].tolist(), np.split(ordered, starts[1:]), strict=True) if len(ordered) else ()
    return Positions({file: _bitmap(part & ((1 << ROW_BITS) - 1)) for file, part in parts}, len(places))


def _bitmaps(table: pa.Table) -> dict[int, BitMap64]:
    """The rows of each file, from Spark's bitmaps, each of which covers a range of one file."""
    shift = ROW_BITS - _STRETCH_BITS
    by_file: dict[int, BitMap64] = {}
    for stretch, bits in zip(table[_AT].to_pylist(), table[_BITS].to_pylist(), strict=True):
        places = np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little"))
        start = (stretch & ((1 << shift) - 1)) << _STRETCH_BITS
        file = stretch >> shift
        by_file[file] = by_file.get(file, BitMap64()) | _bitmap(start + places)
    return by_file


def _bitmap(indexes: npt.NDArray[np.int64]) -> BitMap64:
    """A bitmap of row indexes that share their upper 32 bits. It is built from serialised bytes, as pyroaring would add
    them one by one.
    """
    low = BitMap((indexes & 0xFFFFFFFF).astype(np.uint32)).serialize()
    return BitMap64.deserialize(struct.pack("<QI", 1, int(indexes[0]) >> 32) + low)


def with_flags(frame: DataFrame, positions: Positions, column: str, flag: str) -> DataFrame:
    """The frame with a boolean column `flag` that tells whether a row's position, in `column`, is among the given
    positions.
    """
    if positions.count <= _COMPARED_MAX:
        return frame.withColumn(
            flag,
            F.col(column).isin(
                [(file << ROW_BITS) | index for file, indexes in positions.by_file.items() for index in indexes]
            ),
        )
    place, is_native = f"`{column}`", runs_natively(Gateway(frame.sparkSession))
    key, word = key_and_word(place, apart=is_native)
    table = _chunks(positions).table(apart=is_native)
    chunks = local_rows(frame.sparkSession, table)
    if table.nbytes <= BROADCAST_BYTES_MAX:
        chunks = chunks.hint("broadcast")
    is_marked = F.expr(f"{WORDS} is not null and getbit({word}, cast({place} & 63 as int)) = 1")
    return frame.withColumn(KEY, F.expr(key)).join(chunks, KEY, "left").withColumn(flag, is_marked).drop(KEY, WORDS)


def _chunks(positions: Positions) -> Chunks:
    """The bitmaps of the positions, keyed by the upper bits of the positions that each bitmap covers."""
    files = sorted(positions.by_file.items())
    parts = [bitmaps((file << ROW_BITS) | row_indexes(indexes)) for file, indexes in files]
    return Chunks(
        np.concatenate([keys for keys, _ in parts]), np.concatenate([words for _, words in parts]).view(np.int64)
    )
