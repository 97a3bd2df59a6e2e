"""Libraries and a notebook work with tables of ours, and know nothing of tahoe."""

from __future__ import annotations

import json
from pathlib import Path

from tests.tools.conftest import Run

LIBRARIES = Path(__file__).with_name("libraries.py")


def test_kedro_pandera_and_great_expectations(run: Run, tmp_path: Path) -> None:
    (line,) = [line for line in run(LIBRARIES, tmp_path).splitlines() if line.startswith("FOUND ")]
    assert json.loads(line.removeprefix("FOUND ")) == {
        "kedro": {"before": False, "after": True, "is delta": True, "sum": 60},
        "pandera": ["DATAFRAME_CHECK"],
        "expectations": {"kept": True, "broken": False, "rows": 2},
    }


CELLS = [
    "from delta.tables import DeltaTable\nfrom pyspark.sql import SparkSession",
    "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate()",
    "spark.range(5).write.format('delta').save('numbers')\nDeltaTable.forPath(spark, 'numbers').delete('id = 0')",
    "spark.read.format('delta').load('numbers').count()",
]


def test_a_notebook(run: Run, tmp_path: Path) -> None:
    """By nbconvert: the kernel is a process that Jupyter starts."""
    cells = [
        {"cell_type": "code", "source": text, "metadata": {}, "outputs": [], "execution_count": None} for text in CELLS
    ]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))
    run(
        "jupyter",
        "nbconvert",
        "--to",
        "notebook",
        "--execute",
        "--output",
        "done.ipynb",
        "n.ipynb",
        IPYTHONDIR=str(tmp_path / "ipython"),
    )
    (output,) = json.loads((tmp_path / "done.ipynb").read_text())["cells"][-1]["outputs"]
    assert output["data"]["text/plain"] == ["4"]
