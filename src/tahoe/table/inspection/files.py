"""The data files of a version, and its partitions.

Protocol: "Add File and Remove File", "Partition Value Serialization".
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.table.arrow.chunks import one_array, sorted_table
from tahoe.table.inspection.inspection import TEXTS, TIME, Column, Inspection
from tahoe.table.reading.snapshot import Snapshot

_PARTITION = Column(
    name="partition_values", type="struct of the partition columns", meaning="the partition's values, typed, by logical name"
)
_NUM_RECORDS = Column(name="num_records", type=pa.int64(), meaning="rows in the file, deleted ones included; null if it has no statistics")
_DELETED = Column(name="deleted_records", type=pa.int64(), meaning="rows that the file's deletion vector deletes")


def _files(snapshot: Snapshot) -> dict[str, pa.ChunkedArray]:
    listing = snapshot.files()
    found = {name: listing.column(name) for name in listing.column_names}
    return {**found, "clustering_provider": snapshot.live.column("clustering_provider"), "tags": snapshot.live.column("tags")}


FILES = Inspection(
    name="files",
    rows="a data file",
    columns=(
        Column(name="path", type=pa.string(), meaning="as in the log: relative to the table or absolute, escaped"),
        Column(name="url", type=pa.string(), meaning="absolute and unescaped"),
        Column(name="size_bytes", type=pa.int64(), meaning="size of the file in bytes"),
        Column(name="modification_time", type=TIME, meaning="when the file was written, as its writer says"),
        _PARTITION,
        _NUM_RECORDS,
        _DELETED,
        Column(name="base_row_id", type=pa.int64(), meaning="row id of the file's first row; null without row tracking"),
        Column(name="default_row_commit_version", type=pa.int64(), meaning="version that added the rows; null without row tracking"),
        Column(name="clustering_provider", type=pa.string(), meaning="who clustered the file; null if it is not clustered"),
        Column(name="tags", type=TEXTS, meaning="the file's tags; null if it has none"),
    ),
    read=_files,
)


def _partitions(snapshot: Snapshot) -> dict[str, pa.ChunkedArray]:
    listing = snapshot.files()
    partition = listing.column("partition_values")
    kind = partition.type
    values = {f"value {at}": pc.struct_field(partition, [at]) for at in range(kind.num_fields)}
    keys = {"table": pa.nulls(listing.num_rows), **values}  # the first is for a table without partition columns
    summed = listing.select(["size_bytes", "num_records", "deleted_records", "modification_time"])
    table = pa.table(keys | {name: summed.column(name) for name in summed.column_names})
    strict = pc.ScalarAggregateOptions(skip_nulls=False)
    grouped = table.group_by(list(keys)).aggregate(
        [([], "count_all"), ("size_bytes", "sum"), ("num_records", "sum", strict), ("deleted_records", "sum"), ("modification_time", "max")]
    )
    grouped = sorted_table(grouped, list(values)) if values else grouped
    arrays = [one_array(grouped.column(key)) for key in values]
    return {
        "partition_values": pa.StructArray.from_arrays(arrays, fields=list(kind)) if arrays else pa.array([{}] * grouped.num_rows, kind),
        "num_files": grouped.column("count_all"),
        "size_bytes": grouped.column("size_bytes_sum"),
        "num_records": grouped.column("num_records_sum"),
        "deleted_records": grouped.column("deleted_records_sum"),
        "modification_time": grouped.column("modification_time_max"),
    }


PARTITIONS = Inspection(
    name="partitions",
    rows="a partition that has files, or the whole table if it is not partitioned",
    columns=(
        _PARTITION,
        Column(name="num_files", type=pa.int64(), meaning="data files of the partition"),
        Column(name="size_bytes", type=pa.int64(), meaning="size of these files in bytes"),
        Column(name="num_records", type=pa.int64(), meaning="rows in these files, deleted ones included; null if a file has no statistics"),
        Column(name="deleted_records", type=pa.int64(), meaning="rows that deletion vectors delete"),
        Column(name="modification_time", type=TIME, meaning="when the newest of these files was written"),
    ),
    read=_partitions,
)
