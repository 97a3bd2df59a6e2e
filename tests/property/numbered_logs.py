"""Logs with large checkpoints, whose files have numbers."""

from __future__ import annotations

from contextlib import contextmanager
from unittest.mock import patch

from tahoe.protocol.log.actions import Metadata, Protocol, Remove
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import load_snapshot
from tests.property.random_statistics import SCHEMA
from tests.table.builders import add, memory_env, put_commit

PROTOCOL = Protocol(
    reader_version=3,
    writer_version=7,
    reader_features=frozenset({"v2Checkpoint", "deletionVectors"}),
    writer_features=frozenset({"v2Checkpoint", "deletionVectors", "domainMetadata", "clustering"}),
)


@contextmanager
def small(group_files: int = 2):
    """Every checkpoint counts as large, and row groups have few files."""
    with (
        patch("tahoe.table.log.grouped_part.IN_ONE_GO_ROWS_MAX", 0),
        patch("tahoe.table.log.checkpoint.IN_ONE_GO_ROWS_MAX", 0),
        patch("tahoe.table.commit.checkpoint_writer.IN_ONE_GO_ROWS_MAX", 0),
        patch("tahoe.table.reading.scan.NARROW_SHARE_MAX", 1.0),
        patch("tahoe.table.commit.file_order.ROW_GROUP_FILES", group_files),
        patch("tahoe.table.commit.file_order.UNIT_GROUPS", 2),
        patch("tahoe.table.commit.checkpoint_writer.SIDECAR_FILES_MAX", 2 * group_files),
        patch("tahoe.protocol.statistics.skipping.IN_VALUES_MAX", 1),
        patch("tahoe.table.log.file_parts.BATCH_ROWS", 3),
    ):
        yield


def numbered_log(table_id: str = "t") -> Log:
    """Forty files with the values 0 to 39 of `l`, in row groups of four, and a commit behind the checkpoint. The table
    sets no property.
    """
    env = memory_env()
    metadata = Metadata(id=table_id, schema_string=SCHEMA.to_json())
    stats = '{{"numRecords":1,"minValues":{{"i":0,"l":{0}}},"maxValues":{{"i":9,"l":{0}}},"nullCount":{{"i":0,"l":0}}}}'
    put_commit(
        env, 0, [PROTOCOL, metadata, *(add(f"f{n * 7 % 40}", stats=stats.format(n * 7 % 40)) for n in range(40))]
    )
    write_checkpoint(load_snapshot(Log(env)))
    put_commit(env, 1, [Remove(path="f3"), add("new", stats=stats.format(50))])
    return Log(env)
