"""VACUUM over random tables, histories and clocks: every version within the retention can be read, and all else that is
old is gone.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tahoe.table.log import deletion_vectors
from tests.property.vacuum_worlds import World, steps


@given(
    steps=steps(),
    partitioned=st.booleans(),
    vectors=st.booleans(),
    changes=st.booleans(),
    in_commit_timestamps=st.booleans(),
    short_log=st.booleans(),
)
def test_versions_within_the_retention_stay_and_the_rest_goes(
    steps: list[tuple[str, int]],
    partitioned: bool,
    vectors: bool,
    changes: bool,
    in_commit_timestamps: bool,
    short_log: bool,
) -> None:
    inline, deletion_vectors.INLINE_BYTES_MAX = deletion_vectors.INLINE_BYTES_MAX, 0
    try:
        world = World(
            properties={
                "delta.enableDeletionVectors": str(vectors).lower(),
                "delta.enableChangeDataFeed": str(changes).lower(),
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
            else:
                getattr(world, name)(number)
            world.look()
    finally:
        deletion_vectors.INLINE_BYTES_MAX = inline
