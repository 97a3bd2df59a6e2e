"""ANALYZE TABLE ... COMPUTE DELTA STATISTICS in a Spark session: on a cluster, rows are measured in Python workers.

No row becomes an object of the JVM. Footers are read by the driver. It measures the rows too if there are few, if the
executors have no tahoe, or if the files are in a Hadoop file system.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tahoe.protocol.statistics.stats import Statistics
from tahoe.spark.dml.row_changes import DmlTarget
from tahoe.spark.jvm.gateway import author_of
from tahoe.spark.jvm.hadoop_store import is_hadoops
from tahoe.spark.layout.optimize import DRIVER_BYTES_MAX
from tahoe.spark.layout.workers import in_workers, is_local
from tahoe.table.layout.file_statistics import Measurement
from tahoe.table.layout.statistics import (
    AnalyzeReport,
    AnalyzeRequest,
    compute_statistics,
    measured_in_threads,
    measured_or_error,
)


def analyze(target: DmlTarget) -> AnalyzeReport:
    """Compute the statistics of a table that are missing or wide; see
    `tahoe.table.layout.statistics.compute_statistics`.
    """
    request = AnalyzeRequest(**author_of(target.spark))
    return compute_statistics(target.table, request, measurer=_Measurer(target))


@dataclass(frozen=True, slots=True)
class _Measurer:
    """Measures rows where it is fastest."""

    target: DmlTarget

    def __call__(self, work: Sequence[Measurement]) -> Iterable[Statistics | BaseException]:
        size_bytes = sum(found.size_bytes for found in work)
        here = is_local(self.target.spark) or is_hadoops(self.target.table.url)
        found = None
        if not here and size_bytes > DRIVER_BYTES_MAX:
            found = in_workers(self.target.spark, measured_or_error, work, table=self.target.table.url)
        return measured_in_threads(work) if found is None else found
