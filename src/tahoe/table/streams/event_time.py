"""The rows of a version in the order of their event time, in batches: where a batch ends, and which rows it has.

Each batch has the rows of a range of times. So every row of a later batch is at least as late as every row of an
earlier one, and a watermark, which follows the latest row that was read, is never past a row that is still to come. How
many rows a range has is estimated from the statistics of the files. It must not know what a stream is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.configuration.column_mapping import physical_path
from tahoe.protocol.types.partitions import from_micros
from tahoe.protocol.types.predicate import And, Column, Comparison, IsNull, Literal, Operator, Or, Predicate
from tahoe.protocol.types.schema import TIMESTAMP
from tahoe.table.arrow.chunks import one_array
from tahoe.table.arrow.statistics import StatisticsRequest, column_name
from tahoe.table.arrow.types import arrow_type
from tahoe.table.reading.snapshot import Snapshot, chosen_files

# A file counts as so many points of time, evenly from its first to its last: the more, the nearer are batches to their
# limits. There are fewer if there are many files, so that a million files take 64 MiB.
_POINTS_OF_FILE_MAX = 100
_POINTS_MAX = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """The rows of a batch: from a time, up to but without another, both in microseconds since 1970.

    Attributes:
        column: the path of a column of timestamps, as Spark's watermarks follow no others.
        begin_us: None for the beginning, with the rows that have no time.
        end_us: None for the end.
    """

    column: tuple[str, ...]
    begin_us: int | None
    end_us: int | None

    def predicate(self) -> Predicate:
        """The rows of the range. The beginning is only open if the end is not."""
        column = Column(self.column)
        bounds: tuple[tuple[Operator, int | None], ...] = ((">=", self.begin_us), ("<", self.end_us))
        parts = tuple(
            Comparison(operator, column, Literal(from_micros(us, UTC))) for operator, us in bounds if us is not None
        )
        return And(parts) if self.begin_us is not None else Or((*parts, IsNull(column)))


def files_with(snapshot: Snapshot, rows: TimeRange) -> npt.NDArray[np.int64] | None:
    """The positions of the files of a version that may have rows of a range; None for all files."""
    chosen = chosen_files(snapshot, rows.predicate()).file_positions
    return None if chosen is None else np.asarray(chosen).astype(np.int64)


class EventTimes:
    """The event times of a version's files, as their statistics tell them. Files without statistics do not count.

    Args:
        column: the path of a column of timestamps.
    """

    def __init__(self, snapshot: Snapshot, column: tuple[str, ...]) -> None:
        first, last = (one_array(bound.cast(pa.int64())) for bound in _bounds(snapshot, column))
        known = np.asarray(pc.and_(pc.is_valid(first), pc.is_valid(last)))
        starts, ends = (np.asarray(bound.filter(pa.array(known))).astype(np.int64) for bound in (first, last))
        sizes = np.asarray(one_array(snapshot.live.column("size_bytes"))).astype(np.int64)[known]
        self._points_of_file = max(1, min(_POINTS_OF_FILE_MAX, _POINTS_MAX // max(1, len(sizes))))
        points = (
            starts[:, None]
            + np.arange(self._points_of_file) * (np.maximum(ends - starts, 0) // self._points_of_file)[:, None]
        )
        order = np.argsort(points, axis=None, kind="stable")
        self._times: npt.NDArray[np.int64] = points.ravel()[order]
        self._bytes = np.cumsum(np.repeat(sizes / self._points_of_file, self._points_of_file)[order])

    def end(self, begin_us: int | None, files: int | None, size_bytes: int | None) -> int | None:
        """The time before which a batch ends; None if it reads up to the end.

        Args:
            begin_us: where the batch begins; None for the beginning.
            files, size_bytes: the batch has about as many rows as so many files, or as files of this size; None for any
                number.
        """
        times = self._times
        first = stop = self._position(begin_us)
        if files is not None:
            stop = first + max(files, 0) * self._points_of_file
        if files is None or size_bytes is not None:
            bytes_max = np.inf if size_bytes is None else self._bytes_before(first) + size_bytes
            stop_by_bytes = int(np.searchsorted(self._bytes, bytes_max)) + 1
            stop = stop_by_bytes if files is None else min(stop, stop_by_bytes)
        if first < len(times):
            stop = max(
                stop, int(np.searchsorted(times, times[first], side="right"))
            )  # rows of one time are not divided
        if stop >= len(times):
            return None
        return int(times[stop])

    def left(self, begin_us: int | None) -> tuple[int, int]:
        """The files from a time on, and their size in bytes, by the same estimate."""
        first = self._position(begin_us)
        size = self._bytes[-1] - self._bytes_before(first) if first < len(self._bytes) else 0
        return -(-(len(self._times) - first) // self._points_of_file), int(size)

    def _position(self, time_us: int | None) -> int:
        return 0 if time_us is None else int(np.searchsorted(self._times, time_us))

    def _bytes_before(self, position: int) -> float:
        return float(self._bytes[position - 1]) if position else 0.0


def _bounds(snapshot: Snapshot, column: tuple[str, ...]) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The first and the last time of each file; null if it is unknown."""
    if column[0] in snapshot.partition_columns:
        chunks = [pc.struct_field(chunk, column[0]) for chunk in snapshot.full_scan.partition.chunks]
        return (values := pa.chunked_array(chunks, arrow_type(TIMESTAMP))), values
    stored = physical_path(snapshot.schema, column, snapshot.column_mapping_mode)
    assert stored is not None
    statistics = snapshot.live.statistics(StatisticsRequest({stored: TIMESTAMP}))
    return statistics.column(column_name("min", stored)), statistics.column(column_name("max", stored))
