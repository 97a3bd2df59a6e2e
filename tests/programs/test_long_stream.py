"""A stream that follows one commit a second for a long time: the memory of its driver, of the JVM and of Python, stays
as it is.

Its tables are kept small meanwhile, as those of a message queue: read rows are deleted, files compacted, old log files
deleted. A driver needs memory for the files of its tables, for checkpoints of them and for listings of their logs. In
tables that only grow, this would look like a leak, and hide one.

`TAHOE_LONG_STREAM=7200` runs it for so many seconds (`make long-stream`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from statistics import linear_regression

import pyarrow as pa
import pytest

import tahoe
from tahoe.table.commit.post_commit_hooks import clean_log

PROGRAM = Path(__file__).with_name("long_stream.py")
SECONDS = int(os.environ.get("TAHOE_LONG_STREAM", "60"))

PAUSE_SECONDS = 1.0

# How many rows the source keeps that were read, and after how many the tables are made small again.
KEPT_ROWS = 20

# What a run may grow by after its first half. A leak of a few KB a commit is seen in two hours, of 0.5 MB a commit in a
# minute.
GROWTH_MAX_MB = 16


def grown(seconds: Sequence[float], sizes: Sequence[float]) -> float:
    """By how much a size grows in the second half, as a line through its samples tells: single samples go up and
    down.
    """
    half = len(sizes) // 2
    slope, _ = linear_regression(seconds[half:], sizes[half:])
    return slope * (seconds[-1] - seconds[half])


@pytest.mark.parametrize(("leak", "is_seen"), [(0.0, False), (0.05, False), (0.9, True)])
def test_a_leak_is_seen(leak: float, is_seen: bool) -> None:
    """Samples of a minute, with the growth of a start at their begin and noise of 10 MB."""
    seconds = [1.5 * number for number in range(41)]
    sizes = [200 - 100 / (1 + second) + 10 * (number % 2) + leak * second for number, second in enumerate(seconds)]
    assert (grown(seconds, sizes) > GROWTH_MAX_MB) == is_seen


class Queue(threading.Thread):
    """Appends a row to the source each second, and keeps the tables small.

    Attributes:
        rows: how many were appended.
        error: why the thread has ended, if it was not stopped.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.rows = 0
        self.error: Exception | None = None
        self._source, self._sink = (tahoe.Table(str(folder / name)) for name in ("source", "sink"))
        self._appended: list[float] = []
        self._stopped = threading.Event()
        forgetful = {
            "delta.deletedFileRetentionDuration": "interval 0 seconds"
        }  # in checkpoints: nothing deletes the files
        for table in (self._source, self._sink):
            table.append(pa.table({"id": pa.array([], pa.int64())}), properties=forgetful)
        self._append()

    def _append(self) -> None:
        self._appended.append(time.time())
        self._source.append(pa.table({"id": pa.array([self.rows], pa.int64())}))
        self.rows += 1

    def run(self) -> None:
        try:
            while not self._stopped.wait(PAUSE_SECONDS):
                self._append()
                if self.rows % KEPT_ROWS == 0:
                    self._tidy()
        except Exception as error:
            self.error = error

    def _tidy(self) -> None:
        """Delete what the stream has read, but for the last rows, and compact what it has written."""
        read = max(self._sink.to_arrow(["id"])["id"].to_pylist(), default=-1) - KEPT_ROWS
        if read < 0:
            return
        with self._source.transaction() as changes:
            changes.delete(f"id <= {read}")
        self._sink.optimize()
        for table in (self._source, self._sink):
            clean_log(table.snapshot(), timedelta(seconds=time.time() - self._appended[read]))

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def test_the_memory_of_a_stream_does_not_grow(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.start()
    command = [sys.executable, str(PROGRAM), str(tmp_path), str(SECONDS)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 300, check=False)
    finally:
        queue.stop()
    assert queue.error is None
    assert done.returncode == 0, done.stderr[-4000:]
    samples = [
        json.loads(line.removeprefix("SAMPLE ")) for line in done.stdout.splitlines() if line.startswith("SAMPLE ")
    ]
    seconds = [sample["second"] for sample in samples]
    growth = {what: grown(seconds, [sample[what] for sample in samples]) for what in ("heap", "python")}
    files = {name: len(tahoe.Table(str(tmp_path / name)).files()) for name in ("source", "sink")}
    print(
        f"\n{queue.rows} rows in {seconds[-1]:.0f} s; files: {files}; in the second half, MB: {growth}; "
        f"{samples[0]} to {samples[-1]}"
    )
    assert max(growth.values()) <= GROWTH_MAX_MB, f"the driver's memory grows: {growth}\n{samples}"
    rows = sorted(tahoe.Table(str(tmp_path / "sink")).to_arrow()["id"].to_pylist())
    assert rows == list(range(len(rows)))
    assert len(rows) > 0.5 * SECONDS / PAUSE_SECONDS
