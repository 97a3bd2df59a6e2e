"""Tables in each store: the tests that authors of stores run."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest

from tahoe.testing.test_tables import *  # noqa: F403  the suite
from tests.storage.servers import Server

_folders = itertools.count()


@pytest.fixture(params=["local", "memory", *(pytest.param(name, marks=pytest.mark.server) for name in ("s3", "azure"))])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Server:
    """The storage of a test; one on this machine has no endpoint."""
    if request.param in ("local", "memory"):
        return Server(str(tmp_path) if request.param == "local" else f"memory://{tmp_path.name}", {}, "")
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def folder_url(server: Server) -> str:
    return f"{server.url}/tables {next(_folders)}/ü%41"


@pytest.fixture
def storage_options(server: Server) -> Mapping[str, str]:
    return server.options


@pytest.fixture
def store_module() -> None:
    return None
