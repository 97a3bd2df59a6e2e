"""The columns of a change data feed: those of one version, with the widest types that their rows have had, if all rows
can be read so.

Protocol: "Reader Requirements for AddCDCFile". Ranges and schemas follow the rules of the reference, which refuses
wider types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tahoe.errors import (
    ChangesNotRecordedError,
    IncompatibleChangeDataError,
    IncompatibleChangesError,
    MissingVersionError,
    VersionNotFoundError,
)
from tahoe.protocol.configuration.change_feed import Fit, first_incompatibility
from tahoe.protocol.configuration.column_mapping import mapping_mode
from tahoe.protocol.configuration.features import setting
from tahoe.protocol.configuration.properties import ENABLE_CHANGE_DATA_FEED
from tahoe.protocol.configuration.row_tracking import RowTracking, enabled_row_tracking
from tahoe.protocol.log.actions import Action, Metadata, Protocol, Remove
from tahoe.protocol.types.schema import DataType, Struct
from tahoe.protocol.types.type_widening import widest
from tahoe.table.reading.snapshot import Snapshot, load_snapshot


@dataclass(frozen=True, slots=True)
class _Here:
    """Protocol and metadata of a version: of the start of the range, or changed within the range (`is_change`)."""

    protocol: Protocol
    metadata: Metadata
    version: int
    is_change: bool


class FeedColumns:
    """The columns of the feed of a range of versions, found while its commits are read.

    Args:
        read: the version whose columns the feed has.
        start, end: the range.
        protocol, metadata: of the first version of the range.
        computed: whether the changes are computed from data files, where the feed may not be enabled.

    Raises:
        ChangesNotRecordedError: the change data feed is not enabled at the first version.
    """

    def __init__(
        self, read: Snapshot, start: int, end: int, protocol: Protocol, metadata: Metadata, *, computed: bool = False
    ) -> None:
        self._read, self._start, self._end, self._computed = read, start, end, computed
        self._states = [_Here(protocol, metadata, start, is_change=False)]
        self._removed: _Here | None = None
        self._check_recorded(self._states[0])

    def commit(self, version: int, actions: Sequence[Action]) -> None:
        """Take note of the next commit.

        Raises:
            ChangesNotRecordedError: the change data feed is not enabled behind it.
        """
        last = self._states[-1]
        protocol = next((a for a in actions if isinstance(a, Protocol)), last.protocol)
        metadata = next((a for a in actions if isinstance(a, Metadata)), last.metadata)
        if (protocol, metadata) != (last.protocol, last.metadata):
            self._states.append(_Here(protocol, metadata, version, is_change=True))
            self._check_recorded(self._states[-1])
        if version == self._start:
            self._removed = self._before_start(actions)

    @property
    def row_tracking(self) -> RowTracking | None:
        """That of the last commit."""
        here = self._states[-1]
        return enabled_row_tracking(here.protocol, here.metadata.configuration)

    def widest(self) -> Struct:
        """The columns.

        Raises:
            IncompatibleChangesError: rows of a version cannot be read with the columns.
        """
        columns: DataType = self._read.schema
        for here in [*([] if self._removed is None else [self._removed]), *self._states]:
            columns = widest(columns, here.metadata.schema)
        assert isinstance(columns, Struct)
        for here in self._states:
            self._check_readable(here, columns, Fit(widens=True))
        if self._removed is not None:
            self._check_readable(self._removed, columns, Fit(widens=True, lacks=True, nulls=True))
        return columns

    def _check_recorded(self, here: _Here) -> None:
        if self._computed:
            return
        check_recorded(
            here.protocol, here.metadata.configuration, here.version, (self._start, self._end), table=self._read.url
        )

    def _check_readable(self, here: _Here, columns: Struct, fit: Fit) -> None:
        read = self._read
        wide, mode = (
            read.metadata.replace(schema_string=columns.to_json()),
            mapping_mode(here.protocol, here.metadata.configuration),
        )
        changed = first_incompatibility(wide, read.column_mapping_mode, here.metadata, mode, fit)
        if changed is not None:
            raise self._incompatible_error(here, changed)

    def _before_start(self, actions: Sequence[Action]) -> _Here | None:
        """The version whose rows the first commit removes, if it changes how they are read, such as a RESTORE of
        narrower types.
        """
        if not any(isinstance(action, Metadata) for action in actions):
            return None
        if not any(isinstance(action, Remove) and action.data_change for action in actions):
            return None
        try:
            before = load_snapshot(self._read.log, self._start - 1)
        except (VersionNotFoundError, MissingVersionError):  # the log begins here
            return None
        return _Here(before.protocol, before.metadata, before.version, is_change=False)

    def _incompatible_error(self, here: _Here, changed: str) -> IncompatibleChangesError:
        """The error for a version that the schema of the feed cannot read. If the schema changed in that version, the
        feed can be read in two parts.
        """
        if here.is_change:
            remedy = (
                f"Read the changes in two parts: up to version {here.version - 1}, and from version {here.version}."
            )
        else:
            remedy = "Start at a later version, or read the table at each version with time travel."
        return (IncompatibleChangesError if here.is_change else IncompatibleChangeDataError)(
            table=self._read.url,
            start=self._start,
            end=self._end,
            schema_version=self._read.version,
            version=here.version,
            changed=changed,
            remedy=remedy,
        )


def check_recorded(
    protocol: Protocol, configuration: Mapping[str, str], version: int, asked: tuple[int, int], *, table: str
) -> None:
    """Refuse a version at which changes are not recorded.

    Args:
        asked: the first and the last version that are to be read.
    """
    if not setting(ENABLE_CHANGE_DATA_FEED, protocol, configuration, table=table):
        raise ChangesNotRecordedError(table=table, start=asked[0], end=asked[1], version=version)
