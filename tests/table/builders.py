"""Building logs in tests: commits through our own encoder, checkpoints as other writers make them."""

from __future__ import annotations

import datetime as dt
import io
import itertools
from collections.abc import Iterable, Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq

from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import Action, Add, Metadata, Protocol, action_to_json, encode_commit
from tahoe.protocol.log.replay import State
from tahoe.protocol.types.schema import LONG, Field, Struct
from tahoe.storage.env import Env
from tahoe.storage.memory import FaultPlan, MemoryStore
from tahoe.table.log.delta_log import Log
from tahoe.table.log.file_parts import DELETION_VECTOR

SCHEMA = Struct((Field(name="id", type=LONG),))
PROTOCOL = Protocol(reader_version=1, writer_version=2)
METADATA = Metadata(id="test", schema_string=SCHEMA.to_json())

_names = itertools.count()


def memory_env(start_ms: int = 1_700_000_000_000, faults: FaultPlan | None = None) -> Env:
    """A table of its own in memory, with a clock that moves one second a look and ids that count."""
    clock, ids = itertools.count(start_ms, 1000), itertools.count()
    stores: dict[str, MemoryStore] = {}

    def store_at(url: str) -> MemoryStore:
        return stores.setdefault(url, MemoryStore(url, clock_ms=lambda: next(clock)))

    return Env(
        store=MemoryStore(f"memory://test-{next(_names)}", faults, clock_ms=lambda: next(clock)),
        clock_ms=lambda: next(clock),
        new_id=lambda: f"00000000-0000-4000-8000-{next(ids):012d}",
        sleep=lambda seconds: None,
        random=lambda: 0.5,
        store_at=store_at,
        background=lambda work: work(),
    )


def add(path: str, **fields: object) -> Add:
    return Add(**{"path": path, "size_bytes": 1, "modification_time_ms": 1, **fields})


def put_commit(env: Env, version: int, actions: Iterable[Action]) -> None:
    assert env.store.put_if_absent(log_files.commit_key(version), encode_commit(actions))


def make_log(commits: Sequence[Sequence[Action]], env: Env | None = None) -> Log:
    """A log of these commits; protocol and metadata are put before the first."""
    env = env or memory_env()
    for version, actions in enumerate(commits):
        put_commit(env, version, [PROTOCOL, METADATA, *actions] if version == 0 else actions)
    return Log(env)


# --- checkpoints

_TEXT_MAP = pa.map_(pa.string(), pa.string())
CHECKPOINT_SCHEMA = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        (
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", _TEXT_MAP),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                    ("tags", _TEXT_MAP),
                    ("deletionVector", DELETION_VECTOR),
                    ("baseRowId", pa.int64()),
                    ("defaultRowCommitVersion", pa.int64()),
                ]
            ),
        ),
        (
            "remove",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("deletionTimestamp", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("deletionVector", DELETION_VECTOR),
                ]
            ),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _TEXT_MAP)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", _TEXT_MAP),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", pa.list_(pa.string())),
                    ("writerFeatures", pa.list_(pa.string())),
                ]
            ),
        ),
        (
            "domainMetadata",
            pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
        ),
        ("checkpointMetadata", pa.struct([("version", pa.int64()), ("tags", _TEXT_MAP)])),
        ("sidecar", pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())])),
    ]
)


def parquet_bytes(actions: Iterable[Action]) -> bytes:
    rows = [_row(action_to_json(action)) for action in actions]
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=CHECKPOINT_SCHEMA), out)
    return out.getvalue()


def _row(action: dict[str, dict[str, object]]) -> dict[str, object]:
    return {name: {key: _cell(key, value) for key, value in body.items()} for name, body in action.items()}


def _cell(key: str, value: object) -> object:
    """Arrow wants maps as lists of pairs."""
    if isinstance(value, dict) and key in ("partitionValues", "tags", "configuration", "options"):
        return list(value.items())
    return {k: _cell(k, v) for k, v in value.items()} if isinstance(value, dict) else value


def state_actions(state: State) -> list[Action]:
    """What a checkpoint of the state holds."""
    assert state.protocol is not None
    assert state.metadata is not None
    return [
        state.protocol,
        state.metadata,
        *state.txns.values(),
        *state.domains.values(),
        *state.adds.values(),
        *state.removes.values(),
    ]


UTC = dt.UTC

MOMENT, LONG_AGO = dt.datetime(2026, 1, 31, 1, 2, 3, 456789), dt.datetime(1969, 1, 1)

NESTED = pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))])

EVERY_TYPE = pa.table(
    {
        "s": ["a", None, "ü"],
        "l": pa.array([1, None, -(2**63)], pa.int64()),
        "i": pa.array([1, None, 3], pa.int32()),
        "h": pa.array([1, None, 3], pa.int16()),
        "b": pa.array([1, None, 3], pa.int8()),
        "f": pa.array([1.5, None, float("nan")], pa.float32()),
        "d": pa.array([1.5, None, float("inf")], pa.float64()),
        "dec": pa.array([Decimal("1.25"), None, Decimal("-9999999.99")], pa.decimal128(9, 2)),
        "bool": [True, None, False],
        "bin": pa.array([b"\x00\xff", None, b""], pa.binary()),
        "day": pa.array([dt.date(2026, 1, 31), None, dt.date(1, 1, 1)], pa.date32()),
        "ts": pa.array([MOMENT.replace(tzinfo=UTC), None, LONG_AGO.replace(tzinfo=UTC)], pa.timestamp("us", "UTC")),
        "ntz": pa.array([MOMENT, None, LONG_AGO], pa.timestamp("us")),
        "st": pa.array([{"x": 1, "y": {"z": "q"}}, None, {"x": None, "y": None}], NESTED),
        "arr": pa.array([[1, None], None, []], pa.list_(pa.int64())),
        "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "deep": pa.array([[{"x": [1]}], None, [None]], pa.list_(pa.struct([("x", pa.list_(pa.int32()))]))),
    }
)

ROWS = pa.table({"id": [1, 2, 3, 4], "p": ["a", "b", "a", None], "v": [1.0, 2.0, None, 4.0]})
