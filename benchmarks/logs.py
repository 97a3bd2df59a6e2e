"""Tables whose logs are generated without a writer: many files, as after years of daily loads."""

from __future__ import annotations

import datetime
import json
import random
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

CHUNK_FILES = 100_000
FIRST_DAY = datetime.date(1992, 1, 2)
DAYS = 2526

_SCHEMA = {
    "l_orderkey": "long",
    "l_partkey": "long",
    "l_quantity": "decimal(15,2)",
    "l_extendedprice": "decimal(15,2)",
    "l_receiptdate": "date",
    "l_comment": "string",
    "l_shipdate": "date",
}
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", pa.map_(pa.string(), pa.string())),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("tags", pa.map_(pa.string(), pa.string())),
        ("stats", pa.string()),
    ]
)
_PROTOCOL = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
_METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", pa.map_(pa.string(), pa.string()))])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", pa.map_(pa.string(), pa.string())),
        ("createdTime", pa.int64()),
    ]
)
_CHECKPOINT = pa.schema([("protocol", _PROTOCOL), ("metaData", _METADATA), ("add", _ADD)])


def metadata_action(fields: dict[str, str], partition_columns: list[str]) -> dict[str, object]:
    """A `metaData` action for a schema of nullable columns."""
    columns = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    return {
        "id": str(uuid.UUID(int=1)),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": columns}),
        "partitionColumns": partition_columns,
        "configuration": {},
        "createdTime": 1_700_000_000_000,
    }


def write_checkpointed_table(folder: Path, files: int, version: int = 10) -> None:
    """A log with one classic checkpoint that names `files` files, and the commit of that version. The files do not exist."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    name = f"{version:020}"
    metadata = metadata_action(_SCHEMA, ["l_shipdate"])
    with pq.ParquetWriter(log / f"{name}.checkpoint.parquet", _CHECKPOINT, compression="snappy") as writer:
        head = [
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {"metaData": {key: list(value.items()) if key == "configuration" else value for key, value in metadata.items()}},
        ]
        head[1]["metaData"]["format"] = {"provider": "parquet", "options": []}
        writer.write_table(pa.Table.from_pylist(head, _CHECKPOINT))
        for adds in _adds(files):
            nulls = [pa.nulls(len(adds), field.type) for field in (_CHECKPOINT.field("protocol"), _CHECKPOINT.field("metaData"))]
            writer.write_table(pa.Table.from_arrays([*nulls, adds], schema=_CHECKPOINT))
    (log / f"{name}.json").write_text(json.dumps({"commitInfo": {"timestamp": 1_700_000_000_000, "operation": "WRITE"}}) + "\n")
    size_bytes = (log / f"{name}.checkpoint.parquet").stat().st_size
    (log / "_last_checkpoint").write_text(json.dumps({"version": version, "size": files + 2, "sizeInBytes": size_bytes}))


def write_commits(folder: Path, commits: int) -> None:
    """A log of `commits` commits without a checkpoint; each adds one file, of new data. The files do not exist."""
    (folder / "_delta_log").mkdir(parents=True)
    head = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata_action(_SCHEMA, ["l_shipdate"])}]
    for version in range(commits):
        add_commit(folder, version, head if version == 0 else [], of=commits)


def add_commit(folder: Path, version: int, head: list[dict[str, object]] | None = None, of: int = 1_000_000) -> None:
    """A commit that adds one file. The file does not exist."""
    add = _add(version, of, random.Random(version))
    add |= {"partitionValues": dict(add["partitionValues"]), "dataChange": True}  # type: ignore[call-overload]
    info = {"commitInfo": {"timestamp": 1_700_000_000_000 + version, "operation": "WRITE"}}
    lines = [json.dumps(action) for action in (info, *(head or []), {"add": add})]
    (folder / "_delta_log" / f"{version:020}.json").write_text("\n".join(lines) + "\n")


def _adds(files: int) -> Iterator[pa.Array]:
    chance = random.Random(1)
    for start in range(0, files, CHUNK_FILES):
        rows = [_add(number, files, chance) for number in range(start, min(start + CHUNK_FILES, files))]
        yield pa.array(rows, _ADD)


def _add(number: int, files: int, chance: random.Random) -> dict[str, object]:
    day = (FIRST_DAY + datetime.timedelta(days=number * DAYS // files)).isoformat()
    order = number * 24_000
    price = chance.randrange(90_000, 200_000) / 100
    least = {
        "l_orderkey": order + chance.randrange(32),
        "l_partkey": chance.randrange(1, 40),
        "l_quantity": 1.00,
        "l_extendedprice": price,
        "l_receiptdate": day,
        "l_comment": f" about the {chance.getrandbits(40):x} deposi",
    }
    most = {
        "l_orderkey": order + 24_000 - chance.randrange(32),
        "l_partkey": 200_000 - chance.randrange(40),
        "l_quantity": 50.00,
        "l_extendedprice": price + 100_000,
        "l_receiptdate": day,
        "l_comment": f"zzle {chance.getrandbits(60):x} furiously",
    }
    stats = {"numRecords": 6000, "minValues": least, "maxValues": most, "nullCount": dict.fromkeys(least, 0)}
    return {
        "path": f"l_shipdate={day}/part-{number % 200:05}-{uuid.UUID(int=chance.getrandbits(128))}.c000.snappy.parquet",
        "partitionValues": [("l_shipdate", day)],
        "size": 400_000 + chance.randrange(100_000),
        "modificationTime": 1_700_000_000_000 + number,
        "dataChange": False,
        "tags": None,
        "stats": json.dumps(stats, separators=(",", ":")),
    }
