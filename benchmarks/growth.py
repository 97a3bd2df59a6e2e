"""Does a call cost no more than four times as much on a table that is four times as large, in one dimension alone?

For each dimension (versions, files, columns, ...) there are two tables, of n and of 4n, which differ in nothing else;
each public call is timed on both. The two sides are CPU seconds of this process, the least of some runs, without the
first. What is proportional may cost 4.5 times as much. Only ratios of calls that take longer than `TOLD_FROM_S` are
told: the others are noise.

`DIMENSIONS=versions,files` and `CALLS=open,rows` choose some of them, `SMALLER=10` makes all tables so many times
smaller. Everything runs without Spark; `growth_spark.py` asks the same through Spark.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import tahoe
from benchmarks.measure import FOLDER, ROUNDS, Comparison, report
from tahoe.protocol.changes.constraints import PREFIX as CONSTRAINT
from tahoe.protocol.log.actions import (
    Action,
    Add,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Txn,
    encode_commit,
)
from tahoe.protocol.log.deletion_vector import inline_descriptor
from tahoe.protocol.log.tags import Tag
from tahoe.protocol.types.schema import LONG, STRING, DataType, Field, Struct
from tahoe.storage.background import finish_background
from tahoe.table.streams.stream import AdmissionLimit, StreamStart, TableStream
from tahoe.table.verify.check import check_version

GROWTH = 4
GOAL = 4.5
TOLD_FROM_S = 0.05
SMALLER = int(os.environ.get("SMALLER", "1"))

# The time of the first commit, within the retention.
_NOW_MS = time.time_ns() // 1_000_000 - 86_400_000

# The least id in all files but one, which the changes of rows find by its statistics.
_OTHER_IDS = 1_000_000_000
_READER_FEATURES = frozenset({"deletionVectors"})
_WRITER_FEATURES = _READER_FEATURES | {"domainMetadata", "appendOnly", "invariants", "checkConstraints"}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How large a table is, in each dimension."""

    versions: int = 4
    files: int = 4
    partitions: int = 0
    columns: int = 4
    nesting: int = 0
    rows: int = 3
    txns: int = 0
    tombstones: int = 0
    vectors: int = 0
    domains: int = 0
    tags: int = 0
    properties: int = 0
    constraints: int = 0
    name_length: int = 8


# The smaller of the two sizes in each dimension.
DIMENSIONS: Mapping[str, int] = {
    "versions": 1500,
    "files": 1500,
    "partitions": 1000,
    "columns": 500,
    "nesting": 16,
    "rows": 250_000,
    "txns": 20_000,
    "tombstones": 10_000,
    "vectors": 1000,
    "domains": 2500,
    "tags": 250,
    "properties": 2500,
    "constraints": 50,
    "name_length": 500,
}


# --- tables


def column_names(shape: Shape) -> list[str]:
    return [f"c{number}_".ljust(shape.name_length, "x") for number in range(shape.columns)]


def rows_of(shape: Shape, first: int = 0) -> pa.Table:
    numbers = pa.array(range(first, first + shape.rows))
    columns = {"id": numbers, **dict.fromkeys(column_names(shape), numbers)}
    if shape.nesting:
        value, kind = numbers, pa.int64()
        for _ in range(shape.nesting):
            kind = pa.struct([("x", kind)])
            value = pa.StructArray.from_arrays([value], fields=list(kind))
        columns["nested"] = value
    if shape.partitions:
        columns["part"] = pa.array([f"p{number % shape.partitions}" for number in range(first, first + shape.rows)])
    return pa.table(columns)


def schema_of(shape: Shape) -> Struct:
    fields = [Field(name=name, type=LONG) for name in ("id", *column_names(shape))]
    if shape.nesting:
        kind: DataType = LONG
        for _ in range(shape.nesting):
            kind = Struct((Field(name="x", type=kind),))
        fields.append(Field(name="nested", type=kind))
    if shape.partitions:
        fields.append(Field(name="part", type=STRING))
    return Struct(tuple(fields))


def make_table(folder: Path, shape: Shape) -> None:
    """A table whose log is written at once: the last commit has most of its files, the first its configuration."""
    (folder / "_delta_log").mkdir(parents=True)
    files = max(shape.files, shape.partitions, shape.vectors)
    for name, first in (("first", 0), ("other", _OTHER_IDS)):
        data = rows_of(shape, first)
        pq.write_table(data.drop_columns(["part"]) if shape.partitions else data, folder / f"{name}.parquet")

    def add(number: int) -> Add:
        path, first, data = (
            f"part-{number:08}.parquet",
            _OTHER_IDS if number else 0,
            folder / f"{'other' if number else 'first'}.parquet",
        )
        link(data, folder / path)
        size_bytes = data.stat().st_size
        values = {"part": f"p{number % shape.partitions}"} if shape.partitions else {}
        bounds = {"minValues": {"id": first}, "maxValues": {"id": first + shape.rows - 1}}
        stats = {"numRecords": shape.rows, **bounds, "nullCount": {"id": 0}}
        vector = inline_descriptor([0]) if number < shape.vectors else None
        return Add(
            path=path,
            partition_values=values,
            size_bytes=size_bytes,
            modification_time_ms=_NOW_MS,
            data_change=True,
            stats=json.dumps({**stats, "tightBounds": vector is None}),
            deletion_vector=vector,
        )

    configuration = {f"made.up.{number}": "value" for number in range(shape.properties)}
    configuration |= {f"{CONSTRAINT}c{number}": f"id >= {-number}" for number in range(shape.constraints)}
    partitions = ("part",) if shape.partitions else ()
    config: list[Action] = [
        Protocol(
            reader_version=3, writer_version=7, reader_features=_READER_FEATURES, writer_features=_WRITER_FEATURES
        ),
        Metadata(
            id="growth",
            schema_string=schema_of(shape).to_json(),
            partition_columns=partitions,
            configuration=configuration,
        ),
        *(Txn(app_id=f"application-{number}", version=number) for number in range(shape.txns)),
        *(
            DomainMetadata(domain=f"made.up.{number}", configuration="{}", removed=False)
            for number in range(shape.domains)
        ),
        *(Tag(name=f"tag{number}", version=0, created_ms=_NOW_MS).domain for number in range(shape.tags)),
        *(
            Remove(path=f"gone-{number}", deletion_timestamp_ms=_NOW_MS, data_change=True)
            for number in range(shape.tombstones)
        ),
    ]
    adds = [add(number) for number in range(files + shape.versions - 2)]
    bodies = [config, adds[:files], *([one] for one in adds[files:])]
    for version, actions in enumerate(bodies):
        info = CommitInfo({"timestamp": _NOW_MS + version, "operation": "WRITE", "operationParameters": {}})
        path = folder / "_delta_log" / f"{version:020}.json"
        path.write_bytes(encode_commit([info, *actions]))
        os.utime(path, ns=((_NOW_MS + 1000 * version) * 1_000_000,) * 2)


def copy_of(table: Path, number: int) -> Path:
    """A copy that a call may change; its data files are those of the table."""
    folder = table.with_name(f"{table.name}-copy-{number}")
    shutil.copytree(table, folder, copy_function=_link)
    return folder


def _link(source: str, target: str) -> None:
    if source.endswith(".json"):
        shutil.copy2(source, target)
    else:
        link(source, target)


def link(source: str | Path, target: str | Path) -> None:
    """Link a data file; copy it where it has as many names as the file system allows: 65,000 on ext4."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno != errno.EMLINK:
            raise
        shutil.copy2(source, target)


# --- calls

Call = Callable[[Path, Shape], object]


def _set_property(folder: Path, _: Shape) -> None:
    with tahoe.Table(folder).transaction() as changes:
        changes.set_properties({"made.up": "new"})


def _merge(folder: Path, shape: Shape) -> object:
    source = rows_of(shape, first=1)
    return tahoe.Table(folder).merge(source, on="id").when_matched_update_all().when_not_matched_insert_all().execute()


def _at(folder: Path, shape: Shape) -> object:
    moment = datetime.fromtimestamp((_NOW_MS + 1000 * (shape.versions // 2)) / 1000, UTC)
    return tahoe.Table(folder).snapshot(timestamp=moment)


def _stream_start(folder: Path, _: Shape) -> object:
    stream = TableStream(tahoe.Table(folder).snapshot(), StreamStart())
    return stream.first_end(AdmissionLimit(files=1000))


READS: Mapping[str, Call] = {
    "open": lambda folder, _: tahoe.Table(folder).snapshot(),
    "rows": lambda folder, _: tahoe.Table(folder).to_arrow(),
    "filter": lambda folder, _: tahoe.Table(folder).to_arrow(["id"], "id = 1"),
    "count": lambda folder, _: tahoe.Table(folder).count(),
    "files": lambda folder, _: tahoe.Table(folder).files(),
    "history": lambda folder, _: tahoe.Table(folder).history(),
    "by version": lambda folder, shape: tahoe.Table(folder).snapshot(shape.versions // 2),
    "by timestamp": _at,
    "sizes": lambda folder, _: tahoe.Table(folder).inspect.sizes(),
    "partitions": lambda folder, _: tahoe.Table(folder).inspect.partitions(),
    "properties": lambda folder, _: tahoe.Table(folder).inspect.properties(),
    "txns": lambda folder, _: tahoe.Table(folder).inspect.txns(),
    "tags": lambda folder, _: tahoe.Table(folder).tags(),
    "report": lambda folder, _: tahoe.Table(folder).report(),
    "vacuum dry": lambda folder, _: tahoe.Table(folder).vacuum(dry_run=True),
    "check": lambda folder, _: list(check_version(tahoe.Table(folder).snapshot())),
    "stream start": _stream_start,
}
WRITES: Mapping[str, Call] = {
    "vacuum": lambda folder, _: tahoe.Table(folder).vacuum(),
    "optimize": lambda folder, _: tahoe.Table(folder).optimize(),
    "append": lambda folder, shape: tahoe.Table(folder).append(rows_of(shape)),
    "delete": lambda folder, _: tahoe.Table(folder).delete("id = 1"),
    "update": lambda folder, _: tahoe.Table(folder).update({"id": "7"}, "id = 1"),
    "merge": _merge,
    "set property": _set_property,
    "restore": lambda folder, shape: tahoe.Table(folder).restore(shape.versions // 2),
    "clone": lambda folder, _: tahoe.Table(folder).clone(folder.with_name(f"{folder.name}-clone"), shallow=True),
    "checkpoint": lambda folder, _: tahoe.Table(folder).create_checkpoint(),
    "tag": lambda folder, _: tahoe.Table(folder).tag("another", version=1),
}


def seconds(call: Call, table: Path, shape: Shape, *, changes: bool) -> list[float]:
    """The CPU seconds of some runs."""
    found = []
    for number in range(ROUNDS):
        folder = copy_of(table, number) if changes else table
        gc.collect()  # else one of the calls pays for the objects of all
        began = time.process_time()
        call(folder, shape)
        found.append(time.process_time() - began)
        finish_background()
        if changes:
            for made in table.parent.glob(f"{folder.name}*"):
                shutil.rmtree(made)
    return found


def chosen(names: Mapping[str, Any], variable: str) -> list[str]:
    asked = os.environ.get(variable)
    return list(names) if asked is None else [name for name in names if name in asked.split(",")]


Measure = Callable[[str, Path, Shape], list[float]]


def compared(home: Path, dimensions: Mapping[str, int], calls: Sequence[str], measure: Measure) -> list[Comparison]:
    """The measurements of calls on tables of n and 4n in each dimension, with a goal.

    Args:
        measure: of a call by its name, on a table: one number per run, of which the least counts.
    """
    shutil.rmtree(home, ignore_errors=True)
    found = []
    for dimension in chosen(dimensions, "DIMENSIONS"):
        size = max(dimensions[dimension] // SMALLER, 1)
        shapes = [replace(Shape(), **{dimension: count}) for count in (size, GROWTH * size)]
        tables = [home / f"{dimension}-{number}" for number in range(len(shapes))]
        for table, shape in zip(tables, shapes, strict=True):
            make_table(table, shape)
        for name in calls:
            small, large = ([min(measure(name, table, shape))] for table, shape in zip(tables, shapes, strict=True))
            asked = Comparison(
                question=f"{dimension}: {name}",
                peer=f"{size:,} instead of {GROWTH * size:,}",
                ours=large,
                theirs=small,
                goal=GOAL,
            )
            print(
                f"{asked.question:32} {large[0]:8.3f} {small[0]:8.3f} {asked.ratio:6.2f}",
                "" if asked.ratio <= GOAL else "!",
                flush=True,
            )
            found += [asked] if large[0] >= TOLD_FROM_S else []
        shutil.rmtree(home, ignore_errors=True)
    return found


def run() -> list[Comparison]:
    calls = {**READS, **WRITES}

    def measured(name: str, table: Path, shape: Shape) -> list[float]:
        return seconds(calls[name], table, shape, changes=name in WRITES)

    return compared(FOLDER / "growth", DIMENSIONS, chosen(calls, "CALLS"), measured)


if __name__ == "__main__":
    report(*run())
