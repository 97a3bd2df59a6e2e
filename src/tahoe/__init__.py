"""Delta Lake tables in Python, with every row processed by Spark.

    import tahoe
    tahoe.enable(spark)                              # then format("delta") works, in Python and in SQL
    tahoe.Table("/data/flights").to_arrow()          # a small reader that needs no Spark

`errors` holds everything that is raised. The names are loaded when they are first used, so that nothing needs PySpark that does
not ask for it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import tahoe.sql as _sql
from tahoe import errors
from tahoe._version import VERSION

if TYPE_CHECKING:
    from tahoe.spark.session import configure, enable
    from tahoe.spark.sql import sql
    from tahoe.spark.tables import DeltaTable, DeltaTableBuilder
    from tahoe.table.snapshot import Snapshot
    from tahoe.table.table import Table

__version__ = VERSION

_FOUND_IN = {
    "Snapshot": "tahoe.table.snapshot",
    "Table": "tahoe.table.table",
    "configure": "tahoe.spark.session",
    "enable": "tahoe.spark.session",
    "DeltaTable": "tahoe.spark.tables",
    "DeltaTableBuilder": "tahoe.spark.tables",
}

__all__ = ["DeltaTable", "DeltaTableBuilder", "Snapshot", "Table", "__version__", "configure", "enable", "errors", "sql"]


def __getattr__(name: str) -> Any:
    if name in _FOUND_IN:
        return getattr(import_module(_FOUND_IN[name]), name)
    raise AttributeError(f"module 'tahoe' has no attribute {name!r}")


class _Sql(ModuleType):
    """The package `tahoe.sql`, which is also the function `tahoe.sql(spark, text)`: one name cannot hold both otherwise."""

    def __call__(self, spark: Any, sqlQuery: str, args: Any = None) -> Any:  # noqa: N803  PySpark's name
        return import_module("tahoe.spark.sql").sql(spark, sqlQuery, args)


sys.modules[_sql.__name__].__class__ = _Sql
