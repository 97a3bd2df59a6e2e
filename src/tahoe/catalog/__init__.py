"""A catalog of tables in a database: their names, and the commits of those that it manages. Needs no Spark.

`Catalog` is imported on first use, because it needs SQLAlchemy and Alembic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tahoe.errors import PackageMissingError

if TYPE_CHECKING:
    from tahoe.catalog.catalog import Catalog

__all__ = ["Catalog"]


def __getattr__(name: str) -> Any:
    if name != "Catalog":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from tahoe.catalog.catalog import Catalog as found  # noqa: N813, PLC0415
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("sqlalchemy", "alembic"):
            raise
        package = error.name.partition(".")[0]
        raise PackageMissingError(table="tahoe.Catalog", what="a catalog", package=package) from error
    return found
