"""What `tahoe.storage.env.Store` promises, asked of every store there is; and tables in them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tahoe.storage import open_store
from tahoe.storage.cache.block_cache import block_cache
from tahoe.storage.cache.cached_store import CachedStore
from tahoe.storage.coordinated import CoordinatedStore
from tahoe.storage.env import Store
from tahoe.storage.memory import MemoryCommitService, MemoryStore
from tahoe.testing.plugin import odd_names, store  # noqa: F401  fixtures
from tahoe.testing.test_store import *  # noqa: F403  the suite
from tests.storage.servers import Server

_folders = itertools.count()


@pytest.fixture(
    params=[
        "local",
        "memory",
        "coordinated",
        "cached",
        *(pytest.param(name, marks=pytest.mark.server) for name in ("s3", "azure", "coordinated_s3", "cached_s3")),
    ]
)
def open_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Opens one new folder, each time by a store object of its own."""
    name = f"t {next(_folders)}/ü%41"  # a folder's own name may be odd as well
    if request.param == "local":
        return lambda: open_store(tmp_path / name)
    if request.param == "memory":
        return lambda: open_store(f"memory://contract/{name}")
    if request.param == "coordinated":
        return lambda: CoordinatedStore(
            inner=open_store(f"memory://contract/{name}"), service=MemoryCommitService("contract")
        )
    if request.param == "cached":
        inner = MemoryStore(f"memory://contract/{name}")
        return lambda: CachedStore(inner=inner, realm="", blocks=block_cache(str(tmp_path / "cache"), 100 << 20, False))
    if request.param == "cached_s3":
        s3: Server = request.getfixturevalue("s3")
        return lambda: open_store(
            f"{s3.url}/{name}", s3.options, lambda: block_cache(str(tmp_path / "cache"), 100 << 20, False)
        )
    server: Server = request.getfixturevalue(request.param)
    return lambda: open_store(f"{server.url}/{name}", server.options)


def test_the_working_directory_does_not_matter_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path means the folder it meant when it was given."""
    monkeypatch.chdir(tmp_path)
    here = open_store("here")
    os.chdir("/")
    here.put("k", b"1")
    assert (tmp_path / "here" / "k").read_bytes() == b"1"
