"""Statements of every kind answer the same in every kind of session, over every kind of catalog, on the Spark that runs
the tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tahoe.spark.api.session import STATEMENTS_OF_RULES

pytestmark = pytest.mark.every_spark

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "programs"
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
HIVE = list((Path(pyspark.__file__).parent / "jars").glob("spark-hive_*.jar"))
STARTS = ("configured", "running", "submitted")
KEPT = [12, 16, 12]  # of the databases that the process before has left: rows of a table times rows of a view of it


def settings(folder: Path, catalog: str) -> dict[str, str]:
    return {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": catalog,  # what enableHiveSupport() sets
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder} -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }


def run(folder: Path, catalog: str, name: str, start: str) -> dict[str, Any]:
    """What `every_statement.py` says."""
    submit = [
        str(SUBMIT),
        *(part for setting in settings(folder, catalog).items() for part in ("--conf", "=".join(setting))),
    ]
    starter = submit if start == "submitted" else [sys.executable]
    return said(folder, catalog, [*starter, str(PROGRAMS / "every_statement.py"), str(folder), name, start])


def said(folder: Path, catalog: str, command: list[str]) -> dict[str, Any]:
    """What a program says, in a process of its own."""
    (folder / "settings.json").write_text(json.dumps(settings(folder, catalog)))
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": f"{ROOT}/src:{ROOT}",
    }
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=900, env=environment, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    found: dict[str, Any] = json.loads(line.removeprefix("FOUND "))
    return found


@pytest.mark.parametrize("start", STARTS)
def test_without_a_metastore(start: str, tmp_path: Path) -> None:
    assert run(tmp_path, "in-memory", "one", start) == {"otherwise": [], "kept": []}


@pytest.mark.parametrize(("first", "second"), zip(STARTS, (*STARTS[1:], STARTS[0]), strict=True))
def test_with_a_metastore_that_is_new_and_one_of_another_process(first: str, second: str, tmp_path: Path) -> None:
    if not HIVE:
        pytest.skip("NOT RUN: this PySpark has no spark-hive among its jars, and so no metastore that lasts")
    assert run(tmp_path, "hive", "one", first) == {"otherwise": [], "kept": []}
    assert run(tmp_path, "hive", "two", second) == {"otherwise": [], "kept": KEPT}


def test_a_spark_whose_internals_have_moved_is_enabled_with_warnings(tmp_path: Path) -> None:
    """docs/migrating.md: `tahoe.sql` still runs Delta's statements. Without a warning, Spark's refusal of a statement
    would be a riddle.
    """
    found = said(tmp_path, "in-memory", [sys.executable, str(PROGRAMS / "moved.py"), str(tmp_path)])
    parser, *rules = sorted(found.pop("warnings"), key=lambda text: "parser" not in text)
    assert "tahoe.sql(spark, text)" in parser
    assert parser.endswith("(java.lang.NoSuchFieldException: sqlParser)")
    assert sorted(field for field in STATEMENTS_OF_RULES for text in rules if field in text) == sorted(
        STATEMENTS_OF_RULES
    )
    assert found == {"operations": ["DELETE", "WRITE", "WRITE"], "rows": [1, 2], "in a new session": 3}


def test_a_session_after_stop_is_enabled_anew(tmp_path: Path) -> None:
    program = """
        import pyarrow as pa, sys, tahoe
        from pyspark.sql import SparkSession

        def session():
            builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
            return tahoe.enable(builder.config("spark.sql.warehouse.dir", sys.argv[1] + "/warehouse").getOrCreate())

        tahoe.Table(sys.argv[1] + "/t").append(pa.table({"id": [1, 2]}))
        first = session()
        assert first.read.format("delta").load(sys.argv[1] + "/t").count() == 2
        first.stop()
        second = session()
        assert second.sql(f"SELECT count(*) FROM delta.`{sys.argv[1]}/t`").collect()[0][0] == 2
        second.stop()
        print("both")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.strip().endswith("both"), done.stderr[-3000:]
