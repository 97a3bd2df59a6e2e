"""Whether a VACUUM that is at work may delete files of an earlier version, so that these must not be brought back, nor
the version tagged.

A VACUUM looks at the newest version before it deletes files. What it does not see there is committed after its VACUUM
START, and so its writer learns here that the VACUUM is at work. Until the log has its VACUUM END, nobody but VACUUM
knows which files are left.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tahoe.protocol.log.actions import CommitInfo
from tahoe.table.log.vacuum_starts import unended_vacuums
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tahoe.table.versions.history import version_before
from tahoe.table.versions.tags import holding_tags


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleting:
    """A VACUUM that may be deleting files of a version: it began at one version, and keeps versions from another one
    on.
    """

    began: int
    kept: int


@dataclass(kw_only=True)
class VacuumsAtWork:
    """The VACUUMs that have begun since a version, as far as their end is not in the log.

    Attributes:
        version: the earlier version.
    """

    version: int
    _begun: dict[int, CommitInfo] = field(default_factory=dict, init=False)
    _until: int = field(default=-1, init=False)

    def deleting(self, newest: Snapshot, before: int | None = None) -> Deleting | None:
        """One of them that may delete files of the version; None if there is none. Commits that it has looked at are
        not read again.

        Args:
            before: VACUUMs that began at this version or later do not count; None for the version after the newest one.
        """
        self._begun = unended_vacuums(newest.log, max(self._until, self.version), newest.version, self._begun)
        self._until = newest.version
        for began, info in self._begun.items():
            if before is not None and began >= before:
                continue
            assert info.vacuum_cutoff_ms is not None
            kept = version_before(
                newest, info.vacuum_cutoff_ms
            )  # VACUUM keeps the newest version before its cutoff, and all later ones
            if kept is not None and self.version < kept and not self._was_tagged_at(newest, began):
                return Deleting(began=began, kept=kept)
        return None

    def _was_tagged_at(self, newest: Snapshot, began: int) -> bool:
        """Whether a tag that the VACUUM knows holds the version."""
        there = load_snapshot(newest.log, began)
        return any(tag.version == self.version for tag in holding_tags(there, newest.log.env.clock_ms()))
