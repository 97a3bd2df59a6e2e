"""Removes deletion vectors from a table, without Spark: what `Table.drop_feature` does before it drops their
feature.
"""

from __future__ import annotations

from tahoe.protocol.configuration.features import Feature
from tahoe.protocol.configuration.properties import ENABLE_DELETION_VECTORS
from tahoe.table.layout.compaction import CompactionSettings
from tahoe.table.layout.optimize import REORG, OptimizeRequest, optimize
from tahoe.table.transactions.transaction_builder import TransactionBuilder
from tahoe.table.versions.table_reader import TableReader


def remove_vectors(table: TableReader, feature: Feature) -> bool:
    """Rewrite the files that have deletion vectors, if they are the feature. Returns whether the table changed."""
    if feature.name != "deletionVectors":
        return False
    was_on = ENABLE_DELETION_VECTORS.name in table.snapshot().properties
    if was_on:  # so that no writer adds new ones meanwhile
        with TransactionBuilder(table) as changes:
            changes.unset_properties([ENABLE_DELETION_VECTORS.name])
    settings = CompactionSettings(min_file_bytes=0, max_deleted_share=0.0)
    return bool(optimize(table, OptimizeRequest(settings=settings, operation=REORG)).removed_bytes) or was_on
