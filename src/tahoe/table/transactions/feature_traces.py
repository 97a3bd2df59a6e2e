"""Finds what still uses a table feature that is to be dropped: files, domains and the history.

Protocol: "Table Features", "Checkpoint Protection".
"""

from __future__ import annotations

from collections.abc import Iterable

from tahoe.errors import (
    CheckpointProtectionKeptError,
    FeatureInHistoryError,
    FeatureInUseError,
    NoHistoryToTruncateError,
)
from tahoe.protocol.configuration.feature_drop import uses_of
from tahoe.protocol.configuration.features import Feature, is_activated_by_metadata, setting
from tahoe.protocol.configuration.properties import DROP_FEATURE_RETENTION, PROTECTED_CHECKPOINTS_BEFORE
from tahoe.protocol.log.actions import Action, Add, CheckpointMetadata, DomainMetadata, Metadata, Remove
from tahoe.protocol.log.log_files import Kind, LogFile, readable_versions
from tahoe.protocol.log.tags import PREFIX
from tahoe.protocol.statistics import clustering
from tahoe.storage.env import Store
from tahoe.table.log.checkpoint import read_other_actions
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tahoe.table.versions.tags import holding_tags, shown_names

_VECTORS, _V2_CHECKPOINTS, _DOMAINS, _PROTECTION = (
    "deletionVectors",
    "v2Checkpoint",
    "domainMetadata",
    "checkpointProtection",
)


def check_given_up(feature: Feature, snapshot: Snapshot, *, truncate_history: bool) -> None:
    """Refuse to drop a feature that files or domains still use, or the history if it is to be truncated.

    Raises:
        FeatureInUseError, FeatureInHistoryError: they still use it.
        NoHistoryToTruncateError, CheckpointProtectionKeptError: the history need not be truncated for this feature, or
            must be.
    """
    check_history_matters(feature, truncate_history=truncate_history, table=snapshot.url)
    check_files(feature, snapshot)
    domains = other_domains(feature, snapshot)
    if domains:
        detail = f"the table has the metadata domains {', '.join(domains)}"
        remedy = (
            "Remove them first: set_domain(name, None) in a transaction. Table.drop_feature removes them by itself."
        )
        raise FeatureInUseError(feature=feature.name, table=snapshot.url, detail=detail, remedy=remedy)
    if truncate_history and is_in_history(feature, snapshot):
        detail = "earlier versions that can still be read use it"
        raise FeatureInHistoryError(feature=feature.name, table=snapshot.url, detail=detail, remedy=wait_for(snapshot))


def check_files(feature: Feature, snapshot: Snapshot) -> None:
    """Refuse to drop a feature that the table's data files or tags use.

    Raises:
        FeatureInUseError: there are such files or tags.
    """
    detail = ""
    if feature.name == _VECTORS and snapshot.live.has_deletion_vectors:
        detail, remedy = (
            "files of the table have deletion vectors",
            "Rewrite them first: REORG TABLE ... APPLY (PURGE).",
        )
    elif feature.name == _DOMAINS and (names := shown_names(snapshot.domains)):
        detail, remedy = f"the table has the tags {names}", "Drop them first: ALTER TABLE ... DROP TAG."
    elif feature.name == clustering.FEATURE and snapshot.clustering_columns:
        detail, remedy = "the table is clustered", "Disable clustering first: ALTER TABLE ... CLUSTER BY NONE."
    if detail:
        raise FeatureInUseError(feature=feature.name, table=snapshot.url, detail=detail, remedy=remedy)


def is_unused(feature: Feature, snapshot: Snapshot) -> bool:
    """Whether a table has a feature without using it, so that nothing is lost with it: no column, property, file, tag
    or domain needs it.

    Features that are active wherever they are supported are used, except those of domains.
    """
    if feature.name not in (_DOMAINS, clustering.FEATURE) and not is_activated_by_metadata(feature):
        return False
    try:
        check_given_up(feature, snapshot, truncate_history=False)
    except (FeatureInUseError, CheckpointProtectionKeptError):
        return False
    return not uses_of(feature, snapshot.schema, snapshot.properties)


def other_domains(feature: Feature, snapshot: Snapshot) -> list[str]:
    """The metadata domains that the table cannot keep without the feature, and that belong to no feature that it
    has.
    """
    return (
        sorted(name for name, domain in snapshot.domains.items() if not domain.removed)
        if feature.name == _DOMAINS
        else []
    )


def check_history_matters(feature: Feature, *, truncate_history: bool, table: str) -> None:
    """Check that `truncate_history` fits the feature: earlier versions matter only for features that readers need.

    Raises:
        NoHistoryToTruncateError, CheckpointProtectionKeptError: the history need not be truncated for this feature, or
            must be.
    """
    if truncate_history and not feature.is_reader_feature and feature.name != _PROTECTION:
        detail, remedy = (
            "readers of earlier versions do not need it, so there is no history to truncate",
            "Leave out TRUNCATE HISTORY.",
        )
        raise NoHistoryToTruncateError(feature=feature.name, table=table, detail=detail, remedy=remedy)
    if feature.name == _PROTECTION and not truncate_history:
        detail, remedy = (
            "it protects the history",
            "Use ALTER TABLE ... DROP FEATURE checkpointProtection TRUNCATE HISTORY.",
        )
        raise CheckpointProtectionKeptError(feature=feature.name, table=table, detail=detail, remedy=remedy)


def wait_for(snapshot: Snapshot) -> str:
    """The next step for a user whose history is too recent to be truncated, or held by tags."""
    hours = DROP_FEATURE_RETENTION.get(snapshot.properties, table=snapshot.url).total_seconds() / 3600
    name = DROP_FEATURE_RETENTION.name
    held = [tag.name for tag in holding_tags(snapshot, snapshot.log.env.clock_ms())]
    drop = f"Drop the tags {shown_names(map(PREFIX.__add__, held))}, which hold earlier versions. " if held else ""
    return f"{drop}Retry after {hours:g} hours ({name}), or leave out TRUNCATE HISTORY if possible."


def domains_of(feature: Feature, snapshot: Snapshot) -> Iterable[DomainMetadata]:
    """The metadata domains that are removed with a feature.

    That of row tracking stays as long as the table supports domains, so that no row id is assigned twice, whoever
    begins anew.
    """
    found = snapshot.domains.get(clustering.DOMAIN) if feature.name == clustering.FEATURE else None
    return [] if found is None or found.removed else [found]


def is_in_history(feature: Feature, snapshot: Snapshot) -> bool:
    """Whether a readable version or any file of the log uses the feature."""
    log = snapshot.log
    files = log.list_files()
    if feature.name == _PROTECTION:
        before = setting(PROTECTED_CHECKPOINTS_BEFORE, snapshot.protocol, snapshot.properties, table=log.url)
        return any(file.version < before for file in files)
    if feature.name == _V2_CHECKPOINTS and any(_is_v2_checkpoint(log.env.store, file) for file in files):
        return True
    versions = readable_versions(files)
    assert versions is not None, "a snapshot has a log"
    oldest = load_snapshot(log, versions[0])
    if uses_of(feature, oldest.schema, oldest.properties) or (
        feature.name == _VECTORS and oldest.live.has_deletion_vectors
    ):
        return True
    return any(_uses(feature, action) for file in files if file.kind is Kind.COMMIT for action in log.read(file))


def _is_v2_checkpoint(store: Store, file: LogFile) -> bool:
    if file.kind is Kind.CLASSIC_CHECKPOINT:
        return any(isinstance(action, CheckpointMetadata) for action in read_other_actions(store, file.key))
    return file.kind is Kind.UUID_CHECKPOINT


def _uses(feature: Feature, action: Action) -> bool:
    match action:
        case Metadata():
            return bool(uses_of(feature, action.schema, action.configuration))
        case Add() | Remove():
            return feature.name == _VECTORS and action.deletion_vector is not None
        case _:
            return False
