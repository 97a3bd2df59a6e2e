"""Settings that decide how large files become and which rows are in them: optimised writes, clustering on write, auto
compaction.

Pure. Names and defaults are the reference's, which has no clustering on write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from tahoe.protocol.configuration.properties import AUTO_OPTIMIZE, CLUSTER_ON_WRITE, OPTIMIZE_WRITE
from tahoe.spark.configuration import setting_names
from tahoe.table.layout.auto_compaction import AutoCompaction

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizedWrite:
    """Whether rows are redistributed before they are written, so that each partition gets few large files.

    Attributes:
        is_on: None if the table's properties decide.
        task_bytes: the size of the rows of a task, as Spark shuffles them.
        blocks_max, groups_max: how many blocks the shuffle may have, and how many groups of rows; see `Redistribution`.
    """

    is_on: bool | None = None
    task_bytes: int = setting_names.OPTIMIZE_WRITE_SIZE.unset
    blocks_max: int = setting_names.OPTIMIZE_WRITE_BLOCKS.unset
    groups_max: int = setting_names.OPTIMIZE_WRITE_PARTITIONS.unset

    def applies(self, properties: Mapping[str, str], *, table: str) -> bool:
        """Whether a write to a table with these properties is optimised."""
        if self.is_on is not None:
            return self.is_on
        asked = OPTIMIZE_WRITE.get(properties, table=table)
        return AUTO_OPTIMIZE.get(properties, table=table) if asked is None else asked


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOnWrite:
    """Whether the rows of a write to a clustered table are laid out before they are written.

    Attributes:
        is_on: None if the table's property decides.
        min_bytes: what is smaller, in files, is written as it is.
        file_bytes: the size of a file, approximately, if the table does not have `delta.targetFileSize`.
    """

    is_on: bool | None = None
    min_bytes: int = setting_names.CLUSTER_MIN_SIZE.unset
    file_bytes: int = 128 << 20

    def applies(self, properties: Mapping[str, str], *, table: str) -> bool:
        """Whether rows may be laid out that are written to a clustered table with these properties.

        Raises:
            InvalidPropertyError: the property has an invalid value.
        """
        return CLUSTER_ON_WRITE.get(properties, table=table) if self.is_on is None else self.is_on


def auto_compaction(settings: Mapping[str, str], *, table: str) -> AutoCompaction:
    """Auto compaction as a session's settings ask for it.

    Raises:
        InvalidOptionError: a setting has an invalid value.
    """
    max_file_bytes = setting_names.COMPACT_MAX_SIZE.of(settings, table=table)
    return AutoCompaction(
        is_on=setting_names.COMPACT.of(settings, table=table),
        min_files=setting_names.COMPACT_MIN_FILES.of(settings, table=table),
        max_file_bytes=max_file_bytes,
        min_file_bytes=setting_names.COMPACT_MIN_SIZE.of(settings, table=table) or max_file_bytes // 2,
        only_modified=setting_names.COMPACT_MODIFIED.of(settings, table=table),
        max_partitions=setting_names.COMPACT_PARTITIONS.of(settings, table=table),
        skips_blind_appends=setting_names.COMPACT_NOT_APPENDS.of(settings, table=table),
    )


def optimized_write(settings: Mapping[str, str], *, is_on: bool | None, table: str) -> OptimizedWrite:
    """Optimised writes as a session's settings ask for them.

    Args:
        is_on: the writer's option, which takes precedence over the session; None if it is not given.

    Raises:
        InvalidOptionError: a setting has an invalid value.
    """
    by_session = setting_names.OPTIMIZE_WRITE.of(settings, table=table)
    return OptimizedWrite(
        is_on=by_session if is_on is None else is_on,
        task_bytes=setting_names.OPTIMIZE_WRITE_SIZE.of(settings, table=table),
        blocks_max=setting_names.OPTIMIZE_WRITE_BLOCKS.of(settings, table=table),
        groups_max=setting_names.OPTIMIZE_WRITE_PARTITIONS.of(settings, table=table),
    )


def cluster_on_write(settings: Mapping[str, str], *, is_on: bool | None, table: str) -> ClusterOnWrite:
    """Clustering on write as a session's settings ask for it.

    Args:
        is_on: the writer's option, which takes precedence over the session; None if it is not given.

    Raises:
        InvalidOptionError: a setting has an invalid value.
    """
    by_session = setting_names.CLUSTER_ON_WRITE.of(settings, table=table)
    return ClusterOnWrite(
        is_on=by_session if is_on is None else is_on, min_bytes=setting_names.CLUSTER_MIN_SIZE.of(settings, table=table)
    )
