"""spark-submit runs a program as it is, with a configuration that was written for the reference; so does a notebook's
kernel.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).resolve().parents[2]
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
REFERENCE = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@pytest.fixture
def environment() -> dict[str, str]:
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("settings", [{}, REFERENCE], ids=["plain", "the reference's settings"])
def test_a_submitted_program(environment: dict[str, str], settings: dict[str, str], tmp_path: Path) -> None:
    own = {"spark.ui.enabled": "false", "spark.sql.warehouse.dir": str(tmp_path / "warehouse"), **settings}
    confs = [part for name, value in own.items() for part in ("--conf", f"{name}={value}")]
    command = [
        str(SUBMIT),
        "--master",
        "local[2]",
        *confs,
        str(ROOT / "tests" / "programs" / "submitted.py"),
        str(tmp_path),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=environment, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert json.loads(line.removeprefix("FOUND ")) == {"read": 8, "capitals": [8, 8, 8], "in foreachBatch": [8, 1]}


CELLS = [
    "import tahoe\nfrom pyspark.sql import SparkSession",
    "spark = tahoe.enable(SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate())",
    "spark.range(5).write.format('delta').save(path)",
    "spark.read.format('delta').load(path).where('id > 2').count()",
    "try:\n    spark.read.format('delta').load(path + 'x')\nexcept tahoe.errors.TableNotFoundError as error:\n    "
    "print(error.condition)",
    "spark.stop()",
]


def test_a_notebook(environment: dict[str, str], tmp_path: Path) -> None:
    manager = pytest.importorskip("jupyter_client.manager", reason="no Jupyter here")
    kernel, client = manager.start_new_kernel(env=environment, cwd=str(tmp_path))
    try:
        said: list[str] = []

        def listen(message: dict[str, object]) -> None:
            content = message["content"]
            assert isinstance(content, dict)
            if message["msg_type"] == "execute_result":
                said.append(content["data"]["text/plain"])
            elif message["msg_type"] == "stream" and content["name"] == "stdout":
                said.append(content["text"].strip())

        client.execute_interactive(f"path = {str(tmp_path / 't')!r}")
        for cell in CELLS:
            reply = client.execute_interactive(cell, timeout=120, output_hook=listen)
            assert reply["content"]["status"] == "ok", reply["content"]
        assert said == ["2", "DELTA_TABLE_NOT_FOUND"]
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
