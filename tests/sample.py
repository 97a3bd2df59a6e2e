"""Which cases run: all, or a sample. docs/TESTING.md, "Which cases run", has the rules.

TAHOE_EVERY and TAHOE_TURN select cases of the tests that start programs; `tests/conftest.py` reads them. The functions here select cases
inside a test. How many cases ran, and of how many, is printed at the end.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")

EVERY, TURN = int(os.environ.get("TAHOE_EVERY", "1")), int(os.environ.get("TAHOE_TURN", "0"))

# So many that each test runs with one of its cases: `make test`.
IS_SHORT = EVERY >= 1000

# What Spark generates for a few rows is compiled longer than it runs, so `make test` lets it interpret expressions.
SETTINGS_OF_SPARK = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"} if IS_SHORT else {}

# The cases of the running test: how many of them ran, and how many there are.
counted = [0, 0]


def step(one_in: int) -> int:
    """The step through the cases of a test: `one_in` in `make test`, elsewhere 1."""
    return one_in if IS_SHORT else 1


def count(ran: int, of: int) -> None:
    """Count cases inside a test."""
    counted[0] += ran
    counted[1] += of


def part(cases: Sequence[Case], one_in: int, first: int = 0) -> Sequence[Case]:
    """In `make test` one case in `one_in`, beginning with the case of the number `first`; elsewhere all of them."""
    chosen = cases[(first + TURN) % one_in :: one_in] if IS_SHORT else cases
    count(len(chosen), len(cases))
    return chosen
