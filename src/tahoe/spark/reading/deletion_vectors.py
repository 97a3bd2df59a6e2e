"""Applies deletion vectors in a Spark plan, so that marked rows are left out.

The executors receive bitmaps of the marked rows; files without a vector are read by a separate scan at no additional
cost. There are three ways, by size:

- Small bitmaps are one array with the same number of words for each file.
- For larger ones, the number of a row's file and the upper bits of its index find a bitmap of 65,536 bits, or in a
  native engine of 64; only bitmaps with a marked row are sent.
- If the bitmaps are too large to broadcast, a Python function in the executors loads the vectors from storage.

The first two ways run as generated code.

Protocol: "Deletion Vectors".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from tahoe._cached import Recent
from tahoe.protocol.log.actions import DeletionVectorDescriptor, decode_deletion_vector
from tahoe.protocol.log.deletion_vector import inline_descriptor
from tahoe.spark.jvm.hadoop_store import is_hadoops
from tahoe.spark.jvm.local_rows import local_rows
from tahoe.spark.jvm.plans import dataset
from tahoe.spark.reading.metadata_columns import ROW_BITS, Output
from tahoe.spark.reading.scan import FILE_NUMBER, Reader, marked_files, unmarked_files
from tahoe.storage.threads import in_threads, load_all
from tahoe.table.log.deletion_vectors import load_deletion_vector
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.scan import Scan

# The number of rows of one file that a bitmap covers.
CHUNK_ROWS = 1 << 16
CHUNK_BYTES = CHUNK_ROWS // 8
CHUNK_WORDS = CHUNK_BYTES // 8
_CHUNK_BITS = CHUNK_ROWS.bit_length() - 1
_WORD_BITS = 6
_FILE_SHIFT = ROW_BITS - _CHUNK_BITS

# Every task of a scan receives the array again. A lookup in it takes about a third of the time of a lookup by key.
ARRAY_BYTES_MAX = 16 << 20

# The driver holds about three copies of a broadcast, and each executor one.
BROADCAST_BYTES_MAX = 256 << 20

# A native engine's join takes some 30 bytes for each key, in each executor.
MARKS_MAX = 4_000_000

# The optimizer compares plans with all of their rows, many times for each query. So many keys are one row.
MARKS_OF_A_ROW = 1 << 13

# How many scans' bitmaps are kept for the next query.
KEPT_MAX = 4

# How many vectors a Python worker process keeps. Few are enough, because rows come file by file.
WORKER_VECTORS_MAX = 8

ROW = "__tahoe_row"
KEY = "__tahoe_key"
WORDS = "__tahoe_words"


def unmarked_rows(reader: Reader, scan: Scan, output: Output) -> DataFrame:
    """The rows of a scan that no deletion vector marks."""
    listing = scan.files
    rows, rest = _by_vectors(reader, scan, marked_files(listing), output), unmarked_files(listing)
    return rows.unionAll(reader.rows(scan, "unmarked", _size(rest), output)) if rest.num_rows else rows


def marked_rows(reader: Reader, scan: Scan, output: Output) -> DataFrame:
    """The rows of a scan that the deletion vectors mark. Precondition: every file of the scan has a vector."""
    return _by_vectors(reader, scan, marked_files(scan.files), output, keeps=True)


def _size(listing: pa.Table) -> int:
    return int(pc.sum(listing["size_bytes"]).as_py() or 0)


def _by_vectors(reader: Reader, scan: Scan, marked: pa.Table, output: Output, *, keeps: bool = False) -> DataFrame:
    """The rows of `marked_files`: the unmarked rows, or with `keeps` the marked rows."""
    vectors = _vectors(marked)
    scan_columns = [*output.scan_columns, f"{output.row_index} as {ROW}", FILE_NUMBER]
    partitions, data = (FILE_NUMBER, *output.partitions), output.data(indexed=True)
    rows = reader.dataframe(scan, "marked", _size(marked), scan_columns, partitions=partitions, data=data)
    final_columns = output.final_columns
    marks = _marks_of(reader, vectors) if reader.is_native else None
    if marks is not None:
        java_rows = reader.gateway.java_class("delta.Rows").byKeys(
            dataset(rows), _PLACE, dataset(marks), keeps, "\0".join(final_columns)
        )
        return DataFrame(java_rows, reader.gateway.spark)
    bitmaps = _bitmaps_of(reader, vectors)
    if bitmaps is None:
        is_alive = _loading_function(reader.snapshot.log, _for_workers(reader.snapshot.log, vectors))
        alive = is_alive(F.col(FILE_NUMBER), F.col(ROW))
        return rows.where(~alive if keeps else alive).selectExpr(*final_columns)
    bit = int(keeps)
    if bitmaps.stride is not None:
        place = f"cast({FILE_NUMBER} * {bitmaps.stride} + least(shiftright({ROW}, 6), {bitmaps.stride - 1}) as int)"
        condition = f"getbit(get({WORDS}, {place}), {_BIT}) = {bit}"
        java_rows = reader.gateway.java_class("delta.Rows").where(
            dataset(rows), condition, WORDS, dataset(bitmaps.frame), "\0".join(final_columns)
        )
        return DataFrame(java_rows, reader.gateway.spark)
    key, word = key_and_word(_PLACE, apart=reader.is_native)
    joined = rows.withColumn(KEY, F.expr(key)).join(bitmaps.frame.hint("broadcast"), KEY, "left")
    beyond = "" if keeps else f"{WORDS} is null or "
    return joined.where(f"{beyond}getbit({word}, {_BIT}) = {bit}").selectExpr(*final_columns)


def key_and_word(place: str, *, apart: bool) -> tuple[str, str]:
    """The key that finds the words of a row in the `table` of some chunks, and the word for the row, as SQL.

    Args:
        place: of the row, as SQL: `file number << ROW_BITS | row index`.
        apart: whether each word has a key of its own.
    """
    if apart:
        return f"shiftright({place}, {_WORD_BITS})", WORDS
    return (
        f"shiftright({place}, {_CHUNK_BITS})",
        f"{WORDS}[cast(shiftright({place}, {_WORD_BITS}) & {CHUNK_WORDS - 1} as int)]",
    )


_PLACE = f"(shiftleft({FILE_NUMBER}, {ROW_BITS}) | {ROW})"
_BIT = f"cast({ROW} & 63 as int)"


@dataclass(frozen=True, slots=True)
class Marked:
    """A deletion vector, and the url of its data file."""

    vector: DeletionVectorDescriptor
    url: str


def _vectors(marked: pa.Table) -> list[Marked]:
    """The vectors of files, in the order in which the scan numbers them."""
    vectors = []
    for fields, url in zip(marked["deletion_vector"].to_pylist(), marked["url"].to_pylist(), strict=True):
        vector = decode_deletion_vector(fields)
        assert vector is not None
        vectors.append(Marked(vector, url))
    return vectors


# --- bitmaps


@dataclass(frozen=True, slots=True)
class Bitmaps:
    """The marked rows of a scan's files, as a DataFrame.

    Attributes:
        frame: one row with the words of all files, or one row per bitmap with its key and words.
        stride: the number of words per file in the single row. The last word of a file is zero and stands for all rows
            after the last marked one. None if the bitmaps have keys.
    """

    frame: DataFrame
    stride: int | None


_recent_bitmaps: Recent[tuple[Any, ...], Bitmaps] = Recent(KEPT_MAX)
_recent_marks: Recent[tuple[Any, ...], DataFrame] = Recent(KEPT_MAX)


def _bitmaps_of(reader: Reader, vectors: Sequence[Marked]) -> Bitmaps | None:
    """The bitmaps of files, or None if they are too large to broadcast.

    Scans with the same vectors get the same DataFrame, so that Spark can reuse one broadcast.
    """
    spark = reader.gateway.spark
    key = _identity(reader, vectors)
    kept_bitmaps = _recent_bitmaps.get(key)
    if kept_bitmaps is not None:
        return kept_bitmaps
    chunks = chunks_of(reader.snapshot.log, vectors)
    if chunks is None:
        return None
    words = ArrayType(LongType(), False)
    words_by_file = chunks.flat(len(vectors))
    if words_by_file is not None:
        table = pa.table({WORDS: pa.array([words_by_file.reshape(-1)])})
        return _recent_bitmaps.put(
            key,
            Bitmaps(local_rows(spark, table, StructType([StructField(WORDS, words, False)])), words_by_file.shape[1]),
        )
    schema = StructType(
        [StructField(KEY, LongType(), False), StructField(WORDS, LongType() if reader.is_native else words, False)]
    )
    return _recent_bitmaps.put(key, Bitmaps(local_rows(spark, chunks.table(apart=reader.is_native), schema), None))


def _identity(reader: Reader, vectors: Sequence[Marked]) -> tuple[Any, ...]:
    """What tells the vectors of a session's scans apart."""
    context, session = reader.gateway.spark.sparkContext.applicationId, reader.gateway.session.sessionUUID()
    vectors_of = tuple(marked.vector.unique_id for marked in vectors)
    return context, session, reader.is_native, reader.snapshot.url, reader.identity, vectors_of


@dataclass(frozen=True, slots=True)
class Chunks:
    """Bitmaps that each cover `CHUNK_ROWS` rows of a file and have at least one bit set.

    Attributes:
        keys: which rows each bitmap covers: their `file number << ROW_BITS | row index`, without the lower 16 bits.
        words: an array of shape (bitmaps, `CHUNK_WORDS`).
    """

    keys: npt.NDArray[np.int64]
    words: npt.NDArray[np.int64]

    def flat(self, files: int) -> npt.NDArray[np.int64] | None:
        """The words as an array of shape (files, stride), whose last column is zero and stands for all rows after the
        last marked one; None if it exceeds `ARRAY_BYTES_MAX`.

        Precondition: the files are numbered from zero.
        """
        # where a bitmap's words begin in the words of its file, and how many of them are left without zeros at the end
        first = (self.keys & ((1 << _FILE_SHIFT) - 1)) * CHUNK_WORDS
        used = CHUNK_WORDS - np.argmax(self.words[:, ::-1] != 0, axis=1)
        stride = int(np.max(first + used, initial=0)) + 1
        if files * stride * 8 > ARRAY_BYTES_MAX:
            return None
        by_file = np.zeros((files, stride), dtype=np.int64)
        for file, start, count, words in zip(self.keys >> _FILE_SHIFT, first, used, self.words, strict=True):
            by_file[file, start : start + count] = words[:count]
        return by_file

    def table(self, *, apart: bool = False) -> pa.Table:
        """The bitmaps with their keys.

        Args:
            apart: for each word with a bit set its own key, `key * CHUNK_WORDS + number of the word`. A native join
                copies what it finds, for each row of the table; a bitmap would cost more than all the rest of a query.
        """
        if apart:
            chunk, number = np.nonzero(self.words)
            return pa.table({KEY: self.keys[chunk] * CHUNK_WORDS + number, WORDS: self.words[chunk, number]})
        offsets = np.arange(0, self.words.size + 1, CHUNK_WORDS, dtype=np.int32)
        return pa.table(
            {KEY: self.keys, WORDS: pa.ListArray.from_arrays(pa.array(offsets), pa.array(self.words.reshape(-1)))}
        )


def chunks_of(log: Log, vectors: Sequence[Marked], bytes_max: int | None = None) -> Chunks | None:
    """The bitmaps of files, which are numbered in the order of `vectors`; None if they are too large to broadcast.

    Args:
        bytes_max: the limit; `BROADCAST_BYTES_MAX` by default.

    Raises:
        DeletionVectorError: a vector is missing or damaged.
    """
    chunks_max = (BROADCAST_BYTES_MAX if bytes_max is None else bytes_max) // CHUNK_BYTES
    if len(vectors) > chunks_max:  # each vector needs at least one bitmap
        return None
    keys: list[npt.NDArray[np.int64]] = []
    words: list[npt.NDArray[np.uint64]] = []
    count = 0
    for number, rows in enumerate(
        in_threads(lambda marked: load_deletion_vector(log, marked.vector, marked.url), vectors)
    ):
        chunks, bits = bitmaps(rows)
        count += len(chunks)
        if count > chunks_max:
            return None
        keys.append((np.int64(number) << _FILE_SHIFT) | chunks)
        words.append(bits)
    return Chunks(np.concatenate(keys), np.concatenate(words).view(np.int64))


def bitmaps(rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """The bitmaps for sorted row indexes: the numbers of the bitmaps that contain a row, and their words, one line per
    bitmap.
    """
    chunks, line = np.unique(rows >> 16, return_inverse=True)
    words = np.zeros((len(chunks), CHUNK_WORDS), dtype=np.uint64)
    np.bitwise_or.at(words, (line, (rows >> 6) & (CHUNK_WORDS - 1)), np.uint64(1) << (rows & 63).astype(np.uint64))
    return chunks, words


# --- marked rows by their keys, for a native engine


def _marks_of(reader: Reader, vectors: Sequence[Marked]) -> DataFrame | None:
    """The keys of the marked rows, as a DataFrame; None if they are too many to broadcast.

    A native engine joins with them. It can do nothing with a bitmap: it has no arrays as values of subqueries.
    """
    if sum(marked.vector.cardinality for marked in vectors) > MARKS_MAX:
        return None
    spark = reader.gateway.spark
    key = _identity(reader, vectors)
    marks = _recent_marks.get(key)
    if marks is not None:
        return marks
    loaded = load_all(lambda marked: load_deletion_vector(reader.snapshot.log, marked.vector, marked.url), vectors)
    keys = np.concatenate([(np.int64(number) << ROW_BITS) | rows for number, rows in enumerate(loaded)])
    ends = np.append(np.arange(0, len(keys), MARKS_OF_A_ROW, dtype=np.int32), np.int32(len(keys)))
    lists = pa.table({KEY: pa.ListArray.from_arrays(pa.array(ends), pa.array(keys))})
    few = local_rows(spark, lists, StructType([StructField(KEY, ArrayType(LongType(), False), False)]))
    return _recent_marks.put(key, few.select(F.explode(KEY).alias(KEY)))


# --- vectors that are too large to broadcast


def _for_workers(log: Log, vectors: Sequence[Marked]) -> Sequence[Marked]:
    """The vectors in a form that workers can load. Those that only the driver can read, through Hadoop, become
    inline vectors.
    """
    if not is_hadoops(log.url):
        return vectors
    loaded = load_all(lambda marked: inline_descriptor(load_deletion_vector(log, marked.vector, marked.url)), vectors)
    return [Marked(vector, marked.url) for vector, marked in zip(loaded, vectors, strict=True)]


def _loading_function(log: Log, vectors: Sequence[Marked]) -> Callable[[Column, Column], Column]:
    """A UDF of (file number, row index) that is true for unmarked rows. It needs tahoe in the executors' Python."""

    def is_alive(numbers: pa.Array, rows: pa.Array) -> pa.Array:
        return _is_alive(log, vectors, numbers, rows)

    function: Callable[[Column, Column], Column] = F.arrow_udf(is_alive, "boolean")  # type: ignore[attr-defined]
    return function


_worker_vectors: Recent[tuple[str, str], npt.NDArray[np.int64]] = Recent(WORKER_VECTORS_MAX)


def _is_alive(log: Log, vectors: Sequence[Marked], numbers: pa.Array, rows: pa.Array) -> pa.Array:
    """For each row of a batch, whether its file's vector does not mark it."""
    file_numbers, indexes = numbers.to_numpy(zero_copy_only=False), rows.to_numpy(zero_copy_only=False)
    alive = np.ones(len(indexes), dtype=bool)
    for number in np.unique(file_numbers):
        of_file = file_numbers == number
        alive[of_file] = ~_contains(_worker_vector(log, vectors[int(number)]), indexes[of_file])
    return pa.array(alive)


def _contains(marked: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """For each row, whether it is in `marked`, which is sorted."""
    if not len(marked):
        return np.zeros(len(rows), dtype=bool)
    places = np.searchsorted(marked, rows)
    is_marked: npt.NDArray[np.bool_] = marked[np.minimum(places, len(marked) - 1)] == rows
    return is_marked


def _worker_vector(log: Log, marked: Marked) -> npt.NDArray[np.int64]:
    key = (log.url, marked.vector.unique_id)
    rows = _worker_vectors.get(key)
    return _worker_vectors.put(key, load_deletion_vector(log, marked.vector, marked.url)) if rows is None else rows
