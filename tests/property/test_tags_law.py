"""Tags over random tables, histories and clocks: whatever VACUUM and log cleanup do, a version with a name has the rows
that it had.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tahoe.errors import TagExistsError, TagFilesMissingError, TagNotFoundError, TagRetentionError, VersionNotFoundError
from tahoe.protocol.log.log_files import Kind
from tahoe.table.log import deletion_vectors
from tests.examples import fewer
from tests.property.vacuum_worlds import HOUR_MS, World, rows_of, steps


@dataclass
class TaggedWorld(World):
    """A table whose versions get names.

    Attributes:
        tagged: the versions of the tags, and their ends of life.
    """

    tagged: dict[str, tuple[int, int | None]] = field(default_factory=dict)

    @property
    def held(self) -> set[int]:
        return {
            version for version, expires_ms in self.tagged.values() if expires_ms is None or self.now_ms < expires_ms
        }

    def tag(self, number: int) -> None:
        """Name a version, back from the newest; some names have an end of life, some are moved."""
        version, hours = max(max(self.rows) - number * 2 // 3, 0), (None, 2, 5)[number % 3]
        expires_ms = None if hours is None else self.now_ms + hours * HOUR_MS
        expires = None if hours is None else datetime.fromtimestamp(self.now_ms / 1000, UTC) + timedelta(hours=hours)
        name, check = f"t{number % 4}", number % 2 == 0
        with suppress(TagExistsError, TagRetentionError, TagFilesMissingError, VersionNotFoundError):
            self.writer.tag(name, version, expires=expires, replace=number > 3, retention_check=check)
            self.tagged[name] = version, expires_ms

    def untag(self, number: int) -> None:
        with suppress(TagNotFoundError):
            self.caretaker.untag(f"t{number % 4}")
            del self.tagged[f"t{number % 4}"]

    def restore(self, number: int) -> None:
        names = sorted(name for name, (version, _) in self.tagged.items() if version in self.held)
        if names:
            self.writer.restore(names[number % len(names)], retention_check=False)

    # --- what must be

    def check_tags(self) -> None:
        assert {tag.name: (tag.version, tag.expires_ms) for tag in self.caretaker.tags()} == self.tagged
        for name, (version, _) in self.tagged.items():
            if version in self.held:
                assert rows_of(self.caretaker, version) == self.rows[version]
                assert self.caretaker.snapshot(name).version == version
        commits = [file.version for file in self.caretaker.log.list_files() if file.kind is Kind.COMMIT]
        assert commits == list(range(commits[0], max(self.rows) + 1)), "the log has a hole"

    def within(self, cutoff_ms: int) -> list[int]:
        return sorted({*super().within(cutoff_ms), *self.held})


@given(
    steps=steps("tag", "tag", "tag", "untag", "untag", "restore"),
    partitioned=st.booleans(),
    vectors=st.booleans(),
    in_commit_timestamps=st.booleans(),
    short_log=st.booleans(),
)
@fewer(2)
def test_a_version_with_a_name_stays_and_the_rest_goes(
    steps: list[tuple[str, int]], partitioned: bool, vectors: bool, in_commit_timestamps: bool, short_log: bool
) -> None:
    inline, deletion_vectors.INLINE_BYTES_MAX = deletion_vectors.INLINE_BYTES_MAX, 0
    try:
        world = TaggedWorld(
            properties={
                "delta.enableDeletionVectors": str(vectors).lower(),
                "delta.enableInCommitTimestamps": str(in_commit_timestamps).lower(),
                "delta.checkpointInterval": "3",
                "delta.logRetentionDuration": "interval 0 days" if short_log else "interval 30 days",
                "delta.deletedFileRetentionDuration": "interval 2 hours",
            },
            partitioned=partitioned,
        )
        for name, number in [*steps, ("full", 1)]:
            world.now_ms += 60_000
            if name in ("full", "lite"):
                world.vacuum(number - 1, lite=name == "lite")
            elif name not in ("begin", "turn_clock"):
                getattr(world, name)(number)
            world.look()
            world.check_tags()
    finally:
        deletion_vectors.INLINE_BYTES_MAX = inline
