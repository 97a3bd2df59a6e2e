"""RESTORE without Spark: the new version equals the old one, whatever the table and whoever writes to it meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import (
    AppendOnlyTableError,
    DeltaConcurrentModificationException,
    InvalidTimeTravelError,
    MetadataChangedException,
    RestoreFilesMissingError,
    RestoreRetentionError,
    RestoreTimestampTooEarlyError,
    RestoreTimestampTooLateError,
    RestoreVersionError,
    UnsupportedOperationError,
)
from tahoe.protocol.changes.column_changes import NewColumn
from tahoe.protocol.log.actions import Add, Remove
from tahoe.protocol.statistics import clustering
from tahoe.protocol.types.schema import LONG, Field
from tahoe.storage.env import Env, Watch
from tahoe.table.adoption import adopt, missing_files
from tahoe.table.log import deletion_vectors
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.verify.check import check_table
from tests.table.builders import memory_env
from tests.table.dying import deaths

VECTORS = {"delta.enableDeletionVectors": "true"}
TRACKED = {"delta.enableRowTracking": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}


def numbers(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array([f"{i % 2} %" for i in ids])})


def made(*properties: dict[str, str], partition_by: list[str] | None = None, env: Env | None = None) -> tahoe.Table:
    """Version 0 has the rows 0 to 3, in one file or two."""
    table = tahoe.Table("memory://t", env=env or memory_env())
    table.append(
        numbers(0, 1, 2, 3),
        partition_by=partition_by,
        properties=dict(itertools.chain(*(p.items() for p in properties))),
    )
    return table


def ids(table: tahoe.Table) -> list[int]:
    return sorted(table.to_arrow(columns=["id"])["id"].to_pylist())


def entries(snapshot: Snapshot) -> dict[tuple[str, str | None], Add]:
    return {(a.path, a.deletion_vector and a.deletion_vector.unique_id): a for a in snapshot.live.adds()}


def findings(table: tahoe.Table) -> list[str]:
    return [str(found) for found in check_table(table.log)]


# --- the version that is made


@pytest.mark.parametrize("version", range(4))
def test_a_dry_run_tells_what_the_restore_does_and_changes_nothing(version: int) -> None:
    """There was no way to see it before."""
    table = made(VECTORS)
    table.append(numbers(4, 5))
    table.delete("id in (1, 4, 5)")
    table.delete("id = 2")
    planned = table.restore(version, dry_run=True)
    assert (table.version, planned.is_dry_run, planned.version) == (3, True, None)
    done = table.restore(version)
    assert replace(planned, is_dry_run=False, version=done.version) == done


def test_a_dry_run_refuses_what_the_restore_refuses() -> None:
    table = made()
    table.delete("id >= 0")
    table.vacuum(0, retention_check=False)
    with pytest.raises(RestoreFilesMissingError):
        table.restore(0, dry_run=True)


def test_a_version_with_its_vectors_comes_back() -> None:
    table = made(VECTORS, partition_by=["p"])
    with table.transaction() as changes:
        changes.delete("id = 1")
    table.append(numbers(4))
    with table.transaction() as changes:
        changes.delete("id in (0, 3)")
    report = table.restore(1)
    assert (ids(table), report.version, report.restored_version) == ([0, 2, 3], 4, 1)
    assert entries(table.snapshot()).keys() == entries(table.snapshot(1)).keys()
    assert (report.files, report.removed_files, report.restored_files) == (2, 2, 2)
    assert report.size_bytes == table.snapshot().live.size_bytes
    assert findings(table) == []
    table.restore(3)  # the version before the restore
    assert ids(table) == [2, 4]


def test_the_history_has_the_references_parameters_and_metrics() -> None:
    table = made()
    table.append(numbers(4))
    size = table.snapshot(0).live.size_bytes
    moment = table.history()[-1]["timestamp"]
    table.restore(0, user_metadata="undo")
    table.append(numbers(5))
    table.restore(timestamp=moment)
    entry, _, first = table.history(3)
    assert (first["operation"], first["userMetadata"], first["isBlindAppend"]) == ("RESTORE", "undo", False)
    assert first["operationParameters"] == {"version": "0", "timestamp": None}
    assert entry["operationParameters"]["version"] is None
    assert entry["operationParameters"]["timestamp"].startswith(moment.strftime("%Y-%m-%d %H:%M:%S."))
    assert {name: int(value) for name, value in first["operationMetrics"].items()} == {
        "tableSizeAfterRestore": size,
        "numOfFilesAfterRestore": 1,
        "numRemovedFiles": 1,
        "numRestoredFiles": 0,
        "removedFilesSize": table.snapshot(1).live.size_bytes - size,
        "restoredFilesSize": 0,
    }


def test_the_newest_version_is_left_as_it_is() -> None:
    table = made()
    report = table.restore(0)
    assert (report.version, report.restored_version, report.files, table.version) == (None, 0, 1, 0)


def test_the_feed_tells_what_restore_changed() -> None:
    table = made(VECTORS, FEED)
    with table.transaction() as changes:
        changes.delete("id = 1")
    table.append(numbers(4))
    table.restore(0)
    rows = table.changes(start_version=3).to_pylist()
    assert sorted((row["_change_type"], row["id"]) for row in rows) == [("delete", 4), ("insert", 1)]
    actions = table.log.read_version(3)
    assert {a.data_change for a in actions if isinstance(a, Add | Remove)} == {True}


def test_the_metadata_comes_back_but_the_protocol_stays() -> None:
    table = made({"delta.appendOnly": "false", "mine": "1"})
    with table.transaction() as changes:
        changes.set_properties({**VECTORS, "mine": "2"})
        changes.add_columns([NewColumn(field=Field(name="more", type=LONG))])
    after = table.protocol
    table.restore(0)
    now, then = table.snapshot(), table.snapshot(0)
    assert (now.metadata, now.protocol) == (then.metadata, after)


def test_txns_and_user_domains_stay() -> None:
    table = made()
    table.append(numbers(4), txn=("app", 7))
    with table.transaction() as changes:
        changes.set_domain("app.progress", "42")
    table.restore(0)
    assert table.snapshot().txn_version("app") == 7
    assert table.snapshot().domains["app.progress"].configuration == "42"


def test_the_clustering_columns_are_those_of_the_version() -> None:
    table = made({"delta.feature.clustering": "supported"})
    with table.transaction() as changes:
        changes.cluster_by([("id",)])
    with table.transaction() as changes:
        changes.cluster_by([("p",)])
    table.restore(1)
    assert table.snapshot().clustering_columns == (("id",),)
    table.restore(0)
    assert table.snapshot().clustering_columns == ()
    assert clustering.DOMAIN in table.snapshot().domains
    table.restore(2)
    assert table.snapshot().clustering_columns == (("p",),)


# --- what never goes back


def test_rows_keep_their_ids_and_ids_are_not_given_twice() -> None:
    table = made(TRACKED, VECTORS)
    rows = ["id", "_metadata.row_id", "_metadata.row_commit_version"]
    before = sorted(table.to_arrow(columns=rows).to_pylist(), key=str)
    with table.transaction() as changes:
        changes.delete("id = 1")
        changes.append(numbers(10, 11))
    table.optimize()
    table.restore(0)
    assert sorted(table.to_arrow(columns=rows).to_pylist(), key=str) == before
    table.append(numbers(20))
    given = {row["id"]: row["_metadata.row_id"] for row in table.to_arrow(columns=rows).to_pylist()}
    assert given[20] > max(number for name, number in given.items() if name != 20) + 2  # those of the rows 10 and 11
    assert findings(table) == []


def test_a_version_without_row_ids_gets_new_ones() -> None:
    table = made()
    with table.transaction() as changes:
        changes.delete("id = 1")
    with table.transaction() as changes:
        changes.set_properties(TRACKED)
    table.restore(0)
    assert all(a.base_row_id is not None for a in table.snapshot().live.adds())
    assert findings(table) == []


def test_a_version_with_row_ids_gets_them_back_after_the_feature_was_dropped() -> None:
    table = made(TRACKED)
    table.append(numbers(4))
    rows = ["id", "_metadata.row_id"]
    before = sorted(table.to_arrow(columns=rows).to_pylist(), key=str)
    table.drop_feature("rowTracking")
    assert table.snapshot().row_tracking is None
    table.restore(1)
    assert sorted(table.to_arrow(columns=rows).to_pylist(), key=str) == before
    table.append(numbers(5))
    given = [row["_metadata.row_id"] for row in table.to_arrow(columns=rows).to_pylist()]
    assert len(set(given)) == len(given) == 6
    assert findings(table) == []


def test_column_ids_are_not_used_twice() -> None:
    table = made(MAPPED)
    with table.transaction() as changes:
        changes.add_columns([NewColumn(field=Field(name="more", type=LONG))])
    table.restore(0)
    with table.transaction() as changes:
        changes.add_columns([NewColumn(field=Field(name="other", type=LONG))])
    used = [f.metadata["delta.columnMapping.id"] for version in (1, 3) for f in table.snapshot(version).schema]
    assert len(set(used)) == 4


def test_a_version_before_column_mapping_can_be_restored() -> None:
    """Files and schema of the old version fit each other, and so does the feed across it."""
    table = made(FEED)
    with table.transaction() as changes:
        changes.set_properties(MAPPED)
    with table.transaction() as changes:
        changes.rename_column(("id",), "number")
    table.append(pa.table({"number": [9], "p": ["x"]}))
    table.restore(0)
    assert (table.snapshot().column_mapping_mode, ids(table)) == ("none", [0, 1, 2, 3])
    table.append(numbers(5))
    assert ids(table) == [0, 1, 2, 3, 5]
    with table.transaction() as changes:
        changes.set_properties(MAPPED)
        changes.rename_column(("id",), "again")
    assert sorted(table.to_arrow()["again"].to_pylist()) == [0, 1, 2, 3, 5]
    table.restore(3)
    assert sorted(table.to_arrow()["number"].to_pylist()) == [0, 1, 2, 3, 9]
    assert findings(table) == []


# --- behind other writers


def racing(table: tahoe.Table, *rivals: Callable[[tahoe.Table], object]) -> tahoe.Table:
    """The table as a writer sees it whose attempts to commit are each preceded by another writer."""
    left = list(rivals)

    class Rivals(Watch):
        def before_put(self) -> None:
            if left:
                left.pop(0)(tahoe.Table(table.url, env=table.env))

    return tahoe.Table(table.url, env=replace(table.env, watch=Rivals()))


def _delete(condition: str) -> Callable[[tahoe.Table], object]:
    def run(table: tahoe.Table) -> None:
        with table.transaction() as changes:
            changes.delete(condition)

    return run


def _mapped(table: tahoe.Table) -> None:
    with table.transaction() as changes:
        changes.set_properties(MAPPED)
        changes.rename_column(("id",), "number")


RIVALS = [
    pytest.param(lambda t: t.append(numbers(7)), id="append"),
    pytest.param(_delete("id = 0"), id="delete"),
    pytest.param(_delete("true"), id="truncate"),
    pytest.param(lambda t: t.optimize(), id="optimize"),
    pytest.param(lambda t: t.restore(1), id="restore"),
    pytest.param(_mapped, id="schema"),
    pytest.param(lambda t: t.append(numbers(7), txn=("app", 1)), id="txn"),
    pytest.param(lambda t: t.compute_statistics(), id="statistics"),
]


@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("properties", [{}, VECTORS | TRACKED], ids=["plain", "vectors"])
def test_the_version_equals_the_restored_one_whoever_commits_first(rival: Any, properties: dict[str, str]) -> None:
    table = made(properties)
    table.append(numbers(4))
    with table.transaction() as changes:
        changes.delete("id in (1, 4)")
    version = table.version
    report = racing(table, lambda t: t.append(numbers(6)), rival).restore(0)
    now, then = table.snapshot(), table.snapshot(0)
    assert report.version == table.version > version + 1
    assert entries(now).keys() == entries(then).keys()
    assert (now.schema, ids(table)) == (then.schema, [0, 1, 2, 3])
    assert int(table.history(1)[0]["operationMetrics"]["numRemovedFiles"]) == report.removed_files
    assert findings(table) == []


def test_others_who_are_always_first_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adopt, "PLANS_MAX", 3)
    table = made()
    table.append(numbers(4))
    version = table.version or 0
    with pytest.raises(DeltaConcurrentModificationException):
        racing(table, *[lambda t: t.append(numbers(6))] * 4).restore(0)
    assert table.version == version + 3


def test_a_table_that_was_replaced_meanwhile_is_left_alone() -> None:
    table = made()
    table.append(numbers(4))

    def recreate(rival: tahoe.Table) -> None:
        for info in list(rival.env.store.walk()):
            rival.env.store.delete(info.key)
        made(env=rival.env)
        for number in (7, 8, 9):
            rival.append(numbers(number))

    with pytest.raises(MetadataChangedException):
        racing(table, recreate).restore(0)
    assert ids(tahoe.Table(table.url, env=table.env)) == [0, 1, 2, 3, 7, 8, 9]


def test_a_crash_at_any_storage_call_leaves_one_of_the_two_versions() -> None:
    def world() -> Env:
        table = made(VECTORS | {"delta.checkpointInterval": "3"})
        table.append(numbers(4))
        with table.transaction() as changes:
            changes.delete("id in (1, 4)")
        return table.env

    left = list(deaths(lambda env: tahoe.Table("memory://t", env=env).restore(1), world))
    found = []
    for env in left:
        table = tahoe.Table("memory://t", env=env)
        found.append((table.version, ids(table)))
        assert findings(table) == []
        table.restore(1)
        assert ids(table) == [0, 1, 2, 3, 4]
    assert {(2, (0, 2, 3)), (3, (0, 1, 2, 3, 4))} == {(version, tuple(rows)) for version, rows in found}


# --- refused before any work


def refused(table: tahoe.Table, error: type[Exception], **request: Any) -> str:
    before = {info.key: info.identity for info in table.env.store.walk()}
    with pytest.raises(error) as raised:
        table.restore(**request)
    assert {info.key: info.identity for info in table.env.store.walk()} == before
    return str(raised.value)


def test_versions_and_times_that_are_not_there() -> None:
    table = made()
    table.append(numbers(4))
    assert "versions 0 to 1" in refused(table, RestoreVersionError, version=2)
    assert "version 0 at" in refused(table, RestoreTimestampTooEarlyError, timestamp="1999-01-01")
    assert "version 1 at" in refused(table, RestoreTimestampTooLateError, timestamp="2999-01-01")
    refused(table, InvalidTimeTravelError)
    refused(table, InvalidTimeTravelError, version=0, timestamp="2020-01-01")


def test_a_version_older_than_the_retention_is_refused_unless_the_check_is_off() -> None:
    env = memory_env()
    table = made(env=env)
    table.append(numbers(4))
    later = replace(env, clock_ms=lambda: env.clock_ms() + 8 * 24 * 3_600_000)
    table = tahoe.Table(table.url, env=later)
    assert "168 h" in refused(table, RestoreRetentionError, version=0)
    table.restore(0, retention_check=False)
    assert ids(table) == [0, 1, 2, 3]


@pytest.mark.parametrize("looks", [0, 1000], ids=["by listing", "by looks"])
def test_missing_data_files_and_vectors_are_found_before_the_commit(
    looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing_files, "_LOOKS_MAX", looks)
    monkeypatch.setattr(deletion_vectors, "INLINE_BYTES_MAX", 0)
    table = made(VECTORS)
    table.append(numbers(4))
    with table.transaction() as changes:
        changes.delete("id = 1")
    with table.transaction() as changes:
        changes.delete("true")
    vector = next(info.key for info in table.env.store.walk() if "deletion_vector" in info.key)
    data = table.snapshot(1).files("id = 4")["path"][0].as_py()
    table.env.store.delete(vector)
    assert vector in refused(table, RestoreFilesMissingError, version=2)
    table.env.store.delete(data)
    assert data in refused(table, RestoreFilesMissingError, version=1)
    table.restore(2, ignore_missing_files=True)
    assert len(table.snapshot().live) == 2


def test_an_append_only_table_loses_no_rows() -> None:
    table = made()
    table.append(numbers(4))
    with table.transaction() as changes:
        changes.set_properties({"delta.appendOnly": "true"})
    refused(table, AppendOnlyTableError, version=0)
    table.restore(1)  # only the property changes
    assert table.properties == {}


def test_files_without_partition_columns_are_not_restored_where_they_are_needed() -> None:
    table = made(partition_by=["p"])
    with table.transaction() as changes:
        changes.delete("true")
    table.optimize()
    with table.transaction() as changes:
        changes.set_properties({"delta.enableMaterializePartitionColumnsFeature": "true"})
    assert "partition columns" in refused(table, UnsupportedOperationError, version=0)
