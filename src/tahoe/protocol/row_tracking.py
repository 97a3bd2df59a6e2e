"""Row ids and row commit versions: which tables have them, and which columns of their data files keep them for rows that were moved.

Protocol: "Row Tracking". Every file has a base row id and a commit version in its `add` action; what a row was given before it came into
the file stands beside it, in columns that no schema has. Knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tahoe.protocol.actions import Protocol
from tahoe.protocol.features import supported_features
from tahoe.protocol.properties import ENABLE_ROW_TRACKING

FEATURE = "rowTracking"
ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"
ROW_COMMIT_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"

# What readers call them, as fields of `_metadata`: the two stable values, and the two of a file that stand in for them.
METADATA = "_metadata"
ROW_ID = "row_id"
BASE_ROW_ID = "base_row_id"
DEFAULT_ROW_COMMIT_VERSION = "default_row_commit_version"
ROW_COMMIT_VERSION = "row_commit_version"
METADATA_FIELDS = (ROW_ID, BASE_ROW_ID, DEFAULT_ROW_COMMIT_VERSION, ROW_COMMIT_VERSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTracking:
    """Where the rows of a table with row tracking have what they were given before they came into their file.

    Attributes:
        row_id_column: a physical column of data files; a file may lack it, a row may have null there. None where the table names none.
        row_commit_version_column: likewise.
    """

    row_id_column: str | None
    row_commit_version_column: str | None


def enabled_row_tracking(protocol: Protocol, configuration: Mapping[str, str]) -> RowTracking | None:
    """Row tracking, where it is enabled: the property is honoured only where the protocol supports the feature."""
    if configuration.get(ENABLE_ROW_TRACKING.name, "").strip().lower() != "true" or FEATURE not in supported_features(protocol):
        return None
    return RowTracking(
        row_id_column=configuration.get(ROW_ID_COLUMN), row_commit_version_column=configuration.get(ROW_COMMIT_VERSION_COLUMN)
    )
