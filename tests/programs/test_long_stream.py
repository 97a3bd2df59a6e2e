"""A stream that follows one commit a second for a long time: the memory of its driver, of the JVM and of Python, stays as it is.

`TAHOE_LONG_STREAM=7200` runs it for so many seconds (`make long-stream`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from statistics import linear_regression

import pyarrow as pa
import pytest

import tahoe

PROGRAM = Path(__file__).with_name("long_stream.py")
SECONDS = int(os.environ.get("TAHOE_LONG_STREAM", "60"))

# What a run may grow by after its first half. A leak of a few KB a commit is seen in two hours, of 0.5 MB a commit in a minute.
GROWTH_MAX_MB = 16


def grown(seconds: Sequence[float], sizes: Sequence[float]) -> float:
    """By how much a size grows in the second half, as a line through its samples tells: single samples go up and down."""
    half = len(sizes) // 2
    slope, _ = linear_regression(seconds[half:], sizes[half:])
    return slope * (seconds[-1] - seconds[half])


@pytest.mark.parametrize(("leak", "is_seen"), [(0.0, False), (0.05, False), (0.9, True)])
def test_a_leak_is_seen(leak: float, is_seen: bool) -> None:
    """Samples of a minute, with the growth of a start at their begin and noise of 10 MB."""
    seconds = [1.5 * number for number in range(41)]
    sizes = [200 - 100 / (1 + second) + 10 * (number % 2) + leak * second for number, second in enumerate(seconds)]
    assert (grown(seconds, sizes) > GROWTH_MAX_MB) == is_seen


def append_until(stopped: threading.Event, table: tahoe.Table, count: list[int]) -> None:
    while not stopped.wait(1):
        table.append(pa.table({"id": pa.array([count[0]], pa.int64())}))
        count[0] += 1


def test_the_memory_of_a_stream_does_not_grow(tmp_path: Path) -> None:
    table, stopped, count = tahoe.Table(str(tmp_path / "source")), threading.Event(), [1]
    table.append(pa.table({"id": pa.array([0], pa.int64())}))
    writer = threading.Thread(target=append_until, args=(stopped, table, count), daemon=True)
    writer.start()
    command = [sys.executable, str(PROGRAM), str(tmp_path), str(SECONDS)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 300, check=False)
    finally:
        stopped.set()
        writer.join()
    assert done.returncode == 0, done.stderr[-4000:]
    samples = [json.loads(line.removeprefix("SAMPLE ")) for line in done.stdout.splitlines() if line.startswith("SAMPLE ")]
    seconds = [sample["second"] for sample in samples]
    growth = {what: grown(seconds, [sample[what] for sample in samples]) for what in ("heap", "python")}
    print(
        f"\n{count[0]} commits in {seconds[-1]:.0f} s; in the second half, MB: {growth}; first and last sample: {samples[0]}, {samples[-1]}"
    )
    assert max(growth.values()) <= GROWTH_MAX_MB, f"the driver's memory grows: {growth}\n{samples}"
    rows = sorted(tahoe.Table(str(tmp_path / "sink")).to_arrow()["id"].to_pylist())
    assert rows == list(range(len(rows)))
    assert len(rows) > 0.5 * SECONDS
