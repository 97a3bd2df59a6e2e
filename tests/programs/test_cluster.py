"""tahoe runs on a cluster: a standalone master and two workers, from what pip installs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

ROOT = Path(__file__).resolve().parents[2]
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
SECONDS_MAX = 60


def environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "PYTHONPATH": str(ROOT),
    }


def start(folder: Path, name: str, *arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(SPARK_CLASS), *arguments], stdout=out, stderr=out, env=environment(folder), cwd=folder
        )
    return process, log


def wait_for(pattern: str, log: Path) -> str:
    for _ in range(SECONDS_MAX * 10):
        found = re.search(pattern, log.read_text())
        if found:
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"no {pattern} within {SECONDS_MAX} seconds in {log}: {log.read_text()[-2000:]}")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The url of a master with two workers of one core each."""
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    process, log = start(tmp_path, "master", *master)
    processes = [process]
    try:
        url = wait_for(r"spark://127\.0\.0\.1:\d+", log)
        size = ["--cores", "1", "--memory", "600m", "--webui-port", "0"]
        for number, host in enumerate(("127.0.0.1", "127.0.0.2")):  # Spark speculates only on another host
            process, log = start(
                tmp_path, f"worker-{number}", "org.apache.spark.deploy.worker.Worker", url, "--host", host, *size
            )
            processes.append(process)
            wait_for("Successfully registered with master", log)
        yield url
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


def run(program: str, cluster: str, folder: Path) -> dict[str, Any]:
    """What a program has found on the cluster."""
    command = [sys.executable, "-m", f"tests.programs.{program}", cluster, str(folder)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=environment(folder), cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    found: dict[str, Any] = json.loads(line.removeprefix("FOUND "))
    return found


def test_a_cluster_writes_reads_and_applies_vectors(cluster: str, tmp_path: Path) -> None:
    found = run("on_a_cluster", cluster, tmp_path)
    assert found["executors"] == 2
    assert found["before"] == [505, 249_510, 249_500]
    count = found["arrow"][0]
    assert 505 - 101 <= count < 505
    assert found["marked"] == found["marked, vectors loaded by executors"]
    assert found["marked"][0] == count
    assert found["streamed"] == found["marked"][:2]
    assert found["speculated"] == {"attempts of the slow task": 2, "rows": 4000, "different rows": 4000}


def test_executors_share_a_local_cache(cluster: str, tmp_path: Path) -> None:
    """Two on one folder at once; the folder disappears; one is killed while it reads."""
    found = run("cached_on_a_cluster", cluster, tmp_path)
    assert found["executors"] == 2
    assert found["answers"] == 1
    first, second = found["first"], found["second"]
    assert first["misses"] > 0
    assert (second["misses"], second["fetched_bytes"]) == (first["misses"], first["fetched_bytes"])
    assert second["cached_bytes"] - first["cached_bytes"] >= first["fetched_bytes"]
    assert found["refilled"] > 0
    assert found["killed"]
    assert (found["damaged"], found["damaged by the kill"]) == (0, 0)
