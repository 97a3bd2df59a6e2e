"""The reference implementation is asked what the model of DML says: so the model is not only what we believe SQL to
be.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dml.engines import OfReference
from tests.dml.runner import MODES, Life
from tests.interop.reference import Reference

# The reference takes a second or two for a statement.
STATEMENTS = 6
FAULTS_MAX = 2


@pytest.mark.parametrize("mode", MODES)
def test_the_reference_does_what_the_model_says(mode: str, reference: Reference, tmp_path: Path) -> None:
    """The model says something else than the reference of rows, change feed, row ids or counts, and would ask it of
    us.
    """
    life = Life(OfReference(reference), tmp_path, mode, seed=1000)
    assert life.live(STATEMENTS) == STATEMENTS
    assert life.faults <= FAULTS_MAX
