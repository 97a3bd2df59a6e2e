"""DELETE, UPDATE and MERGE do what the model says: random tables, random statements, under every kind of table.

TAHOE_DML_CASES is how many statements there are in all; TAHOE_DML_SEED is where the seeds begin. A failure prints its
mode and seed:

    TAHOE_DML_CASES=80 TAHOE_DML_SEED=42 pytest "tests/spark/test_dml_model.py" -k "copies-feed"

runs one life in each mode that is chosen, from the seed 42 on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests import sample
from tests.dml.engines import Tahoe
from tests.dml.runner import MODES, STATEMENTS, lives

CASES = sample.number("TAHOE_DML_CASES", quick=80, ci=130, full=1040)
FIRST_SEED = int(os.environ.get("TAHOE_DML_SEED", "0"))

# A command on a small table is mostly waiting for the driver: two tables at a time take less than twice the time of
# one.
THREADS = 2

# The modes in which Spark compiles its plans; for tables this small that is half of the work, and in the others plans
# are interpreted.
COMPILED = ("vectors", "copies", "everything")
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


@pytest.fixture
def session(mode: str, spark: SparkSession) -> Iterator[SparkSession]:
    settings = {} if mode in COMPILED else INTERPRETED
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name in settings:
        spark.conf.unset(name)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.replace(", ", "-").replace(" ", "-"))
def test_statements_equal_the_model(mode: str, session: SparkSession, tmp_path: Path) -> None:
    """Rows are lost, doubled or changed otherwise than the statement says; or the feed, the ids or the history say
    something else.
    """
    engine = Tahoe(session)
    seeds = range(FIRST_SEED, FIRST_SEED + max(1, CASES // (len(MODES) * STATEMENTS)))

    def live(seeds: range) -> int:
        return sum(lives(engine, tmp_path, mode, seeds))

    with ThreadPoolExecutor(THREADS) as pool:
        done = sum(pool.map(live, [seeds[i::THREADS] for i in range(THREADS)]))
    assert done == len(seeds) * STATEMENTS
