"""Each file once: a driver that loads a folder by COPY INTO is killed at random moments, while files come.

`TAHOE_KILLS=20` kills so many (`make killed-copies`), and `TAHOE_SEED=2` chooses other moments.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from pathlib import Path

import pyarrow as pa

import tahoe
from tahoe.table.verify.check import check_version
from tahoe.table.verify.findings import Kind
from tests.programs.drivers import driver, expect, kill

PROGRAM = Path(__file__).with_name("killed_copy.py")
KILLS = int(os.environ.get("TAHOE_KILLS", "2"))
SEED = int(os.environ.get("TAHOE_SEED", "1"))
ROWS = 3

# What is there just after a loader has written rows, the record of the files, and the commit.
SIGNS = {"rows": "*.parquet", "record": "_delta_log/_copied/*.parquet", "commit": "_delta_log/*.json"}


class Landing(threading.Thread):
    """Puts files into a folder, as a careful writer does: under another name first."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.files = 0
        self._folder = folder
        self._stopped = threading.Event()
        folder.mkdir()
        self.put(40)

    def put(self, files: int) -> None:
        for number in range(self.files, self.files + files):
            lines = "".join(json.dumps({"id": number * ROWS + row}) + "\n" for row in range(ROWS))
            hidden = self._folder / f"_{number}"
            hidden.write_text(lines)
            hidden.rename(self._folder / f"{number}.json")
        self.files += files

    def run(self) -> None:
        while not self._stopped.wait(0.1):
            self.put(5)

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def wait_for_a_moment(table: Path, chance: random.Random) -> str:
    """Somewhere in a load, or just after something is there that was not before."""
    sign = chance.choice(["any", *SIGNS])
    if sign == "any":
        time.sleep(chance.uniform(0, 8))
        return sign
    before, latest = set(table.glob(SIGNS[sign])), time.monotonic() + 60
    while set(table.glob(SIGNS[sign])) <= before and time.monotonic() < latest:
        time.sleep(0.001)
    time.sleep(chance.choice((0, chance.uniform(0, 0.02))))
    return sign


def test_files_are_loaded_once_whenever_their_loader_is_killed(tmp_path: Path) -> None:
    chance, table = random.Random(SEED), tahoe.Table(str(tmp_path / "table"))
    table.append(pa.table({"id": pa.array([], pa.int64())}))
    landing = Landing(tmp_path / "in")
    landing.start()
    deaths = []
    for _ in range(KILLS):
        program = driver(PROGRAM, tmp_path, "forever")
        deaths.append(wait_for_a_moment(tmp_path / "table", chance))
        assert program.poll() is None, "a load has failed"
        kill(program)
    landing.stop()
    print(f"\nseed {SEED}: killed at {deaths}, {landing.files} files, {table.version} versions")
    program = driver(PROGRAM, tmp_path, "now")
    expect("left 0", program)
    assert program.wait(300) == 0
    loaded = sorted(table.to_arrow()["id"].to_pylist())
    assert loaded == list(range(landing.files * ROWS)), "rows are lost, or there twice"
    findings = check_version(table.snapshot())
    # a killed writer leaves the temporary file of its commit, which is found when it is an hour old
    assert [found for found in findings if found.kind is not Kind.ORPHAN_TEMPORARY_FILE] == []
