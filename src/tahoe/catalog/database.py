"""Opens the database of a catalog, and brings its tables to the newest schema.

SQLite serves one machine, PostgreSQL many. A database that a newer tahoe has upgraded is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from tahoe.errors import CatalogUnavailableError, CatalogUrlError, NewerCatalogError

MIGRATIONS = Path(__file__).with_name("migrations")

# So long a writer of SQLite waits for another one.
_BUSY_SECONDS = 60

# The execution option of connections of SQLite that only read.
_READS = "reads"

# Options of drivers whose values are not shown.
_SECRET = re.compile("pass|secret|token", re.IGNORECASE)

# Any number, the same for all: PostgreSQL's lock of those who upgrade.
_UPGRADE_LOCK = 7_361_915


def open_database(url: str) -> sa.Engine:
    """The engine of a database, whose tables have the newest schema.

    Args:
        url: as SQLAlchemy has it: `sqlite:///lake.db`, `postgresql+psycopg://host/lake`.

    Raises:
        CatalogUrlError: the url is none, or its driver is not installed.
        CatalogUnavailableError: the database cannot be reached.
        NewerCatalogError: a newer tahoe has upgraded it.
    """
    try:
        engine = sa.create_engine(url, pool_pre_ping=True, **_settings(url))
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise CatalogUrlError(url=_without_password(url), detail=str(error)) from error
    except ValueError as error:
        raise CatalogUrlError(url=_without_password(url), detail="its port is no number") from error
    if engine.dialect.name == "sqlite":
        if engine.url.database in (None, "", ":memory:"):
            raise CatalogUrlError(
                url=url, detail="it names no file, and a database in memory is one of a single thread"
            )
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_at_once)
    with transaction(engine) as connection:
        _upgrade(connection)
    return engine


def folder_beside(engine: sa.Engine) -> str | None:
    """The folder for tables beside a database that is a file; None for others."""
    is_file = engine.dialect.name == "sqlite"
    return f"{Path(engine.url.database).absolute()}.tables" if is_file and engine.url.database else None


@contextmanager
def transaction(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction of the database.

    Raises:
        CatalogUnavailableError: the database cannot be reached, or fails. Whether the transaction was committed is then
            not known.
    """
    try:
        with engine.begin() as connection:
            yield connection
    except (DBAPIError, PoolTimeoutError) as error:
        raise _unavailable(engine, error) from error


@contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A connection for statements that read, each by itself. It waits for no writer.

    Raises:
        CatalogUnavailableError: the database cannot be reached, or fails.
    """
    how = {_READS: True} if engine.dialect.name == "sqlite" else {"isolation_level": "AUTOCOMMIT"}
    try:
        with engine.connect().execution_options(**how) as connection:
            yield connection
    except (DBAPIError, PoolTimeoutError) as error:
        raise _unavailable(engine, error) from error


def _unavailable(engine: sa.Engine, error: DBAPIError | PoolTimeoutError) -> CatalogUnavailableError:
    detail = error.orig if isinstance(error, DBAPIError) else error  # or too many wait for a connection
    return CatalogUnavailableError(url=shown(engine.url), detail=str(detail))


def _settings(url: str) -> dict[str, Any]:
    return {"connect_args": {"timeout": _BUSY_SECONDS}} if url.startswith("sqlite") else {}


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions begin where `_begin_at_once` begins them
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_at_once(connection: sa.Connection) -> None:
    """A transaction that reads first and then writes must not find that another one has written in between."""
    connection.exec_driver_sql("BEGIN" if _READS in connection.get_execution_options() else "BEGIN IMMEDIATE")


def _upgrade(connection: sa.Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _UPGRADE_LOCK})
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    found = MigrationContext.configure(connection).get_current_revision()
    if found is not None and found not in known:
        raise NewerCatalogError(url=shown(connection.engine.url), revision=found, known=max(known))
    command.upgrade(config, "head")


def shown(url: sa.URL) -> str:
    """A database's url without passwords: drivers take them among the options, too."""
    hidden = {name: "..." for name in url.query if _SECRET.search(name)}
    return url.update_query_dict(hidden).render_as_string(hide_password=True)


def _without_password(url: str) -> str:
    try:
        return shown(sa.make_url(url))
    except (ArgumentError, ValueError):
        return re.sub(r":.*@", ":***@", url)
