"""`check` finds what is wrong and nothing else: each test breaks one thing in a table that was right."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.errors import NotADeltaTableError, TableNotFoundError, VersionNotFoundError
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import (
    Action,
    Add,
    CommitInfo,
    DeletionVectorDescriptor,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Txn,
    encode_commit,
)
from tahoe.protocol.log.deletion_vector import encode_bitmap, encode_vector_file, inline_descriptor
from tahoe.protocol.log.last_checkpoint import LastCheckpoint, encode_last_checkpoint
from tahoe.protocol.log.replay import replay
from tahoe.storage.env import Env
from tahoe.storage.memory import MemoryStore, Operation
from tahoe.table.log.delta_log import Log
from tahoe.table.verify.check import Finding, Kind, Severity, check_table, check_version
from tests.golden.tables import FOLDER, path, require_folder
from tests.table.builders import METADATA, add, make_log, memory_env, parquet_bytes, put_commit, state_actions

DOMAIN = DomainMetadata(domain="d", configuration="1")
DOMAINS = Protocol(reader_version=1, writer_version=7, writer_features=frozenset({"domainMetadata"}))
ROWS = pa.table(
    {"id": [1, 2, 3, 4], "p": ["a", "b", "a", None], "v": [1.0, 2.0, None, 4.0], "s": ["x", "y", "z", None]}
)
VECTORS = Protocol(
    reader_version=3,
    writer_version=7,
    reader_features=frozenset({"deletionVectors"}),
    writer_features=frozenset({"deletionVectors"}),
)


@pytest.fixture
def env() -> Env:
    return memory_env()


@pytest.fixture
def table(env: Env) -> tahoe.Table:
    """Three versions of a partitioned table, right in every respect."""
    table = tahoe.Table("memory://given", env=env)
    for _ in range(3):
        table.append(ROWS, partition_by=["p"])
    return table


def kinds(found: Sequence[Finding]) -> list[Kind]:
    return [f.kind for f in found]


def checked(log: Log, version: int | None = None) -> list[Finding]:
    return list(check_table(log, version))


def only(log: Log) -> Finding:
    (found,) = checked(log)
    assert found.next_step
    assert found.detail
    return found


def rewrite(env: Env, version: int, change: Callable[[Action], Action | None]) -> None:
    """Change the actions of a commit, as no writer may."""
    actions = [changed for a in Log(env).read_version(version) if (changed := change(a)) is not None]
    env.store.put(log_files.commit_key(version), encode_commit(actions))


def change_adds(**fields: object) -> Callable[[Action], Action]:
    return lambda a: a.replace(**fields) if isinstance(a, Add) else a


def parquet(rows: int = 3) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(range(rows), pa.int64())}), out)
    return out.getvalue()


# --- nothing is wrong


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_what_we_write_is_right(env: Env, mode: str) -> None:
    """A false alarm would teach users not to look."""
    table = tahoe.Table("memory://given", env=env)
    for _ in range(2):
        table.append(ROWS, partition_by=["p"], properties={"delta.columnMapping.mode": mode})
    assert checked(table.log) == []
    assert list(check_version(table.snapshot(0))) == []


GOLDEN = {
    "checkpoint": [Kind.MISSING_DATA_FILE],
    "corrupted-last-checkpoint-kernel": [Kind.BROKEN_HINT],
    "data-reader-absolute-paths-escaped-chars": [Kind.UNREADABLE_TABLE],
    "deltalog-commit-info": [Kind.MISSING_DATA_FILE],
    "deltalog-invalid-protocol-version": [Kind.UNREADABLE_TABLE],
    "deltalog-state-reconstruction-from-checkpoint-missing-protocol": [Kind.BROKEN_CHECKPOINT, Kind.UNREADABLE_TABLE],
    "deltalog-state-reconstruction-without-metadata": [Kind.UNREADABLE_TABLE],
    "update-deleted-directory": [Kind.MISSING_DATA_FILE] * 10,
    "versions-not-contiguous": [Kind.MISSING_VERSIONS, Kind.UNREADABLE_TABLE],
}


@pytest.mark.golden
def test_of_the_tables_of_other_writers_only_those_known_to_be_wrong_are_found() -> None:
    require_folder()
    names = sorted(p.parent.name for p in FOLDER.glob("*/delta"))
    found = {name: kinds(checked(tahoe.Table(path(name)).log)) for name in names}
    assert {name: wrong for name, wrong in found.items() if wrong} == GOLDEN


def test_where_there_is_nothing_to_check_it_says_so(table: tahoe.Table) -> None:
    with pytest.raises(VersionNotFoundError):
        checked(table.log, 99)
    empty = memory_env()
    with pytest.raises(TableNotFoundError):
        checked(Log(empty))
    empty.store.put("a.csv", b"1")
    with pytest.raises(NotADeltaTableError):
        checked(Log(empty))


# --- data files


def some_file(table: tahoe.Table) -> str:
    found: str = table.files().column("path")[0].as_py()
    return found


def test_a_missing_file_is_found(env: Env, table: tahoe.Table) -> None:
    gone = some_file(table)
    env.store.delete(gone)
    found = only(table.log)
    assert (found.kind, found.severity, found.file, found.version) == (Kind.MISSING_DATA_FILE, Severity.ERROR, gone, 2)


def test_a_file_that_a_later_version_removed_is_not_missed(env: Env, table: tahoe.Table) -> None:
    """VACUUM may have deleted it; only the version that has it needs it."""
    gone = next(a.path for a in table.log.read_version(2) if isinstance(a, Add))
    put_commit(env, 3, [Remove(path=gone, deletion_timestamp_ms=1)])
    env.store.delete(gone)
    assert checked(table.log) == []
    assert kinds(checked(table.log, 2)) == [Kind.MISSING_DATA_FILE]


def test_a_file_of_another_size_is_found(env: Env, table: tahoe.Table) -> None:
    rewrite(env, 1, change_adds(size_bytes=7))
    found = checked(table.log)
    assert set(kinds(found)) == {Kind.WRONG_SIZE, Kind.WRONG_CHECKSUM_FILE}
    assert any("7 bytes" in finding.detail for finding in found)


def test_a_file_that_is_no_parquet_is_found(env: Env, table: tahoe.Table) -> None:
    broken = some_file(table)
    size = env.store.head(broken)
    assert size is not None
    env.store.put(broken, b"x" * size.size_bytes)
    assert only(table.log).kind is Kind.UNREADABLE_DATA_FILE


@pytest.mark.parametrize("outside", ["memory://elsewhere/x.parquet", "/elsewhere/x.parquet"])
def test_files_outside_the_table_are_looked_for_where_they_are(env: Env, outside: str) -> None:
    log = make_log([[add(outside, size_bytes=len(parquet()))]], env)
    assert only(log).kind is Kind.MISSING_DATA_FILE
    store, key = log.locate(
        log.url.split("/")[0] + "//" + (outside.partition("//")[2] or log.url.partition("//")[2] + outside)
    )
    store.put(key, parquet())
    assert checked(log) == []


def test_a_path_that_leads_out_of_the_table_is_found_and_the_others_are_still_checked(
    env: Env, table: tahoe.Table
) -> None:
    put_commit(
        env,
        3,
        [add("../other/x.parquet", partition_values={"p": "a"}), add("p=a/gone.parquet", partition_values={"p": "a"})],
    )
    assert kinds(checked(table.log)) == [Kind.ILLEGAL_PATH, Kind.MISSING_DATA_FILE]


def test_a_partition_value_that_is_none_is_found(env: Env) -> None:
    schema = '{"type":"struct","fields":[{"name":"id","type":"long"},{"name":"d","type":"date"}]}'
    metadata = Metadata(id="t", schema_string=schema, partition_columns=("d",))
    put_commit(env, 0, [Protocol(reader_version=1, writer_version=2), metadata])
    put_commit(env, 1, [add("x", size_bytes=len(parquet()), partition_values={"d": "yesterday"})])
    env.store.put("x", parquet())
    found = only(Log(env))
    assert found.kind is Kind.WRONG_PARTITION_VALUE
    assert "yesterday" in found.detail


# --- statistics


@pytest.mark.parametrize(
    ("stats", "says"),
    [
        ('{"numRecords":4}', "4 rows"),
        ('{"numRecords":3,"minValues":{"id":1}}', "at least 1"),
        ('{"numRecords":3,"maxValues":{"id":1}}', "at most 1"),
        ('{"numRecords":3,"nullCount":{"id":3}}', "3 nulls"),
        ("{", "not a JSON"),
        ('{"numRecords":-1}', "-1 rows"),
        ('{"numRecords":3,"nullCount":{"id":4}}', "4 nulls in id, but only 3 rows"),
        ('{"numRecords":3,"nullCount":{"id":-4}}', "-4 nulls in id"),
        ('{"numRecords":3,"minValues":{"id":1e400}}', "is not a value of id, whose type is long"),
        ('{"numRecords":3,"minValues":{"id":9223372036854775808}}', "is not a value of id"),
        ('{"numRecords":3,"minValues":{"id":"a"}}', "a in minValues is not a value of id"),
        ('{"numRecords":3,"minValues":{"id":0.5}}', "is not a value of id"),
        ('{"numRecords":3,"minValues":{"id":2},"maxValues":{"id":0}}', "at least 2 and at most 0"),
    ],
)
def test_statistics_that_would_skip_rows_are_found(env: Env, stats: str, says: str) -> None:
    log = make_log([[add("x", size_bytes=len(parquet()), stats=stats)]], env)
    env.store.put("x", parquet())
    found = only(log)
    assert found.kind is Kind.WRONG_STATISTICS
    assert says in found.detail


@pytest.mark.parametrize(
    "stats",
    [
        None,
        "{}",
        '{"numRecords":3,"minValues":{"id":0},"maxValues":{"id":2},"nullCount":{"id":0}}',
        '{"numRecords":3,"minValues":{"id":-5},"maxValues":{"id":99},"tightBounds":false}',
        '{"numRecords":3,"maxValues":{"other":1}}',
    ],
)
def test_statistics_that_are_wide_or_absent_are_right(env: Env, stats: str | None) -> None:
    log = make_log([[add("x", size_bytes=len(parquet()), stats=stats)]], env)
    env.store.put("x", parquet())
    assert checked(log) == []


LONG_TEXT = "x" * 80
VARIED = pa.table(
    {
        "id": pa.array([5, 6, 7], pa.int64()),
        "d": pa.array([1.5, -0.0, None], pa.float64()),
        "s": [LONG_TEXT + "b", LONG_TEXT + "c", "a"],
        "day": pa.array([10, 11, 12], pa.date32()),
        "inner": [{"n": 1}, {"n": 2}, None],
        "at": pa.array([1_001, 2_002, 3_003], pa.timestamp("us", "UTC")),
        "price": pa.array([None, 100, 250], pa.decimal128(20, 2)),
        "rate": pa.array([1, 2, None], pa.decimal128(5, 2)),
        "name": ["y", None, "z"],
    }
)


def varied(env: Env) -> tahoe.Table:
    table = tahoe.Table("memory://given", env=env)
    table.append(VARIED)
    return table


def test_the_statistics_that_we_write_are_right(env: Env) -> None:
    table = varied(env)
    table.append(pa.table({"id": pa.array([8], pa.int64()), "d": [float("nan")]}))
    with table.transaction() as changes:
        changes.delete("id = 6")
    assert list(check_table(table.log, statistics=True)) == []


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        (("minValues", "id"), 4, "the least id is 4, but in the file it is 5"),
        (("maxValues", "id"), 8, "the greatest id is 8, but in the file it is 7"),
        (("minValues", "day"), "1970-01-10", "the least day is 1970-01-10"),
        (("nullCount", "d"), 2, "2 nulls in d, but the file has 1"),
        (("nullCount", "inner", "n"), 0, "0 nulls in inner.n"),
        (("minValues", "inner", "n"), 2, "inner.n is at least 2"),
        (("maxValues", "d"), 1.25, "d is at most 1.25"),
        (("maxValues", "s"), LONG_TEXT + "b", "s is at most"),
        (("maxValues", "price"), 2, "price is at least 100.00 and at most 2"),
        (("minValues", "at"), "1970-01-01T00:00:00.009Z", "at is at least"),
        # a limit would rely on these: the first rows in an order
        (("minValues", "at"), "1970-01-01T00:00:00.000Z", "the least at is 1970-01-01 00:00:00+00:00"),
        (("maxValues", "at"), "1970-01-01T00:00:00.004Z", "the greatest at is 1970-01-01 00:00:00.004000+00:00"),
        (("minValues", "d"), -1.5, "the least d is -1.5, but in the file it is -0.0"),
        (("minValues", "s"), "Z", "the least s is Z, but in the file it is a"),
        (("minValues", "name"), LONG_TEXT[:16], f"the least name is {LONG_TEXT[:16]}, but in the file it is y"),
        (("minValues", "rate"), 0.5, "the least rate is 0.5"),
        (("maxValues", "rate"), 2.75, "the greatest rate is 2.75"),
    ],
)
def test_only_the_rows_tell_that_a_statistic_is_wrong(
    env: Env, field: tuple[str, ...], value: object, says: str
) -> None:
    table = varied(env)
    (entry,) = (a for a in table.log.read_version(0) if isinstance(a, Add))
    stats = json.loads(entry.stats or "")
    place = stats
    for name in field[:-1]:
        place = place[name]
    place[field[-1]] = value
    rewrite(env, 0, change_adds(stats=json.dumps(stats)))
    (found,) = check_table(Log(env), statistics=True)
    assert (found.kind, says in found.detail) == (Kind.WRONG_STATISTICS, True), found.detail
    report = tahoe.Table("memory://given", env=env).repair(verify_statistics=True)
    assert (len(report.repairs), report.left) == (1, ())
    assert list(check_table(Log(env), statistics=True)) == []


ROUNDED = {
    "minValues": {"at": "1970-01-01T00:00:00.001Z", "rate": 1.0, "d": 0.0},
    "maxValues": {"at": "1970-01-01T00:00:00.003Z", "d": 9.5},
}


@pytest.mark.parametrize(
    "wide",
    [{"tightBounds": False}, {"minValues": {}}, {"maxValues": {"s": "y"}, "minValues": {"price": -3}}, ROUNDED],
    ids=str,
)
def test_wide_statistics_are_right(env: Env, wide: dict[str, object]) -> None:
    table = varied(env)
    (entry,) = (a for a in table.log.read_version(0) if isinstance(a, Add))
    stats = json.loads(entry.stats or "") | {"minValues": {"id": 5}, "nullCount": {"id": 0}} | wide
    rewrite(env, 0, change_adds(stats=json.dumps(stats)))
    assert list(check_table(Log(env), statistics=True)) == []


def test_a_column_of_nulls_under_a_vector_is_right(env: Env) -> None:
    table = tahoe.Table("memory://given", env=env)
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "n": pa.array([None] * 3, pa.int64())})
    table.append(rows, properties={"delta.enableDeletionVectors": "true"})
    with table.transaction() as changes:
        changes.delete("id = 1")
    assert checked(table.log) == []
    assert list(check_table(table.log, statistics=True)) == []


# --- deletion vectors


def vector_log(env: Env, vector: DeletionVectorDescriptor) -> Log:
    put_commit(
        env,
        0,
        [VECTORS, METADATA, add("x", size_bytes=len(parquet()), deletion_vector=vector, stats='{"numRecords":3}')],
    )
    env.store.put("x", parquet())
    return Log(env)


def test_a_good_vector_is_right(env: Env) -> None:
    assert checked(vector_log(env, inline_descriptor([0, 2]))) == []


def stored(**fields: object) -> DeletionVectorDescriptor:
    usual = {
        "storage_type": "p",
        "path_or_inline": "memory://vectors/v.bin",
        "offset": 1,
        "size_bytes": 9,
        "cardinality": 1,
    }
    return DeletionVectorDescriptor(**{**usual, **fields})


@pytest.mark.parametrize(
    ("vector", "says"),
    [
        (inline_descriptor([0, 2]).replace(cardinality=5), "its cardinality is 5 in the log"),
        (inline_descriptor([0, 3]), "row 3"),
        (stored(path_or_inline="memory://no-vectors/v.bin"), "does not exist"),
        (stored(storage_type="i", path_or_inline="~~~~~"), "decoded"),
        (stored(storage_type="?"), "storage type"),
    ],
)
def test_a_vector_that_is_not_what_the_log_says_is_found(env: Env, vector: DeletionVectorDescriptor, says: str) -> None:
    found = only(vector_log(env, vector))
    assert found.kind is Kind.BAD_DELETION_VECTOR
    assert says in found.detail


def test_a_damaged_vector_file_is_found(env: Env) -> None:
    """The checksum stands between a flipped bit and rows that come back from the dead."""
    bitmap = encode_bitmap([1])
    data, (offset,) = encode_vector_file([bitmap])
    log = vector_log(env, stored(offset=offset, size_bytes=len(bitmap)))
    env.store_at("memory://vectors").put("v.bin", data)
    assert checked(log) == []
    env.store_at("memory://vectors").put("v.bin", data[:-1] + bytes([data[-1] ^ 1]))
    assert "checksum" in only(log).detail


def test_a_file_that_is_live_twice_is_found(env: Env) -> None:
    """Each of the two would be read, and the rows counted twice."""
    log = vector_log(env, inline_descriptor([0]))
    put_commit(env, 1, [add("x", size_bytes=len(parquet()))])
    assert [(f.kind, f.file) for f in checked(log)] == [
        (Kind.DUPLICATE_FILE, log_files.commit_name(1)),
        (Kind.DUPLICATE_FILE, "x"),
    ]


@pytest.mark.parametrize(
    ("ids", "mark", "wrong"),
    [([0, 4], 7, []), ([0, None], 7, [1]), ([0, 3], 7, [0]), ([4, 0], 6, [0]), ([0, 4], 3, [1])],
)
def test_row_ids_that_are_missing_or_given_twice_are_found(
    env: Env, ids: list[int | None], mark: int, wrong: list[int]
) -> None:
    """A row could not be told from another."""
    table = tahoe.Table("memory://given", env=env)
    for _ in range(2):
        table.append(ROWS, properties={"delta.enableRowTracking": "true"})
    files = sorted(table.snapshot().live.adds(), key=lambda a: a.base_row_id or 0)
    again = [a.replace(base_row_id=number, data_change=False) for a, number in zip(files, ids, strict=True)]
    put_commit(
        env,
        2,
        [
            CommitInfo({}),
            DomainMetadata(domain="delta.rowTracking", configuration=f'{{"rowIdHighWaterMark":{mark}}}'),
            *again,
        ],
    )
    found = [
        f for f in check_version(table.snapshot()) if f.kind is not Kind.ILLEGAL_LOG_FILE
    ]  # which says what the commit did
    assert [(f.kind, f.file) for f in found] == [(Kind.WRONG_ROW_IDS, files[number].path) for number in wrong]


def test_a_table_that_tracks_rows_may_have_none(env: Env) -> None:
    """The check fails where the last row has been deleted."""
    table = tahoe.Table("memory://emptied", env=env)
    table.append(ROWS, properties={"delta.enableRowTracking": "true"})
    with table.transaction() as changes:
        changes.remove(table.files()["path"].to_pylist())
    assert list(check_version(table.snapshot())) == []


# --- leftovers


def test_temporary_files_are_found_when_they_are_old(env: Env, table: tahoe.Table) -> None:
    """A young one belongs to a writer that is still at work."""
    for key in ("_delta_log/.0.json.tmp", "p=a/.x.tmp", "_temporary/0/part-0.parquet"):
        env.store.put(key, b"x")
    assert checked(table.log) == []
    for _ in range(3601):
        now = env.clock_ms()  # moves one second a look
    later = dataclasses.replace(env, clock_ms=lambda: now)
    found = checked(Log(later))
    assert kinds(found) == [Kind.ORPHAN_TEMPORARY_FILE] * 3
    assert {f.severity for f in found} == {Severity.WARNING}


# --- the log


def test_a_missing_commit_is_an_error_unless_a_checkpoint_covers_it(env: Env, table: tahoe.Table) -> None:
    put_checkpoint(env, 2)
    env.store.delete(log_files.commit_key(1))
    found = only(table.log)
    assert (found.kind, found.severity, found.version) == (Kind.MISSING_VERSIONS, Severity.WARNING, 1)
    env.store.delete(f"_delta_log/{log_files.classic_checkpoint_name(2)}")
    assert [(f.kind, f.severity) for f in checked(table.log)] == [
        (Kind.MISSING_VERSIONS, Severity.ERROR),
        (Kind.UNREADABLE_TABLE, Severity.ERROR),
    ]


def test_every_illegal_commit_is_found_and_not_only_the_first(env: Env, table: tahoe.Table) -> None:
    env.store.put(log_files.commit_key(1), b'{"add":\n')
    put_commit(env, 3, [METADATA, METADATA])
    found = checked(table.log)
    assert [(f.kind, f.version) for f in found[:2]] == [(Kind.ILLEGAL_LOG_FILE, 1), (Kind.ILLEGAL_LOG_FILE, 3)]
    assert found[0].detail.startswith("line 1")
    assert found[-1].kind is Kind.UNREADABLE_TABLE


@pytest.mark.parametrize(("times", "wrong"), [([5, 6, 7], []), ([5, 5, 7], [1]), ([5, None, 7], [1]), ([9, 6, 7], [1])])
def test_in_commit_timestamps_must_rise(env: Env, times: list[int | None], wrong: list[int]) -> None:
    """Time travel looks for a version by halving, which goes astray where times do not rise."""
    features = frozenset({"inCommitTimestamp"})
    protocol = Protocol(reader_version=1, writer_version=7, writer_features=features)
    metadata = METADATA.replace(configuration={"delta.enableInCommitTimestamps": "true"})
    for version, time in enumerate(times):
        info = CommitInfo({} if time is None else {"inCommitTimestamp": time})
        put_commit(env, version, [info, *([protocol, metadata] if version == 0 else [])])
    found = checked(Log(env))
    assert [f.version for f in found] == wrong
    assert all(f.kind is Kind.ILLEGAL_LOG_FILE for f in found)


NOWHERE = encode_last_checkpoint(LastCheckpoint(version=1, size=9))


@pytest.mark.parametrize("hint", [b"{", b'{"version":2,"size":9,"checksum":"0"}', NOWHERE])
def test_a_hint_that_leads_nowhere_is_a_warning(env: Env, table: tahoe.Table, hint: bytes) -> None:
    put_checkpoint(env, 2)
    env.store.put(log_files.LAST_CHECKPOINT, hint)
    found = only(table.log)
    assert (found.kind, found.severity) == (Kind.BROKEN_HINT, Severity.WARNING)


@pytest.mark.parametrize(
    ("body", "right"),
    [
        (b"{}", True),
        (b'{"numFiles":9}', True),
        (b'{"numFiles":8}', False),
        (b'{"tableSizeBytes":1}', False),
        (b'{"numFil', False),
        (b"[]", False),
    ],
)
def test_a_checksum_file_that_counts_otherwise_is_a_warning(
    env: Env, table: tahoe.Table, body: bytes, right: bool
) -> None:
    env.store.put(f"_delta_log/{log_files.checksum_name(2)}", body)
    assert kinds(checked(table.log)) == ([] if right else [Kind.WRONG_CHECKSUM_FILE])


# --- checkpoints


def put_checkpoint(
    env: Env, version: int, change: Callable[[list[Action]], list[Action]] = lambda actions: actions
) -> None:
    log = Log(env)
    state = replay([log.read_version(v) for v in range(version + 1)], log.canonical)
    name = log_files.classic_checkpoint_name(version)
    env.store.put(f"_delta_log/{name}", parquet_bytes(change(state_actions(state))))


def without_last_add(actions: list[Action]) -> list[Action]:
    last = max(i for i, a in enumerate(actions) if isinstance(a, Add))
    return actions[:last] + actions[last + 1 :]


def changed(kind: type[Action], **fields: object) -> Callable[[list[Action]], list[Action]]:
    return lambda actions: [a.replace(**fields) if isinstance(a, kind) else a for a in actions]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda actions: actions, None),
        (lambda actions: [a for a in actions if not isinstance(a, Txn)], "lacks the transaction identifiers of old"),
        (changed(Add, stats=None, tags={"a": "b"}), None),
        (without_last_add, "lacks p="),
        (lambda actions: [*actions, add("extra", partition_values={"p": None})], "not live, extra"),
        (changed(Add, size_bytes=1), "size, partition or row ids"),
        (changed(Add, partition_values={"p": "z"}), "size, partition or row ids"),
        (changed(Protocol, writer_version=5), "protocol"),
        (changed(Metadata, configuration={"delta.appendOnly": "true"}), "metaData"),
        (lambda actions: [*actions, Txn(app_id="app", version=7)], "application app"),
    ],
)
def test_a_checkpoint_that_says_otherwise_than_the_commits_is_found(
    env: Env, table: tahoe.Table, change: Callable[[list[Action]], list[Action]], says: str | None
) -> None:
    """Readers start at the checkpoint: what it lacks is lost, what it has too much is back. What it may leave out is no
    fault.
    """
    put_commit(env, 3, [Txn(app_id="old", version=1)])
    put_checkpoint(env, 3, change)
    wrong = [f for f in checked(table.log) if f.kind is Kind.WRONG_CHECKPOINT]
    if says is None:
        assert checked(table.log) == []
    else:
        assert any(says in f.detail for f in wrong)
        assert {(f.version, f.file) for f in wrong} == {(3, log_files.classic_checkpoint_name(3))}


def test_a_second_checkpoint_is_compared_with_the_first_where_the_commits_before_are_gone(
    env: Env, table: tahoe.Table
) -> None:
    put_checkpoint(env, 1)
    put_checkpoint(env, 2, without_last_add)
    for version in (0, 1):
        env.store.delete(log_files.commit_key(version))
    assert Kind.WRONG_CHECKPOINT in kinds(checked(table.log))
    env.store.put(f"_delta_log/{log_files.classic_checkpoint_name(2)}", b"PAR1 no")
    assert kinds(checked(table.log)) == [Kind.BROKEN_CHECKPOINT]


def test_a_checkpoint_with_vectors_is_compared_with_them(env: Env) -> None:
    log = vector_log(env, inline_descriptor([0]))
    put_checkpoint(env, 0)
    assert checked(log) == []
    put_checkpoint(env, 0, changed(Add, deletion_vector=inline_descriptor([1])))
    assert kinds(checked(log)) == [Kind.WRONG_CHECKPOINT, Kind.WRONG_CHECKPOINT]


def test_a_broken_checkpoint_is_an_error_though_readers_pass_over_it(env: Env, table: tahoe.Table) -> None:
    env.store.put(f"_delta_log/{log_files.classic_checkpoint_name(1)}", b"PAR1 no")
    found = only(table.log)
    assert (found.kind, found.severity, found.version) == (Kind.BROKEN_CHECKPOINT, Severity.ERROR, 1)


def test_a_checkpoint_that_has_lost_a_part_is_a_warning(env: Env, table: tahoe.Table) -> None:
    env.store.put(f"_delta_log/{log_files.multi_part_checkpoint_name(1, 1, 2)}", b"")
    assert only(table.log).kind is Kind.INCOMPLETE_CHECKPOINT


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize(
    "wrong",
    [[add("c")], [Remove(path="c"), DOMAIN], [Remove(path="a"), Remove(path="c")]],
    ids=["files", "a remove", "a domain"],
)
def test_a_compacted_file_must_do_what_its_commits_do(env: Env, right: bool, wrong: list[Action]) -> None:
    size = len(parquet())
    commits = [
        [add("a", size_bytes=size), add("b", size_bytes=size)],
        [Remove(path="a"), add("c", size_bytes=size)],
        [Remove(path="c"), DOMAIN],
    ]
    for version, actions in enumerate(commits):
        put_commit(env, version, [*([DOMAINS, METADATA] if version == 0 else []), *actions])
    log = Log(env)
    env.store.put("b", parquet())
    compacted = [Remove(path="a"), Remove(path="c"), DOMAIN] if right else wrong
    env.store.put(f"_delta_log/{log_files.compacted_name(1, 2)}", encode_commit(compacted))
    found = [f for f in checked(log) if f.kind is Kind.WRONG_COMPACTED_LOG]
    assert bool(found) is not right
    assert checked(log) == [] or not right


# --- the way it is done


def test_findings_come_while_the_rest_is_still_to_be_read(env: Env) -> None:
    """A table of a million files is checked for an hour: its first fault must not wait for the last file."""
    files = 400
    log = make_log([[add(f"f{n:04d}", size_bytes=len(parquet())) for n in range(files)]], env)
    for n in range(files):
        if n != 1:
            env.store.put(f"f{n:04d}", parquet())
    assert next(check_table(log)).file == "f0001"
    assert isinstance(env.store, MemoryStore)
    assert env.store.calls[Operation.OPEN] < files // 2


def test_the_folder_is_listed_once_and_no_file_is_asked_for_alone(env: Env, table: tahoe.Table) -> None:
    assert isinstance(env.store, MemoryStore)
    env.store.calls.clear()
    assert checked(table.log) == []
    assert env.store.calls[Operation.WALK] == 1
    assert env.store.calls[Operation.HEAD] == 0
