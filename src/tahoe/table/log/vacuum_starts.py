"""Whether a VACUUM began between two versions: it may delete files that were written before its cutoff and that no
commit names.

Protocol: "Commit Provenance Information". A write that goes on from a newer version than it began with asks here about
its files, and a RESTORE about those that it brings back.
"""

from __future__ import annotations

from collections.abc import Mapping

from tahoe.errors import MissingVersionError
from tahoe.protocol.log.actions import CommitInfo
from tahoe.storage.threads import load_all
from tahoe.table.log.delta_log import Log

# If a commit is gone, it may have been that of a VACUUM of any cutoff.
_ANY_TIME_MS = (1 << 63) - 1


def vacuum_cutoff_ms(log: Log, after: int, until: int) -> int | None:
    """The latest cutoff of the VACUUMs that began after one version, and not after another; None if none began."""
    cutoffs = [cutoff for version in range(after + 1, until + 1) if (cutoff := _cutoff_ms(log, version)) is not None]
    return max(cutoffs, default=None)


def _cutoff_ms(log: Log, version: int) -> int | None:
    try:
        actions = log.read_version(version)
    except MissingVersionError:
        return _ANY_TIME_MS
    return next((action.vacuum_cutoff_ms for action in actions if isinstance(action, CommitInfo)), None)


def unended_vacuums(log: Log, after: int, until: int, begun: Mapping[int, CommitInfo]) -> dict[int, CommitInfo]:
    """The VACUUMs that have not ended, by the versions at which they began. One that was killed never ends.

    Args:
        after, until: the commits to look at; a commit that is gone is too old for a VACUUM that is still at work.
        begun: those that had not ended before.
    """
    at_work, versions = dict(begun), range(after + 1, until + 1)
    for version, info in zip(versions, load_all(log.commit_info, versions), strict=True):
        if info is not None and info.vacuum_cutoff_ms is not None:
            at_work[version] = info
        elif info is not None and info.ends_vacuum:
            started = info.vacuum_started
            if started is None:  # other writers do not tell it
                started = max(
                    (number for number, begin in at_work.items() if begin.engine == info.engine), default=None
                )
            at_work.pop(-1 if started is None else started, None)
    return at_work
