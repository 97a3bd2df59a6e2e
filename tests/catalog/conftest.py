"""The databases in which the tests' catalogs are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.catalog.databases import postgresql, skip_without_programs

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    skip_without_programs()
    with postgresql() as url:
        yield url


@pytest.fixture
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Makes a new, empty database of a kind, and returns its url."""

    def make(kind: str) -> str:
        if kind == "sqlite":
            return f"sqlite:///{tmp_path}/lake.db"
        server: str = request.getfixturevalue("server")
        name = f"lake{next(_numbers)}"
        engine = sa.create_engine(f"{server}postgres", isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(sa.text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return server + name

    return make


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> str:
    """A new, empty database."""
    return new_database(request.param)
