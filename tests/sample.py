"""Which cases run: a mode for the whole run. docs/TESTING.md, "Which cases run", has the rules.

Tests that start programs are sampled by `tests/conftest.py`. The functions here select cases inside a test. How many
cases ran, and of how many, is printed at the end.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TypeVar

Case = TypeVar("Case")

MODE = os.environ.get("TAHOE_MODE", "full")
if MODE not in ("quick", "ci", "full"):
    raise ValueError(f"TAHOE_MODE is {MODE!r}: set it to quick, ci or full")

# Which case of each test is the first.
TURN = int(os.environ.get("TAHOE_TURN", "0"))

# A target for one slow proof, such as `make explore`, runs all of it.
IS_PROOF = "TAHOE_PROOF" in os.environ

NEWEST_SPARK = "4.3"
# Natively the newest is the one that Comet has a build for. `make next-spark` compares all cases.
_AS_NEWEST = {"TAHOE_NATIVE", "TAHOE_NEXT_SPARK"}
_IS_OLDER_SPARK = not _AS_NEWEST & set(os.environ) and not version("pyspark").startswith(NEWEST_SPARK)

# So many that each test runs with one of its cases.
_ONE = 1000

# One case in how many of each test runs, by the folder of the tests that start programs: with the newest Spark, and
# with older ones.
_NEWEST: Mapping[str, Mapping[str, int]] = {
    "quick": {
        "tests/spark/": _ONE,
        "tests/interop/": _ONE,
        "tests/programs/": _ONE,
        "tests/browser/": _ONE,
        "tests/processes/": _ONE,
        "tests/exploration/": _ONE,
    },
    "ci": {"tests/spark/": 8, "tests/interop/": 20, "tests/programs/": 8},
    "full": {},
}
_OLDER: Mapping[str, Mapping[str, int]] = {
    "quick": _NEWEST["quick"],
    "ci": _NEWEST["quick"],
    "full": {"tests/spark/": 3, "tests/programs/": 3},
}
ONE_CASE_IN = (_OLDER if _IS_OLDER_SPARK else _NEWEST)[MODE]

# Sweeps inside tests are short, and Spark interprets most expressions.
IS_SHORT = MODE == "quick" or (MODE == "ci" and _IS_OLDER_SPARK)

# What Spark generates for a few rows is compiled longer than it runs.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}

# The cases of the running test: how many of them ran, and how many there are.
counted = [0, 0]


def settings_of_spark(test: str) -> dict[str, str]:
    """The settings of the session in a test. In a short run Spark interprets expressions in two tests of three, by
    their names.
    """
    return INTERPRETED if IS_SHORT and zlib.crc32(test.encode()) % 3 else {}


def number(variable: str, *, quick: int, ci: int, full: int) -> int:
    """How many cases a test draws: as a variable says, otherwise by the mode; on older Sparks never all of them."""
    return int(os.environ.get(variable, quick if IS_SHORT else ci if MODE == "ci" or _IS_OLDER_SPARK else full))


def step(one_in: int) -> int:
    """The step through the cases of a test: `one_in` in a short run, elsewhere 1."""
    return one_in if IS_SHORT else 1


def count(ran: int, of: int) -> None:
    """Count cases inside a test."""
    counted[0] += ran
    counted[1] += of


def part(cases: Sequence[Case], one_in: int, first: int = 0) -> Sequence[Case]:
    """In a short run one case in `one_in`, beginning with the case of the number `first`; elsewhere all of them."""
    chosen = cases[(first + TURN) % one_in :: one_in] if IS_SHORT else cases
    count(len(chosen), len(cases))
    return chosen
