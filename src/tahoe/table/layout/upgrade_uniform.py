"""REORG ... APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = n)): gives a table Iceberg's metadata, and rewrites the
files that Iceberg's readers could not read.

Each step is a commit of its own. If one fails, what was done stays, and the statement can be run again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from tahoe.errors import InvalidOptionError
from tahoe.protocol.configuration.column_mapping import MODE
from tahoe.protocol.configuration.properties import ENABLE_DELETION_VECTORS, ENABLED_FORMATS
from tahoe.protocol.configuration.universal_format import ICEBERG
from tahoe.table.commit.draft import Author
from tahoe.table.layout.compaction import CompactionSettings
from tahoe.table.layout.optimize import NESTED_IDS, REORG, OptimizeRequest
from tahoe.table.transactions.alter import set_properties
from tahoe.table.versions.table_reader import TableReader

# The version of Iceberg compatibility whose tables get Iceberg's metadata, and whose rules rewriting can bring about.
_VERSION = 2


def upgrade_uniform(
    table: TableReader, version: int, rewrite: Callable[[OptimizeRequest], object], **author: Unpack[Author]
) -> int:
    """Give a table Iceberg compatibility and Iceberg's metadata.

    Args:
        rewrite: runs a REORG.

    Returns:
        the version of the table from which on it has the metadata.

    Raises:
        InvalidOptionError: another version of Iceberg compatibility than 2.
        InvalidPropertyError, UnsupportedOperationError: the table has what Iceberg lacks, such as a column of type
            void.
    """
    if version != _VERSION:
        detail = "it must be 2, the version whose tables get Iceberg's metadata"
        raise InvalidOptionError(option="ICEBERG_COMPAT_VERSION", value=version, table=table.url, detail=detail)
    before = table.snapshot()
    prepared: dict[str, str] = {}
    if ENABLE_DELETION_VECTORS.name in before.properties:
        prepared[ENABLE_DELETION_VECTORS.name] = "false"
    if before.column_mapping_mode == "none":
        prepared[MODE] = "name"
    set_properties(table, prepared, **author)
    if table.snapshot().has_deletion_vectors:
        rewrite(OptimizeRequest(settings=CompactionSettings(min_file_bytes=0, max_deleted_share=0.0), operation=REORG))
    others = {f"delta.enableIcebergCompatV{n}": "false" for n in (1, 3)}
    ended = {name: value for name, value in others.items() if name in before.properties}
    set_properties(table, {**ended, "delta.enableIcebergCompatV2": "true"}, **author)
    rewrite(OptimizeRequest(operation=REORG, purpose=NESTED_IDS))
    return set_properties(table, {ENABLED_FORMATS.name: ICEBERG}, **author)
