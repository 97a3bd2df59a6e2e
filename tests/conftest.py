"""What all suites share."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import sample

# Machines are shared: how long an example takes says nothing. `--hypothesis-profile=thorough` tries more examples.
_patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=20, **_patient)
settings.register_profile("ci", max_examples=60, **_patient)
settings.register_profile("full", max_examples=60, **_patient)
settings.register_profile("thorough", max_examples=2000, **_patient)
settings.load_profile(sample.MODE)

# For JVMs that live for minutes and load much code: the fast compiler alone, with room for all that it makes, and no
# collection before classes fill a memory that is there. For the session of the suite, and for all programs that tests
# start.
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m -XX:+UseSerialGC -XX:MetaspaceSize=512m"
# Spark's classes as scripts/archive-classes has kept them. The JVM would print why it cannot use an archive.
_ARCHIVE = Path(sys.prefix, "classes.jsa")
if _ARCHIVE.exists():
    _OPTIONS += f" -XX:SharedArchiveFile={_ARCHIVE} -Xlog:disable"
os.environ.setdefault("SPARK_SUBMIT_OPTS", _OPTIONS)


# How many cases of the sampled folders were selected, and how many there are.
_selected = [0, 0]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select cases of the tests that start programs.

    If a test runs with a third of its cases, it begins with the first of them; TAHOE_TURN=1 begins with the second, and
    TAHOE_TURN=2 with the third. A test that has fewer cases runs with one of them. Tests marked `every_case` run with
    all.
    """
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out: set[pytest.Item] = set()
    for name, cases in tests.items():
        one_in = next((one_in for folder, one_in in sample.ONE_CASE_IN.items() if name.startswith(folder)), 1)
        if one_in > 1:
            is_whole = cases[0].get_closest_marker("every_case")
            chosen = cases if is_whole else cases[sample.TURN % min(one_in, len(cases)) :: one_in]
            left_out |= set(cases) - set(chosen)
            _selected[:] = _selected[0] + len(chosen), _selected[1] + len(cases)
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    if hasattr(config, "workeroutput"):  # a process of pytest-xdist: only these collect the tests
        config.workeroutput["selected"] = _selected


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Every process has selected the same."""
    _selected[:] = getattr(node, "workeroutput", {}).get("selected", _selected)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Note the cases inside a test."""
    sample.counted[:] = 0, 0
    yield
    if sample.counted[1]:
        item.user_properties.append(("cases", tuple(sample.counted)))


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """How long each folder's tests took, summed over the processes that share them, and how many of the cases ran."""
    yield
    seconds: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    inside = [0, 0]
    for reports in list(terminalreporter.stats.values()):
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = report.nodeid.partition("::")[0].rpartition("/")[0]
                seconds[folder] += report.duration
                counts[folder] += report.when == "call"
                cases = dict(report.user_properties).get("cases", (0, 0)) if report.when == "call" else (0, 0)
                inside = [total + number for total, number in zip(inside, cases, strict=True)]
    if len(seconds) > 1:
        terminalreporter.section("time per folder")
        for folder, total in seconds.most_common():
            terminalreporter.line(f"{folder:<20} {counts[folder]:>6} tests {total:>8.0f} s")
    for what, (ran, of) in {"of tests that start programs": _selected, "inside tests": inside}.items():
        if of:
            terminalreporter.line(f"cases {what}: {ran:,} of {of:,}")
