"""The result row of REORG: the table's path, and the reference's metrics.

Its columns are those of the reference's OPTIMIZE and REORG. Metrics that do not apply to tahoe are 0 or null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, StructField, StructType

from tahoe.spark.dml.reorg import Purged


def _counts(*names: str) -> list[StructField]:
    return [StructField(name, LongType(), nullable=False) for name in names]


def _struct(name: str, fields: list[StructField]) -> StructField:
    return StructField(name, StructType(fields))


def _nullable(name: str, kind: DataType | None = None) -> StructField:
    return StructField(name, kind or LongType())


_SIZES = [_nullable("min"), _nullable("max"), StructField("avg", DoubleType(), nullable=False), *_counts("totalFiles", "totalSize")]
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


def purged_row(path: str, purged: Purged, *, columns: int, parallelism: int) -> dict[str, Any]:
    """The result row of a purge.

    Args:
        columns: how many columns the table has.
        parallelism: how many tasks the session runs at once.
    """
    removed = len(purged.removed)
    vectors = {"numDeletionVectorsRemoved": removed, "numDeletionVectorRowsRemoved": purged.rows_removed}
    known = {
        "numFilesAdded": len(purged.added),
        "numFilesRemoved": removed,
        "filesAdded": _sizes(purged.added),
        "filesRemoved": _sizes(purged.removed),
        "partitionsOptimized": purged.partitions,
        "numBins": purged.partitions,
        "numBatches": 1,
        "totalConsideredFiles": purged.files_considered,
        "totalFilesSkipped": purged.files_considered - removed,
        "preserveInsertionOrder": False,
        "startTimeMs": purged.began_ms,
        "totalClusterParallelism": parallelism,
        "deletionVectorStats": vectors if removed else None,
        "numTableColumns": columns,
        "numTableColumnsWithStats": columns,
    }
    return {"path": path, "metrics": {f.name: known.get(f.name, None if f.nullable else 0) for f in _METRICS}}


def _sizes(sizes: Sequence[int]) -> dict[str, Any]:
    total = sum(sizes)
    return {
        "min": min(sizes, default=None),
        "max": max(sizes, default=None),
        "avg": total / len(sizes) if sizes else 0.0,
        "totalFiles": len(sizes),
        "totalSize": total,
    }
