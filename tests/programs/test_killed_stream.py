"""Exactly once: the driver of three streams is killed at random moments, while others append to their source and compact it.

`TAHOE_KILLS=200` kills it so often.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa

import tahoe
from tahoe.table.verify.check import check

PROGRAM = Path(__file__).with_name("killed_stream.py")
KILLS = int(os.environ.get("TAHOE_KILLS", "2"))
KEYS = 7


class Writer(threading.Thread):
    """Appends rows to a table, and compacts it now and then, until it is stopped."""

    def __init__(self, source: Path) -> None:
        super().__init__(daemon=True)
        self.rows = 0
        self.error: BaseException | None = None
        self._table = tahoe.Table(str(source))
        self._stopped = threading.Event()
        self.append()

    def append(self) -> None:
        ids = pa.array(range(self.rows, self.rows + 10), pa.int64())
        self._table.append(
            pa.table({"id": ids, "key": pa.array([number % KEYS for number in range(self.rows, self.rows + 10)], pa.int64())})
        )
        self.rows += 10

    def run(self) -> None:
        try:
            while not self._stopped.wait(0.3):
                self.append()
                if self.rows % 200 == 0:
                    self._table.optimize()
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def test_streams_of_a_driver_that_is_killed_are_exactly_once(tmp_path: Path) -> None:
    chance = random.Random(int(os.environ.get("TAHOE_SEED", "1")))
    writer = Writer(tmp_path / "source")
    writer.start()
    for _ in range(KILLS):
        driver = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(tmp_path), "forever"], stdout=subprocess.PIPE, start_new_session=True, text=True
        )
        assert driver.stdout is not None
        assert any(line.strip() == "started" for line in driver.stdout), "the driver has ended"
        with_batches = chance.uniform(0, 6)
        threading.Event().wait(with_batches)
        assert driver.poll() is None, "a query has failed"
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    writer.stop()
    assert writer.error is None
    subprocess.run([sys.executable, str(PROGRAM), str(tmp_path), "now"], check=True, timeout=300)
    ids = range(writer.rows)
    found = {name: tahoe.Table(str(tmp_path / name)).to_arrow() for name in ("copied", "counted", "merged")}
    assert sorted(found["copied"]["id"].to_pylist()) == list(ids), "rows are lost, or there twice"
    assert sorted(zip(found["counted"]["key"].to_pylist(), found["counted"]["count"].to_pylist(), strict=True)) == [
        (key, len(ids[key::KEYS])) for key in range(KEYS)
    ]
    newest = {key: ids[key::KEYS][-1] for key in range(KEYS)}
    assert dict(zip(found["merged"]["key"].to_pylist(), found["merged"]["id"].to_pylist(), strict=True)) == newest
    for name in ("source", *found):
        assert list(check(tahoe.Table(str(tmp_path / name)).snapshot())) == []
