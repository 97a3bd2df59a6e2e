"""The DataFrames that `history()` and `detail()` return, with the columns of the reference implementation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tahoe.protocol.configuration.features import supported_features
from tahoe.protocol.types.moments import moment_of
from tahoe.spark.jvm.local_rows import local_rows
from tahoe.spark.jvm.types import delta_schema
from tahoe.table.arrow.types import arrow_schema
from tahoe.table.commit.other_formats import converted_versions
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.versions.history import parameter_text

_TEXT = StringType()

_TEXTS = MapType(StringType(), StringType())

HISTORY = StructType(
    [
        StructField("version", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("userId", _TEXT),
        StructField("userName", _TEXT),
        StructField("operation", _TEXT),
        StructField("operationParameters", _TEXTS),
        StructField(
            "job",
            StructType(
                [StructField(n, _TEXT) for n in ("jobId", "jobName", "jobRunId", "runId", "jobOwnerId", "triggerType")]
            ),
        ),
        StructField("notebook", StructType([StructField("notebookId", _TEXT)])),
        StructField("clusterId", _TEXT),
        StructField("readVersion", LongType()),
        StructField("isolationLevel", _TEXT),
        StructField("isBlindAppend", BooleanType()),
        StructField("operationMetrics", _TEXTS),
        StructField("userMetadata", _TEXT),
        StructField("engineInfo", _TEXT),
    ]
)

DETAIL = StructType(
    [
        StructField("format", _TEXT),
        StructField("id", _TEXT),
        StructField("name", _TEXT),
        StructField("description", _TEXT),
        StructField("location", _TEXT),
        StructField("createdAt", TimestampType()),
        StructField("lastModified", TimestampType()),
        StructField("partitionColumns", ArrayType(_TEXT)),
        StructField("clusteringColumns", ArrayType(_TEXT)),
        StructField("numFiles", LongType()),
        StructField("sizeInBytes", LongType()),
        StructField("properties", _TEXTS),
        StructField("minReaderVersion", IntegerType()),
        StructField("minWriterVersion", IntegerType()),
        StructField("tableFeatures", ArrayType(_TEXT)),
    ]
)


def result_frame(spark: SparkSession, rows: list[dict[str, Any]], schema: StructType) -> DataFrame:
    """Convert rows to a local DataFrame, which needs no Spark job."""
    map_columns = [field.name for field in schema if isinstance(field.dataType, MapType)]
    # Arrow's maps are lists of pairs.
    arrow_rows = [
        row | {name: list(row[name].items()) for name in map_columns if row[name] is not None} for row in rows
    ]
    return local_rows(
        spark, pa.Table.from_pylist(arrow_rows, schema=arrow_schema(delta_schema(schema, table="the result"))), schema
    )


def history_row(commit: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded information of a commit, in the columns of `HISTORY`. Values that do not fit their column's type
    become null.
    """
    row = {field.name: _as_typed(commit.get(field.name), field.dataType) for field in HISTORY}
    return {**row, "timestamp": commit["timestamp"], "version": commit["version"]}


def _as_typed(value: Any, kind: DataType) -> Any:
    """A value of a commit's information, in a column's type; None if it does not fit, because any writer may have
    written it.
    """
    match kind:
        case MapType():
            return {name: parameter_text(item) for name, item in value.items()} if isinstance(value, dict) else None
        case StructType():
            return {name: parameter_text(value.get(name)) for name in kind.names} if isinstance(value, dict) else None
        case LongType():
            return value if isinstance(value, int) and not isinstance(value, bool) else None
        case BooleanType():
            return value if isinstance(value, bool) else None
        case StringType():
            return parameter_text(value)
        case _:
            return None


def detail_row(snapshot: Snapshot, name: str | None) -> dict[str, Any]:
    """The row of DESCRIBE DETAIL.

    Args:
        name: of the table in the catalog; None for a table that was given by its path.
    """
    metadata, protocol = snapshot.metadata, snapshot.protocol
    return {
        "format": "delta",
        "id": metadata.id,
        "name": name or metadata.name,
        "description": metadata.description,
        "location": snapshot.url,
        "createdAt": None if metadata.created_time_ms is None else moment_of(metadata.created_time_ms),
        "lastModified": None if snapshot.commit is None else moment_of(snapshot.commit.modified_ms),
        "partitionColumns": list(snapshot.partition_columns),
        "clusteringColumns": [".".join(path) for path in snapshot.clustering_columns],
        "numFiles": len(snapshot.live),
        "sizeInBytes": snapshot.live.size_bytes,
        "properties": {**snapshot.properties, **converted_versions(snapshot)},
        "minReaderVersion": protocol.reader_version,
        "minWriterVersion": protocol.writer_version,
        "tableFeatures": sorted(supported_features(protocol)),
    }
