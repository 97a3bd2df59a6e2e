"""DELETE, UPDATE and MERGE without Spark do what the model says: random tables, random statements, under every kind of
table.

TAHOE_DML_CASES is how many statements there are in all; TAHOE_DML_SEED is where the seeds begin. A failure prints its
mode and seed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import sample
from tests.dml.arrow_engine import OnArrow
from tests.dml.runner import MODES, STATEMENTS, lives

CASES = sample.number("TAHOE_DML_CASES", quick=80, ci=480, full=480)
FIRST_SEED = int(os.environ.get("TAHOE_DML_SEED", "0"))


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.replace(", ", "-").replace(" ", "-"))
def test_statements_equal_the_model(mode: str, tmp_path: Path) -> None:
    """Rows are lost, doubled or changed otherwise than the statement says; or the feed, the ids or the history say
    something else.
    """
    seeds = range(FIRST_SEED, FIRST_SEED + max(1, CASES // (len(MODES) * STATEMENTS)))
    assert sum(lives(OnArrow(), tmp_path, mode, seeds)) == len(seeds) * STATEMENTS
