"""What all suites share."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Machines are shared: how long an example takes says nothing. The slow proofs run with more examples by `--hypothesis-profile=thorough`.
_patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=60, **_patient)
settings.register_profile("thorough", max_examples=2000, **_patient)
settings.load_profile("quick")

# For JVMs that live for minutes and load much code: the fast compiler alone, with room for all that it makes, and no collection before
# classes fill a memory that is there. For the session of the suite, and for all programs that tests start.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m -XX:+UseSerialGC -XX:MetaspaceSize=512m")


# The folders whose tests start Spark.
SPARK = ("tests/spark/", "tests/interop/", "tests/programs/")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select cases of the tests that start Spark.

    With TAHOE_EVERY=3, each of these tests runs with a third of its cases; tests marked `every_case` run with all of them. With
    TAHOE_TURN=1/2, every second test of tests/spark runs, and with 2/2 the others, so that two runs share them.
    """
    every = int(os.environ.get("TAHOE_EVERY", "1"))
    turn, turns = map(int, os.environ.get("TAHOE_TURN", "1/1").split("/"))
    numbers: dict[str, int] = {}
    cases: Counter[str] = Counter()
    kept, left_out = [], []
    for item in items:
        test = item.nodeid.partition("[")[0]
        is_its_turn = not test.startswith("tests/spark/") or numbers.setdefault(test, len(numbers)) % turns == turn - 1
        is_whole = not test.startswith(SPARK) or item.get_closest_marker("every_case")
        (kept if is_its_turn and (is_whole or cases[test] % every == 0) else left_out).append(item)
        cases[test] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """How long each folder's tests took, summed over the processes that share them."""
    yield
    seconds: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for reports in list(terminalreporter.stats.values()):
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = report.nodeid.partition("::")[0].rpartition("/")[0]
                seconds[folder] += report.duration
                counts[folder] += report.when == "call"
    if len(seconds) > 1:
        terminalreporter.section("time per folder")
        for folder, total in seconds.most_common():
            terminalreporter.line(f"{folder:<20} {counts[folder]:>6} tests {total:>8.0f} s")
