"""The law of RESTORE: over any history the new version equals the restored one, and its feed is their difference."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import tahoe
from tahoe.table.log.file_keys import file_keys
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tahoe.table.verify.check import check_table
from tests.examples import fewer
from tests.property.histories import histories, rows


@given(histories(), st.integers(0, 7), st.booleans())
@fewer(2)
def test_the_restored_version_equals_the_version(table: tahoe.Table, wanted: int, fresh: bool) -> None:
    table = tahoe.Table(table.url, env=table.env) if fresh else table
    before = table.snapshot()
    then = table.snapshot(min(wanted, table.version))
    report = table.restore(then.version)
    now = table.snapshot()
    assert now.version == before.version + (then.version != before.version)
    assert (
        load_snapshot(table.log, by_checksum=False).live.column("path").to_pylist().sort()
        == now.live.column("path").to_pylist().sort()
    )
    assert sorted(file_keys(now.live, table.log).to_pylist()) == sorted(file_keys(then.live, table.log).to_pylist())
    assert (now.schema, now.partition_columns) == (then.schema, then.partition_columns)
    assert now.protocol == before.protocol or (then.protocol.writer_features or frozenset()) <= (
        now.protocol.writer_features or frozenset()
    )
    tracked = ["_metadata.row_id", "_metadata.row_commit_version"] if then.row_tracking else []
    assert rows(now, *tracked) == rows(then, *tracked)
    assert [str(found) for found in check_table(table.log)] == []
    if report.version is not None and before.schema == now.schema:
        changed = table.changes(start_version=now.version).to_pylist()
        kinds = {
            kind: Counter(_row(row, now) for row in changed if row["_change_type"] == kind)
            for kind in ("insert", "delete")
        }
        assert rows(before) + kinds["insert"] == rows(now) + kinds["delete"]


def _row(change: dict[str, Any], snapshot: Snapshot) -> str:
    return repr(sorted((name, change[name]) for name in snapshot.schema.names))
