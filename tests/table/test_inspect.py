"""`Table.inspect`: what it tells of a table, and that its page says what the columns are."""

from __future__ import annotations

import datetime as dt
import inspect
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tahoe.errors import InvalidTimeTravelError, TableNotFoundError, VersionNotFoundError
from tahoe.protocol import log_files
from tahoe.table.inspection.inspector import INSPECTIONS, Inspector
from tahoe.table.table import Table
from tests.golden import tables as golden
from tests.table.builders import add, make_log, memory_env

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


def test_every_inspection_is_a_method_and_is_in_the_guide() -> None:
    methods = {name for name, _ in inspect.getmembers(Inspector, inspect.isfunction) if not name.startswith("_")}
    assert methods == set(INSPECTIONS)


@pytest.mark.parametrize("name", INSPECTIONS)
def test_the_guide_says_what_each_column_is(name: str) -> None:
    inspection = INSPECTIONS[name]
    lines = [f"| `{column.name}` | {column.type} | {column.meaning} |" for column in inspection.columns]
    wanted = f"## `{name}`\n\nEach row is {inspection.rows}.\n\n| Column | Type | Meaning |\n|---|---|---|\n" + "\n".join(lines) + "\n"
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
        look("0")
    with pytest.raises(TableNotFoundError):
        getattr(Table("memory://nowhere", env=memory_env()).inspect, name)()


def test_partitions_are_in_their_order_with_the_totals_of_their_files(table: Table) -> None:
    found = table.inspect.partitions().to_pylist()
    assert [row["partition_values"]["day"] for row in found] == [dt.date(2026, 1, 1), dt.date(2026, 1, 2), None]
    assert [(row["num_files"], row["num_records"], row["deleted_records"]) for row in found] == [(2, 4, 2), (2, 4, 0), (2, 4, 0)]
    newest = {row["path"]: row["modification_time"] for row in table.inspect.files().to_pylist()}
    assert max(row["modification_time"] for row in found) == max(newest.values())


def test_rows_are_not_known_where_a_file_has_no_statistics() -> None:
    log = make_log([[add("a", stats='{"numRecords":3}'), add("b")]])
    table = Table(log.url, env=log.env)
    assert table.inspect.files().column("num_records").to_pylist() == [3, None]
    assert table.inspect.partitions().column("num_records").to_pylist() == [None]
    assert table.inspect.sizes().column("num_records").to_pylist() == [None]


def test_a_table_without_partitions_is_one_and_without_files_is_none() -> None:
    env = memory_env()
    plain = Table(env.store.url, env=env)
    plain.append(pa.table({"id": [1]}))
    assert plain.inspect.partitions().select(["num_files", "num_records"]).to_pylist() == [{"num_files": 1, "num_records": 1}]
    with plain.transaction() as changes:
        changes.delete("true")
    assert plain.inspect.partitions().num_rows == plain.inspect.files().num_rows == 0
    assert plain.inspect.partitions().schema == plain.inspect.partitions(0).schema


def test_history_has_what_the_commits_say(table: Table) -> None:
    newest, _, oldest = table.inspect.history().to_pylist()
    assert (newest["version"], newest["operation"], newest["user_metadata"], newest["read_version"]) == (2, "DELETE", "why", 1)
    assert (oldest["version"], oldest["is_blind_append"], dict(oldest["operation_parameters"])["mode"]) == (0, True, "Append")
    assert [row["timestamp"] for row in table.inspect.history().to_pylist()] == [row["timestamp"] for row in table.history()]
    assert table.inspect.history(1).column("version").to_pylist() == [1, 0]


def test_a_history_of_any_json_is_read() -> None:
    env = memory_env()
    odd = (
        '{"commitInfo":{"operation":5,"operationParameters":{"a":[1],"b":null},"operationMetrics":"x","readVersion":"7","isBlindAppend":1}}'
    )
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


def test_sizes_begin_at_a_newer_version_if_a_cleanup_deletes_commits_meanwhile(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
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
@pytest.mark.parametrize("name", INSPECTIONS)
def test_tables_of_other_writers_are_told_of(name: str) -> None:
    golden.require_folder()
    tables = [Table(golden.path(of), time_zone=golden.ZONES.get(of, "UTC")) for of in golden.names_with_expected_rows()]
    assert sum(getattr(table.inspect, name)().num_rows for table in tables)
