"""The views of attached catalogs, as Spark makes and reads them. Spark 4.1 has none there.

A catalog may have another name in each session. So a view that was made under the name of its own catalog is kept
without that name.
"""

from __future__ import annotations

import json
from dataclasses import replace

from tahoe.errors import CatalogNameError, CatalogNameTakenError, CatalogViewNotFoundError, SchemaNotFoundError
from tahoe.spark.ddl.table_names import check_outside_of_block
from tahoe.spark.jvm.attached_catalogs import AttachedName, attached_catalog
from tahoe.spark.jvm.gateway import Gateway

# Settings that Spark keeps with a view, and that say which catalogs a session has, and not how the query is understood.
_OF_SESSION = ("spark.sql.catalog.", "spark.sql.defaultCatalog")


def told(gateway: Gateway, name: AttachedName) -> str | None:
    """A view as JSON, with the names under which the session knows its catalog and schema; None if there is none."""
    try:
        view = attached_catalog(gateway, name.catalog).view(name.within)
    except (CatalogViewNotFoundError, SchemaNotFoundError, CatalogNameError):
        return None
    if view.catalog is None:
        view = replace(view, catalog=name.catalog, namespace=view.namespace or (name.schema,))
    return view.to_json()


def exists(gateway: Gateway, name: AttachedName) -> bool:
    return told(gateway, name) is not None


def names(gateway: Gateway, catalog: str, schema: str) -> list[str]:
    return [view.partition(".")[2] for view in attached_catalog(gateway, catalog).views(schema)]


def make(gateway: Gateway, name: AttachedName, given: str, *, replaces: bool) -> bool:
    """Make or replace a view. Returns whether its name was free, or that of a view to replace.

    Raises:
        OperationNotAllowedError: the session is in a transaction.
    """
    from tahoe.catalog.views import View  # noqa: PLC0415 - needs SQLAlchemy

    check_outside_of_block(gateway, "CREATE VIEW", name.text)
    view = View.from_json(json.dumps({key: value for key, value in json.loads(given).items() if value is not None}))
    kept = {key: value for key, value in view.configurations.items() if not key.startswith(_OF_SESSION)}
    view = replace(view, configurations=kept)
    if view.catalog == name.catalog:
        view = replace(view, catalog=None)
    try:
        attached_catalog(gateway, name.catalog).create_view(name.within, view, replace=replaces)
    except CatalogNameTakenError:
        return False
    return True


def drop(gateway: Gateway, name: AttachedName) -> bool:
    """Returns whether there was a view.

    Raises:
        OperationNotAllowedError: the session is in a transaction.
    """
    check_outside_of_block(gateway, "DROP VIEW", name.text)
    try:
        attached_catalog(gateway, name.catalog).drop_view(name.within)
    except CatalogViewNotFoundError:
        return False
    return True
