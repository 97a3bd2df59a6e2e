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
from tahoe.testing.plugin import odd_names, open_folder, store  # noqa: F401  fixtures
from tahoe.testing.test_store import *  # noqa: F403  the suite
from tests.storage.servers import Server

_folders = itertools.count()


Opens = Callable[[str], Store]


@pytest.fixture(
    params=[
        "local",
        "memory",
        "coordinated",
        "cached",
        *(pytest.param(name, marks=pytest.mark.server) for name in ("s3", "azure", "coordinated_s3", "cached_s3")),
    ]
)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Opens]:
    """The url of a storage, and what opens a folder in it."""
    blocks = block_cache(str(tmp_path / "cache"), 100 << 20, False)
    in_memory: dict[str, Opens] = {
        "memory": open_store,
        "coordinated": lambda url: CoordinatedStore(inner=open_store(url), service=MemoryCommitService("contract")),
        "cached": lambda url: CachedStore(inner=MemoryStore(url), realm="", blocks=blocks),
    }
    if request.param == "local":
        return str(tmp_path / "lake"), open_store
    if request.param in in_memory:
        return "memory://contract", in_memory[request.param]
    server: Server = request.getfixturevalue("s3" if request.param == "cached_s3" else request.param)
    if request.param == "cached_s3":
        return server.url, lambda url: open_store(url, server.options, lambda: blocks)
    return server.url, lambda url: open_store(url, server.options)


@pytest.fixture
def open_url(storage: tuple[str, Opens]) -> Opens:
    return storage[1]


@pytest.fixture
def folder_url(storage: tuple[str, Opens]) -> str:
    """Of a new folder, whose own name may be odd as well."""
    return f"{storage[0]}/t {next(_folders)}/ü%41"


def test_the_working_directory_does_not_matter_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path means the folder it meant when it was given."""
    monkeypatch.chdir(tmp_path)
    here = open_store("here")
    os.chdir("/")
    here.put("k", b"1")
    assert (tmp_path / "here" / "k").read_bytes() == b"1"
