"""Logs that are broken, hints that mislead, and what is read."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tahoe.errors import (
    CorruptCheckpointError,
    CorruptCompactedLogError,
    InvalidActionError,
    InvalidCommitError,
    InvalidLogFileError,
    MissingActionError,
    MissingVersionError,
    NotADeltaTableError,
    TableNotFoundError,
    UnsupportedReaderFeatureError,
    VersionNotFoundError,
)
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import DeletionVectorDescriptor, Metadata, Protocol, Remove, Txn, encode_commit
from tahoe.protocol.log.last_checkpoint import LastCheckpoint, encode_last_checkpoint
from tahoe.protocol.log.log_files import commit_key
from tahoe.storage.memory import Operation
from tahoe.table.commit.checkpoint_writer import unexpired_tombstones, write_checkpoint
from tahoe.table.log.delta_log import Log
from tahoe.table.log.file_parts import DELETION_VECTOR
from tahoe.table.reading.snapshot import load_snapshot, refresh
from tahoe.table.verify.findings import Kind
from tahoe.table.verify.log import check_log
from tests.table.builders import (
    CHECKPOINT_SCHEMA,
    METADATA,
    PROTOCOL,
    add,
    make_log,
    memory_env,
    parquet_bytes,
    put_commit,
)

VECTOR = DeletionVectorDescriptor(storage_type="i", path_or_inline="v", size_bytes=1, cardinality=1)
CHECKPOINT = f"{log_files.LOG_FOLDER}/{log_files.classic_checkpoint_name(2)}"


def table_with_checkpoint() -> Log:
    log = make_log([[add("a")], [add("b")], [add("c")], [Remove(path="a")]])
    log.env.store.put(CHECKPOINT, parquet_bytes([PROTOCOL, METADATA, add("a"), add("b"), add("c")]))
    return log


def paths(log: Log) -> list[str]:
    return sorted(load_snapshot(log).live.column("path").to_pylist())


def test_no_table_and_no_delta_table_are_told_apart():
    log = Log(memory_env())
    with pytest.raises(TableNotFoundError):
        load_snapshot(log)
    log.env.store.put("data.parquet", b"")
    with pytest.raises(NotADeltaTableError):
        load_snapshot(log)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            b'{"add":{"path":"b","size":1,"modificationTime":1,"dataChange":true}}\n{"add":{"pa',
            r"00000000000000000001\.json, line 2",
        ),
        (b'{"add":{"path":"b"}}', "add: Object missing required field `size`"),
    ],
    ids=["a broken line", "an action without a required field"],
)
def test_what_is_wrong_with_a_commit_is_named(content, told):
    log = make_log([[add("a")]])
    log.env.store.put(commit_key(1), content)
    with pytest.raises(InvalidLogFileError, match=told):
        load_snapshot(log)


@pytest.mark.parametrize(
    ("content", "files"),
    [
        pytest.param(
            '{"novelty":{"x":1}}\n{"add":{"path":"b","size":1,"modificationTime":1,"dataChange":true,"new":[1]}}\n\n',
            ["a", "b"],
            id="unknown actions and fields",
        ),
        *[
            pytest.param(f'{{"commitInfo":{info}}}\n', ["a"], id=f"commitInfo: {info}")
            for info in ('"text"', "[1]", "5", "true", "null")
        ],
    ],
)
def test_what_is_not_known_is_ignored(content, files):
    log = make_log([[add("a")]])
    log.env.store.put(commit_key(1), content.encode())
    assert paths(log) == files


def test_a_partition_column_is_spelled_as_in_the_schema():
    """Files name their values by the column of the schema: with another spelling they had none."""
    log = make_log([[], [METADATA.replace(partition_columns=("ID",)), add("a", partition_values={"ID": "1"})]])
    with pytest.raises(InvalidActionError, match="partitioned by ID, but its schema has no such column"):
        load_snapshot(log).to_arrow()


@pytest.mark.parametrize(
    ("actions", "detail"),
    [
        ([METADATA, METADATA], "more than one metaData"),
        ([PROTOCOL, PROTOCOL], "more than one protocol"),
        ([add("b"), add("b")], "more than one add action for b"),
        ([add("b"), add("./b")], "more than one add action"),
        ([Remove(path="a"), Remove(path="a")], "more than one remove action for a"),
        ([add("b"), Remove(path="b")], "both adds and removes b"),
    ],
)
def test_a_commit_that_contradicts_itself_is_refused_by_name(actions, detail):
    with pytest.raises(InvalidCommitError, match=rf"00000000000000000001\.json violates the protocol: .*{detail}"):
        load_snapshot(make_log([[add("a")], actions]))


def test_a_file_with_a_new_vector_is_removed_and_added_in_one_commit():
    vector = DeletionVectorDescriptor(storage_type="i", path_or_inline="x", size_bytes=1, cardinality=1)
    log = make_log([[add("a")], [Remove(path="a"), add("a", deletion_vector=vector)]])
    (live,) = load_snapshot(log).live.adds()
    assert live.deletion_vector == vector


@pytest.mark.parametrize("missing", ["protocol", "metaData"])
def test_a_log_without_protocol_or_metadata_is_refused(missing):
    env = memory_env()
    put_commit(env, 0, [METADATA if missing == "protocol" else PROTOCOL, add("a")])
    with pytest.raises(MissingActionError, match=missing):
        load_snapshot(Log(env))


def test_a_feature_that_readers_must_know_stops_the_read_by_name():
    protocol = Protocol(
        reader_version=3,
        writer_version=7,
        reader_features=frozenset({"timeMachine"}),
        writer_features=frozenset({"timeMachine"}),
    )
    with pytest.raises(UnsupportedReaderFeatureError, match="timeMachine"):
        load_snapshot(make_log([[add("a")], [protocol]]))


def test_versions_and_gaps():
    log = make_log([[add("a")], [add("b")], [add("c")]])
    assert sorted(load_snapshot(log, 1).live.column("path").to_pylist()) == ["a", "b"]
    with pytest.raises(VersionNotFoundError, match="versions 0 to 2"):
        load_snapshot(log, 3)
    log.env.store.delete(commit_key(1))
    with pytest.raises(MissingVersionError, match=r"00000000000000000001\.json"):
        load_snapshot(log)


@pytest.mark.parametrize(
    "content", [b"PAR1 this is no checkpoint", b"", parquet_bytes([PROTOCOL, METADATA, add("a")])[:-20]]
)
def test_a_broken_checkpoint_costs_time_not_correctness(content):
    log = table_with_checkpoint()
    log.env.store.put(CHECKPOINT, content)
    assert paths(log) == ["b", "c"]


@pytest.mark.parametrize(
    "compacted",
    [
        encode_commit([add("a"), Remove(path="a"), add("b")]),
        encode_commit([add("b"), add("b", deletion_vector=VECTOR)]),
        encode_commit([Remove(path="a"), Remove(path="a"), add("b")]),
        encode_commit([Remove(path="a"), add("b"), Txn(app_id="x", version=2), Txn(app_id="x", version=1)]),
        encode_commit([add("b"), add("c")])[:-20],
        b"\xff\xfe",
    ],
)
def test_a_compacted_file_that_is_illegal_or_broken_is_passed_over_for_its_commits(compacted):
    log = make_log([[add("a")], [Remove(path="a"), add("b")], [add("c")], [add("d")]])
    name = log_files.compacted_name(1, 2)
    log.env.store.put(f"{log_files.LOG_FOLDER}/{name}", compacted)
    assert paths(log) == ["b", "c", "d"]
    write_checkpoint(load_snapshot(log))
    assert paths(log) == ["b", "c", "d"]
    assert {(f.kind, f.file) for f in check_log(log)} == {(Kind.WRONG_COMPACTED_LOG, name)}
    log.env.store.delete(commit_key(1))
    with pytest.raises(CorruptCompactedLogError, match=name):
        load_snapshot(log, 2)


def test_another_writers_compacted_file_is_used_where_no_removes_can_be_missing():
    """Delta Kernel leaves expired removes out."""
    log = make_log([[add("a")], [Remove(path="a"), add("b")], [add("c")], [add("d")]])
    folder = log_files.LOG_FOLDER
    log.env.store.put(f"{folder}/{log_files.compacted_name(1, 2)}", encode_commit([add("b"), add("c")]))
    assert paths(log) == ["b", "c", "d"]
    log.env.store.put(
        f"{folder}/{log_files.compacted_name(0, 2)}", encode_commit([PROTOCOL, METADATA, add("b"), add("c")])
    )
    log.env.store.delete(commit_key(1))
    assert paths(log) == ["b", "c", "d"]
    log.env.store.delete(f"{folder}/{log_files.compacted_name(0, 2)}")
    log.env.store.put(
        f"{folder}/{log_files.compacted_name(1, 2)}", encode_commit([Remove(path="a"), add("b"), add("c")])
    )
    assert paths(log) == ["b", "c", "d"]


def test_a_checkpoint_and_a_compacted_file_may_both_be_broken():
    log = table_with_checkpoint()
    log.env.store.put(CHECKPOINT, b"broken")
    for end in (2, 3):
        log.env.store.put(f"{log_files.LOG_FOLDER}/{log_files.compacted_name(1, end)}", b"{")
    assert paths(log) == ["b", "c"]


def test_a_broken_checkpoint_that_nothing_replaces_is_named():
    log = table_with_checkpoint()
    log.env.store.put(CHECKPOINT, b"broken")
    log.env.store.delete(commit_key(0))
    with pytest.raises(CorruptCheckpointError, match=r"00000000000000000002\.checkpoint\.parquet"):
        load_snapshot(log)


@pytest.mark.parametrize("text", [b"bxb", b"qxq"], ids=["path", "partition value"])
def test_a_checkpoint_with_texts_that_are_not_utf_8_is_broken(text):
    """Arrow reads them, and a raw UnicodeDecodeError came later."""
    log = make_log([[]])
    log.env.store.put(
        CHECKPOINT,
        parquet_bytes([PROTOCOL, METADATA, add("bxb", partition_values={"p": "qxq"})]).replace(text, b"x\xffx"),
    )
    with pytest.raises(CorruptCheckpointError, match="UTF"):
        load_snapshot(log, 2).files()


def test_a_checkpoint_with_a_file_that_has_no_size_is_broken():
    log = make_log([[]])
    content = pq.read_table(io.BytesIO(parquet_bytes([PROTOCOL, METADATA, add("a"), add("b")])))
    rows = content.to_pylist()
    rows[-1]["add"]["size"] = None
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, content.schema), out)
    log.env.store.put(CHECKPOINT, out.getvalue())
    with pytest.raises(CorruptCheckpointError, match="a file has no size"):
        load_snapshot(log, 2)


def test_a_checkpoint_without_protocol_is_not_an_accident():
    log = table_with_checkpoint()
    log.env.store.put(CHECKPOINT, parquet_bytes([METADATA, add("a")]))
    with pytest.raises(MissingActionError, match="no protocol action"):
        load_snapshot(log)


@pytest.mark.parametrize(
    "hint",
    [
        b"",
        b"not json",
        encode_last_checkpoint(LastCheckpoint(version=99, size=1)),
        encode_last_checkpoint(LastCheckpoint(version=1, size=1)),
        encode_last_checkpoint(LastCheckpoint(version=2, size=5)),
        encode_last_checkpoint(LastCheckpoint(version=2, size=5))[:-4],
    ],
)
def test_a_hint_right_or_wrong_changes_nothing(hint):
    log = table_with_checkpoint()
    log.env.store.put(log_files.LAST_CHECKPOINT, hint)
    assert paths(log) == ["b", "c"]
    assert sorted(load_snapshot(log, 1).live.column("path").to_pylist()) == ["a", "b"]


def test_a_good_hint_saves_the_listing_of_old_commits():
    log = table_with_checkpoint()
    log.env.store.put(log_files.LAST_CHECKPOINT, encode_last_checkpoint(LastCheckpoint(version=2, size=5)))
    assert [f.version for f in log.list_files(2)] == [2, 2, 3]
    calls = log.env.store.calls
    before = calls[Operation.LIST]
    load_snapshot(log)
    assert calls[Operation.LIST] - before == 1


def test_a_later_snapshot_reads_only_the_commits_since():
    log = make_log([[add("a")], [add("b")]])
    snapshot = load_snapshot(log)
    put_commit(log.env, 2, [add("c")])
    before = log.env.store.calls[Operation.GET]
    newer = refresh(snapshot)
    assert newer.version == 2
    assert log.env.store.calls[Operation.GET] - before == 1
    assert refresh(newer) is newer


def test_a_listing_that_a_commit_has_passed_by_is_completed():
    """A folder is listed in any order while others write into it: twice in a row the newest commit is seen, and those
    before it are not.
    """
    log = make_log([[add("a")], [add("b")], [add("c")], [add("d")], [add("e")]])
    whole, real = log.list_files(), log.env.store.list_from
    log.env.store.list_from = lambda *given: (
        info for info in real(*given) if info.key not in (commit_key(2), commit_key(3))
    )
    before = load_snapshot(log, 1)
    assert log.list_files() == whole
    assert log.list_files(3) == whole[3:]
    assert log.list_files(4) == whole[4:]
    assert paths(log) == ["a", "b", "c", "d", "e"]
    assert refresh(before).version == 4
    log.env.store.delete(commit_key(2))
    assert log.list_files() == [*whole[:2], *whole[3:]]


def test_a_table_that_was_made_anew_in_the_same_place_is_not_mixed_with_the_old_one():
    log = make_log([[add("a")], [add("b")]])
    snapshot = load_snapshot(log)
    for version in (0, 1):
        log.env.store.delete(commit_key(version))
    put_commit(log.env, 0, [PROTOCOL, Metadata(id="new", schema_string=METADATA.schema_string), add("z")])
    put_commit(log.env, 1, [add("y")])
    assert sorted(refresh(snapshot).live.column("path").to_pylist()) == ["y", "z"]


# --- what other writers do differently, and no reader should mind


@pytest.mark.parametrize("stats", ['{"numRecords":1}', "1", "[]", '"\\ud83d"'])
def test_statistics_that_are_no_text_tell_nothing(stats):
    """They may be left out: a table is not lost with them."""
    log = make_log([[add("a")]])
    line = '{"add":{"path":"b","size":1,"modificationTime":1,"dataChange":true,"stats":STATS}}'.replace("STATS", stats)
    log.env.store.put(commit_key(1), line.encode())
    snapshot = load_snapshot(log)
    assert len(snapshot.scan("id = 1").listing()) == 2
    assert sorted(snapshot.live.column("path").to_pylist()) == ["a", "b"]


def with_types(data: bytes, change: Callable[[pa.Table], pa.Table]) -> bytes:
    out = io.BytesIO()
    pq.write_table(change(pq.read_table(io.BytesIO(data))), out)
    return out.getvalue()


def test_a_vector_that_is_a_struct_of_nulls_is_none():
    """Some writers have no null structs. A file that is removed later must be found without a vector."""

    def without_null_structs(table: pa.Table) -> pa.Table:
        adds = table.column("add").combine_chunks()
        empty = pa.StructArray.from_arrays(
            [pa.nulls(len(adds), f.type) for f in DELETION_VECTOR], fields=list(DELETION_VECTOR)
        )
        columns = [empty if f.name == "deletionVector" else adds.field(f.name) for f in adds.type]
        full = pa.StructArray.from_arrays(columns, fields=list(adds.type), mask=adds.is_null())
        return table.set_column(table.schema.get_field_index("add"), "add", full)

    log = table_with_checkpoint()
    log.env.store.put(CHECKPOINT, with_types(log.env.store.get(CHECKPOINT), without_null_structs))
    for version in range(3):
        log.env.store.delete(commit_key(version))
    snapshot = load_snapshot(log)
    assert sorted(snapshot.live.column("path").to_pylist()) == ["b", "c"]
    assert not snapshot.has_deletion_vectors


def _views(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _views(f.type)) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(_views(kind.key_type), _views(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_views(kind.value_type))
    return pa.string_view() if pa.types.is_string(kind) else kind


def test_a_checkpoint_whose_texts_are_views_is_read():
    """Arrow keeps its own types in a file, and cannot select rows of all of them; DataFusion's texts are views."""
    log = make_log(
        [[add("a", stats='{"numRecords":3,"minValues":{"id":5},"maxValues":{"id":6}}'), Txn(app_id="q", version=4)], []]
    )
    actions = [
        PROTOCOL,
        METADATA,
        Txn(app_id="q", version=4),
        *load_snapshot(log).live.adds(),
        add("b"),
        Remove(path="c"),
    ]
    views = pa.schema(list(_views(pa.struct(list(CHECKPOINT_SCHEMA)))))
    changed = with_types(parquet_bytes(actions), lambda table: pa.Table.from_pylist(table.to_pylist(), views))
    log.env.store.put(f"{log_files.LOG_FOLDER}/{log_files.classic_checkpoint_name(1)}", changed)
    for version in range(2):
        log.env.store.delete(commit_key(version))
    snapshot = load_snapshot(log)
    assert snapshot.txn_version("q") == 4
    assert snapshot.files("id = 1").column("path").to_pylist() == ["b"]
    put_commit(log.env, 2, [add("d")])
    write_checkpoint(load_snapshot(log))
    assert paths(log) == ["a", "b", "d"]


def test_parts_of_a_checkpoint_may_repeat_what_the_whole_has():
    log = make_log([[add("a")], [add("b")]])
    for part, path in enumerate(("a", "b"), start=1):
        key = f"{log_files.LOG_FOLDER}/{log_files.multi_part_checkpoint_name(1, part, 2)}"
        log.env.store.put(key, parquet_bytes([PROTOCOL, METADATA, Txn(app_id="q", version=4), add(path)]))
    for version in range(2):
        log.env.store.delete(commit_key(version))
    assert paths(log) == ["a", "b"]


@pytest.mark.parametrize("only", ["remove", "txn"])
def test_a_part_of_a_checkpoint_may_lack_the_column_of_files(only):
    """Protocol: "Any missing column should be treated as null"."""
    log = make_log(
        [[add("a"), add("b")], [Remove(path="b", deletion_timestamp_ms=1 << 50), Txn(app_id="q", version=4)]]
    )
    rest = [Remove(path="b", deletion_timestamp_ms=1 << 50), Txn(app_id="q", version=4)]
    out = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(parquet_bytes(rest))).select([only]), out)
    for part, content in enumerate((parquet_bytes([PROTOCOL, METADATA, add("a")]), out.getvalue()), start=1):
        log.env.store.put(f"{log_files.LOG_FOLDER}/{log_files.multi_part_checkpoint_name(1, part, 2)}", content)
    for version in range(2):
        log.env.store.delete(commit_key(version))
    assert paths(log) == ["a"]
    snapshot = load_snapshot(log)
    assert snapshot.txn_version("q") == (4 if only == "txn" else None)
    assert len(list(unexpired_tombstones(snapshot, 0))) == (only == "remove")


def test_a_checkpoint_with_a_strange_column_instead_of_that_of_files_is_broken():
    """A damaged footer must not be a table without files."""
    log = table_with_checkpoint()
    table = pq.read_table(io.BytesIO(parquet_bytes([PROTOCOL, METADATA, add("a")])))
    out = io.BytesIO()
    pq.write_table(table.rename_columns(["abd" if name == "add" else name for name in table.column_names]), out)
    log.env.store.put(CHECKPOINT, out.getvalue())
    assert paths(log) == ["b", "c"]


def test_parts_of_a_checkpoint_may_not_contradict_each_other():
    log = make_log([[add("a")], [add("b")]])
    for part, version in enumerate((4, 5), start=1):
        key = f"{log_files.LOG_FOLDER}/{log_files.multi_part_checkpoint_name(1, part, 2)}"
        log.env.store.put(
            key,
            parquet_bytes(
                [*([PROTOCOL, METADATA] if part == 1 else []), Txn(app_id="q", version=version), add(f"{part}")]
            ),
        )
    for version in range(2):
        log.env.store.delete(commit_key(version))
    with pytest.raises(CorruptCheckpointError):
        load_snapshot(log)
