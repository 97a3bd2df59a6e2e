"""Files that tags hold back from VACUUM: no version within the retention needs them, but a tagged version does.

While VACUUM deletes files, it looks at the newest version again and again, because tags and commits may be made
meanwhile that need them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.log.log_files import Kind
from tahoe.protocol.log.tags import Tag
from tahoe.table.arrow.chunks import one_array
from tahoe.table.cleanup.named_files import keys_of, named_by_actions, named_by_live
from tahoe.table.cleanup.retention import file_actions
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.versions.tags import holding_tags, tagged_snapshot

_logger = logging.getLogger("tahoe")


@dataclass(frozen=True, slots=True, kw_only=True)
class TagHold:
    """What a tag holds back. A file that several tags need counts for each of them."""

    tag: str
    version: int
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFiles:
    """What tags hold back.

    Attributes:
        files: the columns `FILES`; each file once.
        holds: those of the tags that hold back anything.
        oldest: the oldest version that they name; None if nothing is held back.
    """

    files: pa.Table
    holds: tuple[TagHold, ...] = ()

    @property
    def oldest(self) -> int | None:
        return min((hold.version for hold in self.holds), default=None)

    @property
    def size_bytes(self) -> int:
        return pc.sum(self.files["size_bytes"]).as_py() or 0


def held_files(newest: Snapshot, tags: Iterable[Tag], dead: pa.Table) -> HeldFiles:
    """Which files, of those that no other version needs, the versions of tags need: data files and deletion vectors.

    Args:
        dead: the columns `FILES`.

    Raises:
        TagLostError, DeltaError: the version of a tag cannot be read, so it is unknown what it needs.
    """
    holds, is_held = [], np.zeros(len(dead), bool)
    for tag in tags if len(dead) else ():
        mine = one_array(_is_needed(newest, tag, dead["key"])).to_numpy(zero_copy_only=False)
        if mine.any():
            size_bytes = pc.sum(dead["size_bytes"].filter(pa.array(mine))).as_py() or 0
            holds.append(TagHold(tag=tag.name, version=tag.version, files=int(mine.sum()), size_bytes=size_bytes))
            is_held |= mine
    return HeldFiles(files=dead.filter(pa.array(is_held)), holds=tuple(holds))


def _is_needed(newest: Snapshot, tag: Tag, keys: pa.ChunkedArray) -> pa.ChunkedArray:
    """For each key, whether the version of a tag needs the file."""
    return keys_of(named_by_live(tagged_snapshot(newest, tag).live), newest.url).has(keys)


@dataclass(kw_only=True)
class LateTags:
    """Tags that are made while a VACUUM deletes files.

    Attributes:
        known: the tags that it has respected so far.
        dead: the files that it deletes: the columns `FILES`.
        spared: the keys of files that it does not delete, because late tags hold them.
    """

    known: set[Tag]
    dead: pa.Table
    spared: set[str] = field(default_factory=set)

    def look(self, newest: Snapshot, now_ms: int, deleted: Sequence[str]) -> None:
        """Look for tags that are new. If files that they hold were deleted already, it is said.

        Raises:
            as `held_files`
        """
        late = [tag for tag in holding_tags(newest, now_ms) if tag not in self.known]
        self.known |= set(late)
        for tag in late:
            held = held_files(newest, [tag], self.dead).files["key"].to_pylist()
            self.spared.update(held)
            if gone := len(set(held).intersection(deleted)):
                _logger.warning(
                    "%s: the tag %s was made while VACUUM ran, and version %s can no longer be read: %s of its "
                    "files were deleted before. Drop the tag",
                    newest.url,
                    tag.name,
                    tag.version,
                    gone,
                )


@dataclass(kw_only=True)
class LateCommits:
    """Commits that are made while a VACUUM deletes files: a RESTORE brings back what was removed, and a slow writer
    commits old files.

    Attributes:
        version: the version up to which commits were respected.
        dead: the keys of the files that it deletes.
        spared: those of them that it does not delete, because late commits name them.
    """

    version: int
    dead: pa.ChunkedArray
    spared: set[str] = field(default_factory=set)

    def look(self, newest: Snapshot, deleted: Sequence[str]) -> None:
        """Look for commits that are new. If files that they name were deleted already, it is said.

        Raises:
            DeltaError: a commit cannot be read, so it is unknown what it needs.
        """
        if newest.version == self.version:
            return
        commits = [
            file
            for file in newest.log.list_files(self.version + 1)
            if file.kind is Kind.COMMIT and file.version <= newest.version
        ]
        for file, actions in zip(commits, file_actions(newest.log, commits), strict=True):
            named = self.dead.filter(keys_of([named_by_actions(actions)], newest.url).has(self.dead)).to_pylist()
            self.spared.update(named)
            if gone := len(set(named).intersection(deleted)):
                _logger.warning(
                    "%s: version %s was committed while VACUUM ran, and names %s files that were deleted before: "
                    "queries of it may fail. Restore an earlier version, or remove the files with FSCK REPAIR TABLE",
                    newest.url,
                    file.version,
                    gone,
                )
        self.version = max(self.version, newest.version)
