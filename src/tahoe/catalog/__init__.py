"""A catalog of tables in a database: their names, and the commits of those that it manages. Needs no Spark.

`Catalog` and `View` are imported on first use, because they need SQLAlchemy and Alembic.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tahoe.errors import PackageMissingError

if TYPE_CHECKING:
    from tahoe.catalog.catalog import Catalog
    from tahoe.catalog.views import View

__all__ = ["Catalog", "View"]

_MODULES = {"Catalog": "tahoe.catalog.catalog", "View": "tahoe.catalog.views"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = getattr(import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("sqlalchemy", "alembic"):
            raise
        package = error.name.partition(".")[0]
        raise PackageMissingError(table="tahoe.Catalog", what="a catalog", package=package) from error
    return found
