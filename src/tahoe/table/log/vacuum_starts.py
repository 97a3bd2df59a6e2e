"""Whether a VACUUM began between two versions: it may delete files that were written before its cutoff and that no commit names.

Protocol: "Commit Provenance Information". A write that goes on from a newer version than it began with asks here about its files.
"""

from __future__ import annotations

from tahoe.errors import MissingVersionError
from tahoe.protocol.actions import CommitInfo
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
