"""The catalog of a simulated life, which ratifies the commits of the life's table."""

from __future__ import annotations

from dataclasses import dataclass, field

from tahoe.protocol.log.log_files import STAGED_FOLDER, commit_key
from tahoe.storage.env import Store
from tahoe.storage.managed import ManagedStore
from tahoe.storage.ratified import Ratified, RatifiedCommit

PROPERTIES = {"delta.feature.catalogManaged": "supported", "delta.enableInCommitTimestamps": "true"}


@dataclass
class SimulatedCatalog:
    """The `TableCommits` of the table without faults, one call at a time.

    Attributes:
        versions: the staged file that owns each version, also after it has been published.
    """

    state: Ratified = field(default_factory=Ratified)
    versions: dict[int, str] = field(default_factory=dict)

    def ratified(self) -> Ratified:
        return self.state

    def ratify(self, commit: RatifiedCommit) -> bool:
        if commit.version != self.state.latest + 1:
            return False
        self.state = Ratified(commit.version, (*self.state.commits, commit))
        self.versions[commit.version] = commit.file
        return True

    def may_describe(self, _: int) -> bool:
        return True

    def published(self, version: int) -> None:
        kept = tuple(commit for commit in self.state.commits if commit.version > version)
        self.state = Ratified(self.state.latest, kept)


def disagreements(files: Store, store: ManagedStore, catalog: SimulatedCatalog) -> list[str]:
    """What the log has that the catalog has not ratified, after all commits have been published."""
    store.publish()
    found = []
    for version, file in catalog.versions.items():
        staged, published = f"{STAGED_FOLDER}/{file}", commit_key(version)
        if files.head(staged) is None or files.head(published) is None:
            continue  # one of them is past its retention
        if files.get(staged) != files.get(published):
            found.append(f"version {version} of the log is not {file}, which the catalog has ratified")
    return found
