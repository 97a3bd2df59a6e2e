"""Spark's declarative pipelines over tables of a Connect server whose driver has called `enable`: the example of the
page about them.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pyspark

import tahoe
from tests.programs.pipelines import blocks

ROOT = Path(__file__).resolve().parents[2]
RUN = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
SETTINGS = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def test_a_pipeline_appends_to_a_table_and_writes_another_anew(tmp_path: Path) -> None:
    port, warehouse = free_port(), tmp_path / "warehouse"
    confs = " ".join(
        f"--conf {name}={value}" for name, value in {**SETTINGS, "spark.sql.warehouse.dir": str(warehouse)}.items()
    )
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "flows.py").write_text(blocks("python")[1])
    (tmp_path / "spark-pipeline.yml").write_text(blocks("yaml")[0].replace("/data/", f"{tmp_path}/"))
    server = subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "programs" / "pipelines.py"), port],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**environment, "PYSPARK_SUBMIT_ARGS": f"--master local[2] {confs} pyspark-shell"},
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        assert server.stdout.readline() == "ready\n"
        for _ in range(2):
            server.stdin.write("more\n")
            server.stdin.flush()
            assert server.stdout.readline() == "appended\n"
            command = [str(RUN), "run", "--remote", f"sc://localhost:{port}"]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=300, env=environment, cwd=tmp_path, check=False
            )
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    finally:
        server.stdin.close()
        server.wait(60)
    silver, names = (tahoe.Table(str(warehouse / name)) for name in ("silver", "names"))
    assert sorted(map(tuple, (row.values() for row in silver.to_arrow().to_pylist()))) == [
        (0, "ADA"),
        (1, "ADA"),
        (100, "BEA"),
        (101, "BEA"),
    ]
    assert [entry["operation"] for entry in silver.history()] == [
        "STREAMING UPDATE",
        "STREAMING UPDATE",
        "CREATE TABLE",
    ]
    assert sorted(map(tuple, (row.values() for row in names.to_arrow().to_pylist()))) == [("ADA", 2), ("BEA", 2)]
