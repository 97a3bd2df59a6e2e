"""The files of a version as columns, and as actions."""

from __future__ import annotations

import pickle

import pyarrow as pa

from tahoe.protocol.log.actions import Add, DeletionVectorDescriptor
from tahoe.table.log.file_parts import MemoryPart
from tahoe.table.log.live_files import LiveFiles, to_adds, to_table

PLAIN = Add(path="f", size_bytes=1, modification_time_ms=2, data_change=False)
WHOLE = Add(
    path="g",
    partition_values={"p": "1", "q": None},
    size_bytes=3,
    modification_time_ms=4,
    data_change=False,
    stats='{"numRecords":5}',
    tags={"t": "u"},
    deletion_vector=DeletionVectorDescriptor(
        storage_type="u", path_or_inline="x", offset=1, size_bytes=2, cardinality=3
    ),
    base_row_id=6,
    default_row_commit_version=7,
    clustering_provider="liquid",
)


def test_rows_are_the_actions_that_were_put_in():
    for adds in ([PLAIN], [WHOLE], [PLAIN, WHOLE, PLAIN], [WHOLE] * 3):
        assert list(to_adds(to_table(adds))) == adds
        assert list(to_adds(to_table([PLAIN, *adds]).slice(1))) == adds


def test_statistics_that_are_not_utf_8_are_ignored():
    table = to_table([WHOLE, WHOLE])
    broken = pa.Array.from_buffers(
        pa.string(), 2, pa.array([b'\xff{"numRecords":5}', b'{"numRecords":5}'], pa.binary()).buffers()
    )
    table = table.set_column(table.column_names.index("stats"), "stats", broken)
    assert list(to_adds(table)) == [WHOLE.replace(stats=None), WHOLE]


def test_files_go_to_the_workers_of_executors():
    live = LiveFiles([MemoryPart(to_table([PLAIN, WHOLE]))])
    assert list(pickle.loads(pickle.dumps(live)).adds()) == [PLAIN, WHOLE]
