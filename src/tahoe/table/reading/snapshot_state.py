"""The state of one version: protocol, metadata, application transactions, domains and live files.

Protocol: "Snapshot". This module does not know how the state is rebuilt from the log, or how rows are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tahoe._cached import cached_property
from tahoe.protocol.configuration.column_mapping import mapping_mode
from tahoe.protocol.configuration.features import setting
from tahoe.protocol.configuration.properties import ENABLE_IN_COMMIT_TIMESTAMPS
from tahoe.protocol.configuration.row_tracking import RowTracking, enabled_row_tracking
from tahoe.protocol.log.actions import DomainMetadata, Metadata, Protocol, Txn
from tahoe.protocol.log.log_files import LogFile
from tahoe.protocol.statistics import clustering
from tahoe.protocol.statistics.clustering import clustering_columns
from tahoe.protocol.types.schema import Struct
from tahoe.table.arguments import TEXT, takes
from tahoe.table.log.delta_log import Log
from tahoe.table.log.live_files import LiveFiles


def in_commit_timestamps_enabled(protocol: Protocol, metadata: Metadata) -> bool:
    return setting(ENABLE_IN_COMMIT_TIMESTAMPS, protocol, metadata.configuration)


@dataclass(frozen=True, kw_only=True)
class SnapshotState:
    """The state of a table at one version. Immutable."""

    log: Log
    version: int
    protocol: Protocol
    metadata: Metadata
    txns: Mapping[str, Txn]
    domains: Mapping[str, DomainMetadata]
    live: LiveFiles
    commit: LogFile | None

    @property
    def url(self) -> str:
        return self.log.url

    @property
    def schema(self) -> Struct:
        """The table's schema with logical names."""
        return self.metadata.schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return self.metadata.partition_columns

    @property
    def properties(self) -> Mapping[str, str]:
        return self.metadata.configuration

    @cached_property
    def column_mapping_mode(self) -> str:
        """`none`, `name` or `id`."""
        return mapping_mode(self.protocol, self.metadata.configuration)

    @cached_property
    def clustering_columns(self) -> tuple[tuple[str, ...], ...]:
        """Logical paths of the clustering columns. Protocol: "Clustered Table"."""
        return clustering_columns(self.domains.get(clustering.DOMAIN), self.schema, self.column_mapping_mode)

    @cached_property
    def row_tracking(self) -> RowTracking | None:
        """The columns of data files that store row ids and row commit versions; None if row tracking is not enabled."""
        return enabled_row_tracking(self.protocol, self.metadata.configuration)

    @property
    def tracks_rows(self) -> bool:
        return self.row_tracking is not None

    @property
    def has_deletion_vectors(self) -> bool:
        return self.live.has_deletion_vectors

    @cached_property
    def timestamp_ms(self) -> int:
        """The time of the commit: its in-commit timestamp if it has one, else the modification time of its file."""
        if in_commit_timestamps_enabled(self.protocol, self.metadata):
            info = self.log.commit_info(self.version)
            if info is not None and info.in_commit_timestamp_ms is not None:
                return info.in_commit_timestamp_ms
        return self.commit.modified_ms if self.commit is not None else 0

    @takes(app_id=TEXT)
    def txn_version(self, app_id: str) -> int | None:
        """The last version that an application has recorded. Protocol: "Transaction Identifiers"."""
        txn = self.txns.get(app_id)
        return None if txn is None else txn.version
