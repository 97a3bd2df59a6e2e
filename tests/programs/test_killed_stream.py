"""Exactly once: the driver of six streams is killed at random moments, while others change their source.

`TAHOE_KILLS=200` kills it so often.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa

import tahoe
from tahoe.table.verify.check import check

PROGRAM = Path(__file__).with_name("killed_stream.py")
KILLS = int(os.environ.get("TAHOE_KILLS", "2"))
KEYS = 7
WINDOW = 50
NAMES = ("copied", "counted", "windows", "joined", "merged", "silver")


class Writer(threading.Thread):
    """Appends rows to a table until it is stopped. Now and then it deletes one, adds a column, and compacts the table."""

    def __init__(self, source: Path, other: Path) -> None:
        super().__init__(daemon=True)
        self.rows = 0
        self.error: BaseException | None = None
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
                self.append()
                if self.rows % 70 == 0:
                    with self._table.transaction() as changes:
                        changes.delete(f"id = {self.rows // 2}")
                if self.rows % 200 == 0:
                    self._table.optimize()
                if self.rows % 330 == 0 and len(self._columns) < 10:
                    self._columns.append(f"c{self.rows}")
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def commits(folder: Path) -> int:
    """How many batches the streams have committed."""
    return sum(len(list((folder / name / "_delta_log").glob("*.json"))) for name in NAMES)


def test_streams_of_a_driver_that_is_killed_are_exactly_once(tmp_path: Path) -> None:
    chance = random.Random(int(os.environ.get("TAHOE_SEED", "1")))
    writer = Writer(tmp_path / "source", tmp_path / "other")
    writer.start()
    for _ in range(KILLS):
        driver = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(tmp_path), "forever"], stdout=subprocess.PIPE, start_new_session=True, text=True
        )
        assert driver.stdout is not None
        assert any(line.strip() == "started" for line in driver.stdout), "the driver has ended"
        wanted, latest = commits(tmp_path) + chance.randrange(8), time.monotonic() + 120
        while commits(tmp_path) < wanted and driver.poll() is None and time.monotonic() < latest:
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 1.5))
        assert driver.poll() is None, "a query has failed"
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    writer.stop()
    assert writer.error is None
    subprocess.run([sys.executable, str(PROGRAM), str(tmp_path), "now"], check=True, timeout=300)
    ids = range(writer.rows)
    found = {name: tahoe.Table(str(tmp_path / name)).to_arrow().to_pydict() for name in NAMES}
    assert sorted(found["copied"]["id"]) == list(ids), "rows are lost, or there twice"
    assert sorted(found["joined"]["id"]) == list(ids)
    assert dict(zip(*found["counted"].values(), strict=True)) == {key: len(ids[key::KEYS]) for key in range(KEYS)}
    windows = sorted(zip(*found["windows"].values(), strict=True))
    assert windows == [(first, WINDOW) for first in ids[: len(windows) * WINDOW : WINDOW]]
    assert len(windows) >= len(ids) // WINDOW - 1, "the watermark has passed all but the last"
    assert dict(zip(found["merged"]["key"], found["merged"]["id"], strict=True)) == {key: ids[key::KEYS][-1] for key in range(KEYS)}
    bronze = tahoe.Table(str(tmp_path / "source")).to_arrow(["id", "key"]).sort_by("id").to_pydict()
    assert sorted(zip(*found["silver"].values(), strict=True)) == list(zip(*bronze.values(), strict=True))
    for name in ("source", *NAMES):
        assert list(check(tahoe.Table(str(tmp_path / name)).snapshot())) == []
