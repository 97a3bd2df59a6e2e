"""What `Table.inspect` tells of a version, it tells as the version itself: for any log."""

from __future__ import annotations

import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from tahoe.protocol.log import log_files
from tahoe.protocol.log.replay import replay
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.table import Table
from tests.property.random_commits import commits
from tests.table.builders import METADATA, PROTOCOL, make_log, parquet_bytes, state_actions


def totals(snapshot: Snapshot) -> dict[str, object]:
    """The totals of a version from its files alone."""
    adds = list(snapshot.live.adds())
    deleted = sum(0 if add.deletion_vector is None else add.deletion_vector.cardinality for add in adds)
    records = snapshot.files().column("num_records").to_pylist()
    known = None if None in records else sum(records)
    return {"files": len(adds), "bytes": sum(add.size_bytes for add in adds), "records": known, "deleted": deleted}


@given(commits(), st.data())
@settings(deadline=None)
def test_the_sizes_of_versions_are_those_of_their_files(history, data):
    log = make_log(history)
    cut = data.draw(st.integers(-1, len(history) - 1))
    if cut >= 0:  # the log begins with a checkpoint, whose own commit may be gone
        state = replay([[PROTOCOL, METADATA, *history[0]], *history[1 : cut + 1]], log.canonical)
        log.env.store.put(
            f"{log_files.LOG_FOLDER}/{log_files.classic_checkpoint_name(cut)}", parquet_bytes(state_actions(state))
        )
        for version in range(cut + data.draw(st.booleans())):
            log.env.store.delete(log_files.commit_key(version))
    table = Table(log.url, env=log.env)
    rows = table.inspect.sizes().to_pylist()
    assert [row["version"] for row in rows] == list(range(max(cut, 0), len(history)))
    before: set[object] | None = set() if rows[0]["version"] == 0 else None
    for row in rows:
        snapshot = table.snapshot(row["version"])
        found = {
            name: row[of] for name, of in zip(("files", "bytes", "records", "deleted"), list(row)[2:6], strict=True)
        }
        assert found == totals(snapshot)
        files = {(log.canonical(add.path), add.deletion_vector): add.size_bytes for add in snapshot.live.adds()}
        if before is None:
            assert row["added_files"] is row["removed_bytes"] is None
        else:
            assert row["added_files"] == len(files.keys() - before)
            assert row["added_bytes"] == sum(files[key] for key in files.keys() - before)
            assert row["removed_files"] == len(before - files.keys())
        before = set(files)


@given(commits())
@settings(deadline=None)
def test_files_and_partitions_add_up_to_the_version(history):
    log = make_log(history)
    table = Table(log.url, env=log.env)
    for version in range(len(history)):
        snapshot = table.snapshot(version)
        files, partitions = table.inspect.files(version), table.inspect.partitions(version)
        for found in (files, partitions):
            assert (pc.sum(found.column("size_bytes")).as_py() or 0) == snapshot.live.size_bytes
        assert files.num_rows == (pc.sum(partitions.column("num_files")).as_py() or 0) == len(snapshot.live)
