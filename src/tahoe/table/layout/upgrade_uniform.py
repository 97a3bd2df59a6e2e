"""REORG ... APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = n)): gives a table Iceberg's metadata, and rewrites the
files that Iceberg's readers could not read.

Each step is a commit of its own. If one fails, what was done stays, and the statement can be run again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from tahoe.errors import InvalidOptionError
from tahoe.protocol.configuration.column_mapping import MODE
from tahoe.protocol.configuration.feature_conflicts import ICEBERG_COMPATS
from tahoe.protocol.configuration.features import iceberg_compat
from tahoe.protocol.configuration.properties import ENABLE_DELETION_VECTORS, ENABLE_ROW_TRACKING, ENABLED_FORMATS
from tahoe.protocol.configuration.universal_format import ICEBERG, has_iceberg
from tahoe.table.commit.draft import Author
from tahoe.table.layout.compaction import CompactionSettings
from tahoe.table.layout.optimize import NESTED_IDS, REORG, OptimizeRequest
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.transactions.alter import set_properties, unset_properties
from tahoe.table.versions.table_reader import TableReader

# The versions of Iceberg compatibility whose rules rewriting can bring about; the last one has deletion vectors and row
# ids.
_VERSIONS = (2, 3)
_TRACKED = 3


def upgrade_uniform(
    table: TableReader, version: int, rewrite: Callable[[OptimizeRequest], object], **author: Unpack[Author]
) -> int:
    """Give a table Iceberg compatibility and Iceberg's metadata.

    Args:
        rewrite: runs a REORG.

    Returns:
        the version of the table from which on it has the metadata.

    Raises:
        InvalidOptionError: another version of Iceberg compatibility than 2 and 3.
        InvalidPropertyError, UnsupportedOperationError: the table has what Iceberg lacks, such as a column of type
            void.
    """
    if version not in _VERSIONS:
        detail = "it must be 2 or 3"
        raise InvalidOptionError(option="ICEBERG_COMPAT_VERSION", value=version, table=table.url, detail=detail)
    before = table.snapshot()
    set_properties(table, _prepared(before, version), **author)
    if version < _TRACKED and table.snapshot().has_deletion_vectors:
        rewrite(OptimizeRequest(settings=CompactionSettings(min_file_bytes=0, max_deleted_share=0.0), operation=REORG))
    if has_iceberg(before.properties) and (iceberg_compat(before.protocol, before.properties) or 0) < version:
        unset_properties(table, [ENABLED_FORMATS.name], **author)  # until its files have the ids of the new version
    others = {f"delta.enableIcebergCompatV{compat.number}": "false" for compat in ICEBERG_COMPATS}
    ended = {name: value for name, value in others.items() if name in before.properties}
    set_properties(table, {**ended, f"delta.enableIcebergCompatV{version}": "true"}, **author)
    rewrite(OptimizeRequest(operation=REORG, purpose=NESTED_IDS))
    return set_properties(table, {ENABLED_FORMATS.name: ICEBERG}, **author)


def _prepared(before: Snapshot, version: int) -> dict[str, str]:
    """The properties that a table needs before it can have a version of Iceberg compatibility."""
    prepared = {MODE: "name"} if before.column_mapping_mode == "none" else {}
    if version >= _TRACKED:
        return {**prepared, ENABLE_ROW_TRACKING.name: "true"}
    if ENABLE_DELETION_VECTORS.name in before.properties:
        prepared[ENABLE_DELETION_VECTORS.name] = "false"
    return prepared
