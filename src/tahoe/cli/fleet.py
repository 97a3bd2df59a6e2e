"""The tables that `tahoe report` and `tahoe maintain` are about: those below a folder, or in a catalog."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

import tahoe
from tahoe.cli.app import options_of
from tahoe.table.fleet.fleet import NamedTable, tables_below

# Of a catalog in a file.
_SQLITE = "sqlite:///"

Folder = Annotated[
    str | None,
    typer.Argument(metavar="PATH", help="Path or URL of a table, or of a folder with tables.", show_default=False),
]
CatalogUrl = Annotated[
    str | None, typer.Option("--catalog", metavar="URL", help="All tables of this catalog: sqlite:///lake.db, ...")
]


def named_tables(path: str | None, catalog: str | None, option: list[str] | None) -> list[NamedTable]:
    """The tables below a folder, or in a catalog.

    Raises:
        typer.BadParameter: neither or both are given, there is no such database, or there is no table.
    """
    if (path is None) == (catalog is None):
        raise typer.BadParameter("give a path or --catalog", param_hint="PATH")
    options = options_of(option)
    if catalog is not None:
        _check_database(catalog)
        from tahoe.catalog import Catalog  # noqa: PLC0415 - an extra

        known = Catalog(catalog, storage_options=options)
        found = [NamedTable(entry.name, partial(known.table, entry.name)) for entry in known.tables()]
    else:
        found = tables_below(tahoe.Table(str(path), options), lambda url: tahoe.Table(url, options))
    if not found:
        place = "the catalog" if path is None else f"{path} and the folders below it"
        raise typer.BadParameter(f"there is no Delta table in {place}", param_hint="PATH")
    return found


def _check_database(url: str) -> None:
    """Check that the file of a catalog is there, since opening it would make one."""
    file = url.removeprefix(_SQLITE).partition("?")[0]
    if url.startswith(_SQLITE) and not Path(file).exists():
        raise typer.BadParameter(f"there is no file {file}", param_hint="--catalog")
