"""Programs that were written for the reference run unchanged under `tahoe run`, and import the reference's names from
tahoe.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tahoe.programs.launch import STARTUP
from tests.programs.command import RUN

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "programs"
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
PACKAGE = "io.delta:delta-spark_2.13:0.0.0"  # no such version: a JVM that looks for it does not start


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Spark's settings, from a file, bring the reference."""
    (tmp_path / "conf").mkdir()
    lines = [
        "spark.jars.packages " + PACKAGE,
        "spark.sql.extensions io.delta.sql.DeltaSparkSessionExtension",
        "spark.ui.enabled false",
    ]
    (tmp_path / "conf" / "spark-defaults.conf").write_text("\n".join(lines))
    added = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": str(tmp_path / "conf")}
    return {**os.environ, **added, "PYTHONPATH": str(ROOT / "src")}


def ran(command: list[str], environment: dict[str, str], cwd: Path, code: int = 0) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, cwd=cwd, check=False)
    assert done.returncode == code, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout


def found(said: str) -> dict[str, Any]:
    (line,) = [line for line in said.splitlines() if line.startswith("FOUND ")]
    values: dict[str, Any] = json.loads(line.removeprefix("FOUND "))
    return values


EXPECTED = {
    "history": ["DELETE", "WRITE"],
    "same session": True,
    "by name": 7,
    "new session": 7,
    "cloned by name": 7,
    "in a worker": "",
    "another session": 7,
    "in a child": 7,
    "after stop": 7,
}


def test_a_program_for_the_reference(environment: dict[str, str], tmp_path: Path) -> None:
    """Sessions of every kind are enabled, also those of a child process; the JVM looks for no JAR; Python workers
    import nothing.
    """
    arguments = {**environment, "PYSPARK_SUBMIT_ARGS": f"--packages {PACKAGE} pyspark-shell"}
    values = found(
        ran([*RUN, str(PROGRAMS / "for_the_reference.py"), str(tmp_path / "t")], arguments, tmp_path, code=7)
    )
    settings = values.pop("settings")
    assert settings[:2] in ([None, None], ["", ""], ["", None], [None, ""])
    assert settings[2] == "delta.SessionCatalog"
    assert values.pop("version")[0] == "4"
    assert values == EXPECTED if "another session" in values else {**values, "another session": 7} == EXPECTED


def test_spark_submit(environment: dict[str, str], tmp_path: Path) -> None:
    """The driver is a Python that spark-submit starts."""
    submit = [str(SUBMIT), "--master", "local[1]", "--packages", PACKAGE]
    program = tmp_path / "submitted.py"
    program.write_text(SUBMITTED)
    assert found(ran([*RUN, *submit, str(program), str(tmp_path / "t")], environment, tmp_path)) == {
        "rows": 3,
        "delta": True,
    }


SUBMITTED = """
import json, sys
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.range(3).write.format("delta").save(sys.argv[1])
found = {"rows": spark.read.load(sys.argv[1], format="delta").count(), "delta": DeltaTable.isDeltaTable(spark, sys.argv[1])}
print("FOUND " + json.dumps(found))
"""

CONFTEST = """
import pytest
from delta import DeltaTable, configure_spark_with_delta_pip
from pyspark.sql import SparkSession

@pytest.fixture(scope="session")
def spark():
    builder = SparkSession.builder.master("local[1]").config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    return configure_spark_with_delta_pip(builder).getOrCreate()
"""

TESTS = """
import pytest
from delta.tables import DeltaTable

@pytest.mark.parametrize("n", [1, 2])
def test_one(spark, tmp_path, n):
    spark.range(n).write.format("delta").save(str(tmp_path / "t"))
    assert DeltaTable.forPath(spark, str(tmp_path / "t")).toDF().count() == n
"""


@pytest.mark.parametrize("how", ["run", "plugin"])
def test_pytest(environment: dict[str, str], tmp_path: Path, how: str) -> None:
    """Under `tahoe run`, and with the plugin, where pytest-xdist starts processes of its own."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    pytest_is = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
    plugin = [sys.executable, *pytest_is, "-p", "tahoe.programs.pytest_plugin", "-n", "2"]
    assert "2 passed" in ran(
        [*RUN, *pytest_is, "test_it.py"] if how == "run" else [*plugin, "test_it.py"], environment, tmp_path
    )


CONNECTED = """
import json, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote("local[1]").getOrCreate()
spark.range(4).write.format("delta").save(sys.argv[1])
rows = SparkSession.builder.getOrCreate().sql(f"SELECT count(*) FROM delta.`{sys.argv[1]}`").collect()[0][0]
print("FOUND " + json.dumps({"client": type(spark).__module__, "rows": rows}))
"""


@pytest.mark.usefixtures("connect_port")
def test_a_connect_server_in_the_program(environment: dict[str, str], tmp_path: Path) -> None:
    """The driver is enabled, and so its clients have nothing to register."""
    program = tmp_path / "connected.py"
    program.write_text(CONNECTED)
    assert found(ran([*RUN, str(program), str(tmp_path / "t")], environment, tmp_path)) == {
        "client": "pyspark.sql.connect.session",
        "rows": 4,
    }


def test_only_the_path(environment: dict[str, str], tmp_path: Path) -> None:
    """What Airflow's operators and other tools set for the programs that they start: the folder of `tahoe run --path`.
    pyspark's shell.
    """
    shell = {
        **environment,
        "PYTHONPATH": os.pathsep.join([str(STARTUP), str(ROOT / "src")]),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    shell["PYSPARK_DRIVER_PYTHON_OPTS"] = "-i"  # else Python makes no session for a standard input that is no terminal
    path = str(tmp_path / "t")
    lines = (
        f"spark.range(5).write.format('delta').save({path!r})\nprint('rows', "
        f"spark.read.format('delta').load({path!r}).count())\n"
    )
    command = [str(SUBMIT.with_name("pyspark")), "--master", "local[1]"]
    done = subprocess.run(
        command, input=lines, capture_output=True, text=True, timeout=300, env=shell, cwd=tmp_path, check=False
    )
    assert "rows 5" in done.stdout, done.stdout[-1000:] + done.stderr[-3000:]
