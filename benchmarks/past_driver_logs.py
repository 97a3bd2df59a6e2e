"""A table of tens of millions of files, as its log tells it: a V2 checkpoint with sidecars, and commits behind it.

The checkpoint is as tahoe writes it: in the order of partitions and statistics, with statistics as texts and as typed
columns. The files do not exist; `listed` tells what a listing of the table's folder would find.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.logs import metadata_action
from tahoe.protocol.log.cubes import PROVIDER, cube_tags
from tahoe.table.log.checkpoint import TOMBSTONE
from tahoe.table.log.file_parts import DELETION_VECTOR, TEXT_MAP

VERSION = 10
COMMITS = 5
COMMIT_FILES = 1000  # each commit adds so many files, and removes as many of the checkpoint
SIDECAR_FILES = 50_000
GROUP_FILES = 10_000
DAYS = 2500
ORDERS_PER_FILE = 1000
CUBES = 40
SMALL_BYTES = 401_000  # one file in a hundred is smaller
DEAD_SHARE = 0.01  # so many of the files in the folder belong to no version
OLD_MS = 1_600_000_000_000
TIME_MS = 1_700_000_000_000
FIRST_DAY = np.datetime64("2019-01-01")

Numbers = np.ndarray[Any, np.dtype[np.int64]]

_SCHEMA = {"order_key": "long", "amount": "double", "comment": "string", "day": "date"}
_VALUES = pa.struct([("order_key", pa.int64()), ("amount", pa.float64()), ("comment", pa.string())])
_COUNTS = pa.struct([("order_key", pa.int64()), ("amount", pa.int64()), ("comment", pa.int64())])
_PARSED = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("tightBounds", pa.bool_()),
        ("minValues", _VALUES),
        ("maxValues", _VALUES),
        ("nullCount", _COUNTS),
    ]
)
_DAY = pa.struct([("day", pa.date32())])
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", TEXT_MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", TEXT_MAP),
        ("deletionVector", DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
        ("partitionValues_parsed", _DAY),
        ("stats_parsed", _PARSED),
    ]
)
_WRITTEN = {
    "compression": "snappy",
    "use_dictionary": ["add.partitionValues.key_value.key", "add.partitionValues.key_value.value"],
    "write_page_checksum": True,
    "store_schema": False,
}
_SIDECAR = pa.schema([("remove", TOMBSTONE), ("add", _ADD)])


def write_table(folder: Path, files: int, *, is_clustered: bool = False) -> None:
    """A log whose newest version has `files` files.

    Args:
        is_clustered: whether the files of the checkpoint are in cubes, as OPTIMIZE of a clustered table leaves them.
    """
    log = folder / "_delta_log"
    (log / "_sidecars").mkdir(parents=True)
    sidecars = [_put_sidecar(log, number, files, is_clustered) for number in range(-(-files // SIDECAR_FILES))]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["v2Checkpoint"],
        "writerFeatures": ["v2Checkpoint"],
    }
    metadata = metadata_action(_SCHEMA, ["day"]) | {"configuration": {"delta.checkpointPolicy": "v2"}}
    top = [
        {"checkpointMetadata": {"version": VERSION}},
        {"protocol": protocol},
        {"metaData": metadata},
        *({"sidecar": sidecar} for sidecar in sidecars),
    ]
    name = f"{VERSION:020}.checkpoint.00000000-0000-0000-0000-000000000001.json"
    (log / name).write_text("".join(f"{json.dumps(action)}\n" for action in top))
    (log / "_last_checkpoint").write_text(json.dumps({"version": VERSION, "size": files + len(top)}))
    _put_commit(log, VERSION, [])
    for number in range(COMMITS):
        put_change(folder, VERSION + 1 + number, files)


def put_change(folder: Path, version: int, files: int) -> None:
    """A commit that replaces neighbouring files, as a statement that changes the rows of a day."""
    log, number = folder / "_delta_log", version - VERSION
    start = number * 7_919_111 % (files - COMMIT_FILES)
    gone = adds_of(np.arange(start, start + COMMIT_FILES), files)
    rows = gone.to_pylist()
    actions: list[dict[str, Any]] = []
    for row in rows:
        remove = {key: row[key] for key in ("path", "size")} | {"partitionValues": dict(row["partitionValues"])}
        actions.append(
            {"remove": remove | {"deletionTimestamp": TIME_MS, "dataChange": True, "extendedFileMetadata": True}}
        )
        add = {key: row[key] for key in ("size", "stats")} | {"modificationTime": TIME_MS}
        path = row["path"].replace("part-", f"part-v{version}-")
        add |= {"path": path, "partitionValues": dict(row["partitionValues"]), "dataChange": True}
        actions.append({"add": add})
    _put_commit(log, version, actions)


def _put_commit(log: Path, version: int, actions: list[dict[str, Any]]) -> None:
    info = {"commitInfo": {"timestamp": TIME_MS + version, "operation": "WRITE"}}
    text = "".join(f"{json.dumps(action, separators=(',', ':'))}\n" for action in (info, *actions))
    (log / f"{version:020}.json").write_text(text)


def _put_sidecar(log: Path, number: int, files: int, is_clustered: bool) -> dict[str, Any]:
    path = log / "_sidecars" / f"{number:08}-0000-4000-8000-000000000000.parquet"
    end = min((number + 1) * SIDECAR_FILES, files)
    with pq.ParquetWriter(path, _SIDECAR, **_WRITTEN) as out:
        for start in range(number * SIDECAR_FILES, end, GROUP_FILES):
            adds = adds_of(np.arange(start, min(start + GROUP_FILES, end)), files, is_clustered)
            out.write_table(pa.Table.from_arrays([pa.nulls(len(adds), TOMBSTONE), adds], schema=_SIDECAR))
    return {"path": path.name, "sizeInBytes": path.stat().st_size, "modificationTime": TIME_MS}


def _joined(*parts: str | Numbers | pa.Array) -> pa.Array:
    columns = [part if isinstance(part, (str, pa.Array)) else pa.array(part).cast(pa.string()) for part in parts]
    return pc.binary_join_element_wise(*columns, "")


def adds_of(numbers: Numbers, files: int, is_clustered: bool = False) -> pa.StructArray:
    """The entries of files by their numbers. A file has the orders of its number; each day has as many files."""
    count = len(numbers)
    days = pa.array((FIRST_DAY + numbers * DAYS // files).astype("datetime64[D]"))
    noise = (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(3)
    least, most = numbers * ORDERS_PER_FILE, numbers * ORDERS_PER_FILE + ORDERS_PER_FILE - 1
    amount = (noise % np.uint64(100_000)).astype(np.int64)
    comments = _joined("about the ", noise % np.uint64(1 << 40)), _joined("zzle ", noise % np.uint64(1 << 44))
    texts = days.cast(pa.string())
    counts = pa.array(np.zeros(count, np.int64))
    low = pa.StructArray.from_arrays([least, pa.array(amount).cast(pa.float64()), comments[0]], fields=list(_VALUES))
    high = pa.StructArray.from_arrays(
        [most, pa.array(amount + 100_000).cast(pa.float64()), comments[1]], fields=list(_VALUES)
    )
    records = pa.array(np.full(count, 6000))
    nulls = pa.StructArray.from_arrays([counts] * 3, fields=list(_COUNTS))
    parsed = [records, pa.nulls(count, pa.bool_()), low, high, nulls]
    stats = _joined(
        *('{"numRecords":6000,"minValues":{"order_key":', least, ',"amount":', amount, '.0,"comment":"', comments[0]),
        *('"},"maxValues":{"order_key":', most, ',"amount":', amount + 100_000, '.0,"comment":"', comments[1]),
        '"},"nullCount":{"order_key":0,"amount":0,"comment":0}}',
    )
    columns = {
        "path": paths_of(numbers, files),
        "partitionValues": pa.MapArray.from_arrays(
            pa.array(np.arange(count + 1), pa.int32()), pa.array(["day"] * count, pa.string()), texts
        ),
        "size": pa.array(400_000 + amount),
        "modificationTime": pa.array(OLD_MS + numbers % 1_000_000),
        "dataChange": pa.array(np.zeros(count, bool)),
        "stats": stats,
        "partitionValues_parsed": pa.StructArray.from_arrays([days], fields=list(_DAY)),
        "stats_parsed": pa.StructArray.from_arrays(parsed, fields=list(_PARSED)),
    }
    if is_clustered:
        columns["tags"] = pa.array(
            [list(cube_tags(f"cube-{n * CUBES // files:032}", ["order_key"]).items()) for n in numbers], TEXT_MAP
        )
        columns["clusteringProvider"] = pa.array([PROVIDER] * count)
    arrays = [columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in _ADD]
    return pa.StructArray.from_arrays(arrays, fields=list(_ADD))


def paths_of(numbers: Numbers, files: int, mark: str = "") -> pa.Array:
    """Paths as Spark makes them: the partition, the number of a task, and a UUID."""
    days = pa.array((FIRST_DAY + numbers * DAYS // files).astype("datetime64[D]")).cast(pa.string())
    noise = (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(1)
    high = pc.utf8_lpad(pa.array(noise).cast(pa.string()), 19, "0")
    low = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 12, "0")
    task = pc.utf8_lpad(pa.array(numbers % 200).cast(pa.string()), 5, "0")
    places = ((0, 8), (8, 12), (12, 16), (15, 19))
    uuid = pc.binary_join_element_wise(*(pc.utf8_slice_codeunits(high, *place) for place in places), low, "-")
    return _joined("day=", days, f"/part-{mark}", task, "-", uuid, ".c000.snappy.parquet")


def listed(files: int, at_once: int = 100_000) -> Iterator[tuple[pa.Array, int]]:
    """The keys of the files in the table's folder, in pieces, each with the time at which its files were written: those
    of the checkpoint and of the commits, and some that no version has.
    """
    for start in range(0, files, at_once):
        numbers = np.arange(start, min(start + at_once, files))
        yield paths_of(numbers, files), OLD_MS
        yield paths_of(numbers[:: round(1 / DEAD_SHARE)], files, "failed-"), OLD_MS
    for number in range(1, COMMITS + 1):
        start = number * 7_919_111 % (files - COMMIT_FILES)
        yield paths_of(np.arange(start, start + COMMIT_FILES), files, f"v{VERSION + number}-"), TIME_MS
