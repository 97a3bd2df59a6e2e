"""Rewrites data files for DROP FEATURE, so that they no longer use the feature.

Protocol: "Deletion Vectors", "Column Mapping", "Type Widening". The table's rows do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from tahoe.errors import DeltaError, FeatureInUseError
from tahoe.protocol.changes.conflict import EVERYTHING
from tahoe.protocol.configuration.column_mapping import MODE, physical_schema, without_mapping
from tahoe.protocol.configuration.features import Feature
from tahoe.protocol.configuration.properties import ENABLE_DELETION_VECTORS, ENABLE_TYPE_WIDENING
from tahoe.protocol.log.actions import Add, Metadata
from tahoe.protocol.log.file_paths import resolve_path
from tahoe.protocol.types.schema import map_fields
from tahoe.protocol.types.type_widening import TYPE_CHANGES, recorded_changes
from tahoe.spark.dml.row_changes import DmlTarget, RowChange
from tahoe.spark.jvm.gateway import author_of
from tahoe.spark.layout.optimize import Optimize, purge
from tahoe.storage.threads import in_threads
from tahoe.table.arrow.parquet import open_parquet
from tahoe.table.arrow.types import delta_schema
from tahoe.table.layout.optimize import REORG
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.transactions import feature_drop
from tahoe.table.transactions.transaction_builder import TransactionBuilder
from tahoe.table.writing.planning import check_schema, plan_existing
from tahoe.table.writing.write_request import WriteRequest


def drop_feature(target: DmlTarget, feature: str, *, truncate_history: bool) -> None:
    """Drop a feature from a table, with all its traces; see `tahoe.table.transactions.feature_drop`.

    Raises:
        FeatureDropError: the feature does not exist, the table does not have it, or something in the table needs it.
        DeltaConcurrentModificationException: a concurrent commit conflicts.
    """

    def clear(found: Feature) -> bool:
        known = _CLEARED_BY.get(found.name)
        return known is not None and known(target)

    feature_drop.drop_feature(
        target.table, feature, truncate_history=truncate_history, clear=clear, **author_of(target.spark)
    )


def _clear_deletion_vectors(target: DmlTarget) -> bool:
    table = target.table
    was_on = ENABLE_DELETION_VECTORS.name in table.snapshot().properties
    if was_on:  # so that no writer adds new ones meanwhile
        with TransactionBuilder(table, **author_of(target.spark)) as changes:
            changes.unset_properties([ENABLE_DELETION_VECTORS.name])
    return bool(purge(Optimize(target=target)).removed_bytes) or was_on


def _clear_column_mapping(target: DmlTarget) -> bool:
    """Rewrite all files with logical column names, and remove column mapping from the metadata."""
    snapshot = target.table.snapshot()
    before, schema = snapshot.metadata, without_mapping(snapshot.schema)
    configuration = {key: value for key, value in before.configuration.items() if key != MODE}
    after = before.replace(schema_string=schema.to_json(), configuration=configuration)
    if after == before:
        return False
    if snapshot.clustering_columns:
        detail, remedy = (
            "the table is clustered by physical column names",
            "Disable clustering first: ALTER TABLE ... CLUSTER BY NONE.",
        )
        raise FeatureInUseError(feature="columnMapping", table=snapshot.url, detail=detail, remedy=remedy)
    check_schema(schema, "none", table=snapshot.url)
    _write_again(target, snapshot, after, range(len(snapshot.live)), "REMOVE COLUMN MAPPING")
    return True


def _clear_type_widening(target: DmlTarget) -> bool:
    """Rewrite files that have older types of their columns, and remove the type changes from the metadata."""
    snapshot = target.table.snapshot()
    changed = {path[0] for path, _, _ in recorded_changes(snapshot.schema)}
    schema = map_fields(
        snapshot.schema, lambda f: replace(f, metadata={k: v for k, v in f.metadata.items() if k != TYPE_CHANGES})
    )
    configuration = {key: value for key, value in snapshot.properties.items() if key != ENABLE_TYPE_WIDENING.name}
    after = snapshot.metadata.replace(schema_string=schema.to_json(), configuration=configuration)
    if after == snapshot.metadata:
        return False
    _write_again(target, snapshot, after, _files_of_other_types(snapshot, changed) if changed else [], REORG)
    return True


def _files_of_other_types(snapshot: Snapshot, columns: set[str]) -> list[int]:
    """The numbers of the files in which one of these columns has another type than in the table."""
    pairs = zip(snapshot.schema, physical_schema(snapshot.schema, snapshot.column_mapping_mode), strict=True)
    physical = {column.name: column.type for field, column in pairs if field.name in columns}

    def is_other(add: Add) -> bool:
        store, key = snapshot.log.locate(resolve_path(add.path, snapshot.url))
        try:
            found = delta_schema(open_parquet(store, key).schema_arrow, table=snapshot.url)
        except DeltaError:  # the file has a type that Delta does not have; rewriting stores the table's type
            return True
        return any((field := found.find(name)) is not None and field.type != kind for name, kind in physical.items())

    return [number for number, other in enumerate(in_threads(is_other, snapshot.live.adds())) if other]


def _write_again(
    target: DmlTarget, snapshot: Snapshot, metadata: Metadata, numbers: Sequence[int], operation: str
) -> None:
    """Commit new metadata, and rewrite some files, given by number, to conform to it."""
    request = WriteRequest(mode="append", schema=snapshot.schema, data_change=False)
    plan = replace(plan_existing(target.table, request, snapshot), metadata=metadata)
    with RowChange(target, command=operation, removes_data=False, plan=plan) as change:
        if len(numbers):
            wanted = set(numbers)
            change.remove([add for number, add in enumerate(snapshot.live.adds()) if number in wanted])
            change.write_again(change.rows(numbers))
        metrics = {"numRemovedFiles": len(change.removed_files), "numAddedFiles": len(change.added_files)}
        change.commit(operation, {}, metrics, EVERYTHING)


_Clear: TypeAlias = Callable[[DmlTarget], bool]

_CLEARED_BY: Mapping[str, _Clear] = {
    "deletionVectors": _clear_deletion_vectors,
    "columnMapping": _clear_column_mapping,
    "typeWidening": _clear_type_widening,
}
