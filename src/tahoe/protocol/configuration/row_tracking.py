"""Row tracking: the row ids of new files, the row id high-water mark, and the columns that store the ids of rewritten
rows.

Protocol: "Row Tracking", "Writer Requirements for Row Tracking". Row ids are assigned for each commit attempt, from its
actions and the high-water mark of the previous version. Every `add` action has a base row id and a default row commit
version. Rows that were moved from other files keep their ids and versions in materialised columns of the data files,
which are not in the schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tahoe.errors import InvalidPropertyError
from tahoe.protocol.configuration import features, properties
from tahoe.protocol.configuration.kept_marks import NO_IDS
from tahoe.protocol.log.actions import (
    Action,
    Add,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    domain_configuration,
    invalid_domain,
)

FEATURE = "rowTracking"
DOMAIN = "delta.rowTracking"
_HIGH_WATER_MARK = "rowIdHighWaterMark"

ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"
ROW_COMMIT_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"
MATERIALISED = (ROW_ID_COLUMN, ROW_COMMIT_VERSION_COLUMN)

# Iceberg's ids of `_row_id` and `_last_updated_sequence_number`, and the first version of compatibility that asks for
# them.
_LINEAGE_IDS = {ROW_ID_COLUMN: 2_147_483_540, ROW_COMMIT_VERSION_COLUMN: 2_147_483_539}
_LINEAGE_SINCE = 3

# The tag of `commitInfo` which says that all rows that the commit copied or updated have kept their ids.
PRESERVED = "delta.rowTracking.preserved"

# The fields of `_metadata` for readers: the two stable values of a row, and the two values of a file that they default
# to.
METADATA = "_metadata"
ROW_ID = "row_id"
BASE_ROW_ID = "base_row_id"
DEFAULT_ROW_COMMIT_VERSION = "default_row_commit_version"
ROW_COMMIT_VERSION = "row_commit_version"
METADATA_FIELDS = (ROW_ID, BASE_ROW_ID, DEFAULT_ROW_COMMIT_VERSION, ROW_COMMIT_VERSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTracking:
    """The materialised columns of a table with row tracking, which keep the ids and versions of rewritten rows.

    Attributes:
        row_id_column: a physical column of data files, which may be missing or null there. None if the table has no
            such column.
        row_commit_version_column: likewise.
    """

    row_id_column: str | None
    row_commit_version_column: str | None


def enabled_row_tracking(protocol: Protocol, configuration: Mapping[str, str]) -> RowTracking | None:
    """The materialised columns if row tracking is enabled, else None."""
    if not features.setting(properties.ENABLE_ROW_TRACKING, protocol, configuration):
        return None
    return RowTracking(
        row_id_column=configuration.get(ROW_ID_COLUMN),
        row_commit_version_column=configuration.get(ROW_COMMIT_VERSION_COLUMN),
    )


def field_ids(protocol: Protocol, configuration: Mapping[str, str]) -> Mapping[str, int]:
    """The field ids that data files give the materialised columns, by their names: those of Iceberg's row lineage, in a
    table with its compatibility. RFC "IcebergCompatV3".
    """
    if (features.iceberg_compat(protocol, configuration) or 0) < _LINEAGE_SINCE:
        return {}
    return {name: number for key, number in _LINEAGE_IDS.items() if (name := configuration.get(key)) is not None}


def assigns_row_ids(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether every new file needs a base row id: if the feature is supported, enabled or not, unless it is
    suspended.
    """
    is_suspended = features.setting(properties.ROW_TRACKING_SUSPENDED, protocol, metadata.configuration)
    return features.supports(protocol, FEATURE) and not is_suspended


def preserves_row_ids(info: CommitInfo) -> bool:
    """Whether a commit says that all rows which it copied or updated have kept their ids."""
    tags = info.fields.get("tags")
    return isinstance(tags, dict) and str(tags.get(PRESERVED)).lower() == "true"


def high_water_mark(domain: DomainMetadata | None) -> int:
    """The highest assigned row id.

    Raises:
        InvalidActionError: the domain is malformed.
    """
    if domain is None or domain.removed:
        return NO_IDS
    found = domain_configuration(domain).get(_HIGH_WATER_MARK)
    if found is not None and (not isinstance(found, int) or isinstance(found, bool)):
        raise invalid_domain(domain, f"{_HIGH_WATER_MARK} is not an integer")
    return NO_IDS if found is None else found


def with_row_ids(
    actions: Iterable[Action], mark: int, version: int, num_records: Callable[[Add], int], *, assigned: int = NO_IDS
) -> list[Action]:
    """The actions of a version with base row ids for the files that have none, and the new high-water mark.

    Args:
        actions: a domain with a high-water mark among them raises it: then the version has files with ids up to that
            one.
        mark: the high-water mark of the previous version.
        num_records: the physical number of rows of a file.
        assigned: the highest row id that the table is known to have assigned, if its mark does not tell.
    """
    completed: list[Action] = []
    all_actions = list(actions)
    marks = [high_water_mark(a) for a in all_actions if isinstance(a, DomainMetadata) and a.domain == DOMAIN]
    highest = max([mark, assigned, *marks])
    for action in all_actions:
        if isinstance(action, Add) and action.base_row_id is None:
            completed.append(action.replace(base_row_id=highest + 1, default_row_commit_version=version))
            highest += num_records(action)
        elif not (isinstance(action, DomainMetadata) and action.domain == DOMAIN):
            completed.append(action)
    return completed if highest == mark else [high_water_mark_domain(highest), *completed]


def high_water_mark_domain(highest: int) -> DomainMetadata:
    """The domain with a high-water mark."""
    return DomainMetadata(domain=DOMAIN, configuration=json.dumps({_HIGH_WATER_MARK: highest}, separators=(",", ":")))


def with_materialised_columns(
    protocol: Protocol, configuration: Mapping[str, str], new_id: Callable[[], str], *, table: str
) -> dict[str, str]:
    """The properties with the names of the materialised columns, if row tracking is enabled: the existing names, or new
    unique ones.

    Raises:
        InvalidPropertyError: row tracking is both enabled and suspended.
    """
    if not features.setting(properties.ENABLE_ROW_TRACKING, protocol, configuration, table=table):
        return dict(configuration)
    if features.setting(properties.ROW_TRACKING_SUSPENDED, protocol, configuration, table=table):
        name, other = properties.ROW_TRACKING_SUSPENDED.name, properties.ENABLE_ROW_TRACKING.name
        raise InvalidPropertyError(
            property=name, table=table, value="true", detail=f"{other} is also true, but only one of them may be"
        )
    return {
        **configuration,
        ROW_ID_COLUMN: configuration.get(ROW_ID_COLUMN) or f"_row-id-col-{new_id()}",
        ROW_COMMIT_VERSION_COLUMN: configuration.get(ROW_COMMIT_VERSION_COLUMN)
        or f"_row-commit-version-col-{new_id()}",
    }
