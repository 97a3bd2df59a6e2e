"""What tests that start programs share."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def connect_port() -> Iterator[None]:
    """The port of a Connect server inside of its client's program, which is always 15002: one file of tests at a time."""
    with Path(tempfile.gettempdir(), "tahoe-tests-connect-port").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
