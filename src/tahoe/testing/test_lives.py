"""Lives of a table in the store, which fails as storages do: requests without an answer, writers that die, listings
that lack what is new. The sum over all accounts stays, and what a writer was told to have committed is there.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable
from functools import partial

import pytest

from tahoe.storage.env import Store
from tahoe.testing.simulator import live


def test_the_total_never_changes(
    folder_url: str, open_url: Callable[[str], Store], store_seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "tahoe")  # failures of upkeep are what is simulated
    ends = time.monotonic() + store_seconds / 2
    for seed in itertools.count():
        life = live(seed, open_folder=partial(open_url, f"{folder_url}/{seed}"))
        assert not life.violations, f"life {seed}: {life.violations}"
        if time.monotonic() > ends:
            break
    print(f"{seed + 1} lives")
