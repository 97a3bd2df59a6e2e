"""Drops a table feature, so that readers and writers that do not know it can use the table.

Protocol: "Table Features", "Checkpoint Protection". First the newest version stops using the feature. Then a checkpoint
is written, so that no reader needs versions that use the feature. Then the feature is removed from the protocol.
Earlier versions stay and their checkpoints are protected, unless the history is truncated, which takes two calls that
are a day apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from tahoe.errors import FeatureDropWaitsError
from tahoe.protocol.changes.table_configuration import TableConfiguration
from tahoe.protocol.configuration.feature_drop import droppable_feature
from tahoe.protocol.configuration.features import Feature
from tahoe.protocol.configuration.properties import DROP_FEATURE_RETENTION, find_property
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.commit.draft import Author
from tahoe.table.commit.post_commit_hooks import clean_log
from tahoe.table.commit.transaction import Transaction
from tahoe.table.reading.snapshot import check_may_delete
from tahoe.table.transactions.feature_traces import check_files, check_history_matters, other_domains, wait_for
from tahoe.table.transactions.transaction_builder import TransactionBuilder
from tahoe.table.versions.table_reader import TableReader


def drop_feature(
    table: TableReader,
    name: str,
    *,
    truncate_history: bool = False,
    clear: Callable[[Feature], bool] = lambda _: False,
    **author: Unpack[Author],
) -> None:
    """Drop a feature of a table.

    Args:
        truncate_history: truncate the history that uses it, as far as it is older than
            `delta.dropFeatureTruncateHistory.retentionDuration`.
        clear: removes the feature from data files by rewriting rows, if needed. Returns whether there was anything to
            remove.

    Raises:
        FeatureDropError: the feature is unknown or not supported by the table, or the table still needs it.
        FeatureDropWaitsError: the feature is no longer used, but the history cannot be truncated yet.
        DeltaConcurrentModificationException: another writer committed a conflicting change meanwhile.
    """
    snapshot = table.snapshot()
    feature = droppable_feature(snapshot.protocol, name, table=table.url)
    check_history_matters(feature, truncate_history=truncate_history, table=table.url)
    if feature.is_reader_feature or truncate_history:
        check_may_delete(table.log, f"dropping the feature {feature.name}")
    cleared = clear(feature)
    snapshot = table.snapshot()
    check_files(feature, snapshot)
    # If a column or another property needs the feature, refuse it now, before anything is disabled.
    TableConfiguration(table=table.url, protocol=snapshot.protocol, metadata=snapshot.metadata).without_feature(feature)
    cleared = _switch_off(table, feature, author) or cleared
    if feature.is_reader_feature or truncate_history:
        if truncate_history:  # the newest commit may still use the feature, and cleanup keeps the newest
            Transaction(log=table.log, base=table.snapshot(), actions=[], operation="Empty Commit", **author).commit()
        write_checkpoint(table.snapshot())
    if truncate_history:
        snapshot = table.snapshot()
        if cleared:
            detail = f"version {snapshot.version} no longer uses it, but earlier versions that can still be read do"
            raise FeatureDropWaitsError(feature=feature.name, table=table.url, detail=detail, remedy=wait_for(snapshot))
        clean_log(snapshot, DROP_FEATURE_RETENTION.get(snapshot.properties, table=table.url))
    with TransactionBuilder(table, **author) as changes:
        changes.drop_feature(name, truncate_history=truncate_history)
    if feature.is_reader_feature:
        write_checkpoint(table.snapshot())


def _switch_off(table: TableReader, feature: Feature, author: Author) -> bool:
    """Disable a reader feature's properties, and remove the domains that no feature has. Returns whether anything
    changed.
    """
    snapshot = table.snapshot()
    own_properties = [
        known for name in feature.properties if (known := find_property(name)) is not None and not known.is_internal
    ]
    set_names = (
        [known.name for known in own_properties if known.name in snapshot.properties]
        if feature.is_reader_feature
        else []
    )
    domains = other_domains(feature, snapshot)
    if not (set_names or domains):
        return False
    with TransactionBuilder(table, **author) as changes:
        if set_names:
            changes.unset_properties(set_names)
        for name in domains:
            changes._remove_domain(name)
    return True
