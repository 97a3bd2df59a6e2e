"""Exactly once: the drivers of streams are killed at random moments, while others change their source.

`TAHOE_KILLS=200` kills so many (`make killed-streams`), and `TAHOE_SEED=2` chooses other moments.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

import tahoe
from tahoe.table.verify.check import check_version
from tahoe.table.verify.findings import Kind
from tests.programs.drivers import driver, expect, kill

PROGRAM = Path(__file__).with_name("killed_stream.py")
KILLS = int(os.environ.get("TAHOE_KILLS", "2"))
SEED = int(os.environ.get("TAHOE_SEED", "1"))
KEYS = 7
WINDOW = 50
NAMES = ("copied", "counted", "windows", "joined", "merged", "silver")
COLUMNS_MAX = 40


class Writer(threading.Thread):
    """Appends rows to a table while queries run. Now and then it deletes one, adds a column, and compacts the table."""

    def __init__(self, source: Path, other: Path) -> None:
        super().__init__(daemon=True)
        self.rows = 0
        self.error: BaseException | None = None
        self.at_work = threading.Event()
        self._columns: list[str] = []
        self._table, self._other = tahoe.Table(str(source)), tahoe.Table(str(other))
        self._stopped = threading.Event()
        self.append()

    def append(self) -> None:
        ids = range(self.rows, self.rows + 10)
        keys = [number % KEYS for number in ids]
        rows = pa.table({"id": ids, "key": keys, **dict.fromkeys(self._columns, keys)})
        properties = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
        self._table.append(rows, properties=None if self.rows else properties, merge_schema=True)
        self._other.append(rows.select(["id"]))
        self.rows += 10

    def run(self) -> None:
        try:
            while not self._stopped.wait(0.3):
                self.at_work.wait()
                self.append()
                if self.rows % 70 == 0:
                    with self._table.transaction() as changes:
                        changes.delete(f"id = {self.rows // 2}")
                if self.rows % 200 == 0:
                    self._table.optimize()
                if self.rows % 330 == 0 and len(self._columns) < COLUMNS_MAX:
                    self._columns.append(f"c{self.rows}")
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        self._stopped.set()
        self.at_work.set()
        self.join()


class Commits:
    """How many batches the streams have committed."""

    def __init__(self, folder: Path) -> None:
        self._logs = {folder / name / "_delta_log": 0 for name in NAMES}

    def count(self) -> int:
        for log, version in self._logs.items():
            while log.joinpath(f"{version:020}.json").exists():
                version += 1
            self._logs[log] = version
        return sum(self._logs.values())


def kill_at_a_random_moment(program: subprocess.Popen[str], commits: Commits, chance: random.Random) -> None:
    """While its queries start, just after a batch is committed, or somewhere in the next ones."""
    if chance.random() < 0.2:
        time.sleep(chance.uniform(0, 4))
    else:
        expect("started", program)
        wanted, latest = commits.count() + chance.randrange(1, 5), time.monotonic() + 120
        while commits.count() < wanted and program.poll() is None and time.monotonic() < latest:
            time.sleep(0.005)
        time.sleep(chance.choice((0, chance.uniform(0, 0.05), chance.uniform(0, 1.5))))
    assert program.poll() is None, "a query has failed"
    kill(program)


def newest(folder: Path) -> int:
    """The number of the newest file of a checkpoint's log; -1 if it has none."""
    return max((int(file.name) for file in folder.glob("*") if file.name.isdigit()), default=-1)


def delete_unbegun(checkpoint: Path) -> None:
    """Delete a checkpoint without a batch: Spark refuses that of a query with state
    (STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY).
    """
    if newest(checkpoint / "offsets") < 0:
        shutil.rmtree(checkpoint, ignore_errors=True)


def where_it_died(folder: Path, name: str) -> str:
    """What a query was about to do when its driver was killed."""
    checkpoint = folder / f"{name}-checkpoint"
    planned, noted = newest(checkpoint / "offsets"), newest(checkpoint / "commits")
    if planned == noted:
        return "between batches"
    query = json.loads((checkpoint / "metadata").read_text().splitlines()[-1])["id"]
    table = tahoe.Table(str(folder / name))
    is_written = table.exists() and table.snapshot().txn_version(query) == planned
    return "behind the commit, before Spark has noted it" if is_written else "in a batch"


def test_streams_of_drivers_that_are_killed_are_exactly_once(tmp_path: Path) -> None:
    chance, commits, deaths = random.Random(SEED), Commits(tmp_path), Counter[str]()
    writer = Writer(tmp_path / "source", tmp_path / "other")
    writer.start()
    for number in range(KILLS):
        names = chance.sample(NAMES, chance.choice((1, 2, 3, 6))) if number > 0 else list(NAMES)
        files = chance.choice((1, 3, 20, 1000))
        program = driver(PROGRAM, tmp_path, "forever", str(files), ",".join(names))
        writer.at_work.set()
        kill_at_a_random_moment(program, commits, chance)
        writer.at_work.clear()
        deaths.update(where_it_died(tmp_path, name) for name in names)
        for name in names:
            delete_unbegun(tmp_path / f"{name}-checkpoint")
    writer.stop()
    assert writer.error is None
    print(
        f"\nseed {SEED}: {KILLS} drivers killed at {commits.count()} batches, {writer.rows} rows; their queries "
        f"were {dict(deaths)}"
    )
    program = driver(PROGRAM, tmp_path, "now", "1000", ",".join(NAMES))
    assert program.wait(900) == 0
    check_tables(tmp_path, writer.rows)


def check_tables(folder: Path, rows: int) -> None:
    """Each table is what a batch over the whole source would have made of it."""
    ids = range(rows)
    found: Mapping[str, Mapping[str, list[int]]] = {
        name: tahoe.Table(str(folder / name)).to_arrow().to_pydict() for name in NAMES
    }
    assert sorted(found["copied"]["id"]) == list(ids), "rows are lost, or there twice"
    assert sorted(found["joined"]["id"]) == list(ids)
    assert dict(zip(*found["counted"].values(), strict=True)) == {key: len(ids[key::KEYS]) for key in range(KEYS)}
    windows = sorted(zip(*found["windows"].values(), strict=True))
    assert windows == [(first, WINDOW) for first in ids[: len(windows) * WINDOW : WINDOW]]
    assert len(windows) >= len(ids) // WINDOW - 1, "the watermark has passed all but the last"
    assert dict(zip(found["merged"]["key"], found["merged"]["id"], strict=True)) == {
        key: ids[key::KEYS][-1] for key in range(KEYS)
    }
    bronze = tahoe.Table(str(folder / "source")).to_arrow(["id", "key"]).sort_by("id").to_pydict()
    assert sorted(zip(*found["silver"].values(), strict=True)) == list(zip(*bronze.values(), strict=True))
    for name in ("source", *NAMES):
        findings = check_version(tahoe.Table(str(folder / name)).snapshot())
        # a killed writer leaves the temporary file of its commit, which is found when it is an hour old
        assert [found for found in findings if found.kind is not Kind.ORPHAN_TEMPORARY_FILE] == []
