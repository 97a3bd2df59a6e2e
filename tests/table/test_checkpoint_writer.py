"""What is written as a checkpoint is what the commits add up to, for us and for other readers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tahoe.errors import StorageUnavailableError
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import Add, DomainMetadata, Metadata, Remove, Txn
from tahoe.protocol.log.last_checkpoint import parse_last_checkpoint
from tahoe.protocol.types.schema import DataType, Struct, parse_schema
from tahoe.storage.memory import Effect, Fault, FaultPlan, Operation
from tahoe.table.arrow.statistics import parsed_statistics
from tahoe.table.commit import checkpoint_writer
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.log.checkpoint import read_checkpoint, read_tombstones
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tahoe.table.table import Table
from tahoe.table.verify.log import check_log
from tests.table.builders import METADATA, PROTOCOL, add, make_log, memory_env, put_commit
from tests.table.checkpoints import SCHEMA, STATS, V2, VECTOR, with_statistics

WEEK_MS = int(timedelta(days=7).total_seconds() * 1000)


def remove(path: str, at_ms: int, **fields: object) -> Remove:
    return Remove(
        **{"path": path, "deletion_timestamp_ms": at_ms, "partition_values": {"p": None}, "size_bytes": 3, **fields}
    )


def facts(snapshot: Snapshot) -> tuple[object, ...]:
    files = sorted(
        ((a.path, a) for a in snapshot.live.adds()), key=lambda pair: (pair[0], str(pair[1].deletion_vector))
    )
    return snapshot.protocol, snapshot.metadata, dict(snapshot.txns), dict(snapshot.domains), files


def without_commits(log: Log, before: int) -> None:
    """What metadata cleanup does: the commit of the checkpoint stays."""
    for version in range(before):
        log.env.store.delete(log_files.commit_key(version))


@pytest.fixture
def log() -> Log:
    """Adds, removes, a vector, applications, domains, one of them gone, and a file that came back."""
    log = make_log([[]])
    now = log.env.clock_ms()
    put_commit(
        log.env,
        1,
        [
            V2,
            add("a", partition_values={"p": "1", "q": None}, stats='{"numRecords":1}', tags={"x": "y"}),
            add("b%20c"),
            add("old"),
        ],
    )
    put_commit(
        log.env, 2, [remove("a", now), add("d", deletion_vector=VECTOR, base_row_id=7, default_row_commit_version=2)]
    )
    put_commit(
        log.env,
        3,
        [add("a"), Txn(app_id="app", version=4, last_updated_ms=now), DomainMetadata(domain="x", configuration="{}")],
    )
    put_commit(
        log.env,
        4,
        [remove("b%20c", now), remove("old", now - WEEK_MS), DomainMetadata(domain="gone", configuration="")],
    )
    put_commit(
        log.env,
        5,
        [DomainMetadata(domain="gone", configuration="", removed=True), add("e", clustering_provider="liquid")],
    )
    return log


@pytest.mark.parametrize("policy", ["classic", "json", "parquet", "v2 by its classic name"])
def test_a_checkpoint_holds_what_the_commits_add_up_to(log: Log, policy: str) -> None:
    version = 5
    if policy != "classic":
        put_commit(
            log.env,
            6,
            [Metadata(id="test", schema_string=METADATA.schema_string, configuration={"delta.checkpointPolicy": "v2"})],
        )
        version = 6
    before = load_snapshot(log)
    written = write_checkpoint(
        before, top_level="parquet" if policy == "parquet" else "json", classic_name="name" in policy
    )
    assert [(f.severity, f.detail) for f in check_log(log)] == []
    without_commits(log, version)
    after = load_snapshot(log)
    assert facts(after) == facts(before)
    (file,) = written.files
    assert file.name.endswith("." + policy if policy in ("json", "parquet") else ".checkpoint.parquet")
    hint = parse_last_checkpoint(log.env.store.get(log_files.LAST_CHECKPOINT))
    assert hint is not None
    assert (hint.version, hint.num_of_add_files) == (version, 3)


def tombstones(log: Log) -> list[dict[str, object]]:
    segment = log.segment()
    assert segment.checkpoint is not None
    return sorted(
        (row for batch in read_tombstones(log.env.store, segment.checkpoint) for row in batch.to_pylist()),
        key=lambda r: r["path"],
    )


def test_tombstones_stay_until_they_expire_and_not_where_the_file_came_back(log: Log) -> None:
    write_checkpoint(load_snapshot(log))
    (kept,) = tombstones(log)
    assert (kept["path"], kept["size"], kept["partitionValues"]) == ("b%20c", 3, [("p", None)])


def test_tombstones_pass_from_checkpoint_to_checkpoint(log: Log) -> None:
    write_checkpoint(load_snapshot(log))
    now = log.env.clock_ms()
    put_commit(log.env, 6, [remove("e", now)])
    put_commit(log.env, 7, [remove("d", now, deletion_vector=VECTOR), add("d")])
    without_commits(log, 5)
    write_checkpoint(load_snapshot(log))
    assert [row["path"] for row in tombstones(log)] == ["b%20c", "d", "e"]
    put_commit(log.env, 8, [add("b%20c")])  # as RESTORE does
    write_checkpoint(load_snapshot(log))
    assert [row["path"] for row in tombstones(log)] == ["d", "e"]


def test_sidecars_are_of_a_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_writer, "SIDECAR_FILES_MAX", 10)
    monkeypatch.setattr("tahoe.table.log.file_parts.BATCH_ROWS", 4)
    env = memory_env()
    metadata = Metadata(id="test", schema_string=METADATA.schema_string, configuration={"delta.checkpointPolicy": "v2"})
    put_commit(env, 0, [V2, metadata, *(add(f"f{n}") for n in range(33))])
    log = Log(env)
    write_checkpoint(load_snapshot(log))
    sidecars = [info.key for info in env.store.list_from(log_files.SIDECAR_FOLDER)]
    assert [pq.read_table(env.store.open(key)).num_rows for key in sidecars] == [8, 8, 8, 9]
    without_commits(log, 0)
    assert sorted(a.path for a in load_snapshot(log).live.adds()) == sorted(f"f{n}" for n in range(33))


def written_adds(log: Log) -> list[dict[str, object]]:
    key = f"{log_files.LOG_FOLDER}/{log_files.classic_checkpoint_name(log.segment().version)}"
    return [row["add"] for row in pq.read_table(log.env.store.open(key)).to_pylist() if row["add"] is not None]


def test_statistics_are_only_texts_if_the_table_says_so() -> None:
    log = with_statistics(**{"delta.checkpoint.writeStatsAsStruct": "false"})
    write_checkpoint(load_snapshot(log))
    first = written_adds(log)[0]
    assert first["stats"] == STATS
    assert "stats_parsed" not in first
    assert "partitionValues_parsed" not in first


def test_typed_statistics_are_kept_while_their_columns_stay_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    log = with_statistics()
    write_checkpoint(load_snapshot(log))
    before = written_adds(log)
    without_commits(log, 0)
    put_commit(log.env, 1, [Txn(app_id="a", version=1)])
    with monkeypatch.context() as forbidden:
        forbidden.setattr("tahoe.table.commit.checkpoint_writer.parsed_statistics", _only_for_the_type)
        write_checkpoint(load_snapshot(log))
    assert written_adds(log) == before
    wider = SCHEMA.replace('"short"', '"integer"')
    assert wider != SCHEMA
    without_commits(log, 1)
    put_commit(log.env, 2, [Metadata(id="test", schema_string=wider, partition_columns=("p",))])
    write_checkpoint(load_snapshot(log))
    first, second, third = written_adds(log)
    assert first["stats_parsed"]["minValues"]["n"] == {"x": 3}
    assert (second["stats_parsed"], third["stats_parsed"]["numRecords"]) == (None, None)
    key = f"{log_files.LOG_FOLDER}/{log_files.classic_checkpoint_name(2)}"
    leaves = pq.ParquetFile(log.env.store.open(key)).schema
    assert {
        str(leaves.column(i).physical_type) for i in range(len(leaves)) if leaves.column(i).path.endswith("Values.n.x")
    } == {"INT32"}


def _only_for_the_type(
    texts: pa.ChunkedArray, columns: Mapping[tuple[str, ...], DataType], *, with_variants: bool
) -> pa.ChunkedArray:
    assert not len(texts), "texts were parsed"
    return parsed_statistics(texts, columns, with_variants=with_variants)


def test_statistics_as_columns_have_the_types_of_the_tables() -> None:
    log = with_statistics()
    write_checkpoint(load_snapshot(log))
    first, second, third = written_adds(log)
    parsed = first["stats_parsed"]
    assert parsed["numRecords"] == 3
    assert parsed["minValues"]["n"] == {"x": 3}
    assert (parsed["minValues"]["s"], parsed["maxValues"]["i"], str(parsed["maxValues"]["d"])) == ("a", 9, "2.50")
    assert parsed["nullCount"]["b"] == 1
    assert "b" not in parsed["minValues"]
    assert str(first["partitionValues_parsed"]["p"]) == "2024-01-01"
    assert (second["stats_parsed"], second["partitionValues_parsed"]["p"]) == (None, None)
    assert third["stats_parsed"]["numRecords"] is None
    key = f"{log_files.LOG_FOLDER}/{log_files.classic_checkpoint_name(0)}"
    leaves = pq.ParquetFile(log.env.store.open(key)).schema
    kinds = {leaves.column(i).path: str(leaves.column(i).logical_type) for i in range(len(leaves))}
    assert kinds["add.stats_parsed.minValues.n.x"] == "Int(bitWidth=16, isSigned=true)"
    assert "isAdjustedToUTC=true" in kinds["add.stats_parsed.maxValues.t"]


def test_statistics_that_are_columns_only_become_texts_again() -> None:
    only_columns = {"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "false"}
    log = with_statistics(**only_columns)
    write_checkpoint(load_snapshot(log))
    assert "stats" not in written_adds(log)[0]
    without_commits(log, 0)
    both = {**only_columns, "delta.checkpoint.writeStatsAsJson": "true"}
    put_commit(log.env, 1, [Metadata(id="test", schema_string=SCHEMA, partition_columns=("p",), configuration=both)])
    write_checkpoint(load_snapshot(log))
    again = json.loads(written_adds(log)[0]["stats"])
    assert again == json.loads(STATS)


@pytest.fixture
def typed() -> Table:
    """A table with a deletion vector, whose checkpoint has statistics in columns only."""
    env = memory_env()
    table = Table(env.store.url, env=env)
    properties = {
        "delta.checkpoint.writeStatsAsJson": "false",
        "delta.enableDeletionVectors": "true",
        "delta.checkpointInterval": "100",
    }
    table.append(pa.table({"a": [1, 2, 3]}), properties=properties)
    table.append(pa.table({"a": [4, 5, 6]}))
    table.delete("a = 1")
    table.create_checkpoint()
    for version in range(table.version + 1):
        env.store.delete(log_files.checksum_key(version))
    return Table(table.url, env=env)


def stats_of_newest(table: Table) -> list[dict[str, object]]:
    return [json.loads(a.stats or "{}") for a in table.log.read_version(table.version) if isinstance(a, Add)]


def test_files_that_get_row_ids_keep_statistics_that_are_columns_only(typed: Table) -> None:
    """Every entry with a deletion vector must have the number of rows."""
    with typed.transaction() as changes:
        changes.set_properties({"delta.enableRowTracking": "true"})
    found = sorted((one["numRecords"], str(one["minValues"]), str(one["maxValues"])) for one in stats_of_newest(typed))
    assert found == [(3, "{'a': 1}", "{'a': 3}"), (3, "{'a': 4}", "{'a': 6}")]


def test_files_of_which_rows_are_deleted_keep_statistics_that_are_columns_only(typed: Table) -> None:
    typed.delete("a = 5")
    assert stats_of_newest(typed) == [
        {"numRecords": 3, "minValues": {"a": 4}, "maxValues": {"a": 6}, "nullCount": {"a": 0}, "tightBounds": False}
    ]


def test_expired_applications_are_left_out() -> None:
    env = memory_env()
    now = env.clock_ms()
    metadata = Metadata(id="test", configuration={"delta.setTransactionRetentionDuration": "interval 1 day"})
    txns = [
        Txn(app_id="old", version=1, last_updated_ms=now - 2 * 86_400_000),
        Txn(app_id="new", version=1, last_updated_ms=now),
    ]
    put_commit(env, 0, [PROTOCOL, metadata, *txns, Txn(app_id="timeless", version=1)])
    log = Log(env)
    write_checkpoint(load_snapshot(log))
    without_commits(log, 0)
    assert set(load_snapshot(log).txns) == {"new", "timeless"}


def test_the_hint_goes_forward_only(log: Log) -> None:
    write_checkpoint(load_snapshot(log, 5))
    write_checkpoint(load_snapshot(log, 3))
    hint = parse_last_checkpoint(log.env.store.get(log_files.LAST_CHECKPOINT))
    assert hint is not None
    assert hint.version == 5


@pytest.mark.parametrize("nth", range(1, 7))
def test_a_crash_between_any_two_writes_leaves_a_readable_table(nth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_writer, "SIDECAR_FILES_MAX", 1)
    monkeypatch.setattr("tahoe.table.log.file_parts.BATCH_ROWS", 1)
    writes = 5  # three sidecars, the checkpoint, the hint
    env = memory_env(faults=FaultPlan(Fault(effect=Effect.RAISE_BEFORE, operation=Operation.PUT, nth=nth, times=99)))
    metadata = Metadata(id="test", schema_string=METADATA.schema_string, configuration={"delta.checkpointPolicy": "v2"})
    put_commit(env, 0, [V2, metadata, add("a"), add("b"), add("c")])
    log = Log(env)
    before = facts(load_snapshot(log))
    with nullcontext() if nth > writes else pytest.raises(StorageUnavailableError):
        write_checkpoint(load_snapshot(log))
    assert facts(load_snapshot(log)) == before
    assert list(check_log(log)) == []


def test_a_schema_of_the_checkpoint_is_the_protocols(log: Log) -> None:
    write_checkpoint(load_snapshot(log))
    key = f"{log_files.LOG_FOLDER}/{log_files.classic_checkpoint_name(5)}"
    schema = pq.read_schema(log.env.store.open(key))
    assert schema.names == ["protocol", "metaData", "txn", "domainMetadata", "remove", "add"]
    assert not {"stats", "tags"} & {field.name for field in schema.field("remove").type}
    actions, parts = read_checkpoint(log, log.segment().checkpoint)
    assert {type(a).__name__ for a in actions} == {"Protocol", "Metadata", "Txn", "DomainMetadata"}
    assert sum(part.num_rows for part in parts) == 3
    assert all(row["dataChange"] is False for row in written_adds(log))


def test_an_empty_table_has_a_checkpoint() -> None:
    log = make_log([[]])
    write_checkpoint(load_snapshot(log))
    without_commits(log, 0)
    assert load_snapshot(log).schema == parse_schema(METADATA.schema_string)
    assert isinstance(load_snapshot(log).schema, Struct)
    assert not list(load_snapshot(log).live.adds())
