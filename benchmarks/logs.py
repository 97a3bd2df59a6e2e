"""Tables whose logs are generated without a writer: many files, as after years of daily loads."""

from __future__ import annotations

import datetime
import json
import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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
    """A log with one classic checkpoint that names `files` files, and the commit of that version. The files do not
    exist.
    """
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    name = f"{version:020}"
    metadata = metadata_action(_SCHEMA, ["l_shipdate"])
    with pq.ParquetWriter(log / f"{name}.checkpoint.parquet", _CHECKPOINT, compression="snappy") as writer:
        head = [
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {
                "metaData": {
                    key: list(value.items()) if key == "configuration" else value for key, value in metadata.items()
                }
            },
        ]
        head[1]["metaData"]["format"] = {"provider": "parquet", "options": []}
        writer.write_table(pa.Table.from_pylist(head, _CHECKPOINT))
        for adds in _adds(files):
            nulls = [
                pa.nulls(len(adds), field.type)
                for field in (_CHECKPOINT.field("protocol"), _CHECKPOINT.field("metaData"))
            ]
            writer.write_table(pa.Table.from_arrays([*nulls, adds], schema=_CHECKPOINT))
    (log / f"{name}.json").write_text(
        json.dumps({"commitInfo": {"timestamp": 1_700_000_000_000, "operation": "WRITE"}}) + "\n"
    )
    size_bytes = (log / f"{name}.checkpoint.parquet").stat().st_size
    (log / "_last_checkpoint").write_text(
        json.dumps({"version": version, "size": files + 2, "sizeInBytes": size_bytes})
    )


def write_commits(folder: Path, commits: int) -> None:
    """A log of `commits` commits without a checkpoint; each adds one file, of new data. The files do not exist."""
    (folder / "_delta_log").mkdir(parents=True)
    head = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata_action(_SCHEMA, ["l_shipdate"])},
    ]
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


# --- ten million files

CLUSTERED_BY = "l_orderkey"
ORDERS_PER_FILE = 24


def write_clustered_table(folder: Path, files: int, version: int = 10) -> None:
    """A log of a table clustered by `l_orderkey`, whose checkpoint lists the files in no order, with statistics as
    texts.

    The texts are made column by column, because ten million of them would take minutes otherwise. The files do not
    exist.
    """
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    metadata = metadata_action(_SCHEMA, [])
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["domainMetadata", "clustering"]}
    domain = {
        "domain": "delta.clustering",
        "configuration": json.dumps({"clusteringColumns": [[CLUSTERED_BY]]}),
        "removed": False,
    }
    schema = pa.schema(
        [
            ("protocol", pa.struct([*_PROTOCOL, ("writerFeatures", pa.list_(pa.string()))])),
            ("metaData", _METADATA),
            (
                "domainMetadata",
                pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
            ),
            ("add", _ADD),
        ]
    )
    head = [{"protocol": protocol}, {"metaData": _as_row(metadata)}, {"domainMetadata": domain}]
    name = f"{version:020}"
    with pq.ParquetWriter(
        log / f"{name}.checkpoint.parquet", schema, compression="snappy", use_dictionary=False
    ) as writer:
        writer.write_table(pa.Table.from_pylist(head, schema))
        numbers = np.random.default_rng(1).permutation(files)
        for start in range(0, files, CHUNK_FILES):
            adds = _clustered_adds(numbers[start : start + CHUNK_FILES])
            columns = [adds if f.name == "add" else pa.nulls(len(adds), f.type) for f in schema]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
    (log / f"{name}.json").write_text(
        json.dumps({"commitInfo": {"timestamp": 1_700_000_000_000, "operation": "WRITE"}}) + "\n"
    )


def put_new_file(table: Path, version: int) -> None:
    """A commit that adds a file with an order that no other file has. The file does not exist."""
    bound = {CLUSTERED_BY: -version}
    stats = {"numRecords": 1, "minValues": bound, "maxValues": bound, "nullCount": {CLUSTERED_BY: 0}}
    add = {
        "path": f"new-{version}",
        "partitionValues": {},
        "size": 1,
        "modificationTime": 1,
        "dataChange": True,
        "stats": json.dumps(stats),
    }
    (table / "_delta_log" / f"{version:020}.json").write_text(json.dumps({"add": add}) + "\n")


def _as_row(metadata: dict[str, object]) -> dict[str, object]:
    return metadata | {
        "configuration": list(metadata["configuration"].items()),
        "format": {"provider": "parquet", "options": []},
    }  # type: ignore[attr-defined]


def _clustered_adds(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
    chance = np.random.default_rng(int(numbers[0]))
    count = len(numbers)

    def text(*parts: str | np.ndarray[Any, Any]) -> pa.Array:
        columns = [part if isinstance(part, str) else pa.array(part).cast(pa.string()) for part in parts]
        return pc.binary_join_element_wise(*columns, "")

    days = (np.datetime64("1992-01-02") + numbers % DAYS).astype("datetime64[D]")
    order, price, noise = (
        numbers * ORDERS_PER_FILE,
        chance.integers(90_000, 200_000, count),
        chance.integers(0, 1 << 40, count),
    )
    stats = text(
        *(
            '{"numRecords":6000,"minValues":{"l_orderkey":',
            order,
            ',"l_partkey":',
            chance.integers(1, 40, count),
            ',"l_quantity":1.00',
        ),
        *(
            ',"l_extendedprice":',
            price,
            ',"l_receiptdate":"',
            days,
            '","l_comment":" about the ',
            noise,
            ' deposi","l_shipdate":"',
            days,
        ),
        *(
            '"},"maxValues":{"l_orderkey":',
            order + ORDERS_PER_FILE - 1,
            ',"l_partkey":',
            200_000 - chance.integers(1, 40, count),
        ),
        *(
            ',"l_quantity":50.00,"l_extendedprice":',
            price + 100_000,
            ',"l_receiptdate":"',
            days,
            '","l_comment":"zzle ',
            noise,
        ),
        *(
            ' furiously","l_shipdate":"',
            days,
            '"},"nullCount":{"l_orderkey":0,"l_partkey":0,"l_quantity":0,"l_extendedprice":0',
        ),
        ',"l_receiptdate":0,"l_comment":0,"l_shipdate":0}}',
    )
    nothing = pa.MapArray.from_arrays(
        pa.array(np.zeros(count + 1), pa.int32()), pa.array([], pa.string()), pa.array([], pa.string())
    )
    columns = {
        "path": text(
            "part-", numbers % 200, "-", chance.integers(0, 1 << 62, count), "-", numbers, ".c000.snappy.parquet"
        ),
        "partitionValues": nothing,
        "size": pa.array(400_000 + chance.integers(0, 100_000, count)),
        "modificationTime": pa.array(1_700_000_000_000 + numbers),
        "dataChange": pa.array(np.zeros(count, bool)),
        "tags": pa.nulls(count, _ADD.field("tags").type),
        "stats": stats,
    }
    return pa.StructArray.from_arrays([columns[f.name] for f in _ADD], fields=list(_ADD))
