"""What does the local cache save of reading from an object store that is 30 ms away and sends 100 MB/s?

Each side is a new process. Its server is on loopback, and counts what it sends; see `slow_storage`. In Spark, for which
`make interop-s3` has fetched Hadoop's S3 file system, it is asked the first question too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

import tahoe
from benchmarks.local_cache_worker import LOOKUP_ROWS, LOOKUPS
from benchmarks.measure import ROUNDS, Comparison, cells, lineitem, report
from benchmarks.million_files import FILES, the_table
from benchmarks.slow_storage import BUCKET, SlowStorage, slow_storage

_LOOKUP_FILES = 100
_S3_JARS = Path(__file__).parents[1] / ".cache" / "s3-jars"
_SIDES = ("local", "none", "first", "second")


def run() -> list[Comparison]:
    """Each result is printed at once, because rounds are long."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for question in (_million, _lookups, _lineitem, _lineitem_in_spark):
            for comparison in question(Path(folder)):
                print(" | ".join(cells(comparison)), flush=True)
                found.append(comparison)
    return found


def _lineitem(folder: Path) -> Iterator[Comparison]:
    lake = folder / "lineitem"
    tahoe.Table(str(lake / "t")).append(ds.dataset(lineitem()).to_table())
    times = _times("columns", lake, folder / "cache")
    what = "lineitem, three columns"
    yield _compared(f"{what}: the second run", times, "second", "first", 0.35)
    yield _compared(f"{what}: the second run", times, "second", "local", 1.2)
    yield _compared(f"{what}: the first run", times, "first", "none", 1.1)


def _lineitem_in_spark(folder: Path) -> Iterator[Comparison]:
    if not (_S3_JARS / "installed").exists():
        print(f"without Spark: make interop-s3 fetches what is to be in {_S3_JARS}", file=sys.stderr)
        return
    lake = folder / "lineitem in spark"
    table = ds.dataset(lineitem()).to_table()
    tahoe.Table(str(lake / "t")).append(table)
    tahoe.Table(str(lake / "small")).append(table.slice(0, 1000))
    times = _times("spark", lake, folder / "cache")
    what = "lineitem, three columns, in Spark"
    yield _compared(f"{what}: the second run", times, "second", "first", 0.35)
    yield _compared(f"{what}: the second run", times, "second", "local", 1.2)
    yield _compared(f"{what}: the first run", times, "first", "none", 1.1)


def _million(folder: Path) -> Iterator[Comparison]:
    lake = folder / "million"
    lake.mkdir()
    (lake / "t").symlink_to(the_table())
    times = _times("opened", lake, folder / "cache")
    yield _compared(f"open a table of {FILES:,} files, log cached", times, "second", "none", 0.16)
    yield _compared(f"open a table of {FILES:,} files, log cached", times, "second", "local", None)


def _lookups(folder: Path) -> Iterator[Comparison]:
    lake = folder / "lookups"
    table, chance = tahoe.Table(str(lake / "t")), np.random.default_rng(1)
    for number in range(_LOOKUP_FILES):
        count = LOOKUP_ROWS // _LOOKUP_FILES
        ids = range(number * count, (number + 1) * count)
        table.append(pa.table({"id": ids, "text": [chance.bytes(32).hex() for _ in ids]}))
    size = sum(file.stat().st_size for file in (lake / "t").glob("*.parquet"))
    times = _times("lookups", lake, folder / "cache", cache_bytes=max(size // 2, 16 << 20))
    yield _compared(f"{LOOKUPS} rows at random, of twice as much as fits", times, "second", "none", 0.6)


_CALLED = {
    "local": "the table on the local disk",
    "none": "without a cache",
    "first": "the first run",
}


def _compared(question: str, times: Mapping[str, list[float]], side: str, peer: str, goal: float | None) -> Comparison:
    return Comparison(question=question, peer=_CALLED[peer], ours=times[side], theirs=times[peer], goal=goal)


def _times(question: str, lake: Path, cache: Path, cache_bytes: int = 10 << 30) -> dict[str, list[float]]:
    """The seconds of each side in each round, after one to warm up. The second run fetches no byte of a file, unless
    not all fits.
    """
    times: dict[str, list[float]] = {side: [] for side in _SIDES}
    answers = set()
    with slow_storage(lake) as server:
        for number in range(ROUNDS + 1):
            shutil.rmtree(cache, ignore_errors=True)
            for side in _SIDES:
                server.reset()
                seconds, answer = _asked(question, side, lake, server, cache, cache_bytes)
                answers.add(answer)
                if number:
                    times[side].append(seconds)
                if side == "second":
                    print(question, dict(server.requests), server.sent_bytes, "bytes", file=sys.stderr, flush=True)
                    assert server.sent_bytes == 0 or question == "lookups", "what was cached is not fetched"
    assert len(answers) == 1, f"all sides must answer alike: {answers}"
    return times


def _asked(
    question: str, side: str, lake: Path, server: SlowStorage, cache: Path, cache_bytes: int
) -> tuple[float, str]:
    if question == "spark":
        return _asked_in_spark(side, lake, server, cache)
    url, options = (str(lake / "t"), {}) if side == "local" else (f"s3://{BUCKET}/t", server.options)
    command = [sys.executable, "-m", "benchmarks.local_cache_worker", question, url, json.dumps(options)]
    cached = {"TAHOE_CACHE": str(cache), "TAHOE_CACHE_SIZE": str(cache_bytes)} if side in ("first", "second") else {}
    done = subprocess.run(command, env={**os.environ, **cached}, check=True, stdout=subprocess.PIPE, text=True)
    told = json.loads(done.stdout)
    return told["seconds"], json.dumps(told["answer"])


def _asked_in_spark(side: str, lake: Path, server: SlowStorage, cache: Path) -> tuple[float, str]:
    url = str(lake / "t") if side == "local" else f"s3a://{BUCKET}/t"
    command = [sys.executable, "-m", "benchmarks.local_cache_spark_worker", url, server.options["endpoint"]]
    command += [str(_S3_JARS), *([str(cache)] if side in ("first", "second") else [])]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    told = json.loads(done.stdout.splitlines()[-1])
    return told["seconds"], json.dumps(told["answer"])


if __name__ == "__main__":
    report(*run())
