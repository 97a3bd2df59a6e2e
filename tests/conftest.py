"""What all suites share."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Machines are shared: how long an example takes says nothing. The slow proofs run with more examples by `--hypothesis-profile=thorough`.
_patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("sample", max_examples=20, **_patient)
settings.register_profile("quick", max_examples=60, **_patient)
settings.register_profile("thorough", max_examples=2000, **_patient)
settings.load_profile("quick")

# For JVMs that live for minutes and load much code: the fast compiler alone, with room for all that it makes, and no collection before
# classes fill a memory that is there. For the session of the suite, and for all programs that tests start.
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m -XX:+UseSerialGC -XX:MetaspaceSize=512m"
# Spark's classes as scripts/archive-classes has kept them. The JVM would print why it cannot use an archive.
_ARCHIVE = Path(sys.prefix, "classes.jsa")
if _ARCHIVE.exists():
    _OPTIONS += f" -XX:SharedArchiveFile={_ARCHIVE} -Xlog:disable"
os.environ.setdefault("SPARK_SUBMIT_OPTS", _OPTIONS)


# The folders whose tests start Spark.
SPARK = ("tests/spark/", "tests/interop/", "tests/programs/")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select cases of the tests that start Spark.

    With TAHOE_EVERY=3, each of these tests runs with a third of its cases, beginning with the first. TAHOE_TURN=1 begins with the second,
    and TAHOE_TURN=2 with the third. A test that has fewer cases runs with one of them. Tests marked `every_case` run with all.
    """
    every, turn = int(os.environ.get("TAHOE_EVERY", "1")), int(os.environ.get("TAHOE_TURN", "0"))
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out: set[pytest.Item] = set()
    for name, cases in tests.items():
        if name.startswith(SPARK) and not cases[0].get_closest_marker("every_case"):
            left_out |= set(cases) - set(cases[turn % min(every, len(cases)) :: every])
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


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
