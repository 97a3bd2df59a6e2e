"""The plugin of pytest with the options of the tests, and the folders that they work in."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from importlib import import_module

import pytest

from tahoe.storage import open_store
from tahoe.storage.env import Store
from tahoe.testing.names import ODD_NAMES


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tahoe")
    group.addoption("--store-url", help="A folder for the tests; they make folders with random names in it.")
    group.addoption("--store-option", action="append", default=[], metavar="KEY=VALUE", help="A storage option.")
    group.addoption("--store-module", help="The module that registers the store, if no entry point does.")
    group.addoption(
        "--store-seconds",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="How long orders of calls and lives of tables are tried out (60).",
    )


@pytest.fixture(scope="session")
def store_module(request: pytest.FixtureRequest) -> str | None:
    """The module that registers the store, which is imported; None if an entry point registers it."""
    name: str | None = request.config.getoption("--store-module")
    if name is not None:
        import_module(name)
    return name


@pytest.fixture(scope="session")
def storage_options(request: pytest.FixtureRequest) -> Mapping[str, str]:
    return dict(text.split("=", 1) for text in request.config.getoption("--store-option"))


@pytest.fixture(scope="session")
def store_seconds(request: pytest.FixtureRequest) -> float:
    """How long the explorations and the simulation take in all."""
    return float(request.config.getoption("--store-seconds"))


@pytest.fixture
def folder_url(request: pytest.FixtureRequest) -> str:
    """The url of a folder that does not exist yet, with an odd name."""
    request.getfixturevalue("store_module")
    url = request.config.getoption("--store-url")
    if url is None:
        pytest.fail("expected --store-url URL, a folder for the tests in the store", pytrace=False)
    return f"{url.rstrip('/')}/{uuid.uuid4().hex} ü%41"


@pytest.fixture
def open_url(storage_options: Mapping[str, str]) -> Callable[[str], Store]:
    """Opens a folder by its url."""
    return lambda url: open_store(url, storage_options)


@pytest.fixture
def open_folder(folder_url: str, open_url: Callable[[str], Store]) -> Callable[[], Store]:
    """Opens the new folder, each time by a store object of its own."""
    return lambda: open_url(folder_url)


@pytest.fixture
def odd_names() -> list[str]:
    """Names of files that the storage can have. A store that lacks some of them overrides this."""
    return ODD_NAMES


@pytest.fixture
def store(open_folder: Callable[[], Store]) -> Store:
    return open_folder()
