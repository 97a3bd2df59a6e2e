"""What all suites share."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

# Machines are shared: how long an example takes says nothing. The slow proofs run with more examples by `--hypothesis-profile=thorough`.
_patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=60, **_patient)
settings.register_profile("thorough", max_examples=2000, **_patient)
settings.load_profile("quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With TAHOE_EVERY=3, a third of the cases of each test: every test runs, and not every case."""
    every = int(os.environ.get("TAHOE_EVERY", "1"))
    seen: Counter[str] = Counter()
    left_out = []
    for item in items:
        if "[" in item.nodeid:
            test = item.nodeid.partition("[")[0]
            if seen[test] % every:
                left_out.append(item)
            seen[test] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
