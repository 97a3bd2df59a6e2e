"""Row tracking: the ids that new files get, and the mark below which all are given away.

Protocol: "Row Tracking", "Writer Requirements for Row Tracking". Ids are minted when a commit is put, and again when it goes behind a
winner: a pure function of the actions and of the mark that the version before left.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from tahoe.protocol import features, properties
from tahoe.protocol.actions import Action, Add, DomainMetadata, Metadata, Protocol

DOMAIN = "delta.rowTracking"
_MARK = "rowIdHighWaterMark"

# The mark of a table that has given no id away.
NO_IDS = -1

ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"
ROW_COMMIT_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"


def assigns_row_ids(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether every new file needs a base row id: where the feature is supported, enabled or not, unless that is suspended."""
    return "rowTracking" in features.supported_features(protocol) and not properties.ROW_TRACKING_SUSPENDED.get(metadata.configuration)


def high_water_mark(domain: DomainMetadata | None) -> int:
    """The highest row id that is given away."""
    found = None if domain is None or domain.removed else json.loads(domain.configuration).get(_MARK)
    return NO_IDS if found is None else int(found)


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


def materialised_columns(configuration: Mapping[str, str], new_id: Callable[[], str]) -> dict[str, str]:
    """The names under which rewritten rows keep their ids: those that the table has, or new ones that no column can have."""
    return {
        ROW_ID_COLUMN: configuration.get(ROW_ID_COLUMN) or f"_row-id-col-{new_id()}",
        ROW_COMMIT_VERSION_COLUMN: configuration.get(ROW_COMMIT_VERSION_COLUMN) or f"_row-commit-version-col-{new_id()}",
    }
