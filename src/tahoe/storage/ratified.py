"""The interface of a catalog's part in the commits of a table: which versions it has ratified, and who owns the next
one.

Protocol: "Catalog-managed tables".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class RatifiedCommit:
    """A staged commit that owns its version.

    Attributes:
        file: its name in `_delta_log/_staged_commits`.
        modified_ms: when it was staged, in milliseconds since 1970.
    """

    version: int
    file: str
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Ratified:
    """What a catalog knows of a table's commits.

    Attributes:
        latest: the newest version; -1 before the first.
        commits: the newest commits, by version, without gaps up to `latest`. Those before them, or all of them, have
            been published.
    """

    latest: int = -1
    commits: tuple[RatifiedCommit, ...] = ()


class TableCommits(Protocol):
    """The commits of one table. Thread-safe and strongly consistent.

    Raises:
        StorageUnavailableError: the catalog cannot be reached or fails. The outcome of `ratify` is then *unknown*.
        StorageRefusedError: the catalog rejected the request, which had no effect.
    """

    def ratified(self) -> Ratified:
        """The newest version, and the commits that the catalog still keeps."""

    def ratify(self, commit: RatifiedCommit) -> bool:
        """Let a staged commit own its version, which follows the latest one. True if this one owns it, False if another
        one does.
        """

    def may_describe(self, version: int) -> bool:
        """Whether the log may have files about a version, such as checkpoints. Not if it can still be undone."""

    def published(self, version: int) -> None:
        """Forget the commits up to a version, which are in the log now."""
