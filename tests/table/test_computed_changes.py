"""Changes that nobody recorded follow from the files of commits and the ids of rows."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import ChangesNotComputedError, ChangesNotRecordedError, UnsupportedOperationError
from tahoe.table.versions.change_feed import AskedRange, load_feed, plan_feed
from tests.table.builders import memory_env
from tests.table.feeds import net_of, random_life

VECTORS, COPIES = {"delta.enableDeletionVectors": "true"}, {"delta.enableDeletionVectors": "false"}
RECORDED = {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"}

LIVES = range(12)


def counted(rows: pa.Table) -> Counter[tuple[object, ...]]:
    names = sorted(rows.column_names)
    return Counter(zip(*(rows[name].to_pylist() for name in names), strict=True))


def new_table() -> tahoe.Table:
    env = memory_env()
    return tahoe.Table(env.store.url, env=env)


@pytest.mark.parametrize("vectors", [VECTORS, COPIES], ids=["vectors", "copies"])
@pytest.mark.parametrize("seed", LIVES)
def test_what_is_computed_is_what_was_recorded(seed: int, vectors: dict[str, str]) -> None:
    table = random_life(new_table(), seed, {**RECORDED, **vectors})
    for start in range(1, table.version + 1):
        for asked in (
            {},
            {"filter": "v % 2 = 0 AND part = 1"},  # one side of an update may match alone
            {"filter": f"_commit_version <= {start + 1}", "columns": ["_change_type", "id"]},
            {"columns": ["v"]},
        ):
            recorded, computed = (
                table.changes(start_version=start, computed=is_computed, **asked) for is_computed in (False, True)
            )
            assert computed.schema == recorded.schema
            assert counted(computed) == counted(recorded)


@pytest.mark.parametrize("vectors", [VECTORS, COPIES], ids=["vectors", "copies"])
@pytest.mark.parametrize("seed", LIVES)
def test_net_changes_are_the_difference_of_two_versions(seed: int, vectors: dict[str, str]) -> None:
    table = random_life(new_table(), seed, {**RECORDED, **vectors})
    for start in range(1, table.version + 1):
        feed = plan_feed(table.snapshot(), AskedRange(start_version=start, kind="net"))
        net = feed.to_arrow(columns=["id", "v", "part", "_change_type"])
        assert counted(net) == counted(pa.Table.from_pylist(net_of(table, start), schema=net.schema))
        assert load_feed(table.snapshot(), feed.range).to_arrow(columns=net.column_names) == net


def test_without_ids_inserts_and_deletes_are_told() -> None:
    table = new_table()
    table.create(pa.schema([("id", pa.int64()), ("v", pa.int64())]), properties=VECTORS)
    table.append(pa.table({"id": range(20), "v": range(20)}))
    table.delete("id = 3")
    with pytest.raises(ChangesNotRecordedError, match="computeChanges"):
        table.changes(start_version=1)
    deleted = table.changes(start_version=1, computed=True, filter="_change_type = 'delete'")
    assert deleted.select(["id", "_commit_version"]).to_pylist() == [{"id": 3, "_commit_version": 2}]
    table.update({"v": "0"}, "id = 4")
    with pytest.raises(ChangesNotComputedError, match=r"updates are told.*version 3"):
        table.changes(start_version=1, computed=True)
    unpaired = plan_feed(table.snapshot(), AskedRange(start_version=3, kind="unpaired")).to_arrow()
    assert counted(unpaired.select(["_change_type", "id", "v"])) == Counter([("delete", 4, 4), ("insert", 4, 0)])


def test_what_may_be_copies_is_refused() -> None:
    """Rows of files that were replaced, in a table whose rows have no ids; and net changes, which need them."""
    table = new_table()
    table.create(pa.schema([("id", pa.int64())]), properties=COPIES)
    table.append(pa.table({"id": range(20)}))
    table.delete("id = 3")
    with pytest.raises(ChangesNotComputedError, match=r"told from copies.*version 2"):
        table.changes(start_version=1, computed=True)
    with pytest.raises(ChangesNotComputedError, match="version 1"):
        plan_feed(table.snapshot(), AskedRange(start_version=1, end_version=1, kind="net"))


def test_each_commit_has_ids_or_needs_none() -> None:
    """Row tracking that was enabled within the range: what was there before was only added. And rows whose ids were
    lost while it was suspended: their deletes must not be taken for copies.
    """
    late = new_table()
    late.create(pa.schema([("id", pa.int64()), ("v", pa.int64())]), properties=VECTORS)
    late.append(pa.table({"id": range(4), "v": range(4)}))
    with late.transaction() as transaction:
        transaction.set_properties({"delta.enableRowTracking": "true"})
    late.update({"v": "9"}, "id = 2")
    kinds = late.changes(start_version=1, computed=True, filter="id = 2").select(["_change_type", "v"]).to_pylist()
    assert [(row["_change_type"], row["v"]) for row in kinds] == [
        ("insert", 2),
        *(("update_preimage", 2), ("update_postimage", 9)),
    ]
    lost = new_table()
    lost.create(pa.schema([("id", pa.int64())]), properties={"delta.enableRowTracking": "true"})
    lost.append(pa.table({"id": [1, 2, 3]}))
    with lost.transaction() as transaction:
        transaction.set_properties({"delta.enableRowTracking": "false", "delta.rowTrackingSuspended": "true"})
    lost.overwrite(pa.table({"id": [10, 11, 12]}))
    lost.restore(version=1)
    with pytest.raises(ChangesNotComputedError, match="no ids"):
        lost.changes(start_version=lost.version, computed=True)


def test_a_row_that_came_back_has_not_changed() -> None:
    table = new_table()
    table.create(pa.schema([("id", pa.int64())]), properties={**VECTORS, "delta.enableRowTracking": "true"})
    table.append(pa.table({"id": range(10)}))
    table.delete("id = 2")
    table.restore(version=1)
    assert plan_feed(table.snapshot(), AskedRange(start_version=2, kind="net")).to_arrow().num_rows == 0


@pytest.mark.parametrize("name", ["_metadata", "_metadata.row_id", "_METADATA.row_commit_version"])
def test_a_column_may_not_have_the_name_of_the_ids(name: str) -> None:
    """Its values were taken for the ids of rows."""
    properties = {"delta.enableRowTracking": "true", "delta.columnMapping.mode": "name"}
    table = new_table()
    table.create(pa.schema([("id", pa.int64()), (name, pa.int64())]), properties=properties)
    table.append(pa.table({"id": [1, 2, 3], name: [1, 1, 1]}))
    assert table.changes(start_version=1, computed=True).num_rows == 3  # no ids are needed for what was only added
    with pytest.raises(UnsupportedOperationError, match="has a column"):
        plan_feed(table.snapshot(), AskedRange(start_version=1, kind="net"))
    table.update({"id": "9"}, "id = 2")
    with pytest.raises(UnsupportedOperationError, match="has a column"):
        table.changes(start_version=1, computed=True)
