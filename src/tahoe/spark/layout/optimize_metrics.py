"""The result row of OPTIMIZE and REORG: the table's path, and the reference's metrics.

Its columns are those of the reference. Metrics that do not apply to tahoe are 0 or null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, StructField, StructType

from tahoe.table.layout.optimize import OptimizeReport


def _counts(*names: str) -> list[StructField]:
    return [StructField(name, LongType(), nullable=False) for name in names]


def _struct(name: str, fields: list[StructField]) -> StructField:
    return StructField(name, StructType(fields))


def _nullable(name: str, kind: DataType | None = None) -> StructField:
    return StructField(name, kind or LongType())


_SIZES = [
    _nullable("min"),
    _nullable("max"),
    StructField("avg", DoubleType(), nullable=False),
    *_counts("totalFiles", "totalSize"),
]
_NUMBER_AND_SIZE = _counts("num", "size")
_FILES_AND_SIZE = _counts("numFiles", "size")

_METRICS = StructType(
    [
        *_counts("numFilesAdded", "numFilesRemoved"),
        _struct("filesAdded", _SIZES),
        _struct("filesRemoved", _SIZES),
        *_counts("partitionsOptimized"),
        _struct(
            "zOrderStats",
            [
                _nullable("strategyName", StringType()),
                _struct("inputCubeFiles", _NUMBER_AND_SIZE),
                _struct("inputOtherFiles", _NUMBER_AND_SIZE),
                *_counts("inputNumCubes"),
                _struct("mergedFiles", _NUMBER_AND_SIZE),
                *_counts("numOutputCubes"),
                _nullable("mergedNumCubes"),
            ],
        ),
        _struct(
            "clusteringStats",
            [
                _struct("inputZCubeFiles", _FILES_AND_SIZE),
                _struct("inputOtherFiles", _FILES_AND_SIZE),
                *_counts("inputNumZCubes"),
                _struct("mergedFiles", _FILES_AND_SIZE),
                *_counts("numOutputZCubes"),
            ],
        ),
        *_counts("numBins", "numBatches", "totalConsideredFiles", "totalFilesSkipped"),
        StructField("preserveInsertionOrder", BooleanType(), nullable=False),
        *_counts(
            "numFilesSkippedToReduceWriteAmplification",
            "numBytesSkippedToReduceWriteAmplification",
            "startTimeMs",
            "endTimeMs",
            "totalClusterParallelism",
            "totalScheduledTasks",
        ),
        _struct(
            "autoCompactParallelismStats",
            [
                _nullable(name)
                for name in (
                    "maxClusterActiveParallelism",
                    "minClusterActiveParallelism",
                    "maxSessionActiveParallelism",
                    "minSessionActiveParallelism",
                )
            ],
        ),
        _struct("deletionVectorStats", _counts("numDeletionVectorsRemoved", "numDeletionVectorRowsRemoved")),
        *_counts("numTableColumns", "numTableColumnsWithStats"),
    ]
)

LAYOUT = StructType([_nullable("path", StringType()), _nullable("metrics", _METRICS)])


def optimized_row(
    path: str, report: OptimizeReport, *, columns: int, columns_with_stats: int, parallelism: int
) -> dict[str, Any]:
    """The result row of OPTIMIZE or REORG.

    Args:
        columns: how many columns the table has.
        columns_with_stats: for how many of them statistics are collected.
        parallelism: how many tasks the session runs at once.
    """
    removed = len(report.removed_bytes)
    vectors = {"numDeletionVectorsRemoved": report.vectors_removed, "numDeletionVectorRowsRemoved": report.rows_purged}
    known = {
        "numFilesAdded": len(report.added_bytes),
        "numFilesRemoved": removed,
        "filesAdded": _sizes(report.added_bytes),
        "filesRemoved": _sizes(report.removed_bytes),
        "partitionsOptimized": len(report.partitions),
        "numBins": report.bins,
        "numBatches": max(1, report.batches),
        "totalConsideredFiles": report.files_considered,
        "totalFilesSkipped": report.files_considered - removed,
        "preserveInsertionOrder": True,
        "startTimeMs": report.began_ms,
        "endTimeMs": report.ended_ms,
        "totalClusterParallelism": parallelism,
        "totalScheduledTasks": report.bins,
        "deletionVectorStats": vectors if removed else None,
        **_order_stats(report),
        "numTableColumns": columns,
        "numTableColumnsWithStats": columns_with_stats,
    }
    return {"path": path, "metrics": {f.name: known.get(f.name, None if f.nullable else 0) for f in _METRICS}}


def _order_stats(report: OptimizeReport) -> dict[str, Any]:
    """The metrics of ZORDER BY, or of a clustered table; none if nothing was rewritten."""
    if report.order is None or not report.removed_bytes:
        return {}
    removed, in_cubes = report.removed_bytes, report.cube_bytes
    if not report.order.is_clustered:
        files, none = {"num": len(removed), "size": sum(removed)}, {"num": 0, "size": 0}
        counts = {"inputNumCubes": 0, "numOutputCubes": len(report.partitions), "mergedNumCubes": None}
        return {
            "zOrderStats": {
                "strategyName": "all",
                "inputCubeFiles": none,
                "inputOtherFiles": files,
                "mergedFiles": files,
                **counts,
            }
        }
    others = {"numFiles": len(removed) - len(in_cubes), "size": sum(removed) - sum(in_cubes)}
    return {
        "clusteringStats": {
            "inputZCubeFiles": {"numFiles": len(in_cubes), "size": sum(in_cubes)},
            "inputOtherFiles": others,
            "inputNumZCubes": report.cubes,
            "mergedFiles": {"numFiles": len(removed), "size": sum(removed)},
            "numOutputZCubes": report.bins - report.bins_dropped,
        }
    }


def _sizes(sizes: Sequence[int]) -> dict[str, Any]:
    total = sum(sizes)
    return {
        "min": min(sizes, default=None),
        "max": max(sizes, default=None),
        "avg": total / len(sizes) if sizes else 0.0,
        "totalFiles": len(sizes),
        "totalSize": total,
    }
