"""Row tracking: the ids that new files get, the mark below which all are given away, and where data files keep what rows were given before.

Protocol: "Row Tracking", "Writer Requirements for Row Tracking". Ids are minted when a commit is put, and again when it goes behind a
winner: a pure function of the actions and of the mark that the version before left. Every file has a base row id and a commit version in
its `add` action; what a row was given before it came into the file stands beside it, in columns that no schema has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from tahoe.errors import InvalidPropertyError
from tahoe.protocol import features, properties
from tahoe.protocol.actions import Action, Add, DomainMetadata, Metadata, Protocol, domain_configuration, invalid_domain

FEATURE = "rowTracking"
DOMAIN = "delta.rowTracking"
_MARK = "rowIdHighWaterMark"

# The mark of a table that has given no id away.
NO_IDS = -1

ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"
ROW_COMMIT_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"
MATERIALISED = (ROW_ID_COLUMN, ROW_COMMIT_VERSION_COLUMN)

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
    """Row tracking, where it is enabled."""
    if not features.setting(properties.ENABLE_ROW_TRACKING, protocol, configuration):
        return None
    return RowTracking(
        row_id_column=configuration.get(ROW_ID_COLUMN), row_commit_version_column=configuration.get(ROW_COMMIT_VERSION_COLUMN)
    )


def assigns_row_ids(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether every new file needs a base row id: where the feature is supported, enabled or not, unless that is suspended."""
    is_suspended = features.setting(properties.ROW_TRACKING_SUSPENDED, protocol, metadata.configuration)
    return features.supports(protocol, FEATURE) and not is_suspended


def high_water_mark(domain: DomainMetadata | None) -> int:
    """The highest row id that is given away.

    Raises:
        InvalidActionError: the domain is not what the protocol has.
    """
    if domain is None or domain.removed:
        return NO_IDS
    found = domain_configuration(domain).get(_MARK)
    if found is not None and (not isinstance(found, int) or isinstance(found, bool)):
        raise invalid_domain(domain, f"{_MARK} is no whole number")
    return NO_IDS if found is None else found


def with_row_ids(actions: Iterable[Action], mark: int, version: int, num_records: Callable[[Add], int]) -> list[Action]:
    """The actions of a version with ids for the files that have none, and the new mark.

    Args:
        mark: the highest id that the version before has given away.
        num_records: the physical number of rows of a file.
    """
    done: list[Action] = []
    highest = mark
    for action in actions:
        if isinstance(action, Add) and action.base_row_id is None:
            done.append(replace(action, base_row_id=highest + 1, default_row_commit_version=version))
            highest += num_records(action)
        elif not (isinstance(action, DomainMetadata) and action.domain == DOMAIN):
            done.append(action)
    if highest == mark:
        return done
    return [DomainMetadata(domain=DOMAIN, configuration=json.dumps({_MARK: highest}, separators=(",", ":"))), *done]


def with_materialised_columns(
    protocol: Protocol, configuration: Mapping[str, str], new_id: Callable[[], str], *, table: str
) -> dict[str, str]:
    """The properties with the names under which rewritten rows keep their ids, where rows are tracked: those that the table has, or new
    ones that no column can have.

    Raises:
        InvalidPropertyError: row tracking is switched on, and suspended as well.
    """
    if not features.setting(properties.ENABLE_ROW_TRACKING, protocol, configuration, table=table):
        return dict(configuration)
    if features.setting(properties.ROW_TRACKING_SUSPENDED, protocol, configuration, table=table):
        name, other = properties.ROW_TRACKING_SUSPENDED.name, properties.ENABLE_ROW_TRACKING.name
        raise InvalidPropertyError(property=name, table=table, value="true", detail=f"{other} is true as well, and only one of them can be")
    return {
        **configuration,
        ROW_ID_COLUMN: configuration.get(ROW_ID_COLUMN) or f"_row-id-col-{new_id()}",
        ROW_COMMIT_VERSION_COLUMN: configuration.get(ROW_COMMIT_VERSION_COLUMN) or f"_row-commit-version-col-{new_id()}",
    }
