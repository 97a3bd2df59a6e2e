"""The data files of a version, its partitions, deletion vectors and statistics.

Protocol: "Add File and Remove File", "Partition Value Serialization", "Deletion Vectors", "Per-file Statistics".
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.log.actions import DeletionVectorDescriptor
from tahoe.protocol.log.deletion_vector import INLINE, vector_location
from tahoe.protocol.types.schema import VARIANT
from tahoe.table.arrow.chunks import one_array, sorted_table, taken
from tahoe.table.arrow.statistics import StatisticsRequest, column_name, nested_array
from tahoe.table.inspection.inspection import TEXTS, TIME, Column, Inspection
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.writing.footers import IndexedColumn, indexed_columns

_PARTITION = Column(
    name="partition_values",
    type="struct of the partition columns",
    meaning="the partition's values, typed, by logical name; no column if the table has no partitions",
)
_NUM_RECORDS = Column(
    name="num_records", type=pa.int64(), meaning="rows in the file, deleted ones included; null if it has no statistics"
)
_DELETED = Column(name="deleted_records", type=pa.int64(), meaning="rows that the file's deletion vector deletes")


def _files(snapshot: Snapshot) -> dict[str, pa.ChunkedArray]:
    listing = snapshot.files()
    found = {name: listing.column(name) for name in listing.column_names}
    return {
        **found,
        "clustering_provider": snapshot.live.column("clustering_provider"),
        "tags": snapshot.live.column("tags"),
    }


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
        Column(
            name="base_row_id", type=pa.int64(), meaning="row id of the file's first row; null without row tracking"
        ),
        Column(
            name="default_row_commit_version",
            type=pa.int64(),
            meaning="version that added the rows; null without row tracking",
        ),
        Column(
            name="clustering_provider", type=pa.string(), meaning="who clustered the file; null if it is not clustered"
        ),
        Column(name="tags", type=TEXTS, meaning="the file's tags; null if it has none"),
    ),
    read=_files,
)


def _partitions(snapshot: Snapshot) -> dict[str, pa.ChunkedArray]:
    """A row for each partition, summed over its files. The number of records is null if one file does not tell it."""
    listing = snapshot.files()
    partition = listing.column("partition_values")
    kind = partition.type
    values = {f"value {at}": pc.struct_field(partition, [at]) for at in range(kind.num_fields)}
    keys = {"table": pa.nulls(listing.num_rows), **values}  # the first is for a table without partition columns
    summed = listing.select(["size_bytes", "num_records", "deleted_records", "modification_time"])
    table = pa.table(keys | {name: summed.column(name) for name in summed.column_names})
    strict = pc.ScalarAggregateOptions(skip_nulls=False)
    grouped = table.group_by(list(keys)).aggregate(
        [
            ([], "count_all"),
            ("size_bytes", "sum"),
            ("num_records", "sum", strict),
            ("deleted_records", "sum"),
            ("modification_time", "max"),
        ]
    )
    grouped = sorted_table(grouped, list(values)) if values else grouped
    arrays = [one_array(grouped.column(key)) for key in values]
    return {
        "partition_values": pa.StructArray.from_arrays(arrays, fields=list(kind))
        if arrays
        else pa.array([{}] * grouped.num_rows, kind),
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
        Column(
            name="num_records",
            type=pa.int64(),
            meaning="rows in these files, deleted ones included; null if a file has no statistics",
        ),
        Column(name="deleted_records", type=pa.int64(), meaning="rows that deletion vectors delete"),
        Column(name="modification_time", type=TIME, meaning="when the newest of these files was written"),
    ),
    read=_partitions,
)


def _vectors(snapshot: Snapshot) -> dict[str, pa.ChunkedArray]:
    """The rows of the inspection, one for each file with a deletion vector."""
    vectors = snapshot.live.column("deletion_vector")
    rows = pc.indices_nonzero(vectors.is_valid())
    marked = taken(vectors, rows)
    return {
        "path": taken(snapshot.live.column("path"), rows),
        "storage_type": pc.struct_field(marked, "storageType"),
        "url": pa.chunked_array([_vector_urls(snapshot, chunk) for chunk in marked.chunks], pa.string()),
        "offset": pc.struct_field(marked, "offset").cast(pa.int64()),
        "size_bytes": pc.struct_field(marked, "sizeInBytes").cast(pa.int64()),
        "deleted_records": pc.struct_field(marked, "cardinality"),
        "num_records": taken(snapshot.live.num_records, rows),
    }


def _vector_urls(snapshot: Snapshot, vectors: pa.StructArray) -> pa.StringArray:
    """Where vectors are, null for those in the log. Many of them share a file, whose url is computed once."""
    kinds, paths = (pc.struct_field(vectors, name) for name in ("storageType", "pathOrInlineDv"))
    stored = pc.if_else(
        pc.equal(kinds, INLINE), None, pc.binary_join_element_wise(kinds, paths, "")
    ).dictionary_encode()
    urls = [_vector_url(snapshot, text[0], text[1:]) for text in stored.dictionary.to_pylist()]
    return pa.array(urls, pa.string()).take(stored.indices)


def _vector_url(snapshot: Snapshot, storage_type: str, path: str) -> str | None:
    vector = DeletionVectorDescriptor(storage_type=storage_type, path_or_inline=path, size_bytes=0, cardinality=0)
    location = vector_location(vector, snapshot.url)
    return None if location is None else location[0]


VECTORS = Inspection(
    name="vectors",
    rows="a data file with a deletion vector",
    columns=(
        Column(name="path", type=pa.string(), meaning="data file, as in the log"),
        Column(
            name="storage_type",
            type=pa.string(),
            meaning="`u`: in a file of the table; `p`: in a file elsewhere; `i`: in the log",
        ),
        Column(
            name="url",
            type=pa.string(),
            meaning="file with the vector, absolute and unescaped; null if it is in the log",
        ),
        Column(
            name="offset",
            type=pa.int64(),
            meaning="position of the vector in that file, in bytes; null if it is in the log",
        ),
        Column(name="size_bytes", type=pa.int64(), meaning="size of the vector in bytes"),
        Column(name="deleted_records", type=pa.int64(), meaning="rows that it deletes"),
        _NUM_RECORDS,
    ),
    read=_vectors,
)


def _statistics(snapshot: Snapshot) -> dict[str, pa.ChunkedArray]:
    """The rows of the inspection, one for each file, under the logical names of columns."""
    columns = indexed_columns(snapshot.metadata, snapshot.column_mapping_mode, snapshot.clustering_columns)
    known = snapshot.live.statistics(StatisticsRequest({column.physical: column.type for column in columns}))
    return {
        "path": snapshot.live.column("path"),
        "num_records": known.column("num_records"),
        "has_tight_bounds": pc.fill_null(known.column("tight_bounds"), True),
        **{
            field: _nested(known, kind, columns)
            for field, kind in (("null_count", "null_count"), ("min_values", "min"), ("max_values", "max"))
        },
    }


def _nested(known: pa.Table, kind: str, columns: Sequence[IndexedColumn]) -> pa.ChunkedArray:
    """One statistic of all columns that have it, as structs like the rows of the table."""
    names = {
        column.logical: name
        for column in columns
        if (name := column_name(kind, column.physical)) in known.column_names
        and (column.type != VARIANT or kind == "null_count")  # which have texts in the place of typed bounds
    }
    if not names:
        return pa.chunked_array([pa.array([{}] * known.num_rows, pa.struct([]))])
    batches = known.select(list(names.values())).to_batches() or [pa.RecordBatch.from_pylist([], schema=known.schema)]
    return pa.chunked_array(
        [nested_array({path: batch.column(name) for path, name in names.items()}) for batch in batches]
    )


_OF_COLUMNS = "struct of the columns with statistics"  # no column if none has any

STATISTICS = Inspection(
    name="statistics",
    rows="a data file",
    columns=(
        Column(name="path", type=pa.string(), meaning="as in the log"),
        _NUM_RECORDS,
        Column(
            name="has_tight_bounds",
            type=pa.bool_(),
            meaning="false if bounds may be wider than the rows, because rows were deleted",
        ),
        Column(name="null_count", type=_OF_COLUMNS, meaning="nulls in each column; null if they were not counted"),
        Column(
            name="min_values",
            type=_OF_COLUMNS,
            meaning="lower bound of each column, typed; long strings are cut; null if not known",
        ),
        Column(
            name="max_values",
            type=_OF_COLUMNS,
            meaning="upper bound of each column, typed; long strings are cut; null if not known",
        ),
    ),
    read=_statistics,
)
