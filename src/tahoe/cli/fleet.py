"""The tables that `tahoe report` and `tahoe maintain` are about: those below a folder, or in a catalog."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

import tahoe
from tahoe.cli.app import options_of
from tahoe.table.fleet.fleet import NamedTable, tables_below

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
        typer.BadParameter: neither or both are given, or there is no table.
    """
    if (path is None) == (catalog is None):
        raise typer.BadParameter("give a path or --catalog", param_hint="PATH")
    options = options_of(option)
    if catalog is not None:
        from tahoe.catalog import Catalog  # noqa: PLC0415 - an extra

        known = Catalog(catalog, storage_options=options)
        found = [NamedTable(entry.name, partial(known.table, entry.name)) for entry in known.tables()]
    else:
        found = tables_below(tahoe.Table(str(path), options), lambda url: tahoe.Table(url, options))
    if not found:
        place = "the catalog" if path is None else f"{path} and the folders below it"
        raise typer.BadParameter(f"there is no Delta table in {place}", param_hint="PATH")
    return found
