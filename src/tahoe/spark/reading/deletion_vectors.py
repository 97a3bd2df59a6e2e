"""Leaving out the rows that deletion vectors mark, as a plan of Spark's.

Bitmaps with the marked rows are sent to the executors, and files without a vector are read beside at no cost. Small ones are one array, in
which each file has as many words; in larger ones each row has a key, `file << 32 | row index >> 16`, that finds a bitmap of 65,536 bits,
and only bitmaps with a marked row are sent. Both are generated code. What is too large to broadcast is asked of a function in the
executors, which load the vectors from storage themselves.

Protocol: "Deletion Vectors".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from tahoe.protocol.actions import DeletionVectorDescriptor, decode_deletion_vector
from tahoe.protocol.deletion_vector import inline_descriptor
from tahoe.spark.jvm.hadoop_store import HadoopStore
from tahoe.spark.jvm.plans import dataset
from tahoe.spark.jvm.table_cache import Recent
from tahoe.spark.reading.metadata_columns import Output
from tahoe.spark.reading.scan import FILE_NUMBER, Reader
from tahoe.table.log.deletion_vectors import LOADERS, load_deletion_vector
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.scan import Scan

# A bitmap covers so many rows of one file.
CHUNK_ROWS = 1 << 16
CHUNK_BYTES = CHUNK_ROWS // 8
CHUNK_WORDS = CHUNK_BYTES // 8

# Each task of a scan gets the array anew. Looking a row up takes about a third of the time that finding its bitmap by a key takes.
ARRAY_BYTES_MAX = 16 << 20

# The driver holds what is broadcast about three times over, and each executor once.
BROADCAST_BYTES_MAX = 256 << 20

# Broadcast tables that are kept for the next query.
KEPT_MAX = 4

# A worker process keeps the vectors that it read last: rows come file by file.
WORKER_VECTORS_MAX = 8

ROW = "__tahoe_row"
KEY = "__tahoe_key"
WORDS = "__tahoe_words"


def unmarked_rows(reader: Reader, scan: Scan, output: Output) -> DataFrame:
    """The rows of a scan that no vector marks."""
    listing = scan.files
    is_marked = pc.is_valid(listing["deletion_vector"])
    marked, rest = listing.filter(is_marked), listing.filter(pc.invert(is_marked))
    rows = _by_vectors(reader, scan, marked, output)
    return rows.unionAll(reader.rows(scan, "unmarked", _size(rest), output)) if rest.num_rows else rows


def marked_rows(reader: Reader, scan: Scan, output: Output) -> DataFrame:
    """The rows of a scan, all of whose files have a vector, that the vectors mark."""
    return _by_vectors(reader, scan, scan.files, output, keeps=True)


def _size(listing: pa.Table) -> int:
    return int(pc.sum(listing["size_bytes"]).as_py() or 0)


def _by_vectors(reader: Reader, scan: Scan, marked: pa.Table, output: Output, *, keeps: bool = False) -> DataFrame:
    """The rows of files with vectors that these do not mark; those that they mark where a vector `keeps` its rows."""
    vectors = _vectors(marked)
    scanned = [*output.scanned, f"{output.row_index} as {ROW}", FILE_NUMBER]
    partitions, data = (FILE_NUMBER, *output.partitions), output.data(indexed=True)
    rows = reader.dataframe(scan, "marked", _size(marked), scanned, partitions=partitions, data=data)
    named = output.named
    bitmaps = _bitmaps_of(reader, vectors)
    if bitmaps is None:
        is_alive = _loading_function(reader.snapshot.log, _for_workers(reader.snapshot.log, vectors))
        alive = is_alive(F.col(FILE_NUMBER), F.col(ROW))
        return rows.where(~alive if keeps else alive).selectExpr(*named)
    wanted = int(keeps)
    if bitmaps.stride is not None:
        place = f"cast({FILE_NUMBER} * {bitmaps.stride} + least(shiftright({ROW}, 6), {bitmaps.stride - 1}) as int)"
        condition = f"getbit(get({WORDS}, {place}), {_BIT}) = {wanted}"
        alive = reader.gateway.java_class("delta.Rows").where(dataset(rows), condition, WORDS, dataset(bitmaps.frame), "\0".join(named))
        return DataFrame(alive, reader.gateway.spark)
    keyed = rows.withColumn(KEY, F.expr(f"shiftleft({FILE_NUMBER}, 32) | shiftright({ROW}, 16)"))
    joined = keyed.join(bitmaps.frame.hint("broadcast"), KEY, "left")
    word = f"{WORDS}[cast(shiftright({ROW}, 6) & {CHUNK_WORDS - 1} as int)]"
    beyond = "" if keeps else f"{WORDS} is null or "
    return joined.where(f"{beyond}getbit({word}, {_BIT}) = {wanted}").selectExpr(*named)


_BIT = f"cast({ROW} & 63 as int)"


@dataclass(frozen=True, slots=True)
class Marked:
    """A vector, and the url of the data file that it belongs to."""

    vector: DeletionVectorDescriptor
    url: str


def _vectors(marked: pa.Table) -> list[Marked]:
    """The vectors of files, in the order in which the scan numbers them."""
    found = []
    for fields, url in zip(marked["deletion_vector"].to_pylist(), marked["url"].to_pylist(), strict=True):
        vector = decode_deletion_vector(fields)
        assert vector is not None
        found.append(Marked(vector, url))
    return found


# --- bitmaps


@dataclass(frozen=True, slots=True)
class Bitmaps:
    """The marked rows of a scan's files, where Spark has them.

    Attributes:
        frame: one row with the words of all files, or the words of each bitmap by its key.
        stride: how many words of the one row are each file's; the last marks no row and stands for all rows that come later. None where
            bitmaps have keys.
    """

    frame: DataFrame
    stride: int | None


_kept: Recent[tuple[Any, ...], Bitmaps] = Recent(KEPT_MAX)


def _bitmaps_of(reader: Reader, vectors: Sequence[Marked]) -> Bitmaps | None:
    """The bitmaps of files, or None if they are too large to broadcast.

    Two scans with the same vectors get the same DataFrame, so that Spark sees that it can use one for both.
    """
    spark = reader.gateway.spark
    context, session = spark.sparkContext.applicationId, reader.gateway.session.sessionUUID()
    key = (context, session, reader.snapshot.url, reader.identity, tuple(marked.vector.unique_id for marked in vectors))
    known = _kept.get(key)
    if known is not None:
        return known
    chunks = chunks_of(reader.snapshot.log, vectors)
    if chunks is None:
        return None
    words = ArrayType(LongType(), False)
    flat = chunks.flat(len(vectors))
    if flat is not None:
        table = pa.table({WORDS: pa.array([flat.reshape(-1)])})
        return _kept.put(key, Bitmaps(spark.createDataFrame(table, StructType([StructField(WORDS, words, False)])), flat.shape[1]))
    schema = StructType([StructField(KEY, LongType(), False), StructField(WORDS, words, False)])
    return _kept.put(key, Bitmaps(spark.createDataFrame(chunks.table(), schema), None))


@dataclass(frozen=True, slots=True)
class Chunks:
    """Those of the bitmaps of files that hold a marked row.

    Attributes:
        keys: of each bitmap, `file << 32 | number in the file`.
        words: of each bitmap, a line of `CHUNK_WORDS`.
    """

    keys: npt.NDArray[np.int64]
    words: npt.NDArray[np.int64]

    def flat(self, files: int) -> npt.NDArray[np.int64] | None:
        """The words of each file in a line, of which the last is zero; None where they take more than may be in an array."""
        first = (self.keys & 0xFFFFFFFF) * CHUNK_WORDS
        used = CHUNK_WORDS - np.argmax(self.words[:, ::-1] != 0, axis=1)
        stride = int(np.max(first + used, initial=0)) + 1
        if files * stride * 8 > ARRAY_BYTES_MAX:
            return None
        lines = np.zeros((files, stride), dtype=np.int64)
        for file, start, count, words in zip(self.keys >> 32, first, used, self.words, strict=True):
            lines[file, start : start + count] = words[:count]
        return lines

    def table(self) -> pa.Table:
        offsets = np.arange(0, self.words.size + 1, CHUNK_WORDS, dtype=np.int32)
        return pa.table({KEY: self.keys, WORDS: pa.ListArray.from_arrays(pa.array(offsets), pa.array(self.words.reshape(-1)))})


def chunks_of(log: Log, vectors: Sequence[Marked], bytes_max: int | None = None) -> Chunks | None:
    """The bitmaps of files by their numbers; None where they take more than may be broadcast.

    Raises:
        DeletionVectorError: a vector is missing or damaged.
    """
    chunks_max = (BROADCAST_BYTES_MAX if bytes_max is None else bytes_max) // CHUNK_BYTES
    if len(vectors) > chunks_max:  # each has one bitmap at least
        return None
    keys: list[npt.NDArray[np.int64]] = []
    words: list[npt.NDArray[np.uint64]] = []
    count = 0
    with ThreadPoolExecutor(LOADERS) as loaders:
        loaded = loaders.map(lambda marked: load_deletion_vector(log, marked.vector, marked.url), vectors)
        for number, rows in enumerate(loaded):
            chunks, bits = bitmaps(rows)
            count += len(chunks)
            if count > chunks_max:
                loaders.shutdown(cancel_futures=True)
                return None
            keys.append((np.int64(number) << 32) | chunks)
            words.append(bits)
    return Chunks(np.concatenate(keys), np.concatenate(words).view(np.int64))


def bitmaps(rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Sorted row indexes as bitmaps: the numbers of those that hold a row, and their words, one line each."""
    chunks, line = np.unique(rows >> 16, return_inverse=True)
    words = np.zeros((len(chunks), CHUNK_WORDS), dtype=np.uint64)
    np.bitwise_or.at(words, (line, (rows >> 6) & (CHUNK_WORDS - 1)), np.uint64(1) << (rows & 63).astype(np.uint64))
    return chunks, words


# --- past what can be broadcast


def _for_workers(log: Log, vectors: Sequence[Marked]) -> Sequence[Marked]:
    """The vectors as a worker can load them. What the driver alone can reach goes along, as if it were in the log."""
    if not isinstance(log.env.store, HadoopStore):
        return vectors
    with ThreadPoolExecutor(LOADERS) as loaders:
        loaded = loaders.map(lambda marked: inline_descriptor(load_deletion_vector(log, marked.vector, marked.url)), vectors)
        return [Marked(vector, marked.url) for vector, marked in zip(loaded, vectors, strict=True)]


def _loading_function(log: Log, vectors: Sequence[Marked]) -> Callable[[Column, Column], Column]:
    """A function of (file number, row index) that runs in the executors' Python, where tahoe must be installed."""

    def is_alive(numbers: pa.Array, rows: pa.Array) -> pa.Array:
        return _is_alive(log, vectors, numbers, rows)

    function: Callable[[Column, Column], Column] = F.arrow_udf(is_alive, "boolean")  # type: ignore[attr-defined]
    return function


_worker_vectors: Recent[tuple[str, str], npt.NDArray[np.int64]] = Recent(WORKER_VECTORS_MAX)


def _is_alive(log: Log, vectors: Sequence[Marked], numbers: pa.Array, rows: pa.Array) -> pa.Array:
    """For each row of a batch whether its file's vector leaves it."""
    file_numbers, indexes = numbers.to_numpy(zero_copy_only=False), rows.to_numpy(zero_copy_only=False)
    alive = np.ones(len(indexes), dtype=bool)
    for number in np.unique(file_numbers):
        of_file = file_numbers == number
        alive[of_file] = ~_contains(_worker_vector(log, vectors[int(number)]), indexes[of_file])
    return pa.array(alive)


def _contains(marked: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which rows are among the sorted marked ones."""
    if not len(marked):
        return np.zeros(len(rows), dtype=bool)
    places = np.searchsorted(marked, rows)
    found: npt.NDArray[np.bool_] = marked[np.minimum(places, len(marked) - 1)] == rows
    return found


def _worker_vector(log: Log, marked: Marked) -> npt.NDArray[np.int64]:
    key = (log.url, marked.vector.unique_id)
    known = _worker_vectors.get(key)
    return _worker_vectors.put(key, load_deletion_vector(log, marked.vector, marked.url)) if known is None else known
