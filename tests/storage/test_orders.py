"""The short runs of the exploration and of the simulation that authors of stores have, on stores of our own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tahoe.storage import open_store
from tahoe.storage.env import Store
from tahoe.testing.test_lives import *  # noqa: F403  the suite
from tahoe.testing.test_orders import *  # noqa: F403  the suite
from tests import sample

_SECONDS = sample.number("TAHOE_STORE_SECONDS", quick=2, ci=20, full=60)


@pytest.fixture(params=["local", "memory"])
def folder_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{tmp_path}/t" if request.param == "local" else f"memory://{tmp_path.name}"


@pytest.fixture
def open_url() -> Callable[[str], Store]:
    return open_store


@pytest.fixture
def store_seconds() -> float:
    return float(_SECONDS)
