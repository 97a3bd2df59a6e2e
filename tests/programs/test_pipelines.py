"""Spark's declarative pipelines: the examples of the page about them, in a server that they start themselves and in one
whose driver has called `enable`; and AutoCDC flows of each kind.

`TAHOE_KILLED_UPDATES=30` kills an update at each of so many seconds (`make killed-pipelines`).
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pyspark
import pytest

import tahoe
from tests import sample
from tests.programs.changes_model import COLUMNS, Pipeline, random_events
from tests.programs.command import RUN as WITH_TAHOE
from tests.programs.pipelines import blocks

ROOT = Path(__file__).resolve().parents[2]
RUN = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
pytestmark = pytest.mark.usefixtures("connect_port")
KILLS = int(os.environ.get("TAHOE_KILLED_UPDATES", "1"))
since_4_3 = pytest.mark.skipif(
    tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 3), reason="SCD type 2 is new in Spark 4.3"
)
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
    (tmp_path / "transformations" / "flows.py").write_text(blocks("python")[0])
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


def test_a_new_project_has_delta_tables(tmp_path: Path) -> None:
    """Its views are written again by each update, and an update that has no catalog to find them in is refused."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYTHONPATH": str(ROOT / "src")}
    project = tmp_path / "project"

    def pipelines(*words: str, cwd: Path = project) -> tuple[int, str]:
        command = [*WITH_TAHOE, str(RUN), *words]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, env=environment, cwd=cwd, check=False
        )
        return done.returncode, done.stdout[-2000:] + done.stderr[-4000:]

    code, output = pipelines("init", "--name", project.name, cwd=tmp_path)
    assert (code, output.count("Delta tables")) == (0, 1), output
    for number in range(2):
        code, output = pipelines("run", "--conf", "spark.sql.catalogImplementation=hive")
        assert code == 0, output
        for name, rows in (("example_python_materialized_view", 10), ("example_sql_materialized_view", 5)):
            table = tahoe.Table(str(project / "spark-warehouse" / name))
            assert (table.count(), table.version) == (rows, 1 + 2 * number)
    code, output = pipelines("run")
    assert code == 1
    assert "DELTA_PIPELINE_TABLE_NOT_IN_CATALOG" in output


CHANGES = (
    [(1, "ada", 1, "U"), (2, "bea", 1, "U"), (3, "cay", 1, "U")],
    [(1, "Ada", 3, "U"), (1, "late", 2, "U"), (2, "bea", 2, "D"), (4, "dan", 1, "U"), (4, "dan", 1, "U")],
)


@since_4_3
def test_changes_that_arrive_late_and_twice_are_applied_once(tmp_path: Path) -> None:
    """The target is an ordinary table for other readers, and the history has all rows with their spans."""
    (tmp_path / "transformations").mkdir()
    (tmp_path / "changes").mkdir()
    (tmp_path / "conf").mkdir()
    persistent = {"spark.sql.catalogImplementation": "hive"}
    settings = {**SETTINGS, **persistent, "spark.sql.warehouse.dir": str(tmp_path / "warehouse")}
    (tmp_path / "conf" / "spark-defaults.conf").write_text("".join(f"{n} {v}\n" for n, v in settings.items()))
    flows = blocks("python")[1].replace("/data/", f"{tmp_path}/")
    (tmp_path / "transformations" / "flows.py").write_text(flows)
    (tmp_path / "spark-pipeline.yml").write_text(blocks("yaml")[0].replace("/data/", f"{tmp_path}/"))
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"SPARK_CONF_DIR": str(tmp_path / "conf"), "PYTHONPATH": str(ROOT / "src")}
    command = [*WITH_TAHOE, str(RUN), "run"]
    for number, rows in enumerate(CHANGES):
        lines = (json.dumps(dict(zip(("id", "name", "seq", "op"), row, strict=True))) for row in rows)
        (tmp_path / "changes" / f"{number}.json").write_text("\n".join(lines))
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=600, env=environment, cwd=tmp_path, check=False
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    customers, history = (tahoe.Table(str(tmp_path / "warehouse" / name)) for name in ("customers", "history"))
    assert {(row["id"], row["name"]) for row in customers.to_arrow(["id", "name"]).to_pylist()} == {
        (1, "Ada"),
        (3, "cay"),
        (4, "dan"),
    }
    spans = history.to_arrow(["id", "name", "__START_AT", "__END_AT"]).to_pylist()
    assert sorted((tuple(row.values()) for row in spans), key=repr) == [
        (1, "Ada", 3, None),
        (1, "ada", 1, 2),
        (1, "late", 2, 3),
        (2, "bea", 1, 2),
        (3, "cay", 1, None),
        (4, "dan", 1, None),
    ]


# --- AutoCDC flows of each kind, beside a model


@since_4_3
def test_each_kind_of_flow_is_its_model(tmp_path: Path) -> None:
    """Also behind a column that is new, and behind full refreshes of one target and of all."""
    pipeline = Pipeline(tmp_path)
    for number in range(2):
        pipeline.add(random_events(number, 30))
        pipeline.update()
        pipeline.check()
    pipeline.columns(f"{COLUMNS}, country STRING")
    pipeline.add(random_events(2, 30), country="it")
    pipeline.update()
    pipeline.check()
    assert ("it",) in pipeline.rows("current", ["country"])
    if sample.MODE == "full":  # an update takes twenty seconds
        pipeline.update("--full-refresh", "current")
        pipeline.check()
        pipeline.update("--full-refresh-all")
        pipeline.check(mirrored=2)


@pytest.mark.skipif(
    sample.MODE != "full", reason="make killed-pipelines, and make everything without TAHOE_MODE, run it"
)
def test_an_update_that_was_killed_is_made_again(tmp_path: Path) -> None:
    """At each second of it, the same rows as without."""
    pipeline = Pipeline(tmp_path)
    pipeline.add(random_events(0, 30))
    pipeline.update()
    seconds: Iterable[float] = range(3, 3 + KILLS) if KILLS > 1 else [12]
    for number, second in enumerate(seconds, 1):
        pipeline.add(random_events(number, 30))
        was_killed = pipeline.killed(second)
        pipeline.update()
        pipeline.check()
        if not was_killed:
            break
