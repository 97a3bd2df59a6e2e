"""`Table.inspect`: what it tells of a table, and that its page says what the columns are."""

from __future__ import annotations

import datetime as dt
import inspect
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tahoe.errors import DataFileMissingError, InvalidTimeTravelError, TableNotFoundError, VersionNotFoundError
from tahoe.protocol.configuration.features import supported_features
from tahoe.protocol.configuration.properties import find_property
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import Protocol
from tahoe.table.inspection.inspector import INSPECTIONS, Inspector
from tahoe.table.table import Table
from tests.golden import tables as golden
from tests.table.builders import METADATA, add, make_log, memory_env, put_commit

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "inspect.md").read_text(encoding="utf-8")
DAYS = [dt.date(2026, 1, 2), dt.date(2026, 1, 1), None]
ROWS = pa.table({"id": [1, 2, 3, 4, 5, 6], "day": pa.array([*DAYS, *DAYS])})
VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.fixture
def table() -> Table:
    """A table of three partitions and three versions; the last deletes a row of each file of a day."""
    env = memory_env()
    made = Table(env.store.url, env=env)
    made.append(ROWS, partition_by=["day"], properties=VECTORS)
    made.append(ROWS)
    with made.transaction(user_metadata="why") as changes:
        changes.delete("day = '2026-01-01' and id = 2")
    return made


def test_every_inspection_is_a_method_and_is_on_the_page() -> None:
    methods = {name for name, _ in inspect.getmembers(Inspector, inspect.isfunction) if not name.startswith("_")}
    assert methods == set(INSPECTIONS)


@pytest.mark.parametrize("name", INSPECTIONS)
def test_the_page_says_what_each_column_is(name: str) -> None:
    inspection = INSPECTIONS[name]
    lines = [f"| `{column.name}` | {column.type} | {column.meaning} |" for column in inspection.columns]
    wanted = (
        f"## `{name}`\n\nEach row is {inspection.rows}.\n\n| Column | Type | Meaning |\n|---|---|---|\n"
        + "\n".join(lines)
        + "\n"
    )
    assert wanted in PAGE, f"docs/inspect.md must have:\n\n{wanted}"


@pytest.mark.parametrize("name", INSPECTIONS)
def test_every_version_and_time_answers_with_the_same_columns(table: Table, name: str) -> None:
    look = getattr(table.inspect, name)
    found = look()
    assert found.column_names == [column.name for column in INSPECTIONS[name].columns]
    for column in INSPECTIONS[name].columns:
        assert isinstance(column.type, str) or found.schema.field(column.name).type == column.type
    assert look(0).schema == found.schema
    moment = dt.datetime.fromtimestamp(table.snapshot(0).timestamp_ms / 1000, dt.UTC)
    assert look(timestamp=moment).equals(look(version=0))


@pytest.mark.parametrize("name", INSPECTIONS)
def test_a_version_that_is_not_there_is_refused(table: Table, name: str) -> None:
    look = getattr(table.inspect, name)
    with pytest.raises(VersionNotFoundError, match="versions 0 to 2"):
        look(7)
    with pytest.raises(InvalidTimeTravelError, match="both"):
        look(0, "2026-01-01")
    with pytest.raises(InvalidTimeTravelError, match="it must be an integer"):
        look(0.5)
    with pytest.raises(TableNotFoundError):
        getattr(Table("memory://nowhere", env=memory_env()).inspect, name)()


def test_partitions_are_in_their_order_with_the_totals_of_their_files(table: Table) -> None:
    found = table.inspect.partitions().to_pylist()
    assert [row["partition_values"]["day"] for row in found] == [dt.date(2026, 1, 1), dt.date(2026, 1, 2), None]
    assert [(row["num_files"], row["num_records"], row["deleted_records"]) for row in found] == [
        (2, 4, 2),
        (2, 4, 0),
        (2, 4, 0),
    ]
    newest = {row["path"]: row["modification_time"] for row in table.inspect.files().to_pylist()}
    assert max(row["modification_time"] for row in found) == max(newest.values())


def test_rows_are_not_known_where_a_file_has_no_statistics() -> None:
    log = make_log([[add("a", stats='{"numRecords":3}'), add("b")]])
    table = Table(log.url, env=log.env)
    assert table.inspect.files().column("num_records").to_pylist() == [3, None]
    assert table.inspect.partitions().column("num_records").to_pylist() == [None]
    assert table.inspect.sizes().column("num_records").to_pylist() == [None]


def test_statistics_are_typed_and_nested_like_the_columns() -> None:
    env = memory_env()
    made = Table(env.store.url, env=env)
    rows = [{"a": {"x": 1, "y": None}, "b": [1], "day": DAYS[0]}, {"a": {"x": 5, "y": "s"}, "b": [2], "day": DAYS[0]}]
    schema = pa.schema(
        [("a", pa.struct([("x", pa.int16()), ("y", pa.string())])), ("b", pa.list_(pa.int64())), ("day", pa.date32())]
    )
    made.append(
        pa.Table.from_pylist(rows, schema),
        partition_by=["day"],
        properties={**VECTORS, "delta.columnMapping.mode": "name"},
    )
    (row,) = made.inspect.statistics().to_pylist()
    assert (row["num_records"], row["has_tight_bounds"], row["null_count"]["a"]) == (2, True, {"x": 0, "y": 1})
    assert (row["min_values"], row["max_values"]) == ({"a": {"x": 1, "y": "s"}}, {"a": {"x": 5, "y": "s"}})
    with made.transaction() as changes:
        changes.mark_deleted(made.inspect.files().column("path")[0].as_py(), [0])
    assert made.inspect.statistics().column("has_tight_bounds").to_pylist() == [False]
    with made.transaction() as changes:
        changes.delete("true")
    assert made.inspect.statistics().schema == made.inspect.statistics(0).schema


def test_statistics_of_a_table_without_any_have_the_files() -> None:
    env = memory_env()
    made = Table(env.store.url, env=env)
    made.append(ROWS, properties={"delta.dataSkippingNumIndexedCols": "0"})
    assert made.inspect.statistics().drop(["path"]).to_pylist() == [{"num_records": 6, "has_tight_bounds": True}]


def test_answers_can_be_written_to_files_whatever_the_table_is(tmp_path: Path) -> None:
    """Parquet has no structs without fields, which partition values and statistics would be."""
    env = memory_env()
    made = Table(env.store.url, env=env)
    made.append(ROWS, properties={"delta.dataSkippingNumIndexedCols": "0"})
    for name in INSPECTIONS:
        pq.write_table(getattr(made.inspect, name)(), tmp_path / f"{name}.parquet")


def test_vectors_are_told_with_their_places(tmp_path: Path) -> None:
    """A small vector is in the log, and a larger one in a file."""
    large = Table(str(tmp_path / "t"))
    large.append(
        pa.table({"id": range(5000), "part": [n % 2 for n in range(5000)]}), partition_by=["part"], properties=VECTORS
    )
    few, many = large.inspect.files().column("path").to_pylist()
    with large.transaction() as changes:
        changes.mark_deleted(few, [1])
        changes.mark_deleted(many, range(0, 2500, 7))
    found = {row["storage_type"]: row for row in large.inspect.vectors().to_pylist()}
    assert {kind: row["deleted_records"] for kind, row in found.items()} == {"i": 1, "u": 358}
    assert all(row["num_records"] == 2500 and row["size_bytes"] > 0 for row in found.values())
    assert (found["i"]["url"], found["i"]["offset"]) == (None, None)
    assert found["u"]["offset"] == 1
    assert Path(found["u"]["url"].removeprefix("file://")).stat().st_size > found["u"]["size_bytes"]
    assert large.inspect.vectors(0).num_rows == 0


def test_row_groups_are_those_of_the_footers(tmp_path: Path) -> None:
    made = Table(str(tmp_path / "t"))
    made.append(pa.table({"id": range(10)}))
    pq.write_table(pa.table({"id": range(7)}), tmp_path / "t" / "more.parquet", row_group_size=3, compression="snappy")
    put_commit(made.env, 1, [add("more.parquet", data_change=True)])
    rows = {
        name: list(group) for name, group in groupby(made.inspect.row_groups().to_pylist(), lambda row: row["path"])
    }
    several, (single,) = rows.pop("more.parquet"), *rows.values()
    assert [(row["row_group"], row["first_row"], row["num_rows"]) for row in several] == [
        (0, 0, 3),
        (1, 3, 3),
        (2, 6, 1),
    ]
    assert (single["num_rows"], single["compression"], several[0]["compression"]) == (10, "ZSTD", "SNAPPY")
    assert "parquet-cpp" in single["written_by"]
    assert 0 < single["size_bytes"] < made.inspect.files(0).column("size_bytes")[0].as_py()


def test_a_file_that_is_gone_is_named(table: Table) -> None:
    (path, *_) = table.inspect.files().column("path").to_pylist()
    table.env.store.delete(path)
    with pytest.raises(DataFileMissingError, match=path):
        table.inspect.row_groups()
    assert table.inspect.files().num_rows == 6  # of what is in the log alone


def test_properties_begin_with_those_that_are_set() -> None:
    env = memory_env()
    made = Table(env.store.url, env=env)
    made.append(
        ROWS,
        properties={"mine": "x", "delta.logRetentionDuration": "interval 3 days", "delta.enableChangeDataFeed": "true"},
    )
    rows = made.inspect.properties().to_pylist()
    feed, kept, mine, *others = rows
    assert tuple(feed.values()) == ("delta.enableChangeDataFeed", "true", "false", "changeDataFeed")
    assert tuple(kept.values()) == ("delta.logRetentionDuration", "interval 3 days", "interval 30 days", None)
    assert tuple(mine.values()) == ("mine", "x", None, None)
    assert {row["value"] for row in others} == {None}
    defaults = {row["name"]: row["default"] for row in others}
    assert (defaults["delta.checkpointInterval"], defaults["delta.deletedFileRetentionDuration"]) == (
        "10",
        "interval 7 days",
    )
    assert "delta.columnMapping.maxColumnId" not in defaults  # users cannot set it


def test_every_default_is_a_value_that_the_table_could_store(table: Table) -> None:
    for row in table.inspect.properties().to_pylist():
        known = find_property(row["name"])
        if row["default"] is not None:
            assert known is not None
            assert known.read(row["default"]) == known.default


def test_features_are_told_with_their_use(table: Table) -> None:
    rows = {row["name"]: row for row in table.inspect.features().to_pylist()}
    assert rows.keys() == supported_features(table.protocol)
    assert (rows["deletionVectors"]["is_active"], rows["deletionVectors"]["is_for_readers"]) == (True, True)
    assert (rows["appendOnly"]["is_active"], rows["appendOnly"]["is_for_readers"]) == (False, False)


def test_a_feature_that_is_implied_or_unknown_is_told_too() -> None:
    rows = make_log([[]])
    implied = Table(rows.url, env=rows.env).inspect.features().to_pylist()
    assert [(row["name"], row["is_listed"]) for row in implied] == [("appendOnly", False), ("invariants", False)]
    env = memory_env()
    protocol = Protocol(reader_version=1, writer_version=7, writer_features=frozenset(["future"]))
    put_commit(env, 0, [protocol, METADATA])
    (unknown,) = Table(env.store.url, env=env).inspect.features().to_pylist()
    assert tuple(unknown.values()) == ("future", True, False, None, None, None)


def test_txns_and_domains_are_told_by_name(table: Table) -> None:
    with table.transaction(txn=("b", 4)) as changes:
        changes.set_txn("a", 7)
        changes.set_domain("mine", '{"x":1}')
    assert [(row["app_id"], row["version"]) for row in table.inspect.txns().to_pylist()] == [("a", 7), ("b", 4)]
    assert table.inspect.domains().to_pylist() == [{"domain": "mine", "configuration": '{"x":1}', "is_system": False}]
    assert table.inspect.txns(0).num_rows == table.inspect.domains(0).num_rows == 0


def test_a_table_without_partitions_is_one_and_without_files_is_none() -> None:
    env = memory_env()
    plain = Table(env.store.url, env=env)
    plain.append(pa.table({"id": [1]}))
    assert plain.inspect.partitions().select(["num_files", "num_records"]).to_pylist() == [
        {"num_files": 1, "num_records": 1}
    ]
    with plain.transaction() as changes:
        changes.delete("true")
    assert plain.inspect.partitions().num_rows == plain.inspect.files().num_rows == 0
    assert plain.inspect.partitions().schema == plain.inspect.partitions(0).schema


def test_history_has_what_the_commits_say(table: Table) -> None:
    newest, _, oldest = table.inspect.history().to_pylist()
    assert (newest["version"], newest["operation"], newest["user_metadata"], newest["read_version"]) == (
        2,
        "DELETE",
        "why",
        1,
    )
    assert (oldest["version"], oldest["is_blind_append"], dict(oldest["operation_parameters"])["mode"]) == (
        0,
        True,
        "Append",
    )
    assert [row["timestamp"] for row in table.inspect.history().to_pylist()] == [
        row["timestamp"] for row in table.history()
    ]
    assert table.inspect.history(1).column("version").to_pylist() == [1, 0]


def test_a_history_of_any_json_is_read() -> None:
    env = memory_env()
    odd = '{"commitInfo":{"operation":5,"operationParameters":{"a":[1],"b":null},"operationMetrics":"x","readVersion":"7","isBlindAppend":1}}'
    made = Table(env.store.url, env=env)
    made.append(ROWS)
    env.store.put(log_files.commit_key(1), odd.encode() + b"\n")
    (row, _) = made.inspect.history().to_pylist()
    assert (row["operation"], row["operation_parameters"]) == ("5", [("a", "[1]"), ("b", None)])
    assert (row["operation_metrics"], row["read_version"], row["is_blind_append"]) == (None, None, None)


def test_sizes_tell_how_the_table_grew(table: Table) -> None:
    first, second, third = table.inspect.sizes().to_pylist()
    assert [row["num_files"] for row in (first, second, third)] == [3, 6, 6]
    assert [row["deleted_records"] for row in (first, second, third)] == [0, 0, 2]
    assert (third["added_files"], third["removed_files"]) == (2, 2)  # the same files, with other deletion vectors
    assert second["size_bytes"] == first["size_bytes"] + second["added_bytes"]


def test_sizes_begin_at_a_newer_version_if_a_cleanup_deletes_commits_meanwhile(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.create_checkpoint()
    store, get = table.env.store, type(table.env.store).get

    def cleaning(self: Any, key: str) -> bytes:
        if key == log_files.commit_key(1):
            for version in (0, 1):
                store.delete(log_files.commit_key(version))
        return get(self, key)

    fresh = Table(table.url, env=table.env)
    monkeypatch.setattr(type(store), "get", cleaning)
    assert fresh.inspect.sizes().column("version").to_pylist() == [2]


@pytest.mark.golden
@pytest.mark.parametrize("name", golden.names_with_expected_rows() or ["none"])
def test_tables_of_other_writers_are_told_of(name: str) -> None:
    golden.require_folder()
    table = Table(golden.path(name), time_zone=golden.ZONES.get(name, "UTC"))
    told = {what: getattr(table.inspect, what)() for what in INSPECTIONS}
    live, files = table.snapshot().live, told["files"]
    assert files.num_rows == len(live)
    assert (
        live.size_bytes
        == (pc.sum(files.column("size_bytes")).as_py() or 0)
        == told["sizes"].column("size_bytes")[-1].as_py()
    )
    assert len(live) == (pc.sum(told["partitions"].column("num_files")).as_py() or 0)
    assert told["vectors"].num_rows == np.count_nonzero(files.column("deleted_records"))
    assert told["history"].column("version")[0].as_py() == told["sizes"].column("version")[-1].as_py() == table.version
    in_groups = told["row_groups"].group_by("path").aggregate([("num_rows", "sum")])
    rows = dict(zip(in_groups.column("path").to_pylist(), in_groups.column("num_rows_sum").to_pylist(), strict=True))
    known = zip(files.column("path").to_pylist(), files.column("num_records").to_pylist(), strict=True)
    assert all(count in (None, rows.get(path, 0)) for path, count in known)
