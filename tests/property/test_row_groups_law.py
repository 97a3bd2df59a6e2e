"""A query that reads some row groups of a checkpoint finds the files that a query over all of them finds."""

from __future__ import annotations

import io
from datetime import UTC

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.errors import CorruptCheckpointError, MissingVersionError
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import DeletionVectorDescriptor, DomainMetadata, Metadata, Remove
from tahoe.protocol.statistics.limits import RowLimit
from tahoe.protocol.types.predicate import Column, Comparison, Literal
from tahoe.sql.predicates import parse_predicate
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.log.delta_log import Log
from tahoe.table.log.grouped_part import GroupedPart
from tahoe.table.reading import scan as scan_module
from tahoe.table.reading.group_skipping import groups_to_read
from tahoe.table.reading.limits import needed
from tahoe.table.reading.scan import PrunedFiles, Scan
from tahoe.table.reading.skipping import test_of as skipping_test
from tahoe.table.reading.snapshot import Snapshot, load_snapshot, refresh
from tests.property.numbered_logs import PROTOCOL, numbered_log, small
from tests.property.random_statistics import PREDICATES, SCHEMA, statistics
from tests.table.builders import add, memory_env, put_commit

VECTORS = [
    None,
    *(DeletionVectorDescriptor(storage_type="i", path_or_inline=f"v{n}", size_bytes=1, cardinality=1) for n in (1, 2)),
]

FILES = st.tuples(statistics(), st.sampled_from(["1", "2", None]), st.sampled_from(VECTORS))
NAMES = [f"f{n}" for n in range(8)]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """A log with a checkpoint of ours or of another writer, and commits behind it."""
    env = memory_env()
    asked = {
        "delta.checkpointPolicy": draw(st.sampled_from(["classic", "v2"])),
        "delta.checkpoint.writeStatsAsStruct": draw(st.sampled_from([None, "true", "false"])),
        "delta.checkpoint.writeStatsAsJson": draw(st.sampled_from([None, "true", "false"])),
    }
    configuration = {name: value for name, value in asked.items() if value is not None}
    partitions = draw(st.sampled_from([("p",), ()]))
    metadata = Metadata(
        id="t", schema_string=SCHEMA.to_json(), partition_columns=partitions, configuration=configuration
    )
    clustering = [DomainMetadata(domain="delta.clustering", configuration='{"clusteringColumns":[["l"],["n","x"]]}')]

    def files(names: list[str]) -> list[object]:
        found = [(name, *draw(FILES)) for name in names]
        return [
            add(name, stats=text, partition_values={"p": value} if partitions else {}, deletion_vector=vector)
            for name, text, value, vector in found
        ]

    first = files(draw(st.permutations(NAMES)))
    domains = clustering if not partitions and draw(st.booleans()) else []
    put_commit(env, 0, [PROTOCOL, metadata, *domains, *first])
    log = Log(env)
    write_checkpoint(load_snapshot(log))
    if draw(st.booleans()):
        rewrite(log, draw)
    live = {a.path: a for a in first}
    for version in range(1, draw(st.integers(1, 4))):
        names = draw(st.lists(st.sampled_from([*NAMES, "g1", "g2"]), unique=True, max_size=3))
        actions: list[object] = []
        for name in names:
            known, new = live.get(name), files([name])[0]
            is_removed = known is not None and draw(st.booleans())
            if is_removed:
                actions.append(Remove(path=name, deletion_vector=known.deletion_vector))
                del live[name]
            if not is_removed or new.deletion_vector != known.deletion_vector:
                new = new if is_removed or known is None else known.replace(stats=new.stats)
                actions.append(new)
                live[name] = new
        put_commit(env, version, actions)
    return log


def rewrite(log: Log, draw: st.DrawFn) -> None:
    """The files of the checkpoint in another order, in other row groups, some of which have no statistics."""
    store = log.env.store
    keys = [info.key for folder in (log_files.LOG_FOLDER, log_files.SIDECAR_FOLDER) for info in store.list_from(folder)]
    for key in {key for key in keys if key.endswith(".parquet")}:
        file = pq.ParquetFile(pa.BufferReader(store.get(key)))
        table = file.read()
        table = table.take(np.array(draw(st.permutations(range(len(table)))), np.int64))
        out = io.BytesIO()
        leaves = [file.schema.column(i).path for i in range(len(file.schema))]
        with_statistics = draw(st.sampled_from([True, leaves[: len(leaves) // 2], ["add.path"], False]))
        pq.write_table(
            table.replace_schema_metadata(file.metadata.metadata),
            out,
            row_group_size=draw(st.integers(1, 4)),
            write_statistics=with_statistics,
        )
        store.put(key, out.getvalue())


def found(snapshot: Snapshot, predicate: object) -> list[tuple[object, ...]]:
    scan = snapshot.scan(predicate)
    columns = [
        scan.column(name).to_pylist() for name in ("path", "size_bytes", "stats", "deletion_vector", "partition_values")
    ]
    return sorted(zip(*columns, scan.partition.to_pylist(), scan.num_records.to_pylist(), strict=True), key=repr)


@given(logs(), st.lists(PREDICATES, min_size=1, max_size=4), st.data())
def test_some_row_groups_are_enough(log: Log, predicates: list[object], data: st.DataObject) -> None:
    plain = load_snapshot(log)
    with small(data.draw(st.integers(1, 3))):
        large = load_snapshot(log)
        if data.draw(st.booleans()):
            large = refresh(load_snapshot(log, 0))
        for predicate in predicates:
            assert found(large, predicate) == found(plain, predicate)
            scan = large.scan(predicate)
            if scan.file_positions is not None:  # positions are those of the whole list
                paths = large.live.column("path").take(scan.file_positions)
                assert paths.to_pylist() == scan.column("path").to_pylist()
                again = large.full_scan.within(scan.file_positions.to_pylist())
                assert list(again.adds()) == list(scan.adds())
        assert len(large.live) == len(plain.live)
        assert large.live.size_bytes == plain.live.size_bytes
        assert len(large.live.vectors) == len(plain.live.vectors)
        assert (
            large.live.lacks_texts() or not plain.live.lacks_texts()
        )  # the footer counts files that newer actions name, too
        assert {a.path for batch in [large.live.adds()] for a in batch} == {a.path for a in plain.live.adds()}
        batches = [path for batch in large.live.batches() for path in batch["path"].to_pylist()]
        assert sorted(batches) == sorted(a.path for a in plain.live.adds())


@given(logs(), st.integers(1, 9), st.integers(1, 3))
def test_some_row_groups_are_enough_for_a_limit(log: Log, rows: int, group_files: int) -> None:
    plain = load_snapshot(log)
    unmarked = sum(
        count or 0
        for count, vector in zip(plain.live.num_records.to_pylist(), vectors_of(plain.scan()), strict=True)
        if not vector
    )
    with small(group_files):
        chosen = needed(RowLimit(rows), load_snapshot(log).scan())
        if unmarked >= rows:
            assert not any(vectors_of(chosen))
            assert sum(count or 0 for count in chosen.num_records.to_pylist()) >= rows
            assert {*chosen.column("path").to_pylist()} <= {*plain.live.column("path").to_pylist()}
        else:
            assert sorted(chosen.column("path").to_pylist()) == sorted(
                needed(RowLimit(rows), plain.scan()).column("path").to_pylist()
            )


def vectors_of(scan: Scan) -> list[object]:
    found: list[object] = scan.column("deletion_vector").to_pylist()
    return found


@given(logs(), st.integers(1, 3))
def test_an_ordered_checkpoint_has_the_same_files(log: Log, group_files: int) -> None:
    plain = load_snapshot(log)
    with small(group_files):
        write_checkpoint(load_snapshot(log))
    again = load_snapshot(log)
    as_texts = plain.properties.get("delta.checkpoint.writeStatsAsJson") != "false"
    before, after = ({a.path: a if as_texts else a.replace(stats=None) for a in s.live.adds()} for s in (plain, again))
    assert after == before


CHECKPOINT = f"{log_files.LOG_FOLDER}/{log_files.classic_checkpoint_name(0)}"


def damage(log: Log) -> None:
    """Break all row groups of the checkpoint, whose footer stays."""
    content = log.env.store.get(CHECKPOINT)
    footer = int.from_bytes(content[-8:-4], "little") + 8
    log.env.store.put(CHECKPOINT, content[:4] + bytes(len(content) - 4 - footer) + content[-footer:])


def test_a_checkpoint_that_is_deleted_meanwhile_costs_only_time() -> None:
    with small(4):
        log = numbered_log()
        snapshot = load_snapshot(log)
        first = snapshot.scan("l = 17")
        told = first.file_positions.to_pylist()
        log.env.store.delete(CHECKPOINT)
        assert snapshot.scan("l = 17").column("path").to_pylist() == ["f17"]  # was read
        assert snapshot.scan("l = 33").column("path").to_pylist() == ["f33"]
        assert first.column("stats").null_count == 0
        assert len(snapshot.live) == 40
        assert [a.path for a in snapshot.full_scan.within(told).adds()] == ["f17"]
        assert snapshot.scan("l = 17").file_positions.to_pylist() == told


def test_a_checkpoint_in_another_order_that_another_thread_loads_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    with small(4):
        log = numbered_log()
        snapshot = load_snapshot(log)

        def chosen(*asked: object) -> object:
            monkeypatch.undo()
            found = groups_to_read(*asked)
            table = pq.read_table(io.BytesIO(log.env.store.get(CHECKPOINT)))
            out = io.BytesIO()
            pq.write_table(table.take(np.roll(np.arange(len(table)), 17)), out, row_group_size=4)
            log.env.store.put(CHECKPOINT, out.getvalue())
            snapshot.live.renew(FileNotFoundError(CHECKPOINT), snapshot.live.parts)
            return found

        monkeypatch.setattr(scan_module, "groups_to_read", chosen)
        found = snapshot.scan("l = 17")
        assert found.column("path").to_pylist() == ["f17"]
        assert snapshot.live.column("path").to_pylist()[found.file_positions.to_pylist()[0]] == "f17"


def test_another_table_in_the_place_of_a_dropped_one_is_not_taken_for_it() -> None:
    with small(4):
        log = numbered_log()
        snapshot = load_snapshot(log)
        for key, content in contents(numbered_log("other")).items():
            log.env.store.put(key, content)
        for ask in (lambda: len(snapshot.live), lambda: snapshot.scan("l = 17").column("path")):
            with pytest.raises(MissingVersionError, match="recreated"):
                ask()


def contents(log: Log) -> dict[str, bytes]:
    return {key: log.env.store.get(key) for key in log.env.store.tree().keys}


def test_a_broken_row_group_costs_only_time() -> None:
    with small(4):
        log = numbered_log()
        damage(log)
        snapshot = load_snapshot(log)
        assert snapshot.scan("l = 33").column("path").to_pylist() == ["f33"]
        assert sorted(snapshot.live.column("path").to_pylist()) == sorted(
            ["new", *(f"f{n}" for n in range(40) if n != 3)]
        )
        log.env.store.delete(log_files.commit_key(0))
        with pytest.raises(CorruptCheckpointError):
            load_snapshot(log).scan("l = 20").column("path")


def test_a_point_query_reads_one_row_group() -> None:
    with small(4):
        snapshot = load_snapshot(numbered_log())
        scan = snapshot.scan("l = 17")
        assert scan.column("path").to_pylist() == ["f17"]
        assert isinstance(scan.chosen, PrunedFiles)
        assert len(scan.chosen.among.files) == 5  # and the file of the commit
        part = snapshot.live.parts[1]
        assert isinstance(part, GroupedPart)
        assert not part.file.whole.has_read("path")
        assert "gone" not in part.__dict__


def test_a_limit_reads_one_row_group() -> None:
    with small(4):
        snapshot = load_snapshot(numbered_log())
        scan = needed(RowLimit(2), snapshot.scan())
        assert isinstance(scan.chosen, PrunedFiles)
        assert scan.kept_files == 2
        assert len(scan.chosen.among.files) == 4  # of the first row group, without the removed one, and of the commit
        part = snapshot.live.parts[1]
        assert isinstance(part, GroupedPart)
        assert not part.file.whole.has_read("path")
        assert "gone" not in part.__dict__


def test_a_limit_over_a_broken_row_group_costs_only_time() -> None:
    with small(4):
        log = numbered_log()
        damage(log)
        assert needed(RowLimit(2), load_snapshot(log).scan()).kept_files == 2


def groups_with(log: Log, values: range) -> tuple[int, int]:
    """How many row groups queries for single values read at most, and how many there are."""
    snapshot = load_snapshot(log)
    live = snapshot.live
    tests = [skipping_test(snapshot, Comparison("=", Column(("l",)), Literal(value))) for value in values]
    read = [int(groups_to_read(snapshot, test).sum()) for test in tests if test is not None]
    return max(read), len(live.group_files)


@pytest.mark.parametrize("comes", ["spread", "behind"])
def test_row_groups_stay_in_order_when_checkpoints_follow_each_other(comes: str) -> None:
    """New files are between the others, or behind all of them; files of one commit are in no order."""
    env, log = memory_env(), None
    stats = '{{"numRecords":1,"minValues":{{"l":{0}}},"maxValues":{{"l":{0}}},"nullCount":{{"l":0}}}}'
    with small(10):
        for version in range(6):
            numbers = [(n * 37 % 100) for n in range(100)]
            values = [n * 6 + version if comes == "spread" else 100 * version + n for n in numbers]
            head = [PROTOCOL, Metadata(id="t", schema_string=SCHEMA.to_json())] if version == 0 else []
            put_commit(env, version, [*head, *(add(f"f{value}", stats=stats.format(value)) for value in values)])
            log = Log(env)
            write_checkpoint(load_snapshot(log))
            read, groups = groups_with(log, range(0, 100 * (version + 1), 7))
            assert read <= 3, f"version {version}"
            assert groups >= 7 * (version + 1)
        assert sorted(a.path for a in load_snapshot(log).live.adds()) == sorted(f"f{value}" for value in range(600))


@pytest.mark.parametrize(("low", "high"), [(100, -5), (60, 5), (3, -20)])
@pytest.mark.parametrize("text", ["l = 50", "l = -30", "l > 11", "l < 0"])
def test_bounds_that_cannot_be_true_hide_no_row_group(low: int, high: int, text: str) -> None:
    """The greatest of the minima is above all maxima, or the least maximum below all minima: one file's bounds are
    nonsense.
    """
    env = memory_env()
    metadata = Metadata(
        id="t", schema_string=SCHEMA.to_json(), configuration={"delta.checkpoint.writeStatsAsStruct": "true"}
    )
    stats = [(0, 10), (low, high), (1, 9)]
    texts = [
        f'{{"numRecords":3,"minValues":{{"l":{a}}},"maxValues":{{"l":{b}}},"nullCount":{{"l":0}}}}' for a, b in stats
    ]
    put_commit(env, 0, [PROTOCOL, metadata, *(add(f"f{n}", stats=stats) for n, stats in enumerate(texts))])
    log = Log(env)
    write_checkpoint(load_snapshot(log))
    (key,) = (
        info.key for info in env.store.list_from(log_files.LOG_FOLDER) if info.key.endswith(".checkpoint.parquet")
    )
    table = pq.read_table(pa.BufferReader(env.store.get(key)))
    rows = table.to_pylist()
    for row in rows:
        if row["add"] is not None and row["add"]["path"] == "f1":  # as another writer leaves them
            row["add"]["stats_parsed"]["minValues"]["l"], row["add"]["stats_parsed"]["maxValues"]["l"] = low, high
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, table.schema), out)
    env.store.put(key, out.getvalue())
    with small(1):
        predicate = parse_predicate(text, SCHEMA, table="t", zone=UTC)
        assert "f1" in load_snapshot(log).scan(predicate).column("path").to_pylist()
