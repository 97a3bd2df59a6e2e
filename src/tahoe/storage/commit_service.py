"""The contract of a commit service: what says which writer has a version, for storages that cannot say it themselves.

It holds one entry for each version that is being committed, and knows nothing of what a commit says. The entry is that of the reference's
ExternalCommitEntry, so that its writers and ours can share a table. Entries of versions long committed may be gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEntry:
    """A version that one writer has, and where its bytes are.

    Attributes:
        table: the url of the table's folder, as `normalise` makes it. All writers must spell it alike.
        file: the name of the commit in the log.
        temporary: the path of its bytes, from the log's folder.
        is_complete: whether the commit has its name in the log.
    """

    table: str
    file: str
    temporary: str
    is_complete: bool = False


class CommitService(Protocol):
    """Safe to use from several threads; pickled, it is opened anew where it arrives. What was answered once is seen by every later call.

    Raises:
        StorageUnavailableError: the service cannot be reached or fails. After `claim` that means *unknown*.
        StorageRefusedError: the service will not do it, and has not.
    """

    def claim(self, entry: CommitEntry) -> bool:
        """Enter a version unless it has an entry. Afterwards True says that the entry is this one, False that it is another's."""

    def find(self, table: str, file: str) -> CommitEntry | None:
        """The entry of a commit, or None where there is none."""

    def newest(self, table: str) -> CommitEntry | None:
        """The entry with the last name in a table's log, or None where there is none."""

    def complete(self, entry: CommitEntry) -> None:
        """Mark an entry as complete, after which it may be forgotten in a day. One that is complete or forgotten stays what it is."""
