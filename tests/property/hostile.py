"""Logs that somebody has damaged, or made to do harm: a corpus that our own writer writes, and mutations of its files.

Mutations come from a seeded `random.Random`, so that a seed is an example. Three kinds of damage are done: to bytes, to
the values in JSON (and in the JSON that is inside of JSON), and to the columns and values of Parquet.
"""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

import tahoe
from tahoe.errors import DeltaError, NotADeltaTableError, TableNotFoundError, VersionNotFoundError
from tahoe.protocol.log import log_files
from tahoe.protocol.log.log_files import LOG_FOLDER
from tahoe.storage.env import Env
from tahoe.table.commit.post_commit_hooks import compact_log
from tahoe.table.log import deletion_vectors
from tahoe.table.log.delta_log import Log
from tahoe.table.verify.check import check_table
from tests.table.builders import memory_env

Files: TypeAlias = Mapping[str, bytes]

# What a number, a text, a map or a list of a log is replaced by.
HOSTILE: Sequence[Any] = (
    None,
    True,
    -1,
    0,
    5,
    1.5,
    1e308,
    (1 << 31),
    (1 << 63) - 1,
    1 << 63,
    10**30,
    "",
    "..",
    "../../outside",
    "/etc/hostname",
    "file:///nowhere/x.parquet",
    "unknown://host/x",
    "http://[::1",
    "%00",
    "%FF",
    "a\0b",
    "\ud800",
    "x" * 5000,
    "99999999999999999999",
    "1e999999999",
    "NaN",
    "{",
    "[[[[",
    {},
    [],
    [None],
    [[]],
    {"": ""},
    {"type": "struct", "fields": [{"name": 5}]},
)

# Properties that mean something: what hides in them is met.
_PLAIN = {"delta.checkpointInterval": "100"}
_VECTORS = {
    **_PLAIN,
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
    "delta.columnMapping.mode": "name",
}
_V2 = {"delta.checkpointInterval": "3", "delta.checkpointPolicy": "v2", "delta.checkpoint.writeStatsAsStruct": "true"}


@dataclass(frozen=True, kw_only=True)
class Example:
    """A table as files; `rows` is what its commits give."""

    name: str
    files: Files
    rows: tuple[str, ...]

    @property
    def log(self) -> list[str]:
        """What may be damaged: the log, and the vectors that it names."""
        return sorted(key for key in self.files if key.startswith(LOG_FOLDER) or key.endswith(".bin"))

    def derived(self, key: str) -> bool:
        """Whether what a file says is said by the commits as well."""
        return key.startswith(LOG_FOLDER) and not re.fullmatch(rf"{LOG_FOLDER}/\d{{20}}\.json", key)


def rows_of(number: int) -> pa.Table:
    days = [None, date(2020, 1, number + 1)]
    return pa.table(
        {
            "id": pa.array(range(number * 10, number * 10 + 6), pa.int64()),
            "day": pa.array([days[n % 2] for n in range(6)], pa.date32()),
            "text": pa.array([f"text {n}" for n in range(6)]),
            "inner": pa.array(
                [{"x": n, "l": [n]} for n in range(6)], pa.struct([("x", pa.int32()), ("l", pa.list_(pa.int64()))])
            ),
        }
    )


def _written(
    name: str, properties: Mapping[str, str], finish: Callable[[tahoe.Table], object], *, deletes: bool = True
) -> Example:
    env = memory_env()
    table = tahoe.Table("memory://given", env=env)
    for number in range(6):
        table.append(rows_of(number), partition_by=["day"], properties=properties, txn=("app", number))
    with table.transaction() as change:
        change.set_domain("example", json.dumps({"a": 1})) if "Vectors" in str(properties) else change.set_properties(
            {"owner": "me"}
        )
    if deletes:
        with table.transaction() as change:
            change.delete("text = 'text 3'")
    finish(table)
    files = {info.key: env.store.get(info.key) for info in env.store.walk()}
    return Example(name=name, files=files, rows=read_rows(opened(commits_alone(files)))[1])


@lru_cache(maxsize=1)
def corpus() -> tuple[Example, ...]:
    inline, deletion_vectors.INLINE_BYTES_MAX = (
        deletion_vectors.INLINE_BYTES_MAX,
        0,
    )  # vectors of a few rows go to files as well
    try:
        stored = _written("stored vectors", _VECTORS, lambda table: table.create_checkpoint())
    finally:
        deletion_vectors.INLINE_BYTES_MAX = inline
    return (
        _written("commits and checksums", _PLAIN, lambda table: None),
        _written("checkpoint", {**_PLAIN, "delta.checkpointInterval": "4"}, lambda table: None),
        _written("compacted", _PLAIN, lambda table: compact_log(table.log, 1, 5)),
        _written("inline vectors", _VECTORS, lambda table: None),
        stored,
        _written("sidecars", _V2, lambda table: None),
    )


# --- reading all of it


def opened(files: Files) -> Env:
    env = memory_env()
    for key, data in files.items():
        env.store.put(key, data)
    return env


def commits_alone(files: Files) -> Files:
    return {key: data for key, data in files.items() if not Example(name="", files={}, rows=()).derived(key)}


Outcome: TypeAlias = tuple[str, tuple[str, ...]]


def read_rows(env: Env) -> Outcome:
    """What a reader gets: `("rows", rows)`, or `("error", class)`; nothing else may come."""
    try:
        table = tahoe.Table("memory://given", env=env)
        listed = table.files()
        rows = table.to_arrow()
        table.files("id > 20 AND day IS NOT NULL AND text < 'text 3'")
        table.to_arrow(filter="id > 20 AND day IS NOT NULL")
        assert listed.num_rows == len(table.snapshot().live)
    except DeltaError as error:
        return "error", (type(error).__name__,)
    return "rows", tuple(sorted(map(repr, rows.to_pylist())))


def look_around(env: Env) -> None:
    """What else reads a log: the history, earlier versions, and the check, which reports and does not raise."""
    table = tahoe.Table("memory://given", env=env)
    for ask in (
        lambda: list(table.history()),
        lambda: table.snapshot(2).files(),
        lambda: table.snapshot(timestamp="2030-01-01"),
    ):
        with suppress(DeltaError):
            ask()
    with suppress(NotADeltaTableError, TableNotFoundError, VersionNotFoundError):
        assert all(found.detail for found in check_table(Log(env)))


# --- damage


def damaged(data: bytes, key: str, chance: random.Random) -> bytes:
    """The content of a file with one mutation, or a few."""
    kinds: list[Callable[[bytes, random.Random], bytes]] = [_bytes]
    if key.endswith((".json", ".crc", "_last_checkpoint")):
        kinds = [_bytes, *[_lines] * 4]
    elif key.endswith(".parquet"):
        kinds = [_bytes, _columns, _columns]
    return chance.choice(kinds)(data, chance)


def _bytes(data: bytes, chance: random.Random) -> bytes:
    where = chance.randrange(len(data) + 1)
    end = min(len(data), where + chance.choice([1, 2, 8, 64]))
    return chance.choice(
        [
            lambda: data[:where],
            lambda: data[:where] + data[end:],
            lambda: data[:where] + chance.randbytes(end - where) + data[end:],
            lambda: data[:where] + data[where:end] * 3 + data[end:],
            lambda: data[:where] + b"\xff\xff\xff\x7f" + data[where + 4 :],
            lambda: re.sub(
                rb"\d+", lambda found: found[0] if chance.random() < 0.9 else b"9" * chance.choice([19, 25, 5000]), data
            ),
            lambda: b"",
            lambda: data[::-1],
        ]
    )()


def _lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines() or [b""]
    which = chance.randrange(len(lines))
    what = chance.random()
    if what < 0.1:
        lines.insert(which, lines[chance.randrange(len(lines))])
    elif what < 0.15:
        del lines[which]
    elif what < 0.2:
        lines[which] = b'{"add":' + chance.choice([b"[", b'{"a":']) * 100_000
    else:
        try:
            lines[which] = json.dumps(_value(json.loads(lines[which]), chance)).encode()
        except ValueError:
            lines[which] = b"{}"
    return b"\n".join(lines) + b"\n"


def _value(value: Any, chance: random.Random) -> Any:
    """The value with one change at some depth."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        name = chance.choice(list(value))
        what = chance.random()
        if what < 0.06:
            return {key: item for key, item in value.items() if key != name}
        if what < 0.1:
            return {(name + "x" if key == name else key): item for key, item in value.items()}
        return {key: (_value(item, chance) if key == name else item) for key, item in value.items()}
    if isinstance(value, list) and value and chance.random() < 0.9:
        at = chance.randrange(len(value))
        if chance.random() < 0.2:
            return [*value, value[at]]
        return [_value(item, chance) if n == at else item for n, item in enumerate(value)]
    if isinstance(value, str) and value[:1] in ("{", "[") and chance.random() < 0.8:
        try:
            return json.dumps(_value(json.loads(value), chance))
        except ValueError:
            pass
    if chance.random() < 0.03:
        return _deep(chance)
    return chance.choice(HOSTILE)


def _deep(chance: random.Random) -> Any:
    """Nested as deep as Python can write."""
    value: Any = chance.choice(["long", {"type": "struct", "fields": []}])
    for _ in range(chance.choice([50, 150, 250])):
        value = chance.choice(
            [
                [value],
                {"a": value},
                {"type": "array", "elementType": value, "containsNull": True},
                {"fields": [value], "type": "struct"},
            ]
        )
    return value


def _columns(data: bytes, chance: random.Random) -> bytes:
    """A Parquet file whose rows or columns are others, written well."""
    table = pq.read_table(io.BytesIO(data))
    rows = table.to_pylist()
    what = chance.random()
    try:
        if what < 0.3:
            table = table.drop_columns([chance.choice(table.column_names)])
        elif what < 0.4:
            name = chance.choice(table.column_names)
            table = table.rename_columns([n + "x" if n == name else n for n in table.column_names])
        elif what < 0.5:
            name = chance.choice(table.column_names)
            odd = chance.choice([pa.array([5] * len(rows)), pa.array(["x"] * len(rows)), pa.array([[1]] * len(rows))])
            table = table.set_column(table.column_names.index(name), name, odd)
        elif what < 0.6:
            table = pa.concat_tables([table, table.slice(chance.randrange(len(rows) or 1), 1)])
        else:
            at = chance.randrange(len(rows) or 1)
            rows = [_value(row, chance) if n == at else row for n, row in enumerate(rows)]
            table = pa.Table.from_pylist(rows, schema=table.schema if chance.random() < 0.6 else None)
    except Exception:  # what was made up cannot be written at all
        return data[: len(data) // 2]
    out = io.BytesIO()
    try:
        pq.write_table(table, out)
    except Exception:
        return b"PAR1"
    return out.getvalue()


# --- names


def renamed(key: str, chance: random.Random) -> str:
    """The name of a file of the log, with other numbers in it."""
    folder, _, name = key.rpartition("/")
    return chance.choice(
        [
            lambda: f"{folder}/{log_files.multi_part_checkpoint_name(chance.randrange(8), 1, 9_999_999_999)}",
            lambda: f"{folder}/{'9' * 20}.json",
            lambda: f"{folder}/{'9' * 20}.checkpoint.parquet",
            lambda: f"{folder}/{log_files.compacted_name(0, (1 << 63) - 1)}",
            lambda: f"{folder}/{log_files.compacted_name(3, 3)}",
            lambda: f"{folder}/{log_files.classic_checkpoint_name(chance.randrange(8))}",
            lambda: f"{folder}/{re.sub('[0-9]', lambda found: chance.choice('0123456789'), name)}",
        ]
    )()
