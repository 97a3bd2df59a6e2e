"""Whether the files of a table fit a rule about files that a change of its configuration begins.

Protocol: "Materialize Partition Columns", "Writer Requirements for IcebergCompatV1" and V2. What the log does not tell
is in the footers: they are read once, when Iceberg's metadata begins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from tahoe.errors import UnsupportedOperationError
from tahoe.protocol.changes.table_configuration import TableConfiguration
from tahoe.protocol.configuration.features import (
    iceberg_compat,
    keeps_partitions_in_files,
    numbers_nested,
    supports,
)
from tahoe.protocol.configuration.row_tracking import MATERIALISED, field_ids
from tahoe.protocol.configuration.universal_format import has_iceberg
from tahoe.protocol.log.actions import Add
from tahoe.protocol.statistics.stats import num_records_of
from tahoe.protocol.types.schema import Array, Map, walk_fields
from tahoe.table.arrow.file_columns import FIELD_ID
from tahoe.table.reading.footers_mask import footers_mask
from tahoe.table.reading.snapshot import Snapshot


def check_files_fit(
    snapshot: Snapshot, adds: Sequence[Add], before: TableConfiguration, after: TableConfiguration
) -> None:
    """Refuse to begin a rule that files of the table break.

    Args:
        adds: files that the same transaction adds.

    Raises:
        UnsupportedOperationError: with what is to be done first.
    """
    if not (len(snapshot.live) or adds):
        return
    compat, compat_before = (iceberg_compat(c.protocol, c.properties) for c in (after, before))
    _check_partitions(compat, before, after)
    if compat is not None and compat_before is None:
        _check_log(snapshot, adds, compat)
    is_new = not has_iceberg(before.properties) or compat_before is None
    if has_iceberg(after.properties) and compat is not None and (is_new or compat != compat_before):
        _check_footers(snapshot, before, after, compat)


def _check_partitions(compat: int | None, before: TableConfiguration, after: TableConfiguration) -> None:
    """Only newer versions of Iceberg compatibility let older files be without the partition columns."""
    now, then = (keeps_partitions_in_files(c.protocol, c.metadata) for c in (after, before))
    asks_of_all = compat == 1 or supports(after.protocol, "materializePartitionColumns")
    if now and not then and asks_of_all and after.metadata.partition_columns:
        raise UnsupportedOperationError(
            operation="Keeping partition columns in data files",
            table=after.table,
            detail="existing data files do not contain them",
            remedy="Create a new table with this property, and write the rows to it.",
        )


def _check_log(snapshot: Snapshot, adds: Sequence[Add], compat: int) -> None:
    has_vectors = snapshot.live.has_deletion_vectors or any(add.deletion_vector is not None for add in adds)
    if has_vectors and compat in _WITHOUT_VECTORS:
        raise _refusal(
            snapshot,
            "rows of its files are deleted by deletion vectors",
            "Remove these first, with REORG TABLE … APPLY (PURGE).",
        )
    if snapshot.live.num_records.null_count or any(num_records_of(add.stats) is None for add in adds):
        raise _refusal(
            snapshot,
            "its log does not tell how many rows each file has",
            "Use ANALYZE TABLE … COMPUTE DELTA STATISTICS first.",
        )


# The versions of Iceberg compatibility without deletion vectors.
_WITHOUT_VECTORS = (1, 2)


def _check_footers(snapshot: Snapshot, before: TableConfiguration, after: TableConfiguration, compat: int) -> None:
    is_nested = any(isinstance(field.type, Array | Map) for _, field in walk_fields(after.schema))
    kept = {before.properties.get(name) for name in MATERIALISED}
    row_ids = [name for name in field_ids(after.protocol, after.properties) if name in kept]
    if not row_ids and not (is_nested and numbers_nested(after.protocol, after.properties)):
        return
    found = footers_mask(snapshot.full_scan, lacks_ids(row_ids))
    if found.any():
        what = "the elements of arrays and maps" if is_nested else "row ids"
        detail = f"{int(found.sum())} of its {len(found)} files have no field ids for {what}"
        remedy = f"REORG TABLE … APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = {compat}))"
        raise _refusal(snapshot, detail, f"Use {remedy}, which rewrites such files.")


# What the group of a variant consists of in a file.
_VARIANT_PARTS = {"metadata", "value"}


def lacks_ids(row_ids: Collection[str]) -> Callable[[pq.ParquetFile], bool]:
    """A test whether a file has field ids, but not for all of its columns, elements, keys and values; or none for the
    columns in which it keeps row ids and row commit versions.

    A file without any id is read by names, by the mapping of names in Iceberg's metadata.

    Args:
        row_ids: the names of these columns.
    """

    def lacks(parquet: pq.ParquetFile) -> bool:
        columns = parquet.schema_arrow
        numbered = [_has_id(field) for column in columns for field in _fields(column)]
        return (any(numbered) and not all(numbered)) or any(not _has_id(c) for c in columns if c.name in row_ids)

    return lacks


def _has_id(field: pa.Field) -> bool:
    return FIELD_ID in (field.metadata or {})


def _fields(field: pa.Field) -> list[pa.Field]:
    inner = [field.type.field(place) for place in range(field.type.num_fields)]
    if pa.types.is_struct(field.type) and {f.name for f in inner} >= _VARIANT_PARTS and not any(map(_has_id, inner)):
        return [field]  # a variant has no fields of its own
    if pa.types.is_map(field.type):
        inner = [field.type.key_field, field.type.item_field]
    return [field, *(below for child in inner for below in _fields(child))]


def _refusal(snapshot: Snapshot, detail: str, remedy: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        operation="Iceberg compatibility", table=snapshot.url, detail=detail, remedy=remedy
    )
