"""Takes the figures of a table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import InvalidPropertyError
from tahoe.protocol.configuration.declared_keys import is_key, keys_of
from tahoe.protocol.configuration.properties import settable
from tahoe.protocol.types.names import dotted
from tahoe.table.arrow.chunks import one_array
from tahoe.table.arrow.statistics import StatisticsRequest
from tahoe.table.inspection.files import PARTITIONS
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.report.commit_figures import commit_figures
from tahoe.table.report.figures import Figures, Partitions, PartitionSize, Rows
from tahoe.table.report.histograms import histogram
from tahoe.table.report.skipping_figures import skipping
from tahoe.table.report.upkeep import upkeep
from tahoe.table.versions.table_reader import TableReader

# Of more partitions, a page shows the largest ones.
PARTITIONS_MAX = 12

# The limits of shares of deleted rows, in hundredths of a percent.
_SHARES = (0, 100, 500, 1000, 2500, 5000, 7500, 10_000)


def measure(table: TableReader, version: int | str | None = None) -> Figures:
    """The figures of a version, of the newest one if None.

    Raises:
        TableNotFoundError, NotADeltaTableError, VersionNotFoundError: there is no such table or version.
        DeltaLogError, DeltaProtocolError: the log cannot be read.
    """
    newest = table.snapshot()
    snapshot = newest if version is None or version == newest.version else table.snapshot(version)
    live = snapshot.live
    statistics = live.statistics(StatisticsRequest({}))
    records, is_wide = statistics.column("num_records"), pc.equal(statistics.column("tight_bounds"), False)
    commits, growth = commit_figures(snapshot)
    return Figures(
        table=snapshot.url,
        name=snapshot.metadata.name,
        description=snapshot.metadata.description,
        version=snapshot.version,
        timestamp_ms=snapshot.timestamp_ms,
        made_ms=table.env.clock_ms(),
        properties=settable(snapshot.properties),
        columns=len(snapshot.schema),
        partition_columns=snapshot.partition_columns,
        clustering_columns=tuple(dotted(path) for path in snapshot.clustering_columns),
        keys=_keys(snapshot),
        files=len(live),
        size_bytes=live.size_bytes,
        files_without_statistics=records.null_count,
        files_with_wide_bounds=pc.sum(is_wide).as_py() or 0,
        file_sizes=histogram(_known(live.column("size_bytes"))),
        file_rows=histogram(_known(records), unknown=records.null_count),
        rows=_rows(snapshot, records),
        partitions=_partitions(snapshot),
        growth=growth,
        commits=commits,
        skipping=skipping(snapshot),
        upkeep=upkeep(table, snapshot) if snapshot.version == newest.version else None,
    )


def _keys(snapshot: Snapshot) -> tuple[str, ...]:
    """The declared keys. One that cannot be read is as its property has it: the report shows it and goes on."""
    try:
        return tuple(f"{key.name}: {key}" for key in keys_of(snapshot.properties, table=snapshot.url))
    except InvalidPropertyError:
        return tuple(f"{name}: {text}" for name, text in sorted(snapshot.properties.items()) if is_key(name))


def _known(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    values: npt.NDArray[np.int64] = one_array(column.drop_null()).to_numpy(zero_copy_only=False).astype(np.int64)
    return values


def _rows(snapshot: Snapshot, records: pa.ChunkedArray) -> Rows:
    """The numbers of rows and of deleted rows. The share of deleted rows is unknown for files that do not tell their
    rows.
    """
    vectors = snapshot.live.column("deletion_vector")
    marked = pc.indices_nonzero(pc.is_valid(vectors))
    cardinality = one_array(pc.struct_field(vectors.take(marked), "cardinality"))
    total = records.take(marked)
    deleted, known = _known(pa.chunked_array([cardinality])), np.asarray(pc.fill_null(one_array(total), 0))
    shares = np.minimum(deleted / np.maximum(known, 1) * 10_000, 10_000).astype(np.int64)[known > 0]
    count = None if records.null_count else (pc.sum(records).as_py() or 0) - int(deleted.sum())
    return Rows(
        count=count,
        deleted=int(deleted.sum()),
        files_with_deleted=len(marked),
        deleted_shares=histogram(shares, unknown=len(marked) - len(shares), limits=_SHARES),
    )


def _partitions(snapshot: Snapshot) -> Partitions | None:
    """The figures of the partitions; None if the table is not partitioned, or has no files."""
    if not snapshot.partition_columns or not len(snapshot.live):
        return None
    found = PARTITIONS.of(snapshot)
    sizes = _known(found.column("size_bytes"))
    order = np.argsort(-sizes, kind="stable")
    tenth = -(-len(sizes) // 10)
    return Partitions(
        columns=snapshot.partition_columns,
        count=found.num_rows,
        sizes=histogram(sizes),
        largest=[_partition(found.slice(int(at), 1)) for at in order[:PARTITIONS_MAX]],
        largest_tenth_share=float(sizes[order[:tenth]].sum() / max(sizes.sum(), 1)),
    )


def _partition(row: pa.Table) -> PartitionSize:
    values = row.column("partition_values")
    texts = [f"{field.name}={_text(pc.struct_field(values, [at]))}" for at, field in enumerate(values.type)]
    (rows,), (deleted,) = row.column("num_records").to_pylist(), row.column("deleted_records").to_pylist()
    return PartitionSize(
        values=tuple(texts),
        files=row.column("num_files")[0].as_py(),
        size_bytes=row.column("size_bytes")[0].as_py(),
        rows=None if rows is None else rows - (deleted or 0),
    )


def _text(column: pa.ChunkedArray) -> str:
    """The one value of a column."""
    try:
        value = column.cast(pa.string())[0].as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        value = str(column[0])
    return "null" if value is None else str(value)
