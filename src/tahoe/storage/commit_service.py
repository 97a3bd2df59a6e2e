"""The interface of a commit service, which decides the winner of each version for storages without atomic creates.

It has one entry per version that is being committed, and does not see the content of commits. Entries equal those of
the reference's ExternalCommitEntry, so that both can write the same table. Entries of old versions may have expired.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEntry:
    """The writer that won a version, and the location of its commit's content.

    Attributes:
        table: the url of the table's folder, from `normalise`. All writers must use the same spelling.
        file: the name of the commit in the log.
        temporary: the path of the temporary file with the content, relative to the log's folder.
        is_complete: whether the commit file exists in the log.
    """

    table: str
    file: str
    temporary: str
    is_complete: bool = False


class CommitService(Protocol):
    """Decides the winner of each version. Thread-safe and strongly consistent; a pickled service is opened again where
    it is unpickled.

    Raises:
        StorageUnavailableError: the service cannot be reached or fails. The outcome of a `claim` is then *unknown*.
        StorageRefusedError: the service rejected the request, which had no effect.
    """

    def claim(self, entry: CommitEntry) -> bool:
        """Add the entry unless its version has one. True if the version's entry is now this one, False if it is another
        writer's.
        """

    def find(self, table: str, file: str) -> CommitEntry | None:
        """The entry of a commit; None if there is none."""

    def newest(self, table: str) -> CommitEntry | None:
        """The entry of a table with the greatest file name; None if there is none."""

    def complete(self, entry: CommitEntry) -> None:
        """Mark an entry as complete, after which it may expire in a day. Complete or expired entries do not change."""
