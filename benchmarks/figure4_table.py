"""The tables of Figure 4: 33,000,000 rows in ever more partitions, of one file each.

One folder serves all systems: to Parquet it is a folder of Hive partitions, to Delta a table whose log is one
checkpoint. The files are hard links to some hundred different ones, which saves the time and the disk of a million.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tahoe
from benchmarks.logs import metadata_action
from tahoe.storage.background import finish_background

ROWS = 33_000_000
WRITTEN_MS = 1_790_000_000_000
FILE = "part-00000-5d5c4f8e-9c4e-4f8e-9c4e-0f5bb0b45d5c.c000.snappy.parquet"

# A file of ext4 has at most 65,000 names.
_DIFFERENT_FILES = 500
_LOG = "_delta_log"
_CLEAN_LOG = "_clean_log"


@dataclass(frozen=True, kw_only=True)
class PartitionedTable:
    """A table with `partitions` partitions: columns `p` and `value`.

    Attributes:
        folder: its files, and its log.
        total: the sum of all values.
        parts: the sums of the values of some files; partition `n` has that of `n % len(parts)`.
    """

    folder: Path
    partitions: int
    total: int
    parts: tuple[int, ...]

    def sum_of(self, partition: int) -> int:
        return self.parts[partition % len(self.parts)]

    def renew(self) -> None:
        """Undo what was written: a fresh log, and only the first files."""
        log = self.folder / _LOG
        if log.exists():
            for commit in log.glob("*.json"):
                for path in _added(commit) if int(commit.stem.partition(".")[0]) else ():
                    (self.folder / path).unlink(missing_ok=True)
            shutil.rmtree(log)
        shutil.copytree(self.folder / _CLEAN_LOG, log)


def _added(commit: Path) -> Iterator[str]:
    for line in commit.read_text().splitlines():
        action = json.loads(line)
        if "add" in action:
            yield action["add"]["path"]


def the_table(folder: Path, partitions: int) -> PartitionedTable:
    """The table, made once."""
    done = folder / "_made.json"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        parts = _make(folder, partitions)
        done.write_text(json.dumps(parts))
    parts = tuple(json.loads(done.read_text()))
    total = sum(parts[number % len(parts)] for number in range(partitions))
    return PartitionedTable(folder=folder, partitions=partitions, total=total, parts=parts)


def _make(folder: Path, partitions: int) -> list[int]:
    source = folder / "_files"
    source.mkdir(parents=True)
    rows, count = ROWS // partitions, min(partitions, _DIFFERENT_FILES)
    files: list[tuple[Path, dict[str, Any], int]] = []
    for number in range(count):
        values = np.random.default_rng(number).integers(0, 1_000_000, rows)
        file = source / f"{number}.parquet"
        pq.write_table(pa.table({"value": values}), file, compression="snappy")
        bounds = {"minValues": {"value": int(values.min())}, "maxValues": {"value": int(values.max())}}
        stats = json.dumps({"numRecords": rows, **bounds, "nullCount": {"value": 0}}, separators=(",", ":"))
        add = {"size": file.stat().st_size, "modificationTime": WRITTEN_MS, "dataChange": True, "stats": stats}
        files.append((file, add, int(values.sum())))
    _write_log(folder, partitions, [add for _, add, _ in files])
    for number in range(partitions):
        (folder / f"p={number}").mkdir()
        (folder / f"p={number}" / FILE).hardlink_to(files[number % count][0])
    return [total for _, _, total in files]


def _write_log(folder: Path, partitions: int, adds: list[dict[str, Any]]) -> None:
    """A log of one version, and its checkpoint by tahoe."""
    log = folder / _LOG
    log.mkdir()
    with (log / f"{0:020}.json").open("w") as out:
        out.write(json.dumps({"commitInfo": {"timestamp": WRITTEN_MS, "operation": "WRITE"}}) + "\n")
        out.write(json.dumps({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}) + "\n")
        out.write(json.dumps({"metaData": metadata_action({"p": "integer", "value": "long"}, ["p"])}) + "\n")
        texts = [json.dumps(add, separators=(",", ":"))[1:] for add in adds]
        for number in range(partitions):
            head = f'{{"add":{{"path":"p={number}/{FILE}","partitionValues":{{"p":"{number}"}},'
            out.write(f"{head}{texts[number % len(texts)]}}}\n")
    tahoe.Table(str(folder)).create_checkpoint()
    finish_background()
    log.rename(folder / _CLEAN_LOG)
